"""Rank 1 leaves with an exception, in a `with` block or without one; the others must hear its text.

Usage: tutti run -n 3 -- python3 leave.py with|without|early. Survivors print "told" when they were."""

import atexit
import os
import sys
import time

import case

case.need_numpy()
import numpy as np  # noqa: E402

import tutti  # noqa: E402


LONG = "of " + "shard " * 40 + "end"


def work(comm: tutti.Communicator) -> None:
    if comm.rank == 1:
        atexit.register(time.sleep, 0.5)  # it ends after those that hear of it; tutti run names it all the same
        raise LookupError("no such\nsample: 17 " + LONG)
    told = "left with LookupError: no such sample: 17 " + LONG  # whole, although it is long
    case.raises(tutti.Error, lambda: comm.allreduce(np.ones(4)), "rank 1", told)
    os.write(1, f"rank {comm.rank} told\n".encode())  # whole, whatever the others print


if sys.argv[1] == "early":  # without an exception
    c = tutti.Communicator()
    if c.rank == 1:
        c.close()
        sys.exit(0)
    c.allreduce(np.ones(4))
elif sys.argv[1] == "with":
    with tutti.Communicator() as c:
        work(c)
else:
    work(tutti.Communicator())
