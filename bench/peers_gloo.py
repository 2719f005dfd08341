"""Gloo's all-reduce (torch.distributed), timed the way `tutti bench` times ours: f32 sum, three warm-up calls, as many calls as fill a
round, the best of three rounds' means, the slowest rank. Gloo reduces in place, that is all it offers: it is spared the second buffer that
the others have. It speaks TCP, here over loopback. Prints one JSON object per size; the result of one more call is compared whole.

Usage: python3 peers_gloo.py RANKS BEGIN END FACTOR ROUND_MS (sizes in bytes; RANKS 0: one rank of a job that was started, `tutti lab`)"""

import datetime
import json
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist


def measure(data, round_us):
    """Microseconds of one call."""
    for _ in range(3):
        start = time.perf_counter()
        dist.all_reduce(data)
    took_us = (time.perf_counter() - start) * 1e6
    calls = torch.tensor(min(max(round_us / max(took_us, 0.2), 3), 20000), dtype=torch.float64)
    dist.broadcast(calls, 0)
    calls, best = int(calls), float("inf")
    for _ in range(3):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(calls):
            dist.all_reduce(data)
        mean = torch.tensor((time.perf_counter() - start) / calls * 1e6, dtype=torch.float64)
        dist.all_reduce(mean, op=dist.ReduceOp.MAX)
        best = min(best, float(mean))
    return best


def pattern(rank, count):
    return ((torch.arange(count) + rank) % 4).to(torch.float32)


def wrong(data, rank, ranks):
    """Elements that differ from the sum, over all ranks."""
    data.copy_(pattern(rank, data.numel()))
    dist.all_reduce(data)
    right = sum(pattern(r, data.numel()) for r in range(ranks))
    bad = (data != right).sum()
    dist.all_reduce(bad)
    return int(bad)


def run_rank(rank, ranks, store, sizes, round_us):
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=60))
    for size in sizes:
        data = torch.zeros(size // 4)
        time_us = measure(data, round_us)
        bad = wrong(data, rank, ranks)
        if rank == 0:
            print(json.dumps({"bytes": size, "time_us": time_us, "wrong": bad}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def main():
    ranks, begin, end, factor, round_ms = (int(word) for word in sys.argv[1:])
    sizes = []
    while begin <= end:
        sizes.append(begin)
        begin *= factor
    torch.set_num_threads(1)
    if ranks == 0:
        run_rank(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), "env://", sizes, round_ms * 1e3)
        return
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    with tempfile.TemporaryDirectory(prefix="peers-gloo-") as folder:
        children = []
        for rank in range(ranks):
            child = os.fork()
            if child == 0:
                try:
                    run_rank(rank, ranks, "file://" + os.path.join(folder, "store"), sizes, round_ms * 1e3)
                    os._exit(0)
                except Exception as failure:
                    print("peers_gloo: rank %d: %s" % (rank, failure), file=sys.stderr, flush=True)
                finally:
                    os._exit(1)
            children.append(child)
        codes = [os.waitpid(child, 0)[1] for child in children]
    sys.exit(1 if any(codes) else 0)


if __name__ == "__main__":
    main()
