"""Point to point on our backend: order, tags, any source, both sending first, rings, empty and large messages, wrong sizes, deadlines."""

from datetime import timedelta

import case

torch = case.need_torch()
import torch.distributed as dist  # noqa: E402

import tutti  # noqa: E402
import tutti.torch  # noqa: E402

dist.init_process_group("tutti")
ME, N = dist.get_rank(), dist.get_world_size()
RIGHT, LEFT = (ME + 1) % N, (ME - 1) % N


def test_order():
    for r in range(1, N):
        if ME == 0:
            for k in range(10):
                dist.send(torch.full((k,), float(k)), r)
        elif ME == r:
            for k in range(10):
                x = torch.zeros(k)
                dist.recv(x, 0)
                assert (x == k).all()


def test_everybody_sends_first():
    big = torch.full((3_000_000,), float(ME))
    got = torch.zeros_like(big)
    works = [dist.isend(big, RIGHT), dist.irecv(got, LEFT)]
    for w in works:
        w.wait()
    assert (got == LEFT).all()


def test_tags_out_of_order():
    if ME == 0:
        for tag in (3, 1, 2):
            dist.send(torch.tensor([tag]), 1, tag=tag)
    elif ME == 1:
        for tag in (1, 2, 3):
            x = torch.zeros(1, dtype=torch.int64)
            dist.recv(x, 0, tag=tag)
            assert x == tag


def test_any_source():
    if ME == 0:
        seen = []
        for _ in range(2 * (N - 1)):
            x = torch.zeros(2)
            sender = dist.recv(x)
            assert (x == sender).all()
            seen.append(sender)
        assert sorted(seen) == sorted(2 * list(range(1, N))), seen
    else:
        for _ in range(2):
            dist.send(torch.full((2,), float(ME)), 0)
    dist.barrier()


def test_batch():
    got = torch.zeros(4, 2).t()
    ops = [dist.P2POp(dist.isend, torch.full((2, 4), float(ME)), RIGHT), dist.P2POp(dist.irecv, got, LEFT)]
    for w in dist.batch_isend_irecv(ops):
        w.wait()
    assert (got == LEFT).all()


def test_wrong_size():
    if ME == 0:
        dist.send(torch.zeros(3), 1, tag=9)
    elif ME == 1:
        case.raises(tutti.Error, lambda: dist.recv(torch.zeros(4), 0, tag=9), "12 bytes", "16 are expected", "rank 0", "on rank 1")
    dist.barrier()


def test_deadline():
    group = dist.new_group(list(range(N)), timeout=timedelta(seconds=1))
    if ME == 0:
        case.raises(tutti.Error, lambda: dist.recv(torch.zeros(1), 1, group=group), "recv from rank 1", "within 1 s")
    dist.barrier()


case.run([t for name, t in list(globals().items()) if name.startswith("test_")], ME)
dist.destroy_process_group()
