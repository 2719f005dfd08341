"""The blocking road: a collective whose caller waits at once, on tensors that the library takes as
they are.

torch.distributed says in the options of a call that nobody will ask for a work (`asyncOp` false,
torch 2.7 and later). Then the call is one call of the library in this thread, which finds its
program by kind and memory: no request, work, future or other object is made. The library numbers
calls as they begin, so that operations under way keep their place. What needs more than that
(strides, other types, deadlines of a call's own, recording) takes the general road in _calls.py.
"""

import time
from datetime import timedelta
from typing import Any, Dict, Tuple

import torch

from .. import RawCommunicator
from .._lib import DTYPES, REDOPS, Error, last_error, lib
from ._ledger import Ledger
from ._tensors import BY_KIND, NAMES, Tensor, native
from ._trace import handlers
from ._work import Finished

_NONE = timedelta(0)
_STRIDED = torch.strided
DTYPE_CODES: Dict[torch.dtype, int] = {dtype: DTYPES[name] for dtype, name in NAMES.items()}
# (the tensor's type, value of torch's reduction) -> the library's codes, where the library has both
REDUCED: Dict[Tuple[torch.dtype, int], Tuple[int, int]] = {
    (dtype, int(kind)): (DTYPE_CODES[dtype], REDOPS[op]) for dtype in NAMES for kind, op in BY_KIND.items() if native(dtype, op)
}
_DTYPE_NAMES = {code: name for name, code in DTYPES.items()}


def is_plain(t: Tensor) -> bool:
    """Memory that the library can use as it is?"""
    return t.layout is _STRIDED and t.is_cpu and t.is_contiguous() and not t.is_neg()  # type: ignore[attr-defined]


class Quick:
    """Blocking calls on the communicator of a group."""

    def __init__(self, comm: RawCommunicator, ledger: Ledger) -> None:
        self._comm, self._ledger = comm, ledger
        self.done = Finished()

    def waits(self, opts: Any) -> bool:
        """Will the caller wait at once, and for as long as the communicator does? Options may be
        less than torch's: a root, a reduction, None; older versions of torch do not say."""
        return not getattr(opts, "asyncOp", True) and opts.timeout <= _NONE and self._ledger.shorter is None and not handlers

    def call(self, name: str, a: int, b: int, count: int, dtype: int, *more: int) -> Any:
        """tutti_<name>(comm, a, b, count, dtype, ...); raises what went wrong."""
        began = time.monotonic()
        status = _CALLS[name](self._comm._handle, a, b, count, dtype, *more)
        if status:
            self._fail(status, f"{name} of {count} {_DTYPE_NAMES[dtype]}", began)
        return self.done

    def barrier(self) -> Any:
        """Returns when all ranks have called it."""
        began = time.monotonic()
        status = lib.tutti_barrier(self._comm._handle)
        if status:
            self._fail(status, "barrier", began)
        return self.done

    def _fail(self, status: int, what: str, began: float) -> None:
        limit, what = self._ledger.limit, f"{what} {self._ledger.place}"
        when = f"after the timeout of {limit:g} s: " if time.monotonic() - began >= limit else ""
        try:
            e = last_error(self._comm._open(), status)
        except Error as closed:
            e, when = closed, ""
        raise self._ledger.failed(Error(e.status, f"tutti: {what}: {when}{e}")) from None


_CALLS = {name: getattr(lib, "tutti_" + name) for name in ("allreduce", "reduce_scatter", "all_gather", "broadcast")}
