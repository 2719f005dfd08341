#!/usr/bin/env python3
"""AlexNet on CIFAR-10, data-parallel on CPUs: every way to communicate the gradients, measured.

    tutti run -n 4 -- /usr/bin/python3 examples/train_alexnet.py --policy dear
    tutti lab --nodes 4 --rate 1gbit -- /usr/bin/python3 examples/train_alexnet.py --compare --batch 64,128,192

Policies: `none` (no communication: what computing alone takes), `gloo` (DDP on Gloo), `gloo-late` (Gloo, one all-reduce after backward),
`ddp` (DDP on our backend), and those of tutti.torch.DistributedOptimizer: sync, wfbp, bucket, mgwfbp, bytescheduler, hybrid, hybrid-cost,
dear. `--compare` measures none, gloo-late, gloo, ddp, hybrid and dear one after the other in one run and prints medians with the lowest
and highest, beside the limit that no policy can beat on these cores.

The data are CIFAR-10's binary files when `--data DIR` (or ./cifar-10-batches-bin) has them, otherwise synthetic images of the same shape."""

import argparse
import os
import resource
import statistics
import sys
import time
from typing import Any, Callable, Dict, List, Tuple

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

try:
    import tutti.torch
except ImportError:
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python"))
    import tutti.torch

COMPARED = ["gloo-late", "gloo", "ddp", "hybrid", "dear"]
Batch = Tuple[torch.Tensor, torch.Tensor]


# ---- data ----


def cifar_files(directory: str) -> List[str]:
    names = [os.path.join(directory, f"data_batch_{i}.bin") for i in range(1, 6)]
    return [n for n in names if os.path.exists(n)]


def load_images(directory: str, most: int) -> Tuple[torch.Tensor, torch.Tensor, str]:
    """(images as bytes, labels, where they are from). A record of CIFAR-10's files is a label and 3x32x32 bytes."""
    files = cifar_files(directory)
    if not files:
        g = torch.Generator().manual_seed(0)
        labels = torch.randint(0, 10, (min(most, 2000),), generator=g)
        patterns = torch.randint(0, 256, (10, 3, 32, 32), generator=g)
        noise = torch.randint(-60, 61, (len(labels), 3, 32, 32), generator=g)
        return (patterns[labels] + noise).clamp(0, 255).to(torch.uint8), labels, "synthetic images (no CIFAR-10 files found)"
    raw = torch.cat([torch.frombuffer(bytearray(open(f, "rb").read()), dtype=torch.uint8) for f in files]).view(-1, 3073)[:most]
    return raw[:, 1:].reshape(-1, 3, 32, 32), raw[:, 0].long(), f"CIFAR-10, {len(raw)} images"


class Loader:
    """Batches of this rank: every rank sees another part of each global batch, in an order that depends on the step alone."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor, batch: int, side: int, rank: int, size: int) -> None:
        self.images, self.labels, self.batch, self.side, self.rank, self.size = images, labels, batch, side, rank, size

    def __call__(self, step: int) -> Batch:
        g = torch.Generator().manual_seed(step)
        chosen = torch.randint(0, len(self.labels), (self.batch * self.size,), generator=g)
        mine = chosen[self.rank * self.batch : (self.rank + 1) * self.batch]
        x = self.images[mine].float() / 127.5 - 1.0
        return torch.nn.functional.interpolate(x, size=self.side, mode="nearest"), self.labels[mine]


# ---- model ----


def make_model(classes: int) -> torch.nn.Module:
    """torchvision's AlexNet, without dropout so that runs can be compared."""
    import torchvision

    torch.manual_seed(0)
    try:
        return torchvision.models.alexnet(num_classes=classes, dropout=0.0)
    except TypeError:
        return torchvision.models.alexnet(num_classes=classes)


class Way:
    """One way to communicate: iterate(step) does one iteration and returns its loss."""

    def __init__(self, name: str, args: argparse.Namespace, loader: Loader, gloo: Any) -> None:
        self.name, self.loader, self.gloo = name, loader, gloo
        self.model: torch.nn.Module = make_model(10)
        self.optimizer: Any = torch.optim.SGD(self.model.parameters(), lr=args.lr, momentum=0.9)
        self.correct = self.seen = 0
        if name == "gloo":
            self.model = DDP(self.model, process_group=gloo)
        elif name == "ddp":
            self.model = DDP(self.model)
            self.model.register_comm_hook(tutti.torch.DDPHookState(wire=args.wire), tutti.torch.ddp_hook)
        elif name not in ("none", "gloo-late"):
            self.optimizer = tutti.torch.DistributedOptimizer(self.optimizer, self.model, policy=name)

    def iterate(self, step: int) -> float:
        x, y = self.loader(step)
        out = self.model(x)
        loss = torch.nn.functional.cross_entropy(out, y)
        loss.backward()
        if self.name == "gloo-late":
            self._average_late()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.correct += int((out.detach().argmax(1) == y).sum())
        self.seen += len(y)
        return float(loss.detach())

    def _average_late(self) -> None:
        flat = torch.cat([p.grad.reshape(-1) for p in self.model.parameters()])
        dist.all_reduce(flat, group=self.gloo)
        flat /= dist.get_world_size()
        at = 0
        for p in self.model.parameters():
            p.grad.copy_(flat[at : at + p.numel()].view_as(p))
            at += p.numel()

    def close(self) -> None:
        if isinstance(self.optimizer, tutti.torch.DistributedOptimizer):
            self.optimizer.close()


