"""DDP under torchrun --max-restarts: rank 1 is killed in the middle of the first attempt; the second one goes on from the checkpoint, and
its numbers are those of one process that was never interrupted. It starts torchrun on itself; a backend's name tries another one (Gloo's
second attempt fails now and then: it meets an address of the first)."""

import os
import re
import signal
import subprocess
import sys
import tempfile

STEPS, KILLED = 8, 4


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
    return sum(float(p.double().sum()) for p in model.parameters())


def train(backend: str, folder: str) -> None:
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
    for step in range(begin, STEPS):
        if attempt == 0 and step == KILLED and me == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        step_on(model, opt, batch(step, me))
        if me == 0:
            torch.save({"model": inner.state_dict(), "step": step + 1}, kept + ".new")
            os.replace(kept + ".new", kept)
    if me == 0:
        print(f"END attempt {attempt} from step {begin}, sum {total(inner):.6f}", flush=True)
    dist.destroy_process_group()


def alone() -> float:
    import torch

    model, opt = make()
    for step in range(STEPS):
        step_on(model, opt, torch.cat([batch(step, r) for r in range(2)]))
    return total(model)


def main() -> int:
    if len(sys.argv) == 3:
        train(*sys.argv[1:])
        return 0
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
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "2"]
        mine = [__file__, sys.argv[1] if len(sys.argv) > 1 else "tutti", folder]
        done = subprocess.run([*command, *mine], text=True, capture_output=True, timeout=200)
    found = re.search(r"END attempt 1 from step (\d+), sum ([-0-9.]+)", done.stdout)
    if done.returncode or not found or int(found[1]) not in (KILLED, KILLED + 1) or abs(float(found[2]) - alone()) > 1e-5:
        print(f"FAILED: exit {done.returncode}, wanted sum {alone():.6f}\n{done.stdout}\n{done.stderr}")
        return 1
    print(f"passed: {found[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
