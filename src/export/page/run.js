"use strict";
/* run.js - the page of a real run: where the time went, who was late, which link was slow, every
   call on a time line, and one call beside the simulation of its plan. */

const Run = (() => {
  const KINDS = ["call", "wait", "send", "receive", "idle"];

  function open(doc) {
    const c = {}, raw = doc.run, events = [];
    for (const k of ["kind", "rank", "start", "length", "bytes", "peer", "comm", "seq", "message", "piece", "plan", "coll"])
      c[k] = Data.unpack(raw[k]);
    for (let i = 0; i < c.kind.length; i++)
      events.push({kind: KINDS[c.kind[i]], rank: c.rank[i], start: c.start[i] / 1e3, end: (c.start[i] + c.length[i]) / 1e3, bytes: c.bytes[i],
        peer: c.peer[i], comm: c.comm[i], seq: c.seq[i], message: c.message[i], piece: c.piece[i], plan: c.plan[i], coll: doc.colls[c.coll[i]]});
    return events;
  }

  /* Calls of all ranks by communicator and number: [{key, seq, plan, coll, bytes, by[rank]}]. */
  function groupCalls(events, ranks) {
    const calls = new Map();
    for (const e of events) {
      if (e.kind !== "call") continue;
      const key = e.comm + " " + e.seq;
      if (!calls.has(key)) calls.set(key, {key, comm: e.comm, seq: e.seq, plan: e.plan, coll: e.coll, bytes: e.bytes, by: new Array(ranks).fill(null)});
      calls.get(key).by[e.rank] = e;
    }
    const list = [...calls.values()];
    for (const c of list) {
      const there = c.by.filter(x => x);
      c.start = Math.min(...there.map(x => x.start));
      c.last = Math.max(...there.map(x => x.start));
      c.end = Math.max(...there.map(x => x.end));
      c.late = there.find(x => x.start === c.last).rank;
      c.whole = there.length === ranks;
    }
    return list.sort((x, y) => x.start - y.start);
  }

  const sum = (list, f) => list.reduce((s, x) => s + f(x), 0);
  const median = list => list.length ? [...list].sort((a, b) => a - b)[list.length >> 1] : 0;

  /* Where each rank's time went; how long others waited for it to enter. */
  function account(events, calls, ranks, end) {
    const rows = Array.from({length: ranks}, (_, rank) => ({rank, calls: 0, inside: 0, idle: 0, awaited: 0, lateIn: 0}));
    for (const e of events) {
      if (e.kind === "call" && e.comm === 0) {
        rows[e.rank].calls++;
        rows[e.rank].inside += e.end - e.start;
      }
      if (e.kind === "idle") rows[e.rank].idle += e.end - e.start;
    }
    for (const c of calls) {
      if (!c.whole || ranks < 2) continue;
      const starts = c.by.map(x => x.start).sort((a, b) => a - b), before = starts[starts.length - 2];
      rows[c.late].awaited += c.last - before;
      rows[c.late].lateIn++;
    }
    for (const r of rows) {
      r.idle = Math.min(r.idle, r.inside);
      r.outside = Math.max(0, end - r.inside);
    }
    return rows;
  }

  /* Rates of pieces from hand-over to arrival, by pair of ranks; only pieces that say something. */
  function links(events) {
    const sent = new Map(), rates = new Map(), key = (a, b, e) => [a, b, e.comm, e.seq, e.message, e.piece].join(" ");
    for (const e of events) if (e.kind === "send" && e.bytes >= 16384) sent.set(key(e.rank, e.peer, e), e.start);
    for (const e of events) {
      if (e.kind !== "receive" || e.bytes < 16384) continue;
      const at = sent.get(key(e.peer, e.rank, e)), pair = e.peer + " " + e.rank;
      if (at === undefined || e.end <= at) continue;
      if (!rates.has(pair)) rates.set(pair, {from: e.peer, to: e.rank, rates: [], bytes: 0});
      rates.get(pair).rates.push(e.bytes / (e.end - at) * 1e6);
      rates.get(pair).bytes += e.bytes;
    }
    return [...rates.values()].filter(x => x.rates.length >= 3).map(x => ({from: x.from, to: x.to, rate: median(x.rates), pieces: x.rates.length, bytes: x.bytes}))
      .sort((a, b) => a.rate - b.rate);
  }
  return {open, groupCalls, account, links, sum, median};
})();

