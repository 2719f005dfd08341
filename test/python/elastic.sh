#!/bin/bash
# elastic.sh TUTTI PYTHON - examples/elastic.py: a rank dies, is started again, joins and catches up.
set -u
cd "$(dirname "$0")/../.." || exit 2
"$2" -c 'import numpy' 2>/dev/null || { echo "skipped: no NumPy"; exit 77; }
out=$(TUTTI_TIMEOUT=20s "$1" run -n 3 --elastic 2..3 -- "$2" examples/elastic.py --die --steps 300 --pause 0.01 2>&1)
code=$?
echo "$out"
# Several ranks may share a line: with PYTHONUNBUFFERED, Python writes a line's end by itself.
ends=$(grep -oE 'END 300 steps, 3 ranks, 2 changes, off by [0-9.e+-]+, hash [0-9a-f]{16}' <<<"$out")
[ $code = 0 ] && [ "$(wc -l <<<"$ends")" = 3 ] && [ "$(sed 's/.*hash //' <<<"$ends" | sort -u | wc -l)" = 1 ] &&
    grep -q 'off by [0-9.]*e-' <<<"$ends" && exit 0
echo FAILED
exit 1
