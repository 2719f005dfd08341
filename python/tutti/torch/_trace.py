"""What was communicated when, in torch.profiler's trace.

    with tutti.torch.trace("trace.json"):    # torch.profiler.profile with communication added
        train()

    handler = tutti.torch.TraceHandler("trace.{rank}.json")
    with torch.profiler.profile(schedule=..., on_trace_ready=handler) as prof:
        for batch in data:
            train_on(batch)
            prof.step()

The file is torch's own Chrome trace (chrome://tracing, ui.perfetto.dev) with one more process,
"tutti rank R": a span for every collective that ended while the profiler recorded, with bytes,
algorithm and, for buckets, the tensors. Both use the same clock. DistributedOptimizer's spans are
the library's own times. Those of the process group (DDP) begin when the operation was started and
end when it was seen to be done, which for futures is up to 5 ms late (2 % of its length).
"""

import contextlib
import json
import os
import tempfile
import time
import weakref
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch.distributed as dist
import torch.profiler


class Span(NamedTuple):
    """One collective; times of CLOCK_MONOTONIC."""

    name: str
    start_ns: int
    end_ns: int
    bytes: int
    algorithm: str
    tensors: str  # of a bucket: first and last


handlers: Dict[int, "weakref.ref[TraceHandler]"] = {}  # those that record; empty: nobody does
_sources: "weakref.WeakSet[Any]" = weakref.WeakSet()  # Steps of DistributedOptimizers


def note(span: Span) -> None:
    """A collective has ended."""
    for ref in list(handlers.values()):
        h = ref()
        if h is not None:
            h._add(span)


def recording() -> bool:
    """Does anybody want to hear of it?"""
    return bool(handlers)


def collect(source: Any) -> None:
    """The launches of a trainer's last step, once each."""
    if not handlers:
        return
    for x in source.trainer.launches():
        if x.start_ns and x.end_ns >= x.start_ns:
            tensors = x.first if x.first == x.last else f"{x.first} to {x.last}"
            name = f"bucket {x.bucket} {x.coll}" if x.bucket is not None else "norm and use of all tensors"
            note(Span(name, x.start_ns, x.end_ns, x.bytes, x.algo, tensors))


def _rank() -> int:
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


class TraceHandler:
    """For torch.profiler.profile(on_trace_ready=...). Records from now until `close()`. "{rank}" in
    the path is replaced by the rank; without it rank 0 alone writes. When the profiler has several
    windows, later files have their number before the suffix."""

    def __init__(self, path: Any) -> None:
        self.path = os.fspath(path)
        self.files: List[str] = []
        self._spans: Dict[Tuple[str, int], Span] = {}
        self._since = time.monotonic_ns()
        me = id(self)
        handlers[me] = weakref.ref(self, lambda _: handlers.pop(me, None))

    def close(self) -> None:
        """Records no more."""
        handlers.pop(id(self), None)

    def _add(self, span: Span) -> None:
        if span.start_ns >= self._since:
            self._spans[span.name, span.start_ns] = span

    @property
    def spans(self) -> List[Span]:
        """What was recorded and not written yet, by start."""
        for s in list(_sources):
            collect(s)
        return sorted(self._spans.values(), key=lambda s: s.start_ns)

    def _target(self) -> Optional[str]:
        if "{rank}" not in self.path and _rank():
            return None
        stem, suffix = os.path.splitext(self.path.replace("{rank}", str(_rank())))
        return f"{stem}.{len(self.files)}{suffix}" if self.files else stem + suffix

    def __call__(self, prof: Any) -> None:
        """A window of the profiler is over: writes its trace with ours."""
        spans, target = self.spans, self._target()
        self._spans.clear()
        if target is None:
            return
        data, offset_us = _exported(prof)
        events = data if isinstance(data, list) else data["traceEvents"]
        events += _events(spans, offset_us)
        with open(target, "w") as f:
            json.dump(data, f)
        self.files.append(target)


def _exported(prof: Any) -> Tuple[Any, float]:
    """(torch's trace, what must be added to CLOCK_MONOTONIC microseconds to get its times)."""
    handle, path = tempfile.mkstemp(suffix=".json")
    os.close(handle)
    try:
        prof.export_chrome_trace(path)
        with open(path) as f:
            data = json.load(f)
    finally:
        os.unlink(path)
    return data, (time.time_ns() - time.monotonic_ns()) / 1e3 - _zero_us(prof, data)


def _zero_us(prof: Any, data: Any) -> float:
    """Where torch's trace has its zero, in microseconds of the epoch: without Kineto (Debian's
    1.13) its times count from the profiler's start; with Kineto from the epoch, or from the time
    that newer versions write."""
    if isinstance(data, dict):
        return data.get("baseTimeNanoseconds", 0) / 1e3
    results = prof.profiler.kineto_results
    return results.trace_start_ns() / 1e3 if hasattr(results, "trace_start_ns") else results.trace_start_us()


def _events(spans: List[Span], offset_us: float) -> List[Dict[str, Any]]:
    """Chrome's events. Spans that overlap go to different lanes."""
    pid, free, events = f"tutti rank {_rank()}", [], []  # type: str, List[int], List[Dict[str, Any]]
    for s in spans:
        lane = next((i for i, end in enumerate(free) if end <= s.start_ns), len(free))
        free[lane : lane + 1] = [s.end_ns]
        args = {"bytes": s.bytes, "algorithm": s.algorithm, **({"tensors": s.tensors} if s.tensors else {})}
        at, dur = s.start_ns / 1e3 + offset_us, (s.end_ns - s.start_ns) / 1e3
        events.append({"name": s.name, "cat": "communication", "ph": "X", "ts": at, "dur": dur, "pid": pid, "tid": lane, "args": args})
    return events


@contextlib.contextmanager
def trace(path: Any, **options: Any) -> Iterator[Any]:
    """A torch.profiler.profile (its `options`; CPU activities unless said otherwise) whose trace is
    written to `path` with ours."""
    handler = TraceHandler(path)
    options.setdefault("activities", [torch.profiler.ProfilerActivity.CPU])
    try:
        with torch.profiler.profile(on_trace_ready=handler, **options) as prof:
            yield prof
    finally:
        handler.close()
