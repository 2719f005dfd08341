"""tutti_trainer_*: gradients communicated while the model computes. Raw memory;
`tutti.torch.DistributedOptimizer` is what people use."""

import ctypes
from ctypes import POINTER, byref, c_bool, c_char_p, c_double, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from . import _exit, _lib
from ._comm import RawCommunicator
from ._lib import DTYPES, Error, _declare, _err, _ErrorStruct, lib

KINDS: Dict[str, int] = {name: i for i, name in enumerate(("other", "conv", "fc", "norm", "embedding"))}
OPTIMIZERS: Dict[str, int] = {name: i for i, name in enumerate(("none", "sgd", "adam", "adamw"))}
AVAILABLE = hasattr(lib, "tutti_trainer_open")


SAVE = ctypes.CFUNCTYPE(c_size_t, c_void_p, c_void_p, c_size_t)
LOAD = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_size_t)


class _Options(ctypes.Structure):
    """struct tutti_trainer_options."""

    _fields_ = [
        ("size", c_size_t),
        ("policy", c_char_p),
        ("algo", c_char_p),
        ("fusion", c_char_p),
        ("threshold_bytes", c_uint64),
        ("first_bytes", c_uint64),
        ("partition_bytes", c_uint64),
        ("nearby", c_uint32),
        ("cycle_us", c_uint64),
        ("recursive_doubling", c_bool),
        ("optimizer", c_int),
        ("clip_norm", c_double),
        ("allow_unused", c_bool),
        ("keep_grads", c_bool),
        ("no_broadcast", c_bool),
        ("window", c_uint32),
        ("elastic", c_bool),
        ("save", SAVE),
        ("load", LOAD),
        ("ctx", c_void_p),
        ("redundancy", c_uint32),
    ]


class _Tensor(ctypes.Structure):
    """struct tutti_tensor."""

    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("count", c_size_t),
        ("dtype", c_int),
        ("kind", c_int),
        ("layer", c_uint32),
        ("group", c_uint32),
        ("uses", c_uint32),
        ("param", c_void_p),
        ("grad", c_void_p),
        ("forward_us", c_double),
        ("backward_us", c_double),
        ("wide_param", c_bool),
    ]


class _Launch(ctypes.Structure):
    """struct tutti_trainer_launch."""

    _fields_ = [
        ("size", c_size_t),
        ("coll", c_char_p),
        ("bucket", c_uint32),
        ("first", c_char_p),
        ("last", c_char_p),
        ("algo", c_char_p),
        ("bytes", c_uint64),
        ("start_ns", c_uint64),
        ("end_ns", c_uint64),
    ]


class Launch(NamedTuple):
    """One collective of the last step. bucket None: norm and use of all tensors. Times of
    CLOCK_MONOTONIC, 0: not yet."""

    coll: str
    bucket: Optional[int]
    first: str
    last: str
    algo: str
    bytes: int
    start_ns: int
    end_ns: int


class _Group(ctypes.Structure):
    """struct tutti_group."""

    _fields_ = [
        ("size", c_size_t),
        ("lr", c_double),
        ("weight_decay", c_double),
        ("momentum", c_double),
        ("nesterov", c_bool),
        ("beta1", c_double),
        ("beta2", c_double),
        ("eps", c_double),
    ]


class _PolicyInfo(ctypes.Structure):
    """struct tutti_policy_info."""

    _fields_ = [("deferred", c_bool), ("sharded", c_bool)]


if AVAILABLE:
    _trainer = c_void_p
    _declare("tutti_trainer_open", c_void_p, POINTER(_Options), POINTER(_trainer), _err)
    _declare("tutti_trainer_add", _trainer, POINTER(_Tensor), POINTER(c_size_t), _err)
    _declare("tutti_trainer_set_group", _trainer, c_size_t, POINTER(_Group), _err)
    _declare("tutti_trainer_freeze", _trainer, _err)
    _declare("tutti_trainer_rebind", _trainer, c_void_p, _err)
    for _name in ("steps", "bound", "fingerprint"):
        _declare("tutti_trainer_" + _name, _trainer, result=c_uint64)
    _declare("tutti_trainer_grad", _trainer, c_size_t, result=c_void_p)
    _declare("tutti_trainer_param", _trainer, c_size_t, result=c_void_p)
    for _name in ("grad_ready", "wait_param"):
        _declare("tutti_trainer_" + _name, _trainer, c_size_t)
    for _name in ("part_ready", "wait_part"):
        _declare("tutti_trainer_" + _name, _trainer, c_size_t, c_size_t)
    _declare("tutti_trainer_part", _trainer, c_size_t, c_size_t, POINTER(c_size_t), POINTER(c_size_t), result=c_bool)
    _declare("tutti_trainer_put_grad", _trainer, c_size_t, c_void_p)
    _declare("tutti_trainer_put_range", _trainer, c_size_t, c_size_t, c_size_t, c_void_p)
    for _name in ("average", "step", "flush", "reload"):
        _declare("tutti_trainer_" + _name, _trainer)
    _declare("tutti_trainer_use", _trainer, c_size_t, c_bool)
    _declare("tutti_policy_describe", c_char_p, POINTER(_PolicyInfo), _err)
    _declare("tutti_trainer_sync", _trainer, c_bool)
    _declare("tutti_trainer_set_scale", _trainer, c_double)
    _declare("tutti_trainer_state_name", _trainer, c_size_t, c_size_t, result=c_char_p)
    _declare("tutti_trainer_state_get", _trainer, c_size_t, c_size_t, c_void_p, _err)
    _declare("tutti_trainer_state_set", _trainer, c_size_t, c_size_t, c_void_p, _err)
    _declare("tutti_trainer_updates", _trainer, c_size_t, result=c_uint64)
    _declare("tutti_trainer_set_updates", _trainer, c_size_t, c_uint64, _err)
    _declare("tutti_trainer_norm", _trainer, result=c_double)
    _declare("tutti_trainer_used", _trainer, c_size_t, result=c_bool)
    _declare("tutti_trainer_launch", _trainer, c_size_t, POINTER(_Launch), result=c_bool)
    _declare("tutti_trainer_last_error", _trainer, result=_err)
    _declare("tutti_trainer_close", _trainer, result=None)


