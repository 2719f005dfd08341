"""Whatever a user does to p.grad, to parameters and to buffers has the effect it has with DDP, or raises with the line to write instead.

Every case is a function of (model, optimizer, loss of a step) that runs on a single process with everybody's batches and then under every
policy, with the library's update and with torch's: parameters must come out the same. Policies without averages on any rank must raise."""

import copy
import gc
import io
import os
import pickle

import case

torch = case.need_torch()
import torch.distributed as dist  # noqa: E402

import tutti  # noqa: E402
import tutti.torch  # noqa: E402
from tutti.torch._buffers import Buffers  # noqa: E402

dist.init_process_group("tutti")
ME, N = dist.get_rank(), dist.get_world_size()
POLICIES = ["sync", "wfbp", "bucket", "mgwfbp", "bytescheduler", "hybrid", "hybrid-cost", "dear"]
# Each policy with the library's update and with torch's; over tcp with one of them, in turn: there the same lines of Python run.
HOW = [(p, b) for i, p in enumerate(POLICIES) for b in (True, False) if os.environ.get("TUTTI_TRANSPORT") != "tcp" or b == (i % 2 == 0)]
BATCH = 4


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.a, self.b, self.c = torch.nn.Linear(6, 9), torch.nn.Linear(9, 7), torch.nn.Linear(7, 2)

    def forward(self, x):
        return self.c(torch.tanh(self.b(torch.tanh(self.a(x)))))


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=0.01)


def loss_on(ranks):
    def loss(model, step):
        x = torch.cat([torch.randn(BATCH, 6, generator=torch.Generator().manual_seed(77 * step + r)) for r in ranks])
        return (model(x) - x[:, :2]).square().mean()

    return loss


def flat(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def same_everywhere(x):
    others = [torch.zeros_like(x) for _ in range(N)]
    dist.all_gather(others, x)
    return all(torch.equal(o, x) for o in others)


def everywhere(program, make=sgd, steps=5, **options):
    """The program on one process, and on every policy."""
    want = Net()
    program(want, make(want), loss_on(range(N)))
    for policy, builtin in HOW:
        model = Net()
        opt = tutti.torch.DistributedOptimizer(make(model), model, policy=policy, builtin=builtin, **options)
        program(model, opt, loss_on([ME]))
        got = flat(model)
        what = (program.__name__, policy, builtin)
        assert same_everywhere(got), what
        assert torch.allclose(got, flat(want), atol=1e-5), (*what, float((got - flat(want)).abs().max()))
        opt.close()


def stepping(change, zero=True):
    """Five steps with `change(model, opt, step)` between backward() and step()."""

    def program(model, opt, loss):
        for step in range(5):
            if zero:
                opt.zero_grad()
            loss(model, step).backward()
            change(model, opt, step)
            opt.step()

    program.__name__ = change.__name__
    return program


def refused(change, *words, policy="dear-sharded", **options):
    """The same where no rank has averages: raises, and the optimizer goes on."""
    model = Net()
    opt = tutti.torch.DistributedOptimizer(sgd(model), model, policy=policy, **options)
    loss_on([ME])(model, 0).backward()

    def act():
        change(model, opt, 0)
        opt.step()

    text = case.raises(RuntimeError, act)
    assert all(w in text for w in words), text
    dist.barrier()
    opt.close()
    return text


# ---- p.grad between backward() and step() ----


def drop_one(model, opt, step):
    model.b.weight.grad = None


def drop_all(model, opt, step):
    if step % 2:
        for p in model.parameters():
            p.grad = None


def zeros(model, opt, step):
    model.a.weight.grad = torch.zeros_like(model.a.weight)


def fixed(model, opt, step):
    model.b.bias.grad = torch.arange(7.0) / 7


def scaled(model, opt, step):
    model.a.weight.grad = model.a.weight.grad * 0.5
    model.c.weight.grad.mul_(0.25)


def half_data(model, opt, step):
    for p in model.parameters():
        p.grad.data = p.grad.data * 0.5


def set_memory(model, opt, step):
    model.b.weight.grad.set_(torch.full((7, 9), 0.125))
    model.a.bias.grad.copy_(torch.arange(9.0) / 9)


def transposed(model, opt, step):
    model.b.weight.grad = model.b.weight.grad.t().contiguous().t() * 2


def clip_norm(model, opt, step):
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)


