"""Whatever a NumPy array looks like: every collective gives the right result, or says what to write instead.

The arrays of each case are the same numbers as a plain array's; the plain array's result is the expected one."""

import case

case.need_numpy()
import numpy as np  # noqa: E402

import tutti  # noqa: E402

comm = tutti.Communicator()
ME, N = comm.rank, comm.size
COUNT = 4 * N


def numbers(rank: int, dtype: str, count: int = COUNT) -> np.ndarray:
    return ((np.arange(count) * 5 + rank * 3) % 7 + 1).astype(dtype)


def strange(plain: np.ndarray) -> dict:
    """The same elements, otherwise in memory."""
    wide = np.zeros((len(plain), 3), plain.dtype)
    wide[:, 1] = plain
    raw = np.zeros(plain.nbytes + 1, "u1")
    odd = raw[1:].view(plain.dtype)
    odd[:] = plain
    return {
        "strided": wide[:, 1],
        "reversed": plain[::-1].copy()[::-1],
        "big-endian": plain.astype(plain.dtype.newbyteorder(">")),
        "strided and big-endian": wide.astype(wide.dtype.newbyteorder(">"))[:, 1],
        "unaligned": odd,
    }


def calls(dtype: str) -> dict:
    """Name to (function of an array that returns the result, function of all ranks' plain arrays)."""
    blocks = lambda every: every.reshape(N, N, -1)[:, ME]  # noqa: E731
    return {
        "allreduce": (lambda x: comm.allreduce(x), lambda every: every.sum(axis=0, dtype=dtype)),
        "min": (lambda x: comm.allreduce(x, "min"), lambda every: every.min(axis=0)),
        "reduce_scatter": (lambda x: comm.reduce_scatter(x), lambda every: blocks(every).sum(axis=0, dtype=dtype)),
        "all_gather": (lambda x: comm.all_gather(x), lambda every: every),
        "all_to_all": (lambda x: comm.all_to_all(x), lambda every: blocks(every).reshape(-1)),
        "broadcast": (lambda x: comm.broadcast(x, N - 1), lambda every: every[N - 1]),
        "reduce": (lambda x: comm.reduce(x, "prod", 0), lambda every: every.prod(axis=0, dtype=dtype) if ME == 0 else None),
        "gather": (lambda x: comm.gather(x, N - 1), lambda every: every if ME == N - 1 else None),
        "all_gather_v": (lambda x: comm.all_gather_v(x, [COUNT] * N), lambda every: every.reshape(-1)),
        "reduce_scatter_v": (lambda x: comm.reduce_scatter_v(x, [4] * N), lambda every: blocks(every).sum(axis=0, dtype=dtype)),
    }


def check(name: str, how: str, got, want) -> None:
    assert (got is None) == (want is None), (name, how)
    if want is not None:
        assert got.dtype.newbyteorder("=") == want.dtype.newbyteorder("="), (name, how, got.dtype, want.dtype)
        assert np.array_equal(got, want), (name, how, got, want)


def test_layouts() -> None:
    for dtype in ("f4", "f8", "i4", "i2"):
        every = np.stack([numbers(r, dtype) for r in range(N)])
        for how in strange(numbers(ME, dtype)):
            for name, (call, expected) in calls(dtype).items():
                check(name, f"{how} {dtype}", call(strange(numbers(ME, dtype))[how]), expected(every))


def test_outputs() -> None:
    """A result lands in any writeable array, and what is between its elements stays."""
    want = np.stack([numbers(r, "f4") for r in range(N)]).sum(axis=0)
    for how, out in strange(np.zeros(COUNT, "f4")).items():
        assert comm.allreduce(numbers(ME, "f4"), out=out) is out
        assert np.array_equal(out, want), how
    wide = np.full((COUNT, 2), -1, ">f8")
    comm.scatter(np.arange(N * COUNT, dtype="f8"), wide[:, 1], 0)
    assert np.array_equal(wide[:, 1], np.arange(COUNT) + ME * COUNT) and (wide[:, 0] == -1).all()
    grid = np.asfortranarray(numbers(ME, "f8").reshape(4, N))
    total = np.stack([numbers(r, "f8").reshape(4, N) for r in range(N)]).sum(axis=0)
    assert np.array_equal(comm.allreduce(grid, out=grid), total) and grid.flags.f_contiguous
    if N > 1 and ME == 0:
        comm.send(strange(numbers(0, "i8"))["strided and big-endian"], N - 1)
    elif N > 1 and ME == N - 1:
        out = strange(np.zeros(COUNT, "i8"))["strided"]
        assert comm.recv(out, 0) is out and np.array_equal(out, numbers(0, "i8"))


