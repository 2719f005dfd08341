#!/usr/bin/env python3
"""elastic.py WORKER CASE - a job whose members come and go, with real processes (elastic.c).

    join      two ranks; one newcomer, later two at once
    refused   newcomers with another key, another setting, no key: refused, nobody is disturbed
    alone     two ranks, rank 0 is killed, a newcomer joins the one that is left
    both      a newcomer comes while a member is killed
    leaves    newcomers that are killed or stopped while they wait or come in
    apart     dear-sharded: two ranks that are not neighbours are killed at once; all state is left
    lost      dear-sharded: two neighbours are killed at once; the survivors say what is lost
    soak      --changes N --seed S: all of it at random moments, rank 0 and two at once too; --lab 4: on emulated hosts

Each process repeats the whole history alone and compares every bit. Nobody may hang: every process
must have ended within the limit."""
import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time


class Rank:
    """A process, its lines, and what was done to it."""

    def __init__(self, job, name, env, host=None):
        self.job, self.name, self.lines, self.fate, self.host = job, name, [], "lives", host
        self.changes = {}
        self.began, self.ended = time.monotonic(), None
        self.process = subprocess.Popen(job.lab.within(host) + job.command if job.lab else job.command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, bufsize=1)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            found = re.match(r"CHANGE (\d+) (\d+) (\d+)", line)
            if found:
                self.changes[int(found[1])] = (int(found[2]), int(found[3]))
        self.ended = time.monotonic()

    def send(self, sig, fate):
        self.fate = fate
        self.process.send_signal(sig)

    def alive(self):
        return self.process.poll() is None and self.fate in ("lives", "new")

    def said(self, word):
        return next((line for line in self.lines if line.startswith(word)), None)

    def is_member(self):
        return self.alive() and (self.fate == "lives" or bool(self.changes))


