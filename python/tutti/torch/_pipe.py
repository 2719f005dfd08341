"""Pipe: a large torch.nn.Linear computed block by block, so that its gradient is on its way, and
its parameter in use, part by part.

    backward   |g W[3]|g W[2]|g W[1]|g W[0]|g x|        the rows of W's gradient, last block first
    stream            |RS 3  |RS 2  |RS 1  |RS 0  |     each block is sent while the next is computed

    stream     |AG 0  |AG 1  |AG 2  |AG 3  |            blocks arrive
    forward           |y[0]  |y[1]  |y[2]  |y[3]  |     outputs of the rows that have come

Every block of the gradient is written into its place in the bucket and handed over: communication
begins a block's time after the layer's backward, not after all of it.

A module gets a `forward` of its own for that (_forward.py), which is torch's again after close().
Gradients go torch's ordinary way with hooks on the weight, when they are being accumulated, when
the module is used more than once in a step, and when they come from elsewhere too (a penalty on the
weight): the first step goes torch's way, to see whether what autograd accumulates is this layer's
alone. If that changes later it is an error."""

import contextlib
import functools
import weakref
from typing import Any, Dict, List, Optional, Tuple

import torch

from ._forward import Forward, Pair
from ._steps import Steps, accumulates

LEAST = 8 << 20  # bytes of a block: multiplying fewer rows at a time costs more than it hides


def _blocks(parts: List[Tuple[int, int]], width: int, itemsize: int) -> List[Tuple[int, int, int]]:
    """(part, first row, row past the end) of blocks of at least LEAST bytes, each ending with the
    last whole row of its last part."""
    found: List[Tuple[int, int, int]] = []
    row = 0
    for k, (first, count) in enumerate(parts):
        end = (first + count) // width
        if k == len(parts) - 1 or (end - row) * width * itemsize >= LEAST:
            found.append((k, row, end))
            row = end
    return found


class Pipe(Forward):
    """One module's. `owner` is the Steps of a DistributedOptimizer, `slot` the weight's, `last`
    that of the bias or None."""

    def __init__(self, owner: Steps, module: torch.nn.Module, slot: Any, last: Any) -> None:
        super().__init__(module)
        self._owner, self.slot, self.last = weakref.ref(owner), slot, last
        self.slots = [slot] + ([last] if last else [])
        self._parts: List[Tuple[int, int]] = owner.trainer.parts(slot.index)
        self.blocks = _blocks(self._parts, slot.param.shape[1], 4)
        self._nodes = [s.param.expand_as(s.param).grad_fn.next_functions[0][0] for s in self.slots]
        self._rows = slot.param.detach()  # never awaited: rows are used as they come
        self.uses = 0  # forward passes since the last step
        self._samples: Dict[int, torch.Tensor] = {}  # by slot: what this layer gave to be accumulated, in the step that finds out
        self._alone: Optional[bool] = None  # are all gradients this layer's? None: not known

    def begin(self) -> None:
        """A new step."""
        self.uses = 0
        self._samples.clear()
        for s in self.slots:
            s.piped = False

    def __call__(self, input: Any) -> Any:
        module: Any = self._module()
        owner: Any = self._owner()
        if owner is None or owner.trainer._own is None:
            return type(module).forward(module, input)
        self.uses += torch.is_grad_enabled()
        if not self.usable(module, input):
            owner.before_forward(self.slots)
            return type(module).forward(module, input)
        return self.nodes(input, self.weight, self._output, functools.partial(self._gradients, owner.count))

    def _output(self, x: torch.Tensor) -> torch.Tensor:
        """Waits for one block of rows after the other; the bias comes last."""
        owner: Any = self._owner()
        rows = x.reshape(-1, self.weight.shape[1])
        whole = x.new_empty(*x.shape[:-1], self.weight.shape[0])  # not a view: what follows may write into it
        y = whole.view(-1, self.weight.shape[0])
        with owner.lock:
            owner.check_open()
            weight = self._rows if self.slot.pending else self.weight
            for part, a, b in self.blocks:
                if self.slot.pending:
                    owner.trainer.wait_part(self.slot.index, part)
                torch.mm(rows, weight[a:b].t(), out=y[:, a:b])
            owner.before_forward(self.slots)
        return whole if self.bias is None else whole.add_(self.bias)

    def _gradients(self, step: int, given: torch.Tensor, rows: torch.Tensor) -> Pair:
        """Into their places; or returned, to be accumulated in torch's way. `step`: that of the
        forward pass."""
        owner = self._owner()
        lock: Any = owner.lock if owner is not None else contextlib.nullcontext()
        with lock:
            may = self._may(step)
            if may and self._alone:
                self._hand_over(given, rows)
                return None, None
        of_weight, of_bias = given.t().mm(rows), None if self.bias is None else given.sum(0)
        if may and self._alone is None:
            self._samples = {s.index: g.clone() for s, g in zip(self.slots, (of_weight, of_bias)) if g is not None}
        return of_weight, of_bias

    def judge(self, slot: Any, accumulated: torch.Tensor) -> None:
        """Autograd has accumulated the gradient of a slot."""
        sample = self._samples.pop(slot.index, None)
        if sample is not None:
            self._alone = self._alone is not False and torch.equal(accumulated, sample)

    def _may(self, step: int) -> bool:
        owner = self._owner()
        if owner is None or owner.trainer._own is None or not all(map(accumulates, self._nodes)):
            return False
        hooks = any(len(s.param._backward_hooks) > 1 or getattr(s.param, "_post_accumulate_grad_hooks", None) for s in self.slots)  # 1: ours
        return owner.may_pipe(self.slots) and self.uses == 1 and step == owner.count and not hooks

    def _hand_over(self, given: torch.Tensor, rows: torch.Tensor) -> None:
        owner: Any = self._owner()
        part, width = len(self._parts), self.weight.shape[1]
        if self.last:  # it may share a bucket with what is launched before the weight
            owner.put(self.last, given.sum(0))
        for _, a, b in reversed(self.blocks):
            owner.put_rows(self.slot, a, b, given, rows)
            while part and self._parts[part - 1][0] >= a * width:
                part -= 1
                owner.trainer.part_ready(self.slot.index, part)
        owner.handed(self.slot)
        torch.autograd.Variable._execution_engine.queue_callback(self._show)  # type: ignore[attr-defined]

    def _show(self) -> None:
        """The backward pass is over."""
        owner = self._owner()
        if owner is not None:
            owner.show_piped(self.slots)


def install(owner: Steps, module: torch.nn.Module, slots: List[Any]) -> Any:
    """A Pipe for the module, or None: only a Linear of f32 with a forward of torch's own, whose
    weight travels in parts and belongs, as its bias does, to no other module."""
    if not Pipe.fits(module) or len(slots) != 1 + (module.bias is not None):
        return None
    slot, last = slots[0], slots[1] if len(slots) > 1 else None
    if slot.param is not module.weight or len(owner.trainer.parts(slot.index)) < 2:
        return None
    pipe = Pipe(owner, module, slot, last)
    pipe.install()
    return pipe
