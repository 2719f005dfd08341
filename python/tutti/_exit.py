"""The end of the program: a rank that leaves with an exception tells the others its text.

Communicators note themselves here. What is still open when the interpreter ends after an unhandled
exception is aborted with that exception's text, so that the others hear why and not only that. In a
forked child they are the parent's: calls there raise, and closing does nothing.
"""

import atexit
import os
import sys
import weakref
from typing import Any, Optional

_TEXT = 300  # characters of an exception that travel
FORKED = "belongs to the process that this one was forked from; open one here"
_open: "weakref.WeakSet[Any]" = weakref.WeakSet()


def describe(error: BaseException) -> str:
    """An exception in one line, for the other ranks."""
    text = " ".join(str(error).split())
    whole = f"{type(error).__name__}{': ' if text else ''}{text}"
    return whole if len(whole) <= _TEXT else whole[: _TEXT - 3] + "..."


def failure() -> Optional[str]:
    """What ended the program, if an exception did."""
    error = getattr(sys, "last_value", None)
    return None if error is None else f"left with {describe(error)}"


def note(comm: Any) -> None:
    """A communicator or trainer that is to be looked after."""
    _open.add(comm)


def _leave() -> None:
    why = failure()
    for comm in list(_open) if why else []:
        comm._left(why)


def _forked() -> None:
    for comm in list(_open):
        comm._disown()
    _open.clear()


atexit.register(_leave)
os.register_at_fork(after_in_child=_forked)
