#!/usr/bin/env python3
"""A PyTorch model that trains on when ranks die and when ranks come.

    tutti run -n 4 --elastic 2..4 -- python3 examples/elastic_torch.py
    kill -9 <a rank>          # the others finish the step; a new process takes its place and goes on where they are

AlexNet on four emulated hosts, one of which is killed and comes back:

    tutti lab --nodes 4 --elastic 2..4 --prefix -- python3 examples/elastic_torch.py --alexnet --steps 60 --die

The loop has no try/except: opt.step(), backward() and the forward pass go on with those who live. Data
follows from step, rank and number of ranks. At the end all print the same hash."""
import argparse
import hashlib
import os
import signal
import time

import torch
import train_alexnet

import tutti.torch


def batch(step, rank, size):
    """This rank's share of the 64 samples of a step."""
    data = torch.randn(64, 32, generator=torch.Generator().manual_seed(step))[rank::size]
    return data, data.sum(dim=1, keepdim=True).sin()


def small_model():
    return torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 1))


def images(step, rank, size):
    """This rank's share of the 16 images of a step. Their class is where they are brightest."""
    data = torch.rand(16, 3, 64, 64, generator=torch.Generator().manual_seed(step))[rank::size]
    classes = torch.arange(len(data)) * 7 + step
    for image, c in zip(data, classes % 10):
        image[:, 6 * c : 6 * c + 6] += 1
    return data, classes % 10


def digest(model):
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()[:16]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--pause", type=float, default=0.01, help="seconds, as if a step took longer")
    parser.add_argument("--policy", default="dear")
    parser.add_argument("--alexnet", action="store_true", help="AlexNet (57 million parameters) instead of a small model")
    parser.add_argument("--die", action="store_true", help="rank 1 kills itself after a third of the steps")
    args = parser.parse_args()
    torch.set_num_threads(1)
    group = tutti.torch.ElasticGroup()
    model = train_alexnet.make_model(10) if args.alexnet else small_model()
    loss_of, samples = (torch.nn.functional.cross_entropy, images) if args.alexnet else (torch.nn.functional.mse_loss, batch)
    inner = torch.optim.SGD(model.parameters(), lr=0.01 if args.alexnet else 0.05, momentum=0.9)
    seen = []  # the caller's own state; newcomers get it
    opt = tutti.torch.DistributedOptimizer(
        inner, model, policy=args.policy, process_group=group, elastic=True,
        save=lambda: ",".join(seen).encode(), load=lambda b: seen.extend(b.decode().split(",")),
    )  # fmt: skip
    print(f"rank {group.rank()} of {group.size()} begins at step {opt.steps}, change {group.changes}", flush=True)
    while opt.steps < args.steps:
        if args.die and group.changes == 0 and group.rank() == 1 and opt.steps == args.steps // 3:
            os.kill(os.getpid(), signal.SIGKILL)
        data, wanted = samples(opt.steps, group.rank(), group.size())
        loss = loss_of(model(data), wanted)
        if args.alexnet and opt.steps % 5 == 0:
            print(f"step {opt.steps}: loss {loss.item():.3f}, rank {group.rank()} of {group.size()}, change {group.changes}", flush=True)
        opt.zero_grad()
        loss.backward()
        if opt.steps % 50 == 0:
            inner.param_groups[0]["lr"] *= 0.9
            seen.append(f"{opt.steps}")
        opt.step()
        # A new process takes seconds to import torch: with --die the others wait for it, step by step.
        time.sleep(args.pause * (10 if args.die and group.changes == 1 else 1))
    opt.close()
    print(
        f"END {opt.steps} steps, {group.size()} ranks, {group.changes} change(s), lr {inner.param_groups[0]['lr']:.6f}, "
        f"{len(seen)} notes, loss {loss.item():.3f}, hash {digest(model)}",
        flush=True,
    )


if __name__ == "__main__":
    main()
