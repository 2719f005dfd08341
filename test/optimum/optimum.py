"""optimum.py - the least time of an all-reduce of one byte on a network, by linear programming (HiGHS).

Every element is summed along a tree into a root and handed out along a tree from it. Shares x[r] of the vector
have root r. Trees of total weight x[r] into each r fit into rates a[u][v] between ranks exactly when for every
rank v a flow of 1 leads from v to a sink that takes at most x[r] at r (Edmonds' branchings, fractional); trees
out of the roots likewise in rates b[u][v]. Rates between ranks are carried by paths whose inner vertices are
switches, which only forward. A link carries what all paths need in T; half duplex: both directions together."""
import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix


class Program:
    """min c x with rows of the forms sum <= bound and sum == bound; all x >= 0."""

    def __init__(self):
        self.n = 0
        self.less, self.equal = [], []

    def variables(self, *shape):
        first, count = self.n, int(np.prod(shape))
        self.n += count
        return np.arange(first, first + count).reshape(shape)

    def matrix(self, rows):
        entries = [(i, j, v) for i, (row, _) in enumerate(rows) for j, v in row]
        i, j, v = zip(*entries)
        return coo_matrix((v, (i, j)), shape=(len(rows), self.n)).tocsr(), [b for _, b in rows]

    def solve(self, goal):
        cost = np.zeros(self.n)
        cost[goal] = 1
        a_ub, b_ub = self.matrix(self.less)
        a_eq, b_eq = self.matrix(self.equal)
        answer = linprog(cost, a_ub, b_ub, a_eq, b_eq, method="highs")
        if answer.status != 0:
            raise RuntimeError(answer.message)
        return answer.fun


def packing(lp, ranks, x, rate, inward):
    """Flows of 1 that say: trees of weight x[r] at r fit into rate[u][v]; inward: they lead to their root."""
    for v in range(ranks):
        flow, root = lp.variables(ranks, ranks), lp.variables(ranks)
        for u in range(ranks):
            for w in range(ranks):
                lp.less.append(([(flow[u, w], 1), (rate[u, w], -1)], 0))
            lp.less.append(([(root[u], 1), (x[u], -1)], 0))
            sign = -1 if inward else 1
            row = [(flow[w, u], sign) for w in range(ranks)] + [(flow[u, w], -sign) for w in range(ranks)]
            lp.equal.append((row + [(root[u], 1)], 1 if u == v else 0))


def routing(lp, net, rates):
    """The sums of rates[i][u][v] over i go over links from u to v through switches; returns the links' loads."""
    ranks, n = net["ranks"], net["ranks"] + net["switches"]
    arcs = [(a, b) for a, b, *_ in net["links"]] + [(b, a) for a, b, *_ in net["links"]]
    use = lp.variables(ranks, len(arcs))
    for u in range(ranks):
        for v in range(n):
            into = [(use[u, i], 1) for i, (_, b) in enumerate(arcs) if b == v]
            out = [(use[u, i], 1) for i, (a, _) in enumerate(arcs) if a == v]
            if v == u:
                lp.equal.append((into or [(use[u, 0], 0)], 0))
            elif v >= ranks:
                lp.equal.append((into + [(i, -1) for i, _ in out], 0))
            else:
                lp.equal.append((into + [(r[u, v], -1) for r in rates], 0))
                lp.equal.append((out, 0))
    return use


def optimum(net):
    """Seconds per byte."""
    ranks, unit = net["ranks"], max(max(link[2:4]) for link in net["links"])
    lp = Program()
    time, x = lp.variables(1)[0], lp.variables(ranks)
    up, down = lp.variables(ranks, ranks), lp.variables(ranks, ranks)
    lp.equal.append(([(x[r], 1) for r in range(ranks)], 1))
    packing(lp, ranks, x, up, True)
    packing(lp, ranks, x, down, False)
    use = routing(lp, net, (up, down))
    m = len(net["links"])
    for i, (_, _, there, back, _, half) in enumerate(net["links"]):
        loads = [[(use[u, i], 1) for u in range(ranks)], [(use[u, m + i], 1) for u in range(ranks)]]
        for load, rate in zip([loads[0] + loads[1]] if half else loads, (there, back)):
            lp.less.append((load + [(time, -rate / unit)], 0))
    return lp.solve(time) / unit
