"""DistributedOptimizer: the scheduling policies of the trainer (DeAR among them) for any torch optimizer, without DDP.

    opt = tutti.torch.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model, policy="dear")

The road of a gradient: p.grad is a view of a bucket in the library. When autograd has accumulated it, a hook tells the library, which
communicates when the bucket is full. step() ends the backward pass. With policies that reach into the next forward pass (dear,
bytescheduler) a hook before each module's forward waits for the averaged gradients of that module's parameters and lets the wrapped
optimizer update them, with the learning rate that held at step(); with the others step() waits and updates at once. Between the two, p.grad
is None: what is on its way belongs to the library.

Rules for users: parameters must be used in the forward of a module that owns them, or of one that contains it (modules whose owner is never
called, as in MultiheadAttention, are found in the first iteration and waited for at the model's own forward). `model.state_dict()`,
`model.eval()`, `optimizer.state_dict()` and leaving the program finish what is on its way; `flush()` does it by hand before anything else
looks at parameters. For gradient clipping, `synchronize()` makes p.grad the averaged gradients before step(). Accumulation: `no_sync()`.
"""

import contextlib
import ctypes
import weakref
from typing import Any, Dict, Iterator, List, Optional, Set

import torch
import torch.distributed as dist

from .._trainer import Trainer
from ._group import ProcessGroupTutti
from ._ledger import Closer
from ._tensors import NAMES

DEFERRED = ("dear", "bytescheduler")


def _kind(module: torch.nn.Module) -> str:
    if isinstance(module, torch.nn.modules.conv._ConvNd):
        return "conv"
    if isinstance(module, torch.nn.Linear):
        return "fc"
    if isinstance(module, (torch.nn.modules.batchnorm._BatchNorm, torch.nn.LayerNorm, torch.nn.GroupNorm)):
        return "norm"
    return "embedding" if isinstance(module, torch.nn.Embedding) else "other"


class _Slot:
    """One parameter: its view in the bucket, the modules that own it, what it waits for."""

    def __init__(self, name: str, param: torch.nn.Parameter, index: int) -> None:
        self.name, self.param, self.index = name, param, index
        self.view: torch.Tensor = param
        self.pending = False  # an averaged gradient is on its way
        self.late = False  # its update came after the forward pass that should have used it
        self.seen = False  # its owner's forward was called
        self.hook: Any = None


