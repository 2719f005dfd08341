"use strict";
/* map.js - the network on a canvas: cables with their use as heat, messages under way, ranks with
   the part of the result that they hold, and the cut or partition of the bound.

   A frame costs three copies and its messages: what lies below the messages (bound, cables) and
   above them (vertices) are pictures, drawn anew only when they look different. */

const Map2 = (() => {
  /* Okabe and Ito: people with colour blindness can tell them apart. */
  const CHUNKS = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#b8a800", "#7f7f7f"];
  /* Chunks that are 8, 16, ... apart, as halving sends them, differ too. */
  const chunkColour = c => CHUNKS[(c + 3 * Math.floor(c / 8)) % CHUNKS.length];
  /* From little to much; the ends differ in lightness too. */
  const HEAT = {light: [[205, 214, 224], [86, 160, 211], [214, 94, 0]],
    dark: [[66, 76, 88], [64, 133, 190], [255, 146, 60]]};
  function heatColour(u, dark) {
    const stops = HEAT[dark ? "dark" : "light"], t = Math.min(1, Math.max(0, u)) * 2;
    const i = Math.min(1, Math.floor(t)), f = t - i;
    return "rgb(" + stops[i].map((x, k) => Math.round(x + (stops[i + 1][k] - x) * f)).join(",") + ")";
  }
  const PARTS = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#0072b2", "#b8a800", "#7f7f7f"];

  /* Something drawn once: pictures are copied much faster than canvases, whose state must be kept. */
  function picture(width, height, ratio, draw) {
    const canvas = new OffscreenCanvas(Math.ceil(width * ratio), Math.ceil(height * ratio)), c = canvas.getContext("2d");
    c.scale(ratio, ratio);
    draw(c);
    return canvas.transferToImageBitmap();
  }

  /* A picture as large as the map that is drawn anew only when its key changes. */
  class Layer {
    constructor(map) { Object.assign(this, {map, key: null, picture: null}); }
    show(key, draw) {
      if (key !== this.key) this.picture = picture(this.map.width, this.map.height, this.map.ratio, draw);
      this.key = key;
      return this.picture;
    }
  }

  class NetworkMap {
    constructor(canvas, net, layout, plan) {
      Object.assign(this, {canvas, net, layout, plan, ctx: canvas.getContext("2d", {alpha: false})});
      this.resize();
    }

    /* Fits the drawing into the canvas, and prepares the ways of all cables in pixels. */
    resize() {
      const l = this.layout, ratio = window.devicePixelRatio || 1, box = this.canvas.getBoundingClientRect();
      const w = Math.max(120, box.width), h = Math.max(120, box.height);
      this.canvas.width = Math.round(w * ratio);
      this.canvas.height = Math.round(h * ratio);
      this.ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
      this.width = w;
      this.height = h;
      const sx = w / (l.max[0] - l.min[0]), sy = h / (l.max[1] - l.min[1]);
      /* Layers may be stretched; other drawings keep their shape. */
      const free = l.kind === "layers", s = Math.min(sx, sy);
      this.sx = free ? sx : s;
      this.sy = free ? sy : s;
      this.ox = (w - this.sx * (l.max[0] - l.min[0])) / 2 - l.min[0] * this.sx;
      this.oy = (h - this.sy * (l.max[1] - l.min[1])) / 2 - l.min[1] * this.sy;
      this.scale = Math.min(this.sx, this.sy);
      this.radius = Math.max(2.5, Math.min(15, this.scale * 0.3));
      this.ratio = ratio;
      this.below = new Layer(this);
      this.above = new Layer(this);
      this.dots = new Map();
      this.place();
    }

    point(p) { return [p[0] * this.sx + this.ox, p[1] * this.sy + this.oy]; }

    place() {
      const gap = Math.min(4, this.radius * 0.33);
      this.at = this.layout.pos.map(p => this.point(p));
      this.ways = [];
      for (let l = 0; l < 2 * this.net.cables; l++) {
        const back = l & 1, lines = this.layout.way[l >> 1].map(line => line.map(p => this.point(p)));
        if (back) {
          lines.reverse();
          lines.forEach(line => line.reverse());
        }
        this.ways.push(measure(lines.map(line => shift(line, gap * (1 + 2 * this.layout.lane[l >> 1])))));
      }
    }

    /* The vertex at a point of the canvas, or -1. */
    find(x, y) {
      let best = -1, near = Math.max(14, this.radius * 1.4) ** 2;
      this.at.forEach((p, v) => {
        const d = (p[0] - x) ** 2 + (p[1] - y) ** 2;
        if (d < near) {
          near = d;
          best = v;
        }
      });
      return best;
    }

    /* The directed link nearest to a point, or -1. */
    findLink(x, y) {
      let best = -1, near = 36;
      this.ways.forEach((way, l) => {
        for (const s of way.pieces) {
          const dx = s.q[0] - s.p[0], dy = s.q[1] - s.p[1], len = dx * dx + dy * dy || 1;
          const t = Math.max(0, Math.min(1, ((x - s.p[0]) * dx + (y - s.p[1]) * dy) / len));
          const d = (s.p[0] + t * dx - x) ** 2 + (s.p[1] + t * dy - y) ** 2;
          if (d < near) {
            near = d;
            best = l;
          }
        }
      });
      return best;
    }

    /* look: {theme colours, dark, heat, bound, chunk, selected}; active: [{m, part}]; parts: of the
       result at each rank; now: use of each link at this moment, for plans without messages. */
    draw(look, active, parts, now) {
      const below = this.below.show([look.dark, look.heat, !!look.bound, now && now.part].join(), c => {
        c.fillStyle = look.card;
        c.fillRect(0, 0, this.width, this.height);
        if (look.bound) this.drawBound(c, look);
        this.drawLinks(c, look, now && now.use);
      });
      const above = this.above.show([look.dark, look.selected].join(), c => this.drawVertices(c, look));
      this.ctx.drawImage(below, 0, 0, this.width, this.height);
      if (active) this.drawMessages(look, active);
      this.ctx.drawImage(above, 0, 0, this.width, this.height);
      if (parts) this.drawParts(look, parts);
    }

    drawLinks(c, look, now) {
      const use = now || this.plan.linkUse, heat = look.heat || now;
      c.lineCap = "butt";
      for (let l = 0; l < this.ways.length; l++) {
        const u = use[l] || 0, idle = !(this.plan.linkUse[l] > 0);
        c.setLineDash(idle ? [2, 4] : []);
        c.strokeStyle = idle ? look.line : heat ? heatColour(u, look.dark) : look.soft;
        c.lineWidth = idle ? 1 : heat ? 1.5 + 2.5 * Math.min(1, u) : 1.2;
        trace(c, this.ways[l]);
        c.stroke();
      }
      c.setLineDash([]);
    }

    /* A message lights its route and moves along it as a dot. Routes of one colour are one path. */
    drawMessages(look, active) {
      const c = this.ctx, size = Math.max(2.2, Math.min(5.5, this.radius * 0.42)), lit = new Map(), dots = [];
      for (const {m, part} of active) {
        if (look.chunk >= 0 && !carries(this.plan, m, look.chunk)) continue;
        const colour = chunkColour(look.chunk >= 0 ? look.chunk : m.chunk);
        if (!lit.has(colour)) lit.set(colour, new Set());
        m.route.forEach(l => lit.get(colour).add(l));
        dots.push([colour, along(this.ways, m.route, part)]);
      }
      c.lineWidth = Math.max(1.5, size * 0.55);
      if (!look.heat)
        for (const [colour, links] of lit) {
          c.strokeStyle = colour;
          c.beginPath();
          links.forEach(l => extend(c, this.ways[l]));
          c.stroke();
        }
      const side = 2 * (size + 1);
      for (const [colour, p] of dots) c.drawImage(this.dot(colour, look.card, size), p[0] - side / 2, p[1] - side / 2, side, side);
    }

    /* A dot with a rim. */
    dot(colour, rim, size) {
      const key = colour + rim, side = 2 * (size + 1);
      if (!this.dots.has(key))
        this.dots.set(key, picture(side, side, this.ratio, c => {
          c.beginPath();
          c.arc(side / 2, side / 2, size, 0, 2 * Math.PI);
          c.fillStyle = colour;
          c.fill();
          c.strokeStyle = rim;
          c.stroke();
        }));
      return this.dots.get(key);
    }

    /* An arc around each rank, as long as the part of the result that it holds. */
    drawParts(look, parts) {
      const c = this.ctx, r = this.radius;
      c.beginPath();
      for (let v = 0; v < parts.length; v++) {
        if (!(parts[v] > 0)) continue;
        const [x, y] = this.at[v];
        c.moveTo(x, y - r);
        c.arc(x, y, r, -Math.PI / 2, -Math.PI / 2 + 2 * Math.PI * parts[v]);
      }
      c.lineWidth = Math.max(2, r * 0.32);
      c.strokeStyle = look.done;
      c.stroke();
    }

    /* Ranks are discs, switches are squares. */
    drawVertices(c, look) {
      const r = this.radius;
      c.textAlign = "center";
      c.textBaseline = "middle";
      this.at.forEach((p, v) => {
        const rank = v < this.net.drawn_ranks;
        c.beginPath();
        if (rank) c.arc(p[0], p[1], r, 0, 2 * Math.PI);
        else c.rect(p[0] - r, p[1] - r * 0.75, 2 * r, 1.5 * r);
        c.fillStyle = v === look.selected ? look.accent : look.vertex;
        c.fill();
        c.lineWidth = v === look.selected ? 3 : 1.2;
        c.strokeStyle = v === look.selected ? look.accent : look.text;
        c.stroke();
        if (r >= 7) {
          c.fillStyle = v === look.selected ? look.back : look.text;
          c.font = Math.round(Math.min(12, r * 0.95)) + "px system-ui, sans-serif";
          c.fillText(label(this.net, v), p[0], p[1] + 0.5, 2 * r);
        }
      });
    }

    /* The sides of the cut or the parts of the partition as coloured discs below the vertices, and
       the cables between them. */
    drawBound(c, look) {
      const side = look.bound;
      c.globalAlpha = 0.35;
      this.at.forEach((p, v) => {
        if (side[v] < 0) return;
        c.fillStyle = PARTS[side[v] % PARTS.length];
        c.beginPath();
        c.arc(p[0], p[1], Math.max(this.radius * 1.9, 8), 0, 2 * Math.PI);
        c.fill();
      });
      c.globalAlpha = 0.8;
      c.strokeStyle = look.cut;
      c.lineWidth = Math.max(4, this.radius * 0.7);
      for (let i = 0; i < this.net.cables; i++)
        if (side[this.net.a[i]] !== side[this.net.b[i]]) {
          trace(c, this.ways[2 * i]);
          c.stroke();
        }
      c.globalAlpha = 1;
    }
  }

  function label(net, v) {
    if (net.members) return net.members[v].length > 1 ? "\u00d7" + net.members[v].length : "" + net.members[v][0];
    return v < net.ranks ? "" + v : "s" + (v - net.ranks);
  }

  function carries(plan, m, chunk) {
    for (let i = m.range; i < m.range + m.ranges; i++)
      if (chunk >= plan.range.first[i] && chunk < plan.range.first[i] + plan.range.len[i]) return true;
    return false;
  }

  /* A polyline moved to its right. */
  function shift(line, by) {
    return line.map((p, i) => {
      const a = line[Math.max(0, i - 1)], b = line[Math.min(line.length - 1, i + 1)];
      const d = Math.hypot(b[0] - a[0], b[1] - a[1]) || 1;
      return [p[0] - (b[1] - a[1]) / d * by, p[1] + (b[0] - a[0]) / d * by];
    });
  }

  function measure(lines) {
    const pieces = [];
    let length = 0;
    for (const line of lines)
      for (let i = 1; i < line.length; i++) {
        const d = Math.hypot(line[i][0] - line[i - 1][0], line[i][1] - line[i - 1][1]);
        pieces.push({p: line[i - 1], q: line[i], from: length, length: d});
        length += d;
      }
    return {lines, pieces, length};
  }

  function extend(c, way) {
    for (const line of way.lines)
      line.forEach((p, i) => (i ? c.lineTo(p[0], p[1]) : c.moveTo(p[0], p[1])));
  }

  function trace(c, way) {
    c.beginPath();
    extend(c, way);
  }

  /* The point at a part of a route; every link of it takes the same time. */
  function along(ways, route, part) {
    const k = Math.min(route.length - 1, Math.floor(part * route.length)), way = ways[route[k]];
    const at = (part * route.length - k) * way.length;
    let piece = way.pieces[way.pieces.length - 1];
    for (const s of way.pieces)
      if (at <= s.from + s.length) {
        piece = s;
        break;
      }
    const t = piece.length ? Math.min(1, (at - piece.from) / piece.length) : 0;
    return [piece.p[0] + (piece.q[0] - piece.p[0]) * t, piece.p[1] + (piece.q[1] - piece.p[1]) * t];
  }

  return {NetworkMap, chunkColour, heatColour, carries, picture};
})();
