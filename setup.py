"""`pip install .`: the package with libtutti and the tool beside it. Both come from the build folder of the library that TUTTI_LIBRARY names,
or are built here with CMake (a C compiler, CMake and libsodium are needed; nothing is compiled against torch)."""

import glob
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

HERE = os.path.dirname(os.path.abspath(__file__))


def run(*command: str) -> None:
    """Runs it; what it lacks is said in one line."""
    try:
        subprocess.run(command, check=True)
    except FileNotFoundError:
        raise SystemExit(f"tutti is built with {command[0]}, which is not installed (Debian, Ubuntu: apt install gcc cmake make libsodium-dev)") from None
    except subprocess.CalledProcessError:
        raise SystemExit(f"{' '.join(command)} failed: the reason stands above (pip install -v shows all of it)") from None


def built(directory: str) -> str:
    """Builds libtutti and the tool in `directory`; that directory."""
    run("cmake", "-S", HERE, "-B", directory, "-DCMAKE_BUILD_TYPE=Release", "-DTUTTI_TESTS=OFF")
    run("cmake", "--build", directory, "--target", "tutti", "tutti_tool", "-j", str(os.cpu_count() or 1))
    return directory


class BuildWithLibrary(build_py):
    """Puts library and tool into the package, as installed: no path of the build folder stays in them."""

    def run(self) -> None:
        super().run()
        package = os.path.join(self.build_lib, "tutti")
        library = os.environ.get("TUTTI_LIBRARY")
        with tempfile.TemporaryDirectory() as directory:
            build = os.path.dirname(os.path.realpath(library)) if library else built(os.path.join(directory, "build"))
            if not os.path.exists(os.path.join(build, "cmake_install.cmake")):
                raise SystemExit(f"TUTTI_LIBRARY={library} is not in a folder where CMake built it")
            installed = os.path.join(directory, "installed")
            run("cmake", "--install", build, "--prefix", installed, "--component", "wheel")
            (found,) = glob.glob(os.path.join(installed, "lib*", "**", "libtutti.so.0"), recursive=True)
            shutil.copy(os.path.realpath(found), os.path.join(package, "libtutti.so.0"))
            shutil.copy(os.path.join(installed, "bin", "tutti"), os.path.join(package, "tutti"))


class PlatformDistribution(Distribution):
    """Wheels hold machine code."""

    def has_ext_modules(self) -> bool:
        return True


def check_wheel() -> None:
    """Without build isolation pip uses what is installed, and old versions of setuptools cannot make wheels by themselves."""
    makes = "bdist_wheel" in sys.argv or "dist_info" in sys.argv
    if makes and not find_spec("setuptools.command.bdist_wheel") and not find_spec("wheel"):
        raise SystemExit("the Python package 'wheel' is not installed, which setuptools needs to build tutti (pip install wheel; Debian, Ubuntu: apt install python3-wheel)")


check_wheel()
setup(cmdclass={"build_py": BuildWithLibrary}, distclass=PlatformDistribution)
