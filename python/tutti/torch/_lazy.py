"""Lazy: a gradient that is being averaged. Between backward() and step() p.grad is one of these: who computes with it (clip_grad_norm_, a
print) gets the average over all ranks, waiting for it; who only asks for its shape or type waits for nothing."""

from typing import Any, Callable, Dict, Optional

import torch

_METHODS = ("size", "dim", "ndimension", "numel", "nelement", "stride", "is_contiguous", "is_floating_point", "is_complex", "element_size")
_PROPERTIES = (
    "shape", "dtype", "device", "layout", "ndim", "is_leaf", "requires_grad", "grad_fn", "grad", "is_sparse", "is_cuda", "is_mkldnn",
    "is_quantized", "is_meta", "names", "_version", "output_nr", "itemsize", "nbytes",
)  # fmt: skip


def _quiet() -> set:
    """Functions that do not look at the elements."""
    functions = [getattr(torch.Tensor, n, None) for n in _METHODS]
    functions += [getattr(getattr(torch.Tensor, n, None), "__get__", None) for n in _PROPERTIES]
    return {f for f in functions if f is not None}


_QUIET = _quiet()


class Lazy(torch.Tensor):
    """See above. `look` is called before the first use."""

    look: Optional[Callable[[], None]] = None

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None) -> Any:
        quiet = func in _QUIET

        def plain(x: Any) -> Any:
            if isinstance(x, Lazy):
                if not quiet and x.look is not None:
                    x.look()
                with torch._C.DisableTorchFunction():
                    return x.as_subclass(torch.Tensor)
            if isinstance(x, (list, tuple)):
                return type(x)(map(plain, x)) if not hasattr(x, "_fields") else x
            return x

        return func(*plain(tuple(args)), **{k: plain(v) for k, v in (kwargs or {}).items()})


def lazy(view: torch.Tensor, look: Callable[[], None]) -> Lazy:
    """The same memory, which calls `look` before anybody uses it."""
    new = view.as_subclass(Lazy)
    new.look = look  # type: ignore[method-assign]
    return new


def plain(x: Any) -> Any:
    """The tensor as it is, without looking."""
    if not isinstance(x, Lazy):
        return x
    with torch._C.DisableTorchFunction():
        return x.as_subclass(torch.Tensor)
