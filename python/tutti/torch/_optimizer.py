"""DistributedOptimizer: the scheduling policies of the trainer (DeAR among them) for any torch optimizer, without DDP.

    opt = tutti.torch.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model, policy="dear")

The road of a gradient: autograd makes it, a hook copies it into its place in a bucket of the library, which communicates when the bucket is
full. step() ends the backward pass. With policies that reach into the next forward pass (dear, dear-sharded, bytescheduler) a hook before
each module's forward waits for that module's parameters; with the others step() does. Who updates: the library, when the optimizer is SGD,
Adam or AdamW as it knows them (_builtin.py), piece by piece while the rest arrives; otherwise the wrapped optimizer itself, on the
parameters that were waited for. Either way with the learning rate that held at step().

p.grad: None when backward begins; between backward() and step() whoever computes with it gets the average over all ranks (_lazy.py), so
that clip_grad_norm_ clips what it should; after step() None with policies that reach into the next forward pass, else the average until
zero_grad(), which makes it None.

Rules for users: parameters must be used in the forward of a module that owns them, or of one that contains it (modules whose owner is never
called, as in MultiheadAttention, are found in the first iteration and waited for at the model's own forward). state_dict() and
load_state_dict() of model and optimizer, `model.eval()` and leaving the program finish what is on its way; `flush()` does it by hand before
anything else looks at parameters. Who writes parameters himself calls `reload()`. Accumulation: `no_sync()`.
"""

import collections
import contextlib
import ctypes
import functools
import json
import weakref
from typing import Any, Dict, Iterator, List, Optional, Set

import torch
import torch.distributed as dist

from .._trainer import Trainer
from . import _builtin, _pipe, _trace
from ._group import ProcessGroupTutti
from ._lazy import lazy, plain
from ._ledger import Closer
from ._tensors import NAMES, _short

DEFERRED = ("dear", "dear-sharded", "bytescheduler")


def _kind(module: torch.nn.Module) -> str:
    if isinstance(module, torch.nn.modules.conv._ConvNd):
        return "conv"
    if isinstance(module, torch.nn.Linear):
        return "fc"
    if isinstance(module, (torch.nn.modules.batchnorm._BatchNorm, torch.nn.LayerNorm, torch.nn.GroupNorm)):
        return "norm"
    return "embedding" if isinstance(module, torch.nn.Embedding) else "other"


class _Slot:
    """One parameter: its place in the bucket and what it waits for."""

    def __init__(self, name: str, param: torch.nn.Parameter, index: int) -> None:
        self.name, self.param, self.index = name, param, index
        self.address = param.data_ptr()
        self.view: torch.Tensor = param
        self.lazy: torch.Tensor = param  # the same, averaged before anybody looks
        self.handed = False  # its gradient of this step is the library's
        self.piped = False  # handed over by a Pipe, and autograd has not said so yet
        self.pending = False  # an update is on its way
        self.late = False  # its update came after the forward pass that should have used it
        self.seen = False  # its owner's forward was called
        self.hook: Any = None


