"""DistributedOptimizer: the scheduling policies of the trainer (DeAR among them) for any torch
optimizer, without DDP.

    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    opt = tutti.torch.DistributedOptimizer(opt, model, policy="dear")

The road of a gradient: autograd makes it, a hook (_hooks.py) has it copied into its place
(_slot.py) in a bucket of the library, which communicates when the bucket is full. step() ends the
backward pass (_steps.py). With policies that reach into the next forward pass (dear, dear-sharded,
bytescheduler) parameters are awaited (_awaited.py) from then on: whoever uses one, usually the next
forward pass, waits for it; with the others step() does. Who updates (_updates.py): the library,
when the optimizer is SGD, Adam or AdamW as it knows them (_builtin.py), piece by piece while the
rest arrives; otherwise the wrapped optimizer itself, on the parameters that were waited for. Either
way with the learning rate that held at step().

p.grad is what DDP's is, for whoever looks at it: between backward() and step() the average over all
ranks, which may be changed, replaced or dropped, and stays until zero_grad(). Buffers are rank 0's
after every step() (_buffers.py). Accumulation: `no_sync()`.
"""

import contextlib
import inspect
import json
import time
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch
import torch.distributed as dist

from .._trainer import Trainer, describe_policy
from . import _builtin, _checkpoint, _hooks, _model, _pipe, _trace
from ._buffers import Buffers
from ._elastic import Elastic, ElasticGroup
from ._group import find
from ._ledger import Closer
from ._refusal import refusal_of
from ._slot import Slot
from ._steps import OPEN, Steps
from ._tensors import NAMES, _short, is_dense_block
from ._updates import Library, Wrapped

_SET_TO_NONE = inspect.signature(torch.optim.Optimizer.zero_grad).parameters["set_to_none"].default  # as this torch has it
GRACE = 10.0  # seconds between ranks that are refused alike and close; less where the group's timeout is short


