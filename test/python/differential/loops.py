"""Random user code: a training loop as somebody might write it, drawn from a generator and run on any (model, optimizer).

A `Run` hides what differs between DDP and DistributedOptimizer: what is called, and whose no_sync() it is. `quiet` programs leave gradients
alone between backward() and step(), so that every policy must do them; policies without averages may refuse the others."""

import contextlib
import copy
import random

import torch
from torch import nn

STEPS, BATCH = 5, 4


class Run:
    """One execution: `call` is the model as it is called, `opt` its optimizer; `seen` what was observed, in order."""

    def __init__(self, call, model, opt, no_sync, rank):
        self.call, self.model, self.opt, self.no_sync, self.rank = call, model, opt, no_sync, rank
        self.seen, self.borrowed = [], []

    def see(self, what, tensors):
        self.seen.append((what, [t.detach().clone() for t in tensors]))


# ---- optimizers and schedules ----


def make_optimizer(r, model):
    trained = list(model.parameters())
    cut = r.randrange(len(trained)) if r.random() < 0.4 else 0
    groups = [{"params": trained[cut:]}] + ([{"params": trained[:cut], "lr": 0.02, "weight_decay": 0.1}] if cut else [])
    wd = r.choice([0, 0.01])
    return r.choice([
        lambda: torch.optim.SGD(groups, lr=0.05, weight_decay=wd),
        lambda: torch.optim.SGD(groups, lr=0.05, momentum=0.9, nesterov=r.random() < 0.5, weight_decay=wd),
        lambda: torch.optim.SGD(groups, lr=0.05, momentum=0.8, dampening=0.1),
        lambda: torch.optim.Adam(groups, lr=0.01, weight_decay=wd, amsgrad=r.random() < 0.2),
        lambda: torch.optim.AdamW(groups, lr=0.01),
        lambda: torch.optim.RMSprop(groups, lr=0.005),
    ])()  # fmt: skip


def make_scheduler(r, opt):
    s = torch.optim.lr_scheduler
    return r.choice([
        lambda: None,
        lambda: s.StepLR(opt, 2, 0.5),
        lambda: s.LambdaLR(opt, lambda n: 1 / (1 + n)),
        lambda: s.CosineAnnealingLR(opt, STEPS),
    ])()  # fmt: skip


# ---- what users do to gradients between backward() and step() ----


def _some(r, run):
    trained = [p for p in run.model.parameters() if p.requires_grad]
    return r.sample(trained, r.randint(1, len(trained)))


def drop(r, run):
    for p in _some(r, run):
        p.grad = None


def delete(r, run):
    for p in _some(r, run):
        del p.grad


def zeros(r, run):
    for p in _some(r, run):
        p.grad = torch.zeros_like(p)


def assign(r, run):
    for p in _some(r, run):
        p.grad = torch.full_like(p, 0.03)


def scale(r, run):
    for p in _some(r, run):
        if p.grad is not None:
            p.grad = p.grad * 0.5


def scale_in_place(r, run):
    for p in _some(r, run):
        if p.grad is not None:
            p.grad.mul_(0.5) if r.random() < 0.5 else p.grad.data.mul_(0.5)


def replace_data(r, run):
    for p in _some(r, run):
        if p.grad is not None:
            p.grad.data = p.grad.data * 0.5


def copy_into(r, run):
    for p in _some(r, run):
        if p.grad is not None:
            p.grad.copy_(torch.linspace(-0.1, 0.1, p.numel()).view(p.shape))


def clip_norm(r, run):
    norm = nn.utils.clip_grad_norm_(run.model.parameters(), 0.1)
    run.see("norm", [torch.as_tensor(norm)])


def clip_value(r, run):
    if any(p.grad is not None for p in run.model.parameters()):  # torch 2.13 raises when there is none
        nn.utils.clip_grad_value_(run.model.parameters(), 0.01)


def foreach(r, run):
    grads = [p.grad for p in run.model.parameters() if p.grad is not None]
    if grads:  # torch 1.13 refuses an empty list, which an edit before may have left
        torch._foreach_mul_(grads, 0.75)


def noise(r, run):
    g = torch.Generator().manual_seed(r.randrange(1000))
    for p in run.model.parameters():
        if p.grad is not None:
            p.grad += 0.01 * torch.randn(p.shape, generator=g, dtype=p.dtype)


def look(r, run):
    for p in _some(r, run):
        run.see("grad", [] if p.grad is None else [p.grad])


def share(r, run):
    """Two parameters, one gradient, until the step is over: autograd would add to it for both."""
    shapes = {}
    for p in run.model.parameters():
        if p.requires_grad:
            shapes.setdefault(p.shape, []).append(p)
    twins = [x for x in shapes.values() if len(x) > 1]
    if twins:
        a, b = r.sample(r.choice(twins), 2)
        a.grad = b.grad
        run.borrowed.append(a)


def zero_in_between(r, run):
    zero_grad(r, run)


