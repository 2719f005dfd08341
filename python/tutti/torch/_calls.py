"""torch.distributed's collectives, each one request of the library: what a group does, whatever
class of torch it is (_group.py).

What the library does not reduce (bitwise operations, bool, int16, complex) everybody gathers and
reduces alone, in rank order.
"""

import time
import weakref
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from .. import RawCommunicator
from .._comm import Request
from .._lib import Error
from ._compile import leave_class_alone
from ._ledger import Closer, Ledger
from ._meet import meet, seconds_of
from ._p2p import Letter, Office
from ._quick import DTYPE_CODES, REDUCED, Quick, is_plain
from ._tensors import (
    NAMES, Joint, Stand, Tensor, check_alike, check_dense, dense, factor_of, movable, native, op_name, reduce_gathered, scaled,
)  # fmt: skip
from ._work import AllOf, DoneWork, RequestWork, Work, seconds_of as seconds_of_call


def _listed(tensors: Any) -> List[Tensor]:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _single(tensors: Any, what: str) -> Tensor:
    found = _listed(tensors)
    if len(found) != 1:
        raise ValueError(f"tutti: {what}: one tensor per rank is expected, not {len(found)}")
    check_dense(found)
    return found[0]


def _reduction(opts: Any) -> str:
    return op_name(getattr(opts, "reduceOp", opts) if opts is not None else dist.ReduceOp.SUM)


def _factor(opts: Any) -> Any:
    return factor_of(getattr(opts, "reduceOp", opts)) if opts is not None else None


def _root(opts: Any) -> int:
    return int(getattr(opts, "rootRank", opts) or 0)


