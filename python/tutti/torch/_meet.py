"""Opening a communicator for ranks that share a torch store: rank 0 puts host:port there, the
others read it.

Groups made by new_group have no launcher's variables of their own and only their members take part,
so each group is a communicator by itself, with its own deadline. Keys and interfaces
(TUTTI_KEY_FILE, TUTTI_IFACE, TUTTI_PORTS, ...) come from the environment.
"""

import os
import re
import socket
import time
from datetime import timedelta
from typing import Any, Optional

import torch.distributed as dist

from .. import RawCommunicator

ADDRESS = "tutti/address"


def _master(store: Any) -> str:
    """The host that all ranks can reach: what the launcher or the store says."""
    named = os.environ.get("TUTTI_RENDEZVOUS", "").rpartition(":")[0] or os.environ.get("MASTER_ADDR", "")
    while not named and isinstance(store, dist.PrefixStore) and hasattr(store, "underlying_store"):
        store = store.underlying_store
    return named or getattr(store, "host", "") or "127.0.0.1"


def own_address(store: Any) -> str:
    """The address of this host on the way to the others (no packet is sent)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect((socket.gethostbyname(_master(store)), 9))
            return s.getsockname()[0]
        except OSError:
            return "127.0.0.1"


def _reserve() -> socket.socket:
    """A port of this host: inside TUTTI_PORTS when that is set. Held (not listening) until the
    library has bound it too."""
    lo, _, hi = os.environ.get("TUTTI_PORTS", "").partition("-")
    ports = range(int(lo), int(hi or lo) + 1) if lo.isdigit() else range(1)
    for port in ports:
        s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("", port))
            return s
        except OSError:
            s.close()
    raise RuntimeError(f"no free port in TUTTI_PORTS={lo}-{hi or lo}")


def present(store: Any, key: str) -> bool:
    """Does the key exist? Never blocks: torch's stores hold a lock while they wait."""
    if hasattr(store, "check"):
        return bool(store.check([key]))
    return store.add(key + "/announced", 0) > 0


def announce(store: Any, key: str, value: str) -> None:
    """Sets a key that `present` sees."""
    store.set(key, value)
    store.add(key + "/announced", 1)


def retract(store: Any, key: str) -> None:
    """Takes the key away: torchrun's next attempt has the same store, and must not meet at the
    address of those who died."""
    for name in (key, key + "/announced"):
        try:
            store.delete_key(name)
        except (RuntimeError, NotImplementedError):  # a store that cannot delete: its keys are of one attempt
            return


def await_key(store: Any, key: str, seconds: float) -> str:
    """The value, as soon as rank 0 has set it; other threads may use the store meanwhile."""
    deadline, pause = time.monotonic() + seconds, 0.001
    while not present(store, key):
        if time.monotonic() > deadline:
            raise RuntimeError(f"tutti: rank 0 did not come within {seconds:g} s (torch's store has no {key})")
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    return store.get(key).decode()


def deadline_of(timeout: Optional[timedelta]) -> Optional[float]:
    """Seconds: what the caller asked for. TUTTI_TIMEOUT counts where torch's own default would."""
    default = dist.distributed_c10d.default_pg_timeout
    if timeout is None or (timeout == default and os.environ.get("TUTTI_TIMEOUT")):
        return None
    return max(timeout.total_seconds(), 0.001)


def seconds_of(timeout: Optional[timedelta]) -> float:
    """The deadline as a number, whoever sets it; what cannot be read the library refuses when the
    group opens."""
    given = deadline_of(timeout)
    if given is not None:
        return given
    found = re.fullmatch(r"([0-9.]+)(us|ms|s|min|m|h)?", os.environ.get("TUTTI_TIMEOUT", "30s"))
    units = {"us": 1e-6, "ms": 1e-3, "s": 1.0, None: 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
    return float(found[1]) * units[found[2]] if found else 30.0


def meet(store: Any, rank: int, size: int, timeout: Optional[timedelta], **options: Any) -> RawCommunicator:
    """Collective: the communicator of all who share this (prefixed) store."""
    seconds = deadline_of(timeout)
    if size == 1:
        return RawCommunicator(rank=0, size=1, timeout=seconds, **options)
    if rank == 0:
        with _reserve() as held:
            place = f"{own_address(store)}:{held.getsockname()[1]}"
            announce(store, ADDRESS, place)
            try:
                return RawCommunicator(rank=0, size=size, rendezvous=place, timeout=seconds, **options)
            finally:
                retract(store, ADDRESS)
    place = await_key(store, ADDRESS, seconds_of(timeout))
    return RawCommunicator(rank=rank, size=size, rendezvous=place, timeout=seconds, **options)
