"use strict";
/* layout.js - where the vertices of a network are drawn, and the ways of its cables between them.
   Positions are in units of about one vertex; the map scales them. Grids are grids (cables around a
   torus leave at one side and come in at the other), loops are circles, trees of switches are
   layers, dragonflies groups; everything else is arranged by forces. */

const Layout = (() => {
  const CIRCLES = new Set(["ring", "full", "dln", "dsn"]);

  /* The coordinates of a rank in a grid; the last dimension varies fastest. */
  function coordinates(rank, dims) {
    const at = new Array(dims.length);
    for (let d = dims.length - 1; d >= 0; d--) {
      at[d] = rank % dims[d];
      rank = Math.floor(rank / dims[d]);
    }
    return at;
  }

  /* Even dimensions from the last go to the right, odd ones down; outer ones enclose inner ones
     with a gap. */
  function grid(net) {
    const dims = net.dims, pos = [];
    const stretch = dims.map(() => 0);
    const size = [1, 1];
    for (let d = dims.length - 1; d >= 0; d--) {
      const axis = (dims.length - 1 - d) % 2;
      stretch[d] = size[axis];
      size[axis] = size[axis] * dims[d] + (dims.length > 2 ? 0.8 : 0);
    }
    for (let r = 0; r < net.drawn_ranks; r++) {
      const p = [0, 0];
      coordinates(r, dims).forEach((c, d) => { p[(dims.length - 1 - d) % 2] += c * stretch[d]; });
      pos.push(p);
    }
    return {pos, kind: "grid", margin: net.wrap ? 0.75 : 0.5};
  }

  function circle(net) {
    const n = net.drawn, pos = [], radius = Math.max(1, n / (2 * Math.PI) * 1.05);
    for (let v = 0; v < n; v++) {
      const turn = 2 * Math.PI * v / n - Math.PI / 2;
      pos.push([radius * Math.cos(turn), radius * Math.sin(turn)]);
    }
    return {pos, kind: "circle", margin: 0.7};
  }

  /* Ranks round their only switch. */
  function star(net) {
    const ranks = circle(Object.assign({}, net, {drawn: net.drawn_ranks}));
    ranks.pos.push([0, 0]);
    ranks.kind = "star";
    return ranks;
  }

  function neighbours(net) {
    const list = Array.from({length: net.drawn}, () => []);
    for (let i = 0; i < net.cables; i++) {
      list[net.a[i]].push(net.b[i]);
      list[net.b[i]].push(net.a[i]);
    }
    return list;
  }

  /* Levels: links from the nearest rank. */
  function levels(net, near) {
    const level = new Array(net.drawn).fill(-1);
    let front = [];
    for (let r = 0; r < net.drawn_ranks; r++) {
      level[r] = 0;
      front.push(r);
    }
    while (front.length) {
      const next = [];
      for (const v of front)
        for (const u of near[v])
          if (level[u] < 0) {
            level[u] = level[v] + 1;
            next.push(u);
          }
      front = next;
    }
    return level;
  }

  /* Spreads the vertices of a level evenly around their wished places, keeping their order. */
  function spread(list, want, width) {
    list.sort((u, v) => want[u] - want[v] || u - v);
    const gap = width / list.length;
    list.forEach((v, i) => { want[v] = (i + 0.5) * gap; });
  }

  /* Ranks below, switches above, each level as wide as the ranks; false when cables join vertices
     of one level. Two passes order the ranks and switches by their neighbours' middle. */
  function layers(net) {
    const near = neighbours(net), level = levels(net, near);
    for (let i = 0; i < net.cables; i++)
      if (level[net.a[i]] === level[net.b[i]]) return null;
    const top = Math.max(...level), width = net.drawn_ranks, x = [];
    for (let r = 0; r < net.drawn_ranks; r++) x[r] = r + 0.5;
    for (let k = 1; k <= top; k++) {
      const list = [];
      for (let v = 0; v < net.drawn; v++) {
        if (level[v] !== k) continue;
        const below = near[v].filter(u => level[u] === k - 1);
        x[v] = below.reduce((s, u) => s + x[u], 0) / below.length;
        list.push(v);
      }
      spread(list, x, width);
    }
    const height = Math.max(1.2, width / (top + 1) * 0.55);
    /* Many ranks stand in several rows, so that the drawing is not a thread. */
    const rows = width > 40 ? 4 : width > 20 ? 2 : 1;
    return {pos: level.map((k, v) => [x[v] / rows * 1.0, (top - k) * height / rows +
      (k === 0 ? (v % rows) * 0.95 : 0)]), kind: "layers", margin: 0.6};
  }

  /* Hosts above and below two rows of switches. */
  function bigraph(net) {
    const near = neighbours(net), pos = [], s = net.drawn - net.drawn_ranks, half = s / 2;
    const each = Math.max(1, net.drawn_ranks / s), gap = Math.max(1, each);
    for (let i = 0; i < s; i++)
      pos[net.drawn_ranks + i] = [(i % half) * gap * 1.05, i < half ? 1.6 : 4.8];
    const seen = new Map();
    for (let r = 0; r < net.drawn_ranks; r++) {
      const v = near[r][0], k = seen.get(v) || 0, below = v - net.drawn_ranks >= half;
      seen.set(v, k + 1);
      pos[r] = [pos[v][0] + (k - (each - 1) / 2), below ? 6.4 : 0];
    }
    return {pos, kind: "layers", margin: 0.6};
  }

  /* Routers of a group on a small circle, hosts outside of their router. */
  function dragonfly(net) {
    const numbers = (net.spec.match(/:(\d+),(\d+),(\d+)/) || []).slice(1).map(Number);
    const [groups, routers, hosts] = numbers;
    if (!hosts || net.members || net.drawn !== groups * routers * (hosts + 1)) return null;
    const pos = [], own = Math.max(1, routers / (2 * Math.PI) * 1.2);
    const reach = own + 1 + hosts * 0.15, far = Math.max(2, groups * 2.2 * reach / (2 * Math.PI));
    for (let s = 0; s < groups * routers; s++) {
      const g = Math.floor(s / routers), turn = 2 * Math.PI * g / groups - Math.PI / 2;
      const c = [far * Math.cos(turn), far * Math.sin(turn)];
      const t = turn + 2 * Math.PI * (s % routers) / routers;
      pos[net.drawn_ranks + s] = [c[0] + own * Math.cos(t), c[1] + own * Math.sin(t)];
      for (let h = 0; h < hosts; h++) {
        const u = t + (h - (hosts - 1) / 2) * 0.55;
        pos[s * hosts + h] = [c[0] + (own + 1) * Math.cos(u), c[1] + (own + 1) * Math.sin(u)];
      }
    }
    return {pos, kind: "groups", margin: 0.6};
  }

  /* Springs along cables, and all vertices push each other away. The same picture every time: the
     start is a spiral. */
  function forces(net) {
    const n = net.drawn, pos = [], near = neighbours(net).map(l => [...new Set(l)]);
    for (let v = 0; v < n; v++) {
      const t = v * 2.399963; /* the golden angle */
      pos.push([Math.sqrt(v + 0.5) * Math.cos(t), Math.sqrt(v + 0.5) * Math.sin(t)]);
    }
    const rounds = Math.max(60, Math.min(300, 3e7 / (n * n + 1)));
    for (let round = 0; round < rounds; round++) {
      const heat = 0.6 * (1 - round / rounds) + 0.02, push = pos.map(() => [0, 0]);
      for (let u = 0; u < n; u++) {
        for (let v = u + 1; v < n; v++) {
          const dx = pos[u][0] - pos[v][0], dy = pos[u][1] - pos[v][1];
          const f = 1.3 / Math.max(0.05, dx * dx + dy * dy);
          push[u][0] += dx * f; push[u][1] += dy * f;
          push[v][0] -= dx * f; push[v][1] -= dy * f;
        }
        for (const v of near[u]) {
          const dx = pos[v][0] - pos[u][0], dy = pos[v][1] - pos[u][1];
          const f = 0.35 * Math.hypot(dx, dy) / Math.sqrt(near[u].length);
          push[u][0] += dx * f; push[u][1] += dy * f;
        }
      }
      for (let v = 0; v < n; v++) {
        const d = Math.hypot(...push[v]) || 1, move = Math.min(heat, d);
        pos[v][0] += push[v][0] / d * move;
        pos[v][1] += push[v][1] / d * move;
      }
    }
    return {pos, kind: "forces", margin: 0.7};
  }

  /* A gentle arc between two points, to the left of its way. */
  function arc(p, q, bend) {
    const mx = (p[0] + q[0]) / 2 + (q[1] - p[1]) * bend, my = (p[1] + q[1]) / 2 - (q[0] - p[0]) * bend;
    const points = [];
    for (let i = 0; i <= 10; i++) {
      const t = i / 10, s = 1 - t;
      points.push([s * s * p[0] + 2 * s * t * mx + t * t * q[0],
        s * s * p[1] + 2 * s * t * my + t * t * q[1]]);
    }
    return [points];
  }

  /* Around a torus: out at one side, in at the other. */
  function around(p, q, dx, dy) {
    return [[p, [p[0] - dx * 0.62, p[1] - dy * 0.62]], [[q[0] + dx * 0.62, q[1] + dy * 0.62], q]];
  }

  /* The way of a cable from a to b: polylines, one after the other. */
  function gridWay(net, pos, a, b) {
    const x = coordinates(a, net.dims), y = coordinates(b, net.dims);
    const differ = x.map((c, d) => d).filter(d => x[d] !== y[d]);
    if (differ.length === 1) {
      const d = differ[0], n = net.dims[d], by = y[d] - x[d];
      const inner = d >= net.dims.length - 2;
      if (Math.abs(by) === 1 && (inner || net.dims.length <= 2)) return [[pos[a], pos[b]]];
      if (net.wrap && Math.abs(by) === n - 1 && n > 2 && inner) {
        const across = (net.dims.length - 1 - d) % 2 === 0, sign = Math.sign(by);
        return around(pos[a], pos[b], across ? sign : 0, across ? 0 : sign);
      }
    }
    return arc(pos[a], pos[b], 0.18);
  }

  function choose(net) {
    const switches = net.drawn - net.drawn_ranks;
    if (!switches && net.dims.length >= 2) return grid(net);
    if (!switches && (CIRCLES.has(net.kind) || net.dims.length === 1)) return circle(net);
    if (switches === 1 && net.cables === net.drawn_ranks) return star(net);
    if (net.kind === "dragonfly") return dragonfly(net) || forces(net);
    if (net.kind === "bigraph" && switches % 2 === 0 && !net.members) return bigraph(net);
    return (switches && layers(net)) || forces(net);
  }

  function make(net) {
    const l = choose(net), seen = new Map();
    l.way = [];
    l.lane = []; /* of parallel cables: 0, 1, 2, ... */
    for (let i = 0; i < net.cables; i++) {
      const a = net.a[i], b = net.b[i], key = Math.min(a, b) * net.drawn + Math.max(a, b);
      l.way.push(l.kind === "grid" ? gridWay(net, l.pos, a, b) : [[l.pos[a], l.pos[b]]]);
      l.lane.push(seen.get(key) || 0);
      seen.set(key, l.lane[i] + 1);
    }
    l.min = [Infinity, Infinity];
    l.max = [-Infinity, -Infinity];
    for (const p of l.pos)
      for (const k of [0, 1]) {
        l.min[k] = Math.min(l.min[k], p[k] - l.margin);
        l.max[k] = Math.max(l.max[k], p[k] + l.margin);
      }
    return l;
  }
  return {make};
})();
