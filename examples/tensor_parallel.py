#!/usr/bin/env python3
"""Tensor-parallel inference on one machine: a small transformer (models.py) whose layers are cut across the ranks generates text.

    tutti run -n 2 -- python3 examples/tensor_parallel.py
    tutti run -n 4 -- python3 examples/tensor_parallel.py --dtensor          # torch's own tensor parallel (PyTorch 2)

Each rank has a share of the heads and of the inner width; two short all-reduces a layer add up what the ranks computed (4 KiB a token with
width 1024), which is why latency counts here. Backends take turns, round after round: tokens per second, medians over rounds. `alone` is one
rank with the whole model and nothing to communicate, while the others wait. Outputs of all ways are compared first."""

import argparse
import os
import statistics
import sys
import time
from typing import Any, Dict, List

import torch
import torch.distributed as dist
from torch import nn

try:
    import tutti.torch
except ImportError:
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python"))
    import tutti.torch
from models import Transformer

COLUMNS, ROWS = ("attention.query", "attention.key", "attention.value", "up"), ("attention.out", "down")  # how layers are cut


def part(t: torch.Tensor, dim: int) -> torch.Tensor:
    return t.detach().chunk(dist.get_world_size(), dim)[dist.get_rank()].contiguous()


class Summed(nn.Module):
    """The columns of a Linear layer that belong to this rank; outputs are added over all ranks."""

    def __init__(self, whole: nn.Linear, group: Any) -> None:
        super().__init__()
        self.weight, self.bias, self.group = part(whole.weight, 1), whole.bias, group

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.linear(x, self.weight)
        dist.all_reduce(y, group=self.group)
        return y if self.bias is None else y + self.bias


def cut(model: Transformer, group: Any) -> None:
    """Every layer's share of this rank, by hand."""
    for layer in model.layers:
        for name in COLUMNS:
            linear = layer.get_submodule(name)
            linear.weight = nn.Parameter(part(linear.weight, 0))
            linear.bias = None if linear.bias is None else nn.Parameter(part(linear.bias, 0))
        for name in ROWS:
            parent, _, last = name.rpartition(".")
            setattr(layer.get_submodule(parent), last, Summed(layer.get_submodule(name), group))


def cut_by_torch(model: Transformer, group: Any) -> None:
    """The same with DTensor."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = DeviceMesh.from_group(group, "cpu")
    for layer in model.layers:
        parallelize_module(layer, mesh, {**{n: ColwiseParallel() for n in COLUMNS}, **{n: RowwiseParallel() for n in ROWS}})


@torch.no_grad()
def generate(model: Transformer, prompt: torch.Tensor, count: int) -> List[int]:
    """The `count` tokens that are most probable after the prompt, one by one."""
    model.keep(True)
    given, at, found = prompt, 0, []
    for _ in range(count):
        best = model(given, at)[0, -1].argmax()
        at += given.shape[1]
        found.append(int(best))
        given = best.view(1, 1)
    model.keep(False)
    return found


def build(args: argparse.Namespace) -> Transformer:
    torch.manual_seed(0)
    return Transformer(1000, args.width, args.layers, args.heads, args.prompt + args.tokens).eval()


@torch.no_grad()
def check(ways: Dict[str, Transformer], prompt: torch.Tensor) -> None:
    """Every way computes what one rank computes alone, to rounding, and the same on all ranks."""
    want = ways["alone"](prompt)
    for name, model in ways.items():
        got = model(prompt)
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3)
        first = got.clone()
        dist.broadcast(first, 0)
        if not torch.equal(first, got):
            raise SystemExit(f"rank {dist.get_rank()}, {name}: not what rank 0 has")


def measure(args: argparse.Namespace, ways: Dict[str, Transformer], prompt: torch.Tensor) -> Dict[str, List[float]]:
    """Tokens per second of every round."""
    speeds: Dict[str, List[float]] = {name: [] for name in ways}
    for round_ in range(args.rounds + 1):  # the first warms up
        for name, model in ways.items():
            dist.barrier()
            start = time.monotonic()
            if name != "alone" or dist.get_rank() == 0:
                generate(model, prompt, args.tokens)
            if round_:
                speeds[name].append(args.tokens / (time.monotonic() - start))
    return speeds


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=16, help="tokens that are given")
    parser.add_argument("--tokens", type=int, default=48, help="that are generated")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--backends", default="gloo,tutti")
    parser.add_argument("--dtensor", action="store_true", help="layers cut by torch.distributed.tensor.parallel (PyTorch 2)")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    torch.set_num_threads(1)
    dist.init_process_group("tutti")
    size = dist.get_world_size()
    if args.heads % size or args.width % args.heads:
        raise SystemExit(f"{args.heads} heads on {size} ranks, width {args.width}: one must divide the other")
    prompt = torch.randint(0, 1000, (1, args.prompt), generator=torch.Generator().manual_seed(1))
    ways = {"alone": build(args)}
    for name in args.backends.split(","):
        group = dist.new_group(list(range(size)), backend=name)
        ways[name] = build(args)
        (cut_by_torch if args.dtensor else cut)(ways[name], group)
    check(ways, prompt)
    speeds = measure(args, ways, prompt)
    if dist.get_rank() == 0:
        print(f"{size} ranks on {len(os.sched_getaffinity(0))} cores, {sum(p.numel() for p in ways['alone'].parameters()) / 1e6:.1f} M parameters,"
              f" {args.layers} layers of width {args.width}{', cut by DTensor' if args.dtensor else ''}; tokens per second")  # fmt: skip
        for name, found in speeds.items():
            print(f"{name:>8} {statistics.median(found):8.1f}   (rounds: {min(found):.1f} to {max(found):.1f})")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
