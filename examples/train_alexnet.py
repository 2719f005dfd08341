#!/usr/bin/env python3
"""AlexNet on CIFAR-10, data-parallel on CPUs: every way to communicate the gradients, measured.

    tutti run -n 4 -- /usr/bin/python3 examples/train_alexnet.py --policy dear
    tutti lab --nodes 4 --rate 1gbit -- /usr/bin/python3 examples/train_alexnet.py --compare --batch 64,128,192

Policies: `none` (no communication: what computing alone takes), `gloo` (DDP on Gloo), `gloo-late` (Gloo without overlap: one all-reduce
after backward), `ddp` (DDP on our backend), `ddp-first` (the same with tutti.torch.weight_first), `ddp-bf16` (DDP, half the bytes), and those of tutti.torch.DistributedOptimizer: sync,
wfbp, bucket, mgwfbp, bytescheduler, hybrid, hybrid-cost, dear, dear-sharded, each also with "-bf16" behind it (but dear-sharded). They plan with
layer times that are measured first, on all ranks at once. `--compare` measures none, gloo, gloo-late, ddp, ddp-first, ddp-bf16, hybrid, dear,
dear-sharded and dear-bf16 in one run. Shared machines change their speed from minute to minute: with `--rounds` (2 with `--compare`) all of
them take turns, and every row holds the iterations of all rounds.

A row is printed as soon as it is complete: median, lowest and highest seconds of an iteration, core-seconds of a rank, the median over
that of gloo, of gloo-late and over the limit that torch's own compute and a bare all-reduce set on these cores (the library's optimizers
need less than torch's, and may be below it); the loss of the last iteration, how far the first
losses are from those of one process that computes all ranks' batches (`--check` iterations), and accuracy on images that were not
trained on. A table of all batches ends the run.

The data are CIFAR-10's binary files when `--data DIR` (or ./cifar-10-batches-bin) has them, otherwise synthetic images of the same shape."""

import argparse
import os
import resource
import statistics
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

try:
    import tutti.torch
except ImportError:
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python"))
    import tutti.torch
from models import alexnet

COMPARED = ["none", "gloo", "gloo-late", "ddp", "ddp-first", "ddp-bf16", "hybrid", "dear", "dear-sharded", "dear-bf16"]
HELD_BACK = 8  # of so many images one is kept for testing
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
    """Batches: every rank sees another part of each global batch, in an order that depends on the step alone."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor, batch: int, side: int) -> None:
        self.images, self.labels, self.batch, self.side = images, labels, batch, side
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.trained = len(labels) - len(labels) // HELD_BACK
        self.profile: Optional[Dict[str, Any]] = None  # of the model on such a batch

    def _pick(self, chosen: torch.Tensor) -> Batch:
        x = self.images[chosen].float() / 127.5 - 1.0
        return torch.nn.functional.interpolate(x, size=self.side, mode="nearest"), self.labels[chosen]

    def __call__(self, step: int, rank: Optional[int] = None) -> Batch:
        """The batch of a rank (this one) in a step."""
        r = self.rank if rank is None else rank
        g = torch.Generator().manual_seed(step)
        chosen = torch.randint(0, self.trained, (self.batch * self.size,), generator=g)
        return self._pick(chosen[r * self.batch : (r + 1) * self.batch])

    def held_back(self, most: int) -> Batch:
        """This rank's part of `most` images that are not trained on."""
        return self._pick(torch.arange(self.trained, len(self.labels))[:most][self.rank :: self.size])


# ---- model ----


def make_model(classes: int) -> torch.nn.Module:
    """AlexNet, without dropout so that runs can be compared."""
    torch.manual_seed(0)
    return alexnet(classes, dropout=0.0)


def measured_times(loader: Any) -> Dict[str, Any]:
    """A profile of the model, measured while all ranks compute, as they do in training."""
    if loader.profile is None:
        x, y = loader(0)
        dist.barrier()
        loader.profile = tutti.torch.profile(
            make_model(10), x, loss=lambda out: torch.nn.functional.cross_entropy(out, y), iterations=3, warmup=1
        )
    return loader.profile


