"""tutti.torch.profile: exact parameters, times that add up to the step, a file that train-sim accepts, nothing changed behind. tutti.torch.trace:
every bucket's span is in torch's own trace, within the step that caused it, with bytes and algorithm."""

import json
import os
import subprocess
import tempfile
import time

import case

torch = case.need_torch()
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: E402

import tutti.torch  # noqa: E402

dist.init_process_group("tutti")
ME, N = dist.get_rank(), dist.get_world_size()
WORK = tempfile.mkdtemp()
TOOL = os.environ.get("TUTTI_TOOL", os.path.join(os.path.dirname(os.environ.get("TUTTI_LIBRARY", "")), "tutti"))


class Model(torch.nn.Module):
    """A convolution, a norm with buffers, attention whose projection is never called, tied weights, a parameter nobody uses."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.last = torch.nn.Linear(64, 300)  # made first, called last
        self.conv = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(16)
        self.a, self.b = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)
        self.b.weight = self.a.weight
        self.attention = torch.nn.MultiheadAttention(64, 2, batch_first=True)
        self.unused = torch.nn.Linear(5, 5)
        self.frozen = torch.nn.Linear(64, 64).requires_grad_(False)

    def forward(self, x):
        y = torch.relu(self.norm(self.conv(x))).flatten(2)
        y = self.b(torch.tanh(self.a(self.frozen(y))))
        return self.last(torch.dropout(self.attention(y, y, y, need_weights=False)[0], 0.1, True))


def step_seconds(model, x):
    found = []
    for _ in range(5):
        start = time.perf_counter()
        model(x).mean().backward()
        found.append(time.perf_counter() - start)
    return sorted(found)[2]


def test_profile():
    model, x = Model(), torch.ones(16, 3, 8, 8)
    mean, random = model.norm.running_mean.clone(), torch.get_rng_state()
    model.conv.weight.grad = torch.full_like(model.conv.weight, 3.0)
    path = os.path.join(WORK, "profile.json")
    found = tutti.torch.profile(model, x, path, name="odd")
    assert json.load(open(path)) == found
    assert torch.equal(model.norm.running_mean, mean) and torch.equal(torch.get_rng_state(), random)
    assert (model.conv.weight.grad == 3.0).all() and model.last.weight.grad is None
    layers = found["layers"]
    assert [x["name"] for x in layers] == ["conv", "norm", "a", "b", "attention", "last"], layers
    assert [x["kind"] for x in layers] == ["conv", "norm", "fc", "fc", "other", "fc"]
    counts = {t["name"]: t["count"] for x in layers for t in x["tensors"]}
    used = {n: p.numel() for n, p in model.named_parameters() if p.requires_grad and not n.startswith("unused")}
    assert counts == used, (counts, used)
    assert [t["name"] for t in layers[3]["tensors"]] == ["b.bias"], "the tied weight belongs to the first"
    assert found["batch"] == 16 and "2 unused parameters" in found["source"]
    assert all(x["forward_us"] > 0 and x["backward_us"] >= 0 for x in layers)
    total, step = sum(x["forward_us"] + x["backward_us"] for x in layers) / 1e6, step_seconds(model, x)
    assert step / 20 < total < step * 20, (total, step)  # far apart on a busy machine, never orders of magnitude


def test_train_sim_reads_it():
    if not os.access(TOOL, os.X_OK):
        print(f"skipped: no {TOOL}")
        return
    path = os.path.join(WORK, "small.json")
    model = torch.nn.Sequential(torch.nn.Linear(200, 100), torch.nn.ReLU(), torch.nn.Linear(100, 7))
    x = torch.ones(8, 200)
    found = tutti.torch.profile(model, (x,), path, loss=lambda y: y.pow(2).sum())
    out = subprocess.run(
        [TOOL, "train-sim", "--model", path, "--topo", "star:4@1Gbps,50us", "--policy", "dear", "--json"], capture_output=True, text=True
    )
    assert out.returncode == 0, out.stderr
    said = json.loads(out.stdout)
    assert (said["parameters"], said["tensors"], said["layers"]) == (200 * 100 + 100 + 100 * 7 + 7, 4, 2), said
    assert (said["times"], said["batch"]) == ("measured", 8), said
    for key in ("forward_us", "backward_us"):
        assert abs(said[key] - sum(x[key] for x in found["layers"])) < 0.01, (key, said)


def test_profile_refuses():
    model = torch.nn.Linear(3, 3)
    case.raises(ValueError, lambda: tutti.torch.profile(DDP(model), torch.ones(2, 3)), "bare model")
    opt = tutti.torch.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model)
    case.raises(ValueError, lambda: tutti.torch.profile(model, torch.ones(2, 3)), "bare model")
    opt.close()
    case.raises(ValueError, lambda: tutti.torch.profile(torch.nn.ReLU(), torch.ones(2)), "no parameters")
    case.raises(ValueError, lambda: tutti.torch.profile(model, torch.ones(2, 3), loss=lambda y: torch.zeros((), requires_grad=True)), "loss")
    assert len(tutti.torch.profile(model, torch.ones(2, 3))["layers"]) == 1, "closed: an ordinary model again"


def events_of(path):
    data = json.load(open(path))
    return data if isinstance(data, list) else data["traceEvents"]


def train(model, optimizer, steps):
    for step in range(steps):
        with torch.profiler.record_function(f"step {step}"):
            model(torch.ones(4, 300)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()


def ranges(events):
    """(our spans, from the beginning of the first step to the end of the last)."""
    ours = [e for e in events if e.get("cat") == "communication"]
    steps = [e for e in events if e["name"].startswith("step ")]
    return ours, min(e["ts"] for e in steps), max(e["ts"] + e["dur"] for e in steps)


def test_trace_of_the_optimizer():
    model = torch.nn.Sequential(torch.nn.Linear(300, 300), torch.nn.Linear(300, 300))
    optimizer = tutti.torch.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.01), model, threshold_bytes=200000, first_bytes=1000)
    train(model, optimizer, 2)
    optimizer.flush()
    path = os.path.join(WORK, "trace.{rank}.json")
    with tutti.torch.trace(path):
        train(model, optimizer, 3)
        optimizer.flush()
    launches = optimizer._trainer.launches()
    ours, begin, end = ranges(events_of(path.replace("{rank}", str(ME))))
    assert len(ours) == 3 * len(launches) and len(launches) >= 4, (len(ours), len(launches))
    assert sum(e["args"]["bytes"] for e in ours if "reduce_scatter" in e["name"].replace("-", "_")) == 3 * sum(
        p.numel() * 4 for p in model.parameters()
    ), ours
    assert all(e["args"]["algorithm"] and e["args"]["tensors"] and e["pid"] == f"tutti rank {ME}" for e in ours)
    slack = 1e5  # the two clocks are compared once; the flush comes after the last step
    assert all(begin - slack < e["ts"] and e["ts"] + e["dur"] < end + slack for e in ours), (begin, end, ours)
    train(model, optimizer, 1)
    assert not tutti.torch._trace.recording()
    optimizer.close()


def test_trace_of_ddp():
    model = DDP(torch.nn.Sequential(torch.nn.Linear(300, 1000), torch.nn.Linear(1000, 300)), bucket_cap_mb=0.3)
    model.register_comm_hook(None, tutti.torch.ddp_hook)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    train(model, optimizer, 2)
    handler = tutti.torch.TraceHandler(os.path.join(WORK, "ddp.json"))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], on_trace_ready=handler):
        train(model, optimizer, 3)
    handler.close()
    assert bool(handler.files) == (ME == 0), "without {rank} in its name rank 0 alone writes"
    if ME == 0:
        ours, begin, end = ranges(events_of(handler.files[0]))
        assert {e["name"] for e in ours} >= {"bucket 0 allreduce", "bucket 1 allreduce"}, ours
        assert sum(e["args"]["bytes"] for e in ours) == 3 * sum(p.numel() * 4 for p in model.parameters())
        assert all(begin - 1e5 < e["ts"] and e["ts"] + e["dur"] < end + 1e5 for e in ours), (begin, end, ours)


case.run([t for name, t in list(globals().items()) if name.startswith("test_")], ME)
for name in os.listdir(WORK):
    os.unlink(os.path.join(WORK, name))
os.rmdir(WORK)
dist.destroy_process_group()
