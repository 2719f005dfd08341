"""DistributedOptimizer ends where a single process on the concatenated batch ends, under every policy, whether the library updates or torch:
SGD, Adam and AdamW, several parameter groups, schedulers, accumulation, clipping, unused parameters, tied weights, modules that are never
called; state_dict in torch's form, eval and resuming."""

import contextlib
import copy

import case

torch = case.need_torch()
import torch.distributed as dist  # noqa: E402

import tutti.torch  # noqa: E402
from tutti._trainer import AVAILABLE  # noqa: E402
from tutti.torch._steps import AVERAGED, OPEN  # noqa: E402

if not AVAILABLE:
    print("skipped: this libtutti has no trainer")
    raise SystemExit(0)
dist.init_process_group("tutti")
ME, N = dist.get_rank(), dist.get_world_size()
POLICIES = ["sync", "wfbp", "bucket", "mgwfbp", "bytescheduler", "hybrid", "hybrid-cost", "dear", "dear-sharded"]
BATCH, STEPS = 4, 10


def make_model():
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(144, 300),
        torch.nn.Tanh(),
        torch.nn.Linear(300, 3),
    )


def make_sgd(model):
    groups = [{"params": model[0].parameters(), "lr": 0.02}, {"params": [p for m in model[1:] for p in m.parameters()]}]
    return torch.optim.SGD(groups, lr=0.05, momentum=0.9, weight_decay=1e-3)


def make_adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def batch(step, rank):
    g = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn(BATCH, 1, 8, 8, generator=g)
    return x, x.sum((1, 2, 3)).remainder(3).long()


def loss_of(model, step, ranks):
    x, y = (torch.cat(parts) for parts in zip(*(batch(step, r) for r in ranks)))
    return torch.nn.functional.cross_entropy(model(x), y)


def train(model, optimizer, ranks, steps=range(STEPS), accumulate=None, clip=None, scheduler=None):
    for step in steps:
        if accumulate and step % 2 == 0:
            with accumulate():
                loss_of(model, step, ranks).backward()
            continue
        loss_of(model, step, ranks).backward()
        if clip:
            clip(model)
        optimizer.step()
        if scheduler:
            scheduler.step()
        optimizer.zero_grad()


def flat(model):
    return torch.cat([v.reshape(-1) for v in model.state_dict().values()])


def same_everywhere(x):
    others = [torch.zeros_like(x) for _ in range(N)]
    dist.all_gather(others, x)
    return all(torch.equal(o, x) for o in others)


def compare(model, reference, what):
    got, want = flat(model), flat(reference)
    assert same_everywhere(got), what
    assert torch.allclose(got, want, atol=2e-5), (what, (got - want).abs().max())


def make_adam(model):
    return torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=0.01, betas=(0.8, 0.99))


def make_nesterov(model):
    return torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.8, nesterov=True)


