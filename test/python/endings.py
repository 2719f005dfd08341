"""The endings of exits.py: each is what one program does last. `w` is the World; rank 1 is the odd one where the ranks differ."""

import atexit
import concurrent.futures
import contextlib
import datetime
import gc
import os
import signal
import sys
import threading
import time
import weakref

import numpy as np
import torch
import torch.distributed as dist

import tutti
import tutti.torch

ENDINGS = {}
STATUS = {}  # (rank 0, rank 1); None: any but a signal
ALONE = {}  # a program without Tutti that does the same: where torch itself aborts, the ranks may
SHORT = []
KEPT = []  # lives as long as the interpreter
DEADLINE = 5.0  # seconds


def ending(f=None, *, status=None, short=False, alone=None):
    def add(g):
        name = g.__name__
        ENDINGS[name] = g
        if alone is not None:
            ALONE[name] = alone
        if status is not None:
            STATUS[name] = status
        if short:
            SHORT.append(name)
        return g

    return add(f) if f is not None else add


class World:
    """A rank with a group, a model and its optimizer, one step old."""

    def __init__(self, folder, port, rank, size, policy):
        self.folder, self.port, self.rank, self.size, self.policy = folder, port, rank, size, policy

    def begin(self):
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell starts in the background
        os.environ.update(TUTTI_TRANSPORT="shm", TUTTI_TIMEOUT=f"{DEADLINE:.0f}s", TUTTI_TOPO=f"star:{self.size}")  # nothing is measured
        torch.set_num_threads(1)
        dist.init_process_group(
            "tutti", init_method=f"file://{self.folder}/store", rank=self.rank, world_size=self.size,
            timeout=datetime.timedelta(seconds=DEADLINE),
        )  # fmt: skip
        self.model, self.opt = self.make()
        self.step()
        open(os.path.join(self.folder, f"begun{self.rank}"), "w").close()

    def make(self):
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
        return model, tutti.torch.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), model, policy=self.policy)

    def loss(self):
        return self.model(torch.ones(4, 6) + torch.arange(4.0).view(4, 1)).square().mean()

    def half(self):
        """A step without its end."""
        self.opt.zero_grad()
        self.loss().backward()

    def step(self):
        self.half()
        self.opt.step()

    def train(self, steps=10**9):
        for _ in range(steps):
            self.step()


class Last:
    """Calls f when it dies."""

    def __init__(self, f):
        self.f = f

    def __del__(self):
        self.f()


# ---- nothing special, in every order ----


@ending(short=True)
def falls_off_the_end(w):
    KEPT.append(w)


@ending
def destroyed_first(w):
    KEPT.append(w)
    dist.destroy_process_group()


@ending
def closed_and_destroyed(w):
    w.opt.close()
    dist.destroy_process_group()


@ending
def destroyed_and_closed(w):
    dist.destroy_process_group()
    w.opt.close()


@ending
def model_dies_first(w):
    del w.model
    gc.collect()
    KEPT.append(w.opt)


@ending(short=True)
def optimizer_dies_first(w):
    del w.opt
    gc.collect()
    KEPT.append(w.model)


@ending
def everything_dies_before_the_group(w):
    group = dist.distributed_c10d._get_default_group()
    del w.opt, w.model
    gc.collect()
    KEPT.append(group)


@ending
def in_the_middle_of_a_step(w):
    w.half()
    KEPT.append(w)


@ending
def in_the_middle_then_destroyed(w):
    w.half()
    dist.destroy_process_group()


@ending(short=True)
def gradients_are_kept(w):
    w.half()
    KEPT.extend(p.grad for p in w.model.parameters())
    w.opt.step()


@ending
def graph_is_kept(w):
    w.opt.zero_grad()
    KEPT.append(w.loss())
    KEPT[0].backward(retain_graph=True)


@ending
def two_models(w):
    other = w.make()
    KEPT.append(other)
    other[0](torch.ones(4, 6)).sum().backward()
    other[1].step()


@ending
def groups_inside(w):
    del os.environ["TUTTI_TOPO"]
    KEPT.append([dist.new_group([0, 1]), dist.new_group([1])])
    dist.all_reduce(torch.ones(3), group=KEPT[0][0])


@ending
def copies_are_kept(w):
    import copy

    KEPT.append(copy.deepcopy(w.model))
    w.step()
    KEPT.append(w.model.state_dict())


# ---- garbage ----


@ending(short=True)
def cycle(w):
    gc.disable()
    w.me = w
    w.model.friend = [w]


@ending
def cycle_with_a_will(w):
    gc.disable()
    w.me = w
    w.will = Last(lambda p=next(w.model.parameters()): p.detach().sum())


# In an interpreter that is ending, torch 2.13 aborts (THPVariable_clear) when a tensor's Python object dies before its autograd graph does.
_WILL = """
import sys, types, torch
class Last:
    def __del__(self, model=torch.nn.Linear(6, 2), ones=torch.ones(4, 6)):
        model(ones).square().mean().backward()
holder = sys.modules["holder"] = types.ModuleType("holder")
holder.last = Last()
"""


