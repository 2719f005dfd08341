"""`pip install .`, `pip wheel .`: the package with libtutti, the tool and libsodium inside. Library and tool come from the build folder of
the library that TUTTI_LIBRARY names, or are built here with CMake (a C compiler, CMake and libsodium are needed). Nothing is compiled
against Python or torch, so that one wheel (py3-none-linux_x86_64) serves all versions of both, and installs without a compiler.

Not scikit-build-core: it would run the same three CMake commands, and could neither take a library that is built already nor bring
libsodium; and Debian's setuptools builds this file without a network."""

import glob
import os
import re
import shutil
import subprocess
import sys
import sysconfig
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
            run("cmake", "--install", build, "--prefix", installed, "--component", "wheel", "--strip")
            (found,) = glob.glob(os.path.join(installed, "lib*", "**", "libtutti.so.0"), recursive=True)
            shutil.copy(os.path.realpath(found), os.path.join(package, "libtutti.so.0"))
            shutil.copy(os.path.join(installed, "bin", "tutti"), os.path.join(package, "tutti"))
            add_sodium(package)


def add_sodium(package: str) -> None:
    """The libsodium that the library was linked with, beside it: both find it there. Its licence asks for its text in every copy."""
    needed = subprocess.run(["ldd", os.path.join(package, "libtutti.so.0")], check=True, capture_output=True, text=True).stdout
    found = re.search(r"(libsodium\.so\.\d+) => (/\S+)", needed)
    if found:
        shutil.copy(os.path.realpath(found[2]), os.path.join(package, found[1]))
        for text in glob.glob("/usr/share/doc/libsodium[0-9]*/copyright"):
            shutil.copy(text, os.path.join(package, "libsodium.copyright"))


class PlatformDistribution(Distribution):
    """Wheels hold machine code."""

    def has_ext_modules(self) -> bool:
        return True


def wheel_command() -> dict:
    """bdist_wheel with the tag of any Python 3 on this kind of machine."""
    try:
        from setuptools.command.bdist_wheel import bdist_wheel
    except ImportError:
        try:
            from wheel.bdist_wheel import bdist_wheel
        except ImportError:
            return {}

    class AnyPython(bdist_wheel):  # type: ignore[misc, valid-type]
        def get_tag(self) -> tuple:
            return "py3", "none", re.sub(r"[^a-z0-9]", "_", sysconfig.get_platform().lower())

    return {"bdist_wheel": AnyPython}


def check_wheel() -> None:
    """Without build isolation pip uses what is installed, and old versions of setuptools cannot make wheels by themselves."""
    makes = "bdist_wheel" in sys.argv or "dist_info" in sys.argv
    if makes and not find_spec("setuptools.command.bdist_wheel") and not find_spec("wheel"):
        raise SystemExit("the Python package 'wheel' is not installed, which setuptools needs to build tutti (pip install wheel; Debian, Ubuntu: apt install python3-wheel)")


check_wheel()
setup(cmdclass={"build_py": BuildWithLibrary, **wheel_command()}, distclass=PlatformDistribution)
