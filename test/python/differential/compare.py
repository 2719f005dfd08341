"""Random models and random user code, trained with DDP on Gloo and with DistributedOptimizer under every policy: what can be observed
(losses, gradients, parameters, buffers, outputs in evaluation) must be the same but for rounding. A policy without averages on any rank may
raise instead, with what to write.

Usage: tutti run -n N -- python3 compare.py [--seed FIRST] [--count HOW_MANY]. A program is its seed: `--seed S --count 1` runs it again."""

import argparse
import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import case  # noqa: E402

torch = case.need_torch()
import torch.distributed as dist  # noqa: E402
from loops import Program, Run, make_optimizer  # noqa: E402
from models import Net  # noqa: E402

import tutti.torch  # noqa: E402

POLICIES = ["sync", "wfbp", "bucket", "mgwfbp", "bytescheduler", "hybrid", "hybrid-cost", "dear"]
BUILTIN = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)


def make(seed):
    """Model and optimizer; values differ between the ranks until rank 0's are everybody's."""
    r = random.Random(seed + 1)
    torch.manual_seed(seed + 1000 * dist.get_rank())
    model = Net(r)
    model.double() if Program(seed).double else model.float()
    return model, make_optimizer(r, model)


def with_ddp(program):
    model, opt = make(program.seed)
    ddp = torch.nn.parallel.DistributedDataParallel(
        model, find_unused_parameters=model.unused, broadcast_buffers=program.broadcast_buffers
    )
    run = Run(ddp, model, opt, ddp.no_sync, dist.get_rank())
    program.run(run)
    if program.broadcast_buffers:  # DDP broadcasts before the next forward pass: that is what counts
        for what, tensors in run.seen:
            for t in tensors if what == "buffers" else ():
                dist.broadcast(t, 0)
    return run.seen


def with_tutti(program, group, policy, builtin, **options):
    """What was seen, or the refusal."""
    model, inner = make(program.seed)
    opt = tutti.torch.DistributedOptimizer(
        inner, model, policy=policy, process_group=group, builtin=builtin, find_unused_parameters=model.unused,
        broadcast_buffers=program.broadcast_buffers, **options,
    )  # fmt: skip
    run = Run(model, model, opt, opt.no_sync, dist.get_rank())
    try:
        program.run(run)
    except RuntimeError as e:
        return str(e)
    finally:
        opt.close()
    return run.seen


def difference(want, got, tolerance):
    """The first difference in words; None when there is none."""
    if [w for w, _ in want] != [w for w, _ in got]:
        return "other things were seen"
    for k, ((what, a), (_, b)) in enumerate(zip(want, got)):
        before = f"{what}, after {', '.join(w for w, _ in want[:k])}"
        if len(a) != len(b):
            return f"{len(a)} and not {len(b)} {before}"
        for i, (x, y) in enumerate(zip(a, b)):
            if not torch.allclose(x, y.to(x.dtype), rtol=tolerance, atol=tolerance, equal_nan=True):
                return f"{float((x - y).abs().max()):.3g} apart: number {i} of {before}"
    return None


def ways(program):
    """(policy, builtin, may it refuse?)"""
    model, opt = make(program.seed)
    kind = type(opt)
    plain = all(not g.get("amsgrad") and not g.get("dampening") for g in opt.param_groups)
    for policy in POLICIES:
        for builtin in (True, False) if kind in BUILTIN and plain else (False,):
            yield policy, builtin, False
    may_refuse = not program.quiet or program.zero == "seldom"
    if kind in BUILTIN and plain and not (may_refuse and model.differs):  # a refusal on one rank alone ends the job
        yield "dear-sharded", True, may_refuse


def check(seed, group):
    """(differences in words, refusals)"""
    program, found, refused = Program(seed), {}, 0
    want = with_ddp(program)
    for policy, builtin, may_refuse in ways(program):
        got = with_tutti(program, group, policy, builtin)
        if isinstance(got, str):
            refused += 1
            text = None if may_refuse and "tutti: " in got else f"refused: {got}"
        else:
            text = difference(want, got, 1e-7 if program.double else 1e-3)
        if text:
            found.setdefault(text, []).append(f"{policy}{'' if builtin else ' with torch'}")
    return [f"seed {seed}, rank {dist.get_rank()}, {', '.join(who)}: {text} ({program})" for text, who in found.items()], refused


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=6)
    wanted = parser.parse_args()
    dist.init_process_group("gloo")
    group = dist.new_group(backend="tutti")
    start, bad, refusals = time.monotonic(), 0, 0
    for seed in range(wanted.seed, wanted.seed + wanted.count):
        try:
            found, refused = check(seed, group)
        except Exception as e:
            raise RuntimeError(f"seed {seed} raised {type(e).__name__} (above)") from e
        refusals += refused
        print("".join(f"DIFFERS: {line}\n" for line in found), end="", flush=True)
        every = torch.tensor([len(found)])
        dist.all_reduce(every)
        bad += int(every) > 0
        if dist.get_rank() == 0 and (seed - wanted.seed) % 25 == 24:
            print(f"seeds to {seed}: {bad} with differences ({time.monotonic() - start:.0f} s)", flush=True)
    if dist.get_rank() == 0:
        seeds = f"seeds {wanted.seed} to {wanted.seed + wanted.count - 1}"
        print(f"{wanted.count} programs ({seeds}), torch {torch.__version__}: {bad} differ from DDP; {refusals} runs were refused with the reason")
    dist.barrier()
    return 1 if bad else 0


status = main()
dist.destroy_process_group()
sys.exit(status)
