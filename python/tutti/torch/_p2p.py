"""Point to point: send, receive, receive from anybody, with tags.

Each direction of each pair of ranks that talk has a communicator of its own (two ranks, opened when
they first talk) and a thread on each side, so that a message which waits for its partner holds up
nothing else. A message is a header (kind, tag, bytes) and its bytes, both broadcasts from the
sender. Messages whose tag nobody has asked for yet are kept until somebody does. Deadlines are the
letters' own: a channel may be silent for as long as it likes. A letter whose time is over while its
bytes move ends its channel, on both sides: only then is the memory the caller's again.
"""

import threading
import time
from collections import deque
from datetime import timedelta
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

import torch
import torch.distributed as dist

from .. import RawCommunicator
from .._comm import Request
from .._lib import IN_PROGRESS, OK, TIMEOUT, Error, last_error
from ._meet import ADDRESS, meet, present
from ._work import MAX_PAUSE, MIN_PAUSE, SHARE, Work

MESSAGE, GOODBYE = 0, 1
GOODBYE_WAIT = 5.0
CHANNEL_LIFE = timedelta(days=1)


def _nothing(_: str) -> None:
    """Ends no channel: the bytes are here already."""


class Letter(Work):
    """A message under way. A channel's thread claims it, and from then on alone decides how it
    ends: it uses the caller's memory."""

    def __init__(self, owner: Any, what: str, tensor: torch.Tensor, after: Any, limit: float) -> None:
        self._delivered = threading.Event()
        self._turn = threading.Lock()
        self._status = IN_PROGRESS
        self._why = ""
        self._late = ""
        self._stop: Optional[Callable[[str], None]] = None  # ends the channel; None: not claimed
        self._limit = limit
        super().__init__(owner, what, [tensor], after)

    def claim(self, stop: Callable[[str], None]) -> bool:
        """False: it has ended, and its memory must not be touched."""
        with self._turn:
            self._stop = stop if self._status == IN_PROGRESS else None
            return self._stop is not None

    def deliver(self, status: int = OK, why: str = "", source: int = -1) -> None:
        """The end of it."""
        with self._turn:
            if self._status == IN_PROGRESS:
                late = self._late and status != OK
                self._status, self._why, self._source = TIMEOUT if late else status, self._late if late else why, source
        self._delivered.set()
        self._look()

    def _give_up(self, seconds: float) -> None:
        with self._turn:
            if self._status != IN_PROGRESS or self._late:
                return
            self._late = f"{'no partner' if self._stop is None else 'not done'} within {seconds:g} s"
            if self._stop is None:
                self._status, self._why = TIMEOUT, self._late
                self._delivered.set()
            else:  # the channel is open as long as it has not delivered
                self._stop(f"{self._late}: {self._what}")

    def _poll(self) -> int:
        if self._status == IN_PROGRESS and time.monotonic() > self._began + self._limit:
            self._give_up(self._limit)
        return self._status

    def _block(self) -> int:
        if not self._delivered.wait(max(0.0, self._began + self._limit - time.monotonic())):
            self._give_up(self._limit)
        if self._status == IN_PROGRESS:
            self._delivered.wait()  # its channel has been ended
        return self._status

    def _reason(self, status: int) -> BaseException:
        return Error(status, f"tutti: {self._what}: {self._why}")


class _Channel(threading.Thread):
    """One direction of one pair; sender is rank 0 of its communicator."""

    def __init__(self, office: "Office", src: int, dst: int) -> None:
        super().__init__(name=f"tutti-{src}-{dst}", daemon=True)
        self.office, self.src, self.dst = office, src, dst
        self.store = dist.PrefixStore(f"tutti/{src}-{dst}", office.store)
        self.comm: Optional[RawCommunicator] = None
        self.header = torch.zeros(3, dtype=torch.int64)
        self.closing = False
        self.broken: Optional[Error] = None

    def open(self) -> RawCommunicator:
        if self.comm is None:
            self.comm = meet(self.store, int(self.office.rank == self.dst), 2, CHANNEL_LIFE)
        return self.comm

    def move(self, block: torch.Tensor) -> None:
        """The bytes of a contiguous tensor, from sender to receiver."""
        n = block.numel() * block.element_size()
        if n:
            self.open().call("broadcast", block.data_ptr(), block.data_ptr(), n, "u8")

    def words(self, e: BaseException) -> str:
        return f"{e} (between the two, rank 0 is rank {self.src} and rank 1 is rank {self.dst})"


