"""Training whose ranks come and go: ElasticGroup, and what DistributedOptimizer(..., elastic=True)
does with it.

    group = tutti.torch.ElasticGroup()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    opt = tutti.torch.DistributedOptimizer(opt, model, process_group=group, elastic=True)
    while opt.steps < 1000:
        batch = data(opt.steps, group.rank(), group.size())    # group.changes counts the changes
        loss(model, batch).backward()
        opt.step()
        opt.zero_grad()
    opt.close()

The library finishes the step that a death interrupts (docs/how/membership.md); a call that fails is
made again with those who live, here, so that the loop sees nothing of it. Newcomers are let in by
step(), every `admit_every` steps.
"""

import ctypes
import json
from typing import Any, Callable, Dict, List, Optional

import torch
import torch.distributed as dist

from .. import RawCommunicator
from .._lib import PEER, Error
from .._trainer import LOAD, SAVE, Trainer
from ._buffers import as_bytes
from ._group import ProcessGroupTutti
from ._ledger import Closer, Ledger
from ._meet import seconds_of
from ._quick import Quick
from ._work import Work


class ElasticGroup(ProcessGroupTutti):
    """The ranks of the launcher (`tutti run --elastic`), or of a job that runs (TUTTI_JOIN). Not
    known to torch.distributed, whose world never changes. rank() and size() are those of now."""

    def __init__(self, **options: Any) -> None:
        self._comm = RawCommunicator(**options)
        dist.ProcessGroup.__init__(self, self._comm.rank, self._comm.size)  # type: ignore[call-arg]
        self._names, self._options, self._batch, self._extra = ["elastic", "undefined"], options, None, []
        self._store = self._timeout = None
        self._ledger = Ledger(self._comm.rank, self._comm.size, "", [], seconds_of(None))
        self._closer = Closer(self._ledger, self._comm)
        self._take(self._comm)

    def _take(self, comm: RawCommunicator) -> None:
        self._comm = self._closer.comm = comm
        self._me, self._n = comm.rank, comm.size
        self._ledger.place = f"on rank {self._me} of {self._n}"
        self._quick = Quick(comm, self._ledger)

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Work:
        """Messages would need torch's store, which ends with rank 0."""
        raise NotImplementedError("tutti: an ElasticGroup has no point-to-point messages")

    def recv(self, tensors: Any, src: int, tag: int = 0) -> Work:
        """The same."""
        return self.send(tensors, src, tag)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        """The same."""
        return self.send(tensors, 0, tag)

    def rank(self) -> int:
        """This process's number now."""
        return self._me

    def size(self) -> int:
        """How many ranks there are now."""
        return self._n

    @property
    def changes(self) -> int:
        """How many times the ranks of the job have changed."""
        return self._comm.changes

    def change(self, how: Callable[[RawCommunicator], RawCommunicator], trainer: Optional[Trainer]) -> None:
        """Goes on with those whom shrink or admit leaves; again, while ranks die meanwhile."""
        while True:
            comm, failure = how(self._comm), None  # type: Any, Optional[Error]
            if comm is self._comm:
                return
            try:
                if trainer is not None:
                    trainer.rebind(comm)
            except Error as e:
                failure = e
            old = self._comm
            self._take(comm)
            old.close()
            if failure is None:
                return
            if failure.status != PEER:
                raise failure
            how = RawCommunicator.shrink


class Elastic:
    """What an optimizer does when ranks die, and for newcomers. `model` and `inner`: whose buffers
    and values newcomers get; `save`, `load`: the caller's own bytes."""

    def __init__(
        self, group: ElasticGroup, model: torch.nn.Module, inner: torch.optim.Optimizer, every: int,
        save: Optional[Callable[[], bytes]], load: Optional[Callable[[bytes], None]],
    ) -> None:  # fmt: skip
        self._group, self._model, self._inner, self._every, self._save, self._load = group, model, inner, every, save, load
        if group.size() == 1 and group.changes == 0:
            self._every = 0  # a job that begins with one rank has no address where newcomers could come
        self._bytes = b""
        self._failed: Optional[BaseException] = None  # in a callback
        self.options: Dict[str, Any] = {"elastic": True, "save": SAVE(self._give), "load": LOAD(self._get)}
        self.trainer: Optional[Trainer] = None

    def open(self, make: Callable[[], Trainer]) -> Trainer:
        """Opening is collective: a rank may die in it."""
        while self.trainer is None:
            try:
                self.trainer = make()
            except Error as e:
                if e.status != PEER:
                    raise
                self._group.change(RawCommunicator.shrink, None)
        self.trainer.recover = self.recover
        return self.trainer

    def recover(self) -> None:
        """A rank has died."""
        self._group.change(RawCommunicator.shrink, self.trainer)

    def after_step(self, flush: Callable[[], None]) -> None:
        """Lets newcomers in, after the same steps on all ranks; not after one in which the ranks
        have changed."""
        trainer = self.trainer
        assert trainer is not None
        if not self._every or trainer.steps() % self._every or trainer.steps() <= trainer.bound():
            return
        flush()
        if trainer.steps() > trainer.bound():
            self._group.change(RawCommunicator.admit, trainer)

    def end(self, flush: Callable[[], None]) -> None:
        """Whoever passes the barrier knows that nobody has a step to finish."""
        while True:
            flush()
            try:
                return self._group._comm.barrier()
            except Error as e:
                if e.status != PEER:
                    raise
                self.recover()

    def check(self) -> None:
        """Raises what a callback raised: the library cannot."""
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    # ---- what newcomers get ----

    def _buffers(self) -> List[torch.Tensor]:
        return [b for b in self._model.buffers() if b.numel()]

    def _packed(self) -> bytes:
        groups = [{k: v for k, v in g.items() if k != "params"} for g in self._inner.param_groups]
        head = json.dumps(groups, default=float).encode()
        parts = [bytes(as_bytes(b).tolist()) for b in self._buffers()]
        return b"".join([len(head).to_bytes(8, "little"), head, *parts, self._save() if self._save else b""])

    def _give(self, _ctx: Any, data: Any, capacity: int) -> int:
        try:
            if not data:
                self._bytes = self._packed()
            else:
                ctypes.memmove(data, self._bytes, min(capacity, len(self._bytes)))
            return len(self._bytes)
        except BaseException as e:  # noqa: B902  # C is below
            self._failed = e
            return 0

    def _get(self, _ctx: Any, data: Any, count: int) -> None:
        try:
            self._unpack(ctypes.string_at(data, count))
        except BaseException as e:  # noqa: B902
            self._failed = e

    def _unpack(self, data: bytes) -> None:
        at = 8 + int.from_bytes(data[:8], "little")
        for mine, values in zip(self._inner.param_groups, json.loads(data[8:at])):
            mine.update({k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
        with torch.no_grad():
            for b in self._buffers():
                n = b.numel() * b.element_size()
                b.copy_(torch.frombuffer(bytearray(data[at : at + n]), dtype=torch.uint8).view(b.dtype).view(b.shape))
                at += n
        if self._load:
            self._load(data[at:])
