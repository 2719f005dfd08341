#!/usr/bin/env bash
# `pip install` into an empty directory; the package works from there with the library beside it, and so does the command. Usage: install.sh PYTHON
set -eu
python=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
for module in pip setuptools numpy; do
    "$python" -c "import $module" 2>/dev/null || { echo "skipped: $python has no $module (Debian: python3-$module)"; exit 0; }
done
"$python" -c 'from importlib.util import find_spec as found
assert found("wheel") or found("setuptools.command.bdist_wheel")' 2>/dev/null || { echo "skipped: $python has no wheel (Debian: python3-wheel)"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# what pip cannot install without a network is said in a sentence
said=$(cd "$root" && "$python" -c 'import sys
for name in ("wheel", "setuptools.command.bdist_wheel"):
    sys.modules[name] = None
import importlib.util as u
found = u.find_spec
u.find_spec = lambda name, *more: None if sys.modules.get(name, 1) is None else found(name, *more)
sys.argv = ["setup.py", "bdist_wheel"]
exec(compile(open("setup.py").read(), "setup.py", "exec"), {"__name__": "__main__", "__file__": "setup.py"})' 2>&1) && { echo "FAILED: built without wheel"; exit 1; }
case $said in *"'wheel' is not installed"*) ;; *) echo "FAILED: without wheel: $said"; exit 1 ;; esac
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
export PYTHONPATH=$work/site
tool() { env -u LD_LIBRARY_PATH "$work/site/bin/tutti" "$@"; }
tool topo ring:5 | grep -Eq 'ranks +5' || { echo "FAILED: the command tutti does not describe a ring"; exit 1; }
tool verify --topo ring:5 --algo bucket --size 1K 2>err && { echo "FAILED: the exit status of tutti is lost"; exit 1; }
[ "$(tool run -n 2 -- "$python" -c 'import tutti; c = tutti.RawCommunicator(); print("two")' | grep -o two | wc -l)" = 2 ] || { echo "FAILED: tutti run"; exit 1; }
case $(env -u LD_LIBRARY_PATH ldd "$work/site/tutti/tutti") in
*"libtutti.so.0 => $work/site/tutti/"*) ;;
*libtutti.so*) echo "FAILED: the tool does not use the library beside it"; exit 1 ;; # it may hold the library itself
esac
grep -q '^Requires-Dist: numpy' "$work"/site/tutti-*.dist-info/METADATA || { echo "FAILED: NumPy is not declared"; exit 1; }
# torch 2.5 and later runs this at `import torch`: it loads nothing of ours and never raises, also where there is no torch.
"$python" - <<'PROGRAM' || { echo "FAILED: the entry point for torch"; exit 1; }
import sys
from importlib.metadata import entry_points
found = entry_points()
group = found.select(group="torch.backends") if hasattr(found, "select") else found.get("torch.backends", ())
(entry,) = {e.value: e for e in group if e.name == "tutti"}.values()
entry.load()()
assert "tutti" not in sys.modules
torch = sys.modules.get("torch")
if torch and tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 5) and torch.distributed.is_available():
    assert hasattr(torch.distributed.Backend, "TUTTI")
PROGRAM
echo "the command works"
