"""Every collective of torch.distributed on our backend against what torch computes from the same numbers: data types, odd sizes,
reductions, non-contiguous tensors, groups, futures, coalesced forms, wrong calls."""

import case

torch = case.need_torch()
import torch.distributed as dist  # noqa: E402

import tutti  # noqa: E402
import tutti.torch  # noqa: E402

dist.init_process_group("tutti")
ME, N = dist.get_rank(), dist.get_world_size()
Op = dist.ReduceOp
NATIVE = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64]
OTHERS = [torch.int16, torch.bool]


def data(rank, count, dtype):
    x = (torch.arange(count) * 7 + rank * 3) % 4 + 1
    return (x % 2 == 0) if dtype == torch.bool else x.to(dtype)


def everybody(count, dtype):
    return [data(r, count, dtype) for r in range(N)]


def test_allreduce():
    for dtype in NATIVE + OTHERS:
        for count in (0, 1, N + 1, 257):
            x = data(ME, count, dtype)
            dist.all_reduce(x)
            want = sum(t.long() for t in everybody(count, dtype))
            assert torch.equal(x.long(), (want > 0).long() if dtype == torch.bool else want), (dtype, count)
    for op, f in ((Op.MAX, torch.amax), (Op.MIN, torch.amin), (Op.PRODUCT, torch.prod), (Op.AVG, torch.mean)):
        x = data(ME, 77, torch.float64)
        dist.all_reduce(x, op)
        assert torch.allclose(x, f(torch.stack(everybody(77, torch.float64)), 0)), op
    for op, f in ((Op.BAND, torch.bitwise_and), (Op.BOR, torch.bitwise_or), (Op.BXOR, torch.bitwise_xor)):
        x = data(ME, 20, torch.int32)
        dist.all_reduce(x, op)
        want = data(0, 20, torch.int32)
        for r in range(1, N):
            want = f(want, data(r, 20, torch.int32))
        assert torch.equal(x, want), op
    z = torch.complex(data(ME, 5, torch.float32), data(ME + 1, 5, torch.float32))
    dist.all_reduce(z)
    assert torch.equal(z.real, sum(everybody(5, torch.float32)))


def test_half_precision_is_accumulated_in_f32():
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.full((1000,), 1.0 + ME * 2**-7, dtype=dtype)
        dist.all_reduce(x, Op.AVG)
        want = torch.stack([torch.full((1000,), 1.0 + r * 2**-7, dtype=dtype).float() for r in range(N)]).mean(0)
        assert torch.allclose(x.float(), want, atol=2**-7)


def test_not_contiguous():
    whole = torch.zeros(6, 8)
    view = whole[1:5, 1::2]
    view.copy_(data(ME, 16, torch.float32).view(4, 4))
    dist.all_reduce(view)
    assert torch.equal(view.reshape(-1), sum(everybody(16, torch.float32)))
    assert whole.sum() == view.sum(), "outside of the view nothing changes"
    t = data(ME, 12, torch.float32).view(3, 4).t()
    dist.broadcast(t, N - 1)
    assert torch.equal(t, data(N - 1, 12, torch.float32).view(3, 4).t())
    outs = [torch.zeros(4, 3).t() for _ in range(N)]
    dist.all_gather(outs, data(ME, 12, torch.float32).view(4, 3).t())
    assert all(torch.equal(o, data(r, 12, torch.float32).view(4, 3).t()) for r, o in enumerate(outs))


