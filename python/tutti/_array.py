"""`Communicator`: collectives on NumPy arrays (and what NumPy can view: buffers, CPU tensors)."""

import ctypes
import weakref
from typing import Any, Optional, Sequence, Tuple

import numpy as np

from . import _lib
from ._comm import RawCommunicator, Request
from ._lib import DTYPE_BYTES, DTYPES, lib

Array = np.ndarray
_NAMES = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "bfloat16": "bf16",
    "int8": "i8",
    "uint8": "u8",
    "int32": "i32",
    "int64": "i64",
}


def _reducible(a: Array) -> Tuple[int, str]:
    """(elements, data type) for a reduction."""
    name = _NAMES.get(a.dtype.name)
    if name is None:
        raise TypeError(f"no reductions on {a.dtype.name}: one of {', '.join(_NAMES)}")
    return a.size, name


def _movable(a: Array) -> Tuple[int, str]:
    """(elements, data type) for what only moves data: bytes where the library does not know the type."""
    name = _NAMES.get(a.dtype.name)
    return (a.size, name) if name else (a.nbytes, "u8")


def _input(x: Any) -> Array:
    a = np.asarray(x)
    if a.dtype.hasobject:
        raise TypeError("arrays of Python objects cannot be sent")
    return a if a.flags.c_contiguous else np.ascontiguousarray(a)


def _output(out: Optional[Array], shape: Sequence[int], dtype: Any) -> Array:
    """`out` when it fits, a new array when there is none. Outputs are written in place: they have to be contiguous."""
    if out is None:
        return np.empty(tuple(shape), dtype)
    a = np.asarray(out)
    if a.dtype != dtype or a.size != int(np.prod(tuple(shape), dtype=np.int64)):
        raise ValueError(f"out is {a.shape} of {a.dtype}: {tuple(shape)} of {np.dtype(dtype)} is needed")
    if not (a.flags.c_contiguous and a.flags.writeable):
        raise ValueError("out must be writeable and contiguous")
    return a


def _at(a: Array) -> int:
    return a.ctypes.data


