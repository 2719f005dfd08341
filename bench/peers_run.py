"""The programs that bench/peers compares: how each is started, bounded in time, ended for certain, and read.

Every program prints one JSON object with "bytes" and "time_us" per size; these are picked out of its output even when it was cut short, so
that a peer that stalls at one size still counts at the sizes before."""

import collections
import ctypes
import json
import os
import shutil
import signal
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = {"openmpi": "Open MPI", "mpich": "MPICH", "gloo": "Gloo", "tutti": "tutti", "tutti-mem": "tutti (own mem)",
         "openmpi-shim": "Open MPI + shim", "mpich-shim": "MPICH + shim"}
PEERS = ("openmpi", "mpich", "gloo")
PACKAGES = ("openmpi-bin", "mpich", "python3-torch", "iperf3")
# Variables by which a program would believe to be in a job.
LAUNCHERS = ("TUTTI_", "OMPI_", "PMI_", "SLURM_", "RANK", "WORLD_SIZE", "LOCAL_RANK")
NO_TIME = "no time left"
PR_SET_CHILD_SUBREAPER = 36

Leg = collections.namedtuple("Leg", "begin end factor")
Outcome = collections.namedtuple("Outcome", "text problem")  # problem: None, or why the output is not all there


def leg_sizes(leg):
    sizes, size = [], leg.begin
    while size <= leg.end:
        sizes.append(size)
        size *= leg.factor
    return sizes


def rows_of(text):
    """What the JSON documents in the text say about sizes: rows of `tutti bench`, or one document per size."""
    rows, at, decoder = [], text.find("{"), json.JSONDecoder()
    while at >= 0:
        try:
            document, end = decoder.raw_decode(text, at)
        except ValueError:
            document, end = {}, at + 1
        rows += document.get("rows") or ([document] if "time_us" in document else [])
        at = text.find("{", end)
    return rows


def versions():
    """Package versions by dpkg; a missing one is None."""
    found = {}
    for package in PACKAGES:
        asked = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True)
        found[package] = asked.stdout if asked.returncode == 0 and asked.stdout else None
    return found


