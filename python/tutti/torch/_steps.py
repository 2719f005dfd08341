"""Steps: the state machine behind DistributedOptimizer.

    idle      no gradient of this step was handed over          -- first gradient ready -->
    open      gradients are on their way, in the order in       -- step(): updates begin, idle again
              which autograd makes them                         -- somebody looks at a p.grad -->
    averaged  every p.grad is the average, and the caller's     -- step(): updated with what the
                                                                   caller made of them, idle again
                                                                -- another backward: open; averages
                                                                   and new gradients add up

A slot's update is pending from step() until its parameter is used, or looked at in any other way;
with policies that wait at step() never. Whoever changes p.grad between backward() and step() has
DDP's effect: what was assigned or dropped counts, and so it does without looking at the average
first. Where averages never are on this rank that raises, with the line to write instead.
"""

import functools
import threading
import weakref
from typing import Any, Dict, List, Optional, Sequence

import torch

from .._trainer import Trainer
from . import _trace
from ._awaited import arrived, await_on, is_awaited, wait_for
from ._ledger import trainers
from ._refusal import Refusal
from ._slot import Slot
from ._tensors import dense

IDLE, OPEN, AVERAGED = range(3)


def accumulates(node: Any) -> bool:
    """Will this backward pass accumulate the gradient of the node's parameter? torch.autograd.grad
    does not."""
    try:
        return bool(torch._C._will_engine_execute_node(node))  # type: ignore[attr-defined]
    except (AttributeError, RuntimeError):
        return False


def in_backward(node: Any) -> bool:
    """Is this thread inside of a backward pass?"""
    if hasattr(torch._C, "_current_graph_task_id"):
        return torch._C._current_graph_task_id() != -1
    try:
        torch._C._will_engine_execute_node(node)  # type: ignore[attr-defined]
        return True
    except AttributeError:
        return False
    except RuntimeError as e:
        return "backward pass" not in str(e)


def _told(why: str) -> RuntimeError:
    return RuntimeError(f"tutti: {why}")


class _Wait:
    """What an awaited tensor of a slot waits for. Keeps nothing alive."""

    def __init__(self, steps: "Steps", call: str, index: int) -> None:
        self._steps, self._call, self._index = weakref.ref(steps), call, index

    def _find(self) -> "Steps":
        steps = self._steps()
        if steps is None:
            raise RuntimeError("tutti: the DistributedOptimizer that this tensor waits for is gone: keep it as long as the model")
        return steps

    def __call__(self) -> None:
        steps = self._find()
        with steps.lock:
            steps.check_open()
            getattr(steps, self._call)(steps.slots[self._index])

    def grad(self) -> None:
        """Somebody wants the p.grad of an awaited parameter."""
        steps = self._find()
        if steps.slots[self._index].unknown:
            self()

    def zero(self) -> bool:
        """zero_() of an awaited tensor: may it happen later?"""
        steps = self._find()
        return self._call == "look" and steps.zero_later(steps.slots[self._index])


class _Ask:
    """What the parameter of an unknown gradient waits for: nothing, but whoever asks for p.grad
    finds out."""

    def __init__(self, steps: "Steps") -> None:
        self._steps = weakref.ref(steps)

    def __call__(self) -> None:
        pass

    def grad(self) -> None:
        """Somebody asks for p.grad, or sets it."""
        call(self._steps, "find_out")


