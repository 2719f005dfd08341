#!/usr/bin/env python3
"""One rank of three fails, in several ways: every other rank must be told who and why. Usage: faults.py TUTTI"""

import os
import re
import subprocess
import sys

import ranks

HERE = os.path.dirname(os.path.abspath(__file__))
SIZE, TIMEOUT = 3, "10s"
# a case of test_faults.py, and how often its ranks must say together that they were told
NAMED = {"ddp-workers": 4, "hook": 4, "dear": 4, "dear-workers": 4, "fsdp": 4, "fsdp-workers": 4, "allreduce": 2, "subgroup": 2,
         "receiver": 2, "late": 3, "future": 2, "differs": 3, "leaves": 2}


def judge(name: str, passed: bool, output: str) -> bool:
    print(f"passed: {name}" if passed else f"FAILED: {name}\n{output}", flush=True)
    return passed


def has_fsdp() -> bool:
    try:
        from torch.distributed.fsdp import fully_shard  # noqa: F401
    except ImportError:
        return False
    return True


def told(case: str) -> bool:
    _, output = ranks.capture(SIZE, TIMEOUT, [os.path.join(HERE, "test_faults.py"), case])
    return judge(case, output.count(" named: ") == NAMED[case], output)


def leave(tutti: str, case: str) -> str:
    """What the launcher and three NumPy programs print, of which one leaves with an exception or early."""
    command = [tutti, "run", "-n", str(SIZE), "--timeout", TIMEOUT, "--", sys.executable, os.path.join(HERE, "leave.py"), case]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60).stdout


def left(tutti: str, case: str) -> bool:
    """Both others hear the text of the exception that one rank left with, and end before it; the launcher names it."""
    output = leave(tutti, case)
    heard = len(re.findall(r"^rank [02] told$", output, re.M)) == 2
    named = re.search(r"^tutti run: rank 1 \(pid \d+\) exited with status 1$", output, re.M)
    return judge(f"leaving {case}", bool(heard and named) and "found when the communicator was closed" not in output, output)


def left_early(tutti: str) -> bool:
    """Ranks that fail because of one that does not fail itself."""
    output = leave(tutti, "early")
    pattern = (r"^tutti run: rank [02] .* exited with status 1; the ranks blame rank 1 \(pid \d+\), "
               r"which has ended without an error$")
    return judge("leaving early", bool(re.search(pattern, output, re.M)), output)


def main() -> int:
    tutti = os.path.abspath(sys.argv[1])
    if not ranks.import_torch():
        print(f"skipped: {sys.executable} has no torch (Debian: python3-torch)")
        return 0
    cases = [c for c in NAMED if has_fsdp() or not c.startswith("fsdp")]
    for case in set(NAMED) - set(cases):
        print(f"skipped: {case}: {sys.executable} has no PyTorch 2")
    results = [told(case) for case in cases] + [left(tutti, case) for case in ("with", "without")] + [left_early(tutti)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    ranks.run(main)