@ending(alone=_WILL)
def a_will_that_steps(w):
    KEPT.append(Last(lambda: w.train(1)))


@ending
def a_will_that_destroys(w):
    KEPT.append(Last(lambda: dist.destroy_process_group() if dist.is_initialized() else None))


@ending
def a_finalizer_that_steps(w):
    weakref.finalize(w.model, w.opt.step)
    KEPT.append(w)


@ending
def modules_are_gone(w):
    KEPT.append(w)
    for name in [n for n in sys.modules if n.startswith(("torch.distributed", "tutti"))]:
        del sys.modules[name]


# ---- exits ----


@ending(status=(0, 0))
def sys_exit(w):
    sys.exit()


@ending(status=(None, 3), short=True)
def one_exits_the_other_trains(w):
    if w.rank == 1:
        sys.exit(3)
    w.train()


@ending(status=(1, 1))
def exits_with_words_in_the_middle(w):
    w.half()
    sys.exit("that was it")


@ending(status=(None, 0), short=True)
def os_exit_of_one(w):
    if w.rank == 1:
        os._exit(0)
    w.train()


@ending
def os_exit_of_both(w):
    w.half()
    os._exit(0)


@ending(status=(None, 0))
def becomes_another_program(w):
    if w.rank == 1:
        os.execv("/bin/true", ["true"])
    w.train()


@ending
def a_child_of_one(w):
    pid = os.fork()
    if pid == 0:
        return
    os.waitpid(pid, 0)
    w.step()


@ending(status=(1, 1))
def exits_inside_of_a_hook(w):
    w.model[0].register_forward_pre_hook(lambda *_: sys.exit("no more"))
    w.step()


# ---- exceptions ----


@ending(status=(1, 1), short=True)
def one_raises(w):
    if w.rank == 1:
        raise ValueError("no such sample")
    w.train()


@ending(status=(1, 1))
def both_raise_in_the_middle(w):
    w.half()
    raise ValueError("no such sample")


@ending(status=(1, 1), short=True)
def raises_inside_of_backward(w):
    def fail(grad):
        raise LookupError("in a hook")

    w.model[0].weight.register_hook(fail)
    w.step()


@ending
def raises_inside_of_backward_and_goes_on(w):
    def fail(grad):
        raise LookupError("in a hook")

    w.opt.zero_grad()
    handle = w.model[0].weight.register_hook(fail)
    with contextlib.suppress(LookupError):
        w.loss().backward()
    handle.remove()


@ending(short=True)
def backward_twice_and_caught(w):
    def local():
        model, opt = w.make()
        for _ in range(2):
            model(torch.ones(4, 6)).sum().backward()
        opt.step()

    with contextlib.suppress(RuntimeError):
        local()


@ending(status=(1, 1))
def raises_without_sync(w):
    with w.opt.no_sync():
        w.half()
        raise ValueError("half way")


@ending(status=(1, 1))
def no_memory(w):
    KEPT.append(w)
    raise MemoryError


@ending(status=(1, 1))
def too_deep(w):
    def deeper(n):
        w.loss()
        return deeper(n + 1)

    deeper(0)


@ending(status=(1, 1))
def exception_keeps_everything(w):
    try:
        raise ValueError("first")
    except ValueError as e:
        e.everything = (w, w.loss())
        KEPT.append(e)
        raise KeyError("second") from e


@ending(status=(1, 1))
def hook_of_exceptions_fails(w):
    sys.excepthook = lambda *_: 1 / 0
    raise ValueError("unheard")


@ending(status=(1, 1))
def no_output_left(w):
    sys.stdout.close()
    sys.stderr.close()
    raise ValueError("unheard")


# ---- after errors of the library ----


@ending(short=True)
def mismatch_and_caught(w):
    with contextlib.suppress(RuntimeError):
        dist.all_reduce(torch.ones(3)) if w.rank else dist.barrier()
    KEPT.append(w)


@ending
def deadline_and_caught(w):
    with contextlib.suppress(RuntimeError):
        if w.rank:
            dist.all_reduce(torch.ones(3))
    KEPT.append(w)


@ending(status=(0, -signal.SIGKILL), short=True)
def peer_is_killed_and_one_goes_on(w):
    if w.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    for _ in range(3):
        with contextlib.suppress(RuntimeError):
            w.train()
    with contextlib.suppress(RuntimeError):
        w.opt.close()


@ending(status=(None, 0))
def aborted(w):
    if w.rank == 1:
        dist.distributed_c10d._get_default_group()._comm.abort("enough")
    with contextlib.suppress(RuntimeError):
        w.train()


# ---- signals ----


@ending(status=(None, -signal.SIGTERM))
def terminated(w):
    if w.rank == 1:
        os.kill(os.getpid(), signal.SIGTERM)
    w.train()


@ending(status=(None, 7), short=True)
def terminated_with_a_handler(w):
    if w.rank == 1:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
    w.train()


