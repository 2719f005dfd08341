"""torch.compile and our Python: what torch calls in the middle of a compiled model (collectives,
hooks) runs as it is and is never traced.

torch.compiler.disable would do, but loads the compiler, seconds of time, for programs that never
compile. Here the interpreter's own mark is set on the code of a function; everything it calls is
skipped with it. torch 1.13 has no compiler, and nothing is done."""

from typing import Any

import torch


def leave_alone(*functions: Any) -> None:
    """The compiler does not look at these."""
    frames = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
    if not hasattr(frames, "set_code_exec_strategy"):
        return
    skip = frames._FrameAction.SKIP  # type: ignore[union-attr]
    for f in functions:
        frames.set_code_exec_strategy(f.__code__, frames._FrameExecStrategy(skip, skip))  # type: ignore[union-attr]


def leave_class_alone(cls: type) -> None:
    """All methods that are written in the class."""
    leave_alone(*(f for f in vars(cls).values() if hasattr(f, "__code__")))