class DistributedOptimizer(torch.optim.Optimizer):
    """See the module's text. `optimizer` is wrapped: its param_groups are this one's too. builtin:
    True, False, or None (where the library does exactly what the optimizer does). clip_norm:
    gradients of all parameters together are clipped to this norm. wire "bf16": f32 gradients travel
    in half the bytes, added in f32; what rounding takes away is added to the next gradient; p.grad
    cannot be looked at then. profile: what tutti.torch.profile() returned or wrote, rank 0's
    counts: buckets and their order are planned with its times. pipe: large Linear layers are
    computed block by block while their parts travel (_pipe.py). broadcast_buffers: rank 0's buffers
    count, as with DDP. elastic: training goes on when ranks of an ElasticGroup die and when ranks
    come (_elastic.py), looked for every `admit_every` steps; p.grad cannot be looked at, buffers
    are each rank's own. A newcomer gets parameters, optimizer state, the groups' values and a
    member's buffers, and what `save` returned on a member is given to `load`."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        model: torch.nn.Module,
        policy: str = "dear",
        process_group: Optional[Any] = None,
        find_unused_parameters: bool = False,
        builtin: Optional[bool] = None,
        clip_norm: float = 0.0,
        wire: str = "f32",
        profile: Optional[Any] = None,
        pipe: bool = True,
        broadcast_buffers: bool = True,
        elastic: bool = False,
        admit_every: int = 10,
        save: Optional[Callable[[], bytes]] = None,
        load: Optional[Callable[[bytes], None]] = None,
        **options: Any,
    ) -> None:
        group = find(process_group if process_group is not None else dist.distributed_c10d._get_default_group())
        if group is None:
            raise TypeError('DistributedOptimizer needs a process group of the backend "tutti"')
        self.inner, self.model, self.policy, self.group, self.clip_norm = optimizer, model, policy, group, clip_norm
        deferred, sharded = describe_policy(policy)
        _check_use(optimizer, model)
        self.builtin = self._choose(builtin, sharded)
        self.wire = self._check_wire(wire, sharded)
        found, owned = _model.trained(model, optimizer)
        _check_free(found)
        self._elastic = self._go_elastic(admit_every, save, load) if elastic else None
        if self._elastic is None:
            _model.check_alike(group, model)
        self._norm = 0.0
        self._trainer = self._open(find_unused_parameters, options)
        updates = Library(self._trainer, optimizer, self._kind) if self.builtin else Wrapped(self._trainer, optimizer)
        refusal = refusal_of(policy, sharded, wire, elastic)
        self._steps = Steps(self._trainer, updates, deferred, sharded, find_unused_parameters, refusal)
        if self._elastic is None:
            self._share()
        self._add_tensors(found, _times_of(profile), sharded or elastic)
        self._strangers = self._find_strangers()
        self._buffers = Buffers(group, model, broadcast_buffers and not elastic)
        if self.builtin and optimizer.state and not self._trainer.steps():
            _checkpoint.restore(self._trainer, self._slots, optimizer, optimizer.state_dict())
            optimizer.state.clear()
        self._install(owned, pipe and not elastic)

    # ---- making ----

    @property
    def _slots(self) -> List[Slot]:
        return self._steps.slots

    def _choose(self, asked: Optional[bool], sharded: bool) -> bool:
        why = "builtin=False" if asked is False else _builtin.reason(self.inner, bool(asked))
        if why and (asked or sharded):
            raise ValueError(f"tutti: the library's optimizer cannot do this one's work: {why}")
        return not why

    def _check_wire(self, wire: str, sharded: bool) -> str:
        if wire not in ("f32", "bf16"):
            raise ValueError(f"wire is {wire!r}: f32 or bf16")
        if wire != "f32" and (not self.builtin or sharded):
            raise ValueError(f"tutti: wire {wire!r} is for the library's own SGD, Adam and AdamW (builtin) and not for {self.policy}")
        return wire

    def _go_elastic(self, every: int, save: Any, load: Any) -> Elastic:
        if not isinstance(self.group, ElasticGroup):
            raise TypeError("elastic=True needs process_group=tutti.torch.ElasticGroup(): the ranks of torch.distributed never change")
        if not self.builtin:
            raise ValueError("elastic=True is for the library's own SGD, Adam and AdamW (builtin)")
        return Elastic(self.group, self.model, self.inner, every, save, load)

    def _open(self, unused: bool, options: Dict[str, Any]) -> Trainer:
        self._kind = _builtin.kind_of(self.inner) if self.builtin else "none"
        more = dict(options, optimizer=self._kind, clip_norm=self.clip_norm if self.builtin else 0.0)
        if self.wire != "f32":
            more.setdefault("algo", "direct")
        if self._elastic is not None:
            more.update(self._elastic.options)
            more.setdefault("redundancy", int(describe_policy(self.policy)[1]))
            return self._elastic.open(lambda: Trainer(self.group._comm, self.policy, allow_unused=unused, keep_grads=True, **more))
        return Trainer(self.group._comm, self.policy, allow_unused=unused, keep_grads=True, no_broadcast=True, **more)

    def _add_tensors(self, found: List[_model.Trained], times: Dict[str, Any], sharded: bool) -> None:
        slots = [self._add_tensor(x, times) for x in found]
        self._steps.set_slots(slots)
        self._steps.updates.set_values()
        self._trainer.freeze()
        if self._elastic is not None:
            self._elastic.check()
            self._steps.count = self._trainer.steps()
        for s in slots:
            s.stand_in = s.narrow or sharded
            s.bind(self._trainer.grad(s.index), torch.bfloat16 if s.narrow else s.param.dtype)

    def _add_tensor(self, x: _model.Trained, times: Dict[str, Any]) -> Slot:
        p = x.param
        if p.dtype not in NAMES or not is_dense_block(p) or p.device.type != "cpu":
            raise ValueError(f"{x.name}: {p.dtype} on {p.device.type}: contiguous CPU parameters of a known type are needed")
        more: Dict[str, Any] = {"param": p.data_ptr()} if self.builtin and p.numel() else {}
        more["forward_us"], more["backward_us"] = times.get(_short(x.name), (0.0, 0.0))
        narrow, dtype = self.wire != "f32" and p.dtype == torch.float32 and p.numel() > 0, NAMES[p.dtype]
        if narrow:
            dtype, more["wide_param"] = self.wire, True
        kind = _model.kind_of(x.module)
        slot = Slot(x.name, x.module, x.key, p, self._trainer.add(x.name, p.numel(), dtype, kind, layer=x.layer, group=x.group, **more))
        slot.narrow = narrow
        return slot

    def _find_strangers(self) -> List[torch.nn.Parameter]:
        """Parameters that were frozen when this was made."""
        known = {id(s.param) for s in self._slots}
        return [p for g in self.inner.param_groups for p in g["params"] if id(p) not in known]

    def _share(self) -> None:
        """Everybody starts with rank 0's parameters and buffers, as with DDP."""
        for t in [*self.model.parameters(), *self.model.buffers()]:
            if t.numel():
                self.group.broadcast([t.detach()], 0).wait()

    def _install(self, owned: Dict[torch.nn.Module, List[int]], pipe: bool) -> None:
        silent = []
        for module, numbers in owned.items() if pipe else ():
            alone = sum(len({*numbers} & {*others}) > 0 for others in owned.values()) == 1
            piped = _pipe.install(self._steps, module, [self._slots[i] for i in numbers]) if alone else None
            self._steps.pipes += [piped] if piped else []
            if piped and self.builtin and self._steps.deferred:
                silent.append(module)  # the pipe waits
        self._handles = _hooks.install(self._steps, self.model, owned, silent, self._buffers)
        _model.managed[self.model] = weakref.ref(self)
        _owners.update((id(s.param), self._steps) for s in self._slots)
        _trace._sources.add(self._steps)
        self._leave = _leave(weakref.ref(self), self._trainer, self._slots)
        Closer.of(self.group).parts.insert(0, self._leave)

    # ---- what users call ----

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """The gradients of this iteration are complete. Parameters are updated when they are next
        used (or now, as the policy says)."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with self._steps.lock:
            self._steps.check_open()
            self._check_places()
            if self.clip_norm and not self.builtin:
                self.synchronize()
                params = [s.param for s in self._slots if s.param.grad is not None]
                self._norm = float(torch.nn.utils.clip_grad_norm_(params, self.clip_norm)) if params else 0.0
            self._steps.step()
            self._buffers.share()
            if self._elastic is not None:
                self._elastic.after_step(self.flush)
                self._elastic.check()
        return loss

    @property
    def steps(self) -> int:
        """How many were made; with elastic=True also before this rank came."""
        return self._steps.count

    def _check_places(self) -> None:
        for s in self._slots:
            if s.module._parameters.get(s.key) is not s.param:
                raise RuntimeError(f"tutti: {s.name} is another Parameter now: write into it (p.copy_), or make the DistributedOptimizer anew")
            if self.builtin and not s.pending and s.param.data_ptr() != s.address:
                raise RuntimeError(
                    f"tutti: {s.name} is not where it was: write into parameters (p.copy_), do not replace their memory (p.data = ...)"
                )
        if any(p.grad is not None for p in self._strangers):
            raise RuntimeError(
                "tutti: a parameter that was frozen when the DistributedOptimizer was made has a gradient: make it with all of them unfrozen, "
                "freeze then (find_unused_parameters=True)"
            )

    def synchronize(self) -> None:
        """Makes every p.grad the average over all ranks, now, between backward() and step().
        Looking at any p.grad does the same. After step() p.grad is the average that was used, and
        nothing happens."""
        with self._steps.lock:
            self._steps.check_open()
            self._steps.average()

    def flush(self) -> None:
        """Finishes every update that is on its way. Using a parameter in Python does the same for
        that parameter."""
        self._steps.flush()
        self._buffers.wait()

    def reload(self) -> None:
        """f16 and bf16 parameters were changed by hand, on all ranks alike: the f32 copies that the
        library updates are taken anew."""
        self._steps.check_open()
        self.flush()
        if self.builtin and self._steps.phase != OPEN:
            self._trainer.reload()

    @property
    def grad_norm(self) -> float:
        """With clip_norm: the norm of the last step that was waited for, before clipping."""
        return self._trainer.norm() if self.builtin else self._norm

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients accumulate on this rank; the first backward outside communicates their sum."""
        before, self._steps.syncing = self._steps.syncing, False
        try:
            yield
        finally:
            self._steps.syncing = before

    def zero_grad(self, set_to_none: bool = _SET_TO_NONE) -> None:
        """As torch's. Gradients that no step() has used are dropped."""
        with self._steps.lock:
            self._steps.zero_grad(set_to_none)
        for p in self._strangers:
            if p.grad is not None and set_to_none:
                p.grad = None
            elif p.grad is not None:
                p.grad.zero_()

    def state_dict(self) -> Dict[str, Any]:  # type: ignore[override]
        """In torch's form, with every update done; complete on every rank. With dear-sharded all
        ranks call it together."""
        if self._trainer._handle is None:
            return self.inner.state_dict()
        if self.builtin:
            if self._steps.phase == OPEN:
                self.synchronize()
            self.flush()
            _checkpoint.export(self._trainer, self._slots, self.inner)
        self.flush()
        found = self.inner.state_dict()
        if self.builtin:
            self.inner.state.clear()
        return found

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """From this one's state_dict, or that of a torch optimizer of the same kind. The same on
        all ranks."""
        self._steps.check_open()
        if self.builtin and self._steps.phase == OPEN:
            self.synchronize()
        self.flush()
        self.inner.load_state_dict(state_dict)
        if self.builtin:
            _checkpoint.restore(self._trainer, self._slots, self.inner, state_dict)
            self.inner.state.clear()

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """Buckets are fixed."""
        raise NotImplementedError("parameters are fixed when a DistributedOptimizer is made: close() it, add the group to the torch optimizer, make it anew")

    def close(self, keep_state: bool = True) -> None:
        """Finishes and gives everything back: the model and the wrapped optimizer are ordinary ones
        again, which go on where this one was (without keep_state the optimizer begins anew). All
        ranks together; after a refusal on one rank alone it ends the group."""
        with self._steps.lock:
            if self._trainer._own is None:
                return
            try:
                if keep_state and self._steps.refused:
                    self._meet_refused(self._steps.refused)
                self._steps.drop()
                self.flush()
                if self._elastic is not None and self._steps.phase != OPEN and keep_state:
                    self._elastic.end(self.flush)
                if self.builtin and keep_state and self._steps.phase != OPEN:
                    _checkpoint.export(self._trainer, self._slots, self.inner)
            finally:
                self._end()

    def _meet_refused(self, why: str) -> None:
        """A step was refused here, and perhaps here alone: the others wait for its rest then.
        Returns when all ranks are closing. Whoever does not come soon is training on, and is told
        why this rank does not: the group ends, as after any error of one rank."""
        grace = min(GRACE, self.group._ledger.limit / 3)  # before the others' own deadline
        work, end = self.group.barrier(), time.monotonic() + grace
        while not work.is_completed() and time.monotonic() < end:
            time.sleep(0.002)
        if not work.is_completed():
            self.group._comm.abort(f"closed after a refusal: {why}")
        work.wait()

    def _end(self) -> None:
        for h in self._handles:
            h.remove()
        for p in self._steps.pipes:
            p.remove()
        self._buffers.close()
        self._steps.close()
        _model.managed.pop(self.model, None)
        parts = Closer.parts_of(self.group)
        if self._leave in parts:
            parts.remove(self._leave)
        self._trainer.close()

    @property
    def param_groups(self) -> List[Dict[str, Any]]:  # type: ignore[override]
        """The wrapped optimizer's."""
        return self.inner.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The wrapped optimizer's; empty where the library updates (state_dict() has it)."""
        return self.inner.state

    @property
    def defaults(self) -> Dict[str, Any]:  # type: ignore[override]
        """The wrapped optimizer's."""
        return self.inner.defaults

    def __repr__(self) -> str:
        return f"DistributedOptimizer(policy={self.policy!r}, builtin={self.builtin}, {self.inner!r})"


