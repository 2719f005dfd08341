"""Programs that end in odd ways must end: in any order of destruction, after any error, with threads alive, by signals. Every ending runs on
two ranks under every policy, each rank in a process that finishes its interpreter as any program does, except where the ending says else.

    /usr/bin/python3 exits.py [--all] [--policy P] [--jobs N] [NAME ...]     without --all: a selection, each under one policy

Ranks are forked from a process that has loaded torch and started nothing; a rank then leaves main() and runs its ending at the top level of
this file, so that exceptions are unhandled ones and objects die with the interpreter. A rank that does not end within LIMIT seconds, or
ends by a signal or with a status that the ending does not expect, is a failure (LIMIT is for a machine with nothing else to do), unless
torch without Tutti ends by the same signal in the same place (endings.ALONE). What a rank that does not end is doing is printed: its Python
stacks, and those of C where gdb is installed. Most endings wait for a deadline: several programs run at a time. Programs that failed
while the whole machine stood still, this process with it, are run again, and so are those whose ranks missed the deadline of a few seconds
before their ending began: three times at most."""

import contextlib
import faulthandler
import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import case

torch = case.need_torch()
import endings  # noqa: E402

torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)  # torch 2 loads its compiler here: once, and not in every rank
POLICIES = ["sync", "wfbp", "bucket", "mgwfbp", "bytescheduler", "hybrid", "hybrid-cost", "dear", "dear-sharded"]
RANKS, LIMIT = 2, 60.0
JOBS, STANDSTILL, TRIES = 4, 1.0, 4


class Rank:
    """One forked process and what it has written."""

    def __init__(self, folder, rank):
        self.path = os.path.join(folder, f"output{rank}")
        self.status = None
        self.pid = os.fork()
        if self.pid == 0:
            out = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(out, 1)
            os.dup2(out, 2)
            os.setsid()  # as launchers start ranks
            faulthandler.register(signal.SIGUSR1, file=out)

    def look(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if pid else None
        return self.status

    def kill(self):
        """Ends a rank that hangs, which first says where."""
        os.kill(self.pid, signal.SIGUSR1)
        gdb = shutil.which("gdb")
        if gdb:
            words = [gdb, "-p", str(self.pid), "-batch", "-nx", "-ex", "thread apply all bt 25"]
            with open(self.path, "a", encoding="utf-8") as out:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    subprocess.run(words, stdout=out, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=60, check=False)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def output(self):
        with open(self.path, encoding="utf-8", errors="replace") as f:
            return f.read()


@functools.lru_cache(maxsize=None)
def status_alone(name):
    """The status of the ending's program without Tutti; 0 without one."""
    program = endings.ALONE.get(name)
    if program is None:
        return 0
    status = subprocess.run([sys.executable, "-c", program], stderr=subprocess.DEVNULL, check=False).returncode
    print(f"{name}: torch {torch.__version__} without Tutti ends with {status}", flush=True)
    return status


class Play:
    """One ending under one policy."""

    def __init__(self, name, policy, tries):
        self.name, self.policy, self.tries = name, policy, tries
        self.folder = tempfile.mkdtemp(prefix="tutti-exit-")
        self.begun = time.monotonic()
        self.stood, self.seconds = False, 0.0

    def start(self):
        """In a rank: its World. In the parent: None."""
        with socket.create_server(("127.0.0.1", 0)) as s:
            port = s.getsockname()[1]
        self.ranks = []
        for rank in range(RANKS):
            self.ranks.append(Rank(self.folder, rank))
            if self.ranks[-1].pid == 0:
                return endings.World(self.folder, port, rank, RANKS, self.policy)
        return None

    def over(self):
        """Have all ranks ended, or had their time?"""
        left = [r.look() is None for r in self.ranks]
        busy = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # torch 2 takes seconds of CPU time to leave an interpreter
        return not any(left) or time.monotonic() > self.begun + LIMIT * busy

    def judge(self):
        """Why this was not as it must be; None when it was."""
        want = endings.STATUS.get(self.name, (0, 0))
        hung = [k for k, r in enumerate(self.ranks) if r.status is None]
        for k in hung:
            self.ranks[k].kill()
        got = tuple(r.status for r in self.ranks)
        text = f"rank {hung} did not end within {time.monotonic() - self.begun:.0f} s" if hung else None
        if not hung and not all(w is None and g >= 0 or w == g for w, g in zip(want, got)):
            alone = status_alone(self.name)
            text = None if alone < 0 and got == (alone,) * RANKS else f"ended with {got}, not {want}"
        self.stood = self.stood or not all(os.path.exists(os.path.join(self.folder, f"begun{k}")) for k in range(RANKS))
        if text:
            text += "".join(f"\n--- rank {k}\n{r.output()}" for k, r in enumerate(self.ranks))
        shutil.rmtree(self.folder)
        self.seconds = time.monotonic() - self.begun
        return text


def selection(words):
    """(ending, policy, 1) to run."""
    everything = "--all" in words
    only = words[words.index("--policy") + 1] if "--policy" in words else None
    named = [w for w in words if w in endings.ENDINGS]
    names = named or (list(endings.ENDINGS) if everything or only else endings.SHORT)
    if everything or named:
        return [(n, p, 1) for n in names for p in ([only] if only else POLICIES)]
    return [(n, only or POLICIES[k % len(POLICIES)], 1) for k, n in enumerate(names)]


def main(words):
    """In a rank: its World and the name of its ending. Else None, and the number of failures."""
    jobs = int(words[words.index("--jobs") + 1]) if "--jobs" in words else JOBS
    left, running, slowest, begun = selection(words), [], (0.0, ""), time.monotonic()
    done = bad = again = 0
    count, names = len(left), len({n for n, _, _ in left})
    while left or running:
        while left and len(running) < jobs:
            running.append(Play(*left.pop(0)))
            world = running[-1].start()
            if world is not None:
                return world, running[-1].name, 0
        before = time.monotonic()
        time.sleep(0.005)
        stood = time.monotonic() - before > STANDSTILL
        for play in list(running):
            play.stood = play.stood or stood
            if not play.over():
                continue
            running.remove(play)
            text = play.judge()
            if text and play.stood and play.tries < TRIES:
                left.append((play.name, play.policy, play.tries + 1))
                again += 1
                continue
            done += 1
            if done % 50 == 0:
                print(f"{done} of {count} programs, {bad} failed ({time.monotonic() - begun:.0f} s)", flush=True)
            slowest = max(slowest, (play.seconds, f"{play.name} under {play.policy}"))
            bad += text is not None
            if text:
                print(f"FAILED: {play.name} under {play.policy}: {text}", flush=True)
    took = f"{time.monotonic() - begun:.0f} s; slowest {slowest[1]}, {slowest[0]:.1f} s"
    print(f"{names} endings, {count} programs, torch {torch.__version__}: {bad} failed ({took}; run again: {again})")
    return None, "", bad


world, ending, failures = main(sys.argv[1:])
if world is None:
    sys.exit(1 if failures else 0)
world.begin()
endings.ENDINGS[ending](world)