def children_of(parent):
    """Processes whose parent this is."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % name) as stat:
                fields = stat.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(name))
    return found


class Runner:
    """Starts programs one after the other. All they start becomes ours when they end (subreaper), and is ended before the next begins."""

    def __init__(self, build, work, seconds, round_ms):
        self.build, self.work, self.round_ms = os.path.abspath(build), work, round_ms
        self.began = time.monotonic()
        self.end = self.case_end = self.began + seconds
        self.problems = []
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
        self.environment["TMPDIR"] = work
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def elapsed(self):
        return time.monotonic() - self.began

    def begin_case(self, share):
        """A case may use this share of the time that is left: a slow machine cuts all cases a little instead of the last ones wholly."""
        now = time.monotonic()
        self.case_end = now + (self.end - now) * share

    def tool(self):
        return os.path.join(self.build, "tutti")

    def run(self, argv, limit, env=None):
        """The program's standard output, and what was wrong."""
        left = self.case_end - time.monotonic()
        if left < 1:
            return Outcome("", NO_TIME)
        cut = left < limit
        limit = min(limit, left)
        out_path, err_path = os.path.join(self.work, "stdout"), os.path.join(self.work, "stderr")
        with open(out_path, "w+") as out, open(err_path, "w+") as err:
            problem = self._wait(argv, limit, dict(self.environment, **(env or {})), out, err)
            out.seek(0)
            err.seek(0)
            text, complaint = out.read(), err.read().strip().splitlines()
        if problem and problem.startswith("timed out") and cut:
            problem = NO_TIME
        if problem and problem.startswith("failed") and complaint:
            problem += ": " + complaint[0][:160]
        return Outcome(text, problem)

    def _wait(self, argv, limit, env, out, err):
        try:
            program = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
        except OSError as failure:
            return "failed: %s" % failure
        try:
            code = program.wait(limit)
            return None if code == 0 else "failed (exit %d)" % code
        except subprocess.TimeoutExpired:
            return "timed out after %.0f s" % limit
        finally:
            self._end(program)

    def _end(self, program):
        """First politely, so that launchers end their ranks and remove their files; then what is left, generation by generation."""
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGTERM)
            try:
                program.wait(5)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()
        until = time.monotonic() + 5
        while time.monotonic() < until:
            orphans = children_of(os.getpid())
            for orphan in orphans:
                try:
                    os.kill(orphan, signal.SIGKILL)
                    os.waitpid(orphan, 0)
                except (ProcessLookupError, ChildProcessError):
                    pass
            if not orphans:
                return

    def note(self, who, text):
        """Keeps a problem for the report."""
        line = "%s: %s" % (who, text)
        if line not in self.problems:
            self.problems.append(line)

    def build_mpi(self):
        """Builds peers_mpi with each MPI's compiler where it is not up to date; says which peers cannot run."""
        missing, source = {}, os.path.join(HERE, "peers_mpi.c")
        for mpi in ("openmpi", "mpich"):
            compiler, program = "mpicc." + mpi, self.mpi_program(mpi)
            if not shutil.which(compiler) or not shutil.which("mpirun." + mpi):
                missing[mpi] = "not installed (tools/setup peers)"
            elif not os.path.exists(program) or os.path.getmtime(program) < os.path.getmtime(source):
                problem = self.run([compiler, "-O2", "-std=c11", "-D_GNU_SOURCE", "-o", program, source], 60).problem
                missing.update({mpi: problem} if problem else {})
        if self.run(["/usr/bin/python3", "-c", "import importlib.util as u; assert u.find_spec('torch')"], 20).problem:
            missing["gloo"] = "not installed (tools/setup peers)"
        return missing

    def shim(self, mpi):
        """The library that is preloaded under MPI programs."""
        return os.path.join(self.build, "libtutti-mpi-%s.so" % mpi)

    def mpi_program(self, mpi):
        return os.path.join(self.build, "bench", "peers_mpi_" + mpi)

    def command(self, who, ranks, transport, leg):
        """Arguments and variables that time one leg."""
        if who.endswith("-shim"):
            mpi = who[: -len("-shim")]
            argv, env = self.command(mpi, ranks, transport, leg)
            at = argv.index(self.mpi_program(mpi))
            return argv[:at] + ["env", "LD_PRELOAD=" + self.shim(mpi)] + argv[at:], env
        tcp = transport == "tcp"
        numbers = [str(n) for n in leg] + [str(self.round_ms)]
        if who == "openmpi":
            only_tcp = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"] if tcp else []
            start = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"] + only_tcp
            return start + ["-n", str(ranks), self.mpi_program(who)] + numbers, {}
        if who == "mpich":  # Debian's has the ch4 device on UCX
            env = {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"} if tcp else {}
            return ["mpirun.mpich", "-n", str(ranks), self.mpi_program(who)] + numbers, env
        if who == "gloo":
            return ["/usr/bin/python3", os.path.join(HERE, "peers_gloo.py"), str(ranks)] + numbers, {}
        argv = [self.tool(), "bench", "-n", str(ranks), "-b", str(leg.begin), "-e", str(leg.end), "-f", str(leg.factor), "--out-of-place"]
        argv += ["--transport", "tcp"] if tcp else []
        argv += ["--mem", "tutti"] if who == "tutti-mem" else []
        return argv + ["--check", "--json"], {}

    def time_leg(self, who, ranks, transport, leg, limit):
        """Times by size in microseconds, and the problem if not all are there. A wrong sum counts as no time at all."""
        argv, env = self.command(who, ranks, transport, leg)
        outcome = self.run(argv, limit, env)
        rows, problem = rows_of(outcome.text), outcome.problem
        if any(row.get("wrong") for row in rows):
            problem = "WRONG RESULTS"
        times = {row["bytes"]: row["time_us"] for row in rows if not row.get("wrong")}
        if not problem and set(times) != set(leg_sizes(leg)):
            problem = "printed %d sizes of %d" % (len(times), len(leg_sizes(leg)))
        return times, problem
