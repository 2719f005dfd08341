"""The library's own optimizers in place of torch's: SGD, Adam and AdamW, with PyTorch's formulas
and values. Which torch optimizers it can stand for, and why not. The library updates a parameter in
one pass over memory, piece by piece while the rest is still arriving; checkpoints are
_checkpoint.py's.
"""

from typing import Any, Dict, Optional

import torch

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
    """Why the library cannot do this optimizer's work; None: it can. f16 and bf16 parameters only
    when `asked`: the library updates an f32 copy of them, torch does not."""
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
