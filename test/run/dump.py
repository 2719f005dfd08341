"""dump.py TUTTI DIR RAN [auto] - is every plan file in DIR proved, priced and equal to what tutti plan writes for its problem?

RAN holds the lines "ran COLL NAMED BYTES ALGO PREDICTED_US" of the job on communicator c0: each must have its file, which
tutti sim prices as the job predicted. With `auto`, the calls without a named algorithm (NAMED auto) must be what tutti plan chooses by
itself on the dumped topology. Prints each failure and a count; exit 1 when there is one."""

import glob
import json
import math
import os
import re
import subprocess
import sys

NAME = re.compile(r"(?P<coll>[a-z-]+?)-(?P<algo>[a-z-]+)-(?P<ranks>\d+)-(?P<bytes>\d+)-(?P<comm>c[0-9a-f]+)-(?P<hash>[0-9a-f]{16})\.json$")
BYTES = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2, "i8": 1, "u8": 1, "i32": 4, "i64": 8}
ROOTED = ("broadcast", "reduce", "gather", "scatter")

tutti, folder, ran_file = sys.argv[1:4]
check_auto = "auto" in sys.argv[4:]
failures = []


def run(*args):
    return subprocess.run([tutti, *args], capture_output=True, timeout=120)


def expect(condition, *words):
    if not condition:
        failures.append(" ".join(str(w) for w in words))
    return condition


def topology_of(comm):
    found = glob.glob(os.path.join(folder, "topology-%s-*.json" % comm))
    if not expect(len(found) == 1, comm, "has", len(found), "topologies"):
        return None
    said = json.loads(run("topo", found[0], "--json").stdout or b"{}")
    expect(said.get("hash") == found[0][-21:-5], found[0], "reads back with hash", said.get("hash"))
    return found[0]


def bytes_of(d):
    return d["count"] * BYTES[d["dtype"]]


def problem(d, algo):
    args = ["--coll", d["coll"], "--algo", algo, "--dtype", d["dtype"], "--op", d["op"]]
    args += ["--size", str(bytes_of(d))] if d["coll"] != "barrier" else []
    args += ["--root", str(d["root"])] if d["coll"] in ROOTED else []
    return args


def check(path, topo):
    """Proved, priced, named by what it is, and written again by tutti plan: with the options it names, and for itself."""
    with open(path, "rb") as f:
        text = f.read()
    d = json.loads(text)
    name = os.path.basename(path)
    expect(name.startswith("%s-%s-%d-%d-c" % (d["coll"], d["algo"], d["ranks"], bytes_of(d))), "name", name)
    expect(d["topo_hash"] in ("0" * 16, topo[-21:-5]), name, "is for topology", d["topo_hash"])
    proof = run("verify", path, "--json")
    expect(proof.returncode == 0 and json.loads(proof.stdout)["method"] == "exact", name, proof.stdout, proof.stderr)
    d["prices"] = [price_of(path, topo, level) for level in LEVELS]
    options = [w for o in d["options"].split(",") if o for w in ("--option", o)]
    again = run("plan", "--topo", topo, *problem(d, d["algo"]), *options, "-o", "-")
    expect(again.stdout == text, name, "is not what tutti plan writes:", again.stderr)
    return d, text


# A job predicts by the level at which the plan was chosen.
LEVELS = ("flow", "step")


def price_of(path, topo, level):
    price = run("sim", "--topo", topo, "--plan", path, "--level", level, "--json")
    expect(price.returncode == 0, path, "sim:", price.stderr)
    return json.loads(price.stdout)["time_us"] if price.returncode == 0 else math.nan


def main():
    topologies, plans = {}, []
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        if os.path.basename(path).startswith("topology-"):
            continue
        match = NAME.match(os.path.basename(path))
        if not expect(match, "name of", path):
            continue
        comm = match["comm"]
        topologies.setdefault(comm, topology_of(comm))
        if topologies[comm]:
            plans.append((comm, *check(path, topologies[comm])))
    expect(not glob.glob(os.path.join(folder, ".*.*")), "temporary files are left")
    ran = [line.split()[1:] for line in open(ran_file) if line.startswith("ran ")]
    expect(len(ran) > 50, "only", len(ran), "kinds of calls ran")
    for coll, named, size, algo, predicted in ran:
        what = "%s %s (%s) of %s bytes" % (coll, algo, named, size)
        mine = [(d, text) for comm, d, text in plans if comm == "c0" and d["coll"] == coll and d["algo"] == algo and bytes_of(d) == int(size)]
        fits = [text for d, text in mine if any(abs(p - float(predicted)) < 2e-6 for p in d["prices"])]
        if not expect(mine, what, "ran and has no file") or (named == "auto" and not check_auto):
            continue
        expect(fits, what, "is predicted", predicted, "and priced", [d["prices"] for d, text in mine])
        alone = run("plan", "--topo", topologies["c0"], *problem(mine[0][0], named), "-o", "-").stdout
        expect(alone in fits, what, "is not what tutti plan finds by itself")
    for line in failures[:40]:
        print("FAILED:", line)
    print("%d files of %d communicators, %d kinds of calls, %d failures" % (len(plans), len(topologies), len(ran), len(failures)))
    return 1 if failures else 0


sys.exit(main())
