"""The group "tutti" as torch knows it: one of two classes of torch around the same calls.

Up to 2.13 torch takes from Python only a ProcessGroup, which is then the whole group: dist.*
reaches every method, torch's C++ (DDP, functional collectives) those that ProcessGroup's
trampolines know. From 2.14 on it takes a Backend: torch's own group calls it for tensors on the
CPU, so that "cpu:tutti,cuda:nccl" works. Which of them this torch takes is tried, not read from its
version."""

from typing import Any, Optional, Type

import torch
import torch.distributed as dist

from ._calls import Calls


class ProcessGroupTutti(Calls, dist.ProcessGroup):  # type: ignore[misc]
    """Made by init_process_group("tutti") and new_group up to torch 2.13."""


def backend_of(base: Any) -> Optional[Type[Calls]]:
    """The class for torch's own groups, if torch's Backend can be made from Python."""
    try:
        type("Trial", (base,), {})(0, 1)
    except TypeError:  # 2.13: "No constructor defined"; before 2.0 there is no such class
        return None

    class Backend(Calls, base):  # type: ignore[misc, valid-type]
        """Made by init_process_group("tutti") and new_group from torch 2.14 on."""

        start_coalescing, end_coalescing = Calls._start_coalescing, Calls._end_coalescing

    return Backend


BackendTutti = backend_of(getattr(torch._C._distributed_c10d, "Backend", None))


class Options:
    """pg_options of init_process_group and new_group: any option of tutti.Communicator that is not
    about who takes part.

    dist.init_process_group("tutti", pg_options=tutti.torch.Options(transport="tcp", encrypt=True))
    """

    KNOWN = ("key_file", "insecure", "iface", "transport", "topo", "algo", "reproducible", "plan", "tuning", "encrypt", "checksum")

    def __init__(self, **options: Any) -> None:
        unknown = [name for name in options if name not in self.KNOWN]
        if unknown:
            raise TypeError(f"tutti: there is no option {unknown[0]!r}; there are {', '.join(self.KNOWN)}")
        self.options = options


def find(group: Any) -> Optional[Calls]:
    """Ours: the group itself, or what a group of torch has for CPU tensors. None: another
    backend's."""
    if group is None or isinstance(group, Calls):
        return group
    try:
        inside = group._get_backend(torch.device("cpu"))
    except (AttributeError, RuntimeError):  # torch 1.13; a group without a backend for the CPU
        return None
    return inside if isinstance(inside, Calls) else None


def of(group: Any = None) -> Calls:
    """The group of the backend "tutti" behind a process group; the default one when there is none
    given."""
    found = find(group if group is not None else dist.distributed_c10d._get_default_group())
    if found is None:
        raise TypeError('a process group of the backend "tutti" is needed')
    return found


def create(options: Any, given: Any = None) -> Calls:
    """Called by torch for every group."""
    if given is not None and not isinstance(given, Options):
        raise TypeError(f"tutti: pg_options is a {type(given).__name__}: tutti.torch.Options(...) is expected")
    ranks, more = list(options.global_ranks_in_group), given.options if given is not None else {}
    shell = BackendTutti or ProcessGroupTutti
    return shell(options.store, options.group_rank, options.group_size, options.timeout, options.group_id, ranks, more)
