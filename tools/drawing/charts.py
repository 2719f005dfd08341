"""charts.py - bars and lines from a file of docs/data. A file says what is drawn and where it comes from:

    {"kind": "bars" or "lines", "title": .., "unit": .., "lower_is_better": true,
     "series": [names], "groups": [{"name": .., "values": [..]}],                            bars
     "x": "bytes", "y": "us", "series": [{"name": .., "points": [[x, y], ..]}],              lines
     "note": .., "measured": {"command": .., "date": .., "machine": ..}}

Every picture prints the command, the date and the machine below itself."""

import math

from .svg import Page

WIDTH = 760


def source(page, data, y):
    """Note and origin, below the picture."""
    m = data["measured"]
    lines = wrap(data.get("note", ""), 118) + wrap(
        "%s, %s: %s" % (m["date"], m["machine"], m["command"]), 118
    )
    for i, words in enumerate(lines):
        page.label(16, y + 15 * i, words, "soft", 11)


def wrap(words, columns):
    lines = []
    for word in words.split():
        if lines and len(lines[-1]) + len(word) < columns:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return lines


def foot(data):
    m = data["measured"]
    return 15 * (
        len(wrap(data.get("note", ""), 118))
        + len(wrap("%s, %s: %s" % (m["date"], m["machine"], m["command"]), 118))
    )


def head(page, data):
    page.label(16, 27, data["title"], "ink", 16, font_weight="600")
    page.label(16, 47, data.get("subtitle", ""), "soft", 12.5)


def value_text(value, unit):
    if value is None:
        return ""
    digits = "%.0f" % value if value >= 100 else "%.1f" % value if value >= 10 else "%.2f" % value
    return digits + (unit if unit in ("%", "x") else " " + unit if unit else "")


def bars(data):
    groups, series, unit = data["groups"], data["series"], data["unit"]
    high, between = 17, 15
    left = 24 + 7.2 * max(len(g["name"]) for g in groups)
    rows = sum(sum(v is not None for v in g["values"]) for g in groups)
    tall = rows * high + len(groups) * between
    page = Page(WIDTH, 92 + tall + foot(data) + 14, data["title"])
    head(page, data)
    x = 16
    for i, name in enumerate(series):
        page.rect(x, 60, 12, 12, "c%d" % (i % 5))
        page.label(x + 17, 70, name, "ink", 12)
        x += 34 + 7.0 * len(name)
    most = max(v for g in groups for v in g["values"] if v is not None)
    room, y = WIDTH - left - 86, 92
    mark = data.get("line_at")
    if mark is not None:
        page.line(
            [(left + room * mark / most, 84), (left + room * mark / most, 84 + tall)],
            "axis",
            stroke_dasharray="4 3",
        )
    for g in groups:
        used = [(i, v) for i, v in enumerate(g["values"]) if v is not None]
        page.label(left - 10, y + len(used) * high / 2 + 3, g["name"], "ink", 12.5, "end")
        for i, v in used:
            page.rect(left, y, max(room * v / most, 1), high - 3, "c%d" % (i % 5))
            page.label(left + room * v / most + 6, y + 11, value_text(v, unit), "ink", 11.5)
            y += high
        y += between
    source(page, data, 92 + tall + 14)
    return page


def nice_size(n):
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= size:
            return "%g %s" % (n / size, unit)
    return "%g B" % n


def nice_time(us):
    return "%g s" % (us / 1e6) if us >= 1e6 else "%g ms" % (us / 1e3) if us >= 1e3 else "%g us" % us


class Axes:
    """Logarithmic both ways."""

    def __init__(self, data, left, top, width, height):
        points = [p for s in data["series"] for p in s["points"]]
        self.left, self.top, self.width, self.height = left, top, width, height
        self.x0, self.x1 = math.log2(min(p[0] for p in points)), math.log2(
            max(p[0] for p in points)
        )
        low, high = min(p[1] for p in points), max(p[1] for p in points)
        if data["y"] == "ratio":
            self.y0, self.y1 = math.log10(min(low, 1) / 1.05), math.log10(high * 1.1)
        else:
            self.y0, self.y1 = math.floor(math.log10(low)), math.ceil(math.log10(high))

    def x(self, value):
        return self.left + self.width * (math.log2(value) - self.x0) / max(self.x1 - self.x0, 1e-9)

    def y(self, value):
        return self.top + self.height * (self.y1 - math.log10(value)) / max(self.y1 - self.y0, 1e-9)


def lines(data):
    longest = max(len(s["name"]) for s in data["series"])
    left, top, height = 74, 66, 250
    width = WIDTH - left - 40 - 7.0 * longest
    page = Page(WIDTH, top + height + 62 + foot(data), data["title"])
    head(page, data)
    axes = Axes(data, left, top, width, height)
    if data["y"] == "ratio":
        ticks = [
            t
            for t in (0.5, 1, 1.1, 1.25, 1.5, 2, 3, 4, 5, 7, 10, 20, 50, 100)
            if axes.y0 <= math.log10(t) <= axes.y1
        ]
        texts = ["%gx" % t for t in ticks]
    else:
        ticks = [10.0**k for k in range(int(axes.y0), int(axes.y1) + 1)]
        texts = [nice_time(t) for t in ticks]
    for t, words in zip(ticks, texts):
        page.line([(left, axes.y(t)), (left + width, axes.y(t))], "rule")
        page.label(left - 8, axes.y(t) + 4, words, "soft", 11, "end")
    for k in range(int(math.ceil(axes.x0)), int(axes.x1) + 1):
        if (k - int(math.ceil(axes.x0))) % max(int((axes.x1 - axes.x0) / 8 + 0.5), 1) == 0:
            page.line([(axes.x(2.0**k), top), (axes.x(2.0**k), top + height)], "rule")
            page.label(axes.x(2.0**k), top + height + 17, nice_size(2.0**k), "soft", 11, "middle")
    ends = []
    for i, s in enumerate(data["series"]):
        place = [(axes.x(p[0]), axes.y(p[1])) for p in s["points"]]
        page.line(
            place,
            "s%d" % (i % 5),
            stroke_width="3" if s.get("ours") else "1.8",
            stroke_linejoin="round",
        )
        for x, y in place:
            page.add(
                '<circle cx="%.1f" cy="%.1f" r="%s" class="c%d"/>'
                % (x, y, "3.4" if s.get("ours") else "2.4", i % 5)
            )
        ends.append([place[-1][1], i, s["name"], place[-1][0]])
    ends.sort()
    for a, b in zip(ends, ends[1:]):
        b[0] = max(b[0], a[0] + 16)
    for y, i, name, _ in ends:
        page.label(left + width + 10, y + 4, name, "c%d" % (i % 5), 12.5, font_weight="600")
    page.label(
        left + width / 2,
        top + height + 35,
        data.get("x_label", "size of the vector"),
        "soft",
        12,
        "middle",
    )
    source(page, data, top + height + 58)
    return page


def draw(data):
    return bars(data) if data["kind"] == "bars" else lines(data)
