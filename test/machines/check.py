#!/usr/bin/env python3
"""check.py TUTTI - descriptions by others as networks: NCCL's and hwloc's machines, matrices of rates, Slurm's and
Open MPI's lists of hosts. Counts, rates, plans near the bound, and bad files with their positions."""

import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# file, ranks, switches, cables, and how far from the bound the best plan of 256 MiB may be at flow level (level step lets no rank
# begin a segment's step before all have ended the one before: the forest's 256 segments are 1.05 x the bound there). DGX-1: 16 pairs
# of GPUs have NVLinks, and PCI is left out.
MACHINES = [("dgx1.xml", 8, 0, 16, 1.02), ("dgx-a100.xml", 8, 1, 8, 1.02), ("pcie-box.xml", 8, 6, 13, 1.02),
            # two hosts: 8 GPUs, 8 cards, 4 bridges, 2 processors and the NVSwitch each; and the network
            ("dgx-a100.xml,hosts=2", 16, 31, 74, 0),
            # 4 GPUs, 2 PCI switches, 2 processors; the slow GPU's link is the bound
            ("hwloc-4gpu.xml", 4, 4, 7, 1.02)]
BAD = [(b"<system", r":1:1: "), (b"<system><cpu></system>", r"</system> does not close <cpu>"), (b"<graph></graph>", "begin with <system>"),
       (b"<system></system>", "no GPU"), (b"<!DOCTYPE x [<!ENTITY a 'b'>]><system/>", "document types"), (b"<system>" * 100, "inside of each other"),
       (b"<system><gpu dev='0'/></system>", "outside of <pci>"), (b"<system a='&bomb;'/>", "unknown entity"),
       (b"<topology><object type='Machine'/></topology>", "no GPU"),
       (b"<topology>\n<object type='PCIDev' pci_link_speed='fast'/></topology>", r":2:1: .*pci_link_speed"),
       (b"<topology><object type='Machine'><object type='PCIDev' pci_busid='5' pci_link_speed='0'><object type='OSDev' name='cuda0'/></object></object></topology>",
        "PCI device 5 has no pci_link_speed"),
       (b"<topology><distances2 name='NVLinkBandwidth'/></topology>", "NVLinks"),
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
        d = json.loads(out)
        best = min((c["flow_us"] or c["predicted_us"]) / d["bound_us"] for c in d["candidates"] if c["predicted_us"])
        check("%s: the best plan is %.3f x the bound" % (name, best), best <= ratio, best)
with tempfile.TemporaryDirectory() as folder:
    for text, why in BAD:
        path = os.path.join(folder, "bad.xml")
        with open(path, "wb") as f:
            f.write(text)
        code, _, err = tool("topo", path)
        check("bad file: %s" % why, code == 2 and re.search(why, err) and "bad.xml:" in err, (code, err))
MATRIX = ",a,b,c,d\na,-,94G,9.4G,9.1G\nb,93G,-,9.2G,9.4G\n# measured on Monday\nc,9.5G,9G,-,94G\nd,9.3G,9.4G,90G,-\n"
SLURM = "# three\nSwitchName=s0 Nodes=tux[0-1,07-09]\nSwitchName=s1 Nodes=a,b LinkSpeed=9\nSwitchName=top Switches=s[0-1]\n"
HOSTS = "node0 slots=4 # fast\nnode1 slots=1 max_slots=4\nnode1 slots=1\n"
# option, text, further options, ranks, switches, links, names of the first ranks
IMPORTS = [("matrix", MATRIX, [], 4, 3, 6, ["a", "b", "c", "d"]), ("matrix", "-,1,1\n1,0,1\n1,1,9\n", ["--unit", "GB/s"], 3, 1, 3, None),
           ("matrix", "x\t1\t2Gbps\ny\t1Gbps\t1\n", ["--unit", "Gbps", "--latency", "3us"], 2, 1, 2, ["x", "y"]),
           ("slurm", SLURM, ["--link", "100Gbps/10Gbps,2us"], 7, 3, 9, ["tux0", "tux1", "tux07", "tux08", "tux09", "a", "b"]),
           ("slurm", "SwitchName=x \\\n Nodes=n[1-2]m[1-2]", [], 4, 1, 4, ["n1m1", "n1m2", "n2m1", "n2m2"]),
           ("hostfile", HOSTS, ["--link", "100Gbps/10Gbps"], 6, 3, 8, ["node0:0", "node0:1", "node0:2", "node0:3", "node1:0", "node1:1"])]
WRONG = [("matrix", "", "matrix of rates"), ("matrix", "a,b\n1G,2G\n1G\n", r":3:2: .*too short"), ("matrix", "-,1G\n1G,-,1G\n", r":2:\d: .*too long"),
         ("matrix", "-,1G\n5,-\n", r":2:1: .*rate such as .*\"5\""), ("matrix", "-,-1G\n1G,-\n", r":1:2: "), ("matrix", "-,1G\n1G,-\n1G,1G\n", r":3:1: .*more rows"),
         ("matrix", "-,nan\n1G,-", r":1:2: "), ("matrix", "-,1G,1G\n1G,-,1G\n", r":3:1: rows are missing"), ("matrix", ",a,b,c\na,-,1G\n", r":2:1: .*names"),
         ("slurm", "SwitchName=a Nodes=x[0-\n", r":1:20: .*brackets"), ("slurm", "SwitchName=a Nodes=x[3-1]", "list such as"), ("slurm", "Node=a\n", r":1:1: .*SwitchName"),
         ("slurm", "SwitchName=a Switches=b\n", "no such switch"), ("slurm", "SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "no switch is above"),
         ("slurm", "SwitchName=a Nodes=x\nSwitchName=b Nodes=y\n", r":2:1: .*nothing joins"), ("slurm", "SwitchName=a Nodes=x,x\n", "twice"),
         ("slurm", "SwitchName=t Switches=a,a\nSwitchName=a Nodes=x\n", "no tree"), ("slurm", "SwitchName=a Nodes=x Switches=b\n", "either Nodes or Switches"),
         ("slurm", "SwitchName=a Nodes=x[0-99999][0-99999]\n", "too many|list such as"), ("slurm", "", "no switch"),
         ("hostfile", "a\n", r":1:1: .*slots=N"), ("hostfile", "a slots=0\n", r":1:3: "), ("hostfile", "a slots=2 b\n", r":1:11: "), ("hostfile", "#\n", "no hosts")]
with tempfile.TemporaryDirectory() as folder:
    path, net = os.path.join(folder, "given.txt"), os.path.join(folder, "net.json")

    def write(text):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    for kind, text, words, ranks, switches, links, names in IMPORTS:
        write(text)
        code, out, err = tool("topo", "--from-" + kind, path, *words, "--file")
        t = json.loads(out) if code == 0 else {}
        check("%s of %d ranks" % (kind, ranks), (t.get("ranks"), t.get("switches"), len(t.get("links", []))) == (ranks, switches, links), (out, err))
        check("%s: names" % kind, not names or t["names"][:ranks] == names, t.get("names"))
        with open(net, "w", encoding="utf-8") as f:
            f.write(out)
        for algo in ("flex", "forest") if switches > 1 else ("forest",):
            code, out, err = tool("verify", "--topo", net, "--algo", algo, "--size", "1M")
            check("%s: %s plans on it" % (kind, algo), code == 0, err)
    write(MATRIX)
    links = json.loads(tool("topo", "--from-matrix", path, "--file")[1])["links"]
    # both groups: the fastest pair to outside is a-c (9.4) or b-d; back c-a (9.5)
    check("matrix: rates of links", sorted(tuple(round(x / 1e9 * 8, 6) for x in l[2:4]) for l in links)
          == [(9.4, 9.5), (9.5, 9.4), (90.0, 94.0), (93.0, 94.0), (94.0, 90.0), (94.0, 93.0)], links)
    for kind, text, why in WRONG:
        write(text)
        code, _, err = tool("topo", "--from-" + kind, path)
        check("bad %s: %s" % (kind, why), code == 2 and re.search(why, err) and re.search(r"given.txt:\d+:\d+: ", err), (code, err))
    for words in (["--from-matrix", path, "--link", "1G"], ["--from-slurm", path, "--unit", "Gbps"], ["ring:4", "--unit", "G"], ["ring:4", "--from-slurm", path],
                  ["--from-slurm", "/nosuch"]):
        code, _, err = tool("topo", *words)
        check("refusal of %s" % " ".join(words[:1]), code == 2 and err.startswith("tutti topo: "), (code, err))
code, _, err = tool("topo", os.path.join(HERE, "hwloc-4gpu.xml,hosts=2"))
check("several hosts from hwloc", code == 2 and "network cards" in err, err)
code, _, err = tool("topo", os.path.join(HERE, "pcie-box.xml,hosts=2"))
check("several hosts without cards", code == 2 and "network cards" in err, err)
sys.exit(failures > 0)