def make_plain(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def alone(make, **how):
    """A single process on everybody's batches."""
    model = make_model()
    optimizer = make(model)
    train(model, optimizer, range(N), **how)
    return model, optimizer


def ours(make, policy, **options):
    model = make_model()
    return model, tutti.torch.DistributedOptimizer(make(model), model, policy=policy, **options)


def test_policies():
    for make in (make_sgd, make_adamw):
        reference, _ = alone(make)
        for policy in POLICIES:
            model = make_model()
            if ME:
                with torch.no_grad():
                    model[0].weight.add_(1.0)  # rank 0's parameters count
            optimizer = tutti.torch.DistributedOptimizer(make(model), model, policy=policy)
            assert optimizer.builtin
            train(model, optimizer, [ME])
            compare(model, reference, (policy, make))
            optimizer.close()


def test_torch_updates():
    for make in (make_sgd, make_adamw):
        reference, _ = alone(make)
        for policy in ("bucket", "dear", "bytescheduler"):
            model, optimizer = ours(make, policy, builtin=False)
            assert not optimizer.builtin
            train(model, optimizer, [ME])
            compare(model, reference, (policy, make))
            optimizer.close()
    rms = lambda m: torch.optim.RMSprop(m.parameters(), lr=1e-3)  # noqa: E731
    model, optimizer = ours(rms, "dear")
    assert not optimizer.builtin, "the library has no RMSprop"
    train(model, optimizer, [ME], range(3))
    compare(model, alone(rms, steps=range(3))[0], "RMSprop")
    optimizer.close()


def test_other_optimizers():
    for make in (make_adam, make_nesterov, make_plain):
        reference, _ = alone(make)
        for policy in ("sync", "dear", "dear-sharded"):
            model, optimizer = ours(make, policy, builtin=True)
            train(model, optimizer, [ME])
            compare(model, reference, (policy, make))
            optimizer.close()


def close_states(got, want):
    """Two state_dicts of optimizers, with the same keys and nearly the same numbers."""
    assert got["param_groups"] == want["param_groups"]
    assert got["state"].keys() == want["state"].keys()
    for n, state in want["state"].items():
        assert got["state"][n].keys() == state.keys(), (got["state"][n].keys(), state.keys())
        for key, value in state.items():
            mine = got["state"][n][key]
            same = (mine is None and value is None) or (mine.shape == value.shape and mine.dtype == value.dtype)
            assert same and (value is None or torch.allclose(mine, value, atol=2e-5)), (n, key, mine, value)


def test_checkpoints_are_torchs():
    """There and back: 5 steps, the checkpoint into torch's optimizer, 5 steps, and the other way round."""
    for make in (make_sgd, make_adamw, make_plain):
        reference, plain_optimizer = alone(make)
        half, half_optimizer = alone(make, steps=range(5))
        for policy in ("bucket", "dear", "dear-sharded"):
            model, optimizer = ours(make, policy)
            train(model, optimizer, [ME], range(5))
            saved = copy.deepcopy(optimizer.state_dict())
            close_states(saved, half_optimizer.state_dict())
            by_torch = make_model()
            by_torch.load_state_dict(model.state_dict())
            torch_optimizer = make(by_torch)
            torch_optimizer.load_state_dict(saved)
            train(by_torch, torch_optimizer, range(N), range(5, STEPS))
            compare(by_torch, reference, ("to torch", policy, make))
            optimizer.close()
            model, optimizer = ours(make, policy)
            model.load_state_dict(half.state_dict())
            optimizer.load_state_dict(half_optimizer.state_dict())
            train(model, optimizer, [ME], range(5, STEPS))
            compare(model, reference, ("from torch", policy, make))
            close_states(optimizer.state_dict(), plain_optimizer.state_dict())
            optimizer.close()


def test_closing_gives_the_state_back():
    for policy in ("dear", "dear-sharded"):
        model, optimizer = ours(make_adamw, policy)
        train(model, optimizer, [ME], range(5))
        optimizer.close()
        train(model, optimizer.inner, range(N), range(5, 7))
        again = tutti.torch.DistributedOptimizer(optimizer.inner, model, policy=policy)
        train(model, again, [ME], range(7, STEPS))
        compare(model, alone(make_adamw)[0], ("closed and opened", policy))
        again.close()


def test_small_buckets():
    reference = make_model()
    train(reference, make_sgd(reference), range(N))
    model = make_model()
    optimizer = tutti.torch.DistributedOptimizer(make_sgd(model), model, threshold_bytes=20000, first_bytes=1000)
    train(model, optimizer, [ME])
    compare(model, reference, "small buckets")
    optimizer.close()


def test_scheduler_uses_the_rate_of_its_step():
    reference = make_model()
    opt = make_sgd(reference)
    train(reference, opt, range(N), scheduler=torch.optim.lr_scheduler.StepLR(opt, 2, 0.3))
    for policy in ("dear", "dear-sharded", "bucket"):
        model, optimizer = ours(make_sgd, policy)
        train(model, optimizer, [ME], scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.3))
        compare(model, reference, ("scheduler", policy))
        optimizer.close()


def clip(model):
    return torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)


