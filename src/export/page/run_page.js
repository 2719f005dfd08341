"use strict";
/* run_page.js - the page of a real run: where the time went (run.js), training steps (steps.js),
   every call on a time line, and one call beside the simulation of its plan. */

function showRun(doc, main) {
  const events = Run.open(doc), ranks = doc.ranks, calls = Run.groupCalls(events, ranks);
  const end = events.reduce((x, e) => Math.max(x, e.end), 1e-3), trainers = Steps.open(doc, events);
  const rows = Run.account(events, calls, ranks, end, new Set((doc.run.trainers || []).map(t => t.comm))), links = Run.links(events);
  const look = {}, view = {from: 0, to: end, call: null};
  const LEFT = 74, ROW = Math.max(8, Math.min(30, 420 / ranks)), CALL = Math.max(10, Math.min(26, 360 / ranks));
  const live = document.getElementById("live");
  let frame = 0, timeline, detail, detailText, callList, steps = null;

  headline();
  build();
  colours();
  select(slowest());

  function slowest() {
    const real = calls.filter(c => c.whole);
    return real.length ? real.reduce((x, c) => (c.end - c.last > x.end - x.last ? c : x)) : calls[0] || null;
  }

  /* What explains most of the time comes first, and in bold. */
  function headline() {
    document.getElementById("title").textContent = doc.title;
    const e = document.getElementById("verdict"), all = k => Run.sum(rows, r => r[k]), inside = all("inside");
    e.append(Text.count(ranks, "rank") + ", " + Text.count(calls.length, "call") + " in " + Text.us(end) + ". ");
    if (trainers.length) e.append(...trainingText(trainers[0]));
    else e.append("Ranks were ", make(inside < 0.5 * end * ranks ? "b" : "span", {}, "outside of calls for " + Text.percent(all("outside") / (end * ranks))), " of the time" +
      (inside > 0 ? ", in calls for " + Text.percent(inside / (end * ranks)) + ". " : ". "));
    if (inside > (trainers.length ? 0.2 : 0.01) * end * ranks) e.append(...callsText());
    const usual = Run.median(links.map(l => l.rate));
    if (links.length > 1 && links[0].rate < 0.7 * usual)
      e.append(make("b", {}, "The link " + links[0].from + " \u2192 " + links[0].to + " was slow"), ": " + Text.rate(links[0].rate) + ", where " + Text.rate(usual) + " are usual.");
    const notes = [];
    if (doc.lost) notes.push(Text.count(doc.lost, "early event") + " did not fit into the trace.");
    if (!doc.run.pieces) notes.push("Pieces of messages are left out: there are too many.");
    if (notes.length) {
      document.getElementById("note").textContent = notes.join(" ");
      document.getElementById("note").hidden = false;
    }
  }

  function trainingText(t) {
    const x = Steps.mean(t), late = Steps.latecomers(t), lost = Run.sum(late, l => l.us), shown = Run.sum(t.steps, s => Run.sum(s.by, y => y.exposed_us));
    const words = ["A training step (" + t.policy + ") takes ", make("b", {}, Text.us(x.whole_us)), ": compute " + Text.us(x.compute_us) + ", ",
      make("b", {}, Text.us(x.exposed_us) + " of communication that shows"), " (" + Text.percent(x.exposed_us / x.whole_us) + "), " + Text.us(x.hidden_us) + " more are hidden. "];
    if (t.spans.length) words.push("Planned: " + Text.us(t.iteration_us) + ", of which " + Text.us(t.exposed_us) + " show. ");
    if (lost > 0.25 * shown && shown > 0.02 * end) words.push(make("b", {}, "Rank " + late[0].rank + " came last"), ": waiting for late ranks is " + Text.percent(lost / shown) + " of what shows. ");
    return words;
  }

  /* The largest of the three parts of the time in calls, with the rank behind it; late entries too
     where they explain a tenth. */
  function callsText() {
    const all = k => Run.sum(rows, r => r[k]), part = k => all(k) / all("inside"), top = k => [...rows].sort((x, y) => y[k] - x[k])[0], late = top("awaited"), missed = top("missed");
    const sum = all("missed"), one = ranks > 2 && sum > 0 && missed.missed > 1.5 * sum / ranks;
    const lateText = "rank " + late.rank + " entered last in " + Text.count(late.lateIn, "call") + " and kept others waiting for " + Text.us(late.awaited);
    const texts = {late: ["waited for ranks to enter", ": " + lateText], idle: ["waited for messages", " after all had entered" + (one ? ", most for those of rank " + missed.rank : "")],
      work: ["worked", " (sent, received, added up)"]};
    const first = ["late", "idle", "work"].reduce((x, k) => (part(k) > part(x) ? k : x));
    const words = ["In calls they mostly ", make("b", {}, texts[first][0]), " (" + Text.percent(part(first)) + ")" + texts[first][1] + ". "];
    if (first !== "late" && part("late") > 0.1) words.push("Late entries explain " + Text.percent(part("late")) + ": " + lateText + ". ");
    return words;
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
    const kinds = [["work", "working in calls", "var(--accent)"], ["idle", "waiting for messages", "#d55e00"], ["late", "waiting for ranks to enter", "#e69f00"],
      ["outside", "outside of calls", "var(--line)"]];
    const body = rows.map(r => ["" + r.rank, bar(kinds.map(([k, name, colour]) => ({name, part: r[k] / end, colour}))), Text.us(r.work), Text.us(r.idle), Text.us(r.late), Text.us(r.awaited)]);
    return make("section", {class: "panel", "aria-label": "Where the time went"}, make("h2", {}, "Where the time went"),
      make("p", {class: "legend"}, ...kinds.map(([, name, colour]) => make("span", {}, swatch(colour), name))),
      make("div", {class: "scroll"}, table(["rank", "", "work", "messages", "ranks", "waited for"], body)));
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
      const t = Run.median(mine.map(c => c.end - c.last)), us = v => (v ? Text.us(v) : "\u2013");
      return [p.coll, Text.bytes(p.bytes), p.algo, "" + mine.length, Text.us(t), us(p.predicted_us), us(p.refused === undefined ? p.time_us : 0),
        p.predicted_us ? (t / p.predicted_us).toFixed(2) : "\u2013", Text.us(Run.median(mine.map(c => c.last - c.start)))];
    }).filter(x => x);
    return make("section", {class: "panel wide", "aria-label": "Calls by plan"}, make("h2", {}, "Calls, measured and simulated"),
      make("p", {class: "soft"}, "Median time from the last entry to the last exit, beside the planner's prediction and the simulation of its messages; measured over predicted; how far apart the ranks entered."),
      make("div", {class: "scroll"}, table(["collective", "size", "algorithm", "calls", "measured", "predicted", "simulated", "ratio", "entered apart"], body)));
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
    if (trainers.length) {
      steps = showSteps(trainers, ranks, look);
      main.append(steps.root);
    }
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
    if (!frame) frame = requestAnimationFrame(() => { frame = 0; if (steps) steps.draw(); drawTimeline(); drawDetail(); });
  }

  const planColour = i => i < 0 ? look.soft : Map2.chunkColour(i);

  function drawTimeline() {
    const {c, width} = fitCanvas(timeline, ranks * ROW + 30), x = t => LEFT + (t - view.from) / (view.to - view.from) * (width - LEFT);
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
    const {c, width} = fitCanvas(detail, 22 + ranks * CALL + 18 + (plan ? ranks * CALL + 22 : 0) + 20);
    /* At most as much before the last entry as after it; a simulation that takes far longer is cut. */
    const took = call.end - call.last, from = Math.max(call.start, call.last - took), to = Math.max(call.end, call.last + Math.min(plan ? plan.time_us : 0, 4 * took));
    const x = t => LEFT + (Math.min(to, Math.max(from, t)) - from) / (to - from || 1) * (width - LEFT - 6);
    c.fillStyle = look.text;
    c.textAlign = "left";
    c.fillText("measured", LEFT, 10);
    call.by.forEach((e, r) => drawRank(c, x, 20 + r * CALL, r, e, call));
    let y = 20 + ranks * CALL;
    if (plan) {
      y += 18;
      c.fillStyle = look.text;
      c.textAlign = "left";
      c.fillText("simulated: sends above, receives below, in the colour of their chunk" + (call.last + plan.time_us > to ? " (it goes on to " + Text.us(plan.time_us) + ")" : ""), LEFT, y - 6);
      y += 4;
      for (let r = 0; r < ranks; r++) rowBack(c, width, y + r * CALL, r);
      for (const v of plan.moves) {
        if (call.last + v.start > to) continue;
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
  window.tutti = {events, calls, rows, links, view, select, show, trainers, steps, ready: performance.now(), plans: doc.plans};
}
