"""The command `tutti` of an installed package: becomes the tool that lies beside the library."""

import os
import sys


def main() -> None:
    """Does not return."""
    tool = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tutti")
    try:
        os.execv(tool, ["tutti"] + sys.argv[1:])
    except OSError as e:
        sys.exit(f"tutti: {tool} cannot be started: {e.strerror}; pip install brings it")
