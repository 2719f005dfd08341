#!/usr/bin/env python3
"""The fault campaign: jobs in which one thing goes wrong, and what every surviving rank is told about it.

    campaign.py BUILD [--seed S] [--count N] [--only KIND] [--transport T] [--phase P] [--jobs J] [--json FILE] [--quick]

Number S decides everything about fault S: the transport, the kind, the phase of the job, the victim, the moment. A fault that was judged a
miss is printed with its number and repeated by --seed S --count 1. --only and --transport leave out all others.

Every survivor must return by itself, with an error that names the rank at fault first and says what is wrong with it (the class); its next
call must say the same; all sums that it got before must be right; after closing it must have no descriptor and no thread more than before.
Where nothing should happen (strangers at the ports, a forked child that closes what it inherited) the job must end as if alone. A limit that
one rank is given may be enough, then nothing may happen; otherwise that rank is to be named."""

import argparse
import collections
import json
import os
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
TIMEOUT_MS = 2000  # deadline of every wait of a job
CACHE = os.path.join(tempfile.gettempdir(), f"tutti-faults-{os.getpid()}")  # the speeds of this machine, measured once
HANG = TIMEOUT_MS / 1000 + 12  # seconds after the fault

OPENING = r"|did not come|could not be reached|ended its control connection"  # a rank that was never there can only be missed
# kind: (class, made by whom). The class is what a survivor must be told; None: nothing.
KINDS = {
    "kill": (r"is dead|is gone", "parent"),
    "stop": (r"is stuck|stopped", "parent"),
    "cut": (r"is unreachable", "parent"),  # a link goes down
    "silent": (r"is unreachable", "parent"),  # it looks well and carries nothing
    "half": (r"is unreachable", "parent"),  # it carries nothing in one direction
    "garbage": (None, "parent"),
    "flood": (None, "parent"),
    "late": (r"has not entered", "victim"),
    "exit": (r"is dead|is gone", "victim"),
    "exec": (r"is dead|is gone", "victim"),
    "fork": (r"is dead|is gone", "victim"),  # dies and leaves a child
    "leave": (r"has left|has closed|is dead", "victim"),
    "abort": (r"aborted: because", "victim"),
    "child": (None, "victim"),
    "count": (r"calls are mismatched", "victim"),
    "type": (r"calls are mismatched", "victim"),
    "op": (r"calls are mismatched", "victim"),
    "root": (r"calls are mismatched", "victim"),
    "call": (r"calls are mismatched", "victim"),
    "key": (r"key|prove|did not come", "victim"),
    "size": (r"size|ranks|did not come", "victim"),
    "flip": (r"altered", "victim"),
    "memory": (r".", "victim"),
    "file": (r".", "victim"),
    "descriptors": (r".", "victim"),
}
LIMITS = ("memory", "file", "descriptors")
GONE = ("kill", "stop", "exit", "exec", "fork", "leave")  # the victim cannot report
WRONG = ("count", "type", "op", "root", "call")
LINK = ("cut", "silent", "half")


def table():
    """Every (transport, kind, phase) once."""
    rows = []
    for t in ("shm", "tcp", "lab"):
        rows += [(t, k, p) for k in ("kill", "stop") for p in ("open", "split", "trainer", "first", "many", "close")]
        rows += [(t, "late", p) for p in ("open", "split", "trainer", "first", "many")]
        rows += [(t, k, "many") for k in ("exit", "exec", "fork", "child", "leave", "abort") + WRONG]
        rows += [(t, k, "first") for k in ("root", "count", "call")]
        rows += [(t, k, "open") for k in ("key", "size", "exit")]
        rows += [(t, k, p) for k in LIMITS for p in ("open", "many")]
    rows += [(t, k, p) for t in ("shm", "tcp") for k in ("garbage", "flood") for p in ("open", "many")]
    rows += [(t, "flip", "many") for t in ("tcp", "lab", "tcp", "lab")]
    rows += [("lab", k, p) for k in LINK for p in ("split", "many", "many")] + [("lab", "cut", "open")]
    rows += [("mpi", k, "many") for k in ("kill", "stop", "late", "exit", "exec", "fork", "abort", "count", "root", "call", "garbage")]
    rows += [("mpi", "kill", "split"), ("mpi", "kill", "first")]
    rows += [("torch", k, "many") for k in ("kill", "stop", "late", "exit", "exec", "fork", "child", "count", "garbage", "flood")]
    rows += [("torch", "kill", "open"), ("torch", "kill", "split"), ("torch", "stop", "split"), ("torch", "late", "first")]
    random.Random(16).shuffle(rows)  # costs spread evenly
    return rows


