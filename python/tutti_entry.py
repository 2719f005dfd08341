"""What torch (2.5 and later) runs at `import torch`, so that init_process_group("tutti") needs no
further import.

A module of its own: nothing of Tutti is loaded, and nothing can fail, before somebody asks for the
backend."""

from typing import Any


def _create(options: Any, given: Any = None) -> Any:
    from tutti.torch._group import create

    return create(options, given)


def register() -> None:
    """Makes the name known. Never raises: that would break `import torch`."""
    try:
        import torch.distributed as dist

        if dist.is_available() and not hasattr(dist.Backend, "TUTTI"):
            dist.Backend.register_backend("tutti", _create, extended_api=True, devices=["cpu"])
    except Exception:  # noqa: BLE001  # whoever asks for "tutti" hears of it
        pass
