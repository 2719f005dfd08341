"""Ratios, targets and tables of bench/peers.

A series is {bytes: [microseconds, one per run]}. A verdict is one line of the final table: a dict with case, peer, ours, ratio, worst,
target and met, where met is True, False or None (not run, or cut short before it was decided)."""

import math
import statistics

from peers_run import NAMES


def medians(series):
    return {size: statistics.median(times) for size, times in series.items()}


def geomean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values))


def show_size(size):
    for unit, bits in (("M", 20), ("K", 10)):
        if size >= 1 << bits and size % (1 << bits) == 0:
            return "%d%s" % (size >> bits, unit)
    return str(size)


def show_us(time_us):
    digits = 3 if time_us < 1 else 2 if time_us < 100 else 0
    return "%.*f us" % (digits, time_us) if time_us < 1e5 else "%.1f ms" % (time_us / 1e3)


def compare(peers, ours, sizes):
    """For each size that both sides have: (size, name of the best peer, its time, our time)."""
    found = []
    for size in sizes:
        there = [(times[size], name) for name, times in peers.items() if size in times]
        if there and size in ours:
            best, name = min(there)
            found.append((size, name, best, ours[size]))
    return found


def best_names(found):
    """'Open MPI', or 'Open MPI 9 sizes, MPICH 2' when the best changes."""
    counts = {}
    for _, name, _, _ in found:
        counts[name] = counts.get(name, 0) + 1
    ordered = sorted(counts, key=lambda name: -counts[name])
    if len(ordered) == 1:
        return NAMES[ordered[0]]
    return ", ".join("%s %d" % (NAMES[name], counts[name]) for name in ordered)


def no_ratio(case, target, ours, met):
    """A line without a comparison: not run, failed, or judged by an absolute limit."""
    return {"case": case, "peer": "", "ours": ours, "ratio": None, "worst": None, "worst_bytes": None, "target": target, "met": met}


def judge_speed(case, peers, ours, sizes, mean=None, floor=None):
    """Times faster than the best peer: the geometric mean must reach `mean`, every size `floor`."""
    target = ">= %gx mean" % mean + (", >= %gx each" % floor if floor else "")
    found = compare(peers, ours, sizes)
    if not found:
        return no_ratio(case, target, "no figures", False if peers else None)
    ratios = [(peer / mine, size) for size, _, peer, mine in found]
    ratio, worst = geomean([r for r, _ in ratios]), min(ratios)
    met = ratio >= mean and (not floor or worst[0] >= floor) and all(size in ours for size in sizes)
    return dict(_line(case, found, target, met), ratio=ratio, worst=worst[0], worst_bytes=worst[1])


def judge_time(case, peers, ours, sizes, most):
    """Share of the best peer's time, at most `most` at every size."""
    target = "<= %gx time each" % most
    found = compare(peers, ours, sizes)
    if not found:
        return no_ratio(case, target, "no figures", False if peers else None)
    ratios = [(mine / peer, size) for size, _, peer, mine in found]
    worst = max(ratios)
    met = worst[0] <= most and all(size in ours for size in sizes)
    return dict(_line(case, found, target, met), ratio=geomean([r for r, _ in ratios]), worst=worst[0], worst_bytes=worst[1])


def _line(case, found, target, met):
    return {
        "case": case,
        "peer": "%s %s" % (best_names(found), show_us(geomean([f[2] for f in found]))),
        "ours": show_us(geomean([f[3] for f in found])),
        "target": target,
        "met": met,
    }


def judge_share(case, peer, ours, ratio, least):
    """Our rate as a share of a reference rate; peer and ours are texts."""
    return dict(no_ratio(case, ">= %g" % least, ours, ratio >= least), peer=peer, ratio=ratio)


def _cells(verdict):
    ratio = "" if verdict["ratio"] is None else "%.3g" % verdict["ratio"]
    worst = "" if verdict["worst"] is None else "%.3g @ %s" % (verdict["worst"], show_size(verdict["worst_bytes"]))
    met = {True: "yes", False: "NO", None: "open"}[verdict["met"]]
    return [verdict["case"], verdict["peer"], verdict["ours"], ratio, worst, verdict["target"], met]


def print_table(head, rows, left):
    """Columns as wide as their contents; the first `left` are text."""
    widths = [max(len(row[i]) for row in [head] + rows) for i in range(len(head))]
    for row in [head, ["-" * w for w in widths]] + rows:
        cells = [cell.ljust(w) if i < left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())


def print_verdicts(verdicts):
    """The final table. Means are geometric, over the sizes of the case."""
    print_table(["case", "best peer (mean)", "ours (mean)", "ratio", "worst", "target", "met"], [_cells(v) for v in verdicts], 3)


def print_details(title, series, who, sizes):
    """Median microseconds of every program at every size."""
    table = {name: medians(series.get(name, {})) for name in who}
    rows = [[show_size(size)] + ["%.2f" % table[name][size] if size in table[name] else "-" for name in who] for size in sizes]
    print("%s, us" % title)
    print_table(["size"] + [NAMES[name] for name in who], rows, 0)
    print()