def test_accumulation_and_clipping():
    """clip_grad_norm_ clips averaged gradients, whether synchronize() was called or not."""
    for make in (make_sgd, make_adamw):
        reference, _ = alone(make, accumulate=contextlib.nullcontext, clip=clip)
        for policy in ("dear", "bucket"):
            for builtin in (True, False):
                model, optimizer = ours(make, policy, builtin=builtin)
                first = lambda m: (optimizer.synchronize() if builtin else None, clip(m))  # noqa: E731, B023
                train(model, optimizer, [ME], accumulate=optimizer.no_sync, clip=first)
                compare(model, reference, ("clipping", policy, builtin))
                optimizer.close()


def test_looking_at_gradients():
    """p.grad is the average when somebody looks, even if only one rank does; its shape can be had for nothing."""
    reference, _ = alone(make_sgd)
    for policy in ("dear", "bucket"):
        for builtin in (True, False):
            model, optimizer = ours(make_sgd, policy, builtin=builtin)
            single = make_model()
            loss_of(single, 0, range(N)).backward()
            want = [p.grad for p in single.parameters()]
            for step in range(STEPS):
                loss_of(model, step, [ME]).backward()
                shapes = [p.grad.shape for p in model.parameters()]
                assert shapes == [p.shape for p in model.parameters()] and optimizer._steps.phase == OPEN
                if step == 0:
                    got = [p.grad.clone() for p in model.parameters()]
                    assert all(type(g) is torch.Tensor for g in got) and optimizer._steps.phase == AVERAGED
                    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(got, want))
                elif ME == 0 and step % 3 == 0:
                    float(next(model.parameters()).grad.norm())
                optimizer.step()
                optimizer.zero_grad()
            compare(model, reference, ("looking", policy, builtin))
            optimizer.close()


def test_clip_norm():
    for make in (make_sgd, make_adamw):
        norms = []
        reference, _ = alone(make, clip=lambda m: norms.append(float(clip(m))))  # noqa: B023
        for policy in ("dear", "bucket", "dear-sharded"):
            for builtin in (True, False) if policy != "dear-sharded" else (True,):
                model, optimizer = ours(make, policy, builtin=builtin, clip_norm=0.1)
                train(model, optimizer, [ME])
                compare(model, reference, ("clip_norm", policy, builtin))
                assert abs(optimizer.grad_norm - norms[-1]) < 1e-3 * norms[-1], (optimizer.grad_norm, norms[-1])
                optimizer.close()


def test_gradients_that_are_not_zeroed():
    """Gradients add up until zero_grad(), as torch's do."""

    def run(model, optimizer, ranks):
        for step in range(6):
            loss_of(model, step, ranks).backward()
            optimizer.step()
            if step % 3 == 2:
                optimizer.zero_grad()

    reference = make_model()
    run(reference, make_sgd(reference), range(N))
    for policy in ("bucket", "dear"):
        for builtin in (True, False):
            model, optimizer = ours(make_sgd, policy, builtin=builtin)
            run(model, optimizer, [ME])
            compare(model, reference, ("not zeroed", policy, builtin))
            optimizer.close()
    model, optimizer = ours(make_sgd, "dear-sharded")
    case.raises(RuntimeError, lambda: run(model, optimizer, [ME]), "zero_grad()")
    optimizer.close()


def test_eval_sees_the_last_update():
    model, reference = make_model(), make_model()
    optimizer = tutti.torch.DistributedOptimizer(make_sgd(model), model)
    train(model, optimizer, [ME], range(3))
    train(reference, make_sgd(reference), range(N), range(3))
    x = torch.ones(2, 1, 8, 8)
    with torch.no_grad():
        assert torch.allclose(model(x), reference(x), atol=1e-5), "forward without eval()"
    train(model, optimizer, [ME], range(3, 4))
    train_again = copy.deepcopy(reference)
    model.eval()
    p = next(model.parameters()).detach().clone()
    optimizer.flush()
    assert torch.equal(p, next(model.parameters()).detach()), "eval() has finished the update"
    del train_again
    optimizer.close()


def test_resume():
    for policy in ("dear", "dear-sharded"):
        whole, optimizer = ours(make_adamw, policy)
        train(whole, optimizer, [ME])
        first, a = ours(make_adamw, policy)
        train(first, a, [ME], range(5))
        saved = copy.deepcopy({"model": first.state_dict(), "optimizer": a.state_dict()})
        a.close()
        second, b = ours(make_adamw, policy)
        second.load_state_dict(saved["model"])
        b.load_state_dict(saved["optimizer"])
        train(second, b, [ME], range(5, STEPS))
        assert torch.equal(flat(second), flat(whole)), (policy, "the same bits as without the break")
        optimizer.close()
        b.close()


