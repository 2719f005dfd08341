#!/usr/bin/env python3
"""check.py TUTTI [--seed N] [--all] - exports every all-reduce algorithm on 4..16 ranks (--all: on more networks; and reduce-scatter, all-gather, broadcast on
some) in every format, runs what was written on numbers with the readers beside this file, and spoils exports: a reader that
does not notice is a failure. Ends with the counts."""

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import readers  # noqa: E402

FEW = ["star:4", "star:5", "torus:2x4", "tree:((4 2)(3 1))", "torus:4x4"]
NETWORKS = FEW + ["ring:7", "star:8", "torus:3x3", "dln:12", "star:16"]
COLLS = {"reduce-scatter": ["star:5", "star:8"], "all-gather": ["star:5", "torus:2x4"], "broadcast": ["star:7"]}
SIZE = 48 * 5 * 7 * 64


def tool(tutti, *words, data=None):
    done = subprocess.run([tutti, *words], input=data, capture_output=True)
    return done.returncode, done.stdout, done.stderr.decode(errors="replace").strip()


def plans(tutti, networks_of_allreduce):
    algos = [a["name"] for a in json.loads(tool(tutti, "algos", "--json")[1])]
    for coll, networks in [("allreduce", networks_of_allreduce), *COLLS.items()]:
        for network in networks:
            for algo in algos:
                code, plan, why = tool(tutti, "plan", "--topo", network, "--algo", algo, "--size", str(SIZE), "--coll", coll)
                if code == 0:
                    yield "%s %s %s" % (coll, network, algo), plan


class Counts:
    passed = refused = spoiled = missed = 0
    failed, refusals = [], {}


def attempt(c, name, run):
    try:
        run()
        c.passed += 1
    except readers.Wrong as wrong:
        c.failed.append("%s: %s" % (name, wrong))


def refused(c, name, why):
    c.refused += 1
    c.refusals.setdefault(re.sub(r"\d+", "N", why.split(": ", 2)[-1]), []).append(name)


def try_xml(c, tutti, name, plan, rng):
    for options in ([], ["--option", "instances=2"]) if name.startswith("allreduce") else ([],):
        code, text, why = tool(tutti, "export", "--format", "msccl-xml", "-", *options, data=plan)
        if code == 1:
            refused(c, name, why)
            continue
        if code:
            c.failed.append("%s msccl-xml: exit %d: %s" % (name, code, why))
            continue
        attempt(c, name + " msccl-xml", lambda: readers.run_xml(text.decode(), rng))
        if 'inplace="1"' in text.decode():
            attempt(c, name + " msccl-xml in place", lambda: readers.run_xml(text.decode(), rng, in_place=True))
        if not options:
            spoil(c, name, text.decode(), rng, lambda t: readers.run_xml(t, rng), spoil_xml)


def try_json(c, tutti, name, plan, rng):
    for options in ([], ["--option", "channel=port"]):
        code, text, why = tool(tutti, "export", "--format", "msccl-json", "-", *options, data=plan)
        text = text.decode()
        if code == 1:
            refused(c, name, why)
            continue
        if code:
            c.failed.append("%s msccl-json: exit %d: %s" % (name, code, why))
            continue
        attempt(c, name + " msccl-json", lambda: readers.run_plan(text, rng))
        if json.loads(text)["inplace"]:
            attempt(c, name + " msccl-json in place", lambda: readers.run_plan(text, rng, in_place=True))
        if not options:
            spoil(c, name, text, rng, lambda t: readers.run_plan(t, rng), spoil_json)
            for near in ("before", "after"):
                spoil(c, name + " nops " + near, text, rng, lambda t: often(t, rng), lambda t, _: drop_nops(t, near))


def often(text, rng):
    """Threads that do not meet go wrong only in some orders."""
    for _ in range(20):
        readers.run_plan(text, rng)


def try_nodes(c, tutti, name, plan, rng, folder):
    code, text, why = tool(tutti, "export", "--format", "goal", "-", data=plan)
    if code:
        return c.failed.append("%s goal: exit %d: %s" % (name, code, why))
    result = {}

    def run_goal():
        result["goal"] = readers.run_nodes(readers.read_goal(text.decode()), rng)

    def run_chakra():
        prefix = os.path.join(folder, "trace")
        chakra, _, said = tool(tutti, "export", "--format", "chakra", "-", "-o", prefix, data=plan)
        readers.need(chakra == 0, "exit %d: %s", chakra, said)
        files = [open("%s.%d.et" % (prefix, r), "rb").read() for r in range(len(result["goal"]))]
        readers.need(readers.run_nodes(readers.read_chakra(files), rng) == result["goal"], "other bytes than in GOAL")

    attempt(c, name + " goal", run_goal)
    attempt(c, name + " chakra", run_chakra)
    return spoil(c, name, text.decode(), rng, lambda t: readers.run_nodes(readers.read_goal(t), rng), spoil_goal)