class Lab:
    """Emulated hosts of `tutti lab`, which this process enters: each has a link that can be cut."""

    def __init__(self, tool, hosts):
        self.process = subprocess.Popen([tool, "lab", "--nodes", str(hosts), "--rate", "1gbit", "--", "sh", "-c", "echo up; cat"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if self.process.stdout.readline() != "up\n":
            sys.exit("FAILED: no lab")
        self.hosts, self.cut_off = hosts, set()

    def within(self, host):
        return ["ip", "netns", "exec", f"tutti-lab-{self.process.pid}-{host}"]

    def link(self, host, state):
        subprocess.run(self.within(host) + ["ip", "link", "set", "eth0", state], check=True)
        (self.cut_off.add if state == "down" else self.cut_off.discard)(host)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class Job:
    last = None

    def __init__(self, worker, ranks, steps, pause, timeout, count=1000, lab=None):
        Job.last = self
        self.lab = lab
        self.dir = tempfile.mkdtemp()
        self.command = [worker, str(steps), str(count), str(pause)]
        self.key, self.notes = self.dir + "/key", self.dir + "/notes"
        with open(self.key, "wb") as file:
            file.write(os.urandom(32))
        os.chmod(self.key, 0o600)
        open(self.notes, "w").close()
        self.timeout = timeout
        self.rank0 = f"{'10.77.0.1' if lab else '127.0.0.1'}:{20000 + os.getpid() % 12000}"
        self.ranks = [self.start(f"r{r}", TUTTI_RANK=r, TUTTI_SIZE=ranks, TUTTI_LOCAL_RANK=r // lab.hosts if lab else r,
                                 TUTTI_RENDEZVOUS=self.rank0) for r in range(ranks)]

    def start(self, name, **more):
        env = {k: v for k, v in os.environ.items() if k not in ("TUTTI_JOIN", "TUTTI_RANK")}
        self.started = getattr(self, "started", -1) + 1
        env.update(ELASTIC_STOP=self.dir + "/stop", ELASTIC_ID=str(self.started), TUTTI_KEY_FILE=self.key, TUTTI_VERDICT=self.notes, TUTTI_REPRODUCIBLE="1", TUTTI_TIMEOUT=self.timeout)
        if env.get("ELASTIC_POLICY", "").startswith("hybrid"):
            del env["TUTTI_REPRODUCIBLE"]  # its algorithms add in other orders; the sums are exact
        env.update({k: str(v) for k, v in more.items() if v is not None})
        for name_only in [k for k, v in more.items() if v is None]:
            env.pop(name_only)
        return Rank(self, name, env, self.free_host())

    def free_host(self):
        """Of the hosts that are not cut off the one with the fewest processes."""
        if not self.lab:
            return None
        load = {h: 0 for h in range(self.lab.hosts) if h not in self.lab.cut_off}
        for r in getattr(self, "ranks", []):
            if r.alive() and r.host in load:
                load[r.host] += 1
        return min(load, key=lambda h: (load[h], h)) if hasattr(self, "ranks") else self.started % self.lab.hosts

    def doors(self):
        with open(self.notes) as file:
            return re.findall(r"^door \d+ of \d+: (\S+)", file.read(), re.M)

    def wait_doors(self, n):
        wait_for(lambda: len(self.doors()) >= n, f"{n} doors")

    def join(self, name, **more):
        rank = self.start(name, TUTTI_JOIN=",".join(self.doors()[::-1][:24]), **more)
        rank.fate = "new"
        self.ranks.append(rank)
        return rank

    def members(self):
        return [r for r in self.ranks if r.is_member()]

    def change(self):
        return max([max(r.changes, default=0) for r in self.ranks])

    def running(self):
        return any(r.process.poll() is None for r in self.ranks)

    def finish(self, limit):
        """The job is told to stop. All processes end within the limit; those that lived say END with one hash."""
        open(self.dir + "/stop", "w").close()
        bad = []
        end = time.monotonic() + limit
        for r in self.ranks:
            if r.fate in ("stopped", "stopped new"):
                r.process.kill()
            try:
                r.process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                bad.append(f"{r.name} hangs")
                r.process.kill()
                r.process.wait()
            r.thread.join(10)
        hashes = set()
        for r in self.ranks:
            said = r.said("END")
            if r.said("BAD"):
                bad.append(f"{r.name}: {r.said('BAD')}")
            if said:
                hashes.add(tuple(said.split()[1:3]))
            if r.fate == "lives" and (not said or r.process.returncode):
                bad.append(f"{r.name} ended with {r.process.returncode}: {r.lines[-1:]}")
            if r.fate == "new" and not said and not r.said("OUT"):
                bad.append(f"{r.name} ended with {r.process.returncode}: {r.lines[-1:]}")
        if len(hashes) != 1:
            bad.append(f"the parameters at the end: {hashes}")
        if bad:
            self.show()
        return bad

    def show(self):
        for r in self.ranks:
            lived = (r.ended or time.monotonic()) - r.began
            print(f"-- {r.name} ({r.fate}, {r.process.poll()}, lived {lived:.2f} s):", *r.lines[-20:], sep="\n")


def wait_for(condition, what, limit=60):
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            Job.last.show()
            raise SystemExit(f"FAILED: no {what} within {limit} s")
        time.sleep(0.002)


def case_join(worker):
    job = Job(worker, 2, 100000, 500, "20s")
    job.wait_doors(2)
    first = job.join("n0")
    wait_for(lambda: first.changes, "first newcomer")
    pair = [job.join("n1"), job.join("n2")]
    wait_for(lambda: all(r.changes for r in pair), "two newcomers")
    bad = job.finish(60)
    sizes = {size for r in job.ranks for size, _ in r.changes.values()}
    return bad + ([] if 5 in sizes and all(r.said("END") for r in job.ranks) else [f"sizes {sizes}"])


def case_refused(worker):
    job = Job(worker, 2, 100000, 500, "20s")
    job.wait_doors(2)
    other = job.dir + "/other"
    with open(other, "wb") as file:
        file.write(os.urandom(32))
    os.chmod(other, 0o600)
    wanted = [(job.join("key", TUTTI_KEY_FILE=other), "did not accept our key"),
              (job.join("setting", TUTTI_ALGO="ring", TUTTI_REPRODUCIBLE=None), 'algo is "auto" on rank 0 but "ring" on rank 1'),
              (job.join("keyless", TUTTI_KEY_FILE=None), "needs the job's key")]
    bad = []
    for rank, text in wanted:
        rank.process.wait(30)
        rank.thread.join(10)
        if text not in (rank.said("OUT") or ""):
            bad.append(f"{rank.name}: {rank.lines}, not '{text}'")
        else:
            print(f"{rank.name}: {rank.said('OUT')}")
    bad += job.finish(60)
    return bad + ([f"{job.change()} changes"] if job.change() else [])


def case_alone(worker):
    job = Job(worker, 2, 100000, 500, "20s")
    job.wait_doors(2)
    job.ranks[0].send(signal.SIGKILL, "killed")
    wait_for(lambda: 1 in job.ranks[1].changes, "change")
    new = job.join("n0")
    wait_for(lambda: new.changes, "newcomer")
    return job.finish(60) + ([] if new.said("END") else ["the newcomer is not there at the end"])


def case_both(worker):
    bad = []
    for turn in range(3):
        job = Job(worker, 3, 100000, 500, "20s")
        job.wait_doors(3)
        new = job.join("n0")
        time.sleep(0.003 + 0.012 * turn * random.random())
        job.ranks[turn % 3].send(signal.SIGKILL, "killed")
        wait_for(lambda: new.changes, "newcomer")
        bad += job.finish(60)
        if not new.said("END"):
            bad.append("the newcomer is not there at the end")
    return bad


def case_leaves(worker):
    job = Job(worker, 3, 100000, 500, "3s")
    job.wait_doors(3)
    for turn in range(6):
        new = job.join(f"n{turn}")
        time.sleep(0.005 + 0.02 * random.random())
        new.send(signal.SIGKILL, "killed")
    new = job.join("stopped")
    time.sleep(0.02 * random.random())
    new.send(signal.SIGSTOP, "stopped new")
    time.sleep(0.5)
    last = job.join("last", TUTTI_TIMEOUT="30s")  # members wait up to 3 s for the stopped one, perhaps twice
    wait_for(lambda: last.changes, "the last newcomer")
    return job.finish(60) + ([] if last.said("END") else ["the newcomer is not there at the end"])


def kill_together(worker, ranks, gone):
    """The others learn of it when all of them are dead."""
    job = Job(worker, ranks, 100000, 500, "10s")
    job.wait_doors(ranks)
    for r, rank in enumerate(job.ranks):
        if r not in gone:
            rank.process.send_signal(signal.SIGSTOP)
    for r in gone:
        job.ranks[r].send(signal.SIGKILL, "killed")
        job.ranks[r].process.wait()
    for r, rank in enumerate(job.ranks):
        if r not in gone:
            rank.process.send_signal(signal.SIGCONT)
    return job


def case_apart(worker):
    job = kill_together(worker, 5, (1, 3))
    wait_for(lambda: job.change() or not job.running(), "the change")
    return job.finish(60)


def case_lost(worker):
    job = kill_together(worker, 4, (1, 2))
    wait_for(lambda: not job.running(), "the end")
    job.finish(60)
    words = "ranks 1 and 2 of 4 left at the same time"
    return [] if all(words in (job.ranks[r].said("BAD") or "") for r in (0, 3)) else ["not told what is lost"]


def soak(worker, args):
    """Until there were enough changes; then the job is left to finish."""
    pick = random.Random(args.seed)
    lab = Lab(args.tool, args.lab) if args.lab else None
    job = Job(worker, args.ranks, args.steps, args.pause, args.timeout, args.count, lab)
    try:
        return soak_job(job, pick, args)
    finally:
        for r in job.ranks:
            if r.process.poll() is None:
                r.process.kill()
                r.process.wait()
        if lab:
            lab.end()


def cut(job, pick, members, args):
    """Cuts the link of a host that has fewer than half of the members, if there is one; True when it did."""
    there = {h: sum(r.host == h for r in members) for h in range(job.lab.hosts)}
    hosts = [h for h, n in there.items() if n and len(members) - n > max(len(members) / 2, args.least) and not (args.apart and n > 1)]
    if not hosts:
        return False
    host = pick.choice(hosts)
    for r in job.ranks:
        if r.host == host and r.alive():
            r.fate = "cut"
    job.lab.link(host, "down")
    return True


def mend(job):
    """Links come back when everybody behind them has ended."""
    for host in list(job.lab.cut_off):
        if not any(r.host == host and r.process.poll() is None for r in job.ranks):
            job.lab.link(host, "up")


def soak_job(job, pick, args):
    job.wait_doors(args.ranks)
    kills, made, number, gaps, cuts = [], 0, 0, [], 0
    while job.change() < args.changes and job.running():
        members = job.members()
        before = job.change()
        if job.lab:
            mend(job)
        what = pick.choices(["kill", "zero", "two", "join", "joins", "stop", "both", "cut"],
                            [4, 2, 2, 5, 2, 1, 2, 2 if job.lab else 0])[0]
        waiting = [r for r in job.ranks if r.alive() and not r.is_member()]
        if args.apart:
            what = {"two": "kill", "both": "kill"}.get(what, what)
            if waiting and job.running():
                time.sleep(0.01)
                continue
        if len(members) + len(waiting) >= args.most:
            what = pick.choice(["kill", "zero", "kill" if args.apart else "two"])
        if len(members) <= args.least + 1:
            what = pick.choice(["join", "joins"])
        if what == "cut":
            if not cut(job, pick, members, args):
                continue
            cuts += 1
        if what in ("join", "joins", "both"):
            for _ in range(2 if what == "joins" else 1):
                job.join(f"n{number}")
                number += 1
        if what == "both":
            time.sleep(pick.random() * 0.03)
        if what in ("kill", "zero", "two", "both", "stop"):
            victims = [members[0]] if what == "zero" else pick.sample(members, 2 if what == "two" else 1)
            stops = what == "stop"
            for victim in victims:
                victim.send(signal.SIGSTOP if stops else signal.SIGKILL, "stopped" if stops else "killed")
            kills.append((time.monotonic_ns(), before))
        made += 1
        end = time.monotonic() + args.patience
        while job.change() == before and time.monotonic() < end and job.running():
            time.sleep(0.002)
        if job.change() == before and job.running():
            print(f"FAILED: no change {args.patience} s after '{what}', event {made}")
            for r in job.ranks:
                print(f"-- {r.name} ({r.fate}, {r.process.poll()}):", *r.lines[-6:], sep="\n")
                r.process.kill()
            return ["no change"]
        if kills and kills[-1][1] == before and what != "stop" and job.change() > before:
            done = min(r.changes[c][1] for r in job.ranks for c in r.changes if c > before)
            gaps.append((done - kills[-1][0]) / 1e6)
        time.sleep(pick.random() * args.rest)
    reached = job.change()
    for r in job.ranks:
        if r.fate == "stopped":
            r.process.kill()
    end = time.monotonic() + args.patience
    while job.lab and job.lab.cut_off and time.monotonic() < end:
        time.sleep(0.05)
        mend(job)
    print(f"{made} events, {reached} changes")
    bad = job.finish(args.patience)
    gaps.sort()
    if gaps:
        print(f"kill to next finished step, ms: median {gaps[len(gaps) // 2]:.1f}, "
              f"p99 {gaps[min(len(gaps) - 1, int(len(gaps) * 0.99))]:.1f}, worst {gaps[-1]:.1f} of {len(gaps)}")
    ends = sum(1 for r in job.ranks if r.said("END"))
    mixed = max([int(r.said("MIXED").split()[1]) for r in job.ranks if r.said("MIXED")], default=0)
    if mixed:
        print(f"{mixed} steps were interrupted between two buckets")
    print(f"seed {args.seed}: {reached} changes, {len(kills) + cuts} failures of members{f' ({cuts} cut links)' if cuts else ''}, {number} newcomers, "
          f"{ends} at the end with equal bits, {len(bad)} wrong")
    return bad + ([f"only {reached} changes"] if reached < args.changes else [])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("worker")
    parser.add_argument("case")
    parser.add_argument("--changes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--least", type=int, default=2)
    parser.add_argument("--most", type=int, default=7)
    parser.add_argument("--steps", type=int, default=1000000)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--pause", type=int, default=500)
    parser.add_argument("--rest", type=float, default=0.1)
    parser.add_argument("--timeout", default="4s")
    parser.add_argument("--patience", type=float, default=60)
    parser.add_argument("--lab", type=int, help="on so many emulated hosts, whose links are cut too")
    parser.add_argument("--tool", default="build/tutti", help="that makes them")
    parser.add_argument("--apart", action="store_true", help="one failure at a time, when no newcomer waits")
    args = parser.parse_args()
    bad = soak(args.worker, args) if args.case == "soak" else globals()["case_" + args.case](args.worker)
    for text in bad:
        print("FAILED:", text)
    print(args.case, "FAILED" if bad else "ok")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
