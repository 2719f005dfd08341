"""DDP on our backend ends where a single process on the concatenated batch ends: default reduction, our hook, the bf16 wire with error
feedback (to a tolerance), unused parameters, no_sync, buckets of every size."""

import case

torch = case.need_torch()
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: E402

import tutti.torch  # noqa: E402

dist.init_process_group("tutti")
ME, N = dist.get_rank(), dist.get_world_size()
BATCH, STEPS = 4, 12


def make_model():
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 300), torch.nn.Tanh(), torch.nn.Linear(300, 3)
    )


def batch(step, rank):
    g = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn(BATCH, 1, 8, 8, generator=g)
    return x, x.sum((1, 2, 3)).remainder(3).long()


def train(model, steps, ranks, accumulate=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(steps):
        x, y = (torch.cat(parts) for parts in zip(*(batch(step, r) for r in ranks)))
        if accumulate and step % 2 == 0:
            with accumulate():
                torch.nn.functional.cross_entropy(model(x), y).backward()
            continue
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def alone(steps=STEPS):
    return train(make_model(), steps, range(N))


def same_everywhere(flat):
    others = [torch.zeros_like(flat) for _ in range(N)]
    dist.all_gather(others, flat)
    return all(torch.equal(o, flat) for o in others)


def test_default():
    for cap in (25, 0.05):
        for view in (False, True):
            got = train(DDP(make_model(), bucket_cap_mb=cap, gradient_as_bucket_view=view), STEPS, [ME])
            assert same_everywhere(got)
            assert torch.allclose(got, alone(), atol=1e-5), (cap, (got - alone()).abs().max())


def test_hook():
    model = DDP(make_model(), bucket_cap_mb=0.05)
    model.register_comm_hook(None, tutti.torch.ddp_hook)
    got = train(model, STEPS, [ME])
    assert same_everywhere(got) and torch.allclose(got, alone(), atol=1e-5)


def bf16_distance(error_feedback):
    model = DDP(make_model(), bucket_cap_mb=0.05)
    model.register_comm_hook(tutti.torch.DDPHookState(wire="bf16", error_feedback=error_feedback), tutti.torch.ddp_hook)
    got = train(model, 40, [ME])
    assert same_everywhere(got)
    return (got - alone(40)).norm() / alone(40).norm()


def test_bf16_wire():
    far, near = bf16_distance(False), bf16_distance(True)
    assert 0 < near < 0.02, near
    assert far < 0.05, far


def test_error_feedback_loses_nothing():
    state = tutti.torch.DDPHookState(wire="bf16")
    exact, sent = torch.zeros(1000), torch.zeros(1000)
    for step in range(50):
        g = torch.full((1000,), 1.0 + 2**-10) + torch.arange(1000) * 1e-6
        exact += g
        sent += state.pack(0, g.clone()).float()
    assert (exact - sent).abs().max() < 0.01, "the sum differs by one rounding, not by fifty"


def test_an_overflow_is_not_carried_over():
    """What rounding infinity loses is no number: later gradients must not get it."""
    state = tutti.torch.DDPHookState(wire="bf16")
    state.pack(0, torch.full((8,), float("inf")))
    assert torch.equal(state.pack(0, torch.ones(8)), torch.ones(8, dtype=torch.bfloat16))


def test_bf16_is_added_in_f32():
    state = tutti.torch.DDPHookState(wire="bf16")
    if state.comm is None:
        return
    # In bf16 256 + 1 = 256: adding one by one would lose every 1; f32 keeps them and rounds once.
    x = torch.full((10007,), 256.0 if ME == 0 else 1.0, dtype=torch.bfloat16)
    state.comm.call("allreduce", x.data_ptr(), x.data_ptr(), x.numel(), "bf16")
    want = torch.tensor(256.0 + N - 1).to(torch.bfloat16)
    assert torch.equal(x, want.expand(10007)), (x[:4], want)


def test_weight_first():
    """What DDP does without, and in the other order. Bit for bit where it adds two numbers; of three, which two come first
    depends on their place in the bucket, and that on the order."""
    import copy
    import io

    from tutti.torch import _first

    _first.LEAST = 1
    plain, model = make_model(), tutti.torch.weight_first(make_model())
    assert tutti.torch.weight_first(model) is model and "forward" in model[3].__dict__
    order = []
    model[3].weight.register_hook(lambda _: order.append("weight"))
    model[2].register_full_backward_hook(lambda *_: order.append("input"))
    train(DDP(plain), STEPS, [ME])
    train(DDP(model), STEPS, [ME])
    for a, b in zip(plain.parameters(), model.parameters()):
        assert torch.equal(a, b) if N < 3 else torch.allclose(a, b, rtol=1e-5, atol=1e-7)
    assert order == ["weight", "input"] * STEPS, order
    model.load_state_dict(plain.state_dict())
    for shape in ((5, 144), (3, 5, 144), (2, 3, 5, 144)):
        y = torch.randn(shape)
        assert torch.equal(model[3](input=y), plain[3](y)), shape
        assert torch.equal(model[3](y.transpose(0, -2)), plain[3](y.transpose(0, -2))), shape
    x = batch(0, ME)[0]
    saved = io.BytesIO()
    torch.save(tutti.torch.weight_first(make_model()), saved)
    saved.seek(0)
    more = {} if torch.__version__.startswith("1.") else {"weights_only": False}
    assert torch.load(saved, **more)(x).shape == (BATCH, 3)
    twin = copy.deepcopy(model)
    assert torch.equal(twin(x), model(x)) and not isinstance(twin[3].__dict__["forward"], _first.Forward)
    with torch.no_grad():
        assert torch.equal(model(x), plain(x))
    case.raises(RuntimeError, lambda: torch.autograd.grad(model(x).sum(), list(model.parameters()), create_graph=True), "weight_first")


def test_no_sync_and_unused():
    model = DDP(make_model())
    got = train(model, STEPS, [ME], accumulate=model.no_sync)
    import contextlib

    want = train(make_model(), STEPS, range(N), accumulate=contextlib.nullcontext)
    assert same_everywhere(got) and torch.allclose(got, want, atol=1e-5)

    class Half(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.a(x)

    half = DDP(Half(), find_unused_parameters=True)
    for _ in range(2):
        half(torch.ones(2, 3) * ME).sum().backward()
    assert half.module.b.weight.grad is None or (half.module.b.weight.grad == 0).all()
    assert torch.allclose(half.module.a.weight.grad[0], torch.full((3,), 2 * 2 * sum(range(N)) / N))


case.run([t for name, t in list(globals().items()) if name.startswith("test_")], ME)
dist.destroy_process_group()
