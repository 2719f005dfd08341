"""Tensors as memory: data types, contiguous stand-ins, lists of tensors as one block, reductions
the library does not have."""

from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch
from torch import Tensor
from torch.distributed import ReduceOp

NAMES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.int16: "i16",
}
NAMES.update({getattr(torch, f"uint{bits}"): f"u{bits}" for bits in (16, 32, 64) if hasattr(torch, f"uint{bits}")})  # torch 2.3 on
_OPS = {"SUM": "sum", "AVG": "avg", "MAX": "max", "MIN": "min", "PRODUCT": "prod", "BAND": "band", "BOR": "bor", "BXOR": "bxor"}
_BITWISE = {"band": torch.bitwise_and, "bor": torch.bitwise_or, "bxor": torch.bitwise_xor}
_PLAIN = {"sum": torch.add, "avg": torch.add, "prod": torch.mul, "min": torch.minimum, "max": torch.maximum, **_BITWISE}


def _kind(op: Any) -> Any:
    """What kind of reduction a ReduceOp is, as something that can be looked up."""
    return getattr(op, "op", op)


BY_KIND = {_kind(getattr(ReduceOp, theirs)): ours for theirs, ours in _OPS.items() if hasattr(ReduceOp, theirs)}


def op_name(op: Any) -> str:
    """Our word for a torch ReduceOp. PREMUL_SUM is a sum of what `factor_of` says."""
    name = "sum" if factor_of(op) is not None else BY_KIND.get(_kind(op))
    if name is None:
        raise ValueError(f"tutti: no reduction {op}")
    return name


def factor_of(op: Any) -> Any:
    """What PREMUL_SUM multiplies every rank's tensor with first; None with any other reduction."""
    premul = getattr(ReduceOp, "PREMUL_SUM", None)
    return op.factor if premul is not None and _kind(op) == _kind(premul) and hasattr(op, "factor") else None


def scaled(t: Tensor, factor: Any) -> Tensor:
    """The tensor, or a new one of its type that is multiplied: a factor may be a tensor of another
    type."""
    if factor is None:
        return t
    if not t.is_floating_point():
        raise ValueError(f"tutti: PREMUL_SUM is for floating point tensors, not {t.dtype}")
    return (t.detach() * factor).to(t.dtype).contiguous()


def native(dtype: torch.dtype, op: str) -> bool:
    """Can the library reduce this? Otherwise every rank gathers everything and reduces alone."""
    return dtype in NAMES and (op not in _BITWISE or not dtype.is_floating_point)


def check_dense(tensors: Sequence[Tensor]) -> None:
    """CPU tensors with memory behind them."""
    for t in tensors:
        if not isinstance(t, torch.Tensor):
            raise TypeError(f"tutti: a tensor is expected, not {type(t).__name__}")
        if t.layout != torch.strided:
            raise ValueError(f"tutti: {t.layout} tensors are not supported")
        if not t.is_cpu:  # type: ignore[attr-defined]
            raise ValueError(f"tutti: tensors on {t.device.type} are not supported: move them to the CPU")


def check_alike(tensors: Sequence[Tensor], what: str) -> None:
    """One data type and one size."""
    for t in tensors:
        if t.dtype != tensors[0].dtype:
            raise ValueError(f"tutti: {what}: tensor type mismatch: {t.dtype} beside {tensors[0].dtype}")
        if t.numel() != tensors[0].numel():
            raise ValueError(f"tutti: {what}: tensor size mismatch: {tuple(t.shape)} beside {tuple(tensors[0].shape)}")


def movable(t: Tensor, numel: Optional[int] = None) -> Tuple[int, str]:
    """(count, data type) for what only moves data: bytes where the library does not know the type.
    """
    n = t.numel() if numel is None else numel
    name = NAMES.get(t.dtype)
    return (n, name) if name else (n * t.element_size(), "u8")


def is_dense_block(t: Tensor) -> bool:
    """Are the elements in row-major order without gaps, and what lies there (not a view that
    negates or conjugates when it is read)?"""
    return t.is_contiguous() and not t.is_neg() and not t.is_conj()


def dense(t: Tensor) -> Tensor:
    """The tensor, or a new one with its elements, as a dense block."""
    return t if is_dense_block(t) else t.resolve_conj().resolve_neg().contiguous()


class Stand:
    """A contiguous stand-in for a tensor: itself when possible. `back` copies what arrived in it.
    """

    def __init__(self, tensor: Tensor) -> None:
        self.real = tensor
        self.block = dense(tensor)

    def back(self) -> None:
        """The stand-in's contents in the tensor."""
        if self.block is not self.real:
            with torch.no_grad():
                self.real.detach().copy_(self.block)


def _adjacent(tensors: Sequence[Tensor]) -> bool:
    at = tensors[0].data_ptr()
    for t in tensors:
        if not is_dense_block(t) or t.data_ptr() != at:
            return False
        at += t.numel() * t.element_size()
    return True


class Joint:
    """Several tensors as one block of memory, in order: their own when they lie side by side, a new
    one otherwise."""

    def __init__(self, tensors: Sequence[Tensor], fill: bool) -> None:
        self.tensors = list(tensors)
        self.own = bool(tensors) and _adjacent(tensors)
        n = sum(t.numel() for t in tensors)
        if self.own:
            self.block = tensors[0]
            return
        self.block = torch.empty(n, dtype=tensors[0].dtype)
        if fill:
            with torch.no_grad():
                for t, piece in self._pieces():
                    piece.copy_(t.detach())

    def _pieces(self) -> List[Tuple[Tensor, Tensor]]:
        at, out = 0, []
        for t in self.tensors:
            out.append((t, self.block[at : at + t.numel()].view(t.shape)))
            at += t.numel()
        return out

    def back(self) -> None:
        """The block's contents in the tensors."""
        if not self.own:
            with torch.no_grad():
                for t, piece in self._pieces():
                    t.detach().copy_(piece)


def reduce_gathered(parts: Tensor, op: str) -> Tensor:
    """The reduction of parts[0], parts[1], ... in rank order: for types and reductions the library
    does not have."""
    f: Callable[..., Tensor] = _PLAIN[op]  # type: ignore[assignment]
    if parts.dtype == torch.bool and op in ("sum", "max", "prod", "min"):
        f = torch.logical_or if op in ("sum", "max") else torch.logical_and
    total = parts[0].clone()
    for part in parts[1:]:
        total = f(total, part)
    if op == "avg":
        total = total / len(parts) if total.is_floating_point() or total.is_complex() else total // len(parts)
    return total


LONGEST = 63  # bytes of a name in a file


def _short(name: str) -> str:
    """The end of a long name says more than its beginning."""
    raw = name.encode()
    return name if len(raw) <= LONGEST else "~" + raw[1 - LONGEST :].decode(errors="ignore")