def test_types() -> None:
    """Every type of number, and bool."""
    kinds = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "g", "c8", "c16", "G"]
    for dtype in kinds:
        every = np.stack([numbers(r, dtype, 2 * N) for r in range(N)])
        if every.dtype.kind == "c":
            every += 1j * np.arange(N)[:, None].astype(every.dtype)
        else:
            every = every % 3 + 1
        mine = every[ME].copy()
        for op, f in (("sum", np.add), ("prod", np.multiply)):
            want = f.reduce(every, axis=0, dtype=every.dtype)
            for got in (comm.allreduce(mine, op), comm.reduce(mine, op, ME and 0)):
                check(op, dtype, got, None if got is None and ME else want)
            blocks = f.reduce(every.reshape(N, N, 2)[:, ME], axis=0, dtype=every.dtype)
            check(op, dtype, comm.reduce_scatter(mine, op), blocks)
            check(op, dtype, comm.reduce_scatter_v(mine, [2] * N, op), blocks)
        if every.dtype.kind == "c":
            case.raises(TypeError, lambda: comm.allreduce(mine, "max"), "complex", "a.real")
            assert np.allclose(comm.allreduce(mine, "avg"), every.mean(axis=0))
        else:
            check("min", dtype, comm.allreduce(mine, "min"), every.min(axis=0))
            check("max", dtype, comm.allreduce(mine, "max"), every.max(axis=0))
        if every.dtype.kind == "f":
            assert np.allclose(comm.allreduce(mine, "avg").astype("f8"), every.mean(axis=0).astype("f8"), rtol=1e-2)
    large = np.array([2**64 - 1 - ME, 2**63], "u8")
    assert comm.allreduce(large, "max")[0] == 2**64 - 1 and comm.allreduce(large, "min")[0] == 2**64 - N
    assert comm.allreduce(np.array([60000], "u2"), "avg")[0] == 60000  # no sum that wraps
    assert comm.allreduce(np.array([-30000], "i2"), "avg")[0] == -30000


def test_bool() -> None:
    every = np.array([[True, r == 0, False] for r in range(N)])
    assert comm.allreduce(every[ME], "sum").tolist() == [True, True, False]
    assert comm.allreduce(every[ME], "max").tolist() == [True, True, False]
    assert comm.allreduce(every[ME], "min").tolist() == [True, N == 1, False]
    assert comm.allreduce(every[ME], "prod").tolist() == [True, N == 1, False]
    assert comm.allreduce(every[ME]).dtype == bool
    case.raises(TypeError, lambda: comm.allreduce(every[ME], "avg"), "astype")


def test_scalars() -> None:
    """0-d arrays and numbers."""
    assert comm.allreduce(ME + 1.5).shape == () and comm.allreduce(ME + 1.5) == sum(r + 1.5 for r in range(N))
    x = np.array(ME)
    assert comm.broadcast(x, N - 1) is x and x == N - 1
    assert comm.all_gather(np.array(ME)).tolist() == list(range(N))
    assert comm.allreduce(np.empty((0, 3))).shape == (0, 3)
    case.raises(ValueError, lambda: comm.reduce_scatter(np.array(1.0)), "blocks")


def test_written_places() -> None:
    """What cannot be written into is refused, not written to a copy; the root of a broadcast only reads."""
    fixed = numbers(ME, "f4")
    fixed.flags.writeable = False
    assert np.array_equal(comm.allreduce(fixed), np.stack([numbers(r, "f4") for r in range(N)]).sum(axis=0))
    case.raises(ValueError, lambda: comm.allreduce(fixed, out=fixed), "read-only", "copy()")
    case.raises(ValueError, lambda: comm.recv(fixed, 0), "read-only")
    got = comm.broadcast(fixed if ME == 0 else np.empty(COUNT, "f4"), 0)
    assert np.array_equal(got, numbers(0, "f4"))
    case.raises(TypeError, lambda: comm.scatter(None, [0.0], 0), "list", "np.array")
    case.raises(TypeError, lambda: comm.allreduce(1.0, out=2.0), "float")  # type: ignore[arg-type]
    box = bytearray(8)
    comm.broadcast(memoryview(box) if ME else np.full(8, 7, "u1"), 0)
    assert ME == 0 or box == bytes([7] * 8)