def test_lazy_views():
    """Views that negate or conjugate when they are read: what is meant travels, not what lies in memory."""
    total = -sum(everybody(6, torch.float32))
    for asynchronous in (False, True):
        wait = (lambda work: work.wait()) if asynchronous else (lambda work: None)
        x = torch._neg_view(data(ME, 6, torch.float32))
        wait(dist.all_reduce(x, async_op=asynchronous))
        assert torch.equal(x, total)
        x = torch._neg_view(data(ME, 6, torch.float32))
        wait(dist.broadcast(x, 0, async_op=asynchronous))
        assert torch.equal(x, -data(0, 6, torch.float32))
        out, x = torch._neg_view(torch.zeros(6 * N)), torch._neg_view(data(ME, 6, torch.float32))
        wait(dist.all_gather_into_tensor(out, x, async_op=asynchronous))
        assert torch.equal(out, -torch.cat(everybody(6, torch.float32)))
        outs = [torch.zeros(6) for _ in range(N)]
        wait(dist.all_gather(outs, x, async_op=asynchronous))
        assert torch.equal(torch.cat(outs), out)
        out = torch.zeros(6)
        wait(dist.reduce_scatter_tensor(out, torch._neg_view(data(ME, 6, torch.float32).repeat(N)), async_op=asynchronous))
        assert torch.equal(out, total)
        out = torch.zeros(6 * N)
        wait(dist.all_to_all_single(out, torch._neg_view(data(ME, 6, torch.float32).repeat(N)), async_op=asynchronous))
        assert torch.equal(out, -torch.cat(everybody(6, torch.float32)))
    z = torch.complex(data(ME, 5, torch.float32), data(ME + 1, 5, torch.float32)).conj()
    dist.distributed_c10d._get_default_group().broadcast([z], 0).wait()  # dist.broadcast of torch 2 refuses it
    assert torch.equal(z.resolve_conj().imag, -data(1, 5, torch.float32))
    x = torch._neg_view(data(ME, 6, torch.float32))
    if ME == 0 and N > 1:
        dist.send(x, 1)
    elif ME == 1:
        dist.recv(x, 0)
    assert torch.equal(x, -data(0 if ME < 2 else ME, 6, torch.float32))


def test_gathers():
    for dtype in NATIVE + OTHERS:
        outs = [torch.zeros(5, dtype=dtype) for _ in range(N)]
        dist.all_gather(outs, data(ME, 5, dtype))
        assert all(torch.equal(a, b) for a, b in zip(outs, everybody(5, dtype))), dtype
    flat = torch.zeros(N * 33)
    dist.all_gather_into_tensor(flat, data(ME, 33, torch.float32))
    assert torch.equal(flat, torch.cat(everybody(33, torch.float32)))
    views = list(torch.zeros(N, 4).unbind(0))  # side by side: received without a copy
    dist.all_gather(views, data(ME, 4, torch.float32))
    assert all(torch.equal(a, b) for a, b in zip(views, everybody(4, torch.float32)))
    found = [None] * N
    dist.all_gather_object(found, {"rank": ME, "text": "x" * ME})
    assert found == [{"rank": r, "text": "x" * r} for r in range(N)]


def test_reduce_scatter():
    for dtype in (torch.float32, torch.int64, torch.int16):
        out = torch.zeros(9, dtype=dtype)
        dist.reduce_scatter(out, [data(ME + r, 9, dtype) for r in range(N)])
        assert torch.equal(out, sum(data(r + ME, 9, dtype) for r in range(N))), dtype
    out = torch.zeros(3, 2)
    dist.reduce_scatter_tensor(out, data(ME, 6 * N, torch.float32).view(3 * N, 2), Op.AVG)
    want = (sum(everybody(6 * N, torch.float32)) / N)[6 * ME : 6 * ME + 6].view(3, 2)
    assert torch.allclose(out, want)
    uneven = torch.zeros(ME + 1)
    dist.reduce_scatter(uneven, [torch.full((r + 1,), float(ME)) for r in range(N)])
    assert torch.equal(uneven, torch.full((ME + 1,), float(sum(range(N)))))


def test_rooted():
    for root in range(N):
        for dtype in (torch.float32, torch.bool, torch.int16):
            x = data(ME, 11, dtype)
            dist.broadcast(x, root)
            assert torch.equal(x, data(root, 11, dtype))
        x = data(ME, 13, torch.float32)
        dist.reduce(x, root, Op.MAX)
        want = torch.stack(everybody(13, torch.float32)).amax(0) if ME == root else data(ME, 13, torch.float32)
        assert torch.equal(x, want)
        parts = [torch.zeros(3) for _ in range(N)] if ME == root else None
        dist.gather(torch.full((3,), float(ME)), parts, root)
        assert parts is None or all((p == r).all() for r, p in enumerate(parts))
        mine = torch.zeros(2, 2)
        dist.scatter(mine, [torch.full((2, 2), float(r + root)) for r in range(N)] if ME == root else None, root)
        assert (mine == ME + root).all()
    objects = [None]
    dist.scatter_object_list(objects, [f"for {r}" for r in range(N)] if ME == 0 else None, 0)
    assert objects == [f"for {ME}"]


