"""profile(model, input): a model's layers with their parameters and measured times, as the file
that `tutti train-sim` and `tutti replay` read.

What is measured, on the bare model in this process, nothing communicated:

    forward    A layer begins when the module that owns its parameters is called, and ends when the
               next one is. What lies between (activations, pooling) belongs to the layer before it,
               what lies before the first layer to the first.
    backward   A layer ends when autograd has accumulated the last of its gradients (the moment at
               which they can be sent), and began when the layer behind it ended. A gradient that is
               ready before those of layers behind it counts with them.

Each time is the median over the iterations. Gradients are accumulated into memory that exists, as
with DDP or DistributedOptimizer. A parameter whose owner is never called (MultiheadAttention's
projection) belongs to the nearest module around it that is; a tied weight to the layer that runs
first. Parameters that get no gradient are left out, and the file's `source` says how many.
"""

import functools
import json
import os
import platform
import statistics
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from ._hooks import after_accumulation
from ._model import kind_of, managed
from ._tensors import NAMES, _short


class _Layer:
    def __init__(self, name: str, module: torch.nn.Module) -> None:
        self.name, self.module = name, module
        self.tensors: List[Tuple[str, torch.nn.Parameter]] = []


class _Watch:
    """Notes when modules are called and when gradients are complete."""

    def __init__(self, model: torch.nn.Module, params: Dict[str, torch.nn.Parameter]) -> None:
        self.called: Dict[torch.nn.Module, float] = {}
        self.ready: Dict[int, float] = {}
        self._handles = [m.register_forward_pre_hook(lambda m, _: self._enter(m)) for m in model.modules()]
        self._kept = [after_accumulation(p, functools.partial(self._done, p)) for p in params.values()]

    def _enter(self, module: torch.nn.Module) -> None:
        self.called.setdefault(module, time.perf_counter())

    def _done(self, p: torch.nn.Parameter) -> None:
        self.ready[id(p)] = time.perf_counter()

    def close(self) -> None:
        for h in self._handles:
            h.remove()
        for k in self._kept:
            k[1].remove()


def _scalar(output: Any) -> torch.Tensor:
    """A loss where none was given: the mean of every floating-point tensor in the output, added up.
    """
    if isinstance(output, torch.Tensor):
        return output.float().mean() if output.is_floating_point() else torch.zeros(())
    parts = output.values() if isinstance(output, dict) else output if isinstance(output, (list, tuple)) else ()
    return sum((_scalar(x) for x in parts), torch.zeros(()))


def _iterate(model: torch.nn.Module, input: Any, loss: Callable[[Any], torch.Tensor], watch: _Watch) -> Tuple[float, float, float]:
    """(start, start of backward, end) of one forward and backward."""
    for p in model.parameters():
        if p.grad is not None:
            p.grad.zero_()
    watch.called.clear()
    watch.ready.clear()
    start = time.perf_counter()
    output = model(**input) if isinstance(input, dict) else model(*input) if isinstance(input, (list, tuple)) else model(input)
    value = loss(output)
    middle = time.perf_counter()
    value.backward()
    return start, middle, time.perf_counter()