class Communicator(RawCommunicator):
    """A group of live ranks and their collectives on NumPy arrays. Every call is blocking and collective; each returns its result.

        with tutti.Communicator() as comm:           # under `tutti run`, torchrun, mpirun, srun
            total = comm.allreduce(np.ones(10, "f4"))
    """

    def allreduce(self, x: Any, op: str = "sum", out: Optional[Array] = None) -> Array:
        """Everybody gets the reduction of everybody's x: sum, prod, min, max or avg. `out` may be x itself."""
        a = _input(x)
        b = _output(out, a.shape, a.dtype)
        self.call("allreduce", _at(a), _at(b), *_reducible(a), op=op)
        return b

    def reduce_scatter(self, x: Any, op: str = "sum", out: Optional[Array] = None) -> Array:
        """x has one block per rank along its first axis (its length is a multiple of size); rank r gets the reduction of block r."""
        a = _input(x)
        n = self._blocks(a)
        b = _output(out, (n,) + a.shape[1:], a.dtype)
        self.call("reduce_scatter", _at(a), _at(b), _reducible(b)[0], _reducible(a)[1], op=op)
        return b

    def all_gather(self, x: Any, out: Optional[Array] = None) -> Array:
        """Everybody gets everybody's x, along a new first axis."""
        a = _input(x)
        b = _output(out, (self.size,) + a.shape, a.dtype)
        self.call("all_gather", _at(a), _at(b), *_movable(a))
        return b

    def broadcast(self, x: Any, root: int = 0) -> Array:
        """x of the root, in everybody's x, in place."""
        a = _output(x, np.shape(x), np.asarray(x).dtype)
        self.call("broadcast", _at(a), _at(a), *_movable(a), root=root)
        return a

    def reduce(self, x: Any, op: str = "sum", root: int = 0, out: Optional[Array] = None) -> Optional[Array]:
        """The root gets the reduction of everybody's x, the others None."""
        a = _input(x)
        b = _output(out, a.shape, a.dtype) if self.rank == root else None
        self.call("reduce", _at(a), 0 if b is None else _at(b), *_reducible(a), op=op, root=root)
        return b

    def gather(self, x: Any, root: int = 0, out: Optional[Array] = None) -> Optional[Array]:
        """The root gets everybody's x along a new first axis, the others None."""
        a = _input(x)
        b = _output(out, (self.size,) + a.shape, a.dtype) if self.rank == root else None
        self.call("gather", _at(a), 0 if b is None else _at(b), *_movable(a), root=root)
        return b

    def scatter(self, x: Any, out: Array, root: int = 0) -> Array:
        """Rank r gets block r of the root's x in `out`; x matters at the root only."""
        b = _output(out, np.shape(out), np.asarray(out).dtype)
        a = _input(x) if self.rank == root else None
        if a is not None and (a.dtype != b.dtype or a.size != b.size * self.size):
            raise ValueError(f"x is {a.shape} of {a.dtype}: {self.size} blocks like out are needed")
        self.call("scatter", 0 if a is None else _at(a), _at(b), *_movable(b), root=root)
        return b

    def all_to_all(self, x: Any, out: Optional[Array] = None) -> Array:
        """x has one block per rank along its first axis; block r goes to rank r, which keeps the blocks in rank order."""
        a = _input(x)
        self._blocks(a)
        b = _output(out, a.shape, a.dtype)
        count, dtype = _movable(a)
        self.call("all_to_all", _at(a), _at(b), count // self.size, dtype)
        return b

    def all_gather_v(self, x: Any, counts: Sequence[int], out: Optional[Array] = None) -> Array:
        """Blocks of any length: rank r gives counts[r] elements (the same list on all ranks)."""
        a = _input(x)
        self._check_counts(counts, a.size)
        b = _output(out, (sum(counts),), a.dtype)
        unit = _movable(a)[0] // max(a.size, 1) if a.size else (1 if a.dtype.name in _NAMES else a.itemsize)
        self.call_v("all_gather", _at(a), _at(b), [c * unit for c in counts], _movable(a)[1])
        return b

    def reduce_scatter_v(self, x: Any, counts: Sequence[int], op: str = "sum", out: Optional[Array] = None) -> Array:
        """Rank r gets the reduction of its counts[r] elements of x (the same list on all ranks)."""
        a = _input(x)
        self._check_counts(counts, None)
        if a.size != sum(counts):
            raise ValueError(f"x has {a.size} elements, counts say {sum(counts)}")
        b = _output(out, (counts[self.rank],), a.dtype)
        self.call_v("reduce_scatter", _at(a), _at(b), counts, _reducible(a)[1], op)
        return b

    def send(self, x: Any, peer: int) -> None:
        """To `peer`, which receives as many elements of the same type; in order between two ranks."""
        a = _input(x)
        count, dtype = _movable(a)
        comm = self._open()
        _lib.check(comm, lib.tutti_send(comm, _at(a), count, DTYPES[dtype], peer))

    def recv(self, out: Array, peer: int) -> Array:
        """From `peer`, in `out`."""
        a = _output(out, np.shape(out), np.asarray(out).dtype)
        count, dtype = _movable(a)
        comm = self._open()
        _lib.check(comm, lib.tutti_recv(comm, _at(a), count, DTYPES[dtype], peer))
        return a

    def allreduce_init(self, x: Array, op: str = "sum", out: Optional[Array] = None) -> Request:
        """A persistent all-reduce of x (in place, or to `out`): start it as often as you like; it progresses while you compute."""
        a = _output(x, np.shape(x), np.asarray(x).dtype)
        b = a if out is None else _output(out, a.shape, a.dtype)
        return self.request("allreduce", _at(a), _at(b), *_reducible(a), op=op, keep=(a, b))

    def empty(self, shape: Any, dtype: Any = "f4") -> Array:
        """An array in memory that the other ranks of this host reach directly: the fastest buffers. Free with the communicator open."""
        kind = np.dtype(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        handle, nbytes = self._open(), max(1, count * kind.itemsize)
        address = _lib.alloc(handle, nbytes)
        memory = (ctypes.c_char * nbytes).from_address(address)
        weakref.finalize(memory, self._give_back, weakref.ref(self), address)
        return np.frombuffer(memory, kind, count).reshape(shape)  # type: ignore[call-overload]

    @staticmethod
    def _give_back(ref: Any, address: int) -> None:
        comm = ref()
        if comm is not None and comm.handle is not None:
            lib.tutti_mem_free(comm.handle, address)

    def _blocks(self, a: Array) -> int:
        if a.ndim == 0 or a.shape[0] % self.size:
            raise ValueError(f"the first axis of {a.shape} does not divide into {self.size} blocks")
        return a.shape[0] // self.size

    def _check_counts(self, counts: Sequence[int], mine: Optional[int]) -> None:
        if len(counts) != self.size:
            raise ValueError(f"{len(counts)} counts for {self.size} ranks")
        if mine is not None and counts[self.rank] != mine:
            raise ValueError(f"rank {self.rank} gives {mine} elements, counts say {counts[self.rank]}")


assert set(_NAMES.values()) == set(DTYPE_BYTES)