def clip_value(model, opt, step):
    torch.nn.utils.clip_grad_value_(model.parameters(), 0.01)


def foreach(model, opt, step):
    torch._foreach_mul_([p.grad for p in model.parameters()], 0.5)


def swapped(model, opt, step):
    model.a.bias.grad, model.a.weight.grad = model.a.bias.grad.neg(), model.a.weight.grad.sign()


def negated(model, opt, step):
    model.a.weight.grad, model.b.bias.grad = torch._neg_view(model.a.weight.grad), torch._neg_view(torch.arange(7.0) / 7)


def noisy(model, opt, step):
    g = torch.Generator().manual_seed(step)
    for p in model.parameters():
        p.grad += 0.01 * torch.randn(p.shape, generator=g)


def zeroed_in_between(model, opt, step):
    if step == 2:
        opt.zero_grad(set_to_none=True)
    elif step == 3:
        opt.zero_grad(set_to_none=False)
    elif step == 4:
        model.zero_grad()


CHANGES = [drop_one, drop_all, zeros, fixed, scaled, half_data, set_memory, transposed, clip_norm, clip_value, foreach, swapped, negated, noisy]
REPLACED = [drop_one, drop_all, zeros, fixed]  # without a look at the average


def test_changed_gradients():
    for change in [*CHANGES, zeroed_in_between]:
        everywhere(stepping(change))
    for change in (drop_one, fixed, clip_norm):
        everywhere(stepping(change), adam)


def test_no_averages_no_changes():
    """dear-sharded, and bf16 on the wire: refused with what to write instead."""
    for change in CHANGES:
        step = 1 if change is drop_all else 0
        at = lambda m, o, _, change=change, step=step: change(m, o, step)  # noqa: E731
        words = ("replaced", "register_hook()") if change in REPLACED else ("clip_norm=",)
        for text in (refused(at, *words, "policy='dear'"), refused(at, *words, "wire='f32'", policy="dear", wire="bf16")):
            assert change not in REPLACED or "clip" not in text, text
    refused(lambda m, o, _: o.zero_grad(), "zero_grad() between backward() and step()", "before backward()")
    text = refused(lambda m, o, _: loss_on([ME])(m, 0).backward(), "ran twice", "with opt.no_sync():", policy="dear", wire="bf16")
    assert "clip" not in text, text


def test_one_rank_only_looks():
    """A look is not collective: what the ranks change must be the same, who looks need not be."""

    def look(model, opt, step):
        if ME == step % N:
            float(model.b.weight.grad.sum())

    everywhere(stepping(look))


def test_one_rank_synchronizes_after_the_step():
    """p.grad is the average already: nothing is communicated, with or without zero_grad() in between."""

    def program(model, opt, loss):
        for step in range(6):
            opt.zero_grad(set_to_none=step % 2 == 0)
            if ME == step % N and hasattr(opt, "synchronize"):
                opt.synchronize()
            loss(model, step).backward()
            opt.step()
            if ME == 0 and hasattr(opt, "synchronize"):
                opt.synchronize()

    everywhere(program)
    everywhere(program, find_unused_parameters=True)


# ---- parameters that some ranks do not use ----


class Partly(Net):
    """`b` is used by rank 0 in even steps, `never` by nobody."""

    def __init__(self):
        super().__init__()  # seeds
        self.b, self.never = torch.nn.Linear(9, 9), torch.nn.Linear(2, 2)
        self.c = torch.nn.Linear(9, 2)

    def forward(self, x, used):
        x = torch.tanh(self.a(x))
        return self.c(x + self.b(x) if used else x)


def partly(policy, builtin, change, steps=4, make=sgd):
    """(the model after some steps, what `change` returned in each)"""
    model = Partly()
    opt = tutti.torch.DistributedOptimizer(make(model), model, policy=policy, builtin=builtin, find_unused_parameters=True)
    found = []
    for step in range(steps):
        x = torch.randn(BATCH, 6, generator=torch.Generator().manual_seed(step))
        opt.zero_grad(set_to_none=True)
        model(x, ME == 0 and step % 2 == 0).square().mean().backward()
        found.append(change(model, opt))
        opt.step()
    opt.close()
    return model, found


