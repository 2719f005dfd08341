"""Buffers: running means and the like, which a model changes in its forward pass. Every rank gets
rank 0's values, as with DDP.

step() starts one broadcast of all buffers, and the first use of a buffer waits for it. Evaluation,
on all ranks or on some, then needs no communication of its own. A second forward pass of the
training model before step() broadcasts them first, which DDP does at every forward pass.
"""

import weakref
from typing import Any, Iterator, List, Optional

import torch

from ._awaited import arrived, await_on
from ._tensors import dense


class _Wait:
    """What an awaited buffer waits for."""

    def __init__(self, buffers: "Buffers") -> None:
        self._buffers = weakref.ref(buffers)

    def __call__(self) -> None:
        buffers = self._buffers()
        if buffers is None:
            raise RuntimeError(
                "tutti: the DistributedOptimizer that this buffer waits for is gone: "
                "keep it as long as the model"
            )
        buffers.wait()


def as_bytes(t: torch.Tensor) -> torch.Tensor:
    """The tensor's elements as a row of bytes."""
    return dense(t.detach()).reshape(-1).view(torch.uint8)


class Buffers:
    """The buffers of one model. Without `enabled` every rank keeps its own."""

    def __init__(self, group: Any, model: torch.nn.Module, enabled: bool) -> None:
        self._group, self._model, self._enabled = group, weakref.ref(model), enabled
        self._dirty = False  # a forward pass has changed them since they were broadcast
        self._work: Any = None
        self._block: Optional[torch.Tensor] = None
        self._taken: List[torch.Tensor] = []
        self._wait = _Wait(self)

    def _find(self) -> Iterator[torch.Tensor]:
        """The model's buffers at this moment: modules may replace them."""
        model, seen = self._model(), set()
        for module in model.modules() if model is not None else ():
            for b in module._buffers.values():
                if b is not None and b.numel() and id(b) not in seen:
                    seen.add(id(b))
                    yield b

    def before_forward(self, syncing: bool) -> None:
        """The model is about to be called."""
        self.wait()
        model = self._model()
        if not self._enabled or model is None:
            return
        if not (syncing and model.training and torch.is_grad_enabled()):
            return
        if self._dirty:
            self.share()
            self.wait()
        self._dirty = True

    def share(self) -> None:
        """Starts a broadcast of rank 0's buffers."""
        self.wait()
        self._dirty = False
        if not self._enabled or self._group.size() == 1:
            return
        self._taken = list(self._find())
        if not self._taken:
            return
        mine = self._group.rank() == 0
        sizes = [b.numel() * b.element_size() for b in self._taken]
        if mine:
            self._block = torch.cat([as_bytes(b) for b in self._taken])
        else:
            self._block = torch.empty(sum(sizes), dtype=torch.uint8)
        self._work = self._group.broadcast([self._block], 0)
        for b in self._taken if not mine else ():
            await_on(b, self._wait)

    def wait(self) -> None:
        """Returns when they have come. After a failure it raises at every use, until close()."""
        if self._work is None:
            return
        self._work.wait()
        taken, block = self._taken, self._block
        self._work, self._taken, self._block = None, [], None
        at = 0
        for b in taken if self._group.rank() else ():
            arrived(b)
            n = b.numel() * b.element_size()
            piece = block[at : at + n].clone()  # type: ignore[index]  # aligned
            with torch.no_grad():
                b.copy_(piece.view(b.dtype).view(b.shape))
            at += n

    def close(self) -> None:
        """Makes the buffers ordinary tensors again, whether the last broadcast has come or not."""
        taken, self._taken, self._work, self._block = self._taken, [], None, None
        for b in taken:
            arrived(b)
        self._enabled = False
