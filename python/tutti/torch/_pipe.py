"""Pipe: a large torch.nn.Linear computed block by block, so that its gradient is on its way, and its parameter in use, part by part.

    backward   |g W[3]|g W[2]|g W[1]|g W[0]|g x|        the rows of W's gradient first, last block first, each written into its place in the
    stream            |RS 3  |RS 2  |RS 1  |RS 0  |     bucket and handed over: communication begins a block's time after the layer's
    stream     |AG 0  |AG 1  |AG 2  |AG 3  |            backward, not after all of it
    forward           |y[0]  |y[1]  |y[2]  |y[3]  |     outputs are computed for the rows that have come, while the others arrive

A module gets a `forward` of its own for that (_forward.py), which is torch's again after close(). Gradients go torch's ordinary way with
hooks on the weight, when they are being accumulated, when the module is used more than once in a step, when a graph of the backward pass
is wanted."""

import weakref
from typing import Any, List, Tuple

import torch

from ._forward import Forward

LEAST = 8 << 20  # bytes of a block


class _Linear(torch.autograd.Function):
    """y = x W^T + b, with the work of a Pipe."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: Any, pipe: "Pipe") -> torch.Tensor:  # type: ignore[override]
        ctx.pipe, ctx.biased = pipe, bias is not None
        ctx.save_for_backward(x, weight)
        return pipe.output(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:  # type: ignore[override]
        x, weight = ctx.saved_tensors
        rows, given = x.reshape(-1, weight.shape[1]), grad.reshape(-1, weight.shape[0])
        of_weight = of_bias = None
        if not ctx.pipe.hand_over(given, rows):
            of_weight = given.t().mm(rows) if ctx.needs_input_grad[1] else None
            of_bias = given.sum(0) if ctx.biased and ctx.needs_input_grad[2] else None
        of_x = given.mm(weight).view(x.shape) if ctx.needs_input_grad[0] else None
        return of_x, of_weight, of_bias, None


def _blocks(parts: List[Tuple[int, int]], width: int, itemsize: int) -> List[Tuple[int, int, int]]:
    """(part, first row, row past the end) of blocks of at least LEAST bytes, each ending with the last whole row of its last part."""
    found: List[Tuple[int, int, int]] = []
    row = 0
    for k, (first, count) in enumerate(parts):
        end = (first + count) // width
        if k == len(parts) - 1 or (end - row) * width * itemsize >= LEAST:
            found.append((k, row, end))
            row = end
    return found


class Pipe(Forward):
    """One module's. `owner` is the DistributedOptimizer, `slot` the weight's, `bias` that of the bias or None."""

    def __init__(self, owner: Any, module: torch.nn.Module, slot: Any, bias: Any) -> None:
        super().__init__(module)
        self._owner, self.slot, self.bias = weakref.ref(owner), slot, bias
        self.slots = [slot] + ([bias] if bias else [])
        self._parts: List[Tuple[int, int]] = owner._trainer.parts(slot.index)
        self.blocks = _blocks(self._parts, slot.param.shape[1], 4)
        self.uses = 0  # forward passes since the last step

    # ---- forward ----

    def __call__(self, x: Any) -> Any:
        module: Any = self._module()
        owner: Any = self._owner()
        if owner is None or owner._trainer._handle is None:
            return type(module).forward(module, x)
        if not self.usable(module, x):
            owner._before(self.slots)
            return type(module).forward(module, x)
        self.uses += 1
        return _Linear.apply(x, module.weight, module.bias, self)

    def output(self, x: torch.Tensor, weight: torch.Tensor, bias: Any) -> torch.Tensor:
        """Waits for one block of rows after the other; the bias comes last."""
        owner: Any = self._owner()
        rows = x.reshape(-1, weight.shape[1])
        whole = x.new_empty(*x.shape[:-1], weight.shape[0])  # not a view: what follows may write into it
        y = whole.view(-1, weight.shape[0])
        for part, a, b in self.blocks:
            if self.slot.pending:
                owner._trainer.wait_part(self.slot.index, part)
            torch.mm(rows, weight[a:b].t(), out=y[:, a:b])
        owner._before(self.slots)
        return whole if bias is None else whole.add_(bias)

    # ---- backward ----

    def hand_over(self, given: torch.Tensor, rows: torch.Tensor) -> bool:
        """Computes the gradients into their places; false: they are to be accumulated in torch's way."""
        owner, s = self._owner(), self.slot
        if owner is None or owner._trainer._handle is None or torch.is_grad_enabled():
            return False
        if not owner._may_pipe(self.slots) or self.uses != 1 or any(x.param._backward_hooks for x in self.slots):
            return False
        if self.bias:  # it may share a bucket with what is launched before the weight
            owner._put(self.bias, given.sum(0))
        part, width = len(self._parts), s.param.shape[1]
        for _, a, b in reversed(self.blocks):
            owner._put_rows(s, a, b, given, rows)
            while part and self._parts[part - 1][0] >= a * width:
                part -= 1
                owner._trainer.part_ready(s.index, part)
        owner._handed(s)
        return True


def install(owner: Any, module: torch.nn.Module, slots: List[Any]) -> Any:
    """A Pipe for the module, or None: only a Linear of f32 with a forward of torch's own, whose weight travels in parts and belongs, as its
    bias does, to no other module."""
    if not Pipe.fits(module) or len(slots) != 1 + (module.bias is not None):
        return None
    slot, bias = slots[0], slots[1] if len(slots) > 1 else None
    if slot.param is not module.weight or len(owner._trainer.parts(slot.index)) < 2:
        return None
    pipe = Pipe(owner, module, slot, bias)
    pipe.install()
    return pipe