function showRun(doc, main) {
  const events = Run.open(doc), ranks = doc.ranks, calls = Run.groupCalls(events, ranks);
  const end = Math.max(1e-3, ...events.map(e => e.end)), rows = Run.account(events, calls, ranks, end), links = Run.links(events);
  const look = {}, view = {from: 0, to: end, call: null};
  const LEFT = 74, ROW = Math.max(8, Math.min(30, 420 / ranks)), CALL = Math.max(10, Math.min(26, 360 / ranks));
  const live = document.getElementById("live");
  let frame = 0, timeline, detail, detailText, callList;

  headline();
  build();
  colours();
  select(slowest());

  function slowest() {
    const real = calls.filter(c => c.whole);
    return real.length ? real.reduce((x, c) => (c.end - c.last > x.end - x.last ? c : x)) : calls[0] || null;
  }

  function headline() {
    document.getElementById("title").textContent = doc.title;
    const e = document.getElementById("verdict"), late = [...rows].sort((x, y) => y.awaited - x.awaited)[0];
    const inside = Run.sum(rows, r => r.inside) / (end * ranks), idle = Run.sum(rows, r => r.idle) / (end * ranks);
    e.append(Text.count(ranks, "rank") + ", " + Text.count(calls.length, "call") + " in " + Text.us(end) + ": ranks were in calls for ",
      make("b", {}, Text.percent(inside)), " of the time, and waited with nothing to do for " + Text.percent(idle) + ". ");
    if (ranks > 1 && late.awaited > 0.02 * end)
      e.append(...blame(late, Run.sum(rows, r => r.idle)));
    if (links.length > 1 && links[0].rate < 0.7 * Run.median(links.map(l => l.rate)))
      e.append(make("b", {}, "The link " + links[0].from + " \u2192 " + links[0].to + " was slow"), ": " + Text.rate(links[0].rate) + ", where " +
        Text.rate(Run.median(links.map(l => l.rate))) + " are usual.");
    const notes = [];
    if (doc.lost) notes.push(Text.count(doc.lost, "early event") + " did not fit into the trace.");
    if (!doc.run.pieces) notes.push("Pieces of messages are left out: there are too many.");
    if (notes.length) {
      document.getElementById("note").textContent = notes.join(" ");
      document.getElementById("note").hidden = false;
    }
  }

  /* All others wait for a rank that enters last. Where they waited longer, in all, than that explains twice over, lateness is not the headline. */
  function blame(late, idle) {
    const part = idle ? Math.min(1, late.awaited * (ranks - 1) / idle) : 1;
    const how = "it entered last in " + Text.count(late.lateIn, "call") + ", " + Text.us(late.awaited) + " after all others";
    if (part >= 0.5) return [make("b", {}, "Rank " + late.rank + " was late"), ": " + how + ". "];
    return [make("b", {}, "Ranks waited for messages"), " inside calls: rank " + late.rank + ", the latest, explains " + Text.percent(part) + " of their waiting (" + how + "). "];
  }

  function table(head, body) {
    const t = make("table", {}, make("thead", {}, make("tr", {}, ...head.map(h => make("th", {scope: "col"}, h)))));
    t.append(make("tbody", {}, ...body.map(r => make("tr", {}, ...r.map(x => make("td", {}, x))))));
    return t;
  }

  /* A bar of parts that add up to the whole time. */
  function bar(parts) {
    const b = make("span", {class: "stack", role: "img", "aria-label": parts.map(p => p.name + " " + Text.percent(p.part)).join(", ")});
    for (const p of parts) {
      const s = make("span", {title: p.name + " " + Text.percent(p.part)});
      s.style.width = 100 * p.part + "%";
      s.style.background = p.colour;
      b.append(s);
    }
    return b;
  }

  function rankPanel() {
    const body = rows.map(r => ["" + r.rank, bar([{name: "working in calls", part: (r.inside - r.idle) / end, colour: "var(--accent)"},
      {name: "idle in calls", part: r.idle / end, colour: "#d55e00"}, {name: "outside of calls", part: r.outside / end, colour: "var(--line)"}]),
      Text.us(r.inside), Text.us(r.idle), Text.us(r.awaited)]);
    return make("section", {class: "panel", "aria-label": "Where the time went"}, make("h2", {}, "Where the time went"),
      make("p", {class: "legend"}, swatch("var(--accent)"), "working in calls", swatch("#d55e00"), "idle in calls", swatch("var(--line)"), "outside of calls"),
      make("div", {class: "scroll"}, table(["rank", "", "in calls", "idle", "others waited for it"], body)));
  }

  function swatch(colour) {
    const s = make("span", {class: "swatch"});
    s.style.background = colour;
    return s;
  }

  function planPanel() {
    const body = doc.plans.map((p, i) => {
      const mine = calls.filter(c => c.plan === i && c.whole);
      if (!mine.length) return null;
      const t = Run.median(mine.map(c => c.end - c.last)), simulated = p.refused === undefined ? p.time_us : 0;
      return [p.coll, Text.bytes(p.bytes), p.algo, "" + mine.length, Text.us(t), simulated ? Text.us(simulated) : "\u2013", simulated ? (t / simulated).toFixed(2) : "\u2013",
        Text.us(Run.median(mine.map(c => c.last - c.start)))];
    }).filter(x => x);
    return make("section", {class: "panel wide", "aria-label": "Calls by plan"}, make("h2", {}, "Calls, measured and simulated"),
      make("p", {class: "soft"}, "Median time from the last entry to the last exit, beside the simulation of the same plan; how far apart the ranks entered."),
      make("div", {class: "scroll"}, table(["collective", "size", "algorithm", "calls", "measured", "simulated", "ratio", "entered apart"], body)));
  }

  function linkPanel() {
    const root = make("section", {class: "panel", "aria-label": "Links"}, make("h2", {}, "Slowest links"));
    if (!links.length) root.append(make("p", {class: "soft"}, "No pieces of 16 KiB or more were seen as messages (inside a host, ranks read each other's memory)."));
    else root.append(make("p", {class: "soft"}, "Rate of a piece from hand-over to arrival (median): it includes waiting behind other pieces."),
      make("div", {class: "scroll"}, table(["from", "to", "rate", "pieces", "bytes"], links.slice(0, 40).map(l => ["" + l.from, "" + l.to, Text.rate(l.rate), "" + l.pieces, Text.bytes(l.bytes)]))));
    return root;
  }

  function build() {
    timeline = make("canvas", {class: "chart", role: "img", tabindex: "0", "aria-label": "All calls of all ranks over time"});
    timeline.style.height = ranks * ROW + 30 + "px";
    detail = make("canvas", {class: "chart", role: "img", "aria-label": "One call, measured and simulated"});
    detailText = make("p", {});
    callList = make("select", {"aria-label": "Call", id: "call"});
    calls.slice(0, 5000).forEach((c, i) => callList.append(make("option", {value: "" + i}, "#" + c.seq + (c.comm ? " (trainer or part)" : "") + " " + c.coll + " " + Text.bytes(c.bytes) + ", " + Text.us(c.end - c.start))));
    callList.addEventListener("change", () => select(calls[+callList.value]));
    const theme = make("button", {type: "button", "aria-label": "Change between light and dark", onclick: () => { document.documentElement.dataset.theme = look.dark ? "light" : "dark"; colours(); }}, "\u25d0");
    main.append(make("section", {class: "lanes", "aria-label": "Time line"}, make("p", {}, "Every call (a colour per plan) and idle time (orange) of every rank. Wheel or + and \u2212 zoom, drag moves, a click selects a call. ", theme), timeline),
      make("section", {class: "panel", "aria-label": "One call"}, make("h2", {}, "One call: ", callList), detailText, detail),
      make("div", {class: "details"}, planPanel(), rankPanel(), linkPanel()));
    timeline.addEventListener("wheel", e => { e.preventDefault(); zoom(e.deltaY < 0 ? 0.8 : 1.25, at(e.offsetX)); }, {passive: false});
    let down = null;
    timeline.addEventListener("pointerdown", e => { down = {x: e.offsetX, from: view.from, to: view.to, moved: false}; timeline.setPointerCapture(e.pointerId); });
    timeline.addEventListener("pointermove", e => {
      if (!down || !e.buttons) return;
      const by = (down.x - e.offsetX) / (timeline.getBoundingClientRect().width - LEFT) * (down.to - down.from);
      down.moved = down.moved || Math.abs(e.offsetX - down.x) > 4;
      if (down.moved) show(down.from + by, down.to + by);
    });
    timeline.addEventListener("pointerup", e => {
      if (down && !down.moved) pick(e.offsetX, e.offsetY);
      down = null;
    });
    document.addEventListener("keydown", keys);
    window.addEventListener("resize", changed);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", colours);
  }

  function keys(e) {
    if (e.target.tagName === "SELECT" || e.ctrlKey || e.metaKey || e.altKey) return;
    const i = calls.indexOf(view.call), span = view.to - view.from;
    const act = {"+": () => zoom(0.7, (view.from + view.to) / 2), "-": () => zoom(1.4, (view.from + view.to) / 2), Home: () => show(0, end),
      ArrowLeft: () => show(view.from - span / 5, view.to - span / 5), ArrowRight: () => show(view.from + span / 5, view.to + span / 5),
      n: () => select(calls[Math.min(calls.length - 1, i + 1)]), p: () => select(calls[Math.max(0, i - 1)])}[e.key];
    if (!act) return;
    e.preventDefault();
    act();
  }

  const at = x => view.from + (x - LEFT) / (timeline.getBoundingClientRect().width - LEFT) * (view.to - view.from);
  function zoom(by, around) { show(around - (around - view.from) * by, around + (view.to - around) * by); }
  function show(from, to) {
    const span = Math.min(end, Math.max(end * 1e-6, to - from));
    view.from = Math.max(0, Math.min(end - span, from));
    view.to = view.from + span;
    changed();
  }

  function pick(x, y) {
    const rank = Math.floor(y / ROW), t = at(x), slack = (view.to - view.from) / 300;
    const hit = calls.find(c => c.by[rank] && c.by[rank].start - slack <= t && t <= c.by[rank].end + slack);
    if (hit) select(hit);
  }

  function select(call) {
    if (!call) return;
    view.call = call;
    callList.value = "" + calls.indexOf(call);
    const p = doc.plans[call.plan];
    detailText.textContent = call.coll + " of " + Text.bytes(call.bytes) + (p ? " by " + p.algo : "") + ": rank " + call.late + " entered last, " + Text.us(call.last - call.start) +
      " after the first; then it took " + Text.us(call.end - call.last) + (p && p.refused === undefined ? ", simulated " + Text.us(p.time_us) : p && p.refused ? " (" + p.refused + ")" : "") + ".";
    live.textContent = detailText.textContent;
    changed();
  }

  function colours() {
    const style = getComputedStyle(document.documentElement);
    for (const k of ["back", "text", "soft", "line", "accent", "lane", "cut"]) look[k] = style.getPropertyValue("--" + k).trim();
    look.dark = parseInt(look.back.slice(1, 3), 16) < 128;
    changed();
  }

  function changed() {
    if (!frame) frame = requestAnimationFrame(() => { frame = 0; drawTimeline(); drawDetail(); });
  }

  function fit(canvas, height) {
    const ratio = window.devicePixelRatio || 1, width = Math.max(300, canvas.getBoundingClientRect().width), c = canvas.getContext("2d");
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.font = "12px system-ui, sans-serif";
    c.textBaseline = "middle";
    return {c, width};
  }

  const planColour = i => i < 0 ? look.soft : Map2.chunkColour(i);

  function drawTimeline() {
    const {c, width} = fit(timeline, ranks * ROW + 30), x = t => LEFT + (t - view.from) / (view.to - view.from) * (width - LEFT);
    for (let r = 0; r < ranks; r++) {
      c.fillStyle = look.lane;
      c.fillRect(LEFT, r * ROW + 1, width - LEFT, ROW - 2);
      if (ROW >= 11) {
        c.fillStyle = look.text;
        c.textAlign = "right";
        c.fillText("rank " + r, LEFT - 8, r * ROW + ROW / 2);
      }
    }
    c.save();
    c.beginPath();
    c.rect(LEFT, 0, width - LEFT, ranks * ROW);
    c.clip();
    for (const e of [...events.filter(v => v.kind === "call"), ...events.filter(v => v.kind === "idle")]) {
      if (e.end < view.from || e.start > view.to) continue;
      c.fillStyle = e.kind === "idle" ? "#d55e00" : planColour(e.plan);
      const h = e.kind === "idle" ? 0.3 : 0.8;
      c.fillRect(x(e.start), e.rank * ROW + ROW * (1 - h) / 2 + (e.kind === "idle" ? ROW * 0.22 : 0), Math.max(0.8, x(e.end) - x(e.start)), ROW * h);
    }
    if (view.call) {
      c.strokeStyle = look.cut;
      c.lineWidth = 1.5;
      c.strokeRect(x(view.call.start) - 1, 0.5, Math.max(3, x(view.call.end) - x(view.call.start) + 2), ranks * ROW - 1);
    }
    c.restore();
    axis(c, view.from, view.to, x, ranks * ROW + 14);
  }

  function axis(c, from, to, x, y) {
    const raw = (to - from) / 8, power = 10 ** Math.floor(Math.log10(raw)), f = raw / power, step = (f < 1.5 ? 1 : f < 3.5 ? 2 : f < 7.5 ? 5 : 10) * power;
    c.fillStyle = look.soft;
    c.textAlign = "center";
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) c.fillText(Text.us(t), x(t), y);
  }

  /* Measured above, simulated below, on the same scale; both begin when the last rank enters. */
  function drawDetail() {
    const call = view.call, p = call && doc.plans[call.plan], plan = p && p.refused === undefined && !p.folded ? p : null;
    if (!call) return;
    const {c, width} = fit(detail, 22 + ranks * CALL + 18 + (plan ? ranks * CALL + 22 : 0) + 20);
    const from = Math.min(call.start, call.last - (call.end - call.last) * 0.5), to = Math.max(call.end, call.last + (plan ? plan.time_us : 0));
    const x = t => LEFT + (Math.max(from, t) - from) / (to - from || 1) * (width - LEFT - 6);
    c.fillStyle = look.text;
    c.textAlign = "left";
    c.fillText("measured", LEFT, 10);
    call.by.forEach((e, r) => drawRank(c, x, 20 + r * CALL, r, e, call));
    let y = 20 + ranks * CALL;
    if (plan) {
      y += 18;
      c.fillStyle = look.text;
      c.textAlign = "left";
      c.fillText("simulated: sends above, receives below, in the colour of their chunk", LEFT, y - 6);
      y += 4;
      for (let r = 0; r < ranks; r++) rowBack(c, width, y + r * CALL, r);
      for (const v of plan.moves) {
        c.fillStyle = Map2.chunkColour(v.m.chunk);
        for (const [r, off] of [[v.m.src, 0.1], [v.m.dst, 0.52]])
          c.fillRect(x(call.last + v.start), y + r * CALL + CALL * off, Math.max(1, x(call.last + v.end) - x(call.last + v.start)), CALL * 0.38);
      }
      y += ranks * CALL;
    }
    axis(c, 0, to - from, t => x(from + t), y + 14);
    c.strokeStyle = look.cut;
    c.setLineDash([4, 4]);
    c.beginPath();
    c.moveTo(x(call.last), 16);
    c.lineTo(x(call.last), y);
    c.stroke();
    c.setLineDash([]);
  }

  function rowBack(c, width, y, r) {
    c.fillStyle = look.lane;
    c.fillRect(LEFT, y + 1, width - LEFT - 6, CALL - 2);
    c.fillStyle = look.text;
    c.textAlign = "right";
    if (CALL >= 11) c.fillText("rank " + r, LEFT - 8, y + CALL / 2);
  }

  function drawRank(c, x, y, r, e, call) {
    rowBack(c, detail.getBoundingClientRect().width, y, r);
    if (!e) return;
    c.globalAlpha = 0.35;
    c.fillStyle = planColour(call.plan);
    c.fillRect(x(e.start), y + CALL * 0.1, Math.max(1, x(e.end) - x(e.start)), CALL * 0.8);
    c.globalAlpha = 1;
    for (const v of events) {
      if (v.rank !== r || v.end < e.start || v.start > e.end) continue;
      if (v.kind === "idle") {
        c.fillStyle = "#d55e00";
        c.fillRect(x(v.start), y + CALL * 0.4, Math.max(1, x(v.end) - x(v.start)), CALL * 0.2);
      } else if ((v.kind === "send" || v.kind === "receive") && v.seq === call.seq && v.comm === call.comm) {
        c.fillStyle = v.kind === "send" ? look.accent : "#009e73";
        c.fillRect(x(v.start) - 0.8, y + (v.kind === "send" ? CALL * 0.1 : CALL * 0.6), Math.max(1.6, x(v.end) - x(v.start)), CALL * 0.3);
      }
    }
  }

  /* For tests. */
  window.tutti = {events, calls, rows, links, view, select, show, ready: performance.now(), plans: doc.plans};
}
