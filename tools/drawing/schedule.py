"""schedule.py - a plan as a picture: ranks are rows, steps are columns, messages are arrows.

Beside the arrows stands what every rank holds: one cell for each chunk, filled by the share of the
ranks' contributions in it, blue when all of them are. The contributions are followed by carrying out
the plan on sets (lockstep: messages read the state at the start of their step), so that the picture
shows what the plan does, not what its algorithm is said to do."""

import json
from collections import defaultdict

from .svg import Page

SEND, RECV, RECV_REDUCE, REDUCE, COPY = range(5)
IN, OUT = 0, 1


class Op:
    def __init__(self, row):
        self.kind, self.step, self.peer, self.channel = row[:4]
        self.spans = [row[i : i + 6] for i in range(4, len(row), 6)]

    def chunks(self, span):
        _, _, first, length, stride, reps = span
        return [first + i * stride + k for i in range(reps) for k in range(length)]

    def places(self, which):
        """(buffer, chunk) of all spans: which 0 for what is written or sent, 1 for what is read."""
        return [(span[which], c) for span in self.spans for c in self.chunks(span)]


class Message:
    def __init__(self, src, dst, step, chunks, finished):
        self.src, self.dst, self.step, self.chunks, self.finished = src, dst, step, chunks, finished


class Story:
    """What happens when a plan is carried out: messages, and who holds what after each step."""

    def __init__(self, plan):
        self.plan, self.ranks, self.chunks = plan, plan["ranks"], plan["chunks"]
        self.everybody = frozenset(range(self.ranks)) if plan["coll"] in REDUCING else None
        self.state = [self.inputs(r) for r in range(self.ranks)]
        self.messages, self.held = [], [self.summary()]
        slices = [[Op(row) for row in rows] for rows in plan["slices"]]
        for step in sorted({op.step for ops in slices for op in ops}):
            self.carry_out([[op for op in ops if op.step == step] for ops in slices], step)

    def inputs(self, rank):
        """IN of an all-reduce and a reduce: everything; of the others: what the rank owns or the root has."""
        plan, coll = self.plan, self.plan["coll"]
        per = max(self.chunks // self.ranks, 1)
        owner = plan.get("owner") or [c // per for c in range(self.chunks)]
        if coll in REDUCING:
            return {(IN, c): frozenset([rank]) for c in range(self.chunks)}
        if coll in ("broadcast", "scatter"):
            return {
                (IN, c): frozenset([rank])
                for c in range(self.chunks)
                if rank == plan.get("root", 0)
            }
        if coll == "all-to-all":
            return {
                (IN, c): frozenset([rank]) for c in range(self.chunks) if c // self.ranks == rank
            }
        return {(IN, c): frozenset([rank]) for c in range(self.chunks) if owner[c] == rank}

    def whole(self, value):
        return value == self.everybody if self.everybody else bool(value)

    def carry_out(self, ops, step):
        wires, before = defaultdict(list), len(self.messages)
        for rank, mine in enumerate(ops):
            for op in mine:
                if op.kind == SEND:
                    places = op.places(0)
                    values = [self.state[rank].get(p, frozenset()) for p in places]
                    wires[rank, op.peer, op.channel].append(values)
                    finished = all(self.whole(v) for v in values)
                    self.messages.append(
                        Message(rank, op.peer, step, [c for _, c in places], finished)
                    )
        for rank, mine in enumerate(ops):
            for op in mine:
                if op.kind != SEND:
                    self.act(rank, op, wires)
        if len(self.messages) > before:
            self.held.append(self.summary())
        else:
            self.held[-1] = self.summary()

    def act(self, rank, op, wires):
        state = self.state[rank]
        if op.kind in (RECV, RECV_REDUCE):
            values = wires[op.peer, rank, op.channel].pop(0)
            own = [
                state.get(p, frozenset()) if op.kind == RECV_REDUCE else frozenset()
                for p in op.places(1)
            ]
            for place, a, b in zip(op.places(0), own, values):
                state[place] = a | b
        elif op.kind == COPY:
            values = [state.get(p, frozenset()) for p in op.places(1)]
            state.update(zip(op.places(0), values))
        else:
            target = op.spans[0]
            for i, chunk in enumerate(op.chunks(target)):
                operands = [state.get((s[1], op.chunks(s)[i]), frozenset()) for s in op.spans[1:]]
                state[target[0], chunk] = frozenset().union(*operands)

    def summary(self):
        """For each rank and chunk the share of the contributions in its best copy."""
        rows = []
        for state in self.state:
            best = [frozenset()] * self.chunks
            for (_, c), value in state.items():
                if len(value) > len(best[c]):
                    best[c] = value
            rows.append([len(v) / self.ranks if self.everybody else float(bool(v)) for v in best])
        return rows


REDUCING = ("allreduce", "reduce-scatter", "reduce", "barrier")
LEFT, TOP, ROW, FOOT = 66, 62, 34, 24


def draw_cells(page, x, y, shares, width):
    """The shares of one rank; neighbours that are alike are drawn as one when cells would be too thin."""
    w = width / len(shares)
    i = 0
    while i < len(shares):
        j = i + 1
        while w < 4 and j < len(shares) and shares[j] == shares[i]:
            j += 1
        full = shares[i] >= 0.999
        page.rect(
            x + i * w,
            y - 7,
            (j - i) * w,
            14,
            "c0 cell" if full else "c1 cell",
            fill_opacity="%.2f" % (1 if full else 0.05 + shares[i] * 0.7),
        )
        i = j


def names(chunks):
    ranges, i = [], 0
    chunks = sorted(set(chunks))
    while i < len(chunks):
        j = i
        while j + 1 < len(chunks) and chunks[j + 1] == chunks[j] + 1:
            j += 1
        ranges.append(str(chunks[i]) if i == j else "%d-%d" % (chunks[i], chunks[j]))
        i = j + 1
    return ",".join(ranges)


def draw_step(page, messages, chunks, x0, x1):
    alone = (
        max([sum(1 for m in messages if m.src == r) for r in {m.src for m in messages}] + [0]) == 1
    )
    for m in messages:
        y0, y1 = TOP + ROW * m.src, TOP + ROW * m.dst
        page.arrow(x0, y0, x1, y1, 0 if m.finished else 1)
    for m in messages:
        words = names(m.chunks)
        if alone and chunks > 1 and len(words) <= 5:
            page.label(x0 + 2, TOP + ROW * m.src - 5, words, "soft halo", 9.5)


def draw(plan):
    """The page of a plan."""
    story = Story(plan)
    steps = sorted({m.step for m in story.messages})
    bar = min(max(story.chunks * 9, 40), 76)
    gap = 74 if len(steps) <= 6 else 56 if len(steps) <= 10 else 44
    width = max(LEFT + (bar + gap) * len(steps) + bar + 20, 560)
    page = Page(
        width, TOP + ROW * story.ranks + FOOT, "%s on %d ranks" % (plan["algo"], story.ranks)
    )
    options = " (%s)" % plan["options"] if plan.get("options") else ""
    words = "%s%s: %s among %d ranks in %d step%s" % (
        plan["algo"],
        options,
        plan["coll"].replace("allreduce", "all-reduce"),
        story.ranks,
        len(steps),
        "s" if len(steps) != 1 else "",
    )
    page.label(16, 26, words, "ink", 15, font_weight="600")
    for r in range(story.ranks):
        page.label(16, TOP + ROW * r + 4, "rank %d" % r, "soft", 12)
    for i, held in enumerate(story.held):
        x = LEFT + i * (bar + gap)
        for r, shares in enumerate(held):
            draw_cells(page, x, TOP + ROW * r, shares, bar)
        if i < len(steps):
            page.label(x + bar + gap / 2, TOP - 18, "step %d" % (i + 1), "soft", 11, "middle")
            draw_step(
                page,
                [m for m in story.messages if m.step == steps[i]],
                story.chunks,
                x + bar + 3,
                x + bar + gap - 3,
            )
    legend(page, TOP + ROW * story.ranks + 12, story)
    return page


def legend(page, y, story):
    page.arrow(16, y, 42, y, 1)
    page.label(48, y + 4, "partial sum" if story.everybody else "in part", "soft", 11)
    page.arrow(124, y, 150, y, 0)
    page.label(156, y + 4, "finished chunk", "soft", 11)
    page.rect(254, y - 6, 12, 12, "c1 cell", fill_opacity="0.4")
    page.label(272, y + 4, "chunk with some ranks' parts", "soft", 11)
    page.rect(446, y - 6, 12, 12, "c0 cell")
    page.label(464, y + 4, "with all parts", "soft", 11)


def read(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)