def test_gradients_of_other_ranks():
    """p.grad is what it is with DDP, also where only other ranks have used the parameter, or nobody: then it is None."""

    def ask(model, opt):
        return [p.grad is None for p in (model.b.weight, model.never.weight)]

    def scale(model, opt):
        for p in model.parameters():
            if p.grad is not None:
                p.grad = p.grad * 0.5

    def drop(model, opt):
        model.b.weight.grad = None

    def delete(model, opt):
        del model.b.bias.grad

    def use_and_ask(model, opt):
        return float(model.never.weight.sum()), model.never.weight.grad is None, type(copy.deepcopy(model.never.weight))

    for policy, builtin in HOW:
        model, found = partly(policy, builtin, ask)
        assert found == [[False, True], [True, True]] * 2, (policy, builtin, found)
        old = dict(Partly().named_parameters())
        for change, kept in ((scale, "never.weight"), (drop, "b.weight"), (delete, "b.bias")):
            model, _ = partly(policy, builtin, change)
            values = dict(model.named_parameters())
            assert same_everywhere(flat(model)), (policy, builtin, change)
            assert torch.equal(values[kept], old[kept]), (policy, builtin, change, kept)
            assert not torch.equal(values["a.weight"], old["a.weight"])
        model, found = partly(policy, builtin, use_and_ask)
        assert all(none and kind is torch.nn.Parameter for _, none, kind in found), (policy, builtin, found)


def test_closing_a_step_that_ranks_see_differently():
    """Not ended by step(), with other parameters used on other ranks: the group goes on."""
    for policy, builtin in [*HOW, ("dear-sharded", True)]:
        model = Partly()
        del model.never  # all that nobody uses comes first, and holds back the rest
        opt = tutti.torch.DistributedOptimizer(sgd(model), model, policy=policy, builtin=builtin, find_unused_parameters=True)
        model(torch.ones(BATCH, 6), ME == 0).sum().backward()
        opt.close()
        dist.all_reduce(torch.ones(3))


def test_closed():
    """A closed optimizer says so; its model and the wrapped optimizer go on."""
    model = Net()
    inner = sgd(model)
    opt = tutti.torch.DistributedOptimizer(inner, model)
    opt.close()
    opt.zero_grad()
    loss_on([0])(model, 0).backward()
    case.raises(RuntimeError, opt.step, "is closed")
    case.raises(RuntimeError, opt.synchronize, "is closed")
    case.raises(RuntimeError, lambda: opt.load_state_dict(inner.state_dict()), "is closed")
    inner.step()


# ---- order of calls ----


def test_orders():
    def twice(model, opt, loss):
        """Two backward passes: the second adds to the average of the first."""
        for step in range(4):
            loss(model, 2 * step).backward()
            loss(model, 2 * step + 1).backward()
            opt.step()
            opt.zero_grad()

    def dropped(model, opt, loss):
        """A backward pass that no step follows."""
        for step in range(6):
            loss(model, step).backward()
            if step % 3 == 1:
                opt.zero_grad() if step == 1 else model.zero_grad()
                continue
            opt.step()
            opt.zero_grad()

    def nulled_by_hand(model, opt, loss):
        loss(model, 0).backward()
        for p in model.parameters():
            p.grad = None
        loss(model, 1).backward()
        opt.step()

    def stepped_twice(model, opt, loss):
        """The second step() uses the same gradients."""
        for step in range(3):
            loss(model, step).backward()
            opt.step()
            opt.step()
            opt.zero_grad()

    def never_zeroed(model, opt, loss):
        for step in range(4):
            loss(model, step).backward()
            opt.step()

    def no_gradient(model, opt, loss):
        opt.step()
        loss(model, 0).backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        opt.step()

    def by_hand(model, opt, loss):
        """No backward pass at all."""
        for step in range(3):
            for p in model.parameters():
                p.grad = torch.full_like(p, 0.1 * step)
            opt.step()

    def zeroed_late(model, opt, loss):
        """The usual order of other people: zero_grad after the forward pass; zeros in place."""
        for step in range(5):
            out = loss(model, step)
            opt.zero_grad(set_to_none=False)
            out.backward()
            opt.step()

    def zeroed_at_once(model, opt, loss):
        for step in range(5):
            loss(model, step).backward()
            opt.step()
            model.zero_grad(set_to_none=False)

    def closure(model, opt, loss):
        for step in range(3):

            def again():
                opt.zero_grad()
                out = loss(model, step)
                out.backward()
                return out

            assert float(opt.step(again)) > 0

    for program in (twice, dropped, nulled_by_hand, stepped_twice, never_zeroed, no_gradient, by_hand, zeroed_late, zeroed_at_once, closure):
        everywhere(program)


