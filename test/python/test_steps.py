"""The steps of DistributedOptimizer in TUTTI_TRACE: every step of every rank, its launches and the waits of the training loop, with the plan
where the model has a profile; Perfetto's rules; and the page that tutti view makes of it."""

import gc
import json
import os
import subprocess
import sys

import case

torch = case.need_torch()
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "view"))
import events as trace_events  # noqa: E402
import torch.distributed as dist  # noqa: E402

import tutti.torch  # noqa: E402

# the same for all ranks, which `tutti run` has started
PATH = "/tmp/tutti-steps-%d.json" % os.getppid()
os.environ["TUTTI_TRACE"] = PATH
dist.init_process_group("tutti")
ME, N = dist.get_rank(), dist.get_world_size()
TOOL = os.environ.get("TUTTI_TOOL", os.path.join(os.path.dirname(os.environ.get("TUTTI_LIBRARY", "")), "tutti"))
STEPS = 4


def train(policy, with_profile):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    times = tutti.torch.profile(model, torch.randn(16, 64)) if with_profile else None
    optimizer = tutti.torch.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model, policy=policy, profile=times)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.randn(16, 64)).square().mean().backward()
        optimizer.step()
    optimizer.close()


def test_training():
    train("dear", True)
    train("bucket", False)
    dist.destroy_process_group()
    gc.collect()  # torch 1.13 leaves the group to its last reference


def check_trainer(trainer, mine):
    for rank in range(N):
        of = {k: [e for e in mine if e["cat"] == k and e["pid"] == rank] for k in ("step", "gradients", "launch", "exposed")}
        numbers = [e["args"]["seq"] for e in of["step"]]
        assert numbers == list(range(1, STEPS + 1)), (rank, numbers)
        assert [e["args"]["seq"] for e in of["gradients"]] == numbers
        for step, gradients in zip(of["step"], of["gradients"]):
            assert step["ts"] <= gradients["ts"] and gradients["ts"] + gradients["dur"] <= step["ts"] + step["dur"] + 0.01
        want = {(s, k) for s in numbers for k in range(len(trainer["launches"]))}
        assert {(e["args"]["seq"], e["args"]["launch"]) for e in of["launch"]} == want
    assert any(x["first"].endswith(("weight", "bias")) for x in trainer["launches"]), trainer["launches"]


def test_trace():
    if ME:
        return
    with open(PATH) as f:
        text = f.read()
    assert not trace_events.wrong(text), trace_events.wrong(text)
    data = json.loads(text)
    assert [t["policy"] for t in data["trainers"]] == ["dear", "bucket"], data["trainers"]
    for trainer in data["trainers"]:
        check_trainer(trainer, [e for e in data["traceEvents"] if e["ph"] == "X" and e["args"].get("comm") == trainer["comm"]])
    planned, unknown = data["trainers"]
    assert planned["spans"] and planned["iteration_ps"] >= planned["forward_ps"] + planned["backward_ps"] > 0
    assert not unknown["spans"] and unknown["iteration_ps"] == 0


def test_page():
    if ME:
        return
    done = subprocess.run([TOOL, "view", PATH, "-o", PATH + ".html"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with open(PATH + ".html") as f:
        assert '"policy": "dear"' in f.read().replace('"policy":"', '"policy": "')
    os.unlink(PATH)
    os.unlink(PATH + ".html")


case.run([test_training, test_trace, test_page], ME)