def test_outputs_of_other_shapes() -> None:
    """Results fill them in order, whoever reduces: the library, or NumPy."""
    for dtype in ("f4", "g"):
        x, want = numbers(ME, dtype).reshape(4, N), np.stack([numbers(r, dtype) for r in range(N)]).sum(axis=0).reshape(N, 4)
        check("allreduce", dtype, comm.allreduce(x, out=np.zeros((N, 4), dtype)), want)
        check("reduce", dtype, comm.reduce(x, out=np.zeros((N, 4), dtype)), None if ME else want)
    one_place = np.lib.stride_tricks.as_strided(np.zeros(1), (COUNT,), (0,))
    case.raises(ValueError, lambda: comm.allreduce(numbers(ME, "f8"), out=one_place), "one place", "copy()")
    assert comm.broadcast(np.zeros(3, "V0")).shape == (3,)


def test_ranks_that_mean_something_else() -> None:
    """Where the library only moves bytes and NumPy reduces: operation and type are compared."""
    if N == 1:
        return
    flags, mine = np.array([True, False]), ("sum", "prod")[ME % 2]
    calls = [comm.allreduce, comm.reduce, lambda x, op: comm.reduce_scatter(np.tile(x, N), op), lambda x, op: comm.reduce_scatter_v(np.tile(x, N), [2] * N, op)]
    for call in calls:
        case.raises(ValueError, lambda call=call: call(flags, mine), "sum of bool", "prod of bool")
        case.raises(ValueError, lambda call=call: call(np.ones(2, ("g", "c16")[ME % 2]), "prod"), "float128", "complex128")
    assert comm.allreduce(flags).tolist() == [True, False]


def test_what_would_be_lost() -> None:
    """Masks, objects, and reductions without a meaning."""
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    for call in (comm.allreduce, comm.broadcast, comm.all_gather, lambda x: comm.send(x, 0), lambda x: comm.recv(x, 0)):
        case.raises(TypeError, lambda call=call: call(masked), "masked", "filled")
        case.raises(TypeError, lambda call=call: call(np.array([None, 1])), "objects")
    case.raises(TypeError, lambda: comm.empty(3, object), "objects")
    records = np.array([(ME, 0.5)], [("n", ">i4"), ("x", "f8")])
    case.raises(TypeError, lambda: comm.allreduce(records), "fields")
    got = comm.all_gather(records)
    assert got["n"].ravel().tolist() == list(range(N)) and (got["x"] == 0.5).all()
    case.raises(TypeError, lambda: comm.allreduce(np.array(["a"])), "numbers and bool")
    assert comm.all_gather(np.array(["a", "bc"]))[-1].tolist() == ["a", "bc"]
    day = np.array(["2026-11-17"], "M8[D]")
    case.raises(TypeError, lambda: comm.allreduce(day), "view('i8')")
    assert (comm.all_gather(day) == day[0]).all()


def test_requests_need_fixed_memory() -> None:
    for how, x in strange(np.zeros(COUNT, "f4")).items():
        case.raises(ValueError, lambda x=x: comm.allreduce_init(x), "np.empty")
    x = np.zeros(10, "f4")
    case.raises(ValueError, lambda: comm.allreduce_init(x[1:], out=x[:-1]), "overlap")
    case.raises(ValueError, lambda: comm.allreduce_init(x, "median"), "median")
    case.raises(TypeError, lambda: comm.allreduce_init(np.zeros(3, "g")), "allreduce()")


def test_empty() -> None:
    assert comm.empty(0).shape == (0,) and comm.empty((2, 0), "f8").shape == (2, 0)
    x = comm.empty((2, 3), ">i4")
    x[...] = ME + 1
    assert (comm.allreduce(x) == N * (N + 1) // 2).all()
    case.raises(ValueError, lambda: comm.empty(-1), "negative")
    for shape in (2**62, (2**32, 2**32 + 1), (2**40, 2**40)):
        case.raises(ValueError, lambda shape=shape: comm.empty(shape), "bytes")


def test_arrays_outlive_their_communicator() -> None:
    with comm.split(0) as other:
        x, y, dropped = other.empty(1000), other.empty((2, 3), "i8"), other.empty(5)
        x[:], y[:] = ME + 1, 7
        other.allreduce(x, out=x)
        del dropped
    part = x[500:]
    del x
    assert (part == N * (N + 1) / 2).all() and (y == 7).all()
    part += 1


case.run([t for name, t in list(globals().items()) if name.startswith("test_")], ME)
comm.close()
