"""Distributed checkpoints (DCP) of PyTorch 2: saved and loaded, also in the background; state dicts of models and optimizers."""

import shutil

import case
from torch2 import BACKEND, begin, close, end, scratch, torch, whole

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_state_dict, set_model_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

ME, N = begin()
FOLDER = scratch("dcp")


def make(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(8, 12), nn.Tanh(), nn.Linear(12, 4))
    fully_shard(model, mesh=init_device_mesh("cpu", (N,)))
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(2):
        opt.zero_grad()
        model(torch.ones(3, 8) + ME).square().mean().backward()
        opt.step()
    return model, opt


def saved(name, save):
    """What was saved is what another model has after loading."""
    model, opt = make(1)
    state = dict(zip(("model", "opt"), get_state_dict(model, opt)))
    save(state, f"{FOLDER}/{name}")
    dist.barrier()
    other, its = make(2)
    into = dict(zip(("model", "opt"), get_state_dict(other, its)))
    dcp.load(into, checkpoint_id=f"{FOLDER}/{name}")
    set_state_dict(other, its, model_state_dict=into["model"], optim_state_dict=into["opt"])
    for a, b in zip(model.parameters(), other.parameters()):
        close(whole(b).detach(), whole(a).detach())
    for a, b in zip(opt.state.values(), its.state.values()):
        close(whole(b["exp_avg"]), whole(a["exp_avg"]))


def test_save_and_load():
    saved("now", lambda state, folder: dcp.save(state, checkpoint_id=folder))


def test_async_save():
    saved("later", lambda state, folder: dcp.async_save(state, checkpoint_id=folder).result())


def test_whole_state_dicts():
    """Gathered on rank 0, and handed out from there."""
    model, _ = make(3)
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    state = get_model_state_dict(model, options=options)
    assert (len(state) > 0) == (ME == 0)
    other, _ = make(4)
    set_model_state_dict(other, state, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
    for a, b in zip(model.parameters(), other.parameters()):
        close(whole(b).detach(), whole(a).detach())


assert BACKEND in dist.get_backend()
try:
    case.run([test_save_and_load, test_async_save, test_whole_state_dicts], ME)
    end()
finally:
    if ME == 0:
        shutil.rmtree(FOLDER, ignore_errors=True)
