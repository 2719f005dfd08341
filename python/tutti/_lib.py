"""libtutti loaded with ctypes: where it is, its functions, its errors.

The library is looked for in this order: the file named by TUTTI_LIBRARY; beside this package (an
installed wheel); in the build directories of the source tree this package lies in; where the
system's loader finds it. Every function releases the interpreter's lock while it runs. Nothing here
knows about arrays or tensors.
"""

import ctypes
import glob
import os
from ctypes import POINTER, byref, c_bool, c_char, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Dict, Iterator, List, Optional, Tuple

OK = 0
IN_PROGRESS = 1
TIMEOUT = -42
DIFFERS = -61
PEER = -60

# In the order of TUTTI_DTYPE_LIST, TUTTI_REDOP_LIST of <tutti/types.h>.
_DTYPES = ("f32", "f64", "f16", "bf16", "i8", "u8", "i32", "i64", "i16", "u16", "u32", "u64")
DTYPES: Dict[str, int] = {name: i for i, name in enumerate(_DTYPES)}
DTYPE_BYTES: Dict[str, int] = {name: int(name.lstrip("bfiu")) // 8 for name in _DTYPES}
LOGIC = ("band", "bor", "bxor", "land", "lor", "lxor")  # of integers
REDOPS: Dict[str, int] = {name: i for i, name in enumerate(("sum", "prod", "min", "max", "avg") + LOGIC)}


class Error(RuntimeError):
    """What the engine says went wrong: which rank, which operation, why. `status` is the code of
    <tutti/types.h>."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class _ErrorStruct(ctypes.Structure):
    _fields_ = [("status", c_int), ("text", c_char * 504)]

    def exception(self) -> Error:
        return Error(self.status, self.text.decode(errors="replace"))


class CommOptions(ctypes.Structure):
    """struct tutti_comm_options."""

    _fields_ = [
        ("size", c_size_t),
        ("given", c_bool),
        ("rank", c_uint32),
        ("ranks", c_uint32),
        ("local_rank", c_int),
        ("rendezvous", c_char_p),
        ("key_file", c_char_p),
        ("insecure", c_bool),
        ("iface", c_char_p),
        ("transport", c_char_p),
        ("topo", c_char_p),
        ("algo", c_char_p),
        ("reproducible", c_bool),
        ("timeout_us", c_uint64),
        ("plan", c_char_p),
        ("tuning", c_char_p),
        ("encrypt", c_bool),
        ("checksum", c_int),
        ("join", c_char_p),
    ]


def _candidates() -> Iterator[str]:
    here = os.path.dirname(os.path.abspath(__file__))
    named = os.environ.get("TUTTI_LIBRARY")
    if named:
        yield named
        return
    yield from sorted(glob.glob(os.path.join(here, "libtutti.so*")))
    root = os.path.dirname(os.path.dirname(here))
    if os.path.exists(os.path.join(root, "include", "tutti", "tutti.h")):
        yield from (p for d in ("build", "build-check") for p in glob.glob(os.path.join(root, d, "libtutti.so")))
    yield "libtutti.so.0"


def _load() -> ctypes.CDLL:
    tried: List[str] = []
    for path in _candidates():
        try:
            return ctypes.CDLL(path)
        except OSError as e:
            tried.append(f"{path}: {e}")
    raise ImportError("libtutti cannot be loaded (`make` builds it; TUTTI_LIBRARY names it)\n  " + "\n  ".join(tried))


lib = _load()


def _declare(name: str, *args: object, result: object = c_int) -> None:
    f = getattr(lib, name, None)
    if f is None:
        raise ImportError(f"{lib._name} is not the libtutti of this package: it has no {name} (`make` builds it; TUTTI_LIBRARY names it)")
    f.argtypes = args
    f.restype = result


_comm, _request, _data = c_void_p, c_void_p, c_void_p
_err = POINTER(_ErrorStruct)
_declare("tutti_version", result=c_char_p)
_declare("tutti_strerror", c_int, result=c_char_p)
_declare("tutti_comm_open", POINTER(CommOptions), POINTER(_comm), _err)
_declare("tutti_comm_rank", _comm, result=c_uint32)
_declare("tutti_comm_size", _comm, result=c_uint32)
_declare("tutti_comm_changes", _comm, result=c_uint32)
_declare("tutti_comm_split", _comm, c_int, c_int, POINTER(_comm), _err)
_declare("tutti_comm_shrink", _comm, POINTER(_comm), _err)
_declare("tutti_comm_admit", _comm, POINTER(_comm), _err)
_declare("tutti_comm_abort", _comm, c_char_p, result=None)
_declare("tutti_comm_last_error", _comm, result=_err)
_declare("tutti_comm_report", _comm, POINTER(c_void_p), _err)
_declare("tutti_comm_close", _comm, result=None)
_declare("tutti_mem_alloc", _comm, c_size_t, POINTER(c_void_p), _err)
_declare("tutti_mem_free", _comm, c_void_p, result=None)
_declare("tutti_mem_keep", _comm, result=None)
_declare("tutti_half_round", c_int, c_void_p, c_void_p, c_void_p, c_size_t)
_declare("tutti_request_start", _request)
_declare("tutti_request_test", _request)
_declare("tutti_request_wait", _request)
_declare("tutti_request_join", _request)
_declare("tutti_request_free", _request, result=None)
_declare("tutti_request_algo", _request, result=c_char_p)
_declare("tutti_send", _comm, _data, c_size_t, c_int, c_uint32)
_declare("tutti_recv", _comm, _data, c_size_t, c_int, c_uint32)
_declare("tutti_send_init", _comm, _data, c_size_t, c_int, c_uint32, c_uint32, POINTER(_request))
_declare("tutti_recv_init", _comm, _data, c_size_t, c_int, c_uint32, c_uint32, POINTER(_request))
_declare("tutti_request_source", _request, POINTER(c_uint32), POINTER(c_uint32), _err)
_declare("tutti_reduce_scatter_v", _comm, _data, _data, POINTER(c_size_t), c_int, c_int)
_declare("tutti_all_gather_v", _comm, _data, _data, POINTER(c_size_t), c_int)

# Arguments that follow (comm, in, out, count, dtype) of each collective.
COLLECTIVES: Dict[str, tuple] = {
    "allreduce": ("op",),
    "reduce_scatter": ("op",),
    "all_gather": (),
    "broadcast": ("root",),
    "reduce": ("op", "root"),
    "gather": ("root",),
    "scatter": ("root",),
    "all_to_all": (),
}
BLOCKS = ("reduce_scatter", "all_gather", "gather", "scatter", "all_to_all")  # their count is that of one rank's block
for _name, _more in COLLECTIVES.items():
    _args = (_comm, _data, _data, c_size_t, c_int) + tuple(c_int if m == "op" else c_uint32 for m in _more)
    _declare("tutti_" + _name, *_args)
    _declare("tutti_" + _name + "_init", *_args, POINTER(_request))
_declare("tutti_barrier", _comm)
_declare("tutti_barrier_init", _comm, POINTER(_request))


def version() -> str:
    """Version of the library."""
    return lib.tutti_version().decode()


def last_error(comm: Optional[int], status: int) -> Error:
    """The exception for a status that a call on `comm` returned."""
    text = lib.tutti_comm_last_error(comm).contents.text.decode(errors="replace") if comm else ""
    return Error(status, text or lib.tutti_strerror(status).decode())


def check(comm: Optional[int], status: int) -> None:
    """Raises what went wrong."""
    if status != OK:
        raise last_error(comm, status)


def open_comm(options: Optional[CommOptions]) -> int:
    """tutti_comm_open; the handle."""
    handle, err = c_void_p(), _ErrorStruct()
    if lib.tutti_comm_open(byref(options) if options else None, byref(handle), byref(err)):
        raise err.exception()
    return handle.value  # type: ignore[return-value]


def split_comm(comm: int, color: int, key: int) -> Optional[int]:
    """tutti_comm_split; None for a rank without a color."""
    handle, err = c_void_p(), _ErrorStruct()
    if lib.tutti_comm_split(comm, color, key, byref(handle), byref(err)):
        raise err.exception()
    return handle.value


def shrink_comm(comm: int) -> int:
    """tutti_comm_shrink; the handle."""
    handle, err = c_void_p(), _ErrorStruct()
    if lib.tutti_comm_shrink(comm, byref(handle), byref(err)):
        raise err.exception()
    return handle.value  # type: ignore[return-value]


def admit_comm(comm: int) -> int:
    """tutti_comm_admit; the handle, which is that of comm when nobody has come."""
    handle, err = c_void_p(), _ErrorStruct()
    if lib.tutti_comm_admit(comm, byref(handle), byref(err)):
        raise err.exception()
    return handle.value  # type: ignore[return-value]


def round_bf16(source: int, lost: Optional[int], to: int, count: int) -> None:
    """tutti_half_round of f32 at `source` to bf16 at `to`; `lost`: f32 that carries what rounding
    loses."""
    check(None, lib.tutti_half_round(DTYPES["bf16"], source, lost, to, count))


ANY = 2**32 - 1  # TUTTI_ANY_SOURCE, TUTTI_ANY_TAG


def request_source(request: Optional[int]) -> Tuple[int, int]:
    """tutti_request_source; rank and tag."""
    rank, tag, err = c_uint32(), c_uint32(), _ErrorStruct()
    if lib.tutti_request_source(request, byref(rank), byref(tag), byref(err)):
        raise err.exception()
    return rank.value, tag.value


def report(comm: int) -> str:
    """tutti_comm_report; the text."""
    text, err = c_void_p(), _ErrorStruct()
    if lib.tutti_comm_report(comm, byref(text), byref(err)):
        raise err.exception()
    words = ctypes.string_at(text.value or 0).decode(errors="replace")
    _free(text)
    return words


def alloc(comm: int, nbytes: int) -> int:
    """tutti_mem_alloc; the address."""
    memory, err = c_void_p(), _ErrorStruct()
    if lib.tutti_mem_alloc(comm, nbytes, byref(memory), byref(err)):
        raise err.exception()
    return memory.value  # type: ignore[return-value]


_free = ctypes.CDLL(None).free
_free.argtypes = [c_void_p]
_free.restype = None
