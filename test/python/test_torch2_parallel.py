"""Models in parallel on PyTorch 2: DDP, FSDP2, ZeRO, DTensor and tensor parallel, DeviceMesh of one and two dimensions; compiled DDP."""

import copy

import case
from torch2 import BACKEND, begin, close, end, torch, whole

import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel as DDP

ME, N = begin()
STEPS, BATCH = 4, 6


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.up, self.down, self.last = nn.Linear(10, 32), nn.Linear(32, 10), nn.Linear(10, 3)

    def forward(self, x):
        return self.last(x + self.down(torch.tanh(self.up(x))))


def batch(step, rank=None):
    g = torch.Generator().manual_seed(100 * step + (ME if rank is None else rank))
    return torch.randn(BATCH, 10, generator=g)


def train(model, opt, clip=None, data=batch):
    """Losses of this rank."""
    losses = []
    for step in range(STEPS):
        opt.zero_grad()
        loss = model(data(step)).square().mean()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        opt.step()
        losses.append(loss.item())
    return losses


def adam(model):
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def with_ddp(**options):
    model = DDP(Net(), **options)
    return train(model, adam(model), clip=0.5), model.module


def same(model, want):
    for (name, a), (_, b) in zip(want.named_parameters(), model.named_parameters()):
        close(whole(b).detach(), a.detach(), 1e-4), name


def test_ddp_modes():
    losses, want = with_ddp()
    for options in ({"static_graph": True}, {"find_unused_parameters": True}, {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.001}):
        got, model = with_ddp(**options)
        assert all(abs(a - b) < 1e-5 for a, b in zip(losses, got)), options
        same(model, want)


def test_fsdp2():
    """Training equals DDP's; clipping, and a state dict that goes back."""
    losses, want = with_ddp()
    mesh = init_device_mesh("cpu", (N,))
    model = Net()
    for layer in (model.up, model.down):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    got = train(model, adam(model), clip=0.5)
    assert all(abs(a - b) < 1e-4 for a, b in zip(losses, got)), (losses, got)
    same(model, want)
    state = {k: whole(v) for k, v in model.state_dict().items()}
    other = Net()
    other.load_state_dict(state)
    same(other, want)


def test_fsdp2_mixed_precision():
    model = Net()
    fully_shard(model, mesh=init_device_mesh("cpu", (N,)), mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
    got, want = train(model, adam(model)), train(DDP(Net()), adam(Net()))
    assert abs(got[0] - want[0]) < 0.05 * abs(want[0]), (got, want)


def test_zero():
    _, want = with_ddp()
    model = DDP(Net())
    opt = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.01)
    train(model, opt, clip=0.5)
    same(model.module, want)


def test_dtensor():
    mesh = init_device_mesh("cpu", (N,))
    torch.manual_seed(1)
    a = torch.randn(4 * N + 1, 6)
    d = distribute_tensor(a, mesh, [Shard(0)])
    close(d.redistribute(mesh, [Replicate()]).to_local(), a)
    close(d.redistribute(mesh, [Shard(1)]).full_tensor(), a)
    partial = DTensor.from_local(torch.full((4,), float(ME)), mesh, [dist.tensor.Partial()])
    close(partial.redistribute(mesh, [Replicate()]).to_local(), torch.full((4,), float(sum(range(N)))))


def test_tensor_parallel():
    """Splitting the two layers gives what one process computes."""
    mesh = init_device_mesh("cpu", (N,))
    one, model = Net(), Net()
    parallelize_module(model, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    alike = lambda step: batch(step, 0)  # noqa: E731
    close(torch.tensor(train(model, torch.optim.SGD(model.parameters(), 0.1), data=alike)),
          torch.tensor(train(one, torch.optim.SGD(one.parameters(), 0.1), data=alike)), 1e-4)  # fmt: skip
    same(model, one)


def test_mesh_of_two_dimensions():
    if N % 2:
        return
    mesh = init_device_mesh("cpu", (N // 2, 2), mesh_dim_names=("rows", "columns"))
    t = torch.ones(3)
    dist.all_reduce(t, group=mesh.get_group("columns"))
    assert (t == 2).all()
    dist.all_reduce(t, group=mesh["rows"].get_group())
    assert (t == N).all()


def test_compiled_ddp():
    """Same losses, and one graph for each bucket at most."""
    torch._dynamo.reset()
    plain, want = with_ddp()
    graphs = []

    def look(graph, inputs):
        graphs.append(graph)
        return graph.forward

    model = DDP(Net())
    got = train(torch.compile(model, backend=look), adam(model), clip=0.5)
    assert all(abs(a - b) < 1e-5 for a, b in zip(plain, got)), (plain, got)
    assert 1 <= len(graphs) <= 4, len(graphs)
    same(copy.copy(model.module), want)


assert dist.get_backend() == BACKEND
case.run(
    [
        test_ddp_modes, test_fsdp2, test_fsdp2_mixed_precision, test_zero, test_dtensor, test_tensor_parallel,
        test_mesh_of_two_dimensions, test_compiled_ddp,
    ],
    ME,
)  # fmt: skip
end()
