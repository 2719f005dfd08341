"""Places: tensors on memory of the library, which neither dangle nor call Python when they die.

A place is an address, a shape and a data type. Every tensor made of it has a storage of its own, so
that one can ask later whether the caller still has it, or a view of it: before the library writes
there again, or frees the memory, move_out() gives what the caller has kept memory of its own. The
storage's deleter is free(3) of its description: the last reference may die in C++ after the
interpreter has ended (autograd keeps tensors of a failed backward pass per thread), where a Python
deleter would wait for an interpreter that is gone.
"""

import ctypes
import weakref
from typing import Any, Optional, Sequence, Tuple

import torch

from ._tensors import is_dense_block

_CPU = 1  # kDLCPU
_CODES = {torch.bfloat16: 4}  # kDLBfloat; kDLFloat for floating-point numbers, else kDLInt
_c = ctypes.PyDLL(None)  # short calls: the interpreter's lock is kept
_c.malloc.argtypes, _c.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.argtypes, _capsule.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p], ctypes.py_object
_UntypedStorage: Any = torch.UntypedStorage  # type: ignore[attr-defined]


class _Managed(ctypes.Structure):
    """DLManagedTensor of DLPack; shape and strides follow it."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


_BYTES = ctypes.sizeof(_Managed)
_FREE = ctypes.cast(_c.free, ctypes.c_void_p).value


def _storage(tensor: torch.Tensor) -> Any:
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage().untyped()  # type: ignore[attr-defined]


class Place:
    """See above. The memory must live until move_out() of close."""

    def __init__(self, address: int, shape: Sequence[int], dtype: torch.dtype) -> None:
        self._shape: Tuple[int, ...] = tuple(shape)
        self._dtype = dtype
        self._address = address
        like = torch.empty(self._shape, dtype=dtype, device="meta")
        self._count = like.numel()
        code = _CODES.get(dtype, 2 if dtype.is_floating_point else 0)
        bits = torch.empty((), dtype=dtype).element_size() * 8
        self._head = _Managed(data=address, device_type=_CPU, ndim=like.dim(), code=code, bits=bits, lanes=1, deleter=_FREE)
        self._tail = (ctypes.c_int64 * (2 * like.dim()))(*like.shape, *like.stride())
        self._object: Optional[weakref.ref] = None  # the tensor that was given out last
        self._weak: Optional[int] = None  # its storage, once there may be views of it

    def tensor(self) -> torch.Tensor:
        """A new tensor on this memory, with a storage of its own."""
        if not self._count:
            return torch.zeros(self._shape, dtype=self._dtype)
        at = _c.malloc(_BYTES + ctypes.sizeof(self._tail))
        if not at:
            raise MemoryError("no memory for a tensor's description")
        self._head.shape, self._head.strides = at + _BYTES, at + _BYTES + ctypes.sizeof(self._tail) // 2
        ctypes.memmove(at, ctypes.byref(self._head), _BYTES)
        ctypes.memmove(at + _BYTES, self._tail, ctypes.sizeof(self._tail))
        return torch._C._from_dlpack(_capsule(at, b"dltensor", None))  # type: ignore[attr-defined]

    def give_out(self, tensor: torch.Tensor) -> None:
        """This tensor is the caller's from now on."""
        self._object = weakref.ref(tensor)

    def given(self) -> Any:
        """The tensor that the caller has, or had; None when it is gone."""
        return self._object() if self._object is not None else None

    def watch(self) -> None:
        """From now on the caller can make views of what was given out."""
        tensor = self.given()
        if tensor is not None and self._weak is None and self._count:
            self._weak = _storage(tensor)._weak_ref()

    def holds(self, tensor: Any) -> bool:
        """Is this tensor exactly this place?"""
        return (
            tensor.data_ptr() == self._address
            and tensor.dtype == self._dtype
            and tensor.shape == self._shape
            and is_dense_block(tensor)
        )

    def move_out(self) -> None:
        """What the caller still has of this memory gets memory of its own, with the same contents.
        """
        tensor, self._object = self.given(), None
        if tensor is not None:
            with torch._C.DisableTorchFunction(), torch.no_grad():
                if self._count and tensor.data_ptr() == self._address:
                    tensor.data = tensor.detach().clone()
        weak, self._weak = self._weak, None
        if weak is not None:
            kept = _UntypedStorage._new_with_weak_ptr(weak)
            if kept is not None and kept.data_ptr() == self._address:
                kept._share_fd_cpu_()  # torch's way to change the memory of a storage under all its views
            _UntypedStorage._free_weak_ref(weak)
