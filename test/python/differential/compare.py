"""Random models and random user code, trained with DDP on Gloo and with DistributedOptimizer under every policy: what can be observed
(losses, gradients, parameters, buffers, outputs in evaluation) must be the same but for rounding. A policy without averages on any rank may
raise instead, with what to write. Where it raises on one rank alone the others must be told, and not by their deadline.

Usage: tutti run -n N -- python3 compare.py [--seed FIRST] [--count HOW_MANY]. A program is its seed: `--seed S --count 1` runs it again.
       python3 compare.py --jobs J --tool TUTTI ...: the same by jobs of two ranks, J at a time."""

import argparse
import os
import random
import re
import subprocess
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
CHUNK = 20  # programs of a job
TOLD = "aborted: closed after a refusal: "  # in the words for ranks whose peer was refused
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


def everywhere(value):
    """Every rank's value."""
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


class Group:
    """Ranks on Tutti. A refusal on one rank alone ends the group: then a new one is made."""

    def __init__(self):
        self.now = dist.new_group(backend="tutti")

    def renew(self):
        dist.destroy_process_group(self.now)
        self.now = dist.new_group(backend="tutti")


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
        return close(opt, str(e))
    opt.close()
    return run.seen


def close(opt, text):
    """The refusal; with what closing says when other ranks were not refused."""
    try:
        opt.close()
    except RuntimeError as e:
        return f"{text} | {e}"
    return text


def judge(texts, may_refuse):
    """What is wrong with refusals, None where a rank was not refused; in words."""
    ours = [t for t in texts if isinstance(t, str) and "tutti: " in t]
    if not may_refuse or not ours:
        return f"refused: {texts}"
    alone = any(t is None or "tutti: " not in t for t in texts)
    late = [t for t in texts if alone and TOLD not in str(t)]
    return f"refused on one rank alone, and the others were not told: {texts}" if late else None


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
    if kind in BUILTIN and plain:
        yield "dear-sharded", True, may_refuse


def check(seed, group):
    """(differences in words, refusals)"""
    program, found, refused = Program(seed), {}, 0
    want = with_ddp(program)
    for policy, builtin, may_refuse in ways(program):
        got = with_tutti(program, group.now, policy, builtin)
        texts = everywhere(got if isinstance(got, str) else None)
        if any(texts):
            refused += 1
            text = judge(texts, may_refuse)
            if any(" | " in str(t) or "tutti: " not in str(t) for t in texts):
                group.renew()
        else:
            text = difference(want, got, 1e-7 if program.double else 1e-3)
        if text:
            found.setdefault(text, []).append(f"{policy}{'' if builtin else ' with torch'}")
    return [f"seed {seed}, rank {dist.get_rank()}, {', '.join(who)}: {text} ({program})" for text, who in found.items()], refused


def run_all(wanted):
    """Jobs of two ranks, `--jobs` at a time. The sum of their last lines; 1 when anything was wrong."""
    seeds = range(wanted.seed, wanted.seed + wanted.count)
    left = [(s, min(CHUNK, seeds.stop - s)) for s in seeds[::CHUNK]]
    running, bad, refused, failed, begun = {}, 0, 0, [], time.monotonic()
    while left or running:
        while left and len(running) < wanted.jobs:
            seed, count = left.pop(0)
            words = [wanted.tool, "run", "-n", "2", "--timeout", "600s", "--", sys.executable, __file__]
            words += ["--seed", str(seed), "--count", str(count)]
            job = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
            running[job] = seed, count
        job = next(iter(running))
        output = job.communicate()[0]
        seed, count = running.pop(job)
        found = re.search(r"([0-9]+) differ from DDP; ([0-9]+) runs", output)
        bad, refused = bad + int(found[1] if found else 0), refused + int(found[2] if found else 0)
        if job.returncode or not found:
            failed.append(seed)
            print(output, flush=True)
        print(f"seeds {seed} to {seed + count - 1}: status {job.returncode} ({time.monotonic() - begun:.0f} s)", flush=True)
    print(last_line(wanted, bad, refused) + (f"; jobs that failed: seeds from {failed}" if failed else ""))
    return 1 if failed else 0


def last_line(wanted, bad, refused):
    seeds = f"seeds {wanted.seed} to {wanted.seed + wanted.count - 1}"
    return f"{wanted.count} programs ({seeds}), torch {torch.__version__}: {bad} differ from DDP; {refused} runs were refused with the reason"


def run_here(wanted):
    """In a rank."""
    dist.init_process_group("gloo")
    group = Group()
    start, bad, refusals = time.monotonic(), 0, 0
    for seed in range(wanted.seed, wanted.seed + wanted.count):
        try:
            found, refused = check(seed, group)
        except Exception as e:
            raise RuntimeError(f"seed {seed} raised {type(e).__name__} (above)") from e
        refusals += refused
        print("".join(f"DIFFERS: {line}\n" for line in found), end="", flush=True)
        bad += any(everywhere(len(found)))
        if dist.get_rank() == 0 and (seed - wanted.seed) % 25 == 24:
            print(f"seeds to {seed}: {bad} with differences ({time.monotonic() - start:.0f} s)", flush=True)
    if dist.get_rank() == 0:
        print(last_line(wanted, bad, refusals))
    dist.barrier()
    dist.destroy_process_group()
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--tool", default="tutti")
    wanted = parser.parse_args()
    return run_all(wanted) if wanted.jobs else run_here(wanted)


sys.exit(main())
