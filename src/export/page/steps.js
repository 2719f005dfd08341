"use strict";
/* steps.js - the training steps of a run: compute, communication and the part of it that shows, for
   every step and rank, beside one step as the policy has planned it.

   A step of a rank ends where step() returns. The training loop computes unless it waits for a
   collective (exposed); collectives under way at other times are hidden. */

const Steps = (() => {
  /* Intervals [from, to] in order, those that touch joined. */
  function join(list) {
    const out = [];
    for (const [from, to] of [...list].sort((a, b) => a[0] - b[0]))
      if (out.length && from <= out[out.length - 1][1]) out[out.length - 1][1] = Math.max(out[out.length - 1][1], to);
      else out.push([from, to]);
    return out;
  }
  const clip = (list, from, to) => list.map(([a, b]) => [Math.max(a, from), Math.min(b, to)]).filter(([a, b]) => b > a);
  const length = list => list.reduce((s, [a, b]) => s + b - a, 0);
  /* How much of `list` lies in `other`; both joined. */
  function common(list, other) {
    let sum = 0;
    for (const [a, b] of list) sum += length(clip(other, a, b));
    return sum;
  }

  /* Events of one kind of a trainer, by rank, sorted by start; `longest` of them. */
  function byRank(events, ranks, comm, kind) {
    const out = Array.from({length: ranks}, () => []);
    for (const e of events) if (e.kind === kind && e.comm === comm) out[e.rank].push(e);
    for (const list of out) {
      list.sort((a, b) => a.start - b.start);
      list.longest = list.reduce((x, e) => Math.max(x, e.end - e.start), 0);
    }
    return out;
  }

  /* Those of such a list that lie in a time, or reach into it. */
  function within(list, from, to) {
    const out = [];
    let low = 0, high = list.length;
    while (low < high) { /* the first that begins late enough to reach `from` */
      const mid = (low + high) >> 1;
      if (list[mid].start < from - list.longest) low = mid + 1;
      else high = mid;
    }
    for (; low < list.length && list[low].start < to; low++) if (list[low].end > from) out.push(list[low]);
    return out;
  }

  /* When the last rank started each launch: "step launch" -> {time, rank}. */
  function lastStarts(launches) {
    const last = new Map();
    for (const list of launches)
      for (const e of list) {
        const key = e.seq + " " + e.message, x = last.get(key);
        if (!x || e.start > x.time) last.set(key, {time: e.start, rank: e.rank});
      }
    return last;
  }

  /* One step of one rank. */
  function measure(step, waits, launches, first, last) {
    const {start, end, rank} = step, mine = within(launches, start, end), shown = within(waits, start, end), pairs = list => clip(list.map(e => [e.start, e.end]), start, end);
    const exposed = join(pairs(shown)), busy = join(pairs(mine)), late = new Map();
    for (const e of shown) { /* until the last rank has started what is waited for */
      const x = last.get(e.seq + " " + e.message);
      if (x && x.rank !== rank && x.time > e.start) late.set(x.rank, (late.get(x.rank) || 0) + Math.min(x.time, e.end) - e.start);
    }
    return {rank, seq: step.seq, start, end, first: first ? first.start : end, exposed, launches: mine, late,
      whole_us: end - start, exposed_us: length(exposed), compute_us: end - start - length(exposed), busy_us: length(busy),
      hidden_us: length(busy) - common(exposed, busy)};
  }

  /* The steps of a trainer that all ranks have: [{seq, by[rank]}]. */
  function ofTrainer(trainer, events, ranks) {
    const kinds = {};
    for (const k of ["step", "gradients", "launch", "exposed"]) kinds[k] = byRank(events, ranks, trainer.comm, k);
    const last = lastStarts(kinds.launch), steps = new Map();
    for (let r = 0; r < ranks; r++) {
      const firsts = new Map(kinds.gradients[r].map(e => [e.seq, e]));
      for (const e of kinds.step[r]) {
        if (!steps.has(e.seq)) steps.set(e.seq, {seq: e.seq, by: new Array(ranks).fill(null)});
        steps.get(e.seq).by[r] = measure(e, kinds.exposed[r], kinds.launch[r], firsts.get(e.seq), last);
      }
    }
    return [...steps.values()].filter(s => s.by.every(x => x)).sort((a, b) => a.seq - b.seq);
  }

  /* The planned step from step() to step(): its period is cut there and put together the other way. */
  function planned(trainer) {
    const out = [], at = trainer.stepped_us, period = trainer.iteration_us;
    for (const s of trainer.spans) {
      if (s.end > at) out.push({kind: s.kind, launch: s.launch, start: Math.max(s.start, at) - at, end: s.end - at});
      if (s.start < at) out.push({kind: s.kind, launch: s.launch, start: s.start - at + period, end: Math.min(s.end, at) - at + period});
    }
    return out;
  }

  /* The trainers that have steps, the one with the most time first. */
  function open(doc, events) {
    const list = (doc.run.trainers || []).map(t => Object.assign({}, t, {steps: ofTrainer(t, events, doc.ranks)})).filter(t => t.steps.length);
    const time = t => t.steps.reduce((s, x) => s + x.by[0].whole_us, 0);
    return list.sort((a, b) => time(b) - time(a));
  }

  /* Means over steps and ranks; a first step that is not the only one is left out. */
  function mean(trainer, rank) {
    const steps = trainer.steps.length > 1 && trainer.steps[0].seq === 1 ? trainer.steps.slice(1) : trainer.steps, out = {};
    for (const k of ["whole_us", "compute_us", "exposed_us", "busy_us", "hidden_us"])
      out[k] = Run.mean(steps.flatMap(s => s.by.filter(x => rank === undefined || x.rank === rank).map(x => x[k])));
    return out;
  }

  /* Who kept the others waiting, in all steps: [{rank, us}], the worst first. */
  function latecomers(trainer) {
    const sum = new Map();
    for (const s of trainer.steps) for (const x of s.by) x.late.forEach((us, r) => sum.set(r, (sum.get(r) || 0) + us));
    return [...sum].map(([rank, us]) => ({rank, us})).sort((a, b) => b.us - a.us);
  }
  return {open, planned, mean, latecomers, join, length};
})();