def test_accumulation():
    def program(model, opt, loss):
        sync = getattr(opt, "no_sync", None)
        for step in range(4):
            if sync:
                with sync():
                    loss(model, 2 * step).backward()
            else:
                loss(model, 2 * step).backward()
            for p in model.parameters():
                p.grad.mul_(0.5)
            loss(model, 2 * step + 1).backward()
            opt.step()
            opt.zero_grad()

    everywhere(program)


def test_hooks_of_the_user():
    """On the gradient, and (torch 2) after its accumulation: both before averaging, as with DDP."""

    def double(p):
        p.grad.mul_(2)

    def program(model, opt, loss):
        handles = [model.a.weight.register_hook(lambda g: 0.5 * g), model.c.bias.register_hook(lambda g: g * 3)]
        if hasattr(model.b.weight, "register_post_accumulate_grad_hook"):
            handles.append(model.b.weight.register_post_accumulate_grad_hook(double))
        for step in range(4):
            opt.zero_grad(set_to_none=step % 2 == 0)
            loss(model, step).backward()
            opt.step()
        for h in handles:
            h.remove()

    everywhere(program)


def test_looking_inside_backward():
    model = Net()
    opt = tutti.torch.DistributedOptimizer(sgd(model), model)
    handle = model.a.weight.register_hook(lambda g: model.c.weight.grad.sum() and None)
    case.raises(RuntimeError, lambda: loss_on([ME])(model, 0).backward(), "before backward() is over", "register_hook")
    handle.remove()
    dist.barrier()
    opt.close()


def test_grad_scaler():
    if not hasattr(torch, "amp") or not hasattr(torch.amp, "GradScaler"):
        print("skipped: this torch's GradScaler is for GPUs only")
        return

    def program(model, opt, loss):
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=2)
        for step in range(6):
            opt.zero_grad()
            out = scaler.scale(loss(model, step))
            (out * float("inf") if step == 2 else out).backward()
            if step % 2:
                scaler.unscale_(opt)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            scaler.step(opt)
            scaler.update()

    everywhere(program)
    norm = []

    def clipped(model, opt, loss):
        """clip_norm is the norm of what the scaler left."""
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
        for step in range(3):
            opt.zero_grad()
            scaler.scale(loss(model, step)).backward()
            scaler.unscale_(opt)
            if type(opt) is torch.optim.SGD:
                norm.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)))
            scaler.step(opt)
            scaler.update()
        if type(opt) is not torch.optim.SGD:
            assert abs(opt.grad_norm - norm[-1]) < 1e-4 * norm[-1], (opt.grad_norm, norm)

    everywhere(clipped, clip_norm=0.05)


# ---- gradients that are kept ----


def test_kept_gradients():
    """What the caller has of a gradient stays what it was, also views of it, and after the optimizer has gone."""

    def program(model, opt, loss):
        kept, want = [], []
        for step in range(4):
            opt.zero_grad(set_to_none=True)
            loss(model, step).backward()
            held = model.b.weight.grad if step % 2 else model.b.weight.grad.detach()[1:]
            kept.append((held, model.c.bias.grad))
            want.append((held.clone(), model.c.bias.grad.clone()))
            opt.step()
            held.shape, model.a.weight.grad.shape
        for (a, b), (x, y) in zip(kept, want):
            assert torch.equal(a, x) and torch.equal(b, y)
        program.kept += zip(kept, want)

    program.kept = []
    everywhere(program)
    gc.collect()
    for (a, b), (x, y) in program.kept:
        assert torch.equal(a, x) and torch.equal(b, y)

    def unseen(model, opt, loss):
        """Nobody has looked at it before the next step."""
        loss(model, 0).backward()
        first = [p.grad for p in model.parameters()]
        opt.step()
        opt.zero_grad(set_to_none=True)
        loss(model, 1).backward()
        second = [p.grad for p in model.parameters()]
        for p, g, h in zip(model.parameters(), first, second):
            p.grad = 2 * g + h
        opt.step()

    everywhere(unseen)


