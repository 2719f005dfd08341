#!/usr/bin/env bash
# The wheel: made from this build, named for any Python 3, installed in an empty virtual environment
# without a compiler; package, command and entry point work there. The sdist holds what CMake needs.
# Usage: install.sh PYTHON [PYTHON_WITH_TORCH_2]
set -eu
python=$1 torch2=${2:-$1}
root=$(cd "$(dirname "$0")/../.." && pwd)
for module in pip setuptools venv numpy; do
    "$python" -c "import $module" 2>/dev/null || { echo "skipped: $python has no $module (Debian: python3-$module)"; exit 0; }
done
"$python" -c 'from importlib.util import find_spec as found
assert found("wheel") or found("setuptools.command.bdist_wheel")' 2>/dev/null || { echo "skipped: $python has no wheel (Debian: python3-wheel)"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $*"
    exit 1
}

# what pip cannot install without a network is said in a sentence
said=$(cd "$root" && "$python" -c 'import sys
for name in ("wheel", "setuptools.command.bdist_wheel"):
    sys.modules[name] = None
import importlib.util as u
found = u.find_spec
u.find_spec = lambda name, *more: None if sys.modules.get(name, 1) is None else found(name, *more)
sys.argv = ["setup.py", "bdist_wheel"]
exec(compile(open("setup.py").read(), "setup.py", "exec"), {"__name__": "__main__", "__file__": "setup.py"})' 2>&1) && fail "built without wheel"
case $said in *"'wheel' is not installed"*) ;; *) fail "without wheel: $said" ;; esac

# the sdist, made from what git has: all sources are in it
mkdir "$work/source" "$work/dist"
cp -r "$root"/{python,src,include,cmake,bench,doc,tools,CMakeLists.txt,LICENSE,MANIFEST.in,README.md,pyproject.toml,setup.py} "$work/source"
(cd "$work/source" && "$python" setup.py -q sdist -d "$work/dist" >/dev/null 2>&1) || fail "no sdist"
tar -tzf "$work"/dist/tutti-*.tar.gz | sed 's|^[^/]*/||' | sort >"$work/held"
(cd "$root" && find src include cmake CMakeLists.txt tools/make-man python/tutti python/tutti_entry.py -type f ! -path '*/__pycache__/*') | sort >"$work/wanted"
missing=$(comm -13 "$work/held" "$work/wanted")
[ -z "$missing" ] || fail "not in the sdist: $missing"

# the wheel, from the unpacked sdist
tar -xzf "$work"/dist/tutti-*.tar.gz -C "$work/dist"
"$python" -m pip wheel --quiet --no-deps --no-build-isolation -w "$work/wheel" "$work"/dist/tutti-*/ || exit 1
wheel=$(echo "$work"/wheel/*.whl)
case $wheel in */tutti-*-py3-none-linux_*.whl) ;; *) fail "the wheel is called $wheel" ;; esac
"$python" -m zipfile -l "$wheel" >"$work/held"
grep -q 'tutti/libsodium.so' "$work/held" || fail "no libsodium in the wheel"

unset TUTTI_LIBRARY PYTHONPATH LD_LIBRARY_PATH
# an empty virtual environment, without compiler and CMake. NumPy, which cannot be had offline, is lent.
"$python" -m venv "$work/venv"
site=$("$work/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
env PATH="$work/venv/bin" "$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps "$wheel" || fail "pip install"
lent=$("$python" -c 'import numpy, os; print(os.path.dirname(numpy.__file__))')
for folder in "$lent" "$lent.libs"; do [ ! -d "$folder" ] || ln -s "$folder" "$site"; done
cd "$work"
"$work/venv/bin/python" - <<'PROGRAM'
import os
import numpy as np
import tutti
from tutti import _lib
assert os.path.dirname(_lib.lib._name) == os.path.dirname(tutti.__file__), _lib.lib._name
with tutti.Communicator(rank=0, size=1) as comm:
    assert (comm.allreduce(np.ones(3)) == 1).all()
used = [line.split()[-1] for line in open("/proc/self/maps") if "libsodium" in line]
assert used and all(os.path.dirname(os.path.realpath(tutti.__file__)) == os.path.dirname(os.path.realpath(u)) for u in used), used
print("installed", tutti.__version__, "and used beside", _lib.lib._name)
PROGRAM
tool() { "$work/venv/bin/tutti" "$@"; }
tool topo ring:5 | grep -Eq 'ranks +5' || fail "the command tutti does not describe a ring"
tool verify --topo ring:5 --algo bucket --size 1K 2>err && fail "the exit status of tutti is lost"
[ "$(tool run -n 2 -- "$work/venv/bin/python" -c 'import tutti; c = tutti.RawCommunicator(); print("two")' | grep -o two | wc -l)" = 2 ] || fail "tutti run"
case $(ldd "$site/tutti/tutti") in *"libsodium.so"*"=> $site/tutti/"*) ;; *) fail "the tool does not use the libsodium beside it: $(ldd "$site/tutti/tutti")" ;; esac
grep -q '^Requires-Dist: numpy' "$site"/tutti-*.dist-info/METADATA || fail "NumPy is not declared"
echo "the command works"

# torch 2.5 and later runs the entry point at `import torch`: it loads nothing of ours and never raises,
# also where there is no torch; without our library the backend is known, and says what it lacks.
export PYTHONPATH=$site
rm -f "$site/tutti/libtutti.so.0" "$site"/numpy*
"$torch2" -W ignore - <<'PROGRAM' || fail "the entry point for torch"
import sys
from importlib.metadata import entry_points
found = entry_points()
group = found.select(group="torch.backends") if hasattr(found, "select") else found.get("torch.backends", ())
(entry,) = {e.value: e for e in group if e.name == "tutti"}.values()
entry.load()()
assert "tutti" not in sys.modules
try:
    import torch
    import torch.distributed as dist
except ImportError:
    sys.exit()
if tuple(int(n) for n in torch.__version__.split(".")[:2]) < (2, 5) or not dist.is_available():
    sys.exit()
assert hasattr(dist.Backend, "TUTTI") and "tutti" not in sys.modules
try:
    dist.init_process_group("tutti", store=dist.HashStore(), rank=0, world_size=1)
except ImportError as e:
    assert "libtutti cannot be loaded" in str(e), e
else:
    raise SystemExit("a group without the library")
print("import torch survives a missing library, torch", torch.__version__)
PROGRAM