class DistributedOptimizer(torch.optim.Optimizer):
    """See the module's text. `optimizer` is wrapped: its param_groups are this one's too. builtin: True, False, or None (where the library
    does exactly what the optimizer does). clip_norm: gradients of all parameters together are clipped to this norm. wire "bf16": f32
    gradients travel in half the bytes, added in f32; what rounding takes away is added to the next gradient; p.grad is then None after
    backward(). profile: what tutti.torch.profile() returned or wrote, rank 0's counts: buckets and their order are planned with its
    times. pipe: large Linear layers are computed block by block while their parts travel (_pipe.py)."""

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
        **options: Any,
    ) -> None:
        group = process_group if process_group is not None else dist.distributed_c10d._get_default_group()
        if not isinstance(group, ProcessGroupTutti):
            raise TypeError('DistributedOptimizer needs a process group of the backend "tutti"')
        self.inner, self.model, self.policy, self.group, self.clip_norm = optimizer, model, policy, group, clip_norm
        self.builtin = self._choose(builtin)
        self.wire = self._check_wire(wire)
        self._times = _times_of(profile)
        if wire != "f32":
            options.setdefault("algo", "direct")
        kind = _builtin.kind_of(optimizer) if self.builtin else "none"
        more = dict(options, optimizer=kind, clip_norm=clip_norm if self.builtin else 0.0)
        self._trainer = Trainer(
            group._comm, policy, allow_unused=find_unused_parameters, keep_grads=True, no_broadcast=True, **more
        )
        self._kind = kind
        self._slots: List[_Slot] = []
        self._owned: Dict[torch.nn.Module, List[_Slot]] = {}
        self._snapshot: List[Dict[str, Any]] = []  # the groups' values at step(); of the library's optimizer: as it has them
        self._steps = 0
        self._norm = 0.0
        self._open = False  # gradients of this step have been handed over
        self._averaged = False  # synchronize() was called
        self._syncing = True
        self._discovering = True
        self._handles: List[Any] = []
        self._share()
        self._add_tensors()
        if self.builtin and optimizer.state:
            _builtin.restore(self._trainer, self._slots, optimizer, optimizer.state_dict())
            optimizer.state.clear()
        self._pipes: List[_pipe.Pipe] = []
        self._install(pipe)

    # ---- making ----

    def _choose(self, asked: Optional[bool]) -> bool:
        why = "builtin=False" if asked is False else _builtin.reason(self.inner, bool(asked))
        if why and (asked or self.policy == "dear-sharded"):
            raise ValueError(f"tutti: the library's optimizer cannot do this one's work: {why}")
        return not why

    def _check_wire(self, wire: str) -> str:
        if wire not in ("f32", "bf16"):
            raise ValueError(f"wire is {wire!r}: f32 or bf16")
        if wire != "f32" and (not self.builtin or self.policy == "dear-sharded"):
            raise ValueError(f"tutti: wire {wire!r} is for the library's own SGD, Adam and AdamW (builtin) and not for dear-sharded")
        return wire

    def _narrow(self, p: torch.Tensor) -> bool:
        return self.wire != "f32" and p.dtype == torch.float32 and p.numel() > 0

    def _add_tensors(self) -> None:
        trained = {id(p) for g in self.inner.param_groups for p in g["params"]}
        places = {id(p): i for i, g in enumerate(self.inner.param_groups) for p in g["params"]}
        known: Dict[int, _Slot] = {}
        names = {id(p): n for n, p in self.model.named_parameters()}
        for layer, module in enumerate(self.model.modules(), 1):
            for p in module.parameters(recurse=False):
                if not p.requires_grad or id(p) not in trained:
                    continue
                if id(p) not in known:
                    known[id(p)] = self._add_tensor(names[id(p)], p, module, layer, places[id(p)])
                self._owned.setdefault(module, []).append(known[id(p)])
        missing = [tuple(p.shape) for g in self.inner.param_groups for p in g["params"] if p.requires_grad and id(p) not in known]
        if missing:
            raise ValueError(f"parameters of shapes {missing} are the optimizer's but not the model's")
        self._set_groups()
        self._trainer.freeze()
        for s in self._slots:
            s.view = self._view(s)
            s.lazy = lazy(s.view, functools.partial(_call, weakref.ref(self), "_look"))

    def _add_tensor(self, name: str, p: torch.nn.Parameter, module: torch.nn.Module, layer: int, place: int) -> _Slot:
        if p.dtype not in NAMES or not p.is_contiguous() or p.device.type != "cpu":
            raise ValueError(f"{name}: {p.dtype} on {p.device.type}: contiguous CPU parameters of a known type are needed")
        more: Dict[str, Any] = {"param": p.data_ptr()} if self.builtin and p.numel() else {}
        more["forward_us"], more["backward_us"] = self._times.get(_short(name), (0.0, 0.0))
        dtype = NAMES[p.dtype]
        if self._narrow(p):
            dtype, more["wide_param"] = self.wire, True
        index = self._trainer.add(name, p.numel(), dtype, _kind(module), layer=layer, group=place, **more)
        self._slots.append(_Slot(name, p, index))
        return self._slots[-1]

    def _view(self, s: _Slot) -> torch.Tensor:
        """The gradient's place in its bucket, as a tensor like the parameter."""
        dtype = torch.bfloat16 if self._narrow(s.param) else s.param.dtype
        nbytes = s.param.numel() * torch.empty((), dtype=dtype).element_size()
        if not nbytes:
            return torch.zeros_like(s.param)
        memory = (ctypes.c_char * nbytes).from_address(self._trainer.grad(s.index))
        return torch.frombuffer(memory, dtype=dtype).view(s.param.shape)

    def _share(self) -> None:
        """Everybody starts with rank 0's parameters and buffers, as with DDP."""
        for t in [*self.model.parameters(), *self.model.buffers()]:
            if t.numel():
                self.group.broadcast([t.detach()], 0).wait()

    def _install(self, pipe: bool) -> None:
        me = weakref.ref(self)
        owners = collections.Counter(s.index for slots in self._owned.values() for s in slots)
        for s in self._slots:
            s.param.grad = None
            s.hook = _after_accumulation(s.param, lambda s=s: _call(me, "_ready", s))
        for module, slots in self._owned.items():
            alone = all(owners[s.index] == 1 for s in slots)
            piped = _pipe.install(self, module, slots) if pipe and alone else None
            self._pipes += [piped] if piped else []
            if piped and self.builtin and self.policy in DEFERRED:
                continue  # the pipe waits
            self._handles.append(module.register_forward_pre_hook(lambda _m, _i, slots=slots: _call(me, "_before", slots)))
        self._handles.append(self.model.register_forward_pre_hook(lambda _m, _i: _call(me, "_before_all")))
        for module in self.model.modules():  # a state_dict's tensors share the parameters' memory: afterwards is early enough
            self._handles.append(module._register_state_dict_hook(lambda *_: _call(me, "flush")))
            self._handles.append(module._register_load_state_dict_pre_hook(lambda *_: _call(me, "flush")))
            self._handles.append(module.register_load_state_dict_post_hook(lambda *_: _call(me, "reload")))
        object.__setattr__(self.model, "eval", _Eval(self.model, me))
        object.__setattr__(self.model, "_tutti_optimizer", me)
        _trace._sources.add(self)
        Closer.of(self.group).parts.insert(0, _leave(weakref.ref(self), self._trainer))

    # ---- hooks ----

    def _ready(self, s: _Slot) -> None:
        """Autograd has accumulated the gradient of s."""
        if s.piped:
            self._check_piped(s)
            return
        if self._discovering and not s.seen:
            s.seen = True
            self._owned.setdefault(self.model, []).append(s)
        if not s.pending and not self._syncing:
            return
        if not self._open:
            self._begin()
        if s.late:
            raise RuntimeError(f"{s.name} was used before its update had come: it is not used in the forward of a module that owns it")
        for p in self._pipes:
            if s in p.slots:
                p.judge(s, plain(s.param.grad))
        self._give(s)

    def _give(self, s: _Slot) -> None:
        """A gradient becomes the library's."""
        grad = plain(s.param.grad)
        if grad is None:
            s.view.zero_()
        elif self._narrow(s.param):
            grad = grad.contiguous()
            self._trainer.put_grad(s.index, grad.data_ptr())
        elif grad.data_ptr() != s.view.data_ptr():
            s.view.copy_(grad)
        s.param.grad = None if self._narrow(s.param) else s.lazy
        s.handed = True
        self._trainer.grad_ready(s.index)

    def _may_pipe(self, slots: List[_Slot]) -> bool:
        """May these gradients be handed over by a Pipe? Begins a step if there is none."""
        twice = next((s.name for s in slots if s.handed and self._open and self._syncing), None)
        if twice:
            raise RuntimeError(f"tutti: a second gradient of {twice} before step(): accumulate under no_sync()")
        if not self._syncing or any(plain(s.param.grad) is not None for s in slots):
            return False
        if not self._open:
            self._begin()
        return True

    def _put(self, s: _Slot, grad: torch.Tensor) -> None:
        """A gradient that autograd does not accumulate."""
        s.param.grad = grad
        self._give(s)
        self._handed(s)

    def _put_rows(self, s: _Slot, a: int, b: int, given: torch.Tensor, rows: torch.Tensor) -> None:
        """Rows a to b of a Linear's weight gradient, into their place."""
        if not self._narrow(s.param):
            torch.mm(given[:, a:b].t(), rows, out=s.view[a:b])
            return
        block = given[:, a:b].t().mm(rows)
        self._trainer.put_range(s.index, a * s.param.shape[1], block.numel(), block.data_ptr())

    def _handed(self, s: _Slot) -> None:
        """All of the gradient of s is the library's. Until the backward pass is over autograd must not add to it."""
        s.param.grad = None
        s.handed = s.piped = True

    def _check_piped(self, s: _Slot) -> None:
        if s.param.grad is not None:
            raise RuntimeError(
                f"tutti: {s.name} got a gradient from elsewhere, not from its layer alone as in the first step: DistributedOptimizer(..., pipe=False)"
            )

    def _show_piped(self, slots: List[_Slot]) -> None:
        for s in slots:
            self._check_piped(s)
            s.param.grad = s.lazy if s.piped and self._open and not self._narrow(s.param) else None

    def _begin(self) -> None:
        """The first gradient of a step. With dear-sharded, updates begin from here on."""
        self._finish_leftovers()
        self._open, self._averaged = True, False
        for s in self._slots:
            s.handed = s.piped = False
        if self.policy == "dear-sharded":
            self._set_groups()

    def _finish_leftovers(self) -> None:
        """What no forward has asked for since the last step: unused, or used behind our back."""
        self._discovering = self._discovering and not self._steps
        left = [s for s in self._slots if s.pending]
        for s in self._slots:
            s.late = False
        for s in left:
            s.late = True
        if left:
            self._settle(left)
        _trace.collect(self)

    def _before(self, slots: List[_Slot]) -> None:
        if self._discovering:
            for s in slots:
                s.seen = True
        waiting = [s for s in slots if s.pending]
        if waiting:
            self._settle(waiting)

    def _before_all(self) -> None:
        """The model's own forward: parameters that no module's forward announces."""
        self._before([s for s in self._owned.get(self.model, []) if s.pending])

    # ---- updates ----

    def _settle(self, slots: List[_Slot]) -> None:
        """Waits until parameters are updated, or for averaged gradients that the wrapped optimizer then uses."""
        for s in slots:
            self._trainer.wait_param(s.index)
            s.pending = False
        if not self.builtin:
            self._show(slots)
            self._update(slots)
        if self.policy in DEFERRED:
            for s in slots:
                s.param.grad = None

    def _show(self, slots: List[_Slot]) -> None:
        for s in slots:
            s.param.grad = s.view if self._trainer.used(s.index) and not self._narrow(s.param) else None

    def _update(self, slots: List[_Slot]) -> None:
        """The wrapped optimizer's step on these parameters only, with the values that held at step()."""
        chosen: Set[int] = {id(s.param) for s in slots}
        groups = self.inner.param_groups
        try:
            self.inner.param_groups = [
                dict(values, params=[p for p in g["params"] if id(p) in chosen]) for g, values in zip(groups, self._snapshot)
            ]
            with torch.no_grad():
                self.inner.step()
        finally:
            self.inner.param_groups = groups

    def _set_groups(self) -> None:
        """Values of the parameter groups, for the step that is about to end (dear-sharded: begin)."""
        if not self.builtin:
            self._snapshot = [{k: v for k, v in g.items() if k != "params"} for g in self.inner.param_groups]
            return
        values = [_builtin.values_of(self._kind, g) for g in self.inner.param_groups]
        for i, v in enumerate(values):
            if i >= len(self._snapshot) or v != self._snapshot[i]:
                self._trainer.set_group(i, **v)
        self._snapshot = values

    def _check_places(self) -> None:
        moved = next((s.name for s in self._slots if s.param.data_ptr() != s.address), None)
        if moved and self.builtin:
            raise RuntimeError(f"tutti: {moved} is not where it was: write into parameters (p.copy_), do not replace their memory (p.data = ...)")

    # ---- what users call ----

    def step(self, closure: Any = None) -> Any:
        """The gradients of this iteration are complete. Parameters are updated when they are next used (or now, as the policy says)."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._check_places()
        if self.clip_norm and not self.builtin:
            self.synchronize()
            params = [s.param for s in self._slots if s.param.grad is not None]
            self._norm = float(torch.nn.utils.clip_grad_norm_(params, self.clip_norm)) if params else 0.0
        if self.policy != "dear-sharded":
            self._set_groups()
        self._steps += 1
        for p in self._pipes:
            p.begin()
        if self._averaged:
            self._step_averaged()
        else:
            self._hand_over()
            self._trainer.step()
            self._pend()
        if self.policy not in DEFERRED:
            self._settle_now()
        if self.builtin:  # learning rate schedulers of the wrapped optimizer look at it: 1.13's at the one, 2.x's at the other
            self.inner._step_count = getattr(self.inner, "_step_count", 0) + 1  # type: ignore[attr-defined]
            self.inner._opt_called = True  # type: ignore[attr-defined]
        return loss

    def _hand_over(self) -> None:
        """What the last backward pass did not bring: gradients of earlier ones that were not synchronised."""
        if not self._open:
            self._begin()
        for s in self._slots:
            if not s.handed and s.param.grad is not None:
                self._give(s)

    def _pend(self) -> None:
        self._open = False
        for s in self._slots:
            s.pending = True
            s.param.grad = None

    def _settle_now(self) -> None:
        self.flush()
        self._show(self._slots)

    def _step_averaged(self) -> None:
        """The gradients are there already, and the caller may have changed them."""
        self._averaged = False
        if not self.builtin:
            self._update(self._slots)
            for s in self._slots:
                s.param.grad = None if self.policy in DEFERRED else s.param.grad
            return
        for s in self._slots:
            grad = plain(s.param.grad)
            if grad is None and self._trainer.used(s.index):
                raise RuntimeError(f"tutti: the gradient of {s.name} was taken away (p.grad = None): builtin=False allows that")
            if grad is not None and grad.data_ptr() != s.view.data_ptr():
                s.view.copy_(grad)
        self._trainer.step()
        self._pend()

    def _look(self) -> None:
        """Somebody uses a p.grad."""
        if self._open:
            self.synchronize()

    def synchronize(self) -> None:
        """Makes every p.grad the average over all ranks, now, between backward() and step(). Looking at any p.grad does the same."""
        if self._averaged:
            return
        if self.policy == "dear-sharded":
            raise RuntimeError("tutti: with dear-sharded no rank has all averaged gradients: clip with clip_norm=, or use another policy")
        if self.wire != "f32":
            raise RuntimeError(f"tutti: gradients that travel as {self.wire} are no p.grad of f32 parameters: clip with clip_norm=")
        self._check_places()
        self._set_groups()
        self._hand_over()
        self._open = False
        if self.builtin:
            self._trainer.average()
        else:
            self._trainer.step()
            self._trainer.flush()
        self._show(self._slots)
        self._averaged = True

    def flush(self) -> None:
        """Finishes every update that is on its way: afterwards parameters are those of the last step()."""
        left = [s for s in self._slots if s.pending]
        if left:
            self._settle(left)

    def reload(self) -> None:
        """Parameters were changed by hand, on all ranks alike (loading a state_dict into the model does it by itself)."""
        self.flush()
        if self.builtin and not self._open and not self._averaged:
            self._trainer.reload()

    @property
    def grad_norm(self) -> float:
        """With clip_norm: the norm of the last step that was waited for, before clipping."""
        return self._trainer.norm() if self.builtin else self._norm

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients accumulate on this rank; the first backward outside communicates their sum."""
        before, self._syncing = self._syncing, False
        try:
            yield
        finally:
            self._syncing = before

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Makes every p.grad None, whatever the argument; gradients on their way are not touched."""
        for s in self._slots:
            if not self._open:
                s.param.grad = None

    def state_dict(self) -> Dict[str, Any]:
        """In torch's form, with every update done; complete on every rank. With dear-sharded all ranks call it together."""
        if self._open and self.builtin:
            raise RuntimeError("tutti: optimizer.state_dict() between backward() and step(): the library has the gradients; call it after step()")
        self.flush()
        if self.builtin:
            _builtin.export(self._trainer, self._slots, self.inner)
        found = self.inner.state_dict()
        if self.builtin:
            self.inner.state.clear()
        return found

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """From this one's state_dict, or that of a torch optimizer of the same kind. The same on all ranks."""
        self.flush()
        self.inner.load_state_dict(state_dict)
        if self.builtin:
            _builtin.restore(self._trainer, self._slots, self.inner, state_dict)
            self.inner.state.clear()

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """Buckets are fixed."""
        raise NotImplementedError("parameters are fixed when a DistributedOptimizer is made")

    def close(self, keep_state: bool = True) -> None:
        """Finishes and gives everything back: the model and the wrapped optimizer are ordinary ones again, which go on where this one was
        (without keep_state the optimizer begins anew). All ranks together."""
        if self._trainer._handle is None:
            return
        self.flush()
        if self.builtin and keep_state and not self._open:
            _builtin.export(self._trainer, self._slots, self.inner)
        for h in self._handles:
            h.remove()
        for s in self._slots:
            s.hook = None
            s.param.grad = None
            s.view = s.lazy = s.param
        for name in ("_tutti_optimizer", "eval"):
            self.model.__dict__.pop(name, None)
        for p in self._pipes:
            p.remove()
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


