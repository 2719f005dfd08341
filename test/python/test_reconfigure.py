"""A group that is configured again and again, as torchft's managers do: with fewer ranks after one has gone, with all when it is back."""

from datetime import timedelta

import case

torch = case.need_torch()
import torch.distributed as dist  # noqa: E402

import tutti  # noqa: E402
import tutti.torch  # noqa: E402

dist.init_process_group("tutti")
ME, N = dist.get_rank(), dist.get_world_size()
place = [None]
if ME == 0:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    place = [f"127.0.0.1:{store.port}"]
dist.broadcast_object_list(place, 0)
GROUP = tutti.torch.ReconfigurableGroup(timeout=timedelta(seconds=10))


def total(n):
    """The sum of 1 over all who take part, blocking and not."""
    x, y = torch.ones(1000), torch.ones(3)
    work = GROUP.allreduce([x], dist.ReduceOp.SUM)
    GROUP.allreduce([y]).wait()
    work.wait()
    assert (x == n).all() and (y == n).all(), (x[0], y[0])


def test_alone():
    assert (GROUP.rank(), GROUP.size(), GROUP.errored()) == (0, 1, None)
    total(1)


def test_fewer_and_all_again():
    GROUP.configure(f"{place[0]}/first", "replica", ME, N)
    assert (GROUP.rank(), GROUP.size(), GROUP.errored()) == (ME, N, None)
    total(N)
    if ME == N - 1:
        GROUP.abort()
        case.raises(RuntimeError, lambda: total(N))
    else:
        told = case.raises(tutti.Error, lambda: total(N), f"rank {N - 1}", "abort() was called")
        assert str(GROUP.errored()) == told
        GROUP.configure(f"{place[0]}/second", ME, N - 1)  # the older form
        assert GROUP.errored() is None
        total(N - 1)
    dist.barrier()
    GROUP.configure(f"{place[0]}/third", replica_id="replica", rank=N - 1 - ME, world_size=N, quorum_id=3)
    total(N)


def test_under_way_when_configured():
    """Calls under way on the old group fail; nobody waits for them."""
    x = torch.ones(5)
    work = GROUP.allreduce([x]) if ME == 0 else None
    dist.barrier()
    GROUP.configure(f"{place[0]}/fourth", "replica", ME, N)
    if work is not None:
        case.raises(RuntimeError, work.wait)
    total(N)


def test_refused():
    case.raises(ValueError, lambda: GROUP.configure("nowhere", "replica", 0, 1), "host:port/prefix")
    case.raises(ValueError, lambda: GROUP.configure(f"{place[0]}/x", "replica", 3, 3), "rank 3 of 3")
    case.raises(TypeError, lambda: tutti.torch.ReconfigurableGroup(colour=1), "no option")
    total(N)


def test_timeout():
    """One that does not come: the error comes after the deadline, and the others go on without it."""
    GROUP.set_timeout(timedelta(seconds=2))
    if ME == N - 1:
        GROUP.configure(f"{place[0]}/alone", "replica", 0, 1)
    else:
        case.raises(RuntimeError, lambda: GROUP.configure(f"{place[0]}/fifth", "replica", ME, N), "2 s")
        GROUP.configure(f"{place[0]}/sixth", "replica", ME, N - 1)
        total(N - 1)
    GROUP.shutdown()
    dist.barrier()


case.run([t for name, t in list(globals().items()) if name.startswith("test_")], ME)
dist.destroy_process_group()
