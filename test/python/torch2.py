"""What the tests of PyTorch 2 share. Each runs on Gloo or on Tutti, by its first argument: what Gloo passes, Tutti must pass."""

import os
import sys

import case

torch = case.need_torch()
import torch.distributed as dist  # noqa: E402

if int(torch.__version__.split(".")[0]) < 2:
    print(f"skipped: torch {torch.__version__} is older than 2 (pip install torch==2.13.0)")
    sys.exit(0)
BACKEND = sys.argv[1] if len(sys.argv) > 1 else "tutti"
OURS = BACKEND == "tutti"
if OURS:
    import tutti.torch  # noqa: E402, F401


def begin():
    """(rank, size)"""
    dist.init_process_group(BACKEND)
    return dist.get_rank(), dist.get_world_size()


def end():
    """The group is closed, not dropped."""
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()


def close(a, b, tolerance=1e-5):
    """Equal to rounding."""
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def whole(t):
    """A DTensor's value on every rank; other tensors as they are."""
    return t.full_tensor() if hasattr(t, "full_tensor") else t


def scratch(name):
    """A folder of all ranks of this job."""
    return os.path.join(os.environ.get("TMPDIR", "/tmp"), f"tutti-torch2-{name}-{os.environ.get('MASTER_PORT', os.getppid())}")
