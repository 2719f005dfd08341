"""Random small models: what real ones are made of, in random order.

A model is a chain of parts of one width. Parts: Linear, BatchNorm, LayerNorm, Dropout, a convolution, a recurrent layer, one that is used
twice, tied weights, a recomputed one, a buffer that takes part in the computation, a parameter of the model itself; and parts that are
used never, or only in some steps of some ranks. Everything follows from the generator `r`, the same on all ranks; values do not: rank 0's
must count."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

IN, OUT = 5, 3


class Conv(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv1d(1, 2, 3, padding=1, bias=False)

    def forward(self, x):
        return self.conv(x.unsqueeze(1)).sum(1)


class Recurrent(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.cell = nn.GRU(width, width, batch_first=True)

    def forward(self, x):
        return self.cell(x.unsqueeze(1).expand(-1, 2, -1))[0][:, -1]


class Scaled(nn.Module):
    """Divides by a running size, in training too: another rank's buffer gives another result."""

    def __init__(self, width):
        super().__init__()
        self.register_buffer("size", torch.ones(()))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.size.mul_(0.9).add_(x.detach().abs().mean(), alpha=0.1)
                self.calls += 1
        return x / (self.size + 1)


class Replaced(nn.Module):
    """Assigns its buffer anew in each forward pass."""

    def __init__(self, width):
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))

    def forward(self, x):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return x - 0.1 * self.mean


class Tied(nn.Module):
    """The weight of one layer, transposed, and a bias of its own."""

    def __init__(self, width, other):
        super().__init__()
        self.weight = other.weight
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return nn.functional.linear(x, self.weight.t(), self.bias)


class Recomputed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False) if self.training else self.inner(x)


def _linear(width):
    return nn.Linear(width, width)


PARTS = [
    _linear, _linear, lambda w: nn.Sequential(nn.Linear(w, w, bias=False), nn.BatchNorm1d(w)), nn.BatchNorm1d, nn.LayerNorm, Conv,
    Recurrent, Scaled, Replaced, Recomputed, lambda w: nn.Dropout(0.3), lambda w: nn.PReLU(),
]  # fmt: skip


class Net(nn.Module):
    """See above. `unused`: some parts are not used always; `on` says by whom and when; `differs`: not by all ranks alike."""

    def __init__(self, r):
        super().__init__()
        width = r.choice([4, 7, 12])
        self.first, self.last = nn.Linear(IN, width), nn.Linear(width, OUT)
        self.chain = nn.ModuleList(r.choice(PARTS)(width) for _ in range(r.randint(1, 4)))
        self.order = list(range(len(self.chain)))
        if r.random() < 0.3:
            self.order.append(r.choice(self.order))  # used twice
        if r.random() < 0.3:
            self.chain.append(Tied(width, self._some_linear(width)))
            self.order.append(len(self.chain) - 1)
        self.gain = nn.Parameter(torch.ones(width)) if r.random() < 0.4 else None
        self.unused = r.random() < 0.4
        self.never = nn.Linear(2, 2) if self.unused and r.random() < 0.5 else None
        self.sometimes = nn.Linear(width, width) if self.unused else None
        self.when = r.randrange(4)
        self.differs = self.unused and self.when in (1, 2)
        if r.random() < 0.2:
            self.first.bias.requires_grad_(False)

    def _some_linear(self, width):
        found = [m for m in self.chain if isinstance(m, nn.Linear)]
        if not found:
            self.chain.append(nn.Linear(width, width))
            self.order.append(len(self.chain) - 1)
            found = [self.chain[-1]]
        return found[-1]

    def on(self, tick, rank):
        return [tick % 2 == 0, (tick + rank) % 2 == 0, rank == 0, tick > 1][self.when]

    def forward(self, x, tick=0, rank=0):
        x = torch.tanh(self.first(x))
        for i in self.order:
            x = torch.tanh(self.chain[i](x)) + 0.5 * x
        if self.gain is not None:
            x = x * self.gain
        if self.sometimes is not None and self.on(tick, rank):
            x = x + self.sometimes(x)
        return self.last(x)
