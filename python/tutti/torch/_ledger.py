"""Ledger: the operations of one group that are under way, and the end of the group.

DDP keeps C++ references to works, under which the Python half would die and its wait() with it: an
operation stays here until somebody has waited for it (or asked for its future) and it is done.
Works refer to the ledger, not to the group, so that dropping the last reference to a group closes
it.

Closing is collective and therefore never done where it could block others: a thread does it; the
process waits for those threads before it exits, 30 s at most. A rank that leaves with an exception
aborts, so that the others hear its name at once. Whether an exception leaves the program or is
handled is known at the program's end: a group that is closed in the middle of one closes then, or a
little later.

A daemon thread that is in torch when the interpreter ends makes torch abort, with or without this
package. Once groups are closed, steps raise: the process gives such threads the time to end.
"""

import atexit
import contextlib
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from .. import Error, RawCommunicator, _exit

UNCLAIMED = 768  # works that nobody has waited for; the library runs 1024 at a time
EXIT_WAIT = 30.0
UNDECIDED = 1.0  # seconds in which an exception ends the program, if it does
TRAINERS_WAIT = 2.0
trainers: set = set()  # identities of the threads in which gradients were made


class Ledger:
    """Who is under way, and words for errors."""

    def __init__(self, rank: int, size: int, name: str, ranks: List[int], limit: float) -> None:
        self.limit = limit  # seconds until waits end
        self.shorter: Optional[float] = None  # what set_timeout has made of that
        self.error: Optional[BaseException] = None  # the first one
        self._works: Dict[int, Any] = {}
        self._asked: set = set()
        self._lock = threading.Lock()
        members = f" (group {name!r}: its ranks are global ranks {', '.join(map(str, ranks))})" if ranks else ""
        self.place = f"on rank {rank} of {size}{members}"

    def failed(self, error: BaseException) -> BaseException:
        """Keeps the first error, and gives it back to be raised."""
        self.error = self.error or error
        return error

    def busy(self) -> bool:
        """Is something under way?"""
        return any(not w._look() for w in list(self._works.values()))

    def _started(self, work: Any) -> None:
        with self._lock:
            self._works[id(work)] = work
            old = list(self._works.values())[:-UNCLAIMED] if len(self._works) > UNCLAIMED else []
        for w in old:
            if w._overdue():
                self._forget(w)

    def _forget(self, work: Any) -> None:
        with self._lock:
            self._works.pop(id(work), None)
            self._asked.discard(id(work))

    def _claimed(self, work: Any) -> None:
        with self._lock:
            self._asked.add(id(work))
            if work._ended.is_set():
                self._works.pop(id(work), None)
                self._asked.discard(id(work))

    def _ended(self, work: Any) -> None:
        if id(work) in self._asked:
            self._forget(work)

    def drain(self) -> None:
        """Waits for what is under way."""
        for w in list(self._works.values()):
            w._finish()
        self._works.clear()


class Closer:
    """Everything a group must give back. `parts` are closed in order."""

    _all: List["Closer"] = []

    def __init__(self, ledger: Ledger, comm: RawCommunicator) -> None:
        self.ledger = ledger
        self.comm = comm
        self.parts: List[Callable[[], None]] = []
        self._thread: Optional[threading.Thread] = None
        self._later: Optional[threading.Timer] = None
        self._lock = threading.Lock()
        Closer._all.append(self)

    @classmethod
    def of(cls, group: Any) -> "Closer":
        """The one of a group."""
        return next(c for c in cls._all if c.ledger is group._ledger)

    @classmethod
    def parts_of(cls, group: Any) -> List[Callable[[], None]]:
        """Its parts; nothing when the group is closed."""
        return next((c.parts for c in cls._all if c.ledger is group._ledger), [])

    def _close(self) -> None:
        for close in (self.ledger.drain, *self.parts, self.comm.close):
            with contextlib.suppress(Error):  # whoever used what failed was told
                close()
        if self in Closer._all:
            Closer._all.remove(self)

    def begin(self) -> None:
        """Starts closing; once."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._close, name="tutti-close", daemon=True)
                self._thread.start()

    def dropped(self) -> None:
        """Nobody has the group any more."""
        if self._later is None:
            self.begin()

    def finish(self) -> None:
        """Closes, and returns when that is done: the others come too, or the deadline. In the
        middle of an exception nobody is waited for."""
        if sys.exc_info()[1] is not None:
            if self._later is None:
                self._later = threading.Timer(UNDECIDED, self.begin)
                self._later.daemon = True
                self._later.start()
            return
        self.begin()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(EXIT_WAIT)

    def abort(self, reason: str) -> None:
        """Nobody shall wait for this rank."""
        if self._thread is None and self.comm.handle is not None:
            self.comm.abort(reason)

    @classmethod
    def finish_all(cls) -> None:
        """At exit: closes what is open, oldest first, and waits."""
        failure = _exit.failure()
        everything = list(cls._all)
        for c in everything:
            if failure is not None:
                c.abort(failure)
            c.begin()
        for c in everything:
            c._thread.join(EXIT_WAIT)  # type: ignore[union-attr]
        until = time.monotonic() + TRAINERS_WAIT
        for t in threading.enumerate():
            if t.ident in trainers and t is not threading.current_thread():
                t.join(max(0.0, until - time.monotonic()))


atexit.register(Closer.finish_all)