def describe_policy(name: str) -> Tuple[bool, bool]:
    """(does step() return before parameters are updated?, are updates on shards, without averages
    on any rank?)"""
    info, err = _PolicyInfo(), _ErrorStruct()
    if lib.tutti_policy_describe(name.encode(), byref(info), byref(err)):
        raise err.exception()
    return info.deferred, info.sharded


class Trainer:
    """One trainer: add tensors in forward order, freeze, then per step grad_ready for each, step,
    and wait_param before use."""

    def __init__(self, comm: RawCommunicator, policy: str, optimizer: str = "none", **options: Any) -> None:
        self._own: Optional[int] = None
        self._forked = False
        self.recover: Optional[Callable[[], None]] = None  # elastic: makes the trainer go on without the ranks that died
        if not AVAILABLE:
            raise Error(-6, "this libtutti has no trainer")
        o = _Options(size=ctypes.sizeof(_Options), policy=policy.encode(), optimizer=OPTIMIZERS[optimizer])
        known = [name for name, *_ in _Options._fields_ if name != "size"]
        for name, value in options.items():
            if name not in known:
                raise TypeError(f"there is no option {name!r}; the trainer's are {', '.join(known)}")
            setattr(o, name, value.encode() if isinstance(value, str) else value)
        handle, err = c_void_p(), _ErrorStruct()
        if lib.tutti_trainer_open(comm._open(), byref(o), byref(handle), byref(err)):
            raise err.exception()
        self._own = handle.value
        _exit.note(self)
        self._comm = comm  # must outlive the trainer
        self._options = o  # and its callbacks
        self._names: List[bytes] = []

    @property
    def _handle(self) -> Optional[int]:
        if self._forked:
            raise Error(-1, f"the trainer {_exit.FORKED}")
        return self._own

    def _left(self, why: str) -> None:
        pass

    def _disown(self) -> None:
        self._forked, self._own = True, None

    def _run(self, call: Any, *args: Any) -> None:
        """A call of the training loop; an elastic trainer makes it again without the ranks that
        died."""
        while True:
            status = call(self._handle, *args)
            if status == _lib.OK:
                return
            if status != _lib.PEER or self.recover is None:
                text = lib.tutti_trainer_last_error(self._handle).contents.text.decode(errors="replace")
                raise Error(status, text or lib.tutti_strerror(status).decode())
            self.recover()

    def add(self, name: str, count: int, dtype: str, kind: str = "other", **more: Any) -> int:
        """A tensor; its index."""
        t = _Tensor(size=ctypes.sizeof(_Tensor), name=name[-127:].encode(), count=count, dtype=DTYPES[dtype], kind=KINDS[kind], **more)
        index, err = c_size_t(), _ErrorStruct()
        if lib.tutti_trainer_add(self._handle, byref(t), byref(index), byref(err)):
            raise err.exception()
        return index.value

    def set_group(self, group: int, **values: Any) -> None:
        """Learning rate and the rest of a parameter group, for steps that have not begun."""
        g, err = _Group(size=ctypes.sizeof(_Group), **values), _ErrorStruct()
        if lib.tutti_trainer_set_group(self._handle, group, byref(g), byref(err)):
            raise err.exception()

    def freeze(self) -> None:
        """Collective: compares, makes buckets, gives rank 0's parameters to all."""
        err = _ErrorStruct()
        status = lib.tutti_trainer_freeze(self._handle, byref(err))
        if status == _lib.PEER and self.recover is not None:
            self.recover()
        elif status:
            raise err.exception()

    def rebind(self, comm: RawCommunicator) -> None:
        """Elastic: goes on with the ranks of this communicator. Collective."""
        err = _ErrorStruct()
        if lib.tutti_trainer_rebind(self._handle, comm._open(), byref(err)):
            raise err.exception()
        self._comm = comm

    def steps(self) -> int:
        """How many were ended by step(), here or before this rank came."""
        return lib.tutti_trainer_steps(self._handle)

    def bound(self) -> int:
        """Elastic: how many were done when the ranks last changed."""
        return lib.tutti_trainer_bound(self._handle)

    def fingerprint(self) -> int:
        """Elastic: of the parameters after each step; equal on all ranks."""
        return lib.tutti_trainer_fingerprint(self._handle)

    def grad(self, index: int) -> int:
        """Address of a gradient in its bucket."""
        return lib.tutti_trainer_grad(self._handle, index) or 0

    def put_grad(self, index: int, grad: int) -> None:
        """Rounds the f32 gradient at this address into its place; what is lost is added next time.
        For tensors added with wide_param."""
        self._run(lib.tutti_trainer_put_grad, index, grad)

    def put_range(self, index: int, first: int, count: int, grad: int) -> None:
        """The same for `count` elements from `first` on; the address is that of the first of them.
        """
        self._run(lib.tutti_trainer_put_range, index, first, count, grad)

    def parts(self, index: int) -> List[Tuple[int, int]]:
        """(first element, elements) of the parts in which a tensor travels."""
        found: List[Tuple[int, int]] = []
        first, count = c_size_t(), c_size_t()
        while lib.tutti_trainer_part(self._handle, index, len(found), byref(first), byref(count)):
            found.append((first.value, count.value))
        return found

    def part_ready(self, index: int, part: int) -> None:
        """A part of the gradient is complete."""
        self._run(lib.tutti_trainer_part_ready, index, part)

    def wait_part(self, index: int, part: int) -> None:
        """Returns when parts 0 to `part` of the parameter are those of the last step."""
        self._run(lib.tutti_trainer_wait_part, index, part)

    def grad_ready(self, index: int) -> None:
        """The gradient is complete."""
        self._run(lib.tutti_trainer_grad_ready, index)

    def wait_param(self, index: int) -> None:
        """Returns when the parameter (without optimizer: the averaged gradient) is that of the last
        step."""
        self._run(lib.tutti_trainer_wait_param, index)

    def average(self) -> None:
        """Waits for the averaged gradients; step() goes on with what the caller makes of them."""
        self._run(lib.tutti_trainer_average)

    def use(self, index: int, use: bool) -> None:
        """Between average and step: whether the step updates the tensor."""
        self._run(lib.tutti_trainer_use, index, use)

    def step(self) -> None:
        """The backward pass is over."""
        self._run(lib.tutti_trainer_step)

    def flush(self) -> None:
        """Waits for everything."""
        self._run(lib.tutti_trainer_flush)

    def reload(self) -> None:
        """Parameters were changed by the caller."""
        self._run(lib.tutti_trainer_reload)

    def used(self, index: int) -> bool:
        """Did any rank use the tensor in the last step?"""
        return bool(lib.tutti_trainer_used(self._handle, index))

    def state_names(self, index: int) -> List[str]:
        """Of the arrays that the optimizer keeps of a tensor."""
        names: List[str] = []
        while True:
            name = lib.tutti_trainer_state_name(self._handle, index, len(names))
            if name is None:
                return names
            names.append(name.decode())

    def state_get(self, index: int, k: int, address: int) -> None:
        """Collective. Array k of a tensor, whole: its count elements of f32 (f64 for f64 tensors).
        """
        err = _ErrorStruct()
        if lib.tutti_trainer_state_get(self._handle, index, k, address, byref(err)):
            raise err.exception()

    def state_set(self, index: int, k: int, address: int) -> None:
        """The same back; on every rank."""
        err = _ErrorStruct()
        if lib.tutti_trainer_state_set(self._handle, index, k, address, byref(err)):
            raise err.exception()

    def updates(self, index: int) -> int:
        """How many steps have updated the tensor."""
        return lib.tutti_trainer_updates(self._handle, index)

    def set_updates(self, index: int, updates: int) -> None:
        """Sets that, on every rank."""
        err = _ErrorStruct()
        if lib.tutti_trainer_set_updates(self._handle, index, updates, byref(err)):
            raise err.exception()

    def norm(self) -> float:
        """Of all averaged gradients, before clipping."""
        return lib.tutti_trainer_norm(self._handle)

    def launches(self) -> List[Launch]:
        """What the last step communicated, in launch order."""
        found: List[Launch] = []
        x = _Launch(size=ctypes.sizeof(_Launch))
        while self._handle is not None and lib.tutti_trainer_launch(self._handle, len(found), byref(x)):
            coll, first, last, algo = ((w or b"").decode(errors="replace") for w in (x.coll, x.first, x.last, x.algo))
            bucket = None if x.bucket == 2**32 - 1 else x.bucket
            found.append(Launch(coll, bucket, first, last, algo, x.bytes, x.start_ns, x.end_ns))
        return found

    def close(self) -> None:
        """Flushes; views end here."""
        handle, self._own = self._own, None
        if handle is not None:
            lib.tutti_trainer_close(handle)