def _times_of(profile: Any) -> Dict[str, Any]:
    """Tensor to (forward, backward) microseconds: a layer's stand at its last tensor."""
    if profile is None:
        return {}
    if not isinstance(profile, dict):
        with open(profile, encoding="utf-8") as f:
            profile = json.load(f)
    return {x["tensors"][-1]["name"]: (x["forward_us"], x["backward_us"]) for x in profile["layers"] if x["tensors"]}


def _call(ref: Any, name: str, *args: Any) -> None:
    me = ref()
    if me is not None and me._trainer._handle is not None:
        getattr(me, name)(*args)


def _after_accumulation(p: torch.nn.Parameter, f: Any) -> Any:
    """Calls f() after p.grad has been accumulated; what is returned must be kept."""
    if hasattr(p, "register_post_accumulate_grad_hook"):
        return p.register_post_accumulate_grad_hook(lambda _: f())
    node = p.expand_as(p).grad_fn.next_functions[0][0]  # type: ignore[union-attr]
    return node, node.register_hook(lambda *_: f())


class _Eval:
    """model.eval() with every update done. A copy of the model has nothing to do with us."""

    def __init__(self, model: torch.nn.Module, me: Any) -> None:
        self._model, self._me = weakref.ref(model), me

    def _plain(self, model: Any) -> Any:
        return functools.partial(type(model).eval, model)

    def __call__(self) -> Any:
        _call(self._me, "flush")
        return self._plain(self._model())()

    def __deepcopy__(self, memo: Dict[int, Any]) -> Any:
        return self._plain(memo.get(id(self._model())))


def _leave(ref: Any, trainer: Trainer) -> Any:
    def close() -> None:
        me = ref()
        if me is not None:
            me.close(keep_state=False)
        trainer.close()

    return close
