"""Tutti: collectives that are planned, proved, and fail loudly.

    import numpy as np, tutti
    with tutti.Communicator() as comm:    # rank and size come from the launcher (`tutti run`)
        total = comm.allreduce(np.ones(10, "f4"))

`tutti.torch` adds the PyTorch backend "tutti", a DDP communication hook and the distributed
optimizer.
"""

from typing import TYPE_CHECKING, Any

from ._comm import RawCommunicator, Request
from ._lib import Error, version

if TYPE_CHECKING:
    from ._array import Communicator

__all__ = ["Communicator", "Error", "RawCommunicator", "Request", "version"]
__version__ = version()


def __getattr__(name: str) -> Any:
    """NumPy is loaded when the class that needs it is."""
    if name == "Communicator":
        from ._array import Communicator

        return Communicator
    raise AttributeError(f"module 'tutti' has no attribute {name!r}")
