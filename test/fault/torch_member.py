"""A rank of the fault campaign (campaign.py) in torch: what member.c does, through torch.distributed.

Without arguments: jobs come as lines of JSON on standard input, and this process, which has loaded torch once, forks their ranks. With the
arguments of member.c and a backend: one rank (of the comparison with Gloo)."""

import json
import os
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

torch.set_num_threads(1)


class Rank:
    def __init__(self, args, backend):
        self.folder, self.phase, self.kind = args[:3]
        self.victim, self.at, self.count, self.timeout_ms, self.run_ms = (int(a) for a in args[3:8])
        self.me, self.n, self.backend = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), backend
        self.log = os.open(f"{self.folder}/{self.me}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def say(self, text):
        os.write(self.log, f"{time.monotonic_ns()} {text}".replace("\n", " ").encode() + b"\n")

    def misbehave(self):
        if self.kind == "-":
            return
        if self.kind in ("fork", "child"):
            pid = os.fork()
            if pid == 0:
                if self.kind == "child":
                    try:
                        dist.all_reduce(torch.ones(1))
                        self.say("child called: 0")
                    except RuntimeError as e:
                        self.say(f"child called: 1 {e}")
                    os._exit(0)
                time.sleep(20)
                os._exit(0)
            self.say(f"child {pid}")
            if self.kind == "child":
                os.waitpid(pid, 0)
        self.say("fault")
        if self.kind == "fork":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.kind == "exit":
            os._exit(0)
        if self.kind == "exec":
            os.execlp("sleep", "sleep", "20")
        if self.kind == "late":
            time.sleep(self.timeout_ms / 1000 + 0.7)

    def reduce(self, call, stop, wrong, group=None):
        share = (torch.arange(self.count) + call) % 7 + 1.0
        x = share * (self.me + 1)
        x[0] = stop
        if wrong:
            x = x[: self.count // 2]
        dist.all_reduce(x, group=group)
        if not wrong and not torch.equal(x[1:], share[1:] * (self.n * (self.n + 1) // 2)):
            self.say(f"WRONG sum of call {call}")
        return x[0] > 0

    def work(self):
        end, stop, call = time.monotonic() + self.run_ms / 1000, False, 0
        # made once: ranks wait for each other in torch's own store there, which names nobody
        group = dist.new_group(list(range(self.n)), timeout=timedelta(milliseconds=self.timeout_ms)) if self.phase == "split" else None
        while not stop:
            errs = self.me == self.victim and call == self.at and self.phase != "open"
            if call == self.at and self.phase != "open":
                self.say(f"at {self.phase} {os.getpid()}")
                end = max(end, time.monotonic() + self.run_ms / 4000)  # the fault must happen first, on a slow machine too
            if errs:
                self.misbehave()
            stop = self.reduce(call, call >= self.at and time.monotonic() > end, errs and self.kind == "count", group)
            call += 1

    def run(self):
        self.say(f"at open {os.getpid()}")
        opened = False
        try:
            dist.init_process_group(self.backend, timeout=timedelta(milliseconds=self.timeout_ms))
            opened = True
            self.say("opened")
            self.work()
        except Exception as e:
            self.say(f"told 1 {int(opened)} {e}")
            if opened:
                try:
                    self.reduce(0, False, False)
                    self.say("again 0 ")
                except RuntimeError as again:
                    self.say(f"again 1 {again}")
        self.say("end 0 0")
        os._exit(0)


def serve():
    import tutti.torch  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        for i in range(job["ranks"]):
            if os.fork():
                continue
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            place = {"RANK": i, "LOCAL_RANK": i, "WORLD_SIZE": job["ranks"], "LOCAL_WORLD_SIZE": job["ranks"], "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": job["port"]}
            os.environ.update({k: str(v) for k, v in place.items()}, **job["env"])
            Rank([str(a) for a in job["args"]], "tutti").run()


if len(sys.argv) > 1:
    Rank(sys.argv[1:], sys.argv[10]).run()
serve()
