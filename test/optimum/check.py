"""check.py - bounds and plans against the optimum of a linear program, on random small networks.

    check.py TUTTI [--seed FIRST] [--count N]

Fails when a bound is above the optimum, when 1 % of the networks have an optimum more than 10 % above the
bound, or when 1 % of them have no plan within 2 % of the optimum (a vector of 16 GiB: latency hardly counts)."""
import argparse
import json
import math
import subprocess
import sys
import tempfile

try:
    from optimum import optimum
except ImportError as why:
    print(f"skipped: {why} (apt install python3-scipy)")
    sys.exit(0)
from networks import random_network

BYTES = 1 << 34
LATENCY_PS = 1_000_000


def ask(tutti, path):
    run = subprocess.run([tutti, "explain", "--topo", path, "--size", str(BYTES), "--json"], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def quantile(values, q):
    return sorted(values)[max(0, math.ceil(q * len(values)) - 1)]


def measure(tutti, seed, path):
    """optimum / bound, best plan / optimum, and a line that tells the network."""
    net = random_network(seed, latency_ps=LATENCY_PS)
    with open(path, "w", encoding="ascii") as out:
        json.dump(net, out)
    best_us = optimum(net) * BYTES * 1e6
    told = ask(tutti, path)
    plan = min((c for c in told["candidates"] if c["predicted_us"]), key=lambda c: c["predicted_us"])
    over, under = best_us / told["bound_us"], plan["predicted_us"] / best_us
    return over, under, f"{net['name']}: {net['ranks']} ranks, {net['switches']} switches, {len(net['links'])} links, {plan['algo']}"


def main():
    args = argparse.ArgumentParser()
    args.add_argument("tutti")
    args.add_argument("--seed", type=int, default=0)
    args.add_argument("--count", type=int, default=400)
    o = args.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(o.tutti, o.seed + i, folder + "/net.json") for i in range(o.count)]
    bound, plan = [r[0] for r in rows], [r[1] for r in rows]
    print(f"{o.count} networks from seed {o.seed}")
    for what, values, limit in (("optimum / bound", bound, 1.10), ("best plan / optimum", plan, 1.02)):
        print(f"{what}: least {min(values):.4f}, median {quantile(values, 0.5):.4f}, p90 {quantile(values, 0.9):.4f}, "
              f"p99 {quantile(values, 0.99):.4f} (at most {limit}), worst {max(values):.4f}: {rows[values.index(max(values))][2]}")
    wrong = [r for r in rows if r[0] < 1 - 1e-6]
    for r in wrong:
        print(f"bound above the optimum: {r[0]:.6f}: {r[2]}")
    return 1 if wrong or quantile(bound, 0.99) > 1.10 or quantile(plan, 0.99) > 1.02 else 0


if __name__ == "__main__":
    sys.exit(main())
