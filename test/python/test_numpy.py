"""Every collective on NumPy arrays, against what NumPy computes from the same numbers; torch is not loaded."""

import os
import subprocess
import sys

import case

case.need_numpy()
import numpy as np  # noqa: E402

import tutti  # noqa: E402

comm = tutti.Communicator()
ME, N = comm.rank, comm.size
DTYPES = ["f4", "f8", "f2", "i1", "u1", "i4", "i8", "i2", "u2", "u4", "u8"]


def data(rank: int, count: int, dtype: str) -> np.ndarray:
    return ((np.arange(count) * 7 + rank * 3) % 5 + 1).astype(dtype)


def all_data(count: int, dtype: str) -> np.ndarray:
    return np.stack([data(r, count, dtype) for r in range(N)])


def test_allreduce() -> None:
    functions = {"sum": np.sum, "prod": np.prod, "min": np.min, "max": np.max}
    for dtype in DTYPES:
        for count in (0, 1, N - 1, N + 1, 257, 100003 if dtype == "f4" else 5):
            for op, f in functions.items():
                want = f(all_data(count, dtype), axis=0, dtype=dtype) if op in ("sum", "prod") else f(all_data(count, dtype), axis=0)
                got = comm.allreduce(data(ME, count, dtype), op)
                assert got.dtype == want.dtype and np.array_equal(got, want), (dtype, count, op, got, want)
    mean = comm.allreduce(data(ME, 99, "f8"), "avg")
    assert np.allclose(mean, all_data(99, "f8").mean(axis=0))


