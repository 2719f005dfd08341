"""The library's own optimizers in place of torch's: SGD, Adam and AdamW, with PyTorch's formulas, values and checkpoints.

The library updates a parameter in one pass over memory, piece by piece while the rest is still arriving. What it keeps (momentum, moments,
counts) stays with it, sharded over the ranks with dear-sharded; `export` puts it into the wrapped optimizer in torch's own form, `restore`
takes it from a state_dict of that form, so that checkpoints go both ways between torch's optimizers and ours.
"""

import functools
import itertools
from typing import Any, Dict, List, Optional, Sequence

import torch

from .._trainer import Trainer

KINDS = {torch.optim.SGD: "sgd", torch.optim.Adam: "adam", torch.optim.AdamW: "adamw"}
PLAIN = (torch.float32, torch.float64)
HALF = (torch.float16, torch.bfloat16)


def kind_of(optimizer: torch.optim.Optimizer) -> str:
    """The library's name of a torch optimizer."""
    kind = KINDS[type(optimizer)]
    decoupled = any(g.get("decoupled_weight_decay") for g in optimizer.param_groups)
    return "adamw" if kind == "adam" and decoupled else kind


def _group_reason(kind: str, g: Dict[str, Any]) -> Optional[str]:
    for option in ("amsgrad", "maximize", "capturable", "differentiable"):
        if g.get(option):
            return f"{option} is set"
    if kind == "sgd":
        return "dampening is not 0" if g["dampening"] != 0 and g["momentum"] != 0 else None
    return "a beta or eps is 0" if 0 in (*map(float, g["betas"]), float(g["eps"])) else None


def reason(optimizer: torch.optim.Optimizer, asked: bool) -> Optional[str]:
    """Why the library cannot do this optimizer's work; None: it can. f16 and bf16 parameters only when `asked`: the library updates an f32
    copy of them, torch does not."""
    if type(optimizer) not in KINDS:
        return f"{type(optimizer).__name__} is none of SGD, Adam and AdamW"
    if getattr(optimizer, "_optimizer_step_pre_hooks", None) or getattr(optimizer, "_optimizer_step_post_hooks", None):
        return "it has step hooks"
    for g in optimizer.param_groups:
        why = _group_reason(KINDS[type(optimizer)], g)
        strange = [p.dtype for p in g["params"] if p.requires_grad and p.dtype not in (PLAIN + HALF if asked else PLAIN)]
        if why or strange:
            return why or f"there are parameters of {strange[0]}"
    return None


def values_of(kind: str, g: Dict[str, Any]) -> Dict[str, Any]:
    """A parameter group's values as the library wants them."""
    why = _group_reason(kind, g)
    if why:
        raise RuntimeError(f"tutti: the library's {kind} cannot go on: {why} (builtin=False uses torch's)")
    values = {"lr": float(g["lr"]), "weight_decay": float(g["weight_decay"])}
    if kind == "sgd":
        return dict(values, momentum=float(g["momentum"]), nesterov=bool(g["nesterov"]))
    return dict(values, beta1=float(g["betas"][0]), beta2=float(g["betas"][1]), eps=float(g["eps"]))


def _array_like(p: torch.Tensor) -> torch.Tensor:
    return torch.empty(p.shape, dtype=torch.float64 if p.dtype == torch.float64 else torch.float32)


def _state_of(trainer: Trainer, index: int, p: torch.Tensor, momentum: bool) -> Dict[str, Any]:
    """One parameter's state as torch has it. Collective with dear-sharded; nothing where it was never updated."""
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
    momentum = {id(p): g.get("momentum", 0) != 0 for g in optimizer.param_groups for p in g["params"]}
    optimizer.state.clear()
    for s in slots:
        found = _state_of(trainer, s.index, s.param, momentum[id(s.param)])
        if found:
            optimizer.state[s.param] = found


def restore(trainer: Trainer, slots: Sequence[Any], optimizer: torch.optim.Optimizer, saved: Dict[str, Any]) -> None:
    """A state_dict's state (of this optimizer or of torch's) into the library's. The same on all ranks."""
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