TABLE = table()


class Fault:
    """One fault: what its number decides."""

    def __init__(self, seed):
        r = self.random = random.Random(seed)
        self.seed = seed
        self.transport, self.kind, self.phase = TABLE[seed % len(TABLE)]
        self.hosts, self.per_host = 1, r.choice((2, 3, 3, 4))
        if self.transport == "lab":  # bytes are altered between hosts
            self.hosts, self.per_host = r.choice(((2, 2), (3, 1), (3, 2), (4, 1))) if self.kind != "flip" else (3, 1)
        self.n = self.hosts * self.per_host
        self.victim = r.randrange(self.n)
        if self.transport == "torch" and self.phase == "open" and self.victim == 0:
            self.victim = 1  # rank 0's end is that of torch's own store
        self.at = 0 if self.phase == "first" else r.randrange(1, 12)
        self.count = r.choice((16, 1000, 1000, 65536, 1 << 20))
        if self.kind == "flip":
            self.count = r.choice((64, 1000, 20000))
        self.delay = r.random() * (0.06 if self.phase == "open" else 0.03)
        if self.kind in LIMITS:
            self.at = {"memory": r.randrange(5, 300), "file": r.randrange(0, 2000), "descriptors": r.randrange(0, 30)}[self.kind]
        self.env = {}
        if self.transport in ("tcp", "mpi"):
            self.env["TUTTI_TRANSPORT"] = self.transport
        algo = r.choice((None, None, "ring", "halving-doubling"))
        if algo and self.transport in ("shm", "tcp"):
            self.env["TUTTI_ALGO"] = algo
        if self.kind == "flip":
            self.env["TUTTI_ENCRYPT" if r.random() < 0.6 else "TUTTI_CHECKSUM"] = "1"
        elif self.transport in ("tcp", "lab") and r.random() < 0.25:
            self.env["TUTTI_ENCRYPT"] = "1"
        self.run_ms = 1200 if self.calm or self.kind in LIMITS else 12000

    @property
    def calm(self):
        return KINDS[self.kind][0] is None

    @property
    def itself(self):
        """What the victim is told to do."""
        if KINDS[self.kind][1] == "victim":
            return self.kind
        return "slow" if self.calm and self.phase == "open" else "-"

    def args(self, folder):
        phase = "many" if self.phase == "first" else self.phase
        return [folder, phase, self.itself, self.victim, self.at, self.count, TIMEOUT_MS, self.run_ms, self.per_host if self.hosts > 1 else 1]

    def __str__(self):
        where = f"{self.hosts} hosts x {self.per_host}" if self.hosts > 1 else f"{self.n} ranks"
        env = "".join(f" {k}={v}" for k, v in sorted(self.env.items()))
        return f"{self.seed}: {self.transport}, {self.kind} in {self.phase}, {where}, victim {self.victim}, at {self.at}, {self.count} f32{env}"


# ---- a job ----


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Log:
    """What one rank wrote so far."""

    def __init__(self, path):
        self.path, self.lines, self.pid = path, [], None

    def read(self):
        try:
            with open(self.path) as f:
                text = f.read()
        except OSError:
            return
        self.lines = [(int(a), b) for a, _, b in (line.partition(" ") for line in text.splitlines())] if text.endswith("\n") else self.lines
        if self.lines and self.pid is None:
            self.pid = int(self.lines[0][1].split()[-1])

    def find(self, word):
        return next(((t, text) for t, text in self.lines if text.startswith(word)), None)


