"use strict";
/* data.js - the document of the page as objects: lists of integers are unpacked (export/column.h),
   messages get their routes and bytes, and operations are run step by step on counts of
   contributions, by the lockstep rule: messages read what was there when the step began. */

const Data = (() => {
  /* Numbers of 7 bits a byte, one after the other. */
  function numbers(raw) {
    let at = 0;
    return {
      more: () => at < raw.length,
      skip(n) { at += n; return at - n; },
      next() {
        let v = 0, f = 1, b;
        do {
          b = raw[at++];
          v += (b & 127) * f;
          f *= 128;
        } while (b & 128);
        return v;
      }};
  }

  /* The inverse of export/squeeze.c. */
  function stretch(raw) {
    const read = numbers(raw), out = [];
    while (read.more()) {
      const n = read.next(), from = read.skip(n);
      for (let i = from; i < from + n; i++) out.push(raw[i]);
      if (!read.more()) break;
      const length = read.next() + 4, distance = read.next();
      for (let i = 0; i < length; i++) out.push(out[out.length - distance]);
    }
    return out;
  }

  /* The inverse of export/column.c. */
  function unpack(text) {
    const read = numbers(stretch(Uint8Array.from(atob(text), c => c.charCodeAt(0)))), out = [];
    let last = 0;
    while (read.more()) {
      const v = read.next();
      if (v === 0) {
        for (let n = read.next(); n > 0; n--) out.push(last);
      } else {
        last += v % 2 ? -(v + 1) / 2 : v / 2;
        out.push(last);
      }
    }
    return out;
  }

  /* "rank 3", a switch's number, a given name, or the ranks of a folded vertex. */
  function vertexName(net, v) {
    if (net.members) {
      const m = net.members[v], what = v < net.drawn_ranks ? "rank" : "switch";
      const from = v < net.drawn_ranks ? 0 : net.ranks;
      return m.length === 1 ? what + " " + (m[0] - from)
        : m.length + " " + what + (what === "rank" ? "s" : "es") + " from " + (m[0] - from);
    }
    if (net.names && net.names[v]) return net.names[v];
    return v < net.ranks ? "rank " + v : "switch " + (v - net.ranks);
  }

  function openNetwork(raw) {
    const net = Object.assign({}, raw);
    net.a = unpack(raw.a);
    net.b = unpack(raw.b).map((d, i) => d + net.a[i]);
    net.class = unpack(raw.class);
    net.cables = net.a.length;
    if (raw.group) {
      net.members = Array.from({length: net.drawn}, () => []);
      unpack(raw.group).forEach((g, v) => net.members[g].push(v));
    }
    net.name = v => vertexName(net, v);
    net.from = l => (l & 1 ? net.b : net.a)[l >> 1];
    net.to = l => (l & 1 ? net.a : net.b)[l >> 1];
    net.linkName = l => net.name(net.from(l)) + " \u2192 " + net.name(net.to(l));
    net.rate = l => net.classes[net.class[l >> 1]][l & 1];
    net.capacity = 0;
    for (let l = 0; l < 2 * net.cables; l++) net.capacity += net.rate(l);
    return net;
  }

  /* Routes by "src dst channel". */
  function openRoutes(s) {
    const src = unpack(s.p_src), to = unpack(s.p_to), channel = unpack(s.p_channel);
    const n = unpack(s.p_n), link = unpack(s.p_link), routes = new Map();
    for (let i = 0, at = 0; i < src.length; at += n[i++])
      routes.set(src[i] + " " + (src[i] + to[i]) + " " + channel[i], link.slice(at, at + n[i]));
    return routes;
  }

  function openMessages(s, plan) {
    const src = unpack(s.m_src), to = unpack(s.m_to), step = unpack(s.m_step);
    const channel = unpack(s.m_channel), n = unpack(s.m_n), routes = openRoutes(s);
    const r = {first: unpack(s.r_first), len: unpack(s.r_len), from: unpack(s.r_from),
      buf: unpack(s.r_buf), add: unpack(s.r_add)};
    const messages = [];
    for (let i = 0, at = 0; i < src.length; i++) {
      const m = {src: src[i], dst: src[i] + to[i], step: step[i], channel: channel[i],
        range: at, ranges: n[i], bytes: 0, sums: false};
      for (; at < m.range + m.ranges; at++) {
        m.bytes += plan.offset[r.first[at] + r.len[at]] - plan.offset[r.first[at]];
        m.sums = m.sums || r.add[at] >= 0;
      }
      m.chunk = m.ranges ? r.first[m.range] : 0;
      m.route = routes.get(m.src + " " + m.dst + " " + m.channel);
      messages.push(m);
    }
    plan.range = r;
    return messages;
  }

  /* One move per message and segment, sorted by start. */
  function openMoves(s, plan) {
    const start = unpack(s.t_start), length = unpack(s.t_length), k = s.moves, moves = [];
    for (let i = 0; i < start.length; i++)
      moves.push({m: plan.messages[Math.floor(i / k)], segment: i % k,
        start: start[i] * s.unit_us, end: (start[i] + length[i]) * s.unit_us});
    moves.sort((x, y) => x.start - y.start);
    plan.longest = 0;
    for (const v of moves) {
      plan.longest = Math.max(plan.longest, v.end - v.start);
      const m = v.m;
      m.start = m.start === undefined ? v.start : Math.min(m.start, v.start);
      m.end = m.end === undefined ? v.end : Math.max(m.end, v.end);
    }
    return moves;
  }

  /* Steps that hold messages are numbered from 0, as reports count them. */
  function numberSteps(plan) {
    plan.byStep = new Map();
    for (const m of plan.messages) {
      if (!plan.byStep.has(m.step)) plan.byStep.set(m.step, []);
      plan.byStep.get(m.step).push(m);
    }
    plan.stepNumbers = [...plan.byStep.keys()].sort((a, b) => a - b);
    plan.ordinal = new Map(plan.stepNumbers.map((s, i) => [s, i]));
    plan.stepEnd = [];
    let last = 0;
    for (const s of plan.stepNumbers) {
      for (const m of plan.byStep.get(s)) last = Math.max(last, m.end);
      plan.stepEnd.push(last);
    }
    for (const m of plan.messages) m.ordinal = plan.ordinal.get(m.step);
  }

  function openLocals(s, plan) {
    const rank = unpack(s.l_rank), step = unpack(s.l_step), n = unpack(s.l_n);
    plan.act = {first: unpack(s.a_first), len: unpack(s.a_len), buf: unpack(s.a_buf),
      src: unpack(s.a_src), add: unpack(s.a_add)};
    plan.locals = [];
    for (let i = 0, at = 0; i < rank.length; at += n[i++])
      plan.locals.push({rank: rank[i], step: step[i], act: at, acts: n[i]});
    plan.localsByStep = new Map();
    for (const l of plan.locals) {
      if (!plan.localsByStep.has(l.step)) plan.localsByStep.set(l.step, []);
      plan.localsByStep.get(l.step).push(l);
    }
  }

  /* Link use over time of a plan that is not given message by message. */
  function openUse(s, plan) {
    plan.parts = s.parts;
    plan.use = unpack(s.use);
    plan.folded = true;
  }

  function openPlan(raw, net) {
    const plan = Object.assign({}, raw), s = raw.schedule;
    if (raw.refused !== undefined) return plan;
    plan.messageCount = raw.messages;
    plan.chunks = s.chunks;
    plan.ranks = s.ranks;
    plan.reduces = s.reduces;
    plan.buffers = s.buffers;
    plan.allSteps = s.steps;
    if (s.use !== undefined) {
      openUse(s, plan);
    } else {
      plan.offset = unpack(s.offset);
      plan.input = unpack(s.input);
      plan.output = unpack(s.output);
      plan.messages = openMessages(s, plan);
      plan.moves = openMoves(s, plan);
      numberSteps(plan);
      openLocals(s, plan);
      plan.hold = holdings(plan);
    }
    plan.linkUse = linkUse(plan, net);
    plan.meanUse = plan.linkUse.reduce((x, u, l) => x + u * net.rate(l), 0) / (net.capacity || 1);
    delete plan.schedule;
    return plan;
  }

  /* Bytes over capacity of each drawn directed link, over the whole time. */
  function linkUse(plan, net) {
    if (plan.link_use && !plan.folded) return plan.link_use;
    const use = new Array(2 * net.cables).fill(0);
    if (plan.folded)
      for (let l = 0; l < use.length; l++) {
        for (let i = 0; i < plan.parts; i++) use[l] += plan.use[l * plan.parts + i];
        use[l] /= 1000 * plan.parts;
      }
    return use;
  }

  /* What each rank holds after a step, by running the operations up to it. null: too many ranks and
     chunks for a browser's memory. */
  function holdings(plan) {
    const size = plan.ranks * plan.buffers * plan.chunks;
    if (!plan.input.length || size > 3e7) return null;
    const width = plan.buffers * plan.chunks, full = plan.reduces ? plan.ranks : 1;
    const wide = full > 255 ? Uint16Array : Uint8Array;
    let cells, next; /* `next`: the step to run next */
    function restart() {
      cells = new wide(size);
      for (let r = 0; r < plan.ranks; r++)
        for (let c = 0; c < plan.chunks; c++)
          cells[r * width + c] = plan.input[r * plan.chunks + c];
      next = 0;
    }
    /* The messages of a step are read before any of them is written. */
    function deliver(messages) {
      const r = plan.range, carried = [];
      for (const m of messages)
        for (let i = m.range; i < m.range + m.ranges; i++)
          for (let c = r.first[i]; c < r.first[i] + r.len[i]; c++)
            carried.push(cells[m.src * width + r.from[i] * plan.chunks + c]);
      let at = 0;
      for (const m of messages)
        for (let i = m.range; i < m.range + m.ranges; i++)
          for (let c = r.first[i]; c < r.first[i] + r.len[i]; c++) {
            const own = r.add[i] < 0 ? 0 : cells[m.dst * width + r.add[i] * plan.chunks + c];
            cells[m.dst * width + r.buf[i] * plan.chunks + c] = Math.min(full, own + carried[at++]);
          }
    }
    function doLocals(locals) {
      const a = plan.act;
      for (const l of locals)
        for (let i = l.act; i < l.act + l.acts; i++)
          for (let c = a.first[i]; c < a.first[i] + a.len[i]; c++) {
            const to = l.rank * width + a.buf[i] * plan.chunks + c;
            const v = cells[l.rank * width + a.src[i] * plan.chunks + c];
            cells[to] = a.add[i] ? Math.min(full, cells[to] + v) : v;
          }
    }
    function runTo(step) { /* all steps before `step` are done afterwards */
      if (next > step) restart();
      for (; next < step; next++) {
        deliver(plan.byStep.get(next) || []);
        doLocals(plan.localsByStep.get(next) || []);
      }
    }
    /* The largest count of contributions to a chunk at a rank, in any buffer. */
    function best(rank, chunk) {
      let most = 0;
      for (let b = 0; b < plan.buffers; b++)
        most = Math.max(most, cells[rank * width + b * plan.chunks + chunk]);
      return most;
    }
    const out = 1; /* sched.h: IN 0, OUT 1 */
    function done(rank, chunk) {
      return plan.output[rank * plan.chunks + chunk] &&
        cells[rank * width + out * plan.chunks + chunk] === full;
    }
    restart();
    return {full, best, done,
      /* After `n` steps with messages (and the local work up to the next of them). */
      after(n) {
        runTo(n >= plan.stepNumbers.length ? plan.allSteps : plan.stepNumbers[n]);
      },
      /* The part of its result that a rank has. */
      part(rank) {
        let have = 0, want = 0;
        for (let c = 0; c < plan.chunks; c++)
          if (plan.output[rank * plan.chunks + c]) {
            want++;
            have += done(rank, c);
          }
        return want ? have / want : 1;
      }};
  }

  /* Parts of the result at each rank after each number of steps: parts[n][rank]. */
  function progress(plan) {
    if (!plan.hold || plan.stepNumbers.length * plan.ranks * plan.chunks > 4e7) return null;
    const parts = [];
    for (let n = 0; n <= plan.stepNumbers.length; n++) {
      plan.hold.after(n);
      parts.push(Float32Array.from({length: plan.ranks}, (_, r) => plan.hold.part(r)));
    }
    return parts;
  }

  /* Share of all links' capacity that is used in each of n equal parts of the plan's time. */
  function capacityUse(plan, net, n) {
    const use = new Float64Array(n), width = plan.time_us / n || 1;
    if (plan.folded) {
      for (let l = 0; l < 2 * net.cables; l++)
        for (let i = 0; i < n; i++)
          use[i] += plan.use[l * plan.parts + Math.floor(i * plan.parts / n)] / 1000 * net.rate(l);
    } else {
      for (const v of plan.moves) {
        const total = v.m.bytes * v.m.route.length / plan.segmentsOf(v);
        const rate = v.end > v.start ? total / (v.end - v.start) : 0;
        for (let i = Math.floor(v.start / width); i < n && i * width < v.end; i++)
          use[i] += rate * (Math.min(v.end, (i + 1) * width) - Math.max(v.start, i * width)) /
            width * 1e6;
      }
    }
    return use.map(u => Math.min(1, u / (net.capacity || 1)));
  }

  function open(text) {
    const doc = JSON.parse(text);
    if (doc.network) doc.network = openNetwork(doc.network);
    if (doc.plans) doc.plans = doc.plans.map(p => {
      const plan = openPlan(p, doc.network);
      if (plan.refused === undefined) {
        const k = p.schedule && p.schedule.moves || 1;
        plan.segmentsOf = () => k;
      }
      return plan;
    });
    if (doc.bound) {
      for (const key of ["cut", "parts"])
        if (doc.bound[key] !== undefined) doc.bound[key] = unpack(doc.bound[key]);
    }
    return doc;
  }
  return {open, unpack, progress, capacityUse};
})();