class Steps:
    """See above. `updates` says who updates (_updates.py); `refusal`: what is said where p.grad
    cannot be looked at."""

    def __init__(self, trainer: Trainer, updates: Any, deferred: bool, sharded: bool, unused: bool, refusal: Optional[Refusal]) -> None:
        self.trainer, self.updates = trainer, updates
        self.deferred, self.sharded, self.unused, self.refusal = deferred, sharded, unused, refusal
        self.slots: List[Slot] = []
        self.hidden: List[Slot] = []  # parameters that no module's forward announces
        self.pipes: List[Any] = []
        self.phase = IDLE
        self.syncing = True
        self.count = 0  # steps
        self._fresh = False  # has a backward pass brought anything since the last step?
        self.refused = ""  # why, since the last step; other ranks may not have been
        self._discovering = True
        self.lock = threading.RLock()  # a thread may train while another one ends the program
        self._ask = _Ask(self)
        self._looks: Dict[int, _Wait] = {}
        self._waits: Dict[int, _Wait] = {}

    def set_slots(self, slots: List[Slot]) -> None:
        """All parameters, by their index."""
        self.slots = slots
        self._looks = {s.index: _Wait(self, "look", s.index) for s in slots}
        self._waits = {s.index: _Wait(self, "wait", s.index) for s in slots}

    def check_open(self) -> None:
        """Raises when the optimizer was closed, or the group that it is on."""
        if self.trainer._handle is None:
            raise RuntimeError("tutti: the DistributedOptimizer is closed (by close(), destroy_process_group() or the program's end): make it anew")

    def _refuse(self, why: str) -> RuntimeError:
        """What the caller is told, to be raised."""
        self.refused = why
        return _told(why)

    # ---- forward ----

    def before_forward(self, slots: Sequence[Slot]) -> None:
        """A module's forward is about to use these."""
        if self._discovering:
            for s in slots:
                s.seen = True
        self.settle(slots)

    # ---- backward ----

    def before_accumulation(self, s: Slot) -> None:
        """Autograd is about to add to p.grad."""
        s.forget()
        if self.phase == OPEN and s.handed and not s.piped and accumulates(s.node):
            self.again(s)
        if is_awaited(s.param.grad) and accumulates(s.node):
            if s.stand_in and self.refusal:
                raise self._refuse(self.refusal.kept(s.name))
            wait_for(s.param.grad)

    def again(self, s: Slot) -> None:
        """A second gradient in one step: it is added to the average, which DDP does too."""
        if self.refusal:
            raise self._refuse(self.refusal.twice(s.name))
        self.average(inside=True)

    def ready(self, s: Slot) -> None:
        """Autograd has accumulated p.grad."""
        self._fresh = True
        if s.piped:
            self._check_piped(s)
            return
        if self._discovering and not s.seen:
            s.seen = True
            self.hidden.append(s)
        if s.param.grad is None and (self.unused or not self.syncing):
            return
        if s.pending or (s.late and self.phase == OPEN):
            raise RuntimeError(f"{s.name} was used before its update had come: it is not used in the forward of a module that owns it")
        if not self.syncing:
            return
        if self.phase != OPEN:
            self._begin()
        for p in self.pipes:
            if s in p.slots:
                p.judge(s, s.param.grad)
        self._give(s)

    def _begin(self) -> None:
        """The first gradient of a step. With dear-sharded, updates begin from here on."""
        self._discovering = self._discovering and not self.count
        left = [s for s in self.slots if s.pending]
        for s in self.slots:
            s.late = s.handed = s.piped = False
        for s in left:
            s.late = True
        self.settle(left)
        _trace.collect(self)
        self.phase = OPEN
        if self.sharded:
            self.updates.set_values()
        if self.unused and not self.refusal and in_backward(self.slots[0].node):
            torch.autograd.Variable._execution_engine.queue_callback(  # type: ignore[attr-defined]
                functools.partial(call, weakref.ref(self), "_after_backward")
            )

    def _after_backward(self) -> None:
        """What this rank did not use others may have used: p.grad will be the average with what it
        was, or theirs."""
        if self.phase != OPEN:
            return
        self._hand_over()
        for s in self.slots:
            if not s.handed:
                s.ask(self._ask)

    def _give(self, s: Slot) -> None:
        """p.grad becomes the library's."""
        grad = s.param.grad
        if grad is not None and grad.layout != torch.strided:
            raise TypeError(f"tutti: {s.name} has a gradient of layout {grad.layout}: DistributedOptimizer averages dense ones (sparse=False)")
        s.let_go()
        if s.narrow and grad is not None:
            grad = dense(grad.detach())
            self.trainer.put_grad(s.index, grad.data_ptr())
        else:
            s.fill(grad)
        s.owed = s.zero = False
        s.show(self._looks[s.index])
        s.handed = True
        self.trainer.grad_ready(s.index)

    def _hand_over(self) -> None:
        """What the last backward pass did not bring: gradients of passes that were not
        synchronised, assigned ones, old ones."""
        if self.phase != OPEN:
            self._begin()
        for s in self.slots:
            if s.handed or s.unknown or (s.grad is None and not s.owed):
                continue
            if is_awaited(s.param.grad):  # of an earlier step: nobody has zeroed it
                wait_for(s.param.grad)
            if s.param.grad is not None or s.owed:
                self._give(s)

    # ---- pipes (_pipe.py): gradients that do not pass through autograd ----

    def may_pipe(self, slots: Sequence[Slot]) -> bool:
        """May these gradients be handed over by a Pipe? Begins a step if there is none."""
        twice = next((s for s in slots if s.handed and self.phase == OPEN and self.syncing), None)
        if twice is not None:
            self.again(twice)
        if not self.syncing or not all(s.is_empty() for s in slots):
            return False
        if self.phase != OPEN:
            self._begin()
        for s in slots:
            s.forget()
            s.param.grad = None
            s.let_go()
            s.owed = s.zero = False
        return True

    def put(self, s: Slot, grad: torch.Tensor) -> None:
        """A gradient that autograd does not accumulate."""
        s.param.grad = grad
        self._give(s)
        self.handed(s)

    def put_rows(self, s: Slot, a: int, b: int, given: torch.Tensor, rows: torch.Tensor) -> None:
        """Rows a to b of a Linear's weight gradient, into their place."""
        if not s.narrow:
            torch.mm(given[:, a:b].t(), rows, out=s.view[a:b])
            return
        block = given[:, a:b].t().mm(rows)
        self.trainer.put_range(s.index, a * s.param.shape[1], block.numel(), block.data_ptr())

    def handed(self, s: Slot) -> None:
        """All of the gradient of s is the library's. Until the backward pass is over autograd must
        not add to it."""
        s.param.grad = None
        s.handed = s.piped = True

    def _check_piped(self, s: Slot) -> None:
        if s.param.grad is not None:
            raise RuntimeError(
                f"tutti: {s.name} got a gradient from elsewhere, not from its layer alone as in the first step: DistributedOptimizer(..., pipe=False)"
            )

    def show_piped(self, slots: Sequence[Slot]) -> None:
        """The backward pass is over."""
        for s in slots:
            if s.piped:
                self._check_piped(s)
                s.piped = False
                s.show(self._looks[s.index])

    # ---- looking ----

    def look(self, s: Slot) -> None:
        """Somebody uses the p.grad that was put there."""
        if s.stand_in and self.refusal:
            refused = self._refuse if self.phase == OPEN else _told  # between steps nobody waits for the rest of one
            raise refused(self.refusal.looked(s.name))
        if self.phase == OPEN and s.handed:
            self.average()
            return
        self.settle([s])
        if not is_awaited(s.mine()):
            return
        s.open(self.trainer.used(s.index))

    def find_out(self) -> None:
        """Somebody wants a p.grad that only other ranks can have given. Inside of a backward pass
        it is not there yet."""
        if not in_backward(self.slots[0].node):
            self.average()

    def wait(self, s: Slot) -> None:
        """Somebody uses the parameter."""
        self.settle([s])

    def average(self, inside: bool = False) -> None:
        """Makes every p.grad that nobody has replaced the average over all ranks. `inside`: of a
        backward pass. After step() it is one."""
        if self.phase == AVERAGED or not self._unaveraged():
            return
        if self.refusal:
            raise self._refuse(self.refusal.looked("p"))
        if not inside and in_backward(self.slots[0].node):
            raise RuntimeError("tutti: p.grad is not averaged before backward() is over: use p.register_hook() for gradients of this rank")
        self._average()

    def _average(self) -> None:
        with self.lock:
            self._hand_over()
            self.updates.average()
            self.phase = AVERAGED
            for s in self.slots:
                if not s.stand_in:
                    s.open(self.trainer.used(s.index))

    def _unaveraged(self) -> bool:
        """Is there a gradient of this rank's own?"""
        if self.phase == OPEN or (self._fresh and self._something()):
            return True
        return any(s.grad is not None and not (s.handed and s.shows_mine()) for s in self.slots)

    def _something(self) -> bool:
        """Is there anything to communicate? With find_unused_parameters others may have something.
        """
        return self.phase == OPEN or self.unused or any(s.grad is not None or s.owed for s in self.slots)

    # ---- step ----

    def step(self) -> None:
        """The gradients of this iteration are complete."""
        if self.phase == OPEN:
            self._find_replaced()
        if self.phase == AVERAGED:
            self._step_averaged()
        elif self._something():
            if not self.sharded:
                self.updates.set_values()
            self._hand_over()
            self.trainer.step()
            self._pend()
        self.count += 1
        self.refused = ""
        self._fresh = False
        for p in self.pipes:
            p.begin()
        self.updates.counted()

    def _find_replaced(self) -> None:
        replaced = next((s for s in self.slots if s.handed and not s.shows_mine()), None)
        if replaced is None:
            return
        if self.refusal:
            raise self._refuse(self.refusal.replaced(replaced.name))
        self._average()

    def _step_averaged(self) -> None:
        self.phase = IDLE
        self.updates.update_averaged(self.slots)

    def _pend(self) -> None:
        self.phase = IDLE
        for s in self.slots:
            s.pending = True
            if self.deferred:
                await_on(s.param, self._waits[s.index])
        if not self.deferred:
            self.settle(self.slots)

    def settle(self, slots: Sequence[Slot]) -> None:
        """Returns when these parameters are those of the last step."""
        with self.lock:
            waiting = [s for s in slots if s.pending]
            for s in waiting:
                self.trainer.wait_param(s.index)
                s.pending = False
                arrived(s.param)
            if waiting:
                self.updates.settled(waiting)
            for s in waiting:
                if s.unknown:
                    s.open(self.trainer.used(s.index))
                if s.zero:
                    s.open(self.trainer.used(s.index))
                    s.clear()

    def flush(self) -> None:
        """Settles all."""
        self.settle(self.slots)

    # ---- zeros ----

    def zero_grad(self, set_to_none: bool) -> None:
        """Drops the gradients, those on their way too."""
        if self.phase == OPEN:
            if self.sharded and self.refusal:
                raise self._refuse(self.refusal.zeroed())
            self._average()
        self._fresh = False
        for s in self.slots:
            if set_to_none:
                s.forget()
                s.param.grad = None
                s.zero = s.owed = False
            else:
                self._zero(s)

    def _zero(self, s: Slot) -> None:
        grad = s.param.grad
        if grad is None or (is_awaited(grad) and self.zero_later(s)):
            return
        wait_for(grad)
        grad = s.param.grad
        if grad is not None and grad is s.mine() and s.is_here(grad):
            s.clear()
        elif grad is not None:
            grad.detach_() if grad.grad_fn is not None else grad.requires_grad_(False)
            grad.zero_()

    def zero_later(self, s: Slot) -> bool:
        """May zeroing p.grad wait until the update has used it? A stand-in is never anything: None
        counts as zeros then."""
        if not s.shows_mine() or self.phase == OPEN:
            return False
        if s.stand_in:
            s.param.grad = None
            s.owed = True
        else:
            s.zero = s.pending
        return s.stand_in or s.zero

    # ---- the end ----

    def drop(self) -> None:
        """No step() will end this one. Ranks may have used other parameters: it is communicated to
        its end, so that they close alike."""
        if self.phase != OPEN or not self.unused:
            return
        self.phase = IDLE
        if self.sharded:  # updates have begun
            self.trainer.step()
            self.trainer.flush()
        else:
            self.updates.average()

    def close(self) -> None:
        """Parameters and gradients are ordinary tensors with memory of their own."""
        for s in self.slots:
            s.unknown = False
            arrived(s.param)
            grad = s.mine()
            if grad is not None and s.param.grad is grad:
                s.param.grad = None
            s.let_go()


def call(ref: Any, name: str, *args: Any) -> None:
    """A method of what a weak reference refers to, if that is still in use."""
    steps = ref()
    if steps is None:
        return
    trainers.add(threading.get_ident())
    with steps.lock:
        if steps.trainer._own is not None:
            getattr(steps, name)(*args)
