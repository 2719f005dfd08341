"""`Communicator`: collectives on NumPy arrays (and what NumPy can view: buffers, CPU tensors).

Any strides, byte order and alignment, 0-d arrays, read-only inputs, every number type, bool, and
for what only moves data records and strings too (_views.py). What the library does not reduce
itself is gathered and reduced by each rank, in rank order.
"""

import ctypes
import math
import operator
import os
import sys
import weakref
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from . import _lib
from ._comm import RawCommunicator, Request, check_op, check_rank
from ._lib import DTYPES, lib
from ._views import Array, Target, apart, at, fixed, fold, movable, place, reducible, source, target, unit


class Communicator(RawCommunicator):
    """A group of live ranks and their collectives on NumPy arrays. Every call is blocking and
    collective; each returns its result. A result that is not `out` is a new array in native byte
    order.

        with tutti.Communicator() as comm:           # under `tutti run`, torchrun, mpirun, srun
            total = comm.allreduce(np.ones(10, "f4"))
    """

    def allreduce(self, x: Any, op: str = "sum", out: Optional[Array] = None) -> Array:
        """All ranks get the reduction of all ranks' x: sum, prod, min, max or avg. `out` may be x.
        """
        a = source(x)
        t = target(out, a.shape, a.dtype)
        known = self._reducible(a, op)
        if known is None:
            t.block[...] = fold(self._gathered(a), op).reshape(t.block.shape)
            return t.done()
        a = apart(a, t.block)
        self.call("allreduce", at(a), at(t.block), a.size * known[0], known[1], op=op)
        return t.done()

    def reduce_scatter(self, x: Any, op: str = "sum", out: Optional[Array] = None) -> Array:
        """x has one block per rank along its first axis (its length is a multiple of size); rank r
        gets the reduction of block r."""
        a = source(x)
        n = self._blocks(a)
        t = target(out, (n,) + a.shape[1:], a.dtype)
        known = self._reducible(a, op)
        if known is None:
            parts = self.all_to_all(a.reshape((self.size, -1)))
            t.block[...] = fold(parts, op).reshape(t.block.shape)
            return t.done()
        a = apart(a, t.block)
        self.call("reduce_scatter", at(a), at(t.block), t.block.size * known[0], known[1], op=op)
        return t.done()

    def all_gather(self, x: Any, out: Optional[Array] = None) -> Array:
        """All ranks get all ranks' x, along a new first axis."""
        a = source(x)
        t = target(out, (self.size,) + a.shape, a.dtype)
        a = apart(a, t.block)
        self.call("all_gather", at(a), at(t.block), *movable(a))
        return t.done()

    def broadcast(self, x: Any, root: int = 0) -> Array:
        """x of the root, in all ranks' x, in place."""
        root = check_rank(root, self.size, "root")
        readable = self.rank == root and isinstance(x, np.ndarray)  # the root only reads
        t = Target(source(x) if readable else place(x, "x"))
        self.call("broadcast", at(t.block), at(t.block), *movable(t.block), root=root)
        return x if readable else t.done()

    def reduce(self, x: Any, op: str = "sum", root: int = 0, out: Optional[Array] = None) -> Optional[Array]:
        """The root gets the reduction of all ranks' x, the others None."""
        a, root = source(x), check_rank(root, self.size, "root")
        t = target(out, a.shape, a.dtype) if self.rank == root else None
        known = self._reducible(a, op)
        if known is None:
            parts = self.gather(a, root)
            if t is not None and parts is not None:
                t.block[...] = fold(parts, op).reshape(t.block.shape)
            return t.done() if t is not None else None
        a = apart(a, t.block) if t is not None else a
        there = at(t.block) if t is not None else 0
        self.call("reduce", at(a), there, a.size * known[0], known[1], op=op, root=root)
        return t.done() if t is not None else None

    def gather(self, x: Any, root: int = 0, out: Optional[Array] = None) -> Optional[Array]:
        """The root gets all ranks' x along a new first axis, the others None."""
        a, root = source(x), check_rank(root, self.size, "root")
        t = target(out, (self.size,) + a.shape, a.dtype) if self.rank == root else None
        a = apart(a, t.block) if t is not None else a
        self.call("gather", at(a), at(t.block) if t is not None else 0, *movable(a), root=root)
        return t.done() if t is not None else None

    def scatter(self, x: Any, out: Array, root: int = 0) -> Array:
        """Rank r gets block r of the root's x in `out`; x matters at the root only."""
        t, root = Target(place(out, "out")), check_rank(root, self.size, "root")
        a = source(x) if self.rank == root else None
        if a is not None:
            if a.dtype != t.block.dtype or a.size != t.block.size * self.size:
                raise ValueError(f"x is {a.shape} of {a.dtype}: {self.size} blocks like out are needed")
            a = apart(a, t.block)
        self.call("scatter", 0 if a is None else at(a), at(t.block), *movable(t.block), root=root)
        return t.done()

    def all_to_all(self, x: Any, out: Optional[Array] = None) -> Array:
        """x has one block per rank along its first axis; block r goes to rank r, which keeps the
        blocks in rank order."""
        a = source(x)
        self._blocks(a)
        t = target(out, a.shape, a.dtype)
        a = apart(a, t.block)
        count, dtype = movable(a)
        self.call("all_to_all", at(a), at(t.block), count // self.size, dtype)
        return t.done()

    def all_gather_v(self, x: Any, counts: Sequence[int], out: Optional[Array] = None) -> Array:
        """Blocks of any length: rank r gives counts[r] elements (the same list on all ranks)."""
        a = source(x)
        lengths = self._check_counts(counts, a.size)
        t = target(out, (sum(lengths),), a.dtype)
        a, (n, name) = apart(a, t.block), unit(a.dtype)
        self.call_v("all_gather", at(a), at(t.block), [c * n for c in lengths], name)
        return t.done()

    def reduce_scatter_v(
        self, x: Any, counts: Sequence[int], op: str = "sum", out: Optional[Array] = None
    ) -> Array:
        """Rank r gets the reduction of its counts[r] elements of x (the same list on all ranks)."""
        a = source(x)
        lengths = self._check_counts(counts, None)
        if a.size != sum(lengths):
            raise ValueError(f"x has {a.size} elements, counts say {sum(lengths)}")
        t = target(out, (lengths[self.rank],), a.dtype)
        known = self._reducible(a, op)
        if known is None:
            first = sum(lengths[: self.rank])
            mine = self._gathered(a)[:, first : first + lengths[self.rank]]
            t.block[...] = fold(mine, op).reshape(t.block.shape)
            return t.done()
        a, (n, name) = apart(a, t.block), known
        self.call_v("reduce_scatter", at(a), at(t.block), [c * n for c in lengths], name, op)
        return t.done()

    def send(self, x: Any, peer: int) -> None:
        """To `peer`, which receives as many elements of the same type; in order between two ranks.
        """
        a, peer = source(x), check_rank(peer, self.size, "peer")
        count, dtype = movable(a)
        comm = self._open()
        _lib.check(comm, lib.tutti_send(comm, at(a), count, DTYPES[dtype], peer))

    def recv(self, out: Array, peer: int) -> Array:
        """From `peer`, in `out`."""
        t, peer = Target(place(out, "out")), check_rank(peer, self.size, "peer")
        count, dtype = movable(t.block)
        comm = self._open()
        _lib.check(comm, lib.tutti_recv(comm, at(t.block), count, DTYPES[dtype], peer))
        return t.done()

    def isend(self, x: Any, peer: int, tag: int = 0) -> Request:
        """The same without waiting: a started request. x must stay as it is until the request is
        done."""
        a = source(x)
        count, dtype = movable(a)
        return self.message("send", at(a), count, dtype, peer, tag, a).start()

    def irecv(self, out: Array, peer: Optional[int] = None, tag: Optional[int] = 0) -> Request:
        """A started request that receives in `out`; None: from any rank, with any tag. `source` of
        the request says where it came from. A request that nothing has come for can be freed."""
        a = fixed(out, "out")
        count, dtype = movable(a)
        return self.message("recv", at(a), count, dtype, peer, tag, a).start()

    def allreduce_init(self, x: Array, op: str = "sum", out: Optional[Array] = None) -> Request:
        """A persistent all-reduce of x (in place, or to `out`): start it as often as you like; it
        progresses while you compute. Both must be contiguous and in native byte order."""
        a = fixed(x, "x")
        b = a if out is None else fixed(out, "out")
        if b.dtype != a.dtype or b.size != a.size:
            raise ValueError(f"out is {b.shape} of {b.dtype}: {a.shape} of {a.dtype} is needed")
        if apart(a, b) is not a:
            raise ValueError("x and out overlap: they must be the same array, or apart")
        known = reducible(a.dtype, check_op(op))
        if known is None:
            raise TypeError(f"no persistent {op} of {a.dtype.name}: allreduce() has it")
        return self.request("allreduce", at(a), at(b), a.size * known[0], known[1], op=op, keep=(a, b))

    def empty(self, shape: Any, dtype: Any = "f4") -> Array:
        """An array in memory that the other ranks of this host reach directly: the fastest buffers.
        It may outlive the communicator."""
        kind = np.dtype(dtype)
        if kind.hasobject:
            raise TypeError(f"{kind} holds Python objects, which cannot be in shared memory")
        lengths = [operator.index(n) for n in (shape if np.iterable(shape) else (shape,))]
        nbytes = max(1, math.prod(lengths) * kind.itemsize)
        if any(n < 0 for n in lengths):
            raise ValueError(f"a shape of {tuple(lengths)}: lengths are not negative")
        if nbytes > sys.maxsize:
            raise ValueError(f"a shape of {tuple(lengths)}: no memory has {nbytes} bytes")
        address = _lib.alloc(self._open(), nbytes)
        memory = (ctypes.c_char * nbytes).from_address(address)
        weakref.finalize(memory, self._give_back, self, address, os.getpid()).atexit = False
        return np.ndarray(lengths, kind, memory)  # type: ignore[arg-type]

    @staticmethod
    def _give_back(comm: "Communicator", address: int, pid: int) -> None:
        if os.getpid() == pid:  # a forked child's memory is its own
            lib.tutti_mem_free(comm.handle, address)

    def _reducible(self, a: Array, op: str) -> Optional[Tuple[int, str]]:
        """reducible(); where the library will only move bytes, whether all ranks mean the same by
        them is compared first."""
        known = reducible(a.dtype, op)
        mine = f"{op} of {a.dtype}".encode()
        everybody: Any = self.all_gather(np.array(mine, "S64")) if known is None else ()
        for r, other in enumerate(everybody):
            if other != mine:
                raise ValueError(f"calls are mismatched: rank {r} called {other.decode()} while rank {self.rank} called {mine.decode()}")
        return known

    def _gathered(self, a: Array) -> Array:
        """Everybody's a, flat, along the first axis."""
        return self.all_gather(a.reshape(-1))

    def _blocks(self, a: Array) -> int:
        if a.ndim == 0 or a.shape[0] % self.size:
            raise ValueError(f"the first axis of {a.shape} does not divide into {self.size} blocks")
        return a.shape[0] // self.size

    def _check_counts(self, counts: Sequence[int], mine: Optional[int]) -> List[int]:
        lengths = [operator.index(c) for c in counts]
        if len(lengths) != self.size:
            raise ValueError(f"{len(lengths)} counts for {self.size} ranks")
        if any(c < 0 for c in lengths):
            raise ValueError(f"counts are {lengths}: lengths are not negative")
        if mine is not None and lengths[self.rank] != mine:
            raise ValueError(f"rank {self.rank} gives {mine} elements, counts say {lengths[self.rank]}")
        return lengths
