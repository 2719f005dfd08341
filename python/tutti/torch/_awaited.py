"""Awaited: a tensor whose value is still on its way. Whoever computes with it waits; asking for its
shape or type waits for nothing.

    await_on(tensor, wait)      from now on the first use of `tensor` calls wait(), which ends with
    arrived(tensor)             it is an ordinary tensor again

A parameter's wait may have a method grad(), which is called by whoever asks for p.grad or sets it:
where other ranks decide whether it is None. If only that is on its way, wait() does nothing and
everything else goes on with the parameter as it is.

The tensor stays the same object: only its class changes, to one whose __torch_function__ calls
wait() before anything looks at elements. So gradients that are being averaged, parameters that are
being updated and buffers that are being broadcast can be handed to any Python code. Code in C++
that was given such a tensor before (a scripted module) does not wait: hooks wait for it.
"""

import copy
import types
from typing import Any, Callable, Dict, Iterator

import torch

_METHODS = (
    "size", "dim", "ndimension", "numel", "nelement", "stride", "is_contiguous", "is_floating_point", "is_complex", "is_signed",
    "element_size", "requires_grad_", "register_hook", "register_post_accumulate_grad_hook", "__len__", "__hash__",
)  # fmt: skip
_PROPERTIES = (
    "shape", "dtype", "device", "layout", "ndim", "is_leaf", "requires_grad", "grad_fn", "grad", "is_sparse", "is_cuda", "is_mkldnn",
    "is_quantized", "is_meta", "is_cpu", "names", "output_nr", "itemsize", "nbytes", "_backward_hooks", "_post_accumulate_grad_hooks",
    "_grad", "retains_grad",
)  # fmt: skip


def _quiet() -> set:
    """Functions that do not look at the elements, and setters of what is no element."""
    found = [getattr(torch.Tensor, n, None) for n in _METHODS]
    properties = [getattr(torch.Tensor, n, None) for n in _PROPERTIES]
    found += [getattr(p, access, None) for p in properties for access in ("__get__", "__set__", "__delete__")]
    return {f for f in found if f is not None}


_QUIET = _quiet()
_GRAD = {getattr(torch.Tensor.grad, access) for access in ("__get__", "__set__", "__delete__")}


def _inside(x: Any) -> Iterator[Any]:
    """The awaited tensors of nested arguments."""
    if isinstance(x, Awaited):
        yield x
    elif isinstance(x, (list, tuple)):
        for y in x:
            yield from _inside(y)
    elif isinstance(x, dict):
        yield from _inside(list(x.values()))


class Awaited:
    """What awaited tensors are besides their own class."""

    __slots__ = ()
    _tutti_wait: Callable[[], None]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _QUIET:
            find_grad = getattr(getattr(args[0], "_tutti_wait", None), "grad", None) if func in _GRAD else None
            if find_grad is not None:
                find_grad()
            with torch._C.DisableTorchFunction():
                return func(*args, **kwargs)
        if func is torch.Tensor.zero_ and _zeroed_later(args[0]):
            return args[0]
        for x in [*_inside(args), *_inside(kwargs)]:
            wait_for(x)
        if not any(isinstance(x, Awaited) for x in [*_inside(args), *_inside(kwargs)]):
            return func(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            return func(*args, **kwargs)

    def __deepcopy__(self, memo: Any) -> Any:
        return copy.deepcopy(_plain(self), memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _plain(self).__reduce_ex__(protocol)


_classes: Dict[type, type] = {}


def await_on(tensor: Any, wait: Callable[[], None]) -> None:
    """From now on the first use of the tensor calls wait()."""
    tensor._tutti_wait = wait
    if not isinstance(tensor, Awaited):
        base = type(tensor)
        if base not in _classes:
            _classes[base] = types.new_class("Awaited" + base.__name__, (Awaited, base))
        tensor.__class__ = _classes[base]


def arrived(tensor: Any) -> None:
    """The tensor is an ordinary one again. Does nothing to those that are."""
    if isinstance(tensor, Awaited):
        tensor.__class__ = type(tensor).__bases__[1]
        del tensor._tutti_wait


def wait_for(tensor: Any) -> None:
    """Returns when the tensor's value has come."""
    if isinstance(tensor, Awaited):
        tensor._tutti_wait()


def _plain(tensor: Any) -> Any:
    """The tensor, or a parameter like it, as an ordinary one; for copies."""
    wait_for(tensor)
    if not is_awaited(tensor):
        return tensor
    with torch._C.DisableTorchFunction():
        return torch.nn.Parameter(tensor.detach(), tensor.requires_grad)


def is_awaited(tensor: Any) -> bool:
    """Is its value still on its way?"""
    return isinstance(tensor, Awaited)


def _zeroed_later(tensor: Any) -> bool:
    """zero_() of what nobody has seen need not wait: whoever waits later gets zeros."""
    zero = getattr(getattr(tensor, "_tutti_wait", None), "zero", None)
    return zero is not None and zero()