/* The section of the page; look: the page's colours, read when it draws. */
function showSteps(trainers, ranks, look) {
  const COLOURS = {forward: "#56b4e9", backward: "#0072b2", exposed: "#d55e00", update: "#7f7f7f",
    "reduce-scatter": "#009e73", "all-gather": "#cc79a7", allreduce: "#8c6d1f"};
  const LEFT = 88, RIGHT = 10, ROW = 13, GAP = 7, BARS = 120;
  const state = {trainer: trainers[0], step: null};
  const bars = make("canvas", {class: "chart", role: "img", tabindex: "0"}), picture = make("canvas", {class: "chart", role: "img"});
  const text = make("p", {}), holder = make("div", {class: "scroll"}), head = make("p", {class: "soft"});
  const chooser = make("select", {"aria-label": "Trainer"}, ...trainers.map((t, i) => make("option", {value: "" + i}, t.policy + ", " + Text.count(t.steps.length, "step"))));
  const number = make("select", {"aria-label": "Step", id: "step"});
  chooser.addEventListener("change", () => choose(trainers[+chooser.value]));
  number.addEventListener("change", () => select(state.trainer.steps[+number.value]));
  bars.addEventListener("click", e => {
    const n = state.trainer.steps.length, width = bars.getBoundingClientRect().width - LEFT - RIGHT;
    select(state.trainer.steps[Math.max(0, Math.min(n - 1, Math.floor((e.offsetX - LEFT) / width * n)))]);
  });
  bars.addEventListener("keydown", e => {
    const by = {ArrowLeft: -1, ArrowRight: 1}[e.key], i = state.trainer.steps.indexOf(state.step) + by;
    if (!by || !state.trainer.steps[i]) return;
    e.preventDefault();
    e.stopPropagation();
    select(state.trainer.steps[i]);
  });
  const root = make("section", {class: "panel", "aria-label": "Training steps"}, make("h2", {}, "Training steps: ", chooser), head, bars,
    make("h2", {}, "Step ", number), text, legend(), picture, holder);
  choose(trainers[0]);

  function legend() {
    const p = make("p", {class: "legend"});
    for (const [name, colour] of [["forward (until the first gradient)", COLOURS.forward], ["backward", COLOURS.backward], ["waiting for communication", COLOURS.exposed],
      ["reduce-scatter", COLOURS["reduce-scatter"]], ["all-gather", COLOURS["all-gather"]], ["allreduce", COLOURS.allreduce], ["update", COLOURS.update]]) {
      const s = make("span", {class: "swatch"});
      s.style.background = colour;
      p.append(make("span", {}, s, name));
    }
    return p;
  }

  function choose(trainer) {
    state.trainer = trainer;
    chooser.value = "" + trainers.indexOf(trainer);
    number.replaceChildren(...trainer.steps.map((s, i) => make("option", {value: "" + i}, "" + s.seq)));
    head.textContent = "Mean of all ranks, a bar a step: compute below, waiting for communication above" +
      (trainer.spans.length ? "; the dashed line is the step as planned." : ". (No planned step: the trainer has no profile of the model's times.)");
    const t = Steps.mean(trainer);
    select(trainer.steps.reduce((x, s) => (Math.abs(s.by[0].whole_us - t.whole_us) < Math.abs(x.by[0].whole_us - t.whole_us) ? s : x)));
  }

  function select(step) {
    state.step = step;
    number.value = "" + state.trainer.steps.indexOf(step);
    const mean = k => Run.mean(step.by.map(x => x[k]));
    text.textContent = "Step " + step.seq + " took " + Text.us(mean("whole_us")) + ": compute " + Text.us(mean("compute_us")) + ", waiting for communication " +
      Text.us(mean("exposed_us")) + "; communication was under way for " + Text.us(mean("busy_us")) + ", " + Text.us(mean("hidden_us")) + " of it hidden under compute.";
    holder.replaceChildren(table(step));
    draw();
  }

  function table(step) {
    const names = ["step", "compute", "exposed", "communication", "hidden"], head = ["rank", ...names, ...names.map(n => "mean " + n)];
    const t = make("table", {}, make("thead", {}, make("tr", {}, ...head.map(h => make("th", {scope: "col"}, h))))), body = make("tbody");
    const cells = x => ["whole_us", "compute_us", "exposed_us", "busy_us", "hidden_us"].map(k => Text.us(Math.max(0, x[k])));
    for (const x of step.by) body.append(make("tr", {}, ...["" + x.rank, ...cells(x), ...cells(Steps.mean(state.trainer, x.rank))].map(c => make("td", {}, c))));
    const p = state.trainer;
    if (p.spans.length) {
      const busy = Steps.length(Steps.join(p.spans.filter(s => s.kind === "launch").map(s => [s.start, s.end])));
      body.append(make("tr", {class: "now"}, ...["planned", Text.us(p.iteration_us), Text.us(p.iteration_us - p.exposed_us), Text.us(p.exposed_us), Text.us(busy),
        Text.us(Math.max(0, busy - p.exposed_us)), "", "", "", "", ""].map(c => make("td", {}, c))));
    }
    t.append(body);
    return t;
  }

  function draw() {
    if (!look.text) return;
    drawBars();
    drawStep();
  }

  function drawBars() {
    const t = state.trainer, {c, width} = fitCanvas(bars, BARS + 30), n = t.steps.length, wide = (width - LEFT - RIGHT) / n;
    const mean = (s, k) => Run.mean(s.by.map(x => x[k])), usual = Steps.mean(t).whole_us;
    const top = Math.max(t.iteration_us || 0, Math.min(Math.max(...t.steps.map(s => mean(s, "whole_us"))), 2.5 * usual)) * 1.05;
    const y = us => 6 + BARS * (1 - Math.min(1, us / top));
    c.fillStyle = look.lane;
    c.fillRect(LEFT, 6, width - LEFT - RIGHT, BARS);
    for (const v of Text.marks(top, 4)) label(c, Text.us(v), LEFT - 8, y(v), "right", look.soft);
    t.steps.forEach((s, i) => {
      const x = LEFT + i * wide, w = Math.max(0.7, wide - (wide > 4 ? 1.5 : 0)), compute = mean(s, "compute_us"), whole = mean(s, "whole_us");
      c.fillStyle = COLOURS.backward;
      c.fillRect(x, y(compute), w, 6 + BARS - y(compute));
      c.fillStyle = COLOURS.exposed;
      c.fillRect(x, y(whole), w, y(compute) - y(whole));
      if (s === state.step) {
        c.strokeStyle = look.cut;
        c.lineWidth = 2;
        c.strokeRect(x - 1, 5, w + 2, BARS + 2);
      }
      if (wide > 34 || i % Math.ceil(34 / wide) === 0) label(c, "" + s.seq, x + w / 2, BARS + 18, "center", look.soft);
    });
    if (t.spans.length) {
      dashed(c, [LEFT, y(t.iteration_us)], [width - RIGHT, y(t.iteration_us)]);
      plate(c, "planned " + Text.us(t.iteration_us), width - RIGHT - 6, y(t.iteration_us) - 11);
    }
    bars.setAttribute("aria-label", Text.count(n, "step") + ", " + Text.us(usual) + " each (mean). " + text.textContent);
  }

  function label(c, s, x, y, align, colour) {
    c.textAlign = align;
    c.fillStyle = colour;
    c.fillText(s, x, y);
  }

  /* A text that stays readable on bars; x is its right end. */
  function plate(c, s, x, y) {
    c.fillStyle = look.lane;
    c.fillRect(x - c.measureText(s).width - 5, y - 8, c.measureText(s).width + 10, 16);
    label(c, s, x, y, "right", look.cut);
  }

  function dashed(c, from, to) {
    c.strokeStyle = look.cut;
    c.lineWidth = 1.5;
    c.setLineDash([6, 4]);
    c.beginPath();
    c.moveTo(...from);
    c.lineTo(...to);
    c.stroke();
    c.setLineDash([]);
  }

  /* Two rows a rank: the training loop, and the network; then the same as planned. */
  function drawStep() {
    const step = state.step, t = state.trainer, plan = t.spans.length ? Steps.planned(t) : null, pair = 2 * ROW + GAP;
    const shown = Math.min(ranks, 32), {c, width} = fitCanvas(picture, shown * pair + (plan ? pair + 14 : 0) + 34), from = Math.min(...step.by.map(x => x.start));
    const span = Math.max(...step.by.map(x => x.end - from), plan ? t.iteration_us : 0), x = us => LEFT + us / span * (width - LEFT - RIGHT);
    const block = (a, b, y, colour) => { c.fillStyle = colour; c.fillRect(x(a), y, Math.max(0.7, x(b) - x(a)), ROW - 2); };
    let y = 6;
    for (const s of step.by.slice(0, shown)) {
      back(c, width, y, "rank " + s.rank);
      const mid = Math.min(s.end, Math.max(s.start, s.first));
      block(s.start - from, mid - from, y, COLOURS.forward);
      block(mid - from, s.end - from, y, COLOURS.backward);
      for (const [a, b] of s.exposed) block(a - from, b - from, y, COLOURS.exposed);
      for (const e of s.launches) block(Math.max(e.start, s.start) - from, Math.min(e.end, s.end) - from, y + ROW, COLOURS[e.coll] || look.soft);
      y += pair;
    }
    if (plan) {
      y += 8;
      back(c, width, y, "planned");
      for (const s of plan) block(s.start, s.end, y + (s.kind === "launch" ? ROW : 0), s.kind === "launch" ? COLOURS[(t.launches[s.launch] || {}).coll] || look.soft : COLOURS[s.kind]);
      dashed(c, [x(t.iteration_us), y - 4], [x(t.iteration_us), y + 2 * ROW]);
      y += pair;
    }
    for (const v of Text.marks(span, 8)) label(c, Text.us(v), x(v), y + 10, "center", look.soft);
    picture.setAttribute("aria-label", "One step of every rank: the training loop above, the network below. " + text.textContent);
  }

  function back(c, width, y, name) {
    c.fillStyle = look.lane;
    c.fillRect(LEFT, y, width - LEFT - RIGHT, ROW - 2);
    c.fillRect(LEFT, y + ROW, width - LEFT - RIGHT, ROW - 2);
    label(c, name, LEFT - 8, y + ROW - 1, "right", look.text);
  }
  return {root, draw, select, choose, state};
}
