"""After an error the caller's memory is the caller's: what is written there stays, whatever the others do later, and nobody gets it.

The partner of rank 0 is late, in the middle of a message or before a collective. Rank 0 is told that its time is over, fills its buffer
with a pattern and lets the partner go on."""

import time
from datetime import timedelta

import case

torch = case.need_torch()
import torch.distributed as dist  # noqa: E402

import tutti.torch  # noqa: E402
from tutti.torch import _meet, _p2p  # noqa: E402

dist.init_process_group("tutti")
ME, N = dist.get_rank(), dist.get_world_size()
STORE = dist.distributed_c10d._get_default_store()
LENGTH, PATTERN = 3_000_000, 7.0
SHORT = timedelta(seconds=0.5)


def held(kind, name):
    """Bodies of messages move only after the key `name` is there; returns what undoes it."""
    move = kind.move

    def late(self, block):
        if block is not self.header:
            STORE.wait([name])
        return move(self, block)

    kind.move = late
    return lambda: setattr(kind, "move", move)


def wait_shortly(letter):
    """Once its bytes are under way."""
    while letter._stop is None:
        time.sleep(0.01)
    letter.wait(SHORT)


def end(name, buffer, call, *words):
    """Rank 0's part."""
    case.raises(RuntimeError, call, *words)
    buffer.fill_(PATTERN)
    STORE.set(name, "go")
    STORE.wait([name + "/over"])
    dist.barrier()
    assert (buffer == PATTERN).all(), f"{name}: somebody wrote into the buffer after the error"


def test_receive_that_is_late():
    group = dist.new_group()
    x = torch.ones(LENGTH)
    if ME == 0:
        work = dist.irecv(x, 1, group=group)
        end("receive", x, lambda: wait_shortly(work), "recv from rank 1", "not done within 0.5 s")
        case.raises(RuntimeError, lambda: dist.recv(torch.ones(1), 1, group=group), "recv from rank 1", "not done within 0.5 s")
    else:
        undo = held(_p2p._Outbox, "receive") if ME == 1 else lambda: None
        if ME == 1:
            case.raises(RuntimeError, dist.isend(2 * x, 0, group=group).wait, "send to rank 0")
            STORE.wait(["receive"])
            STORE.set("receive/over", "")
        dist.barrier()
        undo()


def test_send_that_is_late():
    group = dist.new_group()
    x = torch.ones(LENGTH)
    if ME == 0:
        work = dist.isend(x, 1, group=group)
        end("send", x, lambda: wait_shortly(work), "send to rank 1", "not done within 0.5 s")
    else:
        undo = held(_p2p._Inbox, "send") if ME == 1 else lambda: None
        if ME == 1:
            case.raises(RuntimeError, dist.irecv(x, 0, group=group).wait, "recv from rank 0")
            STORE.wait(["send"])
            assert (x == 1).all()
            STORE.set("send/over", "")
        dist.barrier()
        undo()


def test_wait_with_timeout():
    group = dist.new_group()
    x = torch.ones(LENGTH)
    if ME == 0:
        work = dist.all_reduce(x, group=group, async_op=True)
        end("wait", x, lambda: work.wait(SHORT), "allreduce", "not done within 0.5 s")
        case.raises(RuntimeError, lambda: dist.all_reduce(x, group=group), "not done within 0.5 s")
    else:
        STORE.wait(["wait"])
        case.raises(RuntimeError, lambda: dist.all_reduce(x, group=group), "rank 0", "not done within 0.5 s")
        if ME == 1:
            STORE.set("wait/over", "")
        dist.barrier()


def test_message_waited_for_with_timeout():
    group = dist.new_group()
    if ME == 0:
        x = torch.ones(8)
        work = dist.irecv(x, 1, group=group)
        case.raises(RuntimeError, lambda: work.wait(timedelta(seconds=0.2)), "recv from rank 1", "no partner within 0.2 s")
        x.fill_(PATTERN)
        STORE.set("message", "go")
        y = torch.zeros(8)
        dist.recv(y, 1, group=group)
        assert (y == 3).all() and (x == PATTERN).all()
    elif ME == 1:
        STORE.wait(["message"])
        dist.send(torch.full((8,), 3.0), 0, group=group)


def trained(group, passes, late=0.0):
    """Two steps of dear-sharded, the second one with so many backward passes. Closes so many seconds late."""
    model = torch.nn.Linear(300, 200)
    opt = tutti.torch.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model, policy="dear-sharded", process_group=group)
    try:
        for n in (1, passes):
            opt.zero_grad()
            for _ in range(n):
                model(torch.ones(2, 300)).sum().backward()
            opt.step()
        opt.flush()
    finally:
        time.sleep(late)
        opt.close()


def test_refused_on_one_rank_alone():
    """The others are told why, and not by their deadline."""
    words = ("rank 0", "aborted: closed after a refusal: backward ran twice before step()")
    group = dist.new_group(timeout=timedelta(seconds=6))
    case.raises(RuntimeError, lambda: trained(group, 2 if ME == 0 else 1), *words)
    case.raises(RuntimeError, lambda: dist.barrier(group=group), *words)


def test_refused_on_all_ranks():
    """The group goes on, also when one of them closes seconds later."""
    group = dist.new_group()
    case.raises(RuntimeError, lambda: trained(group, 2, 3.0 if ME == 0 else 0.0), "backward ran twice before step()")
    x = torch.ones(3)
    dist.all_reduce(x, group=group)
    assert (x == N).all()


def test_look_after_the_last_step():
    """A refusal between steps leaves nothing half done: closing is as ever, and the state is kept."""
    group = dist.new_group()
    model = torch.nn.Linear(8, 4)
    inner = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    opt = tutti.torch.DistributedOptimizer(inner, model, policy="dear-sharded", process_group=group)
    model(torch.ones(2, 8)).sum().backward()
    opt.step()
    if ME == 0:
        case.raises(RuntimeError, lambda: model.weight.grad.norm(), "clip_norm=")
    opt.close()
    assert len(inner.state) == 2
    dist.barrier(group=group)


def test_closed_while_an_exception_is_handled():
    """It does not leave the program: the others finish what this rank has done its part of."""
    group = dist.new_group()
    x = torch.full((4,), float(ME == 0))
    if ME:
        time.sleep(0.5)
    work = dist.broadcast(x, 0, group=group, async_op=True)
    try:
        work.wait()
        raise KeyError("handled")
    except KeyError:
        group.shutdown()
    assert (x == 1).all()


def test_rank_0_does_not_come():
    """Whoever waits for its address says whom it missed."""
    case.raises(RuntimeError, lambda: _meet.meet(dist.HashStore(), 1, 2, SHORT), "rank 0 did not come within 0.5 s")


case.run(
    [
        test_receive_that_is_late, test_send_that_is_late, test_wait_with_timeout, test_message_waited_for_with_timeout,
        test_refused_on_one_rank_alone, test_refused_on_all_ranks, test_look_after_the_last_step,
        test_closed_while_an_exception_is_handled, test_rank_0_does_not_come,
    ],
    ME,
)  # fmt: skip
dist.destroy_process_group()
