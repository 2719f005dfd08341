"""Hooks: where autograd and modules call Steps.

    p.register_hook          before autograd adds to p.grad; the caller's own hooks on the gradient
                             have run or will run
    the accumulating node    after autograd has added to p.grad, and after the caller's own hooks
                             on that
    forward pre-hooks        before a module uses its parameters; the model's own: before anything
                             is used

A hook keeps nothing alive, and in a copy of the model (deepcopy, pickle, torch.save) it does
nothing.
"""

import weakref
from typing import Any, Callable, Dict, List, Sequence

import torch

from ._buffers import Buffers
from ._compile import leave_alone
from ._steps import Steps, call


class _Hook:
    """Calls a method of Steps as long as that is in use: with a slot, or with a list of slots."""

    def __init__(self, steps: Steps, method: str, numbers: Any) -> None:
        self._steps, self._method, self._numbers = weakref.ref(steps), method, numbers

    def __call__(self, *_: Any) -> None:
        steps = self._steps()
        if steps is not None:
            one = isinstance(self._numbers, int)
            slots: Any = steps.slots[self._numbers] if one else [steps.slots[i] for i in self._numbers]
            call(self._steps, self._method, slots)

    def __reduce__(self) -> Any:
        return getattr, ({}, "get")  # {}.get(module, inputs) is `inputs`: a hook that changes nothing, and loads without this package


class _BeforeModel:
    """Before the model's own forward: parameters that no module's forward announces, and buffers.
    """

    def __init__(self, steps: Steps, buffers: Buffers) -> None:
        self._steps, self._buffers = weakref.ref(steps), buffers

    def __call__(self, *_: Any) -> None:
        steps = self._steps()
        if steps is not None and steps.trainer._own is not None:
            steps.before_forward(steps.hidden)
            self._buffers.before_forward(steps.syncing)

    __reduce__ = _Hook.__reduce__


leave_alone(_Hook.__call__, _BeforeModel.__call__)


def node_of(p: torch.nn.Parameter) -> Any:
    """Autograd's node that accumulates p.grad. It lives as long as what is returned."""
    return p.expand_as(p).grad_fn.next_functions[0][0]  # type: ignore[union-attr]


def after_accumulation(p: torch.nn.Parameter, f: Callable[[], None]) -> Any:
    """Calls f() after p.grad has been accumulated; (node, handle), which must be kept."""
    node = node_of(p)
    return node, node.register_hook(lambda *_: f())


def install(
    steps: Steps, model: torch.nn.Module, owned: Dict[torch.nn.Module, List[int]], silent: Sequence[torch.nn.Module], buffers: Buffers
) -> List[Any]:
    """All hooks; what is returned removes them. `silent`: modules that wait for their parameters
    themselves."""
    handles: List[Any] = []
    for s in steps.slots:
        s.node = node_of(s.param)
        handles.append(s.node.register_hook(_Hook(steps, "ready", s.index)))
        handles.append(s.param.register_hook(_Hook(steps, "before_accumulation", s.index)))
    for module, numbers in owned.items():
        if module not in silent:
            handles.append(module.register_forward_pre_hook(_Hook(steps, "before_forward", numbers)))
    handles.append(model.register_forward_pre_hook(_BeforeModel(steps, buffers)))
    return handles
