#!/usr/bin/env python3
"""check.py TUTTI - NCCL's descriptions of machines as networks: counts, plans near the bound, and bad files."""

import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# file, ranks, switches, cables, and how far from the bound the best plan of 256 MiB may be. DGX-1: 16 pairs of GPUs have NVLinks,
# and PCI is left out; the forest packs their unequal cables to within 5 %.
MACHINES = [("dgx1.xml", 8, 0, 16, 1.05), ("dgx-a100.xml", 8, 1, 8, 1.02), ("pcie-box.xml", 8, 6, 13, 1.02),
            # two hosts: 8 GPUs, 8 cards, 4 bridges, 2 processors and the NVSwitch each; and the network
            ("dgx-a100.xml,hosts=2", 16, 31, 74, 0)]
BAD = [(b"<system", r":1:1: "), (b"<system><cpu></system>", r"</system> does not close <cpu>"), (b"<graph></graph>", "begin with <system>"),
       (b"<system></system>", "no GPU"), (b"<!DOCTYPE x [<!ENTITY a 'b'>]><system/>", "document types"), (b"<system>" * 100, "inside of each other"),
       (b"<system><gpu dev='0'/></system>", "outside of <pci>"), (b"<system a='&bomb;'/>", "unknown entity"),
       (b"<system>\n<pci link_width='x'/></system>", r":2:1: .*link_width"), (b"<system " + b"a='1' " * 60 + b"/>", "attributes")]
failures = 0


def check(what, good, seen=""):
    global failures
    failures += not good
    print("%s %s%s" % ("ok  " if good else "FAIL", what, "" if good else ": %s" % (seen,)))


def tool(*words):
    done = subprocess.run([sys.argv[1], *words], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


for name, ranks, switches, links, ratio in MACHINES:
    path = os.path.join(HERE, name)
    code, out, err = tool("topo", path, "--json")
    t = json.loads(out) if code == 0 else {}
    check(name, (t.get("ranks"), t.get("switches"), t.get("links")) == (ranks, switches, links), (t, err))
    if ratio:
        code, out, err = tool("explain", "--topo", path, "--size", "256M", "--json")
        best = min(c["ratio_to_bound"] for c in json.loads(out)["candidates"] if c["predicted_us"])
        check("%s: the best plan is %.3f x the bound" % (name, best), best <= ratio, best)
with tempfile.TemporaryDirectory() as folder:
    for text, why in BAD:
        path = os.path.join(folder, "bad.xml")
        with open(path, "wb") as f:
            f.write(text)
        code, _, err = tool("topo", path)
        check("bad file: %s" % why, code == 2 and re.search(why, err) and "bad.xml:" in err, (code, err))
code, _, err = tool("topo", os.path.join(HERE, "pcie-box.xml,hosts=2"))
check("several hosts without cards", code == 2 and "network cards" in err, err)
sys.exit(failures > 0)
