"""PyTorch on Tutti.

    import torch.distributed as dist, tutti.torch
    dist.init_process_group("tutti")    # all of torch.distributed on CPU tensors, DDP included

    opt = tutti.torch.DistributedOptimizer(opt, model, policy="dear")    # DeAR in place of DDP

`ddp_hook` communicates DDP's buckets, as f32 or in half the bytes as bf16. `profile` measures a
model for `tutti train-sim`; `trace` writes torch.profiler's trace with what was communicated when;
`keep_memory` spares the kernel the mapping of large gradients in every iteration; `weight_first`
lets DDP's buckets leave earlier.
"""

import inspect
from typing import Any, Dict

import torch.distributed as dist

from ._elastic import ElasticGroup
from ._first import weight_first
from ._group import Options, ProcessGroupTutti, create, of
from ._hook import DDPHookState, ddp_hook
from ._memory import keep_memory
from ._optimizer import DistributedOptimizer
from ._profile import profile
from ._reconfigure import ReconfigurableGroup
from ._trace import TraceHandler, trace

__all__ = [
    "DDPHookState",
    "DistributedOptimizer",
    "ElasticGroup",
    "Options",
    "ProcessGroupTutti",
    "ReconfigurableGroup",
    "TraceHandler",
    "ddp_hook",
    "keep_memory",
    "of",
    "profile",
    "trace",
    "weight_first",
]


def _register() -> None:
    """Makes the name "tutti" known to torch.distributed; once."""
    if hasattr(dist.Backend, "TUTTI"):
        return
    more: Dict[str, Any] = {}
    if "devices" in inspect.signature(dist.Backend.register_backend).parameters:
        more["devices"] = ["cpu"]
    dist.Backend.register_backend("tutti", create, extended_api=True, **more)


_register()
