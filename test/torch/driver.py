#!/usr/bin/env python3
"""PyTorch's own tests of collectives, groups and DDP (torch.testing._internal.distributed.distributed_test) on our backend.

    driver.py [--backend tutti|gloo] [--ranks 3] [--short] [--list] [NAME ...]

NAME is a part of a test's name. --short runs the selection that belongs to `make check`. Ends with one line per failure, the skipped tests
with torch's reasons, and "N passed, N failed, N skipped"; exit 1 when one failed. Ranks are forked from this process, which has loaded
torch already: a test takes a fraction of a second. The tests ask for the backend's name all over: they are told "gloo", and every group they
make by that name is ours."""

import argparse
import collections
import contextlib
import logging
import os
import shutil
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SHORT = [
    "test_all_reduce_sum",
    "test_all_reduce_group_max",
    "test_all_reduce_sum_async",
    "test_all_reduce_coalesced_group_sum",
    "test_all_gather_group",
    "test_all_gather_object_default_pg",
    "test_broadcast_group",
    "test_gather",
    "test_scatter_full_group",
    "test_reduce_group_min",
    "test_isend",
    "test_send_recv_any_source",
    "test_barrier_group",
    "test_DistributedDataParallelCPU",
    "test_accumulate_gradients_no_sync",
    "test_barrier_timeout_full_group",
    "test_batch_isend_irecv_gloo",
    "test_ddp_logging_data_cpu",
    "test_SyncBatchNorm_process_group",
    "test_DistributedDataParallel_requires_grad",
]
# Tests that pass on Gloo and are not for us, and why.
MONITORED = "torch has monitored_barrier for Gloo only"
NOT_OURS = {
    "test_sparse_all_reduce_sum": "sparse tensors are not supported",
    "test_get_backend": "the backend's name is not gloo",
    "test_monitored_barrier_failure_order": MONITORED,
    "test_monitored_barrier_gloo": MONITORED,
    "test_monitored_barrier_gloo_rank_0_timeout": MONITORED,
    "test_monitored_barrier_gloo_subgroup": MONITORED,
    "test_monitored_barrier_wait_all_ranks": MONITORED,
}


def parse() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--backend", default="tutti", choices=("tutti", "gloo"))
    p.add_argument("--ranks", type=int, default=3)
    p.add_argument("--short", action="store_true")
    p.add_argument("--list", action="store_true")
    p.add_argument("names", nargs="*")
    return p.parse_args()


def prepare(args: argparse.Namespace, directory: str) -> None:
    """What torch's module reads when it is imported."""
    for name in ("barrier", "test_dir", "init_dir"):
        os.mkdir(os.path.join(directory, name))
    os.environ.update(
        BACKEND="gloo",
        WORLD_SIZE=str(args.ranks),
        TEMP_DIR=directory,
        MASTER_ADDR="127.0.0.1",
        OMP_NUM_THREADS="1",
        OPENBLAS_NUM_THREADS="1",
    )
    sys.path.insert(0, HERE)
    sys.path.append(os.path.join(os.path.dirname(os.path.dirname(HERE)), "python"))
    sys.argv[1:] = []


def disguise(dist) -> None:
    """Groups that are asked for as gloo are ours."""
    init = dist.init_process_group

    def init_process_group(backend, *args, **kwargs):
        return init("tutti" if backend == "gloo" else backend, *args, **kwargs)

    dist.init_process_group = init_process_group


def load(backend: str) -> type:
    """The test case, with ranks forked instead of spawned."""
    import multiprocessing

    import torch

    torch.set_num_threads(1)
    import tutti.torch  # noqa: F401
    from torch.testing._internal.distributed import distributed_test

    # torch 1.13 cannot import its own sharded tensors under Python 3.11, which the tests switch on for DDP and do not use.
    with contextlib.suppress(ImportError):
        from torch.nn.parallel import _replicated_tensor_ddp_utils

        _replicated_tensor_ddp_utils._set_ddp_with_replicated_tensor = lambda value: None
    logging.disable(logging.INFO)
    if backend == "tutti":
        disguise(torch.distributed)

    class Cases(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):  # type: ignore[misc]
        def setUp(self):
            super().setUp()
            self._start_processes(multiprocessing.get_context("fork").Process)

    return Cases


class Result(unittest.TestResult):
    """Says each test's end at once."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0

    def startTest(self, test):
        super().startTest(test)
        self._start = time.monotonic()

    def _say(self, word, test):
        print(f"{word} {test._testMethodName} ({time.monotonic() - self._start:.1f} s)", flush=True)

    def addSuccess(self, test):
        self.passed += 1
        self._say("passed", test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._say("FAILED", test)

    def addError(self, test, err):
        super().addError(test, err)
        self._say("FAILED", test)


def main() -> int:
    args = parse()
    try:
        import torch  # noqa: F401
        import torch.distributed
    except ImportError as e:
        print(f"skipped: {e} (Debian: python3-torch)")
        return 0
    directory = tempfile.mkdtemp()
    try:
        prepare(args, directory)
        cases = load(args.backend)
        names = [n for n in unittest.TestLoader().getTestCaseNames(cases) if not args.names or any(k in n for k in args.names)]
        if args.short:
            names = [n for n in SHORT if n in names]
        ours = args.backend == "tutti"
        left = {n: NOT_OURS[n] for n in names if ours and n in NOT_OURS}
        if args.list:
            print("\n".join(names))
            return 0
        result = Result()
        unittest.TestSuite(cases(n) for n in names if n not in left).run(result)
        return summarise(result, left)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def summarise(result: Result, left: dict) -> int:
    reasons = collections.defaultdict(list)
    for test, why in result.skipped:
        reasons[why].append(test._testMethodName)
    for name, why in left.items():
        reasons[why].append(name)
    for why, names in sorted(reasons.items()):
        print(f"skipped, {why}: {' '.join(names)}")
    bad = result.failures + result.errors
    for test, text in bad:
        print(f"FAILED {test._testMethodName}: {text.strip().splitlines()[-1]}")
    print(f"{result.passed} passed, {len(bad)} failed, {len(result.skipped) + len(left)} skipped")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