def test_gradients_outlive_everything():
    model = Net()
    opt = tutti.torch.DistributedOptimizer(sgd(model), model)
    loss_on([ME])(model, 0).backward()
    kept = model.a.weight.grad
    view, want = kept.view(-1), kept.clone()
    opt.close()
    assert torch.equal(kept, want) and torch.equal(view, want.view(-1))
    opt = tutti.torch.DistributedOptimizer(sgd(model), model)
    loss_on([ME])(model, 0).backward()
    opt.step()
    grad = model.a.weight.grad
    del opt
    gc.collect()
    case.raises(RuntimeError, lambda: grad.sum(), "gone")
    case.raises(RuntimeError, lambda: flat(model), "gone")
    dist.barrier()


# ---- parameters ----


def test_parameters_are_never_stale():
    """An average of weights, clamping, a penalty before the forward pass: whoever uses a parameter after step() has its new value."""

    def program(model, opt, loss):
        mean = [torch.zeros_like(p) for p in model.parameters()]
        for step in range(4):
            penalty = sum(p.square().sum() for p in model.parameters()) * 0.01
            opt.zero_grad()
            (loss(model, step) + penalty).backward()
            opt.step()
            with torch.no_grad():
                for m, p in zip(mean, model.parameters()):
                    m.mul_(0.5).add_(p, alpha=0.5)
            for p in model.b.parameters():
                p.data.clamp_(-0.2, 0.2)
        with torch.no_grad():
            model.a.weight.copy_(mean[0])

    everywhere(program)
    HOW.append(("dear-sharded", True))
    everywhere(program)
    HOW.pop()


def test_stale_graphs_are_found():
    """A graph from before an update cannot be used after it, as with any optimizer of torch."""
    for policy in ("bucket", "dear", "dear-sharded"):
        model = Net()
        opt = tutti.torch.DistributedOptimizer(sgd(model), model, policy=policy)
        loss = loss_on([ME])
        old = loss(model, 0)
        loss(model, 1).backward()
        opt.step()
        opt.flush()
        opt.zero_grad()
        case.raises(RuntimeError, old.backward, "modified by an inplace operation")
        opt.close()


def test_copies_and_files():
    for policy in ("bucket", "dear"):
        model = Net()
        opt = tutti.torch.DistributedOptimizer(sgd(model), model, policy=policy)
        loss_on([ME])(model, 0).backward()
        opt.step()
        twin, again = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        loaded = torch.load(file, **({} if torch.__version__.startswith("1.") else {"weights_only": False}))
        for other in (twin, again, loaded):
            assert torch.equal(flat(other), flat(model))
            assert all(type(p) is torch.nn.Parameter for p in other.parameters())
            loss_on([ME])(other, 1).backward()
            assert type(other.a.weight.grad) is torch.Tensor
        p = copy.copy(next(iter(model.parameters())))
        assert torch.equal(p, model.a.weight)
        opt.close()
        assert all(type(p) is torch.nn.Parameter for p in model.parameters())


# ---- buffers ----


class Normed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(6)
        self.a, self.norm, self.b = torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 2)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("none", None)

    def forward(self, x):
        self.calls += 1 + ME
        return self.b(self.norm(self.a(x)))


def buffers(model):
    return torch.cat([b.reshape(-1).double() for b in model.buffers()])


