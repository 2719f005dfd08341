"""DDP under torchrun --max-restarts: a rank is killed in the middle of an attempt; the next one goes on from the checkpoint, and the numbers
are those of one process that was never interrupted. It starts torchrun on itself.
Usage: restart.py [BACKEND [RESTARTS]]    RESTARTS attempts end so, rank and moment at random from the attempt's number (1: rank 1 in step 4).
(Gloo's second attempt fails now and then: it meets an address of the first.)"""

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading

KILLED = 4  # at most so many steps of each attempt but the last one


def steps(restarts: int) -> int:
    return KILLED * (restarts + 1)


def doomed(attempt: int, restarts: int, me: int, size: int) -> bool:
    if restarts == 1:
        return attempt == 0 and me == 1
    return attempt < restarts and random.Random(attempt).randrange(size) == me


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def batch(step: int, rank: int):
    import torch

    return torch.full((2, 4), float(step + rank) / 10)


def make():
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 3)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def step_on(model, opt, x) -> None:
    opt.zero_grad()
    model(x).square().mean().backward()
    opt.step()


def total(model) -> float:
    return sum(float(p.detach().double().sum()) for p in model.parameters())


def train(backend: str, folder: str, restarts: int) -> None:
    import torch
    import torch.distributed as dist

    if backend == "tutti":
        import tutti.torch  # noqa: F401  # an installed package is found without
    dist.init_process_group(backend)
    me, attempt = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    inner, opt = make()
    kept, begin = os.path.join(folder, "kept"), 0
    if os.path.exists(kept):
        state = torch.load(kept)
        inner.load_state_dict(state["model"])
        begin = state["step"]
    model = torch.nn.parallel.DistributedDataParallel(inner)
    to_die = doomed(attempt, restarts, me, dist.get_world_size())
    for step in range(begin, steps(restarts)):
        if to_die and step == begin + KILLED:
            die()
        if to_die and step == begin + 1 and restarts > 1:  # at any moment from here on
            threading.Timer(random.Random(-attempt).random() * 0.01, die).start()
        step_on(model, opt, batch(step, me))
        if me == 0:
            torch.save({"model": inner.state_dict(), "step": step + 1}, kept + ".new")
            os.replace(kept + ".new", kept)
    if me == 0:
        print(f"END attempt {attempt} from step {begin}, sum {total(inner):.6f}", flush=True)
    dist.destroy_process_group()


def alone(restarts: int) -> float:
    import torch

    model, opt = make()
    for step in range(steps(restarts)):
        step_on(model, opt, torch.cat([batch(step, r) for r in range(2)]))
    return total(model)


def main() -> int:
    if len(sys.argv) == 4:
        train(sys.argv[1], sys.argv[2], int(sys.argv[3]))
        return 0
    restarts = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    try:
        import torch
        import torch.distributed.run  # noqa: F401
    except ImportError as e:
        print(f"skipped: {e}")
        return 0
    if int(torch.__version__.split(".")[0]) < 2:
        print("skipped: torchrun of torch 1.13 does not run with Python 3.11")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", str(restarts)]
        mine = [__file__, sys.argv[1] if len(sys.argv) > 1 else "tutti", folder, str(restarts)]
        done = subprocess.run([*command, *mine], text=True, capture_output=True, timeout=200 + 30 * restarts)
    found = re.search(r"END attempt (\d+) from step (\d+), sum ([-0-9.]+)", done.stdout)
    if done.returncode or not found or int(found[1]) != restarts or abs(float(found[3]) - alone(restarts)) > 1e-5:
        print(f"FAILED: exit {done.returncode}, wanted sum {alone(restarts):.6f}\n{done.stdout}\n{done.stderr}")
        return 1
    print(f"passed: {found[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
