"""Rank 1 leaves with an exception, in a `with` block or without one; the others must hear its text.

Usage: tutti run -n 3 -- python3 leave.py with|without. Survivors print "told" when they were."""

import os
import sys

import case

case.need_numpy()
import numpy as np  # noqa: E402

import tutti  # noqa: E402


def work(comm: tutti.Communicator) -> None:
    if comm.rank == 1:
        raise LookupError("no such\nsample: 17")
    case.raises(tutti.Error, lambda: comm.allreduce(np.ones(4)), "rank 1", "left with LookupError: no such sample: 17")
    os.write(1, f"rank {comm.rank} told\n".encode())  # whole, whatever the others print


if sys.argv[1] == "with":
    with tutti.Communicator() as c:
        work(c)
else:
    work(tutti.Communicator())