class _Outbox(_Channel):
    """The sender's side."""

    def __init__(self, office: "Office", dst: int) -> None:
        super().__init__(office, office.rank, dst)
        self.jobs: Deque[Tuple[Letter, torch.Tensor, int]] = deque()
        self.news = threading.Condition()

    def put(self, letter: Letter, block: torch.Tensor, tag: int) -> None:
        with self.news:
            self.jobs.append((letter, block, tag))
            self.news.notify()

    def _next(self) -> Optional[Tuple[Letter, torch.Tensor, int]]:
        with self.news:
            while not self.jobs and not self.closing:
                self.news.wait()
            return self.jobs.popleft() if self.jobs else None

    def _send(self, letter: Letter, block: torch.Tensor, tag: int) -> None:
        try:
            if self.broken is not None:
                raise self.broken
            if not letter.claim(self.open().abort):
                return
            self._headline(MESSAGE, tag, block.numel() * block.element_size())
            self.move(block)
            letter.deliver()
        except Exception as e:
            self.broken = e if isinstance(e, Error) else Error(-40, str(e))
            letter.deliver(self.broken.status, self.words(self.broken))

    def _headline(self, kind: int, tag: int, nbytes: int) -> None:
        self.header[0], self.header[1], self.header[2] = kind, tag, nbytes
        self.move(self.header)

    def run(self) -> None:
        for job in iter(self._next, None):
            self._send(*job)
        if self.comm is not None and self.broken is None:
            try:
                self._headline(GOODBYE, 0, 0)
            except Error:
                pass
        if self.comm is not None:
            self.comm.close()

    def end(self) -> None:
        with self.news:
            self.closing = True
            self.news.notify()


class _Inbox(_Channel):
    """The receiver's side: looks for headers while somebody waits for a message from this rank."""

    def __init__(self, office: "Office", src: int) -> None:
        super().__init__(office, src, office.rank)
        self.asked: Optional[Request] = None  # the header that is being received
        self.gone = False

    def _arm(self) -> Request:
        if self.asked is None:
            at, n = self.header.data_ptr(), self.header.numel() * 8
            self.asked = self.open().request("broadcast", at, at, n, "u8").start()
        return self.asked

    def _await_header(self, useful: Callable[[], bool]) -> bool:
        """True when a header has come; False when nobody needs one any more."""
        request, start = self._arm(), time.monotonic()
        while True:
            status = request.poll()
            if status == OK:
                self.asked = None
                request.free()
                return True
            if status != IN_PROGRESS:
                self.asked = None
                raise last_error(self.comm.handle if self.comm else None, status)
            if not useful():
                return False
            time.sleep(min(MAX_PAUSE, max(MIN_PAUSE, SHARE * (time.monotonic() - start))))

    def _take(self) -> None:
        """The message that its header has announced."""
        kind, tag, nbytes = self.header.tolist()
        if kind == GOODBYE:
            self.gone = True
            return
        letter, block = self.office.match(self.src, tag, self.open().abort)
        if letter is None or block is None:
            kept = torch.empty(nbytes, dtype=torch.uint8)
            self.move(kept)
            self.office.keep(self.src, tag, kept)
        elif block.numel() * block.element_size() != nbytes:
            self.move(torch.empty(nbytes, dtype=torch.uint8))
            letter.deliver(-61, f"rank {self.src} sent {nbytes} bytes, {block.numel() * block.element_size()} are expected")
        else:
            try:
                self.move(block)
            except Error as e:
                letter.deliver(e.status, self.words(e))
                raise
            letter.deliver(source=self.src)

    def _reachable(self) -> bool:
        """Has the other side opened its end? (It does when it sends.)"""
        return self.comm is not None or present(self.store, ADDRESS)

    def run(self) -> None:
        try:
            while self.office.await_interest(self):
                if not self._reachable():
                    time.sleep(MAX_PAUSE)
                elif self._await_header(lambda: self.office.wanted_from(self.src) and not self.closing):
                    self._take()
                if self.gone:
                    break
            self._leave()
        except Exception as e:
            self.broken = e if isinstance(e, Error) else Error(-40, str(e))
            self.office.fail(self.src, self.broken.status, self.words(self.broken))
            if self.comm is not None:
                self.comm.close()

    def _leave(self) -> None:
        """Both sides close together: the sender says goodbye first."""
        limit = time.monotonic() + GOODBYE_WAIT
        while self.comm is not None and not self.gone and time.monotonic() < limit:
            if self._await_header(lambda: time.monotonic() < limit):
                self._take()
        if self.comm is not None and self.gone:
            self.comm.close()