EDITS = [drop, delete, zeros, assign, scale, scale_in_place, replace_data, copy_into, clip_norm, clip_value, foreach, noise, look, share,
         zero_in_between]  # fmt: skip


# ---- the rest of a step ----


def zero_grad(r, run):
    how = r.randrange(4)
    if how == 0:
        run.opt.zero_grad(set_to_none=True)
    elif how == 1:
        run.opt.zero_grad(set_to_none=False)
    elif how == 2:
        run.model.zero_grad(set_to_none=r.random() < 0.5)
    else:
        for p in run.model.parameters():
            p.grad = None


def clamp(r, run):
    with torch.no_grad():
        for p in run.model.parameters():
            p.clamp_(-0.9, 0.9) if r.random() < 0.5 else p.data.mul_(0.99)


def reload_model(r, run):
    state = copy.deepcopy(run.model.state_dict())
    run.model.load_state_dict({k: v * 0.9 if v.is_floating_point() and v.dim() else v for k, v in state.items()})


def reload_optimizer(r, run):
    run.opt.load_state_dict(copy.deepcopy(run.opt.state_dict()))


def set_rate(r, run):
    for g in run.opt.param_groups:
        g["lr"] *= 0.7


def evaluate(r, run):
    run.model.eval()
    with torch.no_grad():
        run.see("evaluation", [run.call(torch.linspace(-1, 1, 10, dtype=next(run.model.parameters()).dtype).view(2, 5))])
    run.model.train()


AFTER = [clamp, reload_model, reload_optimizer, set_rate, evaluate, evaluate]


def _grow(p):
    p.grad.mul_(1.5)


class Program:
    """All that happens, drawn from a seed."""

    def __init__(self, seed):
        r = random.Random(seed)
        self.seed, self.body = seed, r.randrange(2**30)
        self.double = r.random() < 0.8
        self.quiet = r.random() < 0.4
        self.broadcast_buffers = r.random() < 0.85
        self.watched = r.random() < 0.5  # parameters are compared after each step, which waits for them, or at the end only
        self.zero = r.choice(["first", "after forward", "last", "last", "first", "seldom"])
        self.passes = r.choice([1, 1, 1, 2, 3])
        self.accumulate = self.quiet or r.random() < 0.7  # with no_sync, or one backward() after another
        self.hooks = r.random() < 0.3
        self.closure = r.random() < 0.15 and self.passes == 1
        self.frozen_norms = r.random() < 0.15

    def __str__(self):
        return ", ".join(f"{k}={v}" for k, v in vars(self).items() if k not in ("seed", "body"))

    def run(self, run):
        """Trains; `run.seen` tells."""
        r = random.Random(self.body)
        scheduler = make_scheduler(r, run.opt)
        if self.hooks:
            self._add_hooks(r, run)
        for step in range(STEPS):
            self._step(r, run, step)
            if scheduler is not None:
                scheduler.step()
            if r.random() < 0.3:
                act = r.choice(AFTER)
                run.see(act.__name__, [])
                act(r, run)
            if self.watched or step == STEPS - 1:
                run.see("parameters", run.model.parameters())
                run.see("buffers", run.model.buffers())

    def _add_hooks(self, r, run):
        for p in _some(r, run):
            p.register_hook(lambda g: 0.5 * g)
        for p in _some(r, run):
            if hasattr(p, "register_post_accumulate_grad_hook"):
                p.register_post_accumulate_grad_hook(_grow)

    def _loss(self, run, step, k):
        dtype = next(run.model.parameters()).dtype
        g = torch.Generator().manual_seed(self.seed * 1009 + step * 31 + k * 7 + run.rank)
        x = torch.randn(BATCH, 5, generator=g, dtype=dtype)
        torch.manual_seed(self.seed + step * 17 + k + 1000 * run.rank)  # Dropout's
        return (run.call(x, step, run.rank) - x[:, :3]).square().mean()

    def _backward(self, run, step):
        for k in range(self.passes):
            last = k == self.passes - 1
            with run.no_sync() if self.accumulate and not last else contextlib.nullcontext():
                loss = self._loss(run, step, k)
                if self.zero == "after forward" and k == 0:
                    run.opt.zero_grad(set_to_none=step % 2 == 0)
                (loss / self.passes).backward()
            run.see("loss", [loss])
        return loss

    def _step(self, r, run, step):
        if self.frozen_norms and step == 2:
            run.model.eval()
        if self.zero == "first" or (self.zero == "seldom" and step == 3):
            zero_grad(r, run)
        if self.closure:
            run.opt.step(lambda: (run.opt.zero_grad(), self._backward(run, step))[1])
        else:
            self._backward(run, step)
            for _ in range(0 if self.quiet else r.choice([0, 1, 1, 2])):
                edit = r.choice(EDITS)
                run.see(edit.__name__, [])
                edit(r, run)
            run.opt.step()
            while run.borrowed:
                run.borrowed.pop().grad = None
        if self.zero == "last":
            zero_grad(r, run)
