"""Slot: one parameter, the place of its gradient in a bucket of the library, and what p.grad is at
any time.

p.grad is what DDP's would be, as soon as anybody looks: from the moment a gradient is handed over
until zero_grad() it is a tensor on the bucket's memory, awaited (_awaited.py) while the library
reads or writes there. Where no average ever is on this rank (dear-sharded, bf16 on the wire) it is
a stand-in without memory, which says so when somebody looks.
"""

import weakref
from typing import Any, Optional

import torch

from ._awaited import Awaited, arrived, await_on
from ._places import Place


class Slot:
    """See above. `stand_in`: p.grad can never be looked at; `narrow`: the bucket holds bf16 of an
    f32 parameter."""

    def __init__(self, name: str, module: torch.nn.Module, key: str, param: torch.nn.Parameter, index: int) -> None:
        self.name, self.module, self.key, self.param, self.index = name, module, key, param, index
        self.address = param.data_ptr()
        self.narrow = self.stand_in = False
        self.handed = False  # its gradient of this step is the library's
        self.piped = False  # handed over by a Pipe, and this backward pass is not over
        self.pending = False  # an update is on its way
        self.late = False  # its update came after the forward pass that should have used it
        self.seen = False  # its owner's forward was called
        self.zero = False  # zero_grad(set_to_none=False) came while the update was on its way
        self.owed = False  # a stand-in that was zeroed: None counts as zeros
        self.unknown = False  # p.grad is None unless other ranks have given something: whoever asks for it finds out
        self.node: Any = None  # autograd's, which accumulates p.grad
        self._version_of_zeros = -1
        self._mine: Optional[weakref.ref] = None
        self._tick = param.detach().reshape(-1)[:0]  # shares the parameter's version counter

    def bind(self, address: int, dtype: torch.dtype) -> None:
        """Where the gradient's place is."""
        self.place = Place(address, self.param.shape, dtype)
        self.view = self.place.tensor()

    @property
    def grad(self) -> Any:
        """p.grad as it is, without finding out."""
        if not self.unknown:
            return self.param.grad
        with torch._C.DisableTorchFunction():
            return self.param.grad

    def ask(self, wait: Any) -> None:
        """This rank has no gradient, others may: p.grad is what wait.grad() finds."""
        self.let_go()
        self.unknown = True
        await_on(self.param, wait)

    def forget(self) -> None:
        """Nobody needs to find out any more."""
        if self.unknown and not self.pending:
            arrived(self.param)
        self.unknown = False

    def mine(self) -> Any:
        """The tensor that was put at p.grad last; None when it is gone."""
        return self._mine() if self._mine is not None else None

    def shows_mine(self) -> bool:
        """Is p.grad what was put there?"""
        grad = self.grad
        return grad is not None and grad is self.mine()

    def is_here(self, grad: Any) -> bool:
        """Is this tensor on the bucket's memory? The caller may have given it another (p.grad.data
        = ...)."""
        return isinstance(grad, Awaited) or (not self.stand_in and self.place.holds(grad))

    def show(self, wait: Any) -> None:
        """p.grad: the gradient in its place, awaited."""
        grad = self.param.grad
        if grad is None or grad is not self.mine() or self.stand_in:
            grad = torch.zeros((), dtype=self.param.dtype).expand(self.param.shape) if self.stand_in else self.place.tensor()
            if not self.stand_in:
                self.place.give_out(grad)
            self._mine = weakref.ref(grad)
        await_on(grad, wait)
        self.param.grad = grad

    def open(self, used: bool = True) -> None:
        """The average has come: p.grad is an ordinary tensor; None when nobody used the parameter.
        """
        if self.unknown:
            self.forget()
            if used and self.param.grad is None:
                self.show(None)
        grad = self.mine()
        if grad is None:
            return
        arrived(grad)
        self.place.watch()
        if not used and self.param.grad is grad:
            self.param.grad = None

    def let_go(self) -> None:
        """The bucket's memory is about to be written: what the caller still has of it becomes the
        caller's own."""
        grad = self.mine()
        if grad is not None and self.grad is grad and self.is_here(grad):
            return
        if not self.stand_in:
            self.place.move_out()
            arrived(grad)
        self._mine = None

    def fill(self, grad: Any) -> None:
        """A gradient of the caller's into its place; None: zeros."""
        with torch.no_grad():
            if grad is None:
                self.view.zero_()
            elif not self.place.holds(grad):
                same_memory = grad.data_ptr() == self.view.data_ptr()
                self.view.copy_(grad.detach().clone() if same_memory else grad.detach())

    def clear(self) -> None:
        """Zeros, in place: p.grad stays what it is."""
        self.zero = False
        self.view.zero_()
        grad = self.param.grad
        self._version_of_zeros = grad._version if grad is not None else -1

    def is_empty(self) -> bool:
        """Is p.grad None, or zeros that nobody has touched?"""
        grad = self.param.grad
        if grad is None or (not self.stand_in and self.zero and grad is self.mine()):
            return True
        return not isinstance(grad, Awaited) and grad is self.mine() and grad._version == self._version_of_zeros

    def touch(self) -> None:
        """The library has written the parameter: autograd must hear of it, as of any change in
        place."""
        self._tick.zero_()
