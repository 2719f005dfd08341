"""Forward: a `forward` of our own for one torch.nn.Linear, whose backward pass is two nodes of
autograd's graph, not one.

    forward    x ----> input node ----> y ----> join ----> y
               W, b -> weight node -> token ---/

Nodes made later run earlier: the weight's gradient is computed, and handed over, before the
input's. The join gives the output's gradient to both. A program that asks for gradients of inputs
only (torch.autograd.grad) runs the input node alone, as in torch.

It does torch's ordinary work under autocast and tracing, without gradients, for other types and for
frozen parameters. A deep or pickled copy of the module has torch's forward, and so has the module
after remove(); a shallow one (copy.copy) computes with the original's parameters, and
torch.jit.script refuses such modules."""

import functools
import weakref
from typing import Any, Callable, Dict, Optional, Tuple

import torch

Pair = Tuple[Optional[torch.Tensor], Optional[torch.Tensor]]


class _Given:
    """The gradient of the output, from the join to the weight's node."""

    value: Optional[torch.Tensor] = None


class _Input(torch.autograd.Function):
    """y = x W^T + b as a function of x."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, output: Any) -> torch.Tensor:  # type: ignore[override]
        ctx.save_for_backward(weight)
        return output(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:  # type: ignore[override]
        (weight,) = ctx.saved_tensors
        _no_graph(not weight.requires_grad)
        return grad.matmul(weight) if ctx.needs_input_grad[0] else None, None, None


class _Weight(torch.autograd.Function):
    """The same as a function of W and b; its output is empty."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, weight: torch.Tensor, bias: Any, x: torch.Tensor, given: _Given, gradients: Any
    ) -> torch.Tensor:
        ctx.given, ctx.gradients = given, gradients
        ctx.save_for_backward(x)
        return weight.new_empty(0)

    @staticmethod
    def backward(ctx: Any, _: torch.Tensor) -> Any:  # type: ignore[override]
        (x,), grad = ctx.saved_tensors, ctx.given.value
        ctx.given.value = None
        _no_graph(True)
        of_weight, of_bias = ctx.gradients(grad.reshape(-1, grad.shape[-1]), x.reshape(-1, x.shape[-1]))
        return of_weight, of_bias, None, None, None


class _Join(torch.autograd.Function):
    """y, which depends on both."""

    @staticmethod
    def forward(ctx: Any, y: torch.Tensor, token: torch.Tensor, given: _Given) -> torch.Tensor:  # type: ignore[override]
        ctx.given = given
        ctx.mark_dirty(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:  # type: ignore[override]
        ctx.given.value = grad
        return grad, grad.new_empty(0), None


def _autocast() -> bool:
    try:
        return torch.is_autocast_enabled("cpu")  # type: ignore[call-arg]
    except TypeError:  # before 2.4
        return torch.is_autocast_cpu_enabled()


def _no_graph(forbidden: bool) -> None:
    if forbidden and torch.is_grad_enabled():
        raise RuntimeError("tutti: no graph of this backward pass (create_graph) with weight_first, or without pipe=False")


class Forward:
    """Set as the module's attribute `forward`; what it does is that of the class made of it."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = weakref.ref(module)
        self.weight: Any = module.weight
        self.bias: Any = module.bias

    @staticmethod
    def fits(module: Any) -> bool:
        """A Linear of f32 whose forward nobody has replaced?"""
        if type(module) is not torch.nn.Linear or module.weight.dtype != torch.float32:
            return False
        own = module.__dict__.get("forward")
        return own is None or (isinstance(own, functools.partial) and own.func is torch.nn.Linear.forward)  # a copy's

    def install(self) -> None:
        """Takes the place of the module's forward."""
        module: Any = self._module()
        module.__dict__["forward"] = self

    def remove(self) -> None:
        """The module's forward is torch's again."""
        module = self._module()
        if module is not None and module.__dict__.get("forward") is self:
            del module.__dict__["forward"]

    def usable(self, module: Any, x: Any) -> bool:
        """May this forward pass be ours? Not without gradients, under autocast or tracing, for
        other types, with frozen parameters."""
        return bool(
            module.weight is self.weight
            and module.bias is self.bias
            and self.weight.requires_grad
            and (self.bias is None or self.bias.requires_grad)
            and type(x) is torch.Tensor
            and x.dtype == self.weight.dtype
            and x.device.type == "cpu"
            and x.dim() > 0
            and x.shape[-1] == self.weight.shape[1]
            and x.numel() > 0
            and torch.is_grad_enabled()
            and not _autocast()
            and not torch.jit.is_tracing()
        )

    def nodes(
        self,
        x: torch.Tensor,
        weight: torch.Tensor,
        output: Callable[[torch.Tensor], torch.Tensor],
        gradients: Callable[[torch.Tensor, torch.Tensor], Pair],
    ) -> torch.Tensor:
        """output(x), with gradients(output's gradient, x), both as rows, for weight and bias.
        `weight` is what the input's gradient is computed with: the parameter, or detached from it
        so that the parameter's gradient need not wait for the input's."""
        given = _Given()
        y = _Input.apply(x, weight, output)
        token = _Weight.apply(self.weight, self.bias, x.detach(), given, gradients)
        return _Join.apply(y, token, given)

    def __deepcopy__(self, memo: Dict[int, Any]) -> Any:
        module: Any = memo.get(id(self._module()))
        return functools.partial(type(module).forward, module)

    def __reduce__(self) -> Any:
        module: Any = self._module()
        return functools.partial, (type(module).forward, module)
