"""A communication hook for DDP:

    model.register_comm_hook(tutti.torch.DDPHookState(wire="bf16"), tutti.torch.ddp_hook)

With wire "f32" the bucket is averaged as it is. With "bf16" half the bytes travel: each rank rounds
its gradients to bf16, the owners of the shards add them in f32 (a communicator with the algorithm
`direct`, whose reductions hold f32 and round once), and the average comes back as bf16. What
rounding takes away is added to the next gradient of the same bucket (error feedback): it is applied
later, not lost.
"""

from typing import Any, Dict, Optional

import torch
import torch.distributed as dist

from .. import RawCommunicator
from .._lib import round_bf16
from ._group import find
from ._work import RequestWork


class DDPHookState:
    """What the hook keeps between calls. Making it is collective when wire is "bf16"."""

    def __init__(
        self,
        process_group: Optional[Any] = None,
        wire: str = "f32",
        error_feedback: bool = True,
    ) -> None:
        default = dist.distributed_c10d._get_default_group
        group = find(process_group if process_group is not None else default())
        if group is None:
            raise TypeError('tutti.torch.ddp_hook needs a process group of the backend "tutti"')
        if wire not in ("f32", "bf16"):
            raise ValueError(f"wire is {wire!r}: f32 or bf16")
        self.group, self.wire, self.error_feedback = group, wire, error_feedback
        self.comm: Optional[RawCommunicator] = None
        self._lost: Dict[int, torch.Tensor] = {}
        self._packed: Dict[int, torch.Tensor] = {}
        if wire == "bf16" and group._n > 1:
            self.comm = group.extra_communicator(algo="direct")

    def pack(self, index: int, gradient: torch.Tensor) -> torch.Tensor:
        """The gradient as bf16. Error feedback is the library's own, the trainer's: what rounding
        lost last time is added first, what it loses now is kept."""
        n = gradient.numel()
        packed = self._packed.get(index)
        if packed is None or packed.numel() != n:
            packed = self._packed[index] = torch.empty(n, dtype=torch.bfloat16)
            if self.error_feedback:
                self._lost[index] = torch.zeros(n)
        lost = self._lost[index].data_ptr() if self.error_feedback else None
        round_bf16(gradient.data_ptr(), lost, packed.data_ptr(), n)
        return packed


def _tensor(future: torch.futures.Future) -> torch.Tensor:
    return future.value()[0]


def ddp_hook(
    state: Optional[DDPHookState], bucket: dist.GradBucket
) -> torch.futures.Future[torch.Tensor]:
    """Averages a bucket over all ranks. state None: the default group, wire f32."""
    gradient = bucket.buffer()
    state = state or DDPHookState()
    if state.comm is None or gradient.dtype != torch.float32:
        work: Any = state.group._allreduce(gradient, "avg", [gradient])
        work._label = f"bucket {bucket.index()} "
        return work.get_future().then(_tensor)
    packed = state.pack(bucket.index(), gradient)
    work = state.group._launch(
        "allreduce",
        packed,
        packed,
        packed.numel(),
        "bf16",
        [gradient],
        "avg",
        after=lambda: gradient.copy_(packed),
        comm=state.comm,
    )
    assert isinstance(work, RequestWork)
    work._label = f"bucket {bucket.index()} "
    return work.get_future().then(_tensor)
