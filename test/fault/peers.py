#!/usr/bin/env python3
"""What users of Open MPI, of torch with Gloo and of Tutti get when a rank is killed in the midst of all-reduces, on emulated hosts.

    peers.py BUILD [--kills N] [--json FILE]

Four ranks all-reduce 1000 f32 in a loop; one is killed with SIGKILL at a random moment. All have the settings users have when they set none
(Open MPI's error handler returns errors; its mpirun ends the others; torch's deadline is 30 minutes). A survivor is told when a call returns
an error, ended when something kills it, and hangs when neither has happened within 20 s. Needs root."""

import argparse
import collections
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from campaign import HERE, Log, alive, quantile

HANG = 20
LAB = ["--rate", "1gbit", "--timeout", "60s", "--"]


def commands(build, folder):
    member = [folder, "many", "-", "9", "20", "1000"]
    tutti = f"{build}/tutti"
    return {
        "tutti": [tutti, "lab", "--nodes", "2", *LAB, f"{build}/test/member", *member, "30000", "60000", "2"],
        "openmpi": [tutti, "lab", "--nodes", "2", *LAB, "bash", f"{HERE}/../mpi/lab.sh", f"{build}/test/peer_mpi", folder],
        "gloo": [tutti, "lab", "--nodes", "4", *LAB, "/usr/bin/python3", f"{HERE}/torch_member.py", *member, "1800000", "60000", "1", "gloo"],
    }


def watch(logs, victim, killed_ns, limit):
    """What each survivor met: (how, ms, text)."""
    met = {}
    while len(met) < len(logs) - 1 and time.monotonic() < limit:
        for i, log in enumerate(logs):
            if i == victim or i in met:
                continue
            ends = not alive(log.pid)
            log.read()
            told = log.find("told")
            if told:
                met[i] = ("told", (told[0] - killed_ns) / 1e6, told[1].split(" ", 3)[3])
            elif ends:
                met[i] = ("ended", (time.monotonic_ns() - killed_ns) / 1e6, "")
        time.sleep(0.002)
    return [met.get(i, ("hangs", None, "")) for i in range(len(logs)) if i != victim]


def kill_one(build, name, seed):
    r, folder = random.Random(seed), tempfile.mkdtemp(prefix="tutti-peers-")
    victim, logs = r.randrange(4), [Log(f"{folder}/{i}") for i in range(4)]
    env = dict(os.environ, LAB_DONE=f"{folder}/done", OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="eth0", XDG_CACHE_HOME="/nonexistent", PYTHONDONTWRITEBYTECODE="1")
    with open(f"{folder}/out", "w+") as out:
        lab = subprocess.Popen(commands(build, folder)[name], env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            limit = time.monotonic() + 180  # four ranks import torch, on a busy machine too
            while not all(log.find("at many") for log in logs):
                if time.monotonic() > limit or lab.poll() is not None:
                    raise RuntimeError(f"{name}: the job did not start: {open(f'{folder}/out').read()}")
                for log in logs:
                    log.read()
                time.sleep(0.01)
            for log in logs:  # its last word may be older than the phase's process id
                log.pid = int(log.find("at many")[1].split()[2])
            time.sleep(r.random() * 0.05)
            os.kill(logs[victim].pid, signal.SIGKILL)
            killed = time.monotonic_ns()
            met = watch(logs, victim, killed, time.monotonic() + HANG)
            try:
                lab.wait(3)
            except subprocess.TimeoutExpired:
                pass
        finally:
            for log in logs:
                if log.pid and alive(log.pid):
                    os.kill(log.pid, signal.SIGKILL)
            open(f"{folder}/done", "w").close()
            for wait, how in ((5, signal.SIGTERM), (8, signal.SIGKILL), (5, None)):
                try:
                    lab.wait(wait)
                    break
                except subprocess.TimeoutExpired:
                    os.killpg(lab.pid, how) if how else None
        out.seek(0)
        said = [line.strip() for line in out.read().splitlines() if re.search(r"noticed|killed by|signal 9", line)]
    shutil.rmtree(folder, ignore_errors=True)
    return victim, met, said


def names(victim, text):
    """Does an error name the rank that was killed?"""
    return re.search(rf"\brank {victim}\b", text) is not None


def report(name, kills):
    met = [(v, *m) for v, ms, _ in kills for m in ms]
    by = collections.Counter(how for _, how, _, _ in met)
    row = {"kills": len(kills), "survivors": len(met), **{k: by[k] for k in ("told", "ended", "hangs")}, "named": sum(how == "told" and names(v, t) for v, how, _, t in met)}
    times = [ms for _, _, ms, _ in met if ms is not None]
    row["ms"] = [round(quantile(times, q), 1) for q in (0.5, 0.99, 1)] if times else None
    print(f"{name:8} {row['kills']:5} {row['survivors']:9} {row['told']:5} {row['named']:6} {row['ended']:6} {row['hangs']:6}   {row['ms']}")
    words = collections.Counter(re.sub(r"\d+", "N", t) for _, how, _, t in met if how == "told")
    row["said"] = [t for t, _ in words.most_common(3)] + [s for _, _, said in kills[:1] for s in said]
    return row


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("--kills", type=int, default=20)
    p.add_argument("--only", default="tutti,openmpi,gloo")
    p.add_argument("--json")
    a = p.parse_args()
    if os.getuid():
        print("skipped: not root, hosts cannot be emulated")
        return 0
    build, rows = os.path.abspath(a.build), {}
    print("library  kills survivors  told naming  ended  hangs   ms: median, p99, worst (hangs left out)", flush=True)
    for name in a.only.split(","):
        try:
            rows[name] = report(name, [kill_one(build, name, seed) for seed in range(a.kills)])
        except RuntimeError as e:
            print(f"{name:8} skipped: {e}")
    for name, row in rows.items():
        print(f"\n{name} says:", *(f"\n    {t[:400]}" for t in row["said"]))
    if a.json:
        with open(a.json, "w") as f:
            json.dump(rows, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
