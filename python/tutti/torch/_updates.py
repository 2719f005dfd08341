"""Who updates: the library's own SGD, Adam and AdamW, or the wrapped optimizer of torch. Steps
(_steps.py) asks one of these two.

Either way the values of the parameter groups (learning rate and so on) are those that held at
step(), whenever the update happens.
"""

from typing import Any, Dict, List, Sequence, Set

import torch

from .._trainer import Trainer
from . import _builtin
from ._slot import Slot


class Library:
    """The trainer updates, piece by piece while the rest arrives."""

    builtin = True

    def __init__(self, trainer: Trainer, inner: torch.optim.Optimizer, kind: str) -> None:
        self._trainer, self._inner, self._kind = trainer, inner, kind
        self._values: List[Dict[str, Any]] = []  # as the trainer has them

    def set_values(self) -> None:
        """The groups' values, for the step that is about to end (dear-sharded: begin)."""
        values = [_builtin.values_of(self._kind, g) for g in self._inner.param_groups]
        for i, v in enumerate(values):
            if i >= len(self._values) or v != self._values[i]:
                self._trainer.set_group(i, **v)
        self._values = values

    def average(self) -> None:
        """Waits until the gradients are averages, and updates nothing."""
        self._trainer.average()

    def settled(self, slots: Sequence[Slot]) -> None:
        """The library has updated these."""
        for s in slots:
            s.touch()

    def update_averaged(self, slots: Sequence[Slot]) -> None:
        """An update of all parameters with what the caller made of the averages."""
        for s in slots:
            grad, used = s.param.grad, self._trainer.used(s.index)
            if grad is not None:
                s.fill(grad)
            if used != (grad is not None):
                self._trainer.use(s.index, grad is not None)
        self.set_values()
        self._trainer.step()
        self._trainer.flush()
        self.settled(slots)

    def counted(self) -> None:
        """Learning rate schedulers of the wrapped optimizer look whether it steps: 1.13's at the
        one, 2.x's at the other."""
        self._inner._step_count = getattr(self._inner, "_step_count", 0) + 1  # type: ignore[attr-defined]
        self._inner._opt_called = True  # type: ignore[attr-defined]


class Wrapped:
    """torch's optimizer updates the parameters whose averaged gradients have come."""

    builtin = False

    def __init__(self, trainer: Trainer, inner: torch.optim.Optimizer) -> None:
        self._trainer, self._inner = trainer, inner
        self._values: List[Dict[str, Any]] = []

    def set_values(self) -> None:
        """The groups' values at step()."""
        self._values = [{k: v for k, v in g.items() if k != "params"} for g in self._inner.param_groups]

    def average(self) -> None:
        """To the trainer, which updates nothing, averaging is all of a step."""
        self._trainer.step()
        self._trainer.flush()

    def settled(self, slots: Sequence[Slot]) -> None:
        """Averages have come: they are p.grad during the update, whatever p.grad is now."""
        kept = [s.param.grad for s in slots]
        for s in slots:
            self._lend(s)
        try:
            self._run(slots)
        finally:
            for s, grad in zip(slots, kept):
                s.param.grad = grad

    def _lend(self, s: Slot) -> None:
        if not self._trainer.used(s.index):
            s.param.grad = None
        elif s.shows_mine():
            s.open()
        else:
            s.let_go()
            s.param.grad = s.place.tensor()
            s.place.give_out(s.param.grad)
            s.place.watch()

    def update_averaged(self, slots: Sequence[Slot]) -> None:
        """An update of all parameters with p.grad as it is."""
        self.set_values()
        self._run(slots)

    def _run(self, slots: Sequence[Slot]) -> None:
        """The wrapped optimizer's step on these parameters only, with the values that held at
        step()."""
        chosen: Set[int] = {id(s.param) for s in slots}
        groups = self._inner.param_groups
        try:
            self._inner.param_groups = [
                dict(values, params=[p for p in g["params"] if id(p) in chosen]) for g, values in zip(groups, self._values)
            ]
            with torch.no_grad():
                self._inner.step()
        finally:
            self._inner.param_groups = groups

    def counted(self) -> None:
        """The wrapped optimizer counts by itself."""
