"""What DistributedOptimizer(elastic=True) refuses, and what one rank does with it. Run under `tutti run -n 1`."""
import torch

import tutti.torch


def refused(kind, words, make):
    try:
        make()
    except kind as e:
        assert words in str(e), str(e)
        return
    raise AssertionError(f"not refused: {words}")


def main():
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 2)
    group = tutti.torch.ElasticGroup()
    assert (group.rank(), group.size(), group.changes) == (0, 1, 0)

    def make(optimizer=None, process_group=group, **more):
        inner = optimizer or torch.optim.Adam(model.parameters(), lr=0.1)
        return tutti.torch.DistributedOptimizer(inner, model, process_group=process_group, elastic=True, **more)

    refused(ValueError, "builtin", lambda: make(builtin=False))
    refused(tutti.Error, "its share of the optimizer's state is lost", lambda: make(policy="dear-sharded", redundancy=0))
    plain = tutti.torch.ProcessGroupTutti(None, 0, 1, None)
    refused(TypeError, "ElasticGroup()", lambda: make(process_group=plain))

    opt, alike = make(), torch.nn.Linear(4, 2)
    alike.load_state_dict(model.state_dict())
    other = torch.optim.Adam(alike.parameters(), lr=0.1)
    for step in range(25):  # beyond two admissions, which a job of one rank has not
        data = torch.randn(8, 4)
        for m, o in ((model, opt), (alike, other)):
            o.zero_grad()
            m(data).square().sum().backward()
            if step == 3 and o is opt:
                refused(RuntimeError, "with elastic=True averaged gradients are not in p.grad", lambda: model.weight.grad.sum())
            o.step()
    assert opt.steps == 25
    opt.close()
    assert torch.allclose(model.weight, alike.weight, atol=1e-5), (model.weight, alike.weight)
    print("elastic ok")


if __name__ == "__main__":
    main()