def _layers(model: torch.nn.Module, params: Dict[str, torch.nn.Parameter], watch: _Watch) -> List[_Layer]:
    """In the order in which they were called; without parameters that got no gradient."""
    modules = dict(model.named_modules(remove_duplicate=False))
    found: Dict[torch.nn.Module, _Layer] = {}
    owners: Dict[int, List[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        for p in module.parameters(recurse=False):
            owners.setdefault(id(p), []).append(name)
    for name, p in params.items():
        if id(p) not in watch.ready:
            continue
        around = [_called(o, modules, watch) for o in owners[id(p)]]
        first = min(around, key=lambda o: watch.called[modules[o]])
        found.setdefault(modules[first], _Layer(first or type(model).__name__, modules[first])).tensors.append((name, p))
    return sorted(found.values(), key=lambda x: watch.called[x.module])


def _called(name: str, modules: Dict[str, torch.nn.Module], watch: _Watch) -> str:
    """The nearest module that was called, from `name` outwards."""
    while name and (name not in modules or modules[name] not in watch.called):
        name = name.rpartition(".")[0]
    return name


def _times(layers: List[_Layer], watch: _Watch, moments: Tuple[float, float, float]) -> Tuple[List[float], List[float]]:
    """Forward and backward seconds of each layer in one iteration."""
    start, middle, _ = moments
    begins = [start]
    for x in layers[1:]:  # one that was not called this time takes none
        begins.append(max(begins[-1], watch.called.get(x.module, start)))
    begins.append(middle)
    forward = [b - a for a, b in zip(begins, begins[1:])]
    backward, last = [], middle
    for x in reversed(layers):
        ends = max([last] + [watch.ready.get(id(p), last) for _, p in x.tensors])
        backward.append(ends - last)
        last = ends
    return forward, backward[::-1]


def _describe(layers: List[_Layer], forward: List[float], backward: List[float]) -> List[Dict[str, Any]]:
    return [
        {
            "name": _short(x.name),
            "kind": kind_of(x.module),
            "forward_us": round(f * 1e6, 3),
            "backward_us": round(b * 1e6, 3),
            "tensors": [{"name": _short(n), "count": p.numel(), "dtype": NAMES[p.dtype]} for n, p in x.tensors],
        }
        for x, f, b in zip(layers, forward, backward)
    ]


def _first_tensor(input: Any) -> Optional[torch.Tensor]:
    parts = [input] if isinstance(input, torch.Tensor) else list(input.values() if isinstance(input, dict) else input)
    return next((t for t in parts if isinstance(t, torch.Tensor) and t.dim()), None)


def _check(model: torch.nn.Module, params: Dict[str, torch.nn.Parameter]) -> None:
    if isinstance(model, torch.nn.parallel.DistributedDataParallel) or model in managed:
        raise ValueError("profile() measures the bare model: call it before the model is given to DDP or DistributedOptimizer")
    if not params:
        raise ValueError("the model has no parameters that are trained")
    strange = [n for n, p in params.items() if p.dtype not in NAMES]
    if strange:
        raise ValueError(f"{strange[0]} is of {params[strange[0]].dtype}, which cannot be communicated")


class _Kept:
    """What profiling changes and gives back: gradients, buffers (running means), the state of the
    random numbers."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.grads = {p: p.grad for p in model.parameters()}
        self.buffers = [(b, b.detach().clone()) for b in model.buffers()]
        self.random = torch.get_rng_state()
        for p in model.parameters():
            p.grad = torch.zeros_like(p) if p.requires_grad else None

    def restore(self) -> None:
        for p, g in self.grads.items():
            p.grad = g
        with torch.no_grad():
            for b, old in self.buffers:
                b.copy_(old)
        torch.set_rng_state(self.random)


def _measure(
    model: torch.nn.Module, input: Any, loss: Callable[[Any], torch.Tensor], rounds: Tuple[int, int]
) -> Tuple[List[_Layer], List[float], List[float]]:
    params = {n: p for n, p in model.named_parameters() if p.requires_grad}
    _check(model, params)
    kept, watch = _Kept(model), _Watch(model, params)
    try:
        for _ in range(max(1, rounds[0])):
            _iterate(model, input, loss, watch)
        layers = _layers(model, params, watch)
        if not layers:
            raise ValueError("no parameter got a gradient: the loss does not depend on the model")
        samples = [_times(layers, watch, _iterate(model, input, loss, watch)) for _ in range(max(1, rounds[1]))]
    finally:
        watch.close()
        kept.restore()
    forward, backward = ([statistics.median(c) for c in zip(*(s[i] for s in samples))] for i in (0, 1))
    return layers, forward, backward


def profile(
    model: torch.nn.Module,
    input: Any,
    path: Optional[str] = None,
    *,
    loss: Optional[Callable[[Any], torch.Tensor]] = None,
    name: Optional[str] = None,
    batch: Optional[int] = None,
    iterations: int = 5,
    warmup: int = 2,
) -> Dict[str, Any]:
    """Measures the model on `input` (a tensor, a tuple of arguments or a dict of keywords) and
    returns its profile, tutti-profile(5); with `path` it is written there. loss(output) makes the
    scalar that backward() starts from; without it, the mean of the output. batch is the first
    tensor's first dimension unless given. The model, its gradients, buffers and the random numbers
    are as before afterwards."""
    layers, forward, backward = _measure(model, input, loss or _scalar, (warmup, iterations))
    first = _first_tensor(input)
    unused = sum(p.requires_grad for p in model.parameters()) - sum(len(x.tensors) for x in layers)
    found = {
        "format": "tutti-profile",
        "version": 1,
        "model": _short(name or type(model).__name__),
        "batch": batch or (first.shape[0] if first is not None else 1),
        "times": "measured",
        "source": f"tutti.torch.profile, torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.node()[:60]}, "
        f"medians of {iterations}" + (f"; {unused} unused parameters left out" if unused else ""),
        "layers": _describe(layers, forward, backward),
    }
    if path is not None:
        with open(os.fspath(path), "w") as f:
            json.dump(found, f, indent=1)
            f.write("\n")
    return found
