"""`pip install .`: the package with libtutti beside it. The library is TUTTI_LIBRARY when that is set, else it is built here with CMake
(a C compiler, CMake and libsodium are needed; nothing is compiled against torch)."""

import os
import shutil
import subprocess
import tempfile

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

HERE = os.path.dirname(os.path.abspath(__file__))


def built_library(directory: str) -> str:
    """Builds libtutti in `directory`; its path."""
    subprocess.run(["cmake", "-S", HERE, "-B", directory, "-DCMAKE_BUILD_TYPE=Release", "-DTUTTI_TESTS=OFF"], check=True)
    subprocess.run(["cmake", "--build", directory, "--target", "tutti", "-j", str(os.cpu_count() or 1)], check=True)
    return os.path.join(directory, "libtutti.so")


class BuildWithLibrary(build_py):
    """Puts the library into the package."""

    def run(self) -> None:
        super().run()
        with tempfile.TemporaryDirectory() as directory:
            library = os.environ.get("TUTTI_LIBRARY") or built_library(directory)
            shutil.copy(os.path.realpath(library), os.path.join(self.build_lib, "tutti", "libtutti.so.0"))


class PlatformDistribution(Distribution):
    """Wheels hold machine code."""

    def has_ext_modules(self) -> bool:
        return True


setup(cmdclass={"build_py": BuildWithLibrary}, distclass=PlatformDistribution)
