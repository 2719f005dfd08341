"""NumPy arrays as memory the library can use: inputs, outputs, data types, and reductions it lacks.

The library sees contiguous, aligned memory in the machine's byte order. An input that is anything
else is copied; an output that is anything else gets a stand-in that is copied back, so that every
collective takes the same arrays. Arrays that would lose something on the way (masks, Python
objects) are refused with the line to write instead.
"""

from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np

from ._comm import check_op
from ._lib import DTYPES, LOGIC

Array = np.ndarray


def _numpy_name(name: str) -> str:
    """NumPy's name of a data type of the library: f32 is float32."""
    words = {"bf": "bfloat", "f": "float", "i": "int", "u": "uint"}
    kind = name.rstrip("0123456789")
    return words[kind] + name[len(kind) :]


_NAMES: Dict[str, str] = {_numpy_name(name): name for name in DTYPES}
# Sums of these are sums of what they look like to the library: (type, elements of it per element).
_SUMS = {
    "complex64": ("f32", 2),
    "complex128": ("f64", 2),
}
_FOLDS: Dict[str, Any] = {
    "sum": np.add, "avg": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum,
    "band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor,
    "land": np.logical_and, "lor": np.logical_or, "lxor": np.logical_xor,
}  # fmt: skip


# ---- checks ----


def _check_kind(a: Array) -> Array:
    if isinstance(a, np.ma.MaskedArray):
        raise TypeError("a masked array: its mask would be lost; send a.filled(value), or a.data and a.mask one by one")
    if a.dtype.hasobject:
        raise TypeError(f"{a.dtype} holds Python objects, which cannot be sent: convert it, e.g. a.astype('f8')")
    return a


def _check_reducible(dtype: Any, op: str) -> None:
    if dtype.names is not None:
        raise TypeError("no reductions on structured arrays: reduce their fields one by one, a['name']")
    if dtype.kind in "mM":
        raise TypeError(f"no reductions on {dtype.name}: reduce a.view('i8')")
    if dtype.kind not in "biufc" and dtype.name not in _NAMES:
        raise TypeError(f"no reductions on {dtype}: numbers and bool are reduced")
    if op in LOGIC and dtype.kind not in "biu":
        raise TypeError(f"no {op} of {dtype.name}: integers and bool have bits; compare first, e.g. a != 0")
    if dtype.kind == "c" and op in ("min", "max"):
        raise TypeError(f"no {op} of {dtype.name}: complex numbers have no order; reduce a.real and a.imag, or abs(a)")
    if dtype.kind == "b" and op == "avg":
        raise TypeError("no avg of bool: a.astype('f4') has one; sum is 'any', prod is 'all'")


# ---- memory ----


def _plain(a: Array) -> bool:
    return bool(a.flags.c_contiguous and a.flags.aligned and a.dtype.isnative)


def _ordinary(a: Array) -> Array:
    """The same elements in memory the library can use."""
    return a if _plain(a) else np.require(a, a.dtype.newbyteorder("="), ["C_CONTIGUOUS", "ALIGNED"])


def source(x: Any) -> Array:
    """An input: anything NumPy can view; copied when it has to be."""
    kept = x if isinstance(x, np.ndarray) else np.asarray(x)
    return np.asarray(_ordinary(_check_kind(kept)))


def place(x: Any, name: str) -> Array:
    """An array of the caller's to write into: a NumPy array, or what NumPy can view without
    copying."""
    a = x if isinstance(x, np.ndarray) else np.asarray(x)
    if a is not x and a.base is None:
        raise TypeError(f"{name} is a {type(x).__name__}, which cannot be written into: pass an array, e.g. np.array({name})")
    _check_kind(a)
    if not a.flags.writeable:
        raise ValueError(f"{name} is read-only and would be written into: pass a copy, {name}.copy()")
    if a.nbytes and any(step == 0 and n > 1 for step, n in zip(a.strides, a.shape)):
        raise ValueError(f"{name} has several elements in one place, which would overwrite each other: pass a copy, {name}.copy()")
    return a


class Target:
    """Where a result goes: `block` is what the library writes; done() returns what the caller gave.
    """

    def __init__(self, real: Array) -> None:
        self.real = real
        self.block = _ordinary(real)

    def done(self) -> Array:
        """The result, where the caller wants it."""
        if self.block is not self.real:
            self.real[...] = self.block.reshape(self.real.shape)
        return self.real


def target(out: Optional[Any], shape: Sequence[int], dtype: Any) -> Target:
    """`out` when it fits, a new array when there is none."""
    want = np.dtype(dtype).newbyteorder("=")
    if out is None:
        return Target(np.empty(tuple(shape), want))
    a = place(out, "out")
    if a.dtype.newbyteorder("=") != want or a.size != int(np.prod(tuple(shape), dtype=np.int64)):
        raise ValueError(f"out is {a.shape} of {a.dtype}: {tuple(shape)} of {want} is needed")
    return Target(a)


def fixed(x: Any, name: str) -> Array:
    """An array that the library writes to again and again: no stand-in can take its place."""
    a = place(x, name)
    if not _plain(a):
        raise ValueError(f"{name} must be contiguous and in native byte order: use an array np.empty(shape, dtype.newbyteorder('=')) and copy from it afterwards")
    return a


def apart(a: Array, b: Array) -> Array:
    """The input `a`, copied when it overlaps the output `b` without being the same memory."""
    same = at(a) == at(b) and a.nbytes == b.nbytes
    return a.copy() if not same and np.may_share_memory(a, b) else a


def at(a: Array) -> int:
    """Its address."""
    return a.ctypes.data


# ---- data types and reductions ----


def unit(dtype: Any) -> Tuple[int, str]:
    """(n, type): one element moves as n of the library's; bytes where it does not know the type."""
    name = _NAMES.get(dtype.name)
    return (1, name) if name else (dtype.itemsize, "u8")


def movable(a: Array) -> Tuple[int, str]:
    """(count, type) for what only moves data."""
    n, name = unit(a.dtype)
    return a.size * n, name


def reducible(dtype: Any, op: str) -> Optional[Tuple[int, str]]:
    """(n, type) as `unit`, for a reduction; None: the library cannot, gather and fold(). Raises
    where there is none."""
    check_op(op)
    _check_reducible(dtype, op)
    if dtype.name in _NAMES:
        return 1, _NAMES[dtype.name]
    seen = _SUMS.get(dtype.name)
    if seen and op in ("sum", "avg"):
        return seen[1], seen[0]
    return None


def _mean_of_integers(parts: Array) -> Array:
    """Rounded toward zero; sums are Python's integers, which do not overflow."""
    total, n = parts.astype(object).sum(axis=0), len(parts)
    return (np.sign(total) * (abs(total) // n)).astype(parts.dtype)


def fold(parts: Array, op: str) -> Array:
    """The reduction of parts[0], parts[1], ... in rank order, as NumPy computes it in their own
    type."""
    if op == "avg" and parts.dtype.kind in "iu":
        return _mean_of_integers(parts)
    total = parts[0].copy()
    for part in parts[1:]:
        total = _FOLDS[op](total, part)
    return total / parts.dtype.type(len(parts)) if op == "avg" else total
