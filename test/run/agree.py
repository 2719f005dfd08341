"""agree.py TUTTI PROGRAM FOLDER PAIRS [SEED [one]] - random pairs of networks, one for some ranks and one for the others.

Files have the same name in different folders, as on different hosts. The second network of a pair has one cable more or less, another bandwidth or another latency, or is the same one written otherwise: other
order of links and ends, the file of a spec, another spec. Different networks must be refused at open by every rank with the same sentence,
which names exactly the ranks that differ from rank 0, and the cable. Equal ones must give right sums, or the algorithm's refusal, the same
on all ranks. Nothing may hang. Prints counts; exit 1 when anything was wrong."""

import json
import os
import random
import re
import subprocess
import sys

ALGOS = ["multitree", "forest", "flex", "hierarchical", "shd", "auto"]
TRANSPORTS = ["shm", "tcp"]
CHANGES = ["cable", "bandwidth", "latency", "order", "spec"]
DEADLINE, PATIENCE = "4s", 20  # of a wait; of a whole job, in seconds


def links_of(rng, n):
    """A random connected network: ranks, switches, [a, b, rate, time] each."""
    kind = rng.choice(["direct", "direct", "star", "hosts"])
    if kind == "direct":
        pairs = [(rng.randrange(v), v) for v in range(1, n)]
        pairs += [tuple(sorted(rng.sample(range(n), 2))) for _ in range(rng.randrange(n))]
        switches = 0
    elif kind == "star":
        pairs, switches = [(r, n) for r in range(n)], 1
    else:
        per = 2 if n % 2 == 0 else n
        switches = n // per + (n > per)
        pairs = [(r, n + r // per) for r in range(n)] + [(n + h, n + switches - 1) for h in range(n // per) if n > per]
    rates = ["10Gbps", "20Gbps", "2.5Gbps"] if rng.random() < 0.3 else ["10Gbps"]
    return {"ranks": n, "switches": switches, "links": [[a, b, rng.choice(rates), "1us"] for a, b in pairs]}


def ends_text(net, link):
    """The ends of a cable as the library names them."""
    def name(v):
        return "rank %d" % v if v < net["ranks"] else "switch %d" % (v - net["ranks"])
    a, b = sorted(link[:2])
    return "%d-%d" % (a, b) if b < net["ranks"] else "%s-%s" % (name(a), name(b))


def connected(net):
    seen, todo = {0}, [0]
    while todo:
        v = todo.pop()
        for a, b in (link[:2] for link in net["links"]):
            for u in ((b,) if a == v else (a,) if b == v else ()):
                if u not in seen:
                    seen.add(u)
                    todo.append(u)
    return len(seen) == net["ranks"] + net["switches"]


def change_cable(rng, net):
    links = net["links"]
    removable = [i for i in range(len(links)) if connected(dict(net, links=links[:i] + links[i + 1:]))]
    if removable and rng.random() < 0.5:
        return links.pop(rng.choice(removable))
    a, b = rng.sample(range(net["ranks"] + net["switches"]), 2)
    links.insert(rng.randrange(len(links) + 1), [a, b, "10Gbps", "1us"])
    return [a, b]


def change(rng, net, how):
    """Another network, or the same one written otherwise; the cable that is different, or None."""
    other = json.loads(json.dumps(net))
    cable = None
    if how == "cable":
        cable = change_cable(rng, other)
    elif how in ("bandwidth", "latency"):
        cable = rng.choice(other["links"])
        if how == "bandwidth":
            cable[2] = "40Gbps" if rng.random() < 0.5 else "9.9Gbps"
        else:
            cable[3] = "3us"
    else:
        rng.shuffle(other["links"])
        for link in other["links"]:
            if rng.random() < 0.5:
                link[0], link[1] = link[1], link[0]
    return other, cable


def spec_pair(rng, tutti, folder):
    """Two spellings of one network, and its ranks."""
    n = rng.randrange(3, 9)
    pairs = [("ring:%d" % n, "torus:%d" % n), ("star:%d" % n, "nics:" + ",".join(["10G"] * n)), ("full:%d" % n, None), ("ring:%d" % n, None),
             ("hypercube:8", "torus:2x2x2"), ("tree:((2 2)(2 2))", None), ("torus:2x3", None), ("dln:%d,t=2" % max(n, 5), None)]
    a, b = rng.choice(pairs)
    if b is None:
        b = os.path.join(folder, "file-of-spec.json")
        with open(b, "w") as out:
            subprocess.run([tutti, "topo", a, "--file"], stdout=out, check=True)
        if rng.random() < 0.5 and a.startswith(("ring", "full")):  # as a user would list it: no kind, any order
            with open(b) as f:
                net = json.load(f)
            rng.shuffle(net["links"])
            with open(b, "w") as f:
                json.dump({"ranks": net["ranks"], "links": net["links"]}, f)
    ranks = json.loads(subprocess.run([tutti, "topo", a, "--json"], capture_output=True, check=True).stdout)["ranks"]
    return a, b, ranks


def make_pair(rng, tutti, folder, how):
    """Two topologies, the number of ranks, and the text that a refusal must hold (None: they are equal)."""
    if how == "spec":
        return spec_pair(rng, tutti, folder) + (None,)
    net = links_of(rng, rng.randrange(3, 9))
    other, cable = change(rng, net, how)
    for name, x in (("one", net), ("other", other)):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        with open(os.path.join(folder, name, "topo.json"), "w") as f:
            json.dump(x, f)
    return "topo.json", "topo.json", net["ranks"], ends_text(net, cable) if cable else None


def ranks_in(text):
    """The set of "rank 3" or "ranks 0, 2-5" at the beginning of a sentence."""
    listed = re.match(r"ranks? ([0-9, -]+?) (?:has|have) another network", text)
    found = set()
    for part in listed.group(1).split(",") if listed else []:
        ends = [int(x) for x in part.split("-")]
        found |= set(range(ends[0], ends[-1] + 1))
    return found


def run_once(tutti, program, n, variables):
    """The lines of a job by rank, or None when it had to be ended or a rank said nothing."""
    env = dict(os.environ, **variables)
    job = subprocess.Popen([tutti, "run", "-n", str(n), "--timeout", DEADLINE, "--", program], env=env, stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True)
    try:
        out = job.communicate(timeout=PATIENCE)[0]
    except subprocess.TimeoutExpired:
        job.terminate()
        job.communicate()
        return None
    lines = [re.match(r"rank (\d+) (\w+) ?(.*)", line) for line in out.splitlines()]
    said = {int(m.group(1)): (m.group(2), m.group(3)) for m in lines if m}
    return said if len(said) == n else None


def run(tutti, program, n, variables):
    """The same. Between its choice and its use another process may take the launcher's port: such a job has not begun and is tried again."""
    for _ in range(4):
        said = run_once(tutti, program, n, variables)
        if not said or "is in use by another process" not in said[0][1]:
            break
    return said


def judge(said, algo, others, text):
    """What came of a job, in a word; those in capitals are wrong."""
    if said is None:
        return "HANG, OR A SILENT RANK"
    if any(word == "WRONG" for word, _ in said.values()):
        return "WRONG SUM"
    if len(set(said.values())) != 1:
        return "DIFFERENT ANSWERS"
    word, why = said[0]
    if text is None:
        if word == "error" and why.startswith(algo + ":"):
            return "algorithm refused"
        return "summed" if word == "ok" else "EQUALS REFUSED"
    if word == "ok":
        return "DIFFERENCE UNNOTICED"
    if word == "error":
        return "NOTICED IN A CALL ONLY"
    if ranks_in(why) != others:
        return "INNOCENT RANK NAMED"
    return "refused at open" if text in why else "CABLE NOT NAMED"


def main():
    tutti, program, folder, pairs = sys.argv[1:4] + [int(sys.argv[4])]
    seed = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    one = "one" in sys.argv[6:]
    rng = random.Random(seed)
    cases = [(a, t) for a in ALGOS for t in TRANSPORTS]
    counts = {}
    for i in range(pairs):
        how = CHANGES[i % len(CHANGES)]
        first, second, n, text = make_pair(rng, tutti, folder, how)
        odd = set(rng.sample(range(n), rng.randrange(1, n)))
        others = odd if 0 not in odd else set(range(n)) - odd
        for algo, transport in [cases[i % len(cases)]] if one else cases:
            variables = {"AGREE_TOPO_%d" % r: second if r in odd else first for r in range(n)}
            if how != "spec":
                variables.update({"AGREE_FOLDER_%d" % r: os.path.join(folder, "other" if r in odd else "one") for r in range(n)})
            variables.update(TUTTI_ALGO=algo, TUTTI_TRANSPORT=transport)
            said = run(tutti, program, n, variables)
            result = judge(said, algo, others, text)
            counts[how, result] = counts.get((how, result), 0) + 1
            if result.isupper():
                print("pair %d: %s, %s, %s, %d ranks, odd %s: %s: %.300s" % (i, how, algo, transport, n, sorted(odd), result, said), flush=True)
    for (how, result), k in sorted(counts.items()):
        print("%-10s %-24s %5d" % (how, result, k))
    wrong = sum(k for (_, result), k in counts.items() if result.isupper())
    print("%d pairs, %d jobs, %d wrong (seed %d)" % (pairs, sum(counts.values()), wrong, seed))
    return 1 if wrong or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
