"""Conjugate gradients with mpi4py and nothing else: every iteration makes two all-reduces of one double. Run by programs.sh; prints what it
found as hexadecimal floats, which must not change by a bit when our shim takes the calls (with two ranks a sum has one order only)."""

import sys
from array import array

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size


def total(value):
    out = array("d", [0.0])
    comm.Allreduce(array("d", [value]), out, MPI.SUM)
    return out[0]


def halo(x):
    """The neighbours' elements next to ours; outside the vector 0."""
    left, right = array("d", [0.0]), array("d", [0.0])
    before, after = rank - 1 if rank else MPI.PROC_NULL, rank + 1 if rank + 1 < size else MPI.PROC_NULL
    comm.Sendrecv(array("d", x[-1:]), after, 0, left, before, 0)
    comm.Sendrecv(array("d", x[:1]), before, 1, right, after, 1)
    return left[0], right[0]


def laplace(x):
    left, right = halo(x)
    wide = [left, *x, right]
    return [2 * wide[i] - wide[i - 1] - wide[i + 1] for i in range(1, len(x) + 1)]


def dot(x, y):
    return total(sum(a * b for a, b in zip(x, y)))


def solve(b, limit):
    x, r, p = [0.0] * len(b), list(b), list(b)
    rr = dot(r, r)
    for step in range(limit):
        q = laplace(p)
        alpha = rr / dot(p, q)
        x = [a + alpha * c for a, c in zip(x, p)]
        r = [a - alpha * c for a, c in zip(r, q)]
        last, rr = rr, dot(r, r)
        if rr < 1e-20:
            break
        p = [a + rr / last * c for a, c in zip(r, p)]
    return x, rr, step


def others(x):
    """The other calls, once in a while: everybody's first element, the largest one, and rank 0's whole part."""
    firsts, most = array("d", bytes(8 * size)), array("d", [0.0])
    part, mine = array("d", x), array("d", [max(x)])
    comm.Allgather(array("d", x[:1]), firsts)
    request = comm.Iallreduce(mine, most, MPI.MAX)
    comm.Bcast(part, 0)
    request.Wait()
    comm.Barrier()
    return [*firsts, most[0], part[-1]]


n = int(sys.argv[1]) // size
x, rr, steps = solve([1.0 + (rank * n + i) % 7 for i in range(n)], 4 * n * size)
found = [rr, total(sum(x))] + others(x) + comm.allreduce([rr], MPI.SUM)[:1]
if rank == 0:
    print("steps", steps, " ".join(value.hex() for value in found))
