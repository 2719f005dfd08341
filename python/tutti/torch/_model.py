"""The model as the distributed optimizer sees it: trained parameters and the modules that own them,
what kind each is; and whether all ranks have the same model, with the name of the first parameter
that differs."""

import hashlib
import weakref
from typing import Any, Dict, List, NamedTuple, Tuple

import torch

from .._lib import DIFFERS, Error

managed: "weakref.WeakKeyDictionary[torch.nn.Module, Any]" = weakref.WeakKeyDictionary()  # model to a weak reference to its optimizer


class Trained(NamedTuple):
    """One trained parameter; module and key: where it was found first."""

    name: str
    module: torch.nn.Module
    key: str
    param: torch.nn.Parameter
    layer: int
    group: int


def kind_of(module: torch.nn.Module) -> str:
    """The trainer's kind of a module's tensors."""
    if isinstance(module, torch.nn.modules.conv._ConvNd):
        return "conv"
    if isinstance(module, torch.nn.Linear):
        return "fc"
    if isinstance(module, (torch.nn.modules.batchnorm._BatchNorm, torch.nn.LayerNorm, torch.nn.GroupNorm)):
        return "norm"
    return "embedding" if isinstance(module, torch.nn.Embedding) else "other"


def trained(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Tuple[List[Trained], Dict[torch.nn.Module, List[int]]]:
    """The optimizer's parameters in forward order, and for each module the numbers of those it
    owns."""
    groups = {id(p): i for i, g in enumerate(optimizer.param_groups) for p in g["params"]}
    names = {id(p): n for n, p in model.named_parameters()}
    found: Dict[int, int] = {}
    all_of_them: List[Trained] = []
    owned: Dict[torch.nn.Module, List[int]] = {}
    for layer, module in enumerate(model.modules(), 1):
        for key, p in module._parameters.items():
            if p is None or not p.requires_grad or id(p) not in groups:
                continue
            if id(p) not in found:
                found[id(p)] = len(all_of_them)
                all_of_them.append(Trained(names[id(p)], module, key, p, layer, groups[id(p)]))
            owned.setdefault(module, []).append(found[id(p)])
    missing = [tuple(p.shape) for g in optimizer.param_groups for p in g["params"] if p.requires_grad and id(p) not in found]
    if missing:
        raise ValueError(f"parameters of shapes {missing} are the optimizer's but not the model's")
    return all_of_them, owned


def _described(model: torch.nn.Module) -> List[str]:
    parameters = [("parameter " + n, p) for n, p in model.named_parameters()]
    buffers = [("buffer " + n, b) for n, b in model.named_buffers()]
    return [f"{n} {tuple(t.shape)} {str(t.dtype).replace('torch.', '')}" for n, t in [*parameters, *buffers]]


def _gathered(group: Any, row: torch.Tensor) -> torch.Tensor:
    rows = torch.empty((group.size(), row.numel()), dtype=row.dtype)
    group.allgather([list(rows)], [row]).wait()
    return rows


def _texts(group: Any, text: bytes) -> List[bytes]:
    """Everybody's text."""
    lengths = _gathered(group, torch.tensor([len(text)], dtype=torch.int64)).reshape(-1).tolist()
    row = torch.zeros(max(lengths), dtype=torch.uint8)
    row[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    return [bytes(r[:n].tolist()) for r, n in zip(_gathered(group, row), lengths)]


def check_alike(group: Any, model: torch.nn.Module) -> None:
    """Collective: raises on every rank when a rank has another model than rank 0."""
    lines = _described(model)
    digest = hashlib.sha256("\n".join(lines).encode()).digest()
    rows = _gathered(group, torch.frombuffer(bytearray(digest), dtype=torch.uint8))
    if bool((rows == rows[0]).all()):
        return
    every = [t.decode().split("\n") for t in _texts(group, "\n".join(lines).encode())]
    rank = next(r for r, theirs in enumerate(every) if theirs != every[0])
    pairs = zip([*every[0], "nothing more"], [*every[rank], "nothing more"])
    first, other = next((a, b) for a, b in pairs if a != b)
    raise Error(DIFFERS, f"tutti: the ranks have different models: rank 0 has {first}, rank {rank} has {other}")
