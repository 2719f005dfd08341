"""The Backend form of our group, which torch takes from 2.14 on: each method by the name and with the arguments with which torch's C++
looks it up (c10d's PyBackend). The class of torch is played by one with the same constructor, since 2.13 cannot make its own; which form
this torch takes is tested as it is."""

from datetime import timedelta

import case

torch = case.need_torch()
import torch.distributed as dist  # noqa: E402

import tutti.torch  # noqa: E402
from tutti.torch import _group  # noqa: E402

dist.init_process_group("tutti")
ME, N = dist.get_rank(), dist.get_world_size()
EVERY = list(range(N))


class Played:
    """What 2.14's Backend has: made with rank and size, which it tells."""

    def __init__(self, rank, size):
        self._rank, self._size = rank, size

    def rank(self):
        return self._rank

    def size(self):
        return self._size


class Closed:
    """2.13's Backend: pybind11's classes without a constructor raise this."""

    def __init__(self, *_):
        raise TypeError("No constructor defined!")


def opened(name):
    store = dist.PrefixStore(name, dist.distributed_c10d._get_default_store())
    return _group.backend_of(Played)(store, ME, N, timedelta(seconds=20), name, EVERY)


def options(name, **fields):
    made = getattr(torch._C._distributed_c10d, name)()
    for key, value in fields.items():
        setattr(made, key, value)
    return made


def done(work):
    assert work is not None  # C++ cannot take None
    work.wait()


def test_which_form():
    assert _group.backend_of(Closed) is None and _group.backend_of(None) is None
    assert issubclass(_group.backend_of(Played), Played)
    real = getattr(torch._C._distributed_c10d, "Backend", None)
    assert (_group.BackendTutti is not None) == (_group.backend_of(real) is not None)
    mine = tutti.torch.of()
    assert isinstance(mine, _group.BackendTutti or tutti.torch.ProcessGroupTutti)
    case.raises(TypeError, lambda: tutti.torch.of(object()), 'backend "tutti"')


def test_found_behind_a_group():
    """torch's own group has the backend for CPU tensors inside."""
    backend = opened("behind")

    class Group:
        def _get_backend(self, device):
            if device.type != "cpu":
                raise RuntimeError("no backend")
            return backend

    assert tutti.torch.of(Group()) is backend
    net = torch.nn.Linear(3, 2)
    opt = tutti.torch.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=0.1), net, policy="dear", process_group=Group())
    net(torch.full((1, 3), float(ME))).sum().backward()
    opt.step()
    opt.close()
    rows = [torch.empty(6) for _ in EVERY]
    done(backend.allgather([rows], [net.weight.detach().reshape(-1)], options("AllgatherOptions")))
    assert all(torch.equal(r, rows[0]) for r in rows)
    backend.shutdown()


def test_reductions():
    b = opened("reductions")
    for asynchronous in (False, True):
        how = {"asyncOp": asynchronous} if hasattr(options("AllreduceOptions"), "asyncOp") else {}
        x = torch.full((5,), float(ME))
        done(b.allreduce([x], options("AllreduceOptions", **how)))
        assert (x == sum(EVERY)).all()
        x = torch.full((5,), float(ME))
        done(b.reduce([x], options("ReduceOptions", rootRank=N - 1)))
        assert (x == (sum(EVERY) if ME == N - 1 else ME)).all()
        part = torch.empty(3)
        done(b.reduce_scatter_single(part, torch.arange(3.0 * N) + ME, options("ReduceScatterOptions")))
        assert torch.equal(part, N * (torch.arange(3.0) + 3 * ME) + sum(EVERY))
        parts = [torch.empty(1), torch.empty(2)]
        done(b.reduce_scatter_single_coalesced(parts, [torch.ones(N), torch.ones(2 * N)], options("ReduceScatterOptions")))
        assert all((p == N).all() for p in parts)
        done(b.reduce_scatter([part], [[torch.full((3,), float(r)) for r in EVERY]], options("ReduceScatterOptions")))
        assert (part == N * ME).all()
    pair = [torch.ones(2), torch.ones(3)]
    done(b.allreduce_coalesced(pair, options("AllreduceCoalescedOptions")))
    assert all((p == N).all() for p in pair)
    b.shutdown()


def test_moving_data():
    b = opened("moving")
    x = torch.full((4,), float(ME))
    done(b.broadcast([x], options("BroadcastOptions", rootRank=1)))
    assert (x == 1).all()
    every = torch.empty(2 * N)
    done(b.all_gather_single(every, torch.full((2,), float(ME)), options("AllgatherOptions")))
    assert every.tolist() == [float(r) for r in EVERY for _ in range(2)]
    many = [torch.empty(N), torch.empty(2 * N)]
    done(b.all_gather_single_coalesced(many, [torch.full((1,), float(ME)), torch.full((2,), float(ME))], options("AllgatherOptions")))
    assert many[0].tolist() == [float(r) for r in EVERY]
    rows = [torch.empty(1) for _ in EVERY]
    done(b.gather([rows] if ME == 0 else [], [torch.tensor([float(ME)])], options("GatherOptions")))
    assert ME != 0 or [float(r) for r in rows] == EVERY
    mine = torch.empty(1)
    done(b.scatter([mine], [[torch.tensor([float(r)]) for r in EVERY]] if ME == 0 else [], options("ScatterOptions")))
    assert float(mine) == ME
    got = torch.empty(N)
    done(b.all_to_all_single(got, torch.arange(float(N)) + 10 * ME, [], [], options("AllToAllOptions")))
    assert got.tolist() == [10.0 * r + ME for r in EVERY]
    outs = [torch.empty(1) for _ in EVERY]
    done(b.alltoall(outs, [torch.tensor([float(10 * ME + r)]) for r in EVERY], options("AllToAllOptions")))
    assert [float(o) for o in outs] == [10.0 * r + ME for r in EVERY]
    b.shutdown()


def test_messages_batches_and_the_end():
    b = opened("messages")
    if ME == 0:
        done(b.send([torch.tensor([7.0])], 1, 3))
        done(b.send([torch.tensor([8.0])], 1, 4))
    elif ME == 1:
        got = torch.empty(1)
        done(b.recv([got], 0, 3))
        assert float(got) == 7
        done(b.recv_anysource([got], 4))
        assert float(got) == 8
    done(b.barrier(options("BarrierOptions")))
    b.start_coalescing()
    xs = [torch.full((3,), float(k)) for k in range(3)]
    for x in xs:
        b.allreduce([x], options("AllreduceOptions"))
    done(b.end_coalescing())
    assert all((x == N * k).all() for k, x in enumerate(xs))
    b.monitored_barrier(options("BarrierOptions", timeout=timedelta(seconds=9)), False)
    b.set_timeout(timedelta(seconds=5))
    assert b.getBackendName() == b.name() == "tutti" and (b.rank(), b.size()) == (ME, N)
    assert not (b.supports_splitting or b.supports_coalescing or b._supports_time_estimate or b.supports_shrinking)
    b.abort()
    case.raises(RuntimeError, lambda: b.allreduce([torch.ones(1)], options("AllreduceOptions")).wait())
    b.shutdown()


case.run([t for name, t in list(globals().items()) if name.startswith("test_")], ME)
dist.destroy_process_group()
