"""weight_first: in the backward pass of a Linear layer the gradient of the weight before that of the input.

    model = DDP(tutti.torch.weight_first(model))

torch computes both in one node and hands over neither before the end of the other. Here they are two nodes, that of the weight first, so
that DDP's bucket (any backend's) leaves while the input's gradient is still computed. Results are the same to the bit.

    forward    x ----> input node ----> y ----> join ----> y
               W, b -> weight node -> token ---/           the nodes made later run earlier in the backward pass; the join hands the
                                                           output's gradient to both
"""

from typing import Any, List, Optional, TypeVar

import torch

from ._forward import Forward

LEAST = 1 << 20  # bytes of a weight for which it is worth while
M = TypeVar("M", bound=torch.nn.Module)


class _Given:
    """The gradient of the output, from the join to the weight's node."""

    value: Optional[torch.Tensor] = None


class _Input(torch.autograd.Function):
    """y = x W^T + b as a function of x."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: Any) -> torch.Tensor:  # type: ignore[override]
        ctx.save_for_backward(weight)
        return torch.nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:  # type: ignore[override]
        return grad.matmul(ctx.saved_tensors[0]), None, None


class _Weight(torch.autograd.Function):
    """The same as a function of W and b; its output is empty."""

    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, bias: Any, x: torch.Tensor, given: _Given) -> torch.Tensor:  # type: ignore[override]
        ctx.given = given
        ctx.save_for_backward(x)
        return weight.new_empty(0)

    @staticmethod
    def backward(ctx: Any, _: torch.Tensor) -> Any:  # type: ignore[override]
        (x,), grad = ctx.saved_tensors, ctx.given.value
        ctx.given.value = None
        if torch.is_grad_enabled():
            raise RuntimeError("tutti: no graph of the backward pass (create_graph) with weight_first")
        rows, given = x.reshape(-1, x.shape[-1]), grad.reshape(-1, grad.shape[-1])
        of_weight = given.t().mm(rows) if ctx.needs_input_grad[0] else None
        return of_weight, given.sum(0) if ctx.needs_input_grad[1] else None, None, None


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


class _First(Forward):
    def __call__(self, x: Any) -> Any:
        module: Any = self._module()
        if not self.usable(module, x):
            return type(module).forward(module, x)
        given = _Given()
        y = _Input.apply(x, module.weight.detach(), None if module.bias is None else module.bias.detach())
        token = _Weight.apply(module.weight, module.bias, x.detach(), given)
        return _Join.apply(y, token, given)


def weight_first(model: M) -> M:
    """Large Linear layers of the model compute their weight's gradient before their input's. Returns the model; a second call changes
    nothing. Not for gradients of gradients."""
    modules: List[Any] = [m for m in model.modules() if _First.fits(m)]
    for m in modules:
        if m.weight.numel() * m.weight.element_size() >= LEAST:
            _First(m).install()
    return model
