"""svg.py - a page to draw on. Colours are classes, so that one file is right on light and dark pages:
the panel behind everything follows the reader's preference, and what is drawn on it follows the panel.
"""

from xml.sax.saxutils import escape

STYLE = """
.bg{fill:#ffffff;stroke:#d1d9e0} .ink{fill:#1f2328} .soft{fill:#59636e} .on{fill:#ffffff}
.rule{stroke:#d1d9e0;fill:none} .axis{stroke:#818b98;fill:none} .box{fill:#f6f8fa;stroke:#818b98}
.c0{fill:#0969da} .c1{fill:#bc4c00} .c2{fill:#1a7f37} .c3{fill:#8250df} .c4{fill:#818b98}
.s0{stroke:#0969da;fill:none} .s1{stroke:#bc4c00;fill:none} .s2{stroke:#1a7f37;fill:none}
.s3{stroke:#8250df;fill:none} .s4{stroke:#818b98;fill:none} .cell{stroke:#afb8c1;stroke-width:.7}
.halo{paint-order:stroke;stroke:#ffffff;stroke-width:3px}
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
.mono{font-family:ui-monospace,"DejaVu Sans Mono",Menlo,monospace}
@media (prefers-color-scheme:dark){
.bg{fill:#0d1117;stroke:#3d444d} .ink{fill:#f0f6fc} .soft{fill:#9198a1} .on{fill:#0d1117}
.rule{stroke:#3d444d} .axis{stroke:#9198a1} .box{fill:#151b23;stroke:#9198a1}
.c0{fill:#58a6ff} .c1{fill:#f0883e} .c2{fill:#3fb950} .c3{fill:#bc8cff} .c4{fill:#9198a1}
.s0{stroke:#58a6ff} .s1{stroke:#f0883e} .s2{stroke:#3fb950} .s3{stroke:#bc8cff} .s4{stroke:#9198a1}
.cell{stroke:#59636e} .halo{stroke:#0d1117}}
"""


class Page:
    """Elements in the order in which they are drawn; `text()` is the file."""

    def __init__(self, width, height, title):
        self.width, self.height, self.title, self.body = width, height, title, []

    def add(self, element):
        self.body.append(element)

    def rect(self, x, y, w, h, cls, **more):
        self.add(
            '<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="%s"%s/>'
            % (x, y, w, h, cls, attributes(more))
        )

    def line(self, points, cls, **more):
        path = "M" + "L".join("%.1f %.1f" % p for p in points)
        self.add('<path d="%s" class="%s"%s/>' % (path, cls, attributes(more)))

    def label(self, x, y, words, cls="ink", size=13, anchor="start", **more):
        self.add(
            '<text x="%.1f" y="%.1f" class="%s" font-size="%g" text-anchor="%s"%s>%s</text>'
            % (x, y, cls, size, anchor, attributes(more), escape(str(words)))
        )

    def arrow(self, x0, y0, x1, y1, cls, head=5.0):
        """A line that leaves and arrives level, with a head."""
        bend = (x1 - x0) * 0.45
        self.add(
            '<path d="M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f" class="s%s" stroke-width="1.5"/>'
            % (x0, y0, x0 + bend, y0, x1 - bend - head, y1, x1 - head, y1, cls)
        )
        self.add(
            '<path d="M%.1f %.1fl%.1f %.1fv%.1fz" class="c%s"/>'
            % (x1, y1, -head - 1, -head / 2 - 0.5, head + 1, cls)
        )

    def text(self):
        head = (
            '<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" viewBox="0 0 %g %g" role="img">\n'
            "<title>%s</title>\n<style>%s</style>\n"
            % (self.width, self.height, self.width, self.height, escape(self.title), STYLE)
        )
        panel = '<rect x=".5" y=".5" width="%g" height="%g" rx="6" class="bg"/>\n' % (
            self.width - 1,
            self.height - 1,
        )
        return head + panel + "\n".join(self.body) + "\n</svg>\n"

    def save(self, path):
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.text())


def stack(pages, title, gap=12):
    """Pages below each other as one."""
    whole = Page(max(p.width for p in pages) + 24, sum(p.height + gap for p in pages) + gap, title)
    y = gap
    for page in pages:
        panel = '<rect x=".5" y=".5" width="%g" height="%g" rx="6" class="bg"/>' % (
            page.width - 1,
            page.height - 1,
        )
        whole.add(
            '<svg x="12" y="%g" width="%g" height="%g">%s%s</svg>'
            % (y, page.width, page.height, panel, "\n".join(page.body))
        )
        y += page.height + gap
    return whole


def attributes(more):
    return "".join(
        ' %s="%s"' % (name.replace("_", "-"), escape(str(value))) for name, value in more.items()
    )
