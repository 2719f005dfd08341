"""torch.distributed of PyTorch 2, call by call: both names of collectives, types, reductions, objects, timeouts, options, the end; functional
collectives."""

import time
from datetime import timedelta

import case
from torch2 import BACKEND, OURS, begin, close, end, torch

import torch.distributed as dist
import torch.distributed._functional_collectives as fc

ME, N = begin()
EVERY = list(range(N))


def test_single_tensor_collectives():
    out = torch.empty(2 * N)
    dist.all_gather_into_tensor(out, torch.full((2,), float(ME)))
    assert out.tolist() == [float(r) for r in EVERY for _ in range(2)]
    part = torch.empty(3)
    dist.reduce_scatter_tensor(part, torch.arange(3.0 * N) + ME)
    close(part, N * (torch.arange(3.0) + 3 * ME) + sum(EVERY))
    got = torch.empty(N)
    dist.all_to_all_single(got, torch.arange(float(N)) + 10 * ME)
    assert got.tolist() == [10.0 * r + ME for r in EVERY]
    parts = [torch.empty(1) for _ in EVERY]
    dist.all_gather(parts, torch.tensor([float(ME)]))
    assert [float(p) for p in parts] == EVERY


def test_works_and_order():
    """Blocking calls between operations that are under way."""
    works, tensors = [], [torch.full((1000,), float(k + ME)) for k in range(20)]
    for k, t in enumerate(tensors):
        if k % 2:
            works.append(dist.all_reduce(t, async_op=True))
        else:
            dist.all_reduce(t)
    for w in works:
        w.wait()
    for k, t in enumerate(tensors):
        assert (t == N * k + sum(EVERY)).all()


def test_blocking_beside_others():
    """Blocking calls of every kind while operations of every kind are under way: each gets its own numbers, in whatever order works end."""
    for length in (1, 5000):
        late, waited = [], []
        for k in range(12):
            t, part, every = torch.full((length,), float(ME + k)), torch.empty(length), torch.empty(N * length)
            blocks = torch.full((N * length,), float(k))
            some = [dist.all_reduce(t, async_op=True), dist.all_gather_into_tensor(every, torch.full((length,), float(ME)), async_op=True)]
            now = torch.full((length,), float(ME))
            (dist.all_reduce if k % 3 else dist.barrier)(*([now] if k % 3 else []))
            dist.reduce_scatter_tensor(part, blocks)
            root = torch.full((length,), float(ME * 100 + k))
            dist.broadcast(root, k % N)
            assert (part == N * k).all() and (root == (k % N) * 100 + k).all() and (now == (sum(EVERY) if k % 3 else ME)).all(), k
            (late if k % 2 else waited).append((some, k, t, every))
            for w in some if k % 4 == 0 else []:
                w.wait()
        for some, k, t, every in waited[::-1] + late:
            for w in some:
                w.wait()
            assert (t == sum(EVERY) + N * k).all() and every.view(N, -1)[:, 0].tolist() == EVERY, k


def test_blocking_odd_tensors():
    """What the library cannot take as it is: no elements, complex; strides (Gloo reduces their neighbours in memory), bool, sparse."""
    dist.all_reduce(torch.empty(0))
    z = torch.tensor([complex(ME, 1)])
    dist.all_reduce(z)
    assert z[0] == complex(sum(EVERY), N)
    if not OURS:
        return
    wide = torch.arange(12.0).view(3, 4) + ME
    dist.all_reduce(wide[:, 1])
    assert wide[:, 1].tolist() == [N * v + sum(EVERY) for v in (1, 5, 9)] and wide[0, 0] == ME and wide[0, 2] == 2 + ME
    dist.all_reduce(wide[2, 2])
    assert wide[2, 2] == 10 * N + sum(EVERY)
    turned = (torch.arange(6.0).view(2, 3) + ME).t()
    dist.broadcast(turned, 0)
    assert turned.tolist() == torch.arange(6.0).view(2, 3).t().tolist()
    every = torch.empty(3, 2 * N).t()
    dist.all_gather_into_tensor(every, torch.full((2, 3), float(ME)))
    assert (every == torch.arange(float(N)).repeat_interleave(2)[:, None]).all()
    flags = torch.tensor([ME == 0, True, False])
    dist.all_reduce(flags, dist.ReduceOp.MIN)
    assert flags.tolist() == [N == 1, True, False]
    case.raises(ValueError, lambda: dist.all_reduce(torch.ones(2).to_sparse()), "sparse")
    group, t = dist.group.WORLD, torch.full((2,), float(ME))  # options may be a root or a reduction alone
    group.allreduce([t], dist.ReduceOp.MAX).wait()
    assert t.tolist() == [N - 1, N - 1]
    t.fill_(ME)
    group.broadcast([t], N - 1).wait()
    group.allreduce([t]).wait()
    assert t.tolist() == [N * (N - 1)] * 2


