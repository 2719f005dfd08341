"""How bench/builds runs bench_turns: ranks of this host, or of emulated hosts with several ranks each.

A series is one collective, number of ranks, kind of memory and algorithm, with all its sizes; one launch of bench_turns measures it, with
both libraries in the same processes. On emulated hosts `tutti lab` runs a script that starts the host's ranks."""

import collections
import json
import os
import shlex
from typing import Dict, List, Optional, Tuple

from peers_run import Runner

LAUNCH_LIMIT = 600  # seconds; far more than a launch that is well needs
ELEMENT_BYTES = 4  # f32
WHOLE_VECTORS = ("allreduce", "broadcast", "reduce")

Point = collections.namedtuple("Point", "coll ranks mem algo bytes")
Found = Tuple[Dict[int, Dict], Optional[str]]  # by size what bench_turns printed, and what was wrong

LAB_SCRIPT = """host=$TUTTI_RANK local_rank=0 started=
export TUTTI_SIZE={size} TUTTI_RENDEZVOUS=10.77.0.1:29600
while [ $local_rank -lt {each} ]; do
    TUTTI_RANK=$((host * {each} + local_rank)) TUTTI_LOCAL_RANK=$local_rank {command} </dev/null &
    started="$started $!"
    local_rank=$((local_rank + 1))
done
for rank in $started; do
    wait "$rank" || exit 1
done
"""


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
    """The same sizes, but whole elements, and one per rank at least where the vector has a block for each rank."""
    unit = ELEMENT_BYTES * (1 if coll in WHOLE_VECTORS else ranks)
    return sorted({max(size // unit, 1) * unit for size in sizes})


def topology_for(point: Point) -> Optional[str]:
    """Hierarchical needs levels to follow, which one host does not have: it is told of two halves."""
    half = point.ranks // 2
    return "tree:(%d %d)@10GB/s/10GB/s" % (half, half) if point.algo == "hierarchical" else None


def find_library(build: str) -> str:
    return os.path.realpath(os.path.join(build, "libtutti.so"))


def turns_command(args, cache: str, points: List[Point]) -> List[str]:
    """bench_turns of the new build, for points that differ in their size only."""
    p = points[0]
    argv = [os.path.abspath(os.path.join(args.new, "bench", "bench_turns")), find_library(args.old), find_library(args.new), p.coll,
            str(p.ranks), p.mem + ("+fresh" if args.fresh else ""), p.algo or "-", topology_for(p) or "-", str(args.block), str(args.pairs), cache]
    return argv + [str(point.bytes) for point in points]


def read_found(text: str, problem: Optional[str]) -> Found:
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return {row["bytes"]: row for row in rows}, problem


class Here:
    """Ranks inside this host."""

    def __init__(self, runner: Runner):
        self.runner = runner

    def run(self, args, cache: str, points: List[Point]) -> Found:
        outcome = self.runner.run(turns_command(args, cache, points), LAUNCH_LIMIT)
        return read_found(outcome.text, outcome.problem)


class Lab:
    """Equal numbers of ranks on emulated hosts; `tool` is the build whose `tutti lab` makes the network."""

    def __init__(self, runner: Runner, tool: str, hosts: int, rate: str):
        self.runner, self.tool, self.hosts, self.rate = runner, tool, hosts, rate

    def run(self, args, cache: str, points: List[Point]) -> Found:
        path = os.path.join(self.runner.work, "lab.sh")
        size = points[0].ranks
        command = " ".join(shlex.quote(word) for word in turns_command(args, cache, points))
        with open(path, "w") as script:
            script.write(LAB_SCRIPT.format(size=size, each=size // self.hosts, command=command))
        argv = [self.tool, "lab", "--nodes", str(self.hosts), "--rate", self.rate, "--", "sh", path]
        outcome = self.runner.run(argv, LAUNCH_LIMIT)
        return read_found(outcome.text, outcome.problem)
