"""Large Linear layers computed block by block (tutti.torch._pipe): the same results as torch's own way, to rounding, under every policy that
cuts tensors in parts; and torch's own way wherever somebody could tell the difference."""

import copy

import case

torch = case.need_torch()
import torch.distributed as dist  # noqa: E402
import torch.utils.checkpoint  # noqa: E402

import tutti.torch  # noqa: E402
from tutti.torch._steps import IDLE  # noqa: E402
from tutti.torch import _pipe  # noqa: E402

dist.init_process_group("tutti")
ME, N = dist.get_rank(), dist.get_world_size()
_pipe.LEAST = 1  # a block per part
PART = 20000  # bytes: 5000 elements, so that parts end within rows


class Net(torch.nn.Module):
    """Two layers in parts, a third, without bias, too; a fourth that is not."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.a, self.b = torch.nn.Linear(37, 301), torch.nn.Linear(301, 150)
        self.c, self.d = torch.nn.Linear(150, 90, bias=False), torch.nn.Linear(90, 3)
        self.twice, self.checkpointed, self.cast = False, False, False

    def inner(self, x):
        return torch.relu_(self.b(x))  # writes into the layer's output

    def forward(self, x):
        x = torch.tanh(self.a(x))
        x = torch.utils.checkpoint.checkpoint(self.inner, x) if self.checkpointed else self.inner(x)
        y = self.c(input=x)
        if self.cast:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = y + self.c(x).float()
        return self.d(y + self.c(x * 0.5) if self.twice else y)


def batch(step, ranks):
    parts = []
    for r in ranks:
        g = torch.Generator().manual_seed(100 * step + r)
        parts.append(torch.randn(4, 2, 37, generator=g))  # three dimensions
    return torch.cat(parts)


def loss_of(model, step, ranks):
    x = batch(step, ranks)
    return (model(x) - x[..., :3]).square().mean() + penalty(model, x)


def none(model, x):
    return 0.0


penalty = none


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def train(model, optimizer, ranks, steps=6, before=lambda step: None, after=lambda: None):
    for step in range(steps):
        before(step)
        loss_of(model, step, ranks).backward()
        after()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def flat(model):
    return torch.cat([v.reshape(-1) for v in model.state_dict().values()])


def compare(model, reference, what, tolerance=2e-6):
    got, want = flat(model), flat(reference)
    others = [torch.zeros_like(got) for _ in range(N)]
    dist.all_gather(others, got)
    assert all(torch.equal(o, got) for o in others), what
    assert torch.allclose(got, want, atol=tolerance), (what, (got - want).abs().max())


def ours(policy="dear", **options):
    model = Net()
    return model, tutti.torch.DistributedOptimizer(sgd(model), model, policy=policy, partition_bytes=PART, **options)


def reference(change=lambda m: None, **how):
    model = Net()
    change(model)
    train(model, sgd(model), range(N), **how)
    return model


def piped(optimizer):
    """How often gradients were handed over in blocks."""
    counts = {"rows": 0}
    put = optimizer._steps.put_rows

    def count(*args):
        counts["rows"] += 1
        put(*args)

    optimizer._steps.put_rows = count
    return counts


def test_policies():
    want = reference()
    for policy in ("bucket", "hybrid", "dear", "dear-sharded", "bytescheduler"):
        for options in ({}, {"builtin": False}, {"clip_norm": 1e6}, {"find_unused_parameters": True}, {"pipe": False}):
            if policy == "dear-sharded" and "builtin" in options:
                continue
            model, optimizer = ours(policy, **options)
            counts = piped(optimizer)
            train(model, optimizer, [ME])
            compare(model, want, (policy, options))
            blocks = sum(len(p.blocks) for p in optimizer._steps.pipes)
            assert [p.slot.name for p in optimizer._steps.pipes] == ([] if "pipe" in options else ["a.weight", "b.weight", "c.weight"])
            assert counts["rows"] == 5 * blocks and (blocks > 12 or "pipe" in options), (policy, options, counts, blocks)  # not in the first step
            optimizer.close()
            assert "forward" not in model.a.__dict__


def test_wire():
    want = reference()
    model, optimizer = ours(wire="bf16")
    counts = piped(optimizer)
    train(model, optimizer, [ME])
    compare(model, want, "bf16", 0.02)
    assert counts["rows"] > 0
    optimizer.close()


def test_accumulation():
    want = Net()
    optimizer = sgd(want)
    for step in range(6):
        loss_of(want, step, range(N)).backward()
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()
    model, optimizer = ours()
    counts = piped(optimizer)
    for step in range(6):
        if step % 2:
            loss_of(model, step, [ME]).backward()
            optimizer.step()
            optimizer.zero_grad()
        else:
            with optimizer.no_sync():
                loss_of(model, step, [ME]).backward()
    compare(model, want, "accumulation")
    assert counts["rows"] == 0
    optimizer.close()


def test_used_twice():
    def twice(m):
        m.twice = True

    model, optimizer = ours()
    counts = piped(optimizer)
    twice(model)
    train(model, optimizer, [ME])
    compare(model, reference(twice), "twice")
    assert counts["rows"] == 5 * sum(len(p.blocks) for p in optimizer._steps.pipes if p.slot.name != "c.weight")
    optimizer.close()


def test_looked_at_and_clipped():
    def clip(m):
        torch.nn.utils.clip_grad_norm_(m.parameters(), 0.05)

    want = Net()
    train(want, sgd(want), range(N), after=lambda: clip(want))
    model, optimizer = ours()
    train(model, optimizer, [ME], after=lambda: clip(model))
    compare(model, want, "clipped")
    optimizer.close()


def test_hooks_and_checkpoints():
    """Hooks on a weight see its gradient; recomputed forward passes count once."""
    seen = []
    model, optimizer = ours()
    model.b.weight.register_hook(lambda g: seen.append(tuple(g.shape)))
    model.checkpointed = True
    train(model, optimizer, [ME])
    compare(model, reference(), "hooks and checkpoints")
    assert seen == [(150, 301)] * 6
    optimizer.close()


def test_gradients_of_inputs():
    """They leave the parameters' gradients alone and may have gradients of their own; a graph of the parameters' gradients is refused."""
    model, optimizer = ours()
    plain, x = copy.deepcopy(model), batch(9, [ME]).requires_grad_()

    def inputs(m):
        (g,) = torch.autograd.grad(m(x).square().sum(), x, create_graph=True)
        return torch.autograd.grad(g.square().sum(), [x, m.b.weight])

    counts = piped(optimizer)
    (got,), (want,) = (torch.autograd.grad(m(x).square().sum(), x) for m in (model, plain))
    assert torch.allclose(got, want, atol=1e-5) and optimizer._steps.phase == IDLE and model.a.weight.grad is None and not counts["rows"]
    for got, want in zip(inputs(model), inputs(plain)):
        assert torch.allclose(got, want, atol=1e-4, rtol=1e-4)
    for got, want in zip(*(torch.autograd.grad(m(x).sum(), [m.a.weight, m.c.weight]) for m in (model, plain))):
        assert torch.allclose(got, want, atol=1e-5)
    assert optimizer._steps.phase == IDLE and not counts["rows"]
    case.raises(RuntimeError, lambda: torch.autograd.grad(model(x).sum(), [model.a.weight], create_graph=True), "create_graph")
    optimizer.close()


def on_weight(model, x):
    return 0.05 * model.b.weight.square().sum() + 0.1 * model.a.bias.square().sum()


def on_inputs(model, x):
    x = x.detach().requires_grad_()
    (g,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    return g.square().sum() * 0.1 / len(x)


def test_gradients_from_elsewhere():
    """A penalty on weights, on the inputs' gradients, a second use in another type: never through the pipe. Later: an error."""
    global penalty
    for penalty in (on_weight, on_inputs):
        for options in ({}, {"builtin": False}, {"policy": "bytescheduler"}):
            model, optimizer = ours(**options)
            counts = piped(optimizer)
            train(model, optimizer, [ME])
            compare(model, reference(), (penalty, options), 5e-6)
            touched = ("a.weight", "b.weight") if penalty is on_weight else ("a.weight", "b.weight", "c.weight")
            assert counts["rows"] == 5 * sum(len(p.blocks) for p in optimizer._steps.pipes if p.slot.name not in touched), counts
            optimizer.close()
    penalty = none

    def cast(m):
        m.cast = True

    model, optimizer = ours()
    cast(model)
    train(model, optimizer, [ME])
    compare(model, reference(cast), "autocast", 2e-3)
    optimizer.close()


