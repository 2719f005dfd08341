"""A rank dies, is late, calls something else or leaves with an exception: every other rank gets an exception that names it, in time.

Usage: tutti run -n 3 -- python3 test_faults.py CASE. The launcher's exit status is 1 (a rank failed); survivors print "named" when they
were told what they should be."""

import os
import signal
import sys
import time
from datetime import timedelta

import case

torch = case.need_torch()
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: E402

import tutti  # noqa: E402
import tutti.torch  # noqa: E402

CASE = sys.argv[1]
dist.init_process_group("tutti", timeout=timedelta(seconds=4))
ME, N = dist.get_rank(), dist.get_world_size()
BAD = 1
STORE = dist.distributed_c10d._get_default_store()


def told(call, *words, within, died=False):
    """`within` seconds of the call, or since the bad rank died in it."""
    start = time.monotonic()
    text = case.raises(RuntimeError, call, *words)
    after = time.monotonic() - (float(STORE.get("died")) if died else start)
    assert after < within, f"told after {after:.1f} s"
    os.write(1, f"rank {ME} named: {text}\n".encode())  # whole, whatever the others print


def die():
    STORE.set("died", str(time.monotonic()))
    os.kill(os.getpid(), signal.SIGKILL)


def batches(workers):
    """1000 of them. DataLoader's workers are children that have all that the rank had open when they began, and outlive it."""
    if not workers:
        return (torch.ones(2, 500) for _ in range(1000))
    return iter(torch.utils.data.DataLoader(torch.ones(2000, 500), batch_size=2, num_workers=workers))


def train(model, optimizer, workers):
    """The bad rank is killed between backward() and step(), its workers live on."""

    def loop():
        for step, x in enumerate(batches(workers)):
            model(x).sum().backward()
            if ME == BAD and step == 20:
                die()
            optimizer.step()
            optimizer.zero_grad()

    told(loop, f"rank {BAD}", within=5, died=True)  # the deadline and a second
    told(lambda: dist.all_reduce(torch.ones(1)), f"rank {BAD}", within=1)


def layers():
    return torch.nn.Sequential(torch.nn.Linear(500, 500), torch.nn.Linear(500, 500))


def sgd(model):
    return torch.optim.SGD(model.parameters(), 0.001, momentum=0.9)


def killed_in_ddp(hook=None, workers=0):
    model = DDP(layers())
    if hook:
        model.register_comm_hook(tutti.torch.DDPHookState(wire="bf16"), hook)
    train(model, sgd(model), workers)


def killed_in_optimizer(policy, workers=0):
    model = layers()
    train(model, tutti.torch.DistributedOptimizer(sgd(model), model, policy=policy), workers)


def killed_in_fsdp(workers=0):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model, mesh = layers(), init_device_mesh("cpu", (N,))
    for part in (*model, model):
        fully_shard(part, mesh=mesh)
    train(model, sgd(model), workers)


def killed_in_allreduce():
    def loop():
        for step in range(100000):
            if ME == BAD and step == 50:
                die()
            dist.all_reduce(torch.ones(1000))

    told(loop, f"rank {BAD}", f"on rank {ME} of {N}", within=5)


def killed_in_subgroup():
    group = dist.new_group([1, 2])
    if ME == 0:
        time.sleep(1)  # not concerned
        print("rank 0 named: not a member", flush=True)
        return
    if ME == BAD:
        dist.all_reduce(torch.ones(1), group=group)
        die()
    dist.all_reduce(torch.ones(1), group=group)
    told(lambda: dist.all_reduce(torch.ones(1), group=group), "rank 0", "global ranks 1, 2", within=6)


def killed_receiver():
    if ME == BAD:
        dist.recv(torch.zeros(1), 0)
        die()
    if ME == 0:
        dist.send(torch.zeros(1), BAD)
        told(lambda: [dist.send(torch.zeros(1000000), BAD) for _ in range(10)], f"rank {BAD}", within=6)
    else:
        print(f"rank {ME} named: not a member", flush=True)


def late():
    if ME == BAD:
        time.sleep(6)
        told(lambda: dist.all_reduce(torch.ones(1)), f"rank {BAD}", within=1)
    else:
        told(lambda: dist.all_reduce(torch.ones(1)), f"rank {BAD}", within=6)


def late_for_a_future():
    work = dist.all_reduce(torch.ones(100000), async_op=True) if ME != BAD else None
    if work is None:
        time.sleep(7)
    else:
        told(lambda: work.get_future().wait(), f"rank {BAD}", within=6)


def differs():
    call = (lambda: dist.all_reduce(torch.ones(7))) if ME == BAD else (lambda: dist.all_reduce(torch.ones(8)))
    told(call, "rank", within=6)


def leaves():
    if ME == BAD:
        raise KeyError("lost my notes")
    told(lambda: dist.all_reduce(torch.ones(1)), "lost my notes", f"rank {BAD}", within=3)


{
    "ddp": killed_in_ddp,
    "hook": lambda: killed_in_ddp(tutti.torch.ddp_hook),
    "ddp-workers": lambda: killed_in_ddp(workers=2),
    "dear": lambda: killed_in_optimizer("dear"),
    "dear-workers": lambda: killed_in_optimizer("dear", workers=2),
    "fsdp": killed_in_fsdp,
    "fsdp-workers": lambda: killed_in_fsdp(workers=2),
    "allreduce": killed_in_allreduce,
    "subgroup": killed_in_subgroup,
    "receiver": killed_receiver,
    "late": late,
    "future": late_for_a_future,
    "differs": differs,
    "leaves": leaves,
}[CASE]()
