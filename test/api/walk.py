#!/usr/bin/env python3
"""walk.py HEADER... - writes the cases of test/api/walk.c: every function of the installed headers with every pointer
NULL, every handle NULL, closed, foreign and of another kind, every enumeration and every integer out of range, one
argument at a time.

A function is called with good arguments but one. What is good follows from a parameter's type and name (the tables
below); a parameter that none of them knows is an error, so that a new function cannot be forgotten."""

import re
import sys

# Opaque objects, by tag; walk.c makes them.
HANDLES = "topo plan schedule comm request trainer bound sim probe model prices trainsim survey run top json".split()
# Handles that may be NULL although the function does not end them.
OPTIONAL = {("tutti_schedule_build", "topo"), ("tutti_plan_info", "schedule")}
# These answer for anything.
LENIENT = {"tutti_comm_last_error", "tutti_trainer_last_error"}
ENUMS = "tutti_coll tutti_dtype tutti_redop".split()
INTEGERS = {"size_t": "SIZE_MAX", "uint64_t": "UINT64_MAX", "uint32_t": "UINT32_MAX", "int": "INT_MIN"}
NUMBERS = {"bool": "true", "double": "1.0", "tutti_status": "0", "size_t": "1", "uint64_t": "1", "uint32_t": "0", "int": "0"}
# Sizes that describe the caller's memory: a wrong one cannot be told.
TRUSTED = {"cap", "n", "bytes", "nslow", "ndegrade"}
TEXTS = {
    "spec": '"star:4"', "kind": '"star"', "params": '"4"', "link": '"1Gbps"', "reason": '"no reason"', "name": '"alexnet"',
    "policy": '"dear"', "text": '"1"', "algo": '"ring"', "transport": '"shm"', "format": '"goal"', "options": "NULL", "key": '"key"', "value": '"value"',
}
PATHS = {"tutti_topo_load": "topo_file", "tutti_schedule_read": "schedule_file", "tutti_schedule_read_unchecked": "schedule_file"}
INPUTS = "redop_options plan_options comm_options trainer_options tensor group sim_options trainsim_options parent".split()


def strip(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"\\\n", " ", text)
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    return re.sub(r'extern "C" \{', "", text)


def declarations(text):
    """The functions at the top level, as (result, name, parameters)."""
    depth, item = 0, ""
    for c in text:
        depth += (c == "{") - (c == "}")
        if c == ";" and depth <= 0:
            flat = " ".join(item.split())
            match = re.match(r"^(?!typedef)(.*?)(\btutti_\w+)\((.*)\)$", flat)
            if match and "{" not in flat:
                yield match.group(1).strip(), match.group(2), match.group(3)
            item, depth = "", 0
        else:
            item += c


def split_parameters(text):
    part, depth = "", 0
    for c in text + ",":
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            part = part.strip()
            if part != "void":
                yield part
            part = ""
        else:
            part += c


def sized(text):
    """Structs that begin with their size."""
    return set(re.findall(r"struct (tutti_\w+) \{\s*size_t size;", text))


