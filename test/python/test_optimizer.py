"""DistributedOptimizer ends where a single process on the concatenated batch ends, under every policy: SGD and AdamW, several parameter
groups, schedulers, accumulation, clipping, unused parameters, tied weights, modules that are never called; state_dict, eval and resuming."""

import contextlib
import copy

import case

torch = case.need_torch()
import torch.distributed as dist  # noqa: E402

import tutti.torch  # noqa: E402
from tutti._trainer import AVAILABLE  # noqa: E402

if not AVAILABLE:
    print("skipped: this libtutti has no trainer")
    raise SystemExit(0)
dist.init_process_group("tutti")
ME, N = dist.get_rank(), dist.get_world_size()
POLICIES = ["sync", "wfbp", "bucket", "mgwfbp", "bytescheduler", "hybrid", "hybrid-cost", "dear"]
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


def test_policies():
    for make in (make_sgd, make_adamw):
        reference = make_model()
        train(reference, make(reference), range(N))
        for policy in POLICIES:
            model = make_model()
            if ME:
                with torch.no_grad():
                    model[0].weight.add_(1.0)  # rank 0's parameters count
            optimizer = tutti.torch.DistributedOptimizer(make(model), model, policy=policy)
            train(model, optimizer, [ME])
            compare(model, reference, (policy, make))
            optimizer.close()


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
    model = make_model()
    optimizer = tutti.torch.DistributedOptimizer(make_sgd(model), model)
    train(model, optimizer, [ME], scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.3))
    compare(model, reference, "scheduler")
    optimizer.close()


def test_accumulation_and_clipping():
    for policy in ("dear", "bucket"):
        reference = make_model()
        clip = lambda m: torch.nn.utils.clip_grad_norm_(m.parameters(), 0.1)  # noqa: E731
        train(reference, make_sgd(reference), range(N), accumulate=contextlib.nullcontext, clip=clip)
        model = make_model()
        optimizer = tutti.torch.DistributedOptimizer(make_sgd(model), model, policy=policy)

        def clip_average(m):
            optimizer.synchronize()
            clip(m)

        train(model, optimizer, [ME], accumulate=optimizer.no_sync, clip=clip_average)
        compare(model, reference, ("clipping", policy))
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
    whole = make_model()
    optimizer = tutti.torch.DistributedOptimizer(make_adamw(whole), whole)
    train(whole, optimizer, [ME])
    first = make_model()
    a = tutti.torch.DistributedOptimizer(make_adamw(first), first)
    train(first, a, [ME], range(5))
    saved = copy.deepcopy({"model": first.state_dict(), "optimizer": a.state_dict()})
    a.close()
    second = make_model()
    second.load_state_dict(saved["model"])
    b = tutti.torch.DistributedOptimizer(make_adamw(second), second)
    b.load_state_dict(saved["optimizer"])
    train(second, b, [ME], range(5, STEPS))
    assert torch.equal(flat(second), flat(whole)), "the same bits as without the break"
    optimizer.close()
    b.close()


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


def test_wrong_use():
    model = make_model()
    stranger = torch.nn.Parameter(torch.zeros(7))
    case.raises(ValueError, lambda: tutti.torch.DistributedOptimizer(torch.optim.SGD([stranger], 0.1), model), "(7,)")
    case.raises(RuntimeError, lambda: tutti.torch.DistributedOptimizer(make_sgd(model), model, policy="magic"), "magic")


case.run([t for name, t in list(globals().items()) if name.startswith("test_")], ME)
dist.destroy_process_group()
