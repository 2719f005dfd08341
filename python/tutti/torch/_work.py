"""Work: one operation under way, as torch.distributed and DDP expect it.

A wait in Python waits in the library, without a thread in between. Futures (DDP asks for them) are
served by a thread per group that waits for the oldest operation: it sleeps in the library, without
Python's lock, until the library's own thread has finished something, so that it takes nothing from
the compute. What is no request of the library (messages) it polls: after a fiftieth of the time
that has passed, 5 ms at most.

DDP waits for futures in C++, where an exception set by Future.set_exception arrives as a failed
cast. A callback that raises arrives with its text: so futures are handed out behind a callback.
"""

import threading
import time
from collections import deque
from datetime import timedelta
from typing import Any, Callable, Deque, Dict, List, Optional

import torch
import torch.distributed as dist

from .._comm import Request
from .._lib import IN_PROGRESS, OK, Error, last_error
from ._compile import leave_class_alone
from ._trace import Span, note, recording

MIN_PAUSE, MAX_PAUSE, SHARE = 5e-5, 5e-3, 0.02
LINGER = 1.0  # seconds that a thread waits for a further future


def seconds_of(timeout: Any) -> Optional[float]:
    """A timeout in seconds; None where torch means "the group's own"."""
    if timeout is None:
        return None
    s = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    return s if s > 0 else None


class Work(dist.Work):  # type: ignore[misc]
    """An operation that was started. `after` runs once, when it is done: copies to where the caller
    wants the result."""

    def __init__(self, owner: Any, what: str, result: List[torch.Tensor], after: Optional[Callable[[], None]] = None) -> None:
        super().__init__()
        self._owner = owner
        self._what = what
        self._result = result
        self._after = after
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._error: Optional[BaseException] = None
        self._future: Optional[torch.futures.Future] = None
        self._outer: Optional[torch.futures.Future] = None
        self._source = -1
        self.limit: Optional[float] = owner.shorter  # seconds that wait() waits; None: the group's own
        self._began = time.monotonic()
        owner._started(self)

    # ---- what kinds of work differ in ----

    def _poll(self) -> int:
        """OK, IN_PROGRESS or an error status; never blocks."""
        raise NotImplementedError

    def _block(self) -> int:
        """Waits until the deadline."""
        raise NotImplementedError

    def _reason(self, status: int) -> BaseException:
        raise NotImplementedError

    def _give_up(self, seconds: float) -> None:
        """Makes it end soon, with an error unless it is done: nobody may use the caller's memory
        once that has been told so."""
        raise NotImplementedError

    # ---- completion ----

    def _end(self, status: int) -> None:
        """Called once, with the lock held. Results are in place before anybody is told."""
        try:
            if status != OK:
                self._error = self._owner.failed(self._reason(status))
            elif self._after is not None:
                self._after()
        except BaseException as e:  # told to whoever waits
            self._error = e
        self._after = None
        self._ended.set()
        self._owner._ended(self)
        if self._future is not None:
            self._future.set_result(None)

    def _look(self) -> bool:
        """Is it done? Somebody else's waiting counts as "no"."""
        if self._ended.is_set():
            return True
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if not self._ended.is_set():
                status = self._poll()
                if status != IN_PROGRESS:
                    self._end(status)
        finally:
            self._lock.release()
        return self._ended.is_set()

    def _finish(self) -> None:
        with self._lock:
            if not self._ended.is_set():
                self._end(self._block())

    def _finish_within(self, seconds: float) -> None:
        start = time.monotonic()
        while not self._look():
            passed = time.monotonic() - start
            if passed > seconds:
                self._give_up(seconds)
                self._finish()
                return
            time.sleep(min(MAX_PAUSE, max(MIN_PAUSE, SHARE * passed)))

    def _overdue(self) -> bool:
        """Many were started after it, and nobody has waited for it: is it done?"""
        return self._look()

    def _attend(self) -> None:
        """Returns when it is done or failed; by the thread behind futures."""
        start = time.monotonic()
        while not self._look():
            time.sleep(min(MAX_PAUSE, max(MIN_PAUSE, SHARE * (time.monotonic() - start))))

    # ---- what torch calls ----

    def wait(self, timeout: Any = None) -> bool:
        """Returns when it is done; raises what went wrong, also after `timeout`: a collective ends
        on all ranks then, and its group with it, since the others may be in the middle of it."""
        self._owner._claimed(self)
        seconds = seconds_of(timeout) or self.limit
        if seconds is not None:
            self._finish_within(seconds)
        elif self._future is not None:
            self._ended.wait()
        else:
            self._finish()
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        """The same as wait."""
        self.wait()

    def is_completed(self) -> bool:
        """Done or failed?"""
        return self._look()

    def is_success(self) -> bool:
        """Done without an error?"""
        return self._look() and self._error is None

    def exception(self) -> Optional[BaseException]:
        """What went wrong, if anything."""
        return self._error

    def result(self) -> List[torch.Tensor]:
        """The output tensors."""
        return self._result

    def source_rank(self) -> int:
        """Who sent what a receive from anybody got."""
        return self._source

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future:
        """A future of the output tensors; its callbacks run in our thread."""
        self._owner._claimed(self)
        with self._lock:
            if self._outer is None:
                self._future = torch.futures.Future()
                self._outer = self._future.then(self._answer)
                if self._ended.is_set():
                    self._future.set_result(None)
                else:
                    completer.add(self)
        return self._outer

    def _answer(self, _: Any) -> List[torch.Tensor]:
        if self._error is not None:
            raise self._error
        return self._result