class DistributedOptimizer(torch.optim.Optimizer):
    """See the module's text. `optimizer` is wrapped: its param_groups and state are this one's too."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        model: torch.nn.Module,
        policy: str = "dear",
        process_group: Optional[Any] = None,
        find_unused_parameters: bool = False,
        **options: Any,
    ) -> None:
        group = process_group if process_group is not None else dist.distributed_c10d._get_default_group()
        if not isinstance(group, ProcessGroupTutti):
            raise TypeError('DistributedOptimizer needs a process group of the backend "tutti"')
        if policy == "dear-sharded":
            raise NotImplementedError("dear-sharded keeps the optimizer's state in the library, which cannot give it back for checkpoints")
        self.inner, self.model, self.policy, self.group = optimizer, model, policy, group
        self._trainer = Trainer(group._comm, policy, allow_unused=find_unused_parameters, keep_grads=True, **options)
        self._slots: List[_Slot] = []
        self._owned: Dict[torch.nn.Module, List[_Slot]] = {}
        self._snapshot: List[Dict[str, Any]] = []
        self._open = False  # gradients of this step have been handed over
        self._averaged = False  # synchronize() was called
        self._syncing = True
        self._discovering = True
        self._handles: List[Any] = []
        self._add_tensors()
        self._share()
        self._install()

    # ---- making ----

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
        self._trainer.freeze()
        for s in self._slots:
            s.view = self._view(s)

    def _add_tensor(self, name: str, p: torch.nn.Parameter, module: torch.nn.Module, layer: int, place: int) -> _Slot:
        if p.dtype not in NAMES or not p.is_contiguous() or p.device.type != "cpu":
            raise ValueError(f"{name}: {p.dtype} on {p.device.type}: contiguous CPU parameters of a known type are needed")
        index = self._trainer.add(name, p.numel(), NAMES[p.dtype], _kind(module), layer=layer, group=place)
        self._slots.append(_Slot(name, p, index))
        return self._slots[-1]

    def _view(self, s: _Slot) -> torch.Tensor:
        """The gradient's place in its bucket, as a tensor like the parameter."""
        nbytes = s.param.numel() * s.param.element_size()
        if not nbytes:
            return torch.zeros_like(s.param)
        memory = (ctypes.c_char * nbytes).from_address(self._trainer.grad(s.index))
        view = torch.frombuffer(memory, dtype=s.param.dtype).view(s.param.shape)
        view.zero_()
        return view

    def _share(self) -> None:
        """Everybody starts with rank 0's parameters and buffers, as with DDP."""
        for t in [*self.model.parameters(), *self.model.buffers()]:
            if t.numel():
                self.group.broadcast([t.detach()], 0).wait()

    def _install(self) -> None:
        me = weakref.ref(self)
        for s in self._slots:
            s.param.grad = s.view
            s.hook = _after_accumulation(s.param, lambda s=s: _call(me, "_ready", s))
        for module, slots in self._owned.items():
            self._handles.append(module.register_forward_pre_hook(lambda _m, _i, slots=slots: _call(me, "_before", slots)))
        self._handles.append(self.model.register_forward_pre_hook(lambda _m, _i: _call(me, "_before_all")))
        for name in ("state_dict", "eval"):
            _wrap(self.model, name, lambda: _call(me, "flush"))
        Closer.of(self.group).parts.insert(0, _leave(weakref.ref(self), self._trainer))

    # ---- hooks ----

    def _ready(self, s: _Slot) -> None:
        """Autograd has accumulated the gradient of s."""
        if not self._syncing:
            return
        if not self._open:
            self._finish_leftovers()
            self._open = True
        if s.late:
            raise RuntimeError(f"{s.name} was used before its update had come: it is not used in the forward of a module that owns it")
        grad = s.param.grad
        if grad is not None and grad.data_ptr() != s.view.data_ptr():
            s.view.copy_(grad)
        s.param.grad = s.view
        if self._discovering and not s.seen:
            self._owned.setdefault(self.model, []).append(s)
        self._trainer.grad_ready(s.index)

    def _finish_leftovers(self) -> None:
        """What no forward has asked for since the last step: unused, or used behind our back."""
        self._discovering = self._discovering and not self._snapshot
        left = [s for s in self._slots if s.pending]
        for s in self._slots:
            s.late = False
        for s in left:
            s.late = True
        if left:
            self._settle(left)

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

    def _settle(self, slots: List[_Slot]) -> None:
        """Waits for averaged gradients and lets the wrapped optimizer use them."""
        for s in slots:
            self._trainer.wait_param(s.index)
            s.pending = False
            s.param.grad = s.view if self._trainer.used(s.index) else None
        self._update(slots)
        for s in slots:
            s.view.zero_()
            s.param.grad = s.view

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

    # ---- what users call ----

    def step(self, closure: Any = None) -> Any:
        """The gradients of this iteration are complete. Parameters are updated when they are next used (or now, as the policy says)."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._snapshot = [{k: v for k, v in g.items() if k != "params"} for g in self.inner.param_groups]
        if self._averaged:
            self._averaged = False
            self._update(self._slots)
            self._clear()
            return loss
        self._hand_over()
        if self.policy not in DEFERRED:
            self.flush()
        return loss

    def _hand_over(self) -> None:
        if not self._open:
            self._finish_leftovers()
        self._trainer.step()
        self._open = False
        for s in self._slots:
            s.pending = True
            s.param.grad = None

    def _clear(self) -> None:
        for s in self._slots:
            s.view.zero_()
            s.param.grad = s.view

    def synchronize(self) -> None:
        """Makes every p.grad the average over all ranks, now: for gradient clipping and the like, between backward() and step()."""
        if self._averaged:
            return
        self._snapshot = self._snapshot or [{}]
        self._hand_over()
        self._trainer.flush()
        for s in self._slots:
            s.pending = False
            s.param.grad = s.view if self._trainer.used(s.index) else None
        self._averaged = True

    def flush(self) -> None:
        """Finishes every update that is on its way: afterwards parameters are those of the last step()."""
        left = [s for s in self._slots if s.pending]
        if left:
            self._settle(left)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients accumulate on this rank; the first backward outside communicates their sum."""
        self._syncing = False
        try:
            yield
        finally:
            self._syncing = True

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Gradients that are on their way are zeroed after their update; the others now."""
        for s in self._slots:
            if not s.pending and not self._open:
                s.view.zero_()
                s.param.grad = s.view

    def state_dict(self) -> Dict[str, Any]:
        """The wrapped optimizer's, with every update done."""
        self.flush()
        return self.inner.state_dict()

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Into the wrapped optimizer."""
        self.flush()
        self.inner.load_state_dict(state_dict)

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """Buckets are fixed."""
        raise NotImplementedError("parameters are fixed when a DistributedOptimizer is made")

    def close(self) -> None:
        """Finishes and gives everything back: the model is an ordinary one again."""
        if self._trainer._handle is None:
            return
        self.flush()
        for h in self._handles:
            h.remove()
        for s in self._slots:
            s.hook = None
            s.param.grad = None
            s.view = s.param
        self._trainer.close()

    @property
    def param_groups(self) -> List[Dict[str, Any]]:  # type: ignore[override]
        """The wrapped optimizer's."""
        return self.inner.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The wrapped optimizer's."""
        return self.inner.state

    @property
    def defaults(self) -> Dict[str, Any]:  # type: ignore[override]
        """The wrapped optimizer's."""
        return self.inner.defaults

    def __repr__(self) -> str:
        return f"DistributedOptimizer(policy={self.policy!r}, {self.inner!r})"


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


def _wrap(model: torch.nn.Module, name: str, before: Any) -> None:
    original = getattr(model, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        before()
        return original(*args, **kwargs)

    object.__setattr__(model, name, wrapped)


def _leave(ref: Any, trainer: Trainer) -> Any:
    def close() -> None:
        me = ref()
        if me is not None:
            me.close()
        trainer.close()

    return close
