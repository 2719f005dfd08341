"""Communicators and requests on raw memory: addresses, counts, names of data types. Arrays are
`tutti.Communicator`'s business."""

import ctypes
import operator
import os
import threading
from ctypes import byref, c_void_p
from typing import Any, List, Optional, Sequence, Tuple

from . import _exit, _lib
from ._lib import BLOCKS, COLLECTIVES, DTYPE_BYTES, DTYPES, REDOPS, lib

_environment = threading.Lock()


def check_op(op: Any) -> str:
    """The name of a reduction."""
    if not isinstance(op, str) or op not in REDOPS:
        raise ValueError(f"op is {op!r}: one of {', '.join(REDOPS)}")
    return op


def check_rank(value: Any, size: int, what: str) -> int:
    """A rank: root or peer."""
    rank = operator.index(value)
    if not 0 <= rank < size:
        raise ValueError(f"{what} is {rank}: the ranks are 0 to {size - 1}")
    return rank


def _check_int(value: Any, what: str) -> int:
    """A number that fits C's int: ctypes would cut off the rest silently."""
    number = operator.index(value)
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"{what} is {number}: -2^31 to 2^31 - 1")
    return number


def _text(value: Optional[str]) -> Optional[bytes]:
    return None if value is None else os.fsencode(value)


class _LauncherVariables:
    """A program that names rank and size is not refused because a launcher has set half of its
    variables (torch.multiprocessing sets WORLD_SIZE without RANK): ours are set while the
    communicator opens."""

    def __init__(self, rank: int, size: int, rendezvous: Optional[str]) -> None:
        self._set = {"TUTTI_RANK": str(rank), "TUTTI_SIZE": str(size), "TUTTI_RENDEZVOUS": rendezvous or "127.0.0.1:1"}
        self._half = "TUTTI_RANK" not in os.environ and ("RANK" in os.environ) != ("WORLD_SIZE" in os.environ)

    def __enter__(self) -> None:
        if self._half:
            _environment.acquire()
            os.environ.update(self._set)

    def __exit__(self, *_: object) -> None:
        if self._half:
            for name in self._set:
                os.environ.pop(name, None)
            _environment.release()


class Request:
    """One collective on fixed buffers, started any number of times. All ranks start a
    communicator's requests in the same order. Between `start` and completion the buffers belong to
    the library; `keep` holds their owners alive."""

    def __init__(self, comm: "RawCommunicator", handle: int, keep: Any = None, name: str = "barrier", nbytes: int = 0) -> None:
        self._comm = comm
        self.name, self.nbytes = name, nbytes  # of the whole vector
        self._handle: Optional[int] = handle
        self._started = False
        self._keep = keep

    def _live(self) -> int:
        self._comm._open()
        if self._handle is None:
            raise _lib.Error(-1, "the request was freed")
        return self._handle

    def start(self) -> "Request":
        """Starts it; never blocks."""
        _lib.check(self._comm.handle, lib.tutti_request_start(self._live()))
        self._started = True
        return self

    def poll(self) -> int:
        """Status without waiting: 0 done, 1 in progress, negative failed."""
        status = lib.tutti_request_test(self._handle)
        self._started = self._started and status == _lib.IN_PROGRESS
        return status

    def finish(self) -> int:
        """Status after waiting until the communicator's deadline."""
        status = lib.tutti_request_wait(self._handle)
        self._started = False
        return status

    def join(self) -> int:
        """The same for a thread that does nothing else: other threads may use the communicator
        meanwhile."""
        status = lib.tutti_request_join(self._handle)
        self._started = False
        return status

    def test(self) -> bool:
        """Is it done? Raises when it failed."""
        self._live()
        status = self.poll()
        if status < 0:
            raise _lib.last_error(self._comm.handle, status)
        return status == _lib.OK

    def wait(self) -> None:
        """Returns when it is done; raises when it failed or the deadline passed."""
        self._live()
        _lib.check(self._comm.handle, self.finish())

    @property
    def source(self) -> Tuple[int, int]:
        """Of a message that has been received: the rank it came from, and its tag."""
        return _lib.request_source(self._live())

    @property
    def algorithm(self) -> str:
        """What the planner chose."""
        return (lib.tutti_request_algo(self._live()) or b"").decode()

    def free(self) -> None:
        """Gives the request back; one that is under way is waited for, but a receive that nothing
        has come for is taken back."""
        if self._handle is None or self._comm.handle is None:
            return
        lib.tutti_request_free(self._handle)
        self._started = False
        self._handle = self._keep = None

    def __enter__(self) -> "Request":
        return self

    def __exit__(self, *_: object) -> None:
        self.free()