# ---- measuring ----


def cpu_seconds() -> float:
    u = resource.getrusage(resource.RUSAGE_SELF)
    return u.ru_utime + u.ru_stime


def mean_over_ranks(value: float) -> float:
    x = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(x, dist.ReduceOp.AVG)
    return float(x)


def timed(f: Callable[[], Any]) -> Tuple[float, float]:
    """(seconds, core-seconds of this rank) of f."""
    cpu, start = cpu_seconds(), time.monotonic()
    f()
    return time.monotonic() - start, cpu_seconds() - cpu


class Bar:
    """Progress on rank 0's terminal."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.on = total, 0, dist.get_rank() == 0 and sys.stderr.isatty()

    def step(self, text: str) -> None:
        self.done += 1
        if self.on:
            full = 30 * self.done // max(1, self.total)
            end = "\n" if self.done == self.total else ""
            print(f"\r[{'#' * full}{'.' * (30 - full)}] {self.done}/{self.total} {text:40.40}", end=end, file=sys.stderr, flush=True)


def measure(args: argparse.Namespace, loader: Loader, names: List[str], gloo: Any) -> Dict[str, Dict[str, Any]]:
    """Iterations of each way, one way in memory at a time. Iterations follow each other without a barrier, as in training: what a policy
    leaves for the next iteration is part of that one's time."""
    found: Dict[str, Dict[str, Any]] = {n: {"times": [], "cpu": [], "losses": []} for n in names}
    bar = Bar(len(names) * (args.warmup + args.iterations))
    for name in names:
        way = Way(name, args, loader, gloo)
        dist.barrier()
        for step in range(args.warmup + args.iterations):
            seconds, cpu = timed(lambda: found[name]["losses"].append(way.iterate(step)))
            if step >= args.warmup:
                found[name]["times"].append(seconds)
                found[name]["cpu"].append(cpu)
            bar.step(f"{name}: loss {found[name]['losses'][-1]:.3f}")
        found[name]["accuracy"] = mean_over_ranks(way.correct / way.seen)
        found[name]["losses"] = [mean_over_ranks(v) for v in found[name]["losses"]]
        way.close()
    return found


def bare_allreduce(count: int, rounds: int) -> Tuple[float, float]:
    """(seconds, core-seconds of one rank) of an all-reduce of all gradients, nothing else running."""
    x = torch.ones(count)
    dist.barrier()
    seconds, cpu = zip(*(timed(lambda: dist.all_reduce(x, dist.ReduceOp.AVG)) for _ in range(rounds)))
    return statistics.median(seconds), mean_over_ranks(statistics.median(cpu))


def report(batch: int, found: Dict[str, Dict[str, Any]], bare: Tuple[float, float]) -> None:
    """The table, on rank 0."""
    base = statistics.median(found["gloo"]["times"]) if "gloo" in found else None
    c, comm_cpu = bare
    lines = [f"batch {batch} per rank; seconds per iteration; a bare all-reduce takes {c:.3f} s, {comm_cpu:.3f} core-seconds per rank"]
    if "none" in found:
        cores = len(os.sched_getaffinity(0))
        compute = mean_over_ranks(statistics.median(found["none"]["cpu"]))
        limit = max(c, dist.get_world_size() * (compute + comm_cpu) / cores)
        lines.append(f"limit max(c, (compute + communication core-seconds of all ranks) / {cores} cores) = {limit:.3f} s (if all ranks share them)")
    lines.append(f"{'policy':>14} {'median':>8} {'lowest':>8} {'highest':>8} {'core-s':>8} {'x gloo':>7} {'loss':>7} {'right':>6}")
    for name, f in found.items():
        t, cpu = f["times"], mean_over_ranks(statistics.median(f["cpu"]))
        ratio = f"{statistics.median(t) / base:7.3f}" if base else " " * 7
        lines.append(
            f"{name:>14} {statistics.median(t):8.3f} {min(t):8.3f} {max(t):8.3f} {cpu:8.3f} {ratio} {f['losses'][-1]:7.4f} {f['accuracy']:6.1%}"
        )
    if dist.get_rank() == 0:
        print("\n".join(lines), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="dear", help="one of the policies above, or several with commas")
    parser.add_argument("--compare", action="store_true", help="measure " + ", ".join(COMPARED))
    parser.add_argument("--batch", default="32", help="images per rank; several with commas")
    parser.add_argument("--image", type=int, default=64, help="side of the images after scaling (at least 63)")
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--wire", choices=("f32", "bf16"), default="f32", help="of policy ddp")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--data", default="cifar-10-batches-bin")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("tutti")
    rank, size = dist.get_rank(), dist.get_world_size()
    gloo = dist.new_group(list(range(size)), backend="gloo")
    images, labels, origin = load_images(args.data, 50000)
    if rank == 0:
        print(f"{size} ranks, AlexNet on {origin}, scaled to {args.image}x{args.image}", flush=True)
    names = ["none"] + COMPARED if args.compare else args.policy.split(",")
    for batch in (int(b) for b in args.batch.split(",")):
        found = measure(args, Loader(images, labels, batch, args.image, rank, size), names, gloo)
        report(batch, found, bare_allreduce(sum(p.numel() for p in make_model(10).parameters()), 3))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
