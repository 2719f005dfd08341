#!/usr/bin/env python3
"""symbols.py SOURCE LIBRARY - is what libtutti.so exports just what src/tutti.map lists, and is that just what the headers declare?

TUTTI_0 must be <tutti/tutti.h>, TUTTI_PRIVATE_0 api/shared.h. A name that leaves TUTTI_0 breaks programs, a new one is a promise:
both need a change of the list, which this test makes visible."""

import re
import subprocess
import sys


def declared(path):
    text = re.sub(r"/\*.*?\*/", " ", open(path, encoding="utf-8").read(), flags=re.S)
    return set(re.findall(r"\b(tutti_\w+)\(", text))


def listed(path):
    """The names of each version node."""
    text = re.sub(r"/\*.*?\*/", " ", open(path, encoding="utf-8").read(), flags=re.S)
    return {node: set(re.findall(r"\b(tutti_\w+);", body)) for node, body in re.findall(r"(\w+) \{(.*?)\};", text, flags=re.S)}


def exported(library):
    nodes = {}
    out = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library], check=True, capture_output=True, text=True)
    for line in out.stdout.splitlines():
        kind, name = line.split()[-2:]
        base, _, node = name.partition("@@")
        if kind != "A":  # the nodes themselves
            nodes.setdefault(node, set()).add(base)
    return nodes


def main():
    source, library = sys.argv[1:3]
    nodes, real = listed(source + "/src/tutti.map"), exported(library)
    headers = {"TUTTI_0": "include/tutti/tutti.h", "TUTTI_PRIVATE_0": "src/api/shared.h"}
    wrong = ["version node %s: in the library, not in src/tutti.map" % n for n in sorted(set(real) - set(nodes))]
    for node, header in headers.items():
        want, have, said = nodes.get(node, set()), real.get(node, set()), declared(source + "/" + header)
        wrong += ["%s: %s is in src/tutti.map, the library does not export it" % (node, n) for n in sorted(want - have)]
        wrong += ["%s: the library exports %s, src/tutti.map does not list it" % (node, n) for n in sorted(have - want)]
        wrong += ["%s: %s is in src/tutti.map, %s does not declare it" % (node, n, header) for n in sorted(want - said)]
        wrong += ["%s: %s declares %s, src/tutti.map does not list it" % (node, header, n) for n in sorted(said - want)]
    print("\n".join(wrong) if wrong else "%d stable functions, %d private ones" % (len(nodes["TUTTI_0"]), len(nodes["TUTTI_PRIVATE_0"])))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