class RequestWork(Work):
    """A collective: a request of the library."""

    def __init__(self, owner: Any, what: str, request: Request, result: List[torch.Tensor], keep: Any, after: Any = None) -> None:
        self._request = request
        self._keep = keep
        self._label = ""  # "bucket 3 "
        try:
            request.start()
        except Error:
            request.free()
            raise
        super().__init__(owner, what, result, after)

    def _poll(self) -> int:
        return self._request.poll()

    def _block(self) -> int:
        return self._request.finish()

    def _give_up(self, seconds: float) -> None:
        comm = self._request._comm
        if comm.handle is not None:
            comm.abort(f"not done within {seconds:g} s: {self._what}")

    def _overdue(self) -> bool:
        """A caller that starts without waiting must not run further ahead of the others than the
        library can remember."""
        self._finish()
        return True

    def _attend(self) -> None:
        with self._lock:
            if not self._ended.is_set():
                self._end(self._request.join())

    def _reason(self, status: int) -> BaseException:
        e, limit = last_error(self._request._comm.handle, status), self._owner.limit
        when = f"after the timeout of {limit:g} s: " if time.monotonic() - self._began >= limit else ""
        return Error(status, f"tutti: {self._what}: {when}{e}")

    def _end(self, status: int) -> None:
        if status == OK and recording():
            r = self._request
            note(Span(self._label + r.name, int(self._began * 1e9), time.monotonic_ns(), r.nbytes, r.algorithm, ""))
        super()._end(status)
        self._request.free()
        self._keep = None


class DoneWork(Work):
    """Something that was finished at once."""

    def _poll(self) -> int:
        return OK

    _block = _poll

    def _give_up(self, seconds: float) -> None:
        pass


class Finished(dist.Work):  # type: ignore[misc]
    """What a blocking call returns: nothing is under way."""

    def wait(self, timeout: Any = None) -> bool:
        """At once."""
        return True

    synchronize = is_completed = is_success = wait

    def exception(self) -> None:
        """None: blocking calls raise."""

    def result(self) -> List[torch.Tensor]:
        """The caller has them."""
        return []

    def get_future(self) -> torch.futures.Future:
        """One that is done."""
        future: torch.futures.Future = torch.futures.Future()
        future.set_result([])
        return future


class AllOf(Work):
    """Several works as one."""

    def __init__(self, owner: Any, what: str, works: List[Work]) -> None:
        super().__init__(owner, what, [t for w in works for t in w.result()])
        self._works = works

    def _poll(self) -> int:
        return OK if all([w.is_completed() for w in self._works]) else IN_PROGRESS

    def _block(self) -> int:
        for w in self._works:
            w._finish()
        return OK

    def _give_up(self, seconds: float) -> None:
        for w in self._works:
            w._give_up(seconds)

    def _attend(self) -> None:
        for w in self._works:
            w._attend()
        self._finish()

    def _end(self, status: int) -> None:
        self._error = next((w.exception() for w in self._works if w.exception() is not None), None)
        super()._end(status)


for _kind in (Work, RequestWork, DoneWork, Finished, AllOf):
    leave_class_alone(_kind)


class _Completer:
    """The threads behind futures: one for each group that has some under way. It serves them in
    order, ends when there was none for a while and is made again when needed."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._queues: Dict[int, Deque[Work]] = {}

    def add(self, work: Work) -> None:
        """Looks after this work from now on."""
        key = id(work._owner)
        with self._news:
            if key not in self._queues:
                self._queues[key] = deque()
                threading.Thread(target=self._run, args=(key,), name="tutti-futures", daemon=True).start()
            self._queues[key].append(work)
            self._news.notify_all()

    def _next(self, key: int) -> Optional[Work]:
        """The oldest work of a group; waits for one. None: nothing came, the thread ends."""
        with self._news:
            queue = self._queues[key]
            if not queue:
                self._news.wait_for(lambda: queue, LINGER)
            if not queue:
                del self._queues[key]
                return None
            return queue.popleft()

    def _run(self, key: int) -> None:
        work = self._next(key)
        while work is not None:
            work._attend()
            work = None  # not to be kept while waiting
            work = self._next(key)


completer = _Completer()