class Calls:
    """The methods that torch calls, by the names of 1.13 to 2.14. The class beside it (_group.py)
    is torch's: the next one in the order of methods, made with a rank and a size."""

    def __init__(
        self,
        store: Any,
        rank: int,
        size: int,
        timeout: Optional[timedelta],
        name: str = "",
        ranks: Sequence[int] = (),
        options: Optional[Dict[str, Any]] = None,
    ) -> None:
        super().__init__(rank, size)  # type: ignore[call-arg]  # of torch's class
        self._begin(store, rank, size, timeout, name, ranks, options)

    def _begin(self, store: Any, rank: int, size: int, timeout: Optional[timedelta], name: str, ranks: Sequence[int], options: Any) -> None:
        self._names = [name, "undefined"]
        self._me, self._n, self._store, self._timeout = rank, size, store, timeout
        self._options = options or {}
        self._comm: RawCommunicator = meet(store, rank, size, timeout, **self._options)
        self._ledger = Ledger(rank, size, name, list(ranks), seconds_of(timeout))
        self._office = Office(store, rank, size, seconds_of(timeout))
        self._batch: Optional[List[Work]] = None
        self._extra: List[RawCommunicator] = []
        closer = Closer(self._ledger, self._comm)
        closer.parts += [self._office.close, lambda extra=self._extra: [c.close() for c in extra]]  # type: ignore[misc, list-item]
        weakref.finalize(self, closer.dropped).atexit = False
        self._closer, self._quick = closer, Quick(self._comm, self._ledger)

    # ---- starting ----

    def _what(self, name: str, count: int, dtype: str) -> str:
        return f"{name} of {count} {dtype} {self._ledger.place}"

    def _enlist(self, work: Work) -> Work:
        if self._batch is not None:
            self._batch.append(work)
        return work

    def _go(self, what: str, make: Callable[[], Request], result: List[Tensor], keep: Any, after: Any = None) -> Work:
        try:
            return self._enlist(RequestWork(self._ledger, what, make(), result, keep, after))
        except Error as e:
            raise self._ledger.failed(Error(e.status, f"tutti: {what}: {e}")) from None

    def _launch(
        self,
        name: str,
        src: Optional[Tensor],
        dst: Optional[Tensor],
        count: int,
        dtype: str,
        result: List[Tensor],
        op: str = "sum",
        root: int = 0,
        after: Any = None,
        opts: Any = None,
        comm: Optional[RawCommunicator] = None,
    ) -> Any:
        a, b = (0 if t is None else t.data_ptr() for t in (src, dst))
        on = comm or self._comm
        if self._blocks(opts):
            self._now(self._what, (name, count, dtype), lambda: on.call(name, a, b, count, dtype, op, root))
            if after is not None:
                after()
            return self._quick.done
        make = lambda: on.request(name, a, b, count, dtype, op, root)  # noqa: E731
        return self._timed(opts, self._go(self._what(name, count, dtype), make, result, (src, dst), after))

    def _blocks(self, opts: Any) -> bool:
        """May the call return when it is done, without a work?"""
        return self._batch is None and self._quick.waits(opts)

    def _now(self, what: Callable[..., str], words: Tuple[Any, ...], call: Callable[[], None]) -> None:
        """In this thread, without request, work and future. Operations under way keep their place:
        the library numbers calls as they begin."""
        began = time.monotonic()
        try:
            call()
        except Error as e:
            late = time.monotonic() - began >= self._ledger.limit
            when = f"after the timeout of {self._ledger.limit:g} s: " if late else ""
            raise self._ledger.failed(Error(e.status, f"tutti: {what(*words)}: {when}{e}")) from None

    @staticmethod
    def _timed(opts: Any, work: Work) -> Work:
        """A call may have a deadline of its own."""
        seconds = seconds_of_call(getattr(opts, "timeout", None))
        if seconds is not None:
            work.limit = seconds if work.limit is None else min(seconds, work.limit)
        return work

    def _gather_and(self, block: Tensor, result: List[Tensor], then: Callable[[Tensor], None], opts: Any = None) -> Any:
        """All ranks get all blocks; `then` gets them as a tensor with ranks along the first axis.
        """
        flat = block.reshape(-1)
        parts = torch.empty((self._n, flat.numel()), dtype=block.dtype)
        count, dtype = movable(flat)
        return self._launch("all_gather", flat, parts, count, dtype, result, after=lambda: then(parts), opts=opts)

    def extra_communicator(self, **options: Any) -> RawCommunicator:
        """Collective: another communicator of the same ranks, closed with the group."""
        store = dist.PrefixStore(f"tutti/extra{len(self._extra)}", self._store)
        comm = meet(store, self._me, self._n, self._timeout, **dict(self._options, **options))
        self._extra.append(comm)
        return comm

    # ---- reductions ----

    def allreduce(self, tensors: Any, opts: Any = None) -> Work:
        """In place on every rank. Several tensors are one operation."""
        if type(tensors) is list and len(tensors) == 1 and self._blocks(opts):
            t = tensors[0]
            known = REDUCED.get((t.dtype, opts.reduceOp.op.value))
            if known is not None and is_plain(t):
                return self._quick.call("allreduce", t.data_ptr(), t.data_ptr(), t.numel(), *known)
        found, op = _listed(tensors), _reduction(opts)
        if len(found) != 1:
            return self.allreduce_coalesced(found, opts)
        check_dense(found)
        return self._allreduce(found[0], op, found, opts=opts)

    def _allreduce(self, t: Tensor, op: str, result: List[Tensor], after: Any = None, opts: Any = None) -> Any:
        stand, factor = Stand(t), _factor(opts)
        back = after or stand.back
        if factor is not None:
            stand.block.detach().copy_(scaled(stand.block, factor))
        if native(t.dtype, op):
            return self._launch("allreduce", stand.block, stand.block, t.numel(), NAMES[t.dtype], result, op, after=back, opts=opts)

        def then(parts: Tensor) -> None:
            stand.block.detach().copy_(reduce_gathered(parts, op).view(t.shape))
            back()

        return self._gather_and(stand.block, result, then, opts)

    def allreduce_coalesced(self, tensors: Sequence[Tensor], opts: Any = None) -> Work:
        """All tensors as one vector; one data type."""
        check_dense(tensors)
        if len({t.dtype for t in tensors}) != 1:
            raise ValueError("tutti: allreduce_coalesced: tensors of one data type are expected")
        joint = Joint(tensors, fill=True)
        block = joint.block if not joint.own else _span(joint)
        return self._allreduce(block, _reduction(opts), list(tensors), joint.back, opts)

    def reduce(self, tensors: Any, opts: Any = None, *more: Any) -> Work:
        """The root's tensor becomes the reduction; the others' stay as they are."""
        t = _single(tensors, "reduce")
        root = _root(opts)
        how = opts if hasattr(opts, "reduceOp") else (more[0] if more else None)
        op, mine, stand = _reduction(how), self._me == root, Stand(t)
        stand.block = scaled(stand.block, _factor(how))
        if native(t.dtype, op):
            dst = stand.block if mine else None
            return self._launch(
                "reduce", stand.block, dst, t.numel(), NAMES[t.dtype], [t], op, root, stand.back if mine else None, opts
            )

        def then(parts: Tensor) -> None:
            if mine:
                t.detach().copy_(reduce_gathered(parts, op).view(t.shape))

        return self._gather_and(stand.block, [t], then, opts)

    def reduce_scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
        """Rank r gets the reduction of all ranks' r-th input."""
        out = _single(output_tensors, "reduce_scatter")
        inputs = list(input_tensors[0]) if isinstance(input_tensors[0], (list, tuple)) else list(input_tensors)
        check_dense(inputs)
        if len(inputs) != self._n:
            raise ValueError(f"tutti: reduce_scatter: {len(inputs)} inputs for {self._n} ranks")
        if any(t.dtype != out.dtype for t in inputs):
            raise ValueError("tutti: reduce_scatter: inputs and output of one data type are expected")
        inputs = [scaled(t, _factor(opts)) for t in inputs]
        if len({t.numel() for t in inputs}) != 1:
            return self._reduce_scatter_uneven(out, inputs, _reduction(opts))
        check_alike([out, *inputs], "reduce_scatter")
        joint = Joint(inputs, fill=True)
        return self._reduce_scatter(out, joint.block, opts)

    def _reduce_scatter(self, out: Tensor, block: Tensor, opts: Any) -> Any:
        stand, op = Stand(out), _reduction(opts)
        if native(out.dtype, op):
            return self._launch(
                "reduce_scatter", block, stand.block, out.numel(), NAMES[out.dtype], [out], op, after=stand.back, opts=opts
            )
        me, n = self._me, self._n
        whole = block if block.numel() == n * out.numel() else torch.as_strided(block, (n * out.numel(),), (1,))

        def then(parts: Tensor) -> None:
            out.detach().copy_(reduce_gathered(parts.view(n, n, -1)[:, me], op).view(out.shape))

        return self._gather_and(whole, [out], then, opts)

    def _reduce_scatter_uneven(self, out: Tensor, inputs: List[Tensor], op: str) -> Work:
        if out.numel() != inputs[self._me].numel() or not native(out.dtype, op):
            raise ValueError("tutti: reduce_scatter: inputs of different sizes need an output like one's own input, and a plain reduction")
        whole = torch.cat([t.detach().reshape(-1) for t in inputs])
        mine, at = out.numel(), sum(t.numel() for t in inputs[: self._me])
        done = lambda: out.detach().copy_(whole[at : at + mine].view(out.shape))  # noqa: E731
        return self._launch("allreduce", whole, whole, whole.numel(), NAMES[out.dtype], [out], op, after=done)

    def _reduce_scatter_base(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        """One input of n blocks; rank r gets the reduction of block r."""
        check_dense([output, input])
        if input.dtype != output.dtype or input.numel() != output.numel() * self._n:
            raise ValueError(f"tutti: reduce_scatter_tensor: input must be {self._n} times the output, of the same type")
        if self._blocks(opts):
            known = REDUCED.get((input.dtype, opts.reduceOp.op.value))
            if known is not None and is_plain(output) and is_plain(input):
                return self._quick.call("reduce_scatter", input.data_ptr(), output.data_ptr(), output.numel(), *known)
        return self._reduce_scatter(output, scaled(dense(input), _factor(opts)), opts)

    reduce_scatter_tensor = reduce_scatter_single = _reduce_scatter_base  # names of torch 1.13 to 2.13

    def reduce_scatter_tensor_coalesced(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None) -> Work:
        """Several of them."""
        return self._together("reduce_scatter", [self._reduce_scatter_base(o, i, opts) for o, i in zip(outputs, inputs)])

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    # ---- moving data ----

    def broadcast(self, tensors: Any, opts: Any = None) -> Work:
        """The root's tensor on every rank. Several tensors are one operation."""
        if type(tensors) is list and len(tensors) == 1 and self._blocks(opts):
            t = tensors[0]
            if t.dtype in DTYPE_CODES and is_plain(t):
                return self._quick.call("broadcast", t.data_ptr(), t.data_ptr(), t.numel(), DTYPE_CODES[t.dtype], opts.rootRank)
        found = _listed(tensors)
        check_dense(found)
        joint = Joint(found, fill=True) if len(found) > 1 else None
        stand = joint or Stand(found[0])
        block, n = stand.block, sum(t.numel() for t in found)
        count, dtype = movable(found[0], n)
        return self._launch("broadcast", block, block, count, dtype, found, root=_root(opts), after=stand.back, opts=opts)

    def allgather(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
        """All ranks get all tensors."""
        t = _single(input_tensors, "allgather")
        outputs = list(output_tensors[0]) if isinstance(output_tensors[0], (list, tuple)) else list(output_tensors)
        check_dense(outputs)
        if len(outputs) != self._n:
            raise ValueError(f"tutti: allgather: {len(outputs)} outputs for {self._n} ranks")
        check_alike([t, *outputs], "allgather")
        joint = Joint(outputs, fill=False)
        return self._launch("all_gather", dense(t), joint.block, *movable(t), outputs, after=joint.back, opts=opts)

    def _allgather_base(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        """The same in one tensor of n blocks."""
        check_dense([output, input])
        if input.dtype != output.dtype or output.numel() != input.numel() * self._n:
            raise ValueError(f"tutti: all_gather_into_tensor: output must be {self._n} times the input, of the same type")
        code = DTYPE_CODES.get(input.dtype)
        if code is not None and self._blocks(opts) and is_plain(output) and is_plain(input):
            return self._quick.call("all_gather", input.data_ptr(), output.data_ptr(), input.numel(), code)
        stand = Stand(output)
        return self._launch("all_gather", dense(input), stand.block, *movable(input), [output], after=stand.back, opts=opts)

    all_gather_into_tensor = all_gather_single = _allgather_base

    def allgather_coalesced(self, output_lists: Any, input_list: Sequence[Tensor], opts: Any = None) -> Work:
        """Several all-gathers; output_lists[rank][i] gets that rank's i-th input."""
        columns = [[outputs[i] for outputs in output_lists] for i in range(len(input_list))]
        return self._together("allgather", [self.allgather([c], [t]) for c, t in zip(columns, input_list)])

    def allgather_into_tensor_coalesced(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None) -> Work:
        """Several of them."""
        return self._together("allgather", [self._allgather_base(o, i) for o, i in zip(outputs, inputs)])

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def gather(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
        """The root gets all tensors."""
        t, root = _single(input_tensors, "gather"), _root(opts)
        if self._me != root:
            return self._launch("gather", dense(t), None, *movable(t), [], root=root, opts=opts)
        outputs = list(output_tensors[0]) if isinstance(output_tensors[0], (list, tuple)) else list(output_tensors)
        check_dense(outputs)
        if len(outputs) != self._n:
            raise ValueError(f"tutti: gather: {len(outputs)} outputs for {self._n} ranks")
        check_alike([t, *outputs], "gather")
        joint = Joint(outputs, fill=False)
        return self._launch("gather", dense(t), joint.block, *movable(t), outputs, root=root, after=joint.back, opts=opts)

    def scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
        """Rank r gets the root's r-th tensor."""
        out, root = _single(output_tensors, "scatter"), _root(opts)
        stand, block = Stand(out), None
        if self._me == root:
            inputs = list(input_tensors[0]) if isinstance(input_tensors[0], (list, tuple)) else list(input_tensors)
            check_dense(inputs)
            if len(inputs) != self._n:
                raise ValueError(f"tutti: scatter: {len(inputs)} inputs for {self._n} ranks")
            check_alike([out, *inputs], "scatter")
            block = Joint(inputs, fill=True).block
        return self._launch("scatter", block, stand.block, *movable(out), [out], root=root, after=stand.back, opts=opts)

    def alltoall(self, output_tensors: Sequence[Tensor], input_tensors: Sequence[Tensor], opts: Any = None) -> Work:
        """Input r goes to rank r; output r comes from rank r. Sizes may differ."""
        check_dense([*output_tensors, *input_tensors])
        if not len(output_tensors) == len(input_tensors) == self._n:
            raise ValueError(f"tutti: alltoall: {self._n} inputs and outputs are expected")
        block = torch.cat([t.detach().reshape(-1) for t in input_tensors])
        joint = Joint(output_tensors, fill=False)
        result = _span(joint) if joint.own else joint.block
        work = self.alltoall_base(result, block, [t.numel() for t in output_tensors], [t.numel() for t in input_tensors], elements=True)
        return self._chain(work, joint.back, list(output_tensors))

    def alltoall_base(
        self,
        output: Tensor,
        input: Tensor,
        output_split_sizes: Sequence[int] = (),
        input_split_sizes: Sequence[int] = (),
        opts: Any = None,
        elements: bool = False,
    ) -> Work:
        """Pieces of the first axis: equal ones, or as long as the two lists say."""
        check_dense([output, input])
        if input.dtype != output.dtype:
            raise ValueError("tutti: alltoall: input and output of one data type are expected")
        stand, block = Stand(output), dense(input)
        ins = self._splits(input, input_split_sizes, elements)
        outs = self._splits(output, output_split_sizes, elements)
        if not output_split_sizes and not input_split_sizes:
            return self._launch("all_to_all", block, stand.block, *movable(input, ins[0]), [output], after=stand.back, opts=opts)
        return self._alltoall_uneven(stand, block, ins, outs)

    all_to_all_single = alltoall_base

    def _splits(self, t: Tensor, sizes: Sequence[int], elements: bool) -> List[int]:
        rows = t.numel() if elements else (t.shape[0] if t.dim() else 1)
        if not sizes:
            if rows % self._n:
                raise ValueError(f"tutti: alltoall: tensor's dim 0 ({rows}) does not divide equally across group size")
            return [t.numel() // self._n] * self._n
        if len(sizes) != self._n or sum(sizes) != rows:
            raise ValueError(f"tutti: alltoall: split sizes {list(sizes)} do not match dim 0 ({rows}) and {self._n} ranks")
        row = t.numel() // rows if rows else 0
        return [s * row for s in sizes]

    def _alltoall_uneven(self, stand: Stand, block: Tensor, ins: List[int], outs: List[int]) -> Work:
        """Every piece as long as the longest one of all ranks (which is found first, by a short
        all-reduce that is waited for)."""
        longest = torch.tensor([max(ins + outs)], dtype=torch.int64)
        self._allreduce(longest, "max", [longest]).wait()
        width = int(longest)
        src, dst = (torch.zeros((self._n, width), dtype=block.dtype) for _ in range(2))
        for row, piece in zip(src, block.reshape(-1).split(ins)):
            row[: piece.numel()] = piece.detach()

        def back() -> None:
            flat = torch.cat([row[:k] for row, k in zip(dst, outs)])
            stand.real.detach().copy_(flat.view(stand.real.shape))

        return self._launch("all_to_all", src, dst, *movable(src, width), [stand.real], after=back)

    # ---- order, messages, batches ----

    def barrier(self, opts: Any = None) -> Any:
        """Done when every rank has come."""
        if self._blocks(opts):
            return self._quick.barrier()
        return self._timed(opts, self._go(f"barrier {self._ledger.place}", self._comm.barrier_request, [], None))

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """A barrier with a deadline of its own (or an object that has it, as torch's C++ does);
        errors name the rank that did not come."""
        self.barrier().wait(getattr(timeout, "timeout", timeout))

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Work:
        """To one rank; received in order per tag."""
        t = _single(tensors, "send")
        self._check_peer(dst)
        letter = Letter(self._ledger, f"send to rank {dst} {self._ledger.place}", t, None, self._office.limit)
        self._office.send(letter, dense(t.detach()), dst, tag)
        return self._enlist(letter)

    def recv(self, tensors: Any, src: int, tag: int = 0) -> Work:
        """From one rank."""
        self._check_peer(src)
        return self._recv(_single(tensors, "recv"), src, tag)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        """From whoever sends first; source_rank() of the work says who."""
        return self._recv(_single(tensors, "recv"), None, tag)

    def _recv(self, t: Tensor, src: Optional[int], tag: int) -> Work:
        stand, who = Stand(t), "anybody" if src is None else f"rank {src}"
        letter = Letter(self._ledger, f"recv from {who} {self._ledger.place}", t, stand.back, self._office.limit)
        self._office.recv(letter, stand.block.detach(), src, tag)
        return self._enlist(letter)

    def _check_peer(self, peer: int) -> None:
        if not 0 <= peer < self._n or peer == self._me:
            raise ValueError(f"tutti: rank {peer}: another one of the {self._n} ranks is needed")

    def _together(self, what: str, works: List[Any]) -> Work:
        works = [w for w in works if w is not self._quick.done]
        return AllOf(self._ledger, f"{what} {self._ledger.place}", works) if works else DoneWork(self._ledger, what, [])

    def _chain(self, work: Work, after: Callable[[], None], result: List[Tensor]) -> Work:
        """Lets one more thing follow before the work counts as done."""
        first = work._after

        def both() -> None:
            if first is not None:
                first()
            after()

        work._after, work._result = both, result
        return work

    def _start_coalescing(self, *_: Any) -> None:
        self._batch = []

    def _end_coalescing(self, *_: Any) -> Work:
        works, self._batch = self._batch or [], None
        return self._together("coalesced operations", works)

    # ---- timeouts, the end ----

    def set_timeout(self, timeout: timedelta) -> None:
        """Waits of operations that begin from now on. The library's own deadline stands: no longer
        ones than the group was made with."""
        seconds = timeout.total_seconds()
        if seconds > self._ledger.limit:
            limit = self._ledger.limit
            raise ValueError(f"tutti: a timeout of {seconds:g} s: the group was made with {limit:g} s, pass timeout= to init_process_group or new_group")
        self._ledger.shorter = seconds if 0 < seconds < self._ledger.limit else None

    _set_default_timeout = set_timeout

    def abort(self) -> None:
        """All ranks' calls on this group fail, at once."""
        self._closer.abort("abort() was called")
        self._closer.begin()

    def shutdown(self) -> None:
        """Closes: what is under way ends, sockets and memory are given back. The others do the
        same, or the deadline passes."""
        self._closer.finish()

    def report(self) -> str:
        """Collective: who is slow, in words."""
        return self._comm.report()

    # ---- names ----

    supports_splitting = supports_coalescing = supports_time_estimate = _supports_time_estimate = supports_shrinking = False

    @property
    def _device_types(self) -> List[torch.device]:
        return [torch.device("cpu")]

    def _get_backend(self, device: Any = None) -> "Calls":
        """Torch asks a group for the backend of a device: there is one."""
        return self

    def getGroupName(self) -> str:
        """By which torch's C++ finds the group (functional collectives)."""
        return self._names[0]

    def setGroupName(self, name: str) -> None:
        """Torch does, once."""
        self._names[0] = name

    def getGroupDesc(self) -> str:
        """What new_group(group_desc=...) says."""
        return self._names[1]

    def setGroupDesc(self, desc: str) -> None:
        """Torch does, once."""
        self._names[1] = desc

    def getBackendName(self) -> str:
        """What torch calls it."""
        return "tutti"

    _get_backend_name = getBackendName

    def name(self) -> str:
        """What people call it."""
        return "tutti"


def _span(joint: Joint) -> Tensor:
    """The memory of adjacent tensors as one flat tensor."""
    return torch.as_strided(joint.block.detach(), (sum(t.numel() for t in joint.tensors),), (1,))


leave_class_alone(Calls)