def listening(pid):
    """Ports on which a process listens."""
    inodes = set()
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            m = re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{name}"))
            inodes.add(m.group(1) if m else None)
        with open(f"/proc/{pid}/net/tcp") as f:
            rows = [line.split() for line in f.readlines()[1:]]
    except OSError:
        return []
    return [int(r[1].split(":")[1], 16) for r in rows if r[3] == "0A" and r[9] in inodes]


class Job:
    def __init__(self, fault, build, torch):
        self.fault, self.build, self.torch = fault, build, torch
        self.folder = tempfile.mkdtemp(prefix="tutti-fault-")
        self.logs = [Log(f"{self.folder}/{i}") for i in range(fault.n)]
        self.process, self.fault_ns, self.out, self.strangers = None, None, "", None

    def command(self):
        f, member = self.fault, [f"{self.build}/test/member"] + [str(a) for a in self.fault.args(self.folder)]
        if f.transport == "lab":
            return [f"{self.build}/tutti", "lab", "--nodes", str(f.hosts), "--rate", "1gbit", "--timeout", "20s", "--"] + member
        if f.transport == "mpi":
            root = ["--allow-run-as-root"] if os.getuid() == 0 else []
            return ["mpirun.openmpi", *root, "--oversubscribe", "--enable-recovery", "-n", str(f.n)] + member
        return [f"{self.build}/tutti", "run", "-n", str(f.n), "--timeout", "20s", "--"] + member

    def start(self):
        with open(f"{self.folder}/otherkey", "wb") as f:
            os.fchmod(f.fileno(), 0o600)
            f.write(os.urandom(32))
        if self.fault.transport == "torch":
            self.torch.start(self.fault, self.folder)
            return
        env = {k: v for k, v in os.environ.items() if not k.startswith(("TUTTI_", "OMPI_", "PMI"))}
        env.update(self.fault.env, XDG_CACHE_HOME=CACHE, MALLOC_ARENA_MAX="2")
        self.output = open(f"{self.folder}/out", "w+b")
        self.process = subprocess.Popen(self.command(), env=env, stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT, start_new_session=True)

    def read(self):
        for log in self.logs:
            log.read()

    def await_phase(self, limit):
        """All ranks have reached the phase (for opening: the victim; with torch rank 0 too, without whose address nobody can meet)."""
        phase = "many" if self.fault.phase == "first" else self.fault.phase
        first = [self.logs[0]] if self.fault.transport == "torch" else []
        logs = first + [self.logs[self.fault.victim]] if phase == "open" else self.logs
        while time.monotonic() < limit and (self.process is None or self.process.poll() is None):
            self.read()
            if all(log.find(f"at {phase}") for log in logs):
                return True
            time.sleep(0.002)
        return False

    def tool(self, *words):
        subprocess.run(words, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def break_link(self):
        lab, host = f"tutti-lab-{self.process.pid}", self.fault.victim // self.fault.per_host
        if self.fault.kind == "cut":
            self.tool("ip", "-n", f"{lab}-net", "link", "set", f"p{host}", "down")
        elif self.fault.kind == "silent":
            self.tool("ip", "-n", f"{lab}-net", "link", "set", f"p{host}", "nomaster")
        elif self.fault.random.random() < 0.5:
            self.tool("tc", "-n", f"{lab}-net", "qdisc", "replace", "dev", f"p{host}", "root", "blackhole")
        else:
            self.tool("tc", "-n", f"{lab}-{host}", "qdisc", "replace", "dev", "eth0", "root", "blackhole")

    def send_strangers(self):
        ports, end = [], time.monotonic() + 1
        while not ports and time.monotonic() < end:
            ports = sorted({p for log in self.logs if log.pid for p in listening(log.pid)})
            self.read()
        if ports:
            self.strangers = subprocess.Popen([sys.executable, __file__, "--stranger", self.fault.kind, str(self.fault.seed)] + [str(p) for p in ports],
                                              stdin=subprocess.DEVNULL)

    def await_victim(self, limit):
        """The victim has made its fault, or has ended without (it had no need to send what should have been altered)."""
        log = self.logs[self.fault.victim]
        while time.monotonic() < limit and (self.process is None or self.process.poll() is None) and not log.find("fault") and not log.find("end"):
            time.sleep(0.005)
            self.read()

    def inject(self, limit):
        f = self.fault
        if KINDS[f.kind][1] == "victim":
            self.await_victim(limit)
            return
        if not self.await_phase(limit):
            return
        time.sleep(f.delay)
        if f.kind in LINK:
            self.break_link()
        elif f.calm:
            self.send_strangers()
        else:
            try:
                os.kill(self.logs[f.victim].pid, signal.SIGKILL if f.kind == "kill" else signal.SIGSTOP)
            except ProcessLookupError:
                return  # it has closed and ended
        self.fault_ns = time.monotonic_ns()

    def judged(self):
        return [i for i in range(self.fault.n) if not (self.fault.kind in GONE and i == self.fault.victim)]

    def await_ends(self, limit):
        while time.monotonic() < limit:
            self.read()
            if all(self.logs[i].find("end") or (self.logs[i].pid and not alive(self.logs[i].pid)) for i in self.judged()):
                return
            if self.process and self.process.poll() is not None:
                time.sleep(0.05)
                self.read()
                return
            time.sleep(0.005)

    def kill(self, pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass

    def stop(self):
        """Nothing of the job stays. True: the launcher did not end by itself after its ranks had."""
        stays = False
        if self.strangers:
            self.strangers.kill()
            self.strangers.wait()
        hung = [log.pid for i, log in enumerate(self.logs) if log.pid and i in self.judged() and not log.find("end") and alive(log.pid)]
        for pid in hung + [self.logs[self.fault.victim].pid] * (self.fault.kind in GONE):
            if pid:
                self.kill(pid)
        for log in self.logs:
            child = log.find("child ")
            if child and child[1].split()[1].isdigit():
                self.kill(int(child[1].split()[1]))
        if self.process:
            for wait, how in ((8, signal.SIGTERM), (5, signal.SIGKILL), (5, None)):
                try:
                    self.process.wait(wait)
                    break
                except subprocess.TimeoutExpired:
                    stays = True
                    os.killpg(self.process.pid, how) if how else None
            self.output.seek(0)
            self.out = self.output.read().decode(errors="replace")
            self.output.close()
        return stays

    def play(self):
        limit = time.monotonic() + 40
        self.start()
        try:
            self.inject(limit)
            self.await_ends(time.monotonic() + HANG)
        finally:
            dead = [i for i in self.judged() if self.logs[i].pid and not alive(self.logs[i].pid)]
            self.read()  # what a rank wrote before it ended
            crashed = [i for i in dead if not self.logs[i].find("end")]
            never = [i for i in self.judged() if not self.logs[i].pid]
            stays = self.stop()
            self.read()
        verdict = judge(self, crashed, never, stays)
        shutil.rmtree(self.folder, ignore_errors=True)
        return verdict


class Clock(threading.Thread):
    """Notes when this machine stood still: a job that met that proves nothing. What is asked is a process with one thread, like most ranks:
    where processes are frozen (cgroup v1 freezes single threads), this one's other threads may go on."""

    LONG = 0.5

    def __init__(self):
        super().__init__(daemon=True)
        self.process = subprocess.Popen([sys.executable, __file__, "--clock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.gaps, self.last = [], time.monotonic()

    def run(self):
        for _ in self.process.stdout:
            now = time.monotonic()
            if now - self.last > self.LONG:
                self.gaps.append(now)
            self.last = now

    def stood_still(self, since):
        """Waits until the machine goes on."""
        late = False
        while time.monotonic() - self.last > self.LONG and self.process.poll() is None:
            late = True
            time.sleep(0.05)
        return late or any(end > since for end in self.gaps)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def tick():
    """The clock's process: a line every 50 ms until its standard input ends."""
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        print(flush=True)


def play(fault, build, torch, clock):
    """Plays a fault, again (up to five times) when the machine stood still meanwhile."""
    for voids in range(5):
        since = time.monotonic()
        verdict = Job(fault, build, torch).play()
        verdict.voids = voids
        time.sleep(0.06)  # the clock's last gap
        if not clock.stood_still(since):
            break
    return verdict


# ---- the judge ----


def first_rank(text):
    """The rank that an error names first."""
    m = re.search(r"ranks? (\d+) \(host", text) or re.search(r"\branks? (\d+)", text)
    return int(m.group(1)) if m else None


def culprits(f, me):
    """Who may be named by rank `me`."""
    if f.kind in LINK:
        mine = set(range(f.victim // f.per_host * f.per_host, f.victim // f.per_host * f.per_host + f.per_host))
        # with two hosts and no sign of the interface nobody can know whose link it is
        return set(range(f.n)) if f.hosts == 2 and (f.kind != "cut" or f.phase == "open") else mine
    if f.kind in WRONG + ("size",) and f.n == 2:
        return {0, 1}
    return {f.victim}


class Verdict:
    def __init__(self, fault):
        self.fault, self.ms, self.misses = fault, [], []
        self.hangs = self.crashes = self.wrong = 0
        self.told = self.culprit = self.right_class = 0

    def miss(self, what, rank=None, text=""):
        self.misses.append(f"{'rank %d: ' % rank if rank is not None else ''}{what}{': ' + text if text else ''}")


def judge_told(v, rank, told, again, fault_ns):
    f = v.fault
    status, opened, text = told[1].split(" ", 3)[1:] if told[1].count(" ") > 2 else (*told[1].split(" ")[1:], "")
    wanted = KINDS[f.kind][0] + (OPENING if f.phase == "open" else "")
    v.told += 1
    if fault_ns:
        v.ms.append(max(0.0, (told[0] - fault_ns) / 1e6))
    named = first_rank(text) in culprits(f, rank) or (f.kind in ("flip", "size") and re.search(rf"\brank {f.victim}\b", text))
    own = (f.kind in LIMITS or f.phase == "open") and rank == f.victim  # it speaks about itself
    if named or own:
        v.culprit += 1
    else:
        v.miss("another culprit", rank, text)
    if re.search(wanted, text) or own:
        v.right_class += 1
    else:
        v.miss("another class", rank, text)
    if opened == "1" and again and not own:
        if again[1].split()[1] == "0" or first_rank(again[1].split(" ", 2)[2]) != first_rank(text):
            v.miss("the next call says something else", rank, f"{text} | {again[1]}")


def judge_end(v, rank, log):
    end = log.find("end")
    for _, text in log.lines:
        if text.startswith("WRONG"):
            v.wrong += 1
            v.miss("wrong numbers", rank, text)
    if end and v.fault.transport in ("shm", "tcp", "lab"):
        fds, threads = end[1].split()[1:]
        if fds != "0" or int(threads) > 0:
            v.miss("left behind", rank, end[1])


def judge(job, crashed, never, stays):
    f, v = job.fault, Verdict(job.fault)
    quiet = f.calm or f.phase == "close"
    own = job.logs[f.victim].find("fault")
    fault_ns = job.fault_ns or (own[0] if own else None)
    told = {i: job.logs[i].find("told") for i in job.judged()}
    harmless = f.kind in LIMITS and not any(told.values())
    for i in job.judged():
        log = job.logs[i]
        judge_end(v, i, log)
        if i in never:
            v.miss("never started", i)
        elif i in crashed:
            v.crashes += 1
            v.miss("CRASHED", i, log.lines[-1][1])
        elif not log.find("end"):
            v.hangs += 1
            v.miss("HANGS", i, log.lines[-1][1])
        elif told[i]:
            if quiet:
                v.miss("was disturbed", i, told[i][1])
            else:
                judge_told(v, i, told[i], log.find("again"), fault_ns)
        elif not quiet and not harmless:
            v.miss("was told nothing", i)
    for _, text in job.logs[f.victim].lines:
        if text.startswith("child called: 0"):
            v.miss("a forked child could call", f.victim, text)
    if not quiet and not harmless and fault_ns is None:
        v.miss("the fault did not happen")
    if stays:
        v.miss("the launcher did not end")
    for i, status in re.findall(r"tutti run: rank (\d+) \(pid \d+\) exited with status (\d+)", job.out):
        if int(i) in job.judged():
            v.miss(f"ended with status {status}", int(i))  # a sanitizer has found something
    if v.misses and job.out.strip():
        v.misses.append("printed: " + " / ".join(job.out.strip().splitlines()[-40 if v.crashes else -6 :]))
    return v


# ---- strangers ----


def stranger(kind, seed, ports):
    """Garbage on every port, or as many silent connections as possible, for a second."""
    r, end, held, addresses = random.Random(seed), time.monotonic() + 1, collections.deque(), [("127.0.0.1", p) for p in ports]
    n = 0
    while time.monotonic() < end:
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(r.choice(addresses))
        held.append(s)
        if kind == "garbage":
            time.sleep(0.002)
            start = r.choice((b"", b"tutti\r\n\0", b"tutti\r\n\0\1\0\0\1", b"GET / HTTP/1.1\r\n\r\n"))
            try:
                s.send(start + r.randbytes(r.choice((0, 1, 63, 64, 100, 5000))))
            except OSError:
                pass
        n += 1
        if len(held) > (20 if kind == "garbage" else 500):
            held.popleft().close()
        if n % 50 == 0:
            time.sleep(0.008)  # some 5,000 a second


# ---- torch ----


class Torch:
    """A process that has loaded torch and becomes the ranks of each job by forking."""

    def __init__(self, build):
        self.build, self.lock, self.process = build, threading.Lock(), None
        self.missing = subprocess.run(["/usr/bin/python3", "-c", "import torch.distributed"], capture_output=True).returncode != 0

    def start(self, fault, folder):
        s = socket.socket()
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
        s.close()
        with self.lock:
            if self.process is None:
                env = dict(os.environ, PYTHONPATH=os.path.join(HERE, "../../python"), TUTTI_LIBRARY=f"{self.build}/libtutti.so", OMP_NUM_THREADS="1",
                           PYTHONDONTWRITEBYTECODE="1", XDG_CACHE_HOME=CACHE)
                self.process = subprocess.Popen(["/usr/bin/python3", f"{HERE}/torch_member.py"], env=env, text=True, stdin=subprocess.PIPE,
                                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
                self.process.stdout.readline()  # it has loaded torch
            self.process.stdin.write(json.dumps({"ranks": fault.n, "port": port, "args": fault.args(folder), "env": fault.env}) + "\n")
            self.process.stdin.flush()

    def close(self):
        if self.process:
            self.process.stdin.close()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


# ---- the report ----


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))] if values else float("nan")


def summary(verdicts):
    told = sum(v.told for v in verdicts)
    ms = [x for v in verdicts for x in v.ms]
    return {"faults": len(verdicts), "told": told, "culprit": sum(v.culprit for v in verdicts), "class": sum(v.right_class for v in verdicts),
            "hangs": sum(v.hangs for v in verdicts), "wrong": sum(v.wrong for v in verdicts), "crashes": sum(v.crashes for v in verdicts),
            "missed": sum(bool(v.misses) for v in verdicts), "ms": [round(quantile(ms, q), 1) for q in (0.5, 0.99, 1)] if ms else None}


def print_row(name, s):
    ms = "".join(f"{x:9.1f}" for x in s["ms"]) if s["ms"] else "        -" * 3
    print(f"{name:22} {s['faults']:6} {s['missed']:6} {s['told']:6} {s['culprit']:7} {s['class']:6} {s['hangs']:5} {s['wrong']:5} {s['crashes']:7} {ms}")


def report(verdicts, seconds):
    by_kind, by_transport = collections.defaultdict(list), collections.defaultdict(list)
    for v in verdicts:
        by_kind[f"{v.fault.kind} {v.fault.transport}"].append(v)
        by_transport[v.fault.transport].append(v)
    print(f"\n{'kind, transport':22} faults missed   told culprit  class hangs wrong crashes    ms: median   p99    worst")
    order = list(KINDS)
    rows = {}
    for name in sorted(by_kind, key=lambda k: (order.index(k.split()[0]), k)):
        rows[name] = summary(by_kind[name])
        print_row(name, rows[name])
    for name in sorted(by_transport):
        rows[name] = summary(by_transport[name])
        print_row(name, rows[name])
    everything = rows["all"] = summary(verdicts)
    print_row("all", everything)
    told = max(1, everything["told"])
    print(f"\n{len(verdicts)} faults in {seconds:.0f} s: {everything['hangs']} hangs, {everything['wrong']} wrong numbers, {everything['crashes']} crashes of survivors; "
          f"right culprit {100 * everything['culprit'] / told:.2f} %, right class {100 * everything['class'] / told:.2f} % of {everything['told']} errors; "
          f"{everything['missed']} faults with a miss; {sum(v.voids for v in verdicts)} were played again because the machine stood still")
    return rows


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "--stranger":
        return stranger(sys.argv[2], int(sys.argv[3]), [int(p) for p in sys.argv[4:]])
    if sys.argv[1:] == ["--clock"]:
        return tick()
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("--seed", type=int, default=0, help="the first fault")
    p.add_argument("--count", type=int, default=7 * len(TABLE), help="how many numbers are tried")
    p.add_argument("--only", help="kinds, joined by commas")
    p.add_argument("--transport", help="transports, joined by commas")
    p.add_argument("--phase", help="phases, joined by commas")
    p.add_argument("--jobs", type=int, default=3, help="at the same time")
    p.add_argument("--json", help="file for the numbers")
    p.add_argument("--quick", action="store_true", help="every kind, transport and phase once")
    a = p.parse_args()
    build = os.path.abspath(a.build)
    if a.quick:
        a.count = len(TABLE)
    torch = Torch(build)
    skip = {"lab": "not root, hosts cannot be emulated"} if os.getuid() else {}
    if not shutil.which("mpirun.openmpi"):
        skip["mpi"] = "Open MPI is not installed"
    if torch.missing:
        skip["torch"] = "/usr/bin/python3 has no torch"
    for name, why in skip.items():
        print(f"skipped: {name}: {why}")
    faults = [Fault(s) for s in range(a.seed, a.seed + a.count)]
    faults = [f for f in faults if f.transport not in skip and f.kind in (a.only or f.kind).split(",") and f.phase in (a.phase or f.phase).split(",")
              and f.transport in (a.transport or f.transport).split(",")]
    print(f"seeds {a.seed} to {a.seed + a.count - 1}: {len(faults)} faults, deadline {TIMEOUT_MS} ms, {a.jobs} jobs at a time", flush=True)
    verdicts, start, clock = [], time.monotonic(), Clock()
    clock.start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what has begun is played to its end, so that nothing stays
    try:
        with ThreadPoolExecutor(a.jobs) as pool:
            for v in pool.map(lambda f: play(f, build, torch, clock), faults):
                verdicts.append(v)
                if v.misses:
                    print(f"MISS {v.fault}\n    " + "\n    ".join(v.misses), flush=True)
    finally:
        clock.close()
        torch.close()
        shutil.rmtree(CACHE, ignore_errors=True)
    rows = report(verdicts, time.monotonic() - start)
    if a.json:
        with open(a.json, "w") as f:
            json.dump({"seed": a.seed, "count": a.count, "rows": rows,
                       "misses": [{"seed": v.fault.seed, "fault": str(v.fault), "what": v.misses} for v in verdicts if v.misses]}, f, indent=1)
    s = rows["all"]
    return 1 if s["hangs"] or s["wrong"] or s["crashes"] or min(s["culprit"], s["class"]) < 0.99 * s["told"] else 0


if __name__ == "__main__":
    sys.exit(main())
