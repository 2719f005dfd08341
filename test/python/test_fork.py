"""Children of a rank: os.fork, multiprocessing's fork and a DataLoader's workers. In a child a call on the parent's objects is an error that
says why, closing and leaving there are harmless, and the job goes on. Then a rank with a living child dies: the others hear at once."""

import multiprocessing
import os
import signal
import time

import case

torch = case.need_torch()
import torch.distributed as dist  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

import tutti  # noqa: E402
import tutti.torch  # noqa: E402

dist.init_process_group("tutti")
ME, N = dist.get_rank(), dist.get_world_size()
COMM = dist.distributed_c10d._get_default_group().extra_communicator()
WHY = "belongs to the process that this one was forked from"


def in_child(work):
    """Runs `work` in a forked child; True when it ended well."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException as e:
            print(f"child of rank {ME}: {type(e).__name__}: {e}", flush=True)
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def all_is_well():
    x = torch.ones(1000)
    dist.all_reduce(x)
    assert (x == N).all()
    COMM.barrier()


def test_calls_and_close_in_a_child():
    def work():
        case.raises(RuntimeError, lambda: dist.all_reduce(torch.ones(1)), WHY)
        case.raises(RuntimeError, COMM.barrier, WHY)
        COMM.close()

    assert in_child(work)
    all_is_well()


def test_trainer_in_a_child():
    model = torch.nn.Linear(50, 50)
    optimizer = tutti.torch.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model)

    def step():
        model(torch.ones(2, 50)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    assert in_child(lambda: (case.raises(RuntimeError, step, WHY), optimizer.close()))
    step()
    all_is_well()


def leave(queue):
    queue.put(os.getpid())


def test_multiprocessing_leaves_quietly():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=leave, args=(queue,)) for _ in range(3)]
    for c in children:
        c.start()
    for c in children:
        queue.get(timeout=60)
        c.join(60)
        assert c.exitcode == 0, c.exitcode
    all_is_well()


def test_data_loader():
    data = torch.utils.data.TensorDataset(torch.arange(64.0))
    seen = 0.0
    for (x,) in DataLoader(data, batch_size=8, num_workers=2, multiprocessing_context="fork"):
        seen += float(x.sum())
        dist.all_reduce(x)
    assert seen == 64 * 63 / 2
    all_is_well()


def test_death_beside_a_living_child():
    life = os.pipe()
    if ME == 1:
        if os.fork() == 0:
            os.close(life[1])
            os.read(life[0], 1)  # until all others have ended
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    case.raises(RuntimeError, lambda: dist.all_reduce(torch.ones(1)), "rank 1", "dead")
    os.write(1, f"rank {ME} named after {time.monotonic() - start:.2f} s\n".encode())


case.run(
    [test_calls_and_close_in_a_child, test_trainer_in_a_child, test_multiprocessing_leaves_quietly, test_data_loader], ME
)
test_death_beside_a_living_child()
os._exit(0)
