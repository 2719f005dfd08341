"""road.py - the picture of README.md: what goes in, the one schedule, what is done with it."""

from .svg import Page


def box(page, x, y, w, h, words, under="", cls="box"):
    page.rect(x, y, w, h, cls, rx=6)
    page.label(
        x + w / 2,
        y + (h / 2 + 5 if not under else h / 2 - 3),
        words,
        "ink",
        14,
        "middle",
        font_weight="600",
    )
    if under:
        page.label(x + w / 2, y + h / 2 + 15, under, "soft", 11.5, "middle")


def draw():
    page = Page(
        880,
        262,
        "A network and a collective become one schedule, which is proved, priced, simulated, written and run",
    )
    box(page, 18, 34, 190, 62, "network", "a spec, a file, or measured")
    box(page, 18, 150, 190, 62, "collective", "all-reduce of 64 MiB")
    box(page, 256, 88, 180, 70, "18 algorithms", "each plans, or says why not")
    page.arrow(208, 65, 256, 112, 4)
    page.arrow(208, 181, 256, 134, 4)
    page.rect(484, 70, 140, 106, "box", rx=6, stroke_width="2.5")
    page.label(554, 108, "one frozen", "ink", 15, "middle", font_weight="600")
    page.label(554, 128, "schedule", "ink", 15, "middle", font_weight="600")
    page.label(554, 151, "sends, receives, sums", "soft", 11.5, "middle")
    page.arrow(436, 123, 484, 123, 4)
    ends = (
        ("verify", "a proof, or who, where and why", 2),
        ("bound", "what no schedule can beat", 3),
        ("sim", "its time: step, flow, packet", 3),
        ("file", "JSON, reads back identical", 4),
        ("run", "shared memory, TCP, MPI", 0),
    )
    for i, (name, words, cls) in enumerate(ends):
        y = 26 + 50 * i
        page.arrow(624, 123, 668, y + 8, cls)
        page.label(674, y + 6, name, "c%d" % cls, 14, font_weight="600")
        page.label(674, y + 22, words, "soft", 11.5)
    return page
