"""How bench/builds and bench/predict run `tutti bench`: inside this host, or on emulated hosts with several ranks each.

A job is one `tutti bench` of one point (collective, ranks, memory, algorithm, size) by one build. Jobs run one after the other, in the order
given. Inside a host every job is a process of its own. On emulated hosts one `tutti lab` runs them all: the same script walks through the
list on every host and starts that host's ranks, and every job has a rendezvous port of its own, so that a host that is ahead cannot meet
the ranks of the job before."""

import collections
import functools
import os
import shlex
import subprocess
from typing import Dict, List, NamedTuple, Optional, Tuple

from peers_run import Runner, rows_of

JOB_LIMIT = 90  # seconds; far more than a job that is well needs
ELEMENT_BYTES = 4  # bench's default type is f32
WHOLE_VECTORS = ("allreduce", "broadcast", "reduce")

Point = collections.namedtuple("Point", "coll ranks mem algo bytes")
Row = Tuple[Optional[Dict], Optional[str]]  # what bench printed, or what was wrong

LAB_SCRIPT = """host=$TUTTI_RANK job=0
export TUTTI_SIZE={size}
run() {{
    job=$((job + 1)) local_rank=0 started=
    [ "$host" != 0 ] || echo "# job $job"
    while [ $local_rank -lt {each} ]; do
        TUTTI_RANK=$((host * {each} + local_rank)) TUTTI_LOCAL_RANK=$local_rank TUTTI_RENDEZVOUS=10.77.0.1:$((29600 + job)) "$@" </dev/null &
        started="$started $!"
        local_rank=$((local_rank + 1))
    done
    for rank in $started; do
        wait "$rank" || exit 1
    done
}}
"""


class Job(NamedTuple):
    tool: str
    cache: str  # folder for what this build remembers of the host: two builds must not read each other's
    point: Point
    iters: int
    check: bool = False


def parse_size(text: str) -> int:
    """A number of bytes; K and M are powers of two."""
    units = {"K": 10, "M": 20, "G": 30}
    unit = text[-1:].upper()
    return int(text[:-1]) << units[unit] if unit in units else int(text)


def parse_sizes(text: str, factor: int) -> List[int]:
    """8..64M: from the first to the last by the factor, the last included; or a list, 8,64K,1M."""
    if ".." not in text:
        return sorted({parse_size(size) for size in text.split(",")})
    begin, end = (parse_size(size) for size in text.split(".."))
    if not 0 < begin <= end:
        raise ValueError("sizes must rise")
    sizes, size = {end}, begin
    while size < end:
        sizes.add(size)
        size *= factor
    return sorted(sizes)


def sizes_for(coll: str, ranks: int, sizes: List[int]) -> List[int]:
    """The same sizes, but not less than bench can measure: an element, or one per rank where the vector has a block for each rank."""
    least = ELEMENT_BYTES * (1 if coll in WHOLE_VECTORS else ranks)
    return sorted({max(size, least) for size in sizes})


def topology_for(point: Point) -> Optional[str]:
    """Hierarchical needs levels to follow, which one host does not have: it is told of two halves."""
    half = point.ranks // 2
    return "tree:(%d %d)@10GB/s/10GB/s" % (half, half) if point.algo == "hierarchical" else None


@functools.lru_cache(maxsize=None)
def out_of_place(tool: str) -> List[str]:
    """The option that leaves out the other way; older builds have one way only."""
    help_text = subprocess.run([tool, "bench", "--help"], capture_output=True, text=True).stdout
    return ["--out-of-place"] if "--out-of-place" in help_text else []


def bench_arguments(job: Job) -> List[str]:
    """The command of one rank, or of all where bench starts them itself."""
    point, size = job.point, str(job.point.bytes)
    argv = ["env", "XDG_CACHE_HOME=" + job.cache, job.tool, "bench", "-b", size, "-e", size, "-i", str(job.iters)]
    argv += ["--coll", point.coll, "--mem", point.mem, "--json"] + out_of_place(job.tool)
    return argv + (["--algo", point.algo] if point.algo else []) + (["--check"] if job.check else [])


def read_row(text: str, problem: Optional[str]) -> Row:
    """The one row that a job printed. A wrong result counts as no time at all."""
    rows = rows_of(text)
    if not problem and len(rows) != 1:
        problem = "printed %d rows instead of 1" % len(rows)
    if not problem and rows[0].get("wrong"):
        problem = "WRONG RESULTS"
    return (None, problem) if problem else (rows[0], None)


class Here:
    """Ranks inside this host."""

    def __init__(self, runner: Runner):
        self.runner = runner

    def run(self, jobs: List[Job]) -> List[Row]:
        return [self.run_one(job) for job in jobs]

    def run_one(self, job: Job) -> Row:
        topology = topology_for(job.point)
        argv = bench_arguments(job) + ["-n", str(job.point.ranks)]
        outcome = self.runner.run(argv, JOB_LIMIT, {"TUTTI_TOPO": topology} if topology else None)
        return read_row(outcome.text, outcome.problem)


class Lab:
    """Equal numbers of ranks on emulated hosts; `tool` is the build whose `tutti lab` makes the network."""

    def __init__(self, runner: Runner, tool: str, hosts: int, rate: str):
        self.runner, self.tool, self.hosts, self.rate = runner, tool, hosts, rate

    def run(self, jobs: List[Job]) -> List[Row]:
        """After a job that fails, those behind it in the list are not run."""
        path = os.path.join(self.runner.work, "lab.sh")
        size = jobs[0].point.ranks
        with open(path, "w") as script:
            script.write(LAB_SCRIPT.format(size=size, each=size // self.hosts))
            script.writelines("run %s\n" % " ".join(shlex.quote(word) for word in bench_arguments(job)) for job in jobs)
        argv = [self.tool, "lab", "--nodes", str(self.hosts), "--rate", self.rate, "--", "sh", path]
        outcome = self.runner.run(argv, JOB_LIMIT + 20 * len(jobs))
        texts = outcome.text.split("# job ")[1:]
        found = [read_row(text, None) for text in texts]
        if outcome.problem and found:
            found[-1] = (None, outcome.problem)
        missing = "not run: %s" % (outcome.problem or "an earlier job failed")
        return found + [(None, missing)] * (len(jobs) - len(found))