@ending(status=(None, -signal.SIGINT))
def interrupted(w):
    if w.rank == 1:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    w.train()


@ending(status=(-signal.SIGINT, -signal.SIGINT))
def both_interrupted_in_the_middle(w):
    with contextlib.suppress(RuntimeError):  # the other one may be gone
        w.half()
    signal.raise_signal(signal.SIGINT)


@ending(status=(1, None))
def interrupted_while_waiting(w):
    """Rank 0 waits for rank 1, which does not come."""
    if w.rank:
        time.sleep(1)
        return

    def late(*_):
        raise TimeoutError("too late")

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    w.train(1)
    dist.barrier()
    time.sleep(DEADLINE)


@ending(status=(None, -signal.SIGABRT))
def abort(w):
    if w.rank == 1:
        signal.signal(signal.SIGABRT, signal.SIG_DFL)
        os.abort()
    w.train()


# ---- threads ----


@ending(short=True)
def a_thread_trains(w):
    def train():
        with contextlib.suppress(RuntimeError):
            w.train()

    threading.Thread(target=train, daemon=True).start()
    time.sleep(0.1)


@ending(short=True)
def a_thread_is_in_backward(w):
    """Torch alone aborts here: the thread comes back to an interpreter that has ended."""

    def train():
        with contextlib.suppress(RuntimeError):
            w.train()

    next(w.model.parameters()).register_hook(lambda _: time.sleep(0.3))
    threading.Thread(target=train, daemon=True).start()
    time.sleep(0.1)


@ending
def a_thread_trains_to_its_end(w):
    threading.Thread(target=w.train, args=(5,)).start()


@ending(short=True)
def a_thread_waits_forever(w):
    def wait():
        with contextlib.suppress(RuntimeError):
            dist.all_reduce(torch.ones(3))

    if w.rank == 0:
        threading.Thread(target=wait, daemon=True).start()
        time.sleep(0.1)


@ending
def a_thread_holds_everything(w):
    threading.Thread(target=lambda held: time.sleep(0.3), args=(w,), daemon=True).start()


@ending
def a_pool_has_work_left(w):
    pool = concurrent.futures.ThreadPoolExecutor(1)
    KEPT.append(pool.submit(w.train, 3))


@ending(status=(1, 1))
def a_thread_trains_while_main_raises(w):
    threading.Thread(target=w.train, daemon=True).start()
    time.sleep(0.1)
    raise ValueError("in the main thread")


# ---- handlers of the program ----


@ending(short=True)
def steps_at_exit(w):
    atexit.register(w.train, 2)


@ending
def destroys_at_exit(w):
    atexit.register(dist.destroy_process_group)
    KEPT.append(w)


@ending
def raises_at_exit(w):
    def fail():
        raise ValueError("at exit")

    atexit.register(fail)


# ---- work that nobody waits for ----


@ending(short=True)
def works_are_dropped(w):
    for _ in range(20):
        dist.all_reduce(torch.ones(100), async_op=True)


@ending
def works_are_kept(w):
    KEPT.extend(dist.all_reduce(torch.ones(100), async_op=True) for _ in range(20))


@ending
def a_message_that_never_comes(w):
    if w.rank == 0:
        KEPT.append(dist.irecv(torch.ones(3), 1))


# torch 2.13 ends with SIGSEGV when its profiler still runs.
_PROFILED = """
import sys, types, torch
profiler = torch.profiler.profile()
profiler.start()
torch.nn.Linear(6, 2)(torch.ones(4, 6)).square().mean().backward()
holder = sys.modules["holder"] = types.ModuleType("holder")
holder.profiler = profiler
"""


@ending(alone=_PROFILED)
def traced(w):
    trace = tutti.torch.trace(os.path.join(w.folder, "trace%d.json" % w.rank))
    profiler = torch.profiler.profile(on_trace_ready=trace)
    profiler.start()
    w.step()
    KEPT.append(profiler)


# ---- NumPy ----


def _communicator(w):
    return tutti.Communicator(rank=w.rank, size=w.size, rendezvous=f"127.0.0.1:{w.port}", timeout=DEADLINE)


@ending(short=True)
def arrays_outlive_the_communicator(w):
    with _communicator(w) as comm:
        KEPT.append(comm.empty(1000))
        KEPT[0][:] = 1
        comm.allreduce(KEPT[0], out=KEPT[0])
    assert (KEPT[0] == 2).all()


@ending
def communicator_is_left_open(w):
    comm = _communicator(w)
    KEPT.append((comm, comm.empty(10), comm.allreduce(np.ones(4))))


@ending
def request_is_left_running(w):
    comm = _communicator(w)
    x = comm.empty(1000)
    request = comm.allreduce_init(x)
    KEPT.append(request)
    if w.rank == 0:
        request.start()


@ending(status=(1, 1))
def raises_in_a_with(w):
    with _communicator(w) as comm:
        if w.rank == 1:
            raise ValueError("rank 1's")
        while True:
            comm.allreduce(np.ones(4))
