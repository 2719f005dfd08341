#!/usr/bin/env bash
# One rank of three fails, in several ways: every other rank must be told who and why. Usage: faults.sh TUTTI PYTHON
set -u
tutti=$1 python=$2
here=$(cd "$(dirname "$0")" && pwd)
"$python" -c 'import torch' 2>/dev/null || { echo "skipped: $python has no torch (Debian: python3-torch)"; exit 0; }
bad=0
# expect CASE NAMED: NAMED ranks must say that they were told
expect() {
    local out
    out=$(timeout 60 "$tutti" run -n 3 --timeout 10s -- "$python" "$here/test_faults.py" "$1" 2>&1)
    if [ "$(grep -o ' named: ' <<<"$out" | wc -l)" = "$2" ]; then
        echo "passed: $1"
    else
        echo "FAILED: $1"
        echo "$out"
        bad=1
    fi
}
expect ddp-workers 4
expect hook 4
expect dear 4
expect dear-workers 4
if "$python" -c 'from torch.distributed.fsdp import fully_shard' 2>/dev/null; then
    expect fsdp 4
    expect fsdp-workers 4
else
    echo "skipped: fsdp: $python has no PyTorch 2"
fi
expect allreduce 2
expect subgroup 2
expect receiver 2
expect late 3
expect future 2
expect differs 3
expect leaves 2
# told CASE: NumPy programs: both others hear the text of the exception that one rank left with, and end before it; the launcher names it.
told() {
    local out
    out=$(timeout 60 "$tutti" run -n 3 --timeout 10s -- "$python" "$here/leave.py" "$1" 2>&1)
    if [ "$(grep -c "^rank [02] told$" <<<"$out")" = 2 ] && grep -qE '^tutti run: rank 1 \(pid [0-9]+\) exited with status 1$' <<<"$out" &&
        ! grep -q 'found when the communicator was closed' <<<"$out"; then
        echo "passed: leaving $1"
    else
        echo "FAILED: leaving $1"
        echo "$out"
        bad=1
    fi
}
told with
told without
# Ranks that fail because of one that does not fail itself.
out=$(timeout 60 "$tutti" run -n 3 --timeout 10s -- "$python" "$here/leave.py" early 2>&1)
grep -qE '^tutti run: rank [02] .* exited with status 1; the ranks blame rank 1 \(pid [0-9]+\), which has ended without an error$' <<<"$out" ||
    { echo "FAILED: leaving early: $out"; bad=1; }
exit $bad