# ---- mutations: each changes the meaning ----


def spoil(c, name, text, rng, run, change):
    changed = change(text, rng)
    if changed is None:
        return
    c.spoiled += 1
    try:
        run(changed)
    except (readers.Wrong, KeyError, IndexError, ValueError, TypeError):
        return
    c.missed += 1
    c.failed.append("%s: a spoiled export passed its reader" % name)


def spoil_xml(text, rng):
    """Drops a message's two ends' agreement: one receive becomes an overwrite, or one send is of another chunk."""
    places = [m.span() for m in re.finditer(r'type="rrc"', text)]
    if places:
        a, b = rng.choice(places)
        return text[:a] + 'type="r"' + text[b:]
    places = [m for m in re.finditer(r'<step [^>]*type="s"[^>]*/>\n', text)]
    if not places:
        return None
    m = rng.choice(places)
    return text[: m.start()] + text[m.end() :]


def spoil_json(text, rng):
    places = [m.span() for m in re.finditer(r'"name": ?"re"', text)]
    if not places:
        places = [m.span() for m in re.finditer(r'"name": ?"wait"', text)]
        if not places:
            return None
        a, b = rng.choice(places)
        return text[:a] + '"name": "unknown"' + text[b:]
    a, b = rng.choice(places)
    return text[:a] + '"name": "copy"' + text[b:]


def drop_nops(text, near):
    """Without the nops before signals, or those after waits."""
    plan = json.loads(text)
    dropped = 0
    for gpu in plan["gpus"]:
        for tb in gpu["threadblocks"]:
            names = [None] + [op["name"] for op in tb["ops"]] + [None]
            kept = [op for k, op in enumerate(tb["ops"])
                    if op["name"] != "nop" or (names[k + 2] != "signal" if near == "before" else names[k] != "wait")]
            dropped += len(tb["ops"]) - len(kept)
            tb["ops"] = kept
    return json.dumps(plan) if dropped else None


def spoil_goal(text, rng):
    lines = text.splitlines()
    places = [i for i, line in enumerate(lines) if ": recv " in line]
    if not places:
        return None
    i = rng.choice(places)
    lines[i] = re.sub(r"recv (\d+)b", lambda m: "recv %db" % (int(m.group(1)) + 4), lines[i])
    return "\n".join(lines)


# ---- what does not depend on the algorithm ----


def try_names(c, tutti):
    """An algorithm's name of a plan file is anything, and text in XML."""
    plan = json.loads(tool(tutti, "plan", "--topo", "star:4", "--algo", "ring", "--size", "4K")[1])
    plan["algo"] = 'a"<b'
    for form, find in (("msccl-xml", lambda x: x.get("name")), ("svg", lambda x: x[0].text)):
        code, text, why = tool(tutti, "export", "--format", form, "-", data=json.dumps(plan).encode())

        def read():
            readers.need(code == 0, "exit %d: %s", code, why)
            try:
                readers.need('a"<b' in find(ET.fromstring(text)), "another name")
            except ET.ParseError as wrong:
                raise readers.Wrong("not XML: %s" % wrong)

        attempt(c, "a name with special characters, " + form, read)


def try_root(c, tutti):
    plan = tool(tutti, "plan", "--topo", "star:4", "--algo", "binomial", "--size", "4K", "--coll", "broadcast", "--root", "1")[1]
    for form in ("msccl-xml", "msccl-json"):
        code, _, why = tool(tutti, "export", "--format", form, "-", data=plan)
        attempt(c, form + " with root 1", lambda: readers.need(code == 1 and "has no root" in why, "exit %d: %s", code, why))


def main():
    tutti = sys.argv[1]
    seed = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else 1
    rng = random.Random(seed)
    c = Counts()
    try_names(c, tutti)
    try_root(c, tutti)
    with tempfile.TemporaryDirectory() as folder:
        for name, plan in plans(tutti, NETWORKS if "--all" in sys.argv else FEW):
            try_xml(c, tutti, name, plan, rng)
            try_json(c, tutti, name, plan, rng)
            try_nodes(c, tutti, name, plan, rng, folder)
    for why, names in sorted(c.refusals.items()):
        print("refused %d: %s (e.g. %s)" % (len(names), why, names[0]))
    for line in c.failed:
        print("FAILED: " + line)
    print("seed %d: %d exports ran right, %d were refused with a reason, %d spoiled ones found, %d missed, %d failures"
          % (seed, c.passed, c.refused, c.spoiled - c.missed, c.missed, len(c.failed)))
    return 1 if c.failed or c.passed < 200 else 0


if __name__ == "__main__":
    sys.exit(main())
