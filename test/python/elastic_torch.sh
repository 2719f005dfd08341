#!/bin/bash
# elastic_torch.sh TUTTI PYTHON - DistributedOptimizer(elastic=True): what it refuses; and examples/elastic_torch.py, where a rank dies, is
# started again, joins and goes on with the others' parameters, state, learning rate and notes.
set -u
cd "$(dirname "$0")/../.." || exit 2
"$2" -c 'import torch, numpy' 2>/dev/null || { echo "skipped: no PyTorch"; exit 77; }
TUTTI_TIMEOUT=20s "$1" run -n 1 -- "$2" test/python/elastic_torch.py || { echo FAILED; exit 1; }
out=$(TUTTI_TIMEOUT=20s "$1" run -n 3 --elastic 2..3 -- "$2" examples/elastic_torch.py --die --steps 240 --pause 0.03 2>&1)
code=$?
echo "$out"
# Several ranks may share a line: with PYTHONUNBUFFERED, Python writes a line's end by itself.
ends=$(grep -oE 'END 240 steps, 3 ranks, 2 change\(s\), lr 0.029525, 5 notes, loss [0-9.]+, hash [0-9a-f]{16}' <<<"$out")
[ $code = 0 ] && [ "$(wc -l <<<"$ends")" = 3 ] && [ "$(sed 's/.*hash //' <<<"$ends" | sort -u | wc -l)" = 1 ] &&
    grep -q 'begins at step [0-9]*0, change 2' <<<"$out" && exit 0
echo FAILED
exit 1