class RawCommunicator:
    """A group of live ranks. Opening and closing are collective; every failure raises
    `tutti.Error`, which names rank and reason. In a forked child it is the parent's: calls raise,
    closing does nothing.

    Without arguments rank, size and meeting place come from the launcher's variables (`tutti run`,
    torchrun, mpirun, srun).
    """

    _gone = "is closed"

    def __init__(
        self,
        *,
        rank: Optional[int] = None,
        size: Optional[int] = None,
        rendezvous: Optional[str] = None,
        local_rank: int = -1,
        key_file: Optional[str] = None,
        insecure: bool = False,
        iface: Optional[str] = None,
        transport: Optional[str] = None,
        topo: Optional[str] = None,
        algo: Optional[str] = None,
        reproducible: bool = False,
        timeout: Optional[float] = None,
        plan: Optional[str] = None,
        tuning: Optional[str] = None,
        encrypt: bool = False,
        checksum: Optional[bool] = None,
        join: Optional[str] = None,
    ) -> None:
        self._handle: Optional[int] = None
        if (rank is None) != (size is None):
            raise ValueError("rank and size are given together or not at all")
        if rank is not None and size is not None:
            check_rank(rank, operator.index(size), "rank")
        if timeout is not None and not 0 <= timeout < 1e12:
            raise ValueError(f"timeout is {timeout}: 0 to 10^12 seconds")
        o = _lib.CommOptions(size=ctypes.sizeof(_lib.CommOptions), local_rank=local_rank, insecure=insecure, reproducible=reproducible)
        o.key_file, o.iface, o.transport = _text(key_file), _text(iface), _text(transport)
        o.topo, o.algo, o.timeout_us = _text(topo), _text(algo), int((timeout or 0) * 1e6)
        o.plan, o.tuning, o.encrypt = _text(plan), _text(tuning), encrypt
        o.join = _text(join)
        o.checksum = 0 if checksum is None else 1 if checksum else -1
        if rank is None or size is None:
            self._handle = _lib.open_comm(o)
            _exit.note(self)
            return
        o.given, o.rank, o.ranks, o.rendezvous = True, rank, size, _text(rendezvous)
        with _LauncherVariables(rank, size, rendezvous):
            self._handle = _lib.open_comm(o)
        _exit.note(self)

    @classmethod
    def _adopt(cls, handle: int) -> "RawCommunicator":
        new = cls.__new__(cls)
        new._handle = handle
        _exit.note(new)
        return new

    @property
    def handle(self) -> Optional[int]:
        """The C object, None when closed."""
        return self._handle

    def _open(self) -> int:
        if self._handle is None:
            raise _lib.Error(-1, f"the communicator {self._gone}")
        return self._handle

    def _left(self, why: str) -> None:
        if self._handle is not None:
            self.abort(why)

    def _disown(self) -> None:
        self._handle, self._gone = None, _exit.FORKED

    @property
    def rank(self) -> int:
        """This process's number in the group."""
        return lib.tutti_comm_rank(self._open())

    @property
    def size(self) -> int:
        """How many ranks the group has."""
        return lib.tutti_comm_size(self._open())

    def split(self, color: int, key: int = 0) -> Optional[Any]:
        """Collective: ranks with the same color form a new communicator, ordered by (key, rank);
        None where color < 0."""
        handle = _lib.split_comm(self._open(), _check_int(color, "color"), _check_int(key, "key"))
        return None if handle is None else type(self)._adopt(handle)

    def shrink(self) -> Any:
        """After a tutti.Error: those that still live agree on who they are and get a new
        communicator, smaller than this one, which must be closed. Every rank that wants to go on
        calls it."""
        return type(self)._adopt(_lib.shrink_comm(self._open()))

    def admit(self) -> Any:
        """Collective: lets in newcomers, processes that opened with `join` or TUTTI_JOIN. Returns
        this communicator if nobody waits; else a new one, with the newcomers as its last ranks, and
        this one must be closed. If a rank has failed it does what shrink does."""
        handle = self._open()
        new = _lib.admit_comm(handle)
        return self if new == handle else type(self)._adopt(new)

    @property
    def changes(self) -> int:
        """How many times the members of the job had changed when this communicator was opened."""
        return int(lib.tutti_comm_changes(self._open()))

    def abort(self, reason: str) -> None:
        """Makes every present and future call fail on all ranks with `reason`. Never blocks."""
        lib.tutti_comm_abort(self._open(), reason.encode(errors="replace"))

    def report(self) -> str:
        """Collective: who is slow, in words."""
        return _lib.report(self._open())

    def close(self) -> None:
        """Collective; waits for the others at most until the deadline."""
        handle, self._handle = self._handle, None
        if handle is not None:
            lib.tutti_mem_keep(handle)  # arrays live on
            lib.tutti_comm_close(handle)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: object, error: Any, *_: object) -> None:
        if kind is not None and self._handle is not None:
            self.abort(f"left with {_exit.describe(error)}")
        self.close()

    # ---- raw calls: addresses ----

    def _arguments(self, name: str, count: int, dtype: str, op: str, root: int) -> List[int]:
        found, wanted = [count, DTYPES[dtype]], COLLECTIVES[name]
        if "op" in wanted:
            found.append(REDOPS[check_op(op)])
        if "root" in wanted:
            found.append(check_rank(root, self.size, "root"))
        return found

    def call(self, name: str, src: int, dst: int, count: int, dtype: str, op: str = "sum", root: int = 0) -> None:
        """A blocking collective on memory: `count` as in <tutti/tutti.h>."""
        comm = self._open()
        f = getattr(lib, "tutti_" + name)
        _lib.check(comm, f(comm, src, dst, *self._arguments(name, count, dtype, op, root)))

    def request(
        self, name: str, src: int, dst: int, count: int, dtype: str, op: str = "sum", root: int = 0, keep: Any = None
    ) -> Request:
        """The same as a persistent request, not started."""
        comm, ret = self._open(), c_void_p()
        f = getattr(lib, "tutti_" + name + "_init")
        _lib.check(comm, f(comm, src, dst, *self._arguments(name, count, dtype, op, root), byref(ret)))
        blocks = self.size if name in BLOCKS else 1
        return Request(self, ret.value, keep, name, count * DTYPE_BYTES[dtype] * blocks)  # type: ignore[arg-type]

    def message(self, name: str, data: int, count: int, dtype: str, peer: Optional[int], tag: Optional[int], keep: Any) -> Request:
        """"send" or "recv" as a request, not started. A receive: None as peer or tag is any."""
        comm, ret = self._open(), c_void_p()
        rank = _lib.ANY if peer is None else check_rank(peer, self.size, "peer")
        word = _lib.ANY if tag is None else operator.index(tag)
        if not 0 <= word <= _lib.ANY:
            raise ValueError(f"tag is {word}: 0 to {_lib.ANY - 1}")
        _lib.check(comm, getattr(lib, f"tutti_{name}_init")(comm, data, count, DTYPES[dtype], rank, word, byref(ret)))
        return Request(self, ret.value, keep, name, count * DTYPE_BYTES[dtype])  # type: ignore[arg-type]

    def barrier_request(self) -> Request:
        """A barrier as a persistent request."""
        comm, ret = self._open(), c_void_p()
        _lib.check(comm, lib.tutti_barrier_init(comm, byref(ret)))
        return Request(self, ret.value)  # type: ignore[arg-type]

    def barrier(self) -> None:
        """Returns when all ranks have called it."""
        comm = self._open()
        _lib.check(comm, lib.tutti_barrier(comm))

    def call_v(self, name: str, src: int, dst: int, counts: Sequence[int], dtype: str, op: str = "sum") -> None:
        """`reduce_scatter` or `all_gather` with blocks of any length: counts[r] elements for rank
        r, equal on all ranks."""
        comm = self._open()
        array = (ctypes.c_size_t * len(counts))(*counts)
        more = [REDOPS[check_op(op)]] if name == "reduce_scatter" else []
        _lib.check(comm, getattr(lib, f"tutti_{name}_v")(comm, src, dst, array, DTYPES[dtype], *more))
