"""weight_first: in the backward pass of a Linear layer the gradient of the weight before that of
the input.

    model = DDP(tutti.torch.weight_first(model))

torch computes both in one node of its graph and hands over neither before the end of the other.
Here they are two nodes (_forward.py), so that DDP's bucket, any backend's, leaves while the input's
gradient is still computed. Results are the same to the bit."""

from typing import Any, List, TypeVar

import torch

from ._forward import Forward, Pair

LEAST = 1 << 20  # bytes of a weight for which it is worth while
M = TypeVar("M", bound=torch.nn.Module)


class _First(Forward):
    def __call__(self, input: Any) -> Any:
        module: Any = self._module()
        if not self.usable(module, input):
            return type(module).forward(module, input)
        return self.nodes(input, self.weight.detach(), self._output, self._gradients)

    def _output(self, x: torch.Tensor) -> torch.Tensor:
        if x.dim() == 2:
            return torch.nn.functional.linear(x, self.weight, self.bias)
        y = x.new_empty(*x.shape[:-1], self.weight.shape[0])  # linear's may be a view, which the join cannot take
        rows, out = x.reshape(-1, x.shape[-1]), y.view(-1, y.shape[-1])
        if self.bias is None:
            torch.mm(rows, self.weight.t(), out=out)
        else:
            torch.addmm(self.bias, rows, self.weight.t(), out=out)
        return y

    def _gradients(self, given: torch.Tensor, rows: torch.Tensor) -> Pair:
        return given.t().mm(rows), None if self.bias is None else given.sum(0)


def weight_first(model: M) -> M:
    """Large Linear layers of the model compute their weight's gradient before their input's.
    Returns the model; a second call changes nothing. Not for gradients of gradients (create_graph),
    which are refused."""
    modules: List[Any] = [m for m in model.modules() if _First.fits(m)]
    for m in modules:
        if m.weight.numel() * m.weight.element_size() >= LEAST:
            _First(m).install()
    return model
