#!/usr/bin/env python3
"""follow.py BUILD SOURCE PAGE.md ... - follows a page of the documents as a reader would.

Runs the commands of its `console` blocks (lines after "$ ", in one shell, in a folder that looks like
the source tree with BUILD as build/) and compares what they print with what the page shows. A line
"..." stands for any lines, "..." at the end of a line for the rest of it. A comment before a block
says what else there is to know:

    <!-- test: file NAME -->      the block is a file to write, not commands
    <!-- test: numbers -->        figures differ from run to run: only the words are compared
    <!-- test: fails -->          the commands end with a status other than 0
    <!-- test: needs WHAT -->     numpy, torch, openmpi, root: skipped, and said so, where it is missing
    <!-- test: skip WHY -->       not run

Exit 1: something differs; 2: a page has nothing to run."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

PYTHON = "/usr/bin/python3"
LIMIT = (
    400  # seconds for a page: a reader needs ten minutes, a busy machine longer than a quiet one
)
NUMBER = re.compile(r"\d[\d.,]*(?:e[-+]?\d+)?(?: ?(?:ns|us|ms|s|KiB|MiB|GiB|B)\b)?")
FENCE = re.compile(
    r"^(?:<!-- test: (?P<test>.*?) -->\n)?```(?P<kind>\w*)\n(?P<body>.*?)^```$", re.M | re.S
)


def has(what):
    if what in ("numpy", "torch"):
        return (
            subprocess.run(
                [PYTHON, "-c", "import numpy" if what == "numpy" else "import torch.distributed"],
                capture_output=True,
            ).returncode
            == 0
        )
    if what == "root":
        return os.geteuid() == 0 and shutil.which("ip") is not None
    if what == "openmpi":
        return (
            shutil.which("mpirun.openmpi") is not None and shutil.which("mpicc.openmpi") is not None
        )
    sys.exit("follow: needs %s is not known" % what)


class Command:
    def __init__(self, text, words):
        self.text, self.shown = text, []
        self.numbers, self.fails = "numbers" in words, "fails" in words


def commands_of(body, words):
    found = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:], words))
        elif found and (found[-1].text.endswith("\\") or line.startswith("> ")):
            found[-1].text += "\n" + (line[2:] if line.startswith("> ") else line)
        elif found:
            found[-1].shown.append(line)
    return found


def read_page(path):
    """Files to write and commands to run, in order."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    steps, end = [], 0
    for m in FENCE.finditer(text):
        above, end = text[end : m.start()], m.end()
        words = (m.group("test") or "").split()
        if words[:1] == ["skip"]:
            continue
        if words[:1] == ["needs"] and not has(words[1]):
            print(
                "%s: skipped: a block needs %s, which is not here"
                % (os.path.basename(path), words[1])
            )
            continue
        if "file" in words:
            if "`%s`" % words[words.index("file") + 1] not in above:
                sys.exit(
                    "FAILED: %s does not tell the reader to save %s"
                    % (path, words[words.index("file") + 1])
                )
            steps.append((words[words.index("file") + 1], m.group("body")))
        elif m.group("kind") == "console":
            steps += commands_of(m.group("body"), words)
    return steps


def plain(line, numbers):
    """Figures and the width of columns do not count when numbers is set."""
    return " ".join(NUMBER.sub("#", line).split()) if numbers else line.rstrip()


def matches(shown, got, numbers):
    """Do the lines that were printed fit those that are shown?"""
    if not shown:
        return not got
    if shown[0].strip() == "...":
        return any(matches(shown[1:], got[i:], numbers) for i in range(len(got) + 1))
    if not got:
        return False
    want, have = plain(shown[0], numbers), plain(got[0], numbers)
    fits = (
        have.startswith(plain(shown[0].rstrip()[:-3], numbers).rstrip())
        if want.endswith("...")
        else want == have
    )
    return fits and matches(shown[1:], got[1:], numbers)


def workspace(build, source, folder):
    """The source tree as links, with build/ as the build under test."""
    tree = os.path.join(folder, "tutti")
    os.makedirs(os.path.join(folder, "bin"))
    os.makedirs(tree)
    for name in os.listdir(source):
        if not name.startswith(("build", ".")):
            os.symlink(os.path.join(source, name), os.path.join(tree, name))
    os.symlink(build, os.path.join(tree, "build"))
    os.symlink(PYTHON, os.path.join(folder, "bin", "python3"))
    return tree


def script_of(steps):
    lines = []
    for i, step in enumerate(steps):
        if isinstance(step, tuple):
            lines.append("cat > %s <<'END_OF_PAGE'\n%sEND_OF_PAGE" % step)
        else:
            lines.append("printf '\\001%d\\n'\n%s\nprintf '\\002%d %%d\\n' $?" % (i, step.text, i))
    return "\n".join(lines) + "\n"


def run(steps, tree, folder):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TUTTI_", "PYTHONPATH"))}
    env.update(
        PATH=os.path.join(folder, "bin") + ":" + env["PATH"],
        PYTHONDONTWRITEBYTECODE="1",
        OMP_NUM_THREADS="1",
        TUTTI_TIMEOUT="120s",
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
    )
    out = os.path.join(folder, "out")
    with open(out, "wb") as f:
        try:
            subprocess.run(
                ["bash", "-c", script_of(steps)],
                cwd=tree,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=f,
                stderr=subprocess.STDOUT,
                timeout=LIMIT,
            )
        except subprocess.TimeoutExpired:
            print("FAILED: the page takes more than %d s" % LIMIT)
    with open(out, encoding="utf-8", errors="replace") as f:
        return f.read()


def judge(steps, text):
    bad = 0
    for i, step in enumerate(steps):
        if isinstance(step, tuple):
            continue
        m = re.search("\001%d\n(.*?)\002%d (\\d+)\n" % (i, i), text, re.S)
        if not m:
            print("FAILED: never ended: %s\n%s" % (step.text, text[-600:]))
            return bad + 1
        got, status = m.group(1).splitlines(), int(m.group(2))
        if (status != 0) != step.fails:
            print("FAILED: status %d: $ %s\n%s" % (status, step.text, m.group(1)[-1500:]))
            bad += 1
        elif not matches(step.shown, got, step.numbers):
            print(
                "FAILED: $ %s\nthe page shows:\n%s\nprinted:\n%s"
                % (step.text, "\n".join(step.shown), "\n".join(got))
            )
            bad += 1
    return bad


def main(build, source, pages):
    bad = 0
    for page in pages:
        steps = read_page(os.path.join(source, page))
        if not any(isinstance(s, Command) for s in steps):
            print("FAILED: %s has no command to run" % page)
            return 2
        folder = tempfile.mkdtemp()
        try:
            wrong = judge(steps, run(steps, workspace(build, source, folder), folder))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(
            "%s: %d commands, %d wrong" % (page, sum(isinstance(s, Command) for s in steps), wrong)
        )
        bad += wrong
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]))