class Way:
    """One way to communicate: iterate(step) does one iteration and returns its loss."""

    def __init__(self, name: str, args: argparse.Namespace, loader: Loader, gloo: Any) -> None:
        self.name, self.loader, self.gloo = name, loader, gloo
        wire = "bf16" if name.endswith("-bf16") else args.wire
        self.bare: torch.nn.Module = make_model(10)
        self.model: Any = self.bare
        self.optimizer: Any = torch.optim.SGD(self.model.parameters(), lr=args.lr, momentum=0.9)
        if name == "gloo":
            self.model = DDP(self.model, process_group=gloo)
        elif name in ("ddp", "ddp-first", "ddp-bf16"):
            self.model = DDP(tutti.torch.weight_first(self.model) if name == "ddp-first" else self.model)
            self.model.register_comm_hook(tutti.torch.DDPHookState(wire=wire), tutti.torch.ddp_hook)
        elif name not in ("none", "gloo-late"):
            policy = name[: -len("-bf16")] if name.endswith("-bf16") else name
            times = measured_times(loader)
            self.optimizer = tutti.torch.DistributedOptimizer(self.optimizer, self.model, policy=policy, wire=wire, profile=times)

    def iterate(self, step: int) -> float:
        x, y = self.loader(step)
        loss = torch.nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        if self.name == "gloo-late":
            self._average_late()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(loss.detach())

    def _average_late(self) -> None:
        flat = torch.cat([p.grad.reshape(-1) for p in self.model.parameters()])
        dist.all_reduce(flat, group=self.gloo)
        flat /= dist.get_world_size()
        at = 0
        for p in self.model.parameters():
            p.grad.copy_(flat[at : at + p.numel()].view_as(p))
            at += p.numel()

    def right(self) -> float:
        """Part of the images held back that the model gets right."""
        x, y = self.loader.held_back(200)
        self.bare.eval()
        with torch.no_grad():
            counts = torch.tensor([float((self.bare(x).argmax(1) == y).sum()), float(len(y))], dtype=torch.float64)
        self.bare.train()
        dist.all_reduce(counts)
        return float(counts[0] / counts[1])

    def close(self) -> None:
        if isinstance(self.optimizer, tutti.torch.DistributedOptimizer):
            self.optimizer.close(keep_state=False)


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
    """Progress on rank 0's stderr: a bar on a terminal, elsewhere a line now and then."""

    PAUSE = 5.0

    def __init__(self, total: int) -> None:
        self.total, self.done, self.on, self.tty = total, 0, dist.get_rank() == 0, sys.stderr.isatty()
        self.last = time.monotonic()

    def step(self, text: str) -> None:
        self.done += 1
        if self.on and self.tty:
            full = 30 * self.done // max(1, self.total)
            print(f"\r[{'#' * full}{'.' * (30 - full)}] {self.done}/{self.total} {text:40.40}", end="", file=sys.stderr, flush=True)
        elif self.on and time.monotonic() - self.last > self.PAUSE:
            self.last = time.monotonic()
            print(f"  {self.done} of {self.total}: {text}", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Makes room for a line of results."""
        if self.on and self.tty:
            print(f"\r{'':80}\r", end="", file=sys.stderr, flush=True)


class Row:
    """What was measured of one way."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.times: List[float] = []
        self.cpus: List[float] = []
        self.cpu = 0.0  # their median, mean over ranks
        self.losses: List[float] = []
        self.right = 0.0

    @property
    def median(self) -> float:
        return statistics.median(self.times)


def measure(args: argparse.Namespace, loader: Loader, row: Row, gloo: Any, bar: Bar) -> None:
    """One round. Iterations follow each other without a barrier, as in training: what a policy leaves for the next iteration is part of
    that one's time. One way is in memory at a time, and begins anew in every round: losses are those of the last."""
    way = Way(row.name, args, loader, gloo)
    row.losses = []
    dist.barrier()
    for step in range(args.warmup + args.iterations):
        seconds, cpu = timed(lambda: row.losses.append(way.iterate(step)))
        if step >= args.warmup:
            row.times.append(seconds)
            row.cpus.append(cpu)
        bar.step(f"batch {loader.batch}, {row.name}: loss {row.losses[-1]:.3f}, {seconds:.2f} s")
    row.right = way.right()
    row.losses = [mean_over_ranks(v) for v in row.losses]
    row.cpu = mean_over_ranks(statistics.median(row.cpus))
    way.close()


def single_process(args: argparse.Namespace, loader: Loader, steps: int) -> List[float]:
    """Losses of one process (rank 0) that computes the batches of all ranks. The others hear from it after every batch."""
    model, losses, beat = make_model(10), [], torch.zeros(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    torch.set_num_threads(len(os.sched_getaffinity(0)) if loader.rank == 0 else 1)
    for step in range(steps):
        total = 0.0
        for rank in range(loader.size):
            if loader.rank == 0:
                x, y = loader(step, rank)
                loss = torch.nn.functional.cross_entropy(model(x), y) / loader.size
                loss.backward()
                total += float(loss.detach())
            dist.broadcast(beat, 0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    torch.set_num_threads(1)
    shared = torch.tensor(losses, dtype=torch.float64)
    dist.broadcast(shared, 0)
    return shared.tolist()


def bare_allreduce(row: Row, count: int) -> None:
    """All-reduces of all gradients, nothing else running."""
    x = torch.ones(sum(p.numel() for p in make_model(10).parameters()))
    dist.all_reduce(x, dist.ReduceOp.AVG)
    dist.barrier()
    for _ in range(count):
        seconds, cpu = timed(lambda: dist.all_reduce(x, dist.ReduceOp.AVG))
        row.times.append(mean_over_ranks(seconds))
        row.cpus.append(cpu)
    row.cpu = mean_over_ranks(statistics.median(row.cpus))


# ---- printing ----


class Table:
    """The rows of one batch size, printed by rank 0 as they are complete."""

    def __init__(self, batch: int, bare: Row, single: List[float]) -> None:
        self.batch, self.bare, self.single = batch, bare, single
        self.rows: Dict[str, Row] = {}
        self.limit: Optional[float] = None

    def begin(self) -> None:
        """The head; the bare all-reduces have been measured."""
        say(
            f"\nbatch {self.batch} per rank; seconds per iteration; a bare all-reduce takes {self.bare.median:.3f} s and"
            f" {self.bare.cpu:.3f} core-seconds per rank"
        )
        say(
            f"{'policy':>14} {'median':>8} {'lowest':>8} {'highest':>8} {'core-s':>7} {'x gloo':>7} {'x late':>7} {'x limit':>7}"
            f" {'loss':>8} {'from one':>8} {'right':>6}"
        )

    def _over(self, name: str, median: float) -> str:
        return f"{median / self.rows[name].median:7.3f}" if name in self.rows else " " * 7

    def add(self, row: Row) -> None:
        self.rows[row.name] = row
        if row.name == "none":
            cores = len(os.sched_getaffinity(0))
            self.limit = max(self.bare.median, dist.get_world_size() * (row.cpu + self.bare.cpu) / cores)
        alone = row.name == "none" and dist.get_world_size() > 1
        far = max((abs(a - b) for a, b in zip(row.losses, self.single)), default=0.0)
        say(
            f"{row.name:>14} {row.median:8.3f} {min(row.times):8.3f} {max(row.times):8.3f} {row.cpu:7.3f} {self._over('gloo', row.median)}"
            f" {self._over('gloo-late', row.median)} {row.median / self.limit if self.limit else float('nan'):7.3f}"
            f" {row.losses[-1]:8.4f} {'-' if alone or not self.single else f'{far:.1e}':>8} {row.right:6.1%}"
        )

    def finish(self) -> None:
        """What is said of all rows."""
        if self.limit:
            say(
                f"limit {self.limit:.3f} s = max(bare all-reduce, (compute + communication core-seconds of all ranks) / cores), if all ranks"
                " share these cores; compute is that of none, torch's optimizer included"
            )
        if self.single:
            say(f"from one: largest difference of the first {len(self.single)} losses from those of one process on all ranks' batches")
        if "ddp" in self.rows and "ddp-bf16" in self.rows:
            a, b = self.rows["ddp"], self.rows["ddp-bf16"]
            say(f"bf16 on the wire: loss {b.losses[-1] - a.losses[-1]:+.4f}, accuracy {b.right - a.right:+.1%} after {len(a.losses)} iterations")
        self._claim()

    def _claim(self) -> None:
        """The hybrid all-reduce paper's 33 % beside ours, against both readings of its baseline."""
        ours = [r for n, r in self.rows.items() if n not in ("none", "gloo", "gloo-late")]
        for base, words in (("gloo", "DDP on Gloo (overlapped)"), ("gloo-late", "Gloo without overlap")):
            if base in self.rows and ours:
                less = ", ".join(f"{r.name} {1 - r.median / self.rows[base].median:.0%}" for r in ours)
                say(f"less time than {words}: {less}")
        if ours and ("gloo" in self.rows or "gloo-late" in self.rows):
            say('the hybrid paper claims up to 33% less than "baseline PyTorch", without saying whether that overlapped')


def say(text: str) -> None:
    if dist.get_rank() == 0:
        print(text, flush=True)


def summary(tables: List[Table], names: List[str]) -> None:
    """Medians of all batches side by side, with their ratio to gloo."""
    if len(tables) < 2:
        return
    say("\n" + f"{'policy':>14} " + " ".join(f"{'batch ' + str(t.batch):>17}" for t in tables))
    for name in names:
        cells = [f"{t.rows[name].median:9.3f} {t._over('gloo', t.rows[name].median):>7}" for t in tables]
        say(f"{name:>14} " + " ".join(cells))
    say(f"{'limit':>14} " + " ".join(f"{t.limit or float('nan'):9.3f} {'':7}" for t in tables) if any(t.limit for t in tables) else "")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="dear", help="one of the policies above, or several with commas")
    parser.add_argument("--compare", action="store_true", help="measure " + ", ".join(COMPARED))
    parser.add_argument("--batch", default="32", help="images per rank; several with commas")
    parser.add_argument("--image", type=int, default=64, help="side of the images after scaling (at least 63)")
    parser.add_argument("--iterations", type=int, default=5, help="measured in each round")
    parser.add_argument("--warmup", type=int, default=2, help="before them")
    parser.add_argument("--rounds", type=int, help="all policies take turns so many times [1; with --compare 2]")
    parser.add_argument("--check", type=int, default=3, help="losses compared with those of one process; 0: none")
    parser.add_argument("--wire", choices=("f32", "bf16"), default="f32", help="of policy ddp and those of DistributedOptimizer")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--data", default="cifar-10-batches-bin")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    torch.set_num_threads(1)
    kept = tutti.torch.keep_memory()
    dist.init_process_group("tutti")
    gloo = dist.new_group(list(range(dist.get_world_size())), backend="gloo")
    images, labels, origin = load_images(args.data, 50000)
    say(f"{dist.get_world_size()} ranks, AlexNet on {origin}, scaled to {args.image}x{args.image}, one thread per rank{', freed memory kept (all rows)' if kept else ''}")
    names = COMPARED if args.compare else args.policy.split(",")
    batches = [int(b) for b in args.batch.split(",")]
    rounds = args.rounds or (2 if args.compare else 1)
    bar = Bar(len(batches) * rounds * len(names) * (args.warmup + args.iterations))
    tables = []
    for batch in batches:
        loader = Loader(images, labels, batch, args.image)
        rows = [Row(name) for name in names]
        tables.append(Table(batch, Row("bare"), single_process(args, loader, min(args.check, args.warmup + args.iterations))))
        for turn in range(rounds):
            bare_allreduce(tables[-1].bare, 3)
            if turn == rounds - 1:
                bar.clear()
                tables[-1].begin()
            for row in rows:
                measure(args, loader, row, gloo, bar)
                if turn == rounds - 1:
                    bar.clear()
                    tables[-1].add(row)
        tables[-1].finish()
    summary(tables, names)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