_owners: "weakref.WeakValueDictionary[int, Steps]" = weakref.WeakValueDictionary()  # by id of a parameter


def _check_free(found: List[_model.Trained]) -> None:
    for x in found:
        steps = _owners.get(id(x.param))
        if steps is not None and steps.trainer._own is not None and any(s.param is x.param for s in steps.slots):
            raise ValueError(f"tutti: {x.name} is another DistributedOptimizer's: close() that one first")


def _check_use(optimizer: torch.optim.Optimizer, model: torch.nn.Module) -> None:
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        raise ValueError("DistributedOptimizer takes the place of DDP: pass the module inside, model.module")
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise ValueError(f"{type(optimizer).__name__} calls the model inside of step(): it works with DDP, not with DistributedOptimizer")


def _times_of(profile: Any) -> Dict[str, Any]:
    """Tensor to (forward, backward) microseconds: a layer's stand at its last tensor."""
    if profile is None:
        return {}
    if not isinstance(profile, dict):
        with open(profile, encoding="utf-8") as f:
            profile = json.load(f)
    return {x["tensors"][-1]["name"]: (x["forward_us"], x["backward_us"]) for x in profile["layers"] if x["tensors"]}


def _leave(ref: Any, trainer: Trainer, slots: List[Slot]) -> Callable[[], None]:
    """The end of the group, for an optimizer that is still there or not: parameters' memory lives
    until the trainer has written there for the last time, and what the caller has of the trainer's
    memory is moved out before that is freed."""
    memory = [s.param.detach() for s in slots]
    places = [s.place for s in slots]

    def close() -> None:
        me = ref()
        if me is not None:
            me.close(keep_state=False)
        for p in places if trainer._own is not None else ():
            p.move_out()
        trainer.close()
        memory.clear()

    return close