def test_buffers():
    """Rank 0's, on every rank, whoever asks first; and evaluation on one rank alone does not wait for the others."""
    for policy in (*POLICIES, "dear-sharded"):
        torch.manual_seed(ME)
        model, alone = Normed(), Normed()
        opt = tutti.torch.DistributedOptimizer(sgd(model), model, policy=policy)
        for step in range(5):
            loss_on([ME])(model, step).backward()
            opt.step()
            opt.zero_grad()
            if step == 2 and ME == N - 1:
                model.eval()
                with torch.no_grad():
                    model(torch.ones(3, 6))
                model.train()
                model.calls -= 1 + ME
        assert same_everywhere(buffers(model)), policy
        assert int(model.calls) == 5
        model.eval()
        out = model(torch.ones(3, 6)).detach()
        assert same_everywhere(out), policy
        opt.close()
        assert all(type(b) is torch.Tensor for b in model.buffers())
        del alone
    model = Normed()
    opt = tutti.torch.DistributedOptimizer(sgd(model), model, broadcast_buffers=False)
    for step in range(2):
        loss_on([ME])(model, step).backward()
        opt.step()
    assert int(model.calls) == 2 * (1 + ME) and (N == 1 or not same_everywhere(buffers(model)))
    opt.close()
    model = Normed()
    opt = tutti.torch.DistributedOptimizer(sgd(model), model)
    for step in range(3):  # two forward passes in one step
        loss_on([ME])(model, step).backward()
    assert int(model.calls) == 2 + 1 + ME, "rank 0's at every forward pass"
    opt.step()
    assert same_everywhere(buffers(model))
    opt.close()


class Lost:
    """A group of two whose broadcast fails, as seen by rank 1, and the work of that broadcast."""

    def size(self):
        return 2

    def rank(self):
        return 1

    def broadcast(self, tensors, root):
        return self

    def wait(self):
        raise RuntimeError("rank 0 is dead")


def test_lost_buffers():
    """After a failed broadcast every use says so; after close() buffers are ordinary tensors."""
    model = Normed()
    shared = Buffers(Lost(), model, True)
    shared.share()
    for _ in range(2):
        case.raises(RuntimeError, lambda: buffers(model), "rank 0 is dead")
    shared.close()
    assert all(type(b) is torch.Tensor for b in model.buffers())
    assert buffers(model).isfinite().all()


# ---- refused with a reason ----


def test_refused():
    model = Net()
    case.raises(ValueError, lambda: tutti.torch.DistributedOptimizer(torch.optim.LBFGS(model.parameters()), model), "LBFGS", "DDP")
    ddp = torch.nn.parallel.DistributedDataParallel(Net())
    case.raises(ValueError, lambda: tutti.torch.DistributedOptimizer(sgd(ddp), ddp), "model.module")
    opt = tutti.torch.DistributedOptimizer(sgd(model), model)
    case.raises(ValueError, lambda: tutti.torch.DistributedOptimizer(sgd(model), model), "a.weight", "close()")
    model.a.weight = torch.nn.Parameter(torch.zeros(9, 6))
    loss_on([ME])(model, 0).backward()
    case.raises(RuntimeError, opt.step, "a.weight is another Parameter")
    dist.barrier()
    opt.close()
    model = Net()
    model.a.weight.requires_grad_(False)
    opt = tutti.torch.DistributedOptimizer(sgd(model), model)
    model.a.weight.requires_grad_(True)
    loss_on([ME])(model, 0).backward()
    case.raises(RuntimeError, opt.step, "frozen")
    dist.barrier()
    opt.close()
    model = torch.nn.Sequential(torch.nn.Embedding(5, 3, sparse=True), torch.nn.Linear(3, 1))
    opt = tutti.torch.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model)
    case.raises(TypeError, lambda: model(torch.tensor([1, 2])).sum().backward(), "sparse=False")
    dist.barrier()
    opt.close()


def test_models_that_differ():
    """The parameter is named, with both shapes, on every rank."""
    if N == 1:
        return

    def make(last):
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, last))
        return tutti.torch.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model)

    case.raises(RuntimeError, lambda: make(2 if ME == 0 else 3), "rank 0 has parameter 2.weight (2, 4) float32", "rank 1 has parameter 2.weight (3, 4)")
    more = [torch.nn.Linear(2, 2)] * (1 if ME else 2)
    model = torch.nn.Sequential(*more, torch.nn.BatchNorm1d(2 + ME))
    case.raises(RuntimeError, lambda: tutti.torch.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model), "rank 0 has", "rank 1 has")


case.run([t for name, t in list(globals().items()) if name.startswith("test_")], ME)
dist.destroy_process_group()
