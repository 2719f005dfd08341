#!/usr/bin/env python3
"""Ranks of a PyTorch test, forked from one process: importing torch takes longer than most tests, and is done once for all of them.

    ranks.py -n N [--timeout T] SCRIPT [ARGUMENT ...]

Every rank runs SCRIPT as `tutti run` would have started it: with our launcher's variables, torchrun's, and nothing of another rank. Exit 0:
all ranks ended with 0. When one fails, the others have until the deadline to end by themselves."""

import argparse
import ctypes
import os
import random
import runpy
import signal
import socket
import sys
import tempfile
import time
from typing import Callable, Dict, List, Optional, Tuple

PORTS = (20000, 28000)  # below those of outgoing connections
GRACE = 15.0  # seconds that ranks have after the first failure, beyond the deadline
PR_SET_PDEATHSIG = 1


def import_torch() -> bool:
    """All that the tests import and that takes long. Nothing is computed: there must be no thread when ranks are forked."""
    try:
        import torch.distributed
        import torch.nn.parallel  # noqa: F401
    except ImportError:
        return False  # the test says so
    import tutti.torch  # noqa: F401

    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)  # torch 2 loads its compiler here
    return torch.distributed.is_available()


def free_ports(count: int) -> List[int]:
    """Ports on which nobody listens and to which no connection of this host is bound."""
    found: List[int] = []
    while len(found) < count:
        with socket.socket() as s:
            port = random.randrange(*PORTS)
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
    return found


def variables(rank: int, size: int, ports: List[int], timeout: str) -> Dict[str, str]:
    address = "127.0.0.1"
    ours = {"RANK": rank, "SIZE": size, "LOCAL_RANK": rank, "RENDEZVOUS": f"{address}:{ports[0]}", "TIMEOUT": timeout}
    torchs = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "MASTER_ADDR": address, "MASTER_PORT": ports[1]}
    return {**{f"TUTTI_{k}": str(v) for k, v in ours.items()}, **{k: str(v) for k, v in torchs.items()}}


class Rank(Exception):
    """Raised in a forked rank: unwinds to the top of the program, which becomes the test's."""


def fork_rank(environment: Dict[str, str], output: Optional[int]) -> int:
    """The process id of a new rank; in the rank itself Rank is raised. It is killed when this process ends."""
    pid = os.fork()
    if pid:
        return pid
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.environ.update(environment)
    if output is not None:
        os.dup2(output, 1)
        os.dup2(output, 2)
    raise Rank


def await_all(pids: List[int], seconds: float) -> List[int]:
    """Exit statuses in the order of the ranks; a signal is negative. Ranks that do not end in time after a failure are killed."""
    status: Dict[int, int] = {}
    failed_at = None
    while len(status) < len(pids):
        for pid in [p for p in pids if p not in status]:
            done, word = os.waitpid(pid, os.WNOHANG)
            if done:
                status[pid] = os.waitstatus_to_exitcode(word)
        if failed_at is None and any(status.values()):
            failed_at = time.monotonic()
        if failed_at is not None and time.monotonic() > failed_at + seconds:
            for pid in [p for p in pids if p not in status]:
                os.kill(pid, signal.SIGKILL)
            failed_at = None
        time.sleep(0.005)
    return [status[pid] for pid in pids]


def start(size: int, timeout: str, script: List[str], output: Optional[int]) -> List[int]:
    sys.stdout.flush()
    sys.stderr.flush()
    sys.argv = script
    ports = free_ports(2)
    pids = [fork_rank(variables(r, size, ports, timeout), output) for r in range(size)]
    return await_all(pids, float(timeout.rstrip("s")) + GRACE)


def capture(size: int, timeout: str, script: List[str]) -> Tuple[List[int], str]:
    """Exit statuses, and what all ranks printed."""
    with tempfile.TemporaryFile() as file:
        statuses = start(size, timeout, script, file.fileno())
        file.seek(0)
        return statuses, file.read().decode(errors="replace")


def run(main: Callable[[], int]) -> None:
    """Runs `main`, which may start ranks, and ends the interpreter. A rank leaves `main` and runs the script as the main program."""
    code = None
    try:
        code = main()
    except Rank:
        pass  # what the script raises must not seem to come from here
    if code is None:
        sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
        runpy.run_path(sys.argv[0], run_name="__main__")
    sys.exit(code)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, required=True)
    parser.add_argument("--timeout", default="30s")
    parser.add_argument("script", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    import_torch()
    statuses = start(args.n, args.timeout, args.script, None)
    for rank, status in enumerate(statuses):
        if status:
            print(f"rank {rank} ended with {status}", file=sys.stderr)
    return 1 if any(statuses) else 0


if __name__ == "__main__":
    run(main)