class Parameter:
    def __init__(self, function, text, with_size):
        self.function, self.pointer, self.handle, self.enum = function, False, None, False
        callback = re.match(r".*\(\*(\w+)\)\(.*\)$", text) or re.match(r"tutti_\w+_fn \*(\w+)$", text)
        if callback:
            self.name, self.type, self.pointer, self.good = callback.group(1), None, True, "NULL"
            return
        match = re.match(r"^(.*?)(\w+)$", text)
        self.type, self.name = match.group(1).strip(), match.group(2)
        self.pointer = self.type.endswith("*")
        self.enum = self.type in ENUMS
        self.good = self.enum and "0" or NUMBERS.get(self.type) or self.good_pointer(with_size)

    def good_pointer(self, with_size):
        plain = self.type.replace("const ", "").replace(" ", "")
        tag = re.match(r"structtutti_(\w+)\*$", plain)
        if tag and tag.group(1) in HANDLES:
            self.handle = tag.group(1)
            return f"good_{self.handle}()"
        if tag and tag.group(1) in INPUTS:
            return f"&a_{tag.group(1)}"
        if tag and tag.group(1) == "error":
            return "&err"
        if tag:
            return f"room(sizeof(struct tutti_{tag.group(1)}), {str('tutti_' + tag.group(1) in with_size).lower()})"
        if self.type == "const char *" and self.name == "path":
            return PATHS.get(self.function, "any_file")
        if self.type == "const char *" and self.name in TEXTS:
            return TEXTS[self.name]
        if self.name == "memory" and plain == "void*":
            return "good_memory()"
        if plain == "FILE*":
            return "nowhere"
        known = {"constvoid*", "void*", "float*", "size_t*", "tutti_redop*", "uint32_t*", "uint64_t*", "double*", "char*", "char**", "void**"}
        if plain in known or plain.endswith("**") or self.name == "names":
            return "counts" if self.name.endswith("counts") or self.name.endswith("displs") else "room(0, false)"
        sys.exit(f"walk.py: {self.function}: what is a good {self.type} {self.name}? Add it to the tables.")

    def bad(self):
        """(mode, C expression) of the wrong values to try."""
        if self.handle:
            yield "A_NULL", "NULL"
            yield "A_CLOSED", f"closed_{self.handle}()"
            yield "A_FOREIGN", "foreign"
            yield "A_OTHER", "good_comm()" if self.handle != "comm" else "good_topo()"
        elif self.pointer:
            yield "A_POINTER", "NULL"
        elif self.enum:
            yield "AN_ENUM", "-1"
            yield "AN_ENUM", "99"
        elif self.type in INTEGERS and self.name not in TRUSTED:
            yield "AN_INTEGER", INTEGERS[self.type]


def emit(result, name, parameters):
    ends = re.search(r"_(free|close|leave)$", name) and name not in ("tutti_mem_free", "tutti_redop_free")
    for k, p in enumerate(parameters):
        for mode, value in p.bad():
            if mode in ("A_NULL", "A_CLOSED") and ((name, p.name) in OPTIONAL and mode == "A_NULL"):
                mode = "A_POINTER"
            if mode == "A_NULL" and ends:
                mode = "A_POINTER"
            if name in LENIENT:
                mode = "A_POINTER"
            cast = f"({p.type})(uintptr_t)" if p.pointer and p.type else f"({p.type})" if p.enum else ""
            arguments = ", ".join(f"{cast}{value}" if i == k else q.good for i, q in enumerate(parameters))
            call = f"{name}({arguments})"
            if result == "tutti_status":
                body = f"status = {call};"
            elif result == "void":
                body = f"{call};"
            else:
                body = f"(void){call};"
            where = f'"{name}", "{p.name}", {mode}, {str(result == "tutti_status").lower()}, '
            where += str(any(q.name == "err" for q in parameters) and p.name != "err").lower()
            of = parameters[0].handle if k > 0 else None
            where += f', {"OF_" + of.upper() if of in ("comm", "trainer") else "OF_NONE"}'
            yield f"static void FN(void)\n{{\n    {body}\n}}\n", where


def main(paths):
    texts = [strip(open(p, encoding="utf-8").read()) for p in paths]
    with_size = set().union(*map(sized, texts))
    functions, rows, seen = [], [], 0
    for text in texts:
        for result, name, parameters in declarations(text):
            seen += 1
            parameters = [Parameter(name, p, with_size) for p in split_parameters(parameters)]
            for body, where in emit(result, name, parameters):
                functions.append(body.replace("FN", f"case_{len(rows)}"))
                rows.append(f"    {{{where}, case_{len(rows)}}},")
    if seen < 100:
        sys.exit(f"walk.py: only {seen} functions found in {' '.join(paths)}")
    print("/* Made by walk.py: do not edit. */")
    print("\n".join(functions))
    print("static const struct walk_case cases[] = {\n" + "\n".join(rows) + "\n};")
    print(f"enum {{ FUNCTIONS = {seen} }};")


main(sys.argv[1:])
