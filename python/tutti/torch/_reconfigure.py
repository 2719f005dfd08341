"""ReconfigurableGroup: a group that is made again with whoever takes part next, as torchft's
managers do after every quorum.

    group = tutti.torch.ReconfigurableGroup(timeout=timedelta(seconds=10))
    group.configure("host:port/prefix", "replica", rank, size)     # on all ranks that take part
    work = group.allreduce([t])                   # errors raise, and errored() keeps the first one
    group.configure("host:port/another", "replica", rank, size)    # with fewer or more ranks

The prefix of torch's store must be one that no group has used.

torchft itself is not needed, and was not tried here: the methods are those that its ProcessGroup
has (configure, abort, errored, shutdown, set_timeout, size), with the arguments of its older and
newer versions.
"""

from datetime import timedelta
from typing import Any, Optional, Tuple

import torch.distributed as dist

from ._group import Options, ProcessGroupTutti


def _who(given: Tuple[Any, ...], named: Any) -> Tuple[int, int]:
    """Rank and size: after the replica's name, which newer versions of torchft give, or at once."""
    left = list(given[1:] if given and isinstance(given[0], str) else given)
    rank = left.pop(0) if left else named["rank"]
    size = left.pop(0) if left else named["world_size"]
    if not 0 <= int(rank) < int(size):
        raise ValueError(f"tutti: configure: rank {rank} of {size}")
    return int(rank), int(size)


class ReconfigurableGroup(ProcessGroupTutti):
    """Alone until configured. `timeout`: of the meeting and of every wait; further options: those
    of tutti.torch.Options."""

    def __init__(self, timeout: timedelta = timedelta(seconds=60), **options: Any) -> None:
        self._wanted, self._given = timeout, Options(**options).options
        super().__init__(None, 0, 1, timeout, "reconfigurable", (), self._given)

    def configure(self, store_addr: str, *who: Any, **named: Any) -> None:
        """Collective among those who take part: leaves the group as it was (calls under way on it
        fail) and meets at the store. Arguments: (store_addr, replica_id, rank, world_size, ...) or
        (store_addr, rank, world_size); what follows is not needed."""
        rank, size = _who(who, named)
        host, _, rest = store_addr.partition(":")
        port, _, prefix = rest.partition("/")
        if not host or not port.isdigit():
            raise ValueError(f"tutti: configure: {store_addr!r}: host:port/prefix of torch's store is expected")
        if self._ledger.busy() or self._ledger.error is not None:
            self._closer.abort("the group is configured again")
        self._closer.begin()
        store = dist.TCPStore(host, int(port), is_master=False, wait_for_workers=False, timeout=self._wanted)
        self._begin(dist.PrefixStore(prefix, store), rank, size, self._wanted, "reconfigurable", (), self._given)

    def errored(self) -> Optional[BaseException]:
        """The first error since it was configured: it must be configured again. None: all is well.
        """
        return self._ledger.error

    def set_timeout(self, timeout: timedelta) -> None:
        """From the next configure on; waits of now become shorter at once, not longer."""
        self._wanted = timeout
        if timeout.total_seconds() < self._ledger.limit:
            super().set_timeout(timeout)

    def rank(self) -> int:
        """This process's number now."""
        return self._me

    def size(self) -> int:
        """How many take part now."""
        return self._n
