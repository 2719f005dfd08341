"""networks.py - random small networks, the same for the same seed on every machine.

A network is the JSON object of tutti-topology(5). Ranks and switches are joined by a random tree, then by more
cables. Depending on its class it has links of one speed or many, speeds that differ by direction, half-duplex
cables, parallel cables, ranks with several links beside switches, and switches with few of them."""
import random

GBIT = 125_000_000
PALETTES = ((10,), (10, 20), (8, 10, 12), (10, 25, 40), (4, 5, 6, 7, 8, 9, 10), (1, 2.5, 10, 25, 40, 100))
CLASSES = ("direct", "star", "switched", "fabric", "rails", "uneven", "asymmetric", "half", "parallel", "mixed")


def cable(rng, kind, speeds, a, b, latency_ps):
    there = rng.choice(speeds) * GBIT
    back, half = there, False
    if kind == "asymmetric" or (kind == "mixed" and rng.random() < 0.3):
        back = rng.choice(speeds) * GBIT
    elif kind == "half" or (kind == "mixed" and rng.random() < 0.2):
        half = True
    return [a, b, there, back, latency_ps, half]


def tree(rng, ranks, switches, one_link):
    """Pairs that join all vertices. one_link: ranks hang on switches and are leaves."""
    order = list(range(ranks, ranks + switches)) + list(range(ranks))
    if not one_link:
        rng.shuffle(order)
    pairs = []
    for i, v in enumerate(order[1:], 1):
        earlier = [u for u in order[:i] if u >= ranks] if one_link else order[:i]
        pairs.append((rng.choice(earlier), v))
    return pairs


def more(rng, kind, ranks, switches, pairs):
    """Cables beyond the tree."""
    n = ranks + switches
    joined = {frozenset(p) for p in pairs}
    free = [(a, b) for a in range(n) for b in range(a) if frozenset((a, b)) not in joined]
    if kind in ("switched", "fabric"):
        free = [p for p in free if min(p) >= ranks]
    extra = rng.sample(free, min(len(free), rng.randint(0, 2 * ranks)))
    if kind in ("parallel", "mixed"):
        extra += [rng.choice(pairs) for _ in range(rng.randint(1, 3))]
    return pairs + extra


def random_network(seed, most_ranks=7, latency_ps=0):
    rng = random.Random(f"tutti {seed}")
    kind = rng.choice(CLASSES)
    ranks = rng.randint(3, most_ranks)
    if kind == "star":
        switches = 1
        pairs = [(r, ranks) for r in range(ranks)]
    elif kind == "rails":
        switches = rng.randint(1, 2)
        pairs = [(r, ranks + s) for r in range(ranks) for s in range(switches)]
        pairs += [(a, b) for a in range(ranks) for b in range(a) if rng.random() < 0.2]
    else:
        least, most = {"direct": (0, 0), "switched": (1, 4), "fabric": (3, 6)}.get(kind, (0, 3))
        switches = rng.randint(least, most)
        pairs = more(rng, kind, ranks, switches, tree(rng, ranks, switches, least > 0))
    speeds = PALETTES[0] if kind == "direct" else rng.choice(PALETTES)
    if kind == "fabric":  # the middle is what limits
        middle = [cable(rng, rng.choice(("mixed", "uneven")), speeds, a, b, latency_ps) for a, b in pairs if min(a, b) >= ranks]
        ends = [cable(rng, "direct", (4 * max(speeds),), a, b, latency_ps) for a, b in pairs if min(a, b) < ranks]
        return {"name": f"{kind} {seed}", "ranks": ranks, "switches": switches, "links": ends + middle}
    links = [cable(rng, kind, speeds, a, b, latency_ps) for a, b in pairs]
    return {"name": f"{kind} {seed}", "ranks": ranks, "switches": switches, "links": links}