def test_types():
    names = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64"]
    for name in names + (["int16", "uint16", "uint32", "uint64"] if OURS else []):
        t = torch.ones(5).to(getattr(torch, name))
        dist.all_reduce(t)
        assert (t.to(torch.float64) == N).all(), name
    moved = ["uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "bool", "complex64"] if OURS else ["bool", "complex64"]
    for name in moved:
        t = torch.tensor([1.0, 0.0, 1.0]).to(getattr(torch, name)) if ME == 0 else torch.zeros(3).to(getattr(torch, name))
        dist.broadcast(t, 0)
        assert t.to(torch.complex64).real.tolist() == [1, 0, 1], name
        out = torch.zeros(3 * N).to(getattr(torch, name))
        dist.all_gather_into_tensor(out, t)
        assert out.to(torch.complex64).real.tolist() == [1, 0, 1] * N, name


def test_reductions():
    for op, want in (("SUM", sum(EVERY)), ("MAX", N - 1), ("MIN", 0), ("AVG", sum(EVERY) / N)):
        if op == "AVG" and not OURS:
            continue
        t = torch.full((4,), float(ME))
        dist.all_reduce(t, getattr(dist.ReduceOp, op))
        close(t, torch.full((4,), float(want)))
    if OURS:
        half = dist._make_nccl_premul_sum(0.5)
        t = torch.full((4,), float(ME))
        dist.all_reduce(t, half)
        close(t, torch.full((4,), sum(EVERY) / 2))
        given, part = torch.full((2 * N,), float(ME)), torch.empty(2)
        dist.reduce_scatter_tensor(part, given, half)
        close(part, torch.full((2,), sum(EVERY) / 2))
        assert (given == ME).all()
        for kind in (torch.float64, torch.float32, torch.bfloat16, torch.int64):  # the factor's; the tensors stay what they are
            twice = dist._make_nccl_premul_sum(torch.full((1,), 2, dtype=kind))
            for own in (torch.float32, torch.float16):
                t, part = torch.full((4,), float(ME), dtype=own), torch.empty(2, dtype=own)
                dist.all_reduce(t, twice)
                assert t.tolist() == [2 * sum(EVERY)] * 4, (kind, own)
                dist.reduce_scatter_tensor(part, given.to(own), twice)
                assert part.tolist() == [2 * sum(EVERY)] * 2, (kind, own)
                dist.reduce_scatter(part, list(given.to(own).chunk(N)), twice)
                assert part.tolist() == [2 * sum(EVERY)] * 2, (kind, own)
                t.fill_(ME)
                dist.reduce(t, 0, twice)
                assert ME or t.tolist() == [2 * sum(EVERY)] * 4, (kind, own)
        case.raises(ValueError, lambda: dist.all_reduce(torch.ones(2, dtype=torch.int32), half), "PREMUL_SUM")


def test_objects():
    every = [None] * N
    dist.all_gather_object(every, {"rank": ME, "text": "x" * ME})
    assert [e["rank"] for e in every] == EVERY
    some = [{"a": 1}, None] if ME == 0 else [None, None]
    dist.broadcast_object_list(some, 0)
    assert some[0] == {"a": 1}
    got = [None]
    dist.scatter_object_list(got, [f"for {r}" for r in EVERY] if ME == 0 else None, 0)
    assert got == [f"for {ME}"]
    found = [None] * N if ME == 0 else None
    dist.gather_object(ME * 2, found, 0)
    assert ME or found == [2 * r for r in EVERY]
    if ME < 2:
        dist.send_object_list([("from", 0), 5], 1) if ME == 0 else dist.recv_object_list(some, 0)
        assert ME == 0 or some == [("from", 0), 5]


def test_functional():
    group = dist.group.WORLD
    close(fc.all_reduce(torch.full((3,), float(ME)), "sum", group), torch.full((3,), float(sum(EVERY))))
    assert fc.all_gather_tensor(torch.tensor([float(ME)]), 0, group).tolist() == [float(r) for r in EVERY]
    close(fc.reduce_scatter_tensor(torch.arange(float(N)), "sum", 0, group), torch.tensor([float(N * ME)]))
    assert fc.all_to_all_single(torch.arange(float(N)) + 10 * ME, None, None, group).tolist() == [10.0 * r + ME for r in EVERY]
    close(fc.broadcast(torch.full((2,), float(ME)), 0, group), torch.zeros(2))
    sums = fc.all_reduce_coalesced([torch.ones(2), torch.full((3,), 2.0)], "sum", group)
    assert [float(s[0]) for s in sums] == [N, 2 * N]


def test_groups():
    """Made, used, closed one by one; with options."""
    more = {"pg_options": __import__("tutti.torch").torch.Options(transport="tcp")} if OURS else {}
    group = dist.new_group(EVERY, **more)
    t = torch.ones(3)
    dist.all_reduce(t, group=group)
    assert (t == N).all()
    dist.destroy_process_group(group)
    if OURS:
        case.raises(RuntimeError, lambda: group.allreduce([t]), "closed")
        case.raises(TypeError, lambda: __import__("tutti.torch").torch.Options(transprot="tcp"), "transprot")
        assert __import__("tutti.torch").torch.of() is dist.group.WORLD


def test_timeouts():
    """A call's own, and set_timeout. What is late is named, and long before the group's deadline."""
    store, begun = dist.distributed_c10d._get_default_store(), time.monotonic()
    group = dist.new_group(EVERY)
    if ME == 0:
        opts = dist.BarrierOptions()
        opts.timeout = timedelta(seconds=0.3)
        case.raises(RuntimeError, lambda: group.barrier(opts).wait())
        store.set("late", "now")
    else:
        store.wait(["late"])
        if OURS:
            # the first one may still find what rank 0 gave before it gave up
            case.raises(RuntimeError, lambda: [dist.barrier(group=group) for _ in range(2)], "not done within 0.3 s")
    if OURS:
        other = dist.new_group(EVERY)
        other.set_timeout(timedelta(seconds=0.3))
        if ME == 0:
            case.raises(RuntimeError, lambda: dist.all_reduce(torch.ones(1), group=other), "not done within 0.3 s")
            store.set("later", "now")
        else:
            store.wait(["later"])
        case.raises(ValueError, lambda: other.set_timeout(timedelta(days=9)), "timeout=")
        assert time.monotonic() - begun < other._ledger.limit


def test_abort():
    group = dist.new_group(EVERY)
    if not OURS:
        return
    if ME == 0:
        group.abort()
    else:
        case.raises(RuntimeError, lambda: [dist.barrier(group=group) for _ in range(1000)], "rank 0", "abort() was called")
    assert group._device_types == [torch.device("cpu")] and group._get_backend(torch.device("cpu")) is group


assert dist.get_backend() == BACKEND
case.run(
    [
        test_single_tensor_collectives, test_works_and_order, test_blocking_beside_others,
        test_blocking_odd_tensors, test_types, test_reductions, test_objects, test_functional, test_groups,
        test_timeouts, test_abort,
    ],
    ME,
)  # fmt: skip
end()
