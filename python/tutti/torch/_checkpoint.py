"""Checkpoints of the library's optimizers, in torch's own form.

What the library keeps (momentum, moments, counts) stays with it, sharded over the ranks with
dear-sharded. `export` puts it into the wrapped optimizer, `restore` takes it from a state_dict: so
checkpoints go both ways between torch's optimizers and ours, and to another policy or number of
ranks.
"""

import functools
import itertools
from typing import Any, Dict, List, Sequence

import torch

from .._trainer import Trainer


def _array_like(p: torch.Tensor) -> torch.Tensor:
    return torch.empty(p.shape, dtype=torch.float64 if p.dtype == torch.float64 else torch.float32)


def _state_of(trainer: Trainer, index: int, p: torch.Tensor, momentum: bool) -> Dict[str, Any]:
    """One parameter's state as torch has it. Collective with dear-sharded; nothing where it was
    never updated."""
    updates, found = trainer.updates(index), {}  # type: int, Dict[str, Any]
    for k, name in enumerate(trainer.state_names(index)):
        found[name] = _array_like(p)
        trainer.state_get(index, k, found[name].data_ptr())
    if not updates:
        return {}
    if "exp_avg" in found:
        return {"step": torch.tensor(float(updates)), **found}
    if not momentum and not bool(found["momentum_buffer"].any()):  # and has never been
        del found["momentum_buffer"]
        found.update({"momentum_buffer": None} if _names_nothing() else {})
    return found


@functools.lru_cache(maxsize=1)
def _names_nothing() -> bool:
    """Does this torch's SGD without momentum keep a momentum_buffer of None? Older ones do."""
    p = torch.nn.Parameter(torch.zeros(1))
    p.grad = torch.zeros(1)
    optimizer = torch.optim.SGD([p], lr=0.1)
    optimizer.step()
    return "momentum_buffer" in optimizer.state[p]


def export(trainer: Trainer, slots: Sequence[Any], optimizer: torch.optim.Optimizer) -> None:
    """The library's state into the wrapped optimizer's, replacing what is there."""
    groups = optimizer.param_groups
    momentum = {id(p): g.get("momentum", 0) != 0 for g in groups for p in g["params"]}
    optimizer.state.clear()
    for s in slots:
        found = _state_of(trainer, s.index, s.param, momentum[id(s.param)])
        if found:
            optimizer.state[s.param] = found


def restore(
    trainer: Trainer,
    slots: Sequence[Any],
    optimizer: torch.optim.Optimizer,
    saved: Dict[str, Any],
) -> None:
    """A state_dict's state (of this optimizer or of torch's) into the library's. The same on all
    ranks."""
    numbers = itertools.chain(*(g["params"] for g in saved["param_groups"]))
    params = itertools.chain(*(g["params"] for g in optimizer.param_groups))
    by_param = {id(p): saved["state"].get(n, {}) for n, p in zip(numbers, params)}
    for s in slots:
        _restore_one(trainer, s, by_param.get(id(s.param), {}))


def _restore_one(trainer: Trainer, s: Any, state: Dict[str, Any]) -> None:
    names: List[str] = trainer.state_names(s.index)
    for k, name in enumerate(names):
        value = state.get(name)
        if value is None and name == "master_param":
            continue  # the parameter itself, widened
        array = _array_like(s.param)
        array.copy_(value) if value is not None else array.zero_()
        trainer.state_set(s.index, k, array.data_ptr())
    counted = state.get("step", 1 if state.get("momentum_buffer") is not None else 0)
    trainer.set_updates(s.index, int(counted))