def test_integers() -> None:
    bits = {"band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor}
    truth = {"land": np.logical_and, "lor": np.logical_or, "lxor": np.logical_xor}
    for dtype in ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?"]:
        parts = all_data(64, dtype) - 1 if dtype != "?" else all_data(64, "i4") % 2 == 1
        for op, f in {**bits, **truth}.items():
            want = f.reduce(parts) if N > 1 else parts[0]
            got = comm.allreduce(parts[ME], op)
            assert got.dtype == parts.dtype and np.array_equal(got, want.astype(dtype)), (dtype, op, got, want)
    for dtype in ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]:
        most = np.full(9, np.iinfo(dtype).max, dtype)  # no sum of two of them fits
        assert np.array_equal(comm.allreduce(most, "avg"), most), dtype
    assert comm.allreduce(np.array([-3 - ME], "i4"), "avg")[0] == -((6 + N - 1) * N // 2 // N)  # toward zero
    case.raises(TypeError, lambda: comm.allreduce(np.ones(2), "band"), "float64")


def test_in_place_and_out() -> None:
    x = data(ME, 50, "f4").reshape(5, 10)
    out = np.empty_like(x)
    assert comm.allreduce(x, out=out) is out
    assert comm.allreduce(x, out=x) is x and np.array_equal(x, out)
    case.raises(ValueError, lambda: comm.allreduce(x, out=np.empty(3, "f4")), "(5, 10)")
    case.raises(ValueError, lambda: comm.allreduce(x, out=np.empty((5, 10), "f8")), "float32")
    y = data(ME, 60, "f8")
    want = all_data(60, "f8").sum(axis=0)
    comm.allreduce(y[:-10], out=y[10:])  # overlapping: as if x had been copied
    assert np.array_equal(y[10:], want[:-10])


def test_empty() -> None:
    for shape in ((0,), (0, 5), (5, 0), (2, 0, 3)):
        out = np.zeros(shape)
        assert comm.allreduce(np.zeros(shape), out=out) is out
        assert comm.broadcast(np.zeros(shape), root=0).shape == shape
        assert comm.reduce(np.zeros(shape), root=N - 1) is None or ME == N - 1


def test_blocks() -> None:
    for count in (0, 1, 33):
        x = data(ME, N * count, "f4")
        want = all_data(N * count, "f4").sum(axis=0)[ME * count : (ME + 1) * count]
        assert np.array_equal(comm.reduce_scatter(x), want)
        assert np.array_equal(comm.all_gather(data(ME, count, "c16")), all_data(count, "c16"))
        back = comm.all_to_all(x.reshape(N, count))
        assert np.array_equal(back, all_data(N * count, "f4").reshape(N, N, count)[:, ME])
    counts = [3 * r + (r == 0) for r in range(N)]
    gathered = comm.all_gather_v(data(ME, counts[ME], "i4"), counts)
    assert np.array_equal(gathered, np.concatenate([data(r, counts[r], "i4") for r in range(N)]))
    mine = comm.reduce_scatter_v(data(ME, sum(counts), "f8"), counts)
    at = sum(counts[:ME])
    assert np.array_equal(mine, all_data(sum(counts), "f8").sum(axis=0)[at : at + counts[ME]])
    if N > 1:
        case.raises(ValueError, lambda: comm.reduce_scatter(np.zeros(N + 1)), "blocks")


def test_rooted() -> None:
    for root in range(N):
        x = np.full(7, ME, "i8")
        assert (comm.broadcast(x, root) == root).all()
        total = comm.reduce(data(ME, 9, "f4"), "max", root)
        assert (total is None) == (ME != root)
        if total is not None:
            assert np.array_equal(total, all_data(9, "f4").max(axis=0))
        parts = comm.gather(np.array([ME, -ME]), root)
        if parts is not None:
            assert np.array_equal(parts, [[r, -r] for r in range(N)])
        mine = np.empty(2, "i4")
        comm.scatter(np.arange(2 * N, dtype="i4") + 100 * root if ME == root else None, mine, root)
        assert np.array_equal(mine, [2 * ME + 100 * root, 2 * ME + 1 + 100 * root])


def test_messages_without_waiting() -> None:
    big = np.full((300, 400), float(ME))
    got = [np.empty((300, 400)) for _ in range(N)]
    others = [r for r in range(N) if r != ME]
    works = [comm.irecv(got[r], r, tag=7) for r in others] + [comm.isend(big, r, tag=7) for r in others]
    for w in works:
        w.wait()
        w.free()
    assert all((got[r] == r).all() for r in others)
    if ME:
        comm.isend(np.array([ME, -ME]), 0, tag=ME).wait()
    sources = []
    for _ in range((N - 1) * (ME == 0)):
        x = np.empty(2, dtype=int)
        w = comm.irecv(x, tag=None)
        case.raises(tutti.Error, lambda: w.source, "waited for") if w.poll() == 1 else None
        w.wait()
        assert w.source == (x[0], x[0]) and x[1] == -x[0]
        sources.append(x[0])
        w.free()
    assert sorted(sources) == list(range(1, N)) * (ME == 0)
    if N > 1:
        comm.irecv(np.empty(1), tag=99).free()  # nobody sends it
        case.raises(ValueError, lambda: comm.isend(big, N), "peer is")
        case.raises(ValueError, lambda: comm.irecv(big, tag=-1), "tag is -1")
        case.raises(ValueError, lambda: comm.irecv(big.T), "contiguous")
    else:
        case.raises(tutti.Error, lambda: comm.irecv(big), "there is none")


def test_messages_and_split() -> None:
    if N > 1:
        if ME == 0:
            comm.send(np.arange(1000.0), N - 1)
        elif ME == N - 1:
            assert np.array_equal(comm.recv(np.empty(1000), 0), np.arange(1000.0))
    half = comm.split(ME % 2, -ME)
    members = [r for r in range(N) if r % 2 == ME % 2]
    assert half.size == len(members) and half.allreduce([ME])[0] == sum(members)
    half.close()
    none = comm.split(-1 if ME else 0)
    assert (none is None) == (ME > 0)
    if none is not None:
        none.close()


def test_requests_and_memory() -> None:
    x = comm.empty((10, 100))
    with comm.allreduce_init(x, "sum") as request:
        for step in range(3):
            x[:] = ME + step
            request.start()
            request.wait()
            assert (x == sum(r + step for r in range(N))).all()
    del x


def test_errors() -> None:
    case.raises(ValueError, lambda: comm.allreduce(np.zeros(1), "median"), "'median'", "sum, prod, min, max, avg")
    case.raises(ValueError, lambda: comm.allreduce(np.zeros(1), ["sum"]), "['sum']")  # type: ignore[arg-type]
    case.raises(ValueError, lambda: comm.reduce_scatter_v(np.zeros(N), [1] * N, "median"), "'median'")
    case.raises(ValueError, lambda: tutti.Communicator(rank=0))
    case.raises(ValueError, lambda: tutti.Communicator(rank=3, size=2, rendezvous="127.0.0.1:1"), "rank is 3", "0 to 1")
    case.raises(ValueError, lambda: tutti.Communicator(rank=-1, size=2, rendezvous="127.0.0.1:1"), "rank is -1")
    case.raises(ValueError, lambda: tutti.Communicator(timeout=-1), "timeout")
    x = np.zeros(1)
    for root in (-1, N):
        rooted = [lambda: comm.broadcast(x, root), lambda: comm.reduce(x, root=root), lambda: comm.gather(x, root)]
        for call in [*rooted, lambda: comm.scatter(np.zeros(N), x, root)]:
            case.raises(ValueError, call, f"root is {root}", f"0 to {N - 1}")
        for call in (lambda: comm.send(x, root), lambda: comm.recv(x, root)):
            case.raises(ValueError, call, f"peer is {root}")
    case.raises(TypeError, lambda: comm.broadcast(x, 0.5))  # type: ignore[arg-type]
    case.raises(ValueError, lambda: comm.split(2**32), "color")
    case.raises(ValueError, lambda: comm.all_gather_v(x, [-1] * N), "negative")
    case.raises(ValueError, lambda: comm.all_gather_v(x, [1] * (N + 1)), "counts")


def uses(request: tutti.Request) -> list:
    return [request.start, request.wait, request.test, lambda: request.source, lambda: request.algorithm]


def test_freed_request() -> None:
    request = comm.allreduce_init(np.zeros(1))
    request.free()
    request.free()
    for use in uses(request):
        case.raises(tutti.Error, use, "the request was freed")


def test_wrong_library() -> None:
    env = {**os.environ, "TUTTI_LIBRARY": "libc.so.6"}
    told = subprocess.run([sys.executable, "-c", "import tutti"], env=env, stderr=subprocess.PIPE, text=True)
    assert told.returncode and "ImportError: libc.so.6 is not the libtutti of this package" in told.stderr, told.stderr


def test_no_torch() -> None:
    assert "torch" not in sys.modules and tutti.version() == tutti.__version__


left_over = comm.allreduce_init(np.zeros(1))
case.run([t for name, t in list(globals().items()) if name.startswith("test_")], ME)
comm.close()
for call in [comm.barrier, *uses(left_over)]:
    case.raises(tutti.Error, call, "the communicator is closed")
left_over.free()