class Office:
    """The messages of one group."""

    def __init__(self, store: Any, rank: int, size: int, limit: float) -> None:
        self.store, self.rank, self.size, self.limit = store, rank, size, limit
        self.news = threading.Condition()
        self.outboxes: Dict[int, _Outbox] = {}
        self.inboxes: Dict[int, _Inbox] = {}
        self.wanted: List[Tuple[Optional[int], int, Letter, torch.Tensor]] = []
        self.kept: List[Tuple[int, int, torch.Tensor]] = []

    def send(self, letter: Letter, block: torch.Tensor, dst: int, tag: int) -> None:
        """Starts sending; returns at once."""
        if dst not in self.outboxes:
            self.outboxes[dst] = _Outbox(self, dst)
            self.outboxes[dst].start()
        self.outboxes[dst].put(letter, block, tag)

    def recv(self, letter: Letter, block: torch.Tensor, src: Optional[int], tag: int) -> None:
        """Starts receiving, from anybody when src is None; returns at once."""
        with self.news:
            early = next((k for k in self.kept if src in (None, k[0]) and tag == k[1]), None)
            if early is not None:
                self.kept = [k for k in self.kept if k is not early]
            else:
                self.wanted.append((src, tag, letter, block))
                self.news.notify_all()
        if early is not None:
            letter.claim(_nothing)
            self._hand_over(letter, block, early)
            return
        for r in range(self.size) if src is None else (src,):
            if r != self.rank and r not in self.inboxes:
                self.inboxes[r] = _Inbox(self, r)
                self.inboxes[r].start()
        broken = self.inboxes[src].broken if src is not None else None
        if broken is not None:
            self.fail(src, broken.status, str(broken))  # type: ignore[arg-type]

    @staticmethod
    def _hand_over(letter: Letter, block: torch.Tensor, early: Tuple[int, int, torch.Tensor]) -> None:
        src, _, data = early
        mine = block.numel() * block.element_size()
        if mine != data.numel():
            letter.deliver(-61, f"rank {src} sent {data.numel()} bytes, {mine} are expected")
            return
        if mine:
            block.reshape(-1).view(torch.uint8).copy_(data)
        letter.deliver(source=src)

    def wanted_from(self, src: int) -> bool:
        """Does anybody wait for a message from src? Letters that have ended (a timeout) no longer
        count."""
        with self.news:
            self.wanted = [w for w in self.wanted if not w[2]._ended.is_set()]
            return any(w[0] in (None, src) for w in self.wanted)

    def await_interest(self, inbox: _Inbox) -> bool:
        """Sleeps until somebody waits for a message from there; False at the end."""
        while not inbox.closing and not self.wanted_from(inbox.src):
            with self.news:
                if not inbox.closing and not self.wanted:
                    self.news.wait(1.0)
                    continue
            time.sleep(MAX_PAUSE)
        return not inbox.closing

    def match(
        self, src: int, tag: int, stop: Callable[[str], None]
    ) -> Tuple[Optional[Letter], Optional[torch.Tensor]]:
        """The oldest receive that this message is for, claimed."""
        with self.news:
            for w in self.wanted:
                if w[0] in (None, src) and w[1] == tag and w[2].claim(stop):
                    self.wanted.remove(w)
                    return w[2], w[3]
        return None, None

    def keep(self, src: int, tag: int, data: torch.Tensor) -> None:
        """Nobody has asked for it yet."""
        with self.news:
            self.kept.append((src, tag, data))
        letter, block = self.match(src, tag, _nothing)
        if letter is not None and block is not None:
            with self.news:
                self.kept = [k for k in self.kept if k[2] is not data]
            self._hand_over(letter, block, (src, tag, data))

    def fail(self, src: int, status: int, why: str) -> None:
        """src cannot send any more: whoever waits for it hears why."""
        with self.news:
            hit = [w for w in self.wanted if w[0] in (None, src)]
            self.wanted = [w for w in self.wanted if w[0] not in (None, src)]
        for _, _, letter, _ in hit:
            letter.deliver(status, why)

    def close(self) -> None:
        """Says goodbye to every rank that it has talked to."""
        with self.news:
            for box in self.inboxes.values():
                box.closing = True
            self.news.notify_all()
        for out in self.outboxes.values():
            out.end()
        for t in [*self.outboxes.values(), *self.inboxes.values()]:
            t.join(GOODBYE_WAIT + 1)