def test_frozen():
    """A layer that is frozen later gets no update."""
    model, optimizer = ours(find_unused_parameters=True)
    train(model, optimizer, [ME], 2)
    model.b.weight.requires_grad_(False)
    before = model.state_dict()["b.weight"].clone()
    train(model, optimizer, [ME], 2)
    after = model.state_dict()
    assert torch.equal(after["b.weight"], before)
    optimizer.close()


def test_plain_forward():
    """Without gradients, under autocast, for other types: torch's own forward, with parameters as they should be."""
    model, optimizer = ours()
    train(model, optimizer, [ME], 2)
    want = reference(steps=2)
    x = batch(5, [ME])
    with torch.no_grad():
        assert torch.allclose(model(x), want(x), atol=1e-5)
    train(model, optimizer, [ME], 1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model.a(x).dtype == torch.bfloat16
    case.raises(RuntimeError, lambda: model.a(x.double()))
    case.raises(RuntimeError, lambda: model.a(x[..., :5]))
    optimizer.close()


def test_copies():
    model, optimizer = ours()
    train(model, optimizer, [ME], 2)
    x = batch(5, [ME])
    want = model(x)
    assert torch.allclose(copy.deepcopy(model)(x), want, atol=1e-6)
    optimizer.close()


def test_gradients_from_elsewhere_later():
    global penalty
    model, optimizer = ours()
    train(model, optimizer, [ME], 2)
    penalty = on_weight

    def one():
        loss_of(model, 3, [ME]).backward()
        optimizer.step()

    text = case.raises(RuntimeError, one)
    assert "pipe=False" in text or "rank" in text, text
    penalty = none
    dist.barrier()


def twice(model, optimizer, ranks):
    for step in range(8):
        loss_of(model, step, ranks).backward()
        if step % 2:
            optimizer.step()
            optimizer.zero_grad(set_to_none=step > 4)


def test_second_gradient():
    """Without no_sync() a second backward pass adds to the averages of the first."""
    want = Net()
    twice(want, sgd(want), range(N))
    model, optimizer = ours()
    counts = piped(optimizer)
    twice(model, optimizer, [ME])
    compare(model, want, "two backward passes")
    assert counts["rows"] > 0
    optimizer.close()
    model, optimizer = ours("dear-sharded")
    case.raises(RuntimeError, lambda: twice(model, optimizer, [ME]), "backward ran twice", "opt.no_sync()")
    dist.barrier()
    optimizer.close()


case.run([t for name, t in list(globals().items()) if name.startswith("test_")], ME)
dist.destroy_process_group()
