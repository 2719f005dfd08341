"""What the Python tests share: a rank's part of a test is a function; the program runs all of its functions in order on every rank.

Usage of a test: tutti run -n N -- python3 test/python/NAME.py. Exit 0: passed, or skipped with the reason printed."""

import sys
import time
from typing import Any, Callable, List


def need_numpy() -> None:
    """NumPy, or the end of the test."""
    try:
        import numpy  # noqa: F401
    except ImportError as e:
        print(f"skipped: {e} (Debian: python3-numpy)")
        sys.exit(0)


def need_torch() -> Any:
    """torch with its distributed package, or the end of the test."""
    try:
        import torch
        import torch.distributed as dist
    except ImportError as e:
        print(f"skipped: {e} (Debian: python3-torch)")
        sys.exit(0)
    if not dist.is_available():
        print("skipped: this torch has no distributed package")
        sys.exit(0)
    torch.set_num_threads(1)
    return torch


def raises(kind: Any, call: Callable[[], Any], *words: str) -> str:
    """The text of the exception that `call` must raise; it must hold all the words."""
    try:
        call()
    except kind as e:
        text = str(e)
        missing = [w for w in words if w not in text]
        assert not missing, f"{missing} not in: {text}"
        return text
    raise AssertionError(f"no {kind} was raised")


def run(tests: List[Callable[[], None]], rank: int) -> None:
    """All tests in order; the first failure ends the program."""
    for t in tests:
        start = time.monotonic()
        try:
            t()
        except BaseException:
            print(f"FAILED on rank {rank}: {t.__name__}", file=sys.stderr, flush=True)
            raise
        if rank == 0:
            print(f"passed: {t.__name__} ({time.monotonic() - start:.2f} s)", flush=True)
