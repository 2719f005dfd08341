#!/usr/bin/env python3
"""Training that goes on when ranks die and when ranks come, with NumPy.

    tutti run -n 4 --elastic 2..4 -- python3 examples/elastic.py
    kill -9 <a rank>          # the others repeat the step; a new process takes its place and catches up

A step that fails on some ranks is repeated by those who live, averaged over them. After each change
the ranks compare their step numbers; whoever is behind, such as a newcomer, gets the parameters, the
optimizer's momentum and the step number from the lowest rank that is ahead. At the end all print
the same hash."""
import argparse
import hashlib
import os
import signal
import time

import numpy as np

import tutti


class State:
    """What a newcomer needs: parameters, momentum, step. One array, so that it travels as one."""

    def __init__(self, n):
        self.flat = np.zeros(2 * n)
        self.weights, self.momentum = self.flat[:n], self.flat[n:]
        self.step = 0

    def catch_up(self, comm):
        """Everybody gets the state of the lowest of those who are furthest. Raises tutti.Error when a rank dies."""
        steps = comm.all_gather(np.array([self.step]))[:, 0]
        root = int(steps.argmax())
        if steps.min() < steps.max():
            got = comm.broadcast(self.flat.copy(), root)  # a copy: if this fails we still have ours
            self.flat[:], self.step = got, int(steps[root])

    def hash(self):
        return hashlib.sha256(self.flat.tobytes()).hexdigest()[:16]


def change(comm, state, how):
    """shrink or admit, and catching up; again while ranks die meanwhile."""
    while True:
        new = how(comm)
        if new is comm:
            return comm
        comm.close()
        comm, how = new, tutti.Communicator.shrink
        try:
            state.catch_up(comm)
        except tutti.Error:
            continue
        print(f"change {comm.changes}: rank {comm.rank} of {comm.size}, step {state.step}", flush=True)
        return comm


def gradient(state, rank, size):
    """Least squares on this rank's share of the data of this step: shares follow from rank and size."""
    data = np.random.default_rng(state.step).standard_normal((64, state.weights.size))[rank::size]
    wanted = data @ np.arange(state.weights.size)
    return data.T @ (data @ state.weights - wanted) / len(data)


def train(comm, state, args):
    done = False
    while not done:
        try:
            if state.step == args.steps:
                comm.barrier()  # whoever passes it knows that nobody has a step to repeat
                done = True
                continue
            if args.die and comm.changes == 0 and comm.rank == 1 and state.step == args.steps // 3:
                os.kill(os.getpid(), signal.SIGKILL)
            mean = comm.allreduce(gradient(state, comm.rank, comm.size), op="avg")
            state.momentum *= 0.5
            state.momentum += mean
            state.weights -= 0.02 * state.momentum
            state.step += 1
            time.sleep(args.pause)
        except tutti.Error as error:
            print(f"step {state.step} failed: {error}", flush=True)
            comm = change(comm, state, tutti.Communicator.shrink)
            continue
        if state.step % 5 == 0:
            comm = change(comm, state, tutti.Communicator.admit)
    return comm


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--pause", type=float, default=0.005, help="seconds, as if a step took longer")
    parser.add_argument("--die", action="store_true", help="rank 1 kills itself after a third of the steps")
    args = parser.parse_args()
    state = State(32)
    comm = tutti.Communicator()
    if comm.changes:  # a newcomer
        try:
            state.catch_up(comm)
        except tutti.Error:
            comm = change(comm, state, tutti.Communicator.shrink)
    comm = train(comm, state, args)
    off = np.abs(state.weights - np.arange(state.weights.size)).max()
    print(f"END {state.step} steps, {comm.size} ranks, {comm.changes} changes, off by {off:.1e}, hash {state.hash()}", flush=True)
    comm.close()


if __name__ == "__main__":
    main()
