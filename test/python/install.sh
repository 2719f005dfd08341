#!/usr/bin/env bash
# `pip install` into an empty directory; the package works from there with the library beside it. Usage: install.sh PYTHON
set -eu
python=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
for module in pip setuptools numpy; do
    "$python" -c "import $module" 2>/dev/null || { echo "skipped: $python has no $module (Debian: python3-$module)"; exit 0; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/source"
cp -r "$root/python" "$root/pyproject.toml" "$root/setup.py" "$root/README.md" "$work/source"
"$python" -m pip install --quiet --no-deps --no-build-isolation --root-user-action ignore --target "$work/site" "$work/source" || exit 1
unset TUTTI_LIBRARY
cd "$work"
PYTHONPATH=$work/site "$python" - <<'PROGRAM'
import os
import numpy as np
import tutti
from tutti import _lib
assert os.path.dirname(_lib.lib._name) == os.path.dirname(tutti.__file__), _lib.lib._name
assert tutti.__file__.startswith(os.getcwd()), tutti.__file__
with tutti.Communicator(rank=0, size=1) as comm:
    assert (comm.allreduce(np.ones(3)) == 1).all()
print("installed", tutti.__version__, "and used beside", _lib.lib._name)
PROGRAM
