"""Programs that end in odd ways must end: in any order of destruction, after any error, with threads alive, by signals. Every ending runs on
two ranks under every policy, each rank in a process that finishes its interpreter as any program does, except where the ending says else.

    /usr/bin/python3 exits.py [--all] [--policy P] [NAME ...]     without --all: a selection, each under one policy

Ranks are forked from a process that has loaded torch and started nothing; a rank then leaves main() and runs its ending at the top level of
this file, so that exceptions are unhandled ones and objects die with the interpreter. A rank that does not end within LIMIT seconds, or
ends by a signal or with a status that the ending does not expect, is a failure."""

import os
import shutil
import signal
import socket
import sys
import tempfile
import time

import case

torch = case.need_torch()
import endings  # noqa: E402

POLICIES = ["sync", "wfbp", "bucket", "mgwfbp", "bytescheduler", "hybrid", "hybrid-cost", "dear", "dear-sharded"]
RANKS, LIMIT = 2, 60.0


class Rank:
    """One forked process and what it has written."""

    def __init__(self, folder, rank):
        self.path = os.path.join(folder, f"output{rank}")
        self.status = None
        self.pid = os.fork()
        if self.pid == 0:
            out = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
            os.dup2(out, 1)
            os.dup2(out, 2)
            os.close(out)

    def look(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if pid else None
        return self.status

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def output(self):
        with open(self.path, encoding="utf-8", errors="replace") as f:
            return f.read()


def judge(name, ranks):
    """Why this was not as it must be; None when it was."""
    want = endings.STATUS.get(name, (0, 0))
    end = time.monotonic() + LIMIT
    while time.monotonic() < end and any([r.look() is None for r in ranks]):
        time.sleep(0.005)
    hung = [k for k, r in enumerate(ranks) if r.status is None]
    for k in hung:
        ranks[k].kill()
    if hung:
        return f"rank {hung} did not end within {LIMIT:.0f} s"
    got = tuple(r.status for r in ranks)
    return None if all(w is None and g >= 0 or w == g for w, g in zip(want, got)) else f"ended with {got}, not {want}"


def start(name, policy):
    """In a rank: its part. In the parent: the ranks."""
    folder = tempfile.mkdtemp(prefix="tutti-exit-")
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    ranks = []
    for rank in range(RANKS):
        ranks.append(Rank(folder, rank))
        if ranks[-1].pid == 0:
            return None, endings.World(folder, port, rank, RANKS, policy)
    text = judge(name, ranks)
    if text:
        text += "".join(f"\n--- rank {k}\n{r.output()}" for k, r in enumerate(ranks))
    shutil.rmtree(folder)
    return text, None


def selection(words):
    """(ending, policy) to run."""
    everything = "--all" in words
    only = words[words.index("--policy") + 1] if "--policy" in words else None
    named = [w for w in words if not w.startswith("--") and w != only]
    names = named or (list(endings.ENDINGS) if everything or only else endings.SHORT)
    if everything or named:
        return [(n, p) for n in names for p in ([only] if only else POLICIES)]
    return [(n, only or POLICIES[k % len(POLICIES)]) for k, n in enumerate(names)]


def main(words):
    """A function to call when this is a rank; else None, and the number of failures."""
    bad, slowest, begun, todo = 0, (0.0, ""), time.monotonic(), selection(words)
    for name, policy in todo:
        before = time.monotonic()
        for _ in range(2):  # a machine that stood still is no fault: what hangs, hangs again
            text, world = start(name, policy)
            if world is not None:
                return world, name, 0
            if not text or "did not end" not in text:
                break
        slowest = max(slowest, (time.monotonic() - before, f"{name} under {policy}"))
        bad += text is not None
        if text:
            print(f"FAILED: {name} under {policy}: {text}", flush=True)
    names = len({n for n, _ in todo})
    print(f"{names} endings, {len(todo)} programs, torch {torch.__version__}: {bad} failed ({time.monotonic() - begun:.0f} s; slowest {slowest[1]}, {slowest[0]:.1f} s)")
    return None, "", bad


world, ending, failures = main(sys.argv[1:])
if world is None:
    sys.exit(1 if failures else 0)
world.begin()
endings.ENDINGS[ending](world)