def test_half_precision():
    """bf16 parameters: by torch unless asked for; the library updates an f32 copy, which a checkpoint has too."""
    make = lambda m: torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9)  # noqa: E731
    assert "bfloat16" in tutti.torch._builtin.reason(make(make_model().to(torch.bfloat16)), False)
    results = []
    for breaks in (False, True):
        model = torch.nn.Linear(40, 30).to(torch.bfloat16)
        torch.nn.init.constant_(model.weight, 0.5)
        torch.nn.init.zeros_(model.bias)
        optimizer = tutti.torch.DistributedOptimizer(make(model), model, builtin=True)
        for step in range(8):
            model(torch.full((2, 40), 0.01 * (step + ME), dtype=torch.bfloat16)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if breaks and step == 3:
                saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
                assert saved[1]["state"][0]["master_param"].dtype == torch.float32
                optimizer.close(keep_state=False)
                model = torch.nn.Linear(40, 30).to(torch.bfloat16)
                optimizer = tutti.torch.DistributedOptimizer(make(model), model, builtin=True)
                model.load_state_dict(saved[0])
                optimizer.load_state_dict(saved[1])
        results.append(flat(model))
        optimizer.close()
    assert torch.equal(*results) and same_everywhere(results[0])


def test_copies_are_independent():
    model, optimizer = ours(make_sgd, "dear")
    train(model, optimizer, [ME], range(2))
    twin = copy.deepcopy(model.eval())
    before = flat(twin).clone()
    model.train()
    train(model, optimizer, [ME], range(2, 4))
    assert torch.equal(flat(twin.eval()), before) and not torch.equal(flat(model), before)
    optimizer.close()
    assert "eval" not in model.__dict__


class Odd(torch.nn.Module):
    """Tied weights, an attention whose projection is never called, a parameter that is not used."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.a, self.b = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        self.b.weight = self.a.weight
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        self.unused = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = torch.tanh(self.b(torch.tanh(self.a(x))))
        return self.attention(y, y, y, need_weights=False)[0].sum(-1)


def odd_loss(model, step, ranks):
    x = torch.cat([torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(100 * step + r)) for r in ranks])
    return model(x).pow(2).mean()


def test_odd_models():
    reference, model = Odd(), Odd()
    opt = torch.optim.SGD(reference.parameters(), lr=0.05, momentum=0.9)
    optimizer = tutti.torch.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), model, find_unused_parameters=True, threshold_bytes=600, first_bytes=100
    )
    for step in range(STEPS):
        odd_loss(reference, step, range(N)).backward()
        opt.step()
        opt.zero_grad()
        odd_loss(model, step, [ME]).backward()
        optimizer.step()
        optimizer.zero_grad()
    compare(model, reference, "odd model")
    optimizer.close()


def test_gradients_of_earlier_passes_only():
    """A parameter that only a pass inside no_sync() used is not forgotten."""
    def run(model, optimizer, ranks, accumulate):
        for step in range(4):
            with accumulate():
                odd_loss(model, step, ranks).backward()
            (model.unused(torch.ones(2, 4)).pow(2).mean() + 0.1 * model.a(torch.ones(1, 8)).sum()).backward()
            optimizer.step()
            optimizer.zero_grad()

    reference, model = Odd(), Odd()
    run(reference, torch.optim.SGD(reference.parameters(), lr=0.05), range(N), contextlib.nullcontext)
    optimizer = tutti.torch.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.05), model, find_unused_parameters=True)
    run(model, optimizer, [ME], optimizer.no_sync)
    compare(model, reference, "earlier passes")
    optimizer.close()


def test_wire():
    """Half the bytes: ranks stay equal, and as near to f32 as bf16 gradients with error feedback are."""
    for make in (make_sgd, make_adamw):
        reference, _ = alone(make)
        for policy in ("bucket", "dear"):
            model, optimizer = ours(make, policy, wire="bf16")
            train(model, optimizer, [ME])
            optimizer.flush()
            assert same_everywhere(flat(model)), policy
            difference = (flat(model) - flat(reference)).abs().max()
            assert 0 < difference < 0.02, (policy, make, difference)
            optimizer.close()
    model = make_model()
    case.raises(ValueError, lambda: tutti.torch.DistributedOptimizer(make_sgd(model), model, wire="bf16", builtin=False), "wire")
    case.raises(ValueError, lambda: tutti.torch.DistributedOptimizer(make_sgd(model), model, wire="bf16", policy="dear-sharded"), "wire")


def test_planned_with_times():
    """Buckets and their order follow a profile; what comes out does not depend on it."""
    reference, _ = alone(make_sgd)
    x, _ = batch(0, ME)
    times = tutti.torch.profile(make_model(), x, iterations=1, warmup=1)
    for policy in ("dear", "mgwfbp", "bytescheduler"):
        model, optimizer = ours(make_sgd, policy, profile=times)
        train(model, optimizer, [ME])
        compare(model, reference, policy)
        optimizer.close()


def test_averages_that_are_not_used():
    """Looking at gradients is no step: skipped steps leave nothing behind, and a second backward adds to the averages, as with DDP."""
    for policy in ("bucket", "dear"):
        for builtin in (True, False):
            model, optimizer = ours(make_sgd, policy, builtin=builtin)
            before = flat(model)
            loss_of(model, 0, [ME]).backward()
            assert torch.isfinite(clip(model))
            optimizer.zero_grad()
            assert torch.equal(flat(model), before), "a step that was skipped"
            train(model, optimizer, [ME])
            compare(model, alone(make_sgd)[0], (policy, builtin, "after a skipped step"))
            optimizer.close()
    model, optimizer = ours(make_sgd, "dear")
    reference = make_model()
    single = make_sgd(reference)
    for step in (0, 1):
        loss_of(reference, step, range(N)).backward()
        loss_of(model, step, [ME]).backward()
        assert model[3].weight.grad.abs().sum() > 0
    single.step()
    optimizer.step()
    compare(model, reference, "two backward passes, looked at in between")
    loss_of(model, 2, [ME]).backward()
    before = flat(model)
    close_states(optimizer.state_dict(), single.state_dict())  # of the step before
    clip(model)
    for group in optimizer.param_groups:
        group["lr"], group["momentum"] = 0.0, 0.0
    steps = optimizer.state_dict()
    assert steps["state"]
    optimizer.step()
    optimizer.flush()
    assert torch.equal(flat(model), before), "the learning rate of step() counts"
    optimizer.close()


def test_wrong_use():
    model = make_model()
    stranger = torch.nn.Parameter(torch.zeros(7))
    case.raises(ValueError, lambda: tutti.torch.DistributedOptimizer(torch.optim.SGD([stranger], 0.1), model), "(7,)")
    case.raises(RuntimeError, lambda: tutti.torch.DistributedOptimizer(make_sgd(model), model, policy="magic"), "magic")
    odd = lambda: torch.optim.Adam(model.parameters(), amsgrad=True)  # noqa: E731
    case.raises(ValueError, lambda: tutti.torch.DistributedOptimizer(odd(), model, builtin=True), "amsgrad")
    case.raises(ValueError, lambda: tutti.torch.DistributedOptimizer(odd(), model, policy="dear-sharded"), "amsgrad")
    model, optimizer = ours(make_sgd, "dear-sharded")
    loss_of(model, 0, [ME]).backward()
    case.raises(RuntimeError, lambda: clip(model), "clip_norm")
    optimizer.step()
    optimizer.close()
    model, optimizer = ours(make_sgd, "dear")
    loss_of(model, 0, [ME]).backward()
    old, model[3].weight.data = model[3].weight.data, model[3].weight.data.clone()
    case.raises(RuntimeError, optimizer.step, "3.weight")
    model[3].weight.data = old
    optimizer.step()
    optimizer.close()


case.run([t for name, t in list(globals().items()) if name.startswith("test_")], ME)
dist.destroy_process_group()