def test_all_to_all():
    out = torch.zeros(2 * N)
    dist.all_to_all_single(out, torch.arange(2.0 * N) + 100 * ME)
    assert torch.equal(out, torch.cat([torch.arange(2.0) + 2 * ME + 100 * r for r in range(N)]))
    ins = [torch.full((r + ME, 3), float(10 * ME + r)) for r in range(N)]
    outs = [torch.zeros(r + ME, 3) for r in range(N)]
    dist.all_to_all(outs, ins)
    assert all((o == 10 * r + ME).all() for r, o in enumerate(outs))
    flat = torch.zeros(sum(r + ME for r in range(N)), 3)
    dist.all_to_all_single(flat, torch.cat(ins), [r + ME for r in range(N)], [r + ME for r in range(N)])
    assert torch.equal(flat, torch.cat(outs))


def test_groups():
    odd = dist.new_group([r for r in range(N) if r % 2] or [0])
    last = dist.new_group([N - 1, 0] if N > 1 else [0])
    if ME % 2:
        x = torch.ones(4) * ME
        dist.all_reduce(x, group=odd)
        assert (x == sum(r for r in range(N) if r % 2)).all()
        y = torch.tensor([float(ME)])
        dist.broadcast(y, 1, group=odd)
        assert y == 1
    if ME in (0, N - 1):
        assert dist.get_world_size(last) == min(2, N)
        x = torch.tensor([ME])
        dist.all_reduce(x, group=last)
        assert x == (N - 1 if N > 1 else 0)
    dist.barrier()


def test_async():
    works = [dist.all_reduce(torch.full((1000 + i,), float(ME)), async_op=True) for i in range(20)]
    futures = [w.get_future() for w in works[::2]]
    for w in works[1::2]:
        w.wait()
        assert w.is_completed() and w.is_success()
    for f in futures:
        assert (f.wait()[0] == sum(range(N))).all()
    x = torch.ones(10)
    doubled = dist.all_reduce(x, async_op=True).get_future().then(lambda f: f.value()[0] * 2)
    assert torch.equal(doubled.wait(), torch.full((10,), 2.0 * N))
    late = dist.barrier(async_op=True)
    late.wait()


def test_coalesced():
    tensors = [data(ME, k, torch.float32) for k in (1, 5, 0, 7)]
    dist.all_reduce_coalesced(tensors)
    assert all(torch.equal(t, sum(everybody(k, torch.float32))) for t, k in zip(tensors, (1, 5, 0, 7)))
    outs = [[torch.zeros(2), torch.zeros(3)] for _ in range(N)]
    dist.all_gather_coalesced(outs, [torch.full((2,), float(ME)), torch.full((3,), -float(ME))])
    assert all((a == r).all() and (b == -r).all() for r, (a, b) in enumerate(outs))


def test_many_dropped_works():
    for i in range(1500):
        dist.all_reduce(torch.ones(2), async_op=True)  # nobody waits for them
    x = torch.ones(2)
    dist.all_reduce(x)
    assert (x == N).all()


def test_wrong_calls():
    case.raises(ValueError, lambda: dist.all_reduce(torch.sparse_coo_tensor(torch.tensor([[0]]), [1.0], (2,))), "sparse")
    pg = dist.distributed_c10d._get_default_group()
    case.raises(ValueError, lambda: pg.allgather([[torch.zeros(2)] * N], [torch.zeros(3)]), "size mismatch")
    case.raises(ValueError, lambda: pg.alltoall_base(torch.zeros(N), torch.zeros(N), [1] * N, [2] * N), "split sizes")
    case.raises(ValueError, lambda: pg.send([torch.zeros(1)], ME, 0), "another one")
    case.raises(ValueError, lambda: pg.scatter([torch.zeros(1)], [[torch.zeros(1)] * (N + 1)], ME), f"{N + 1} inputs")
    assert dist.get_backend() == "tutti"


case.run([t for name, t in list(globals().items()) if name.startswith("test_")], ME)
dist.destroy_process_group()
