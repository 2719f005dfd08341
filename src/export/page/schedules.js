"use strict";
/* schedules.js - the page of `tutti view`: cards with networks, the time axis, controls, and what
   the selected rank does and holds.

   state.pos is the position on the axis: microseconds, or steps. Everything that is drawn follows
   from it; `changed` asks for one drawing in the next frame. */

function showSchedules(doc, main) {
  const net = doc.network, layout = Layout.make(net);
  const plans = doc.plans.filter(p => p.refused === undefined);
  const state = {pos: 0, max: 1, steps: false, playing: false, speed: 1, chunk: -1, heat: false,
    bound: false, plan: 0, rank: 0, asked: false};
  const live = document.getElementById("live");
  const look = {};
  const TELL = 200, RARE = 1000; /* ms between changes of texts, and of large pictures of holdings */
  let cards = [], lanes, controls, panels, frame = 0, last = 0, told = 0, heldAt = 0;
  let shownRank = "", shownHold = "", tipBox = null; /* what was drawn last */

  prepare();
  headline();
  build();
  readColours();
  setMode(false);
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) play(true);

  /* Names on the page, ratios to the bound, and the kind of proof. */
  function prepare() {
    const names = plans.map(p => p.algo);
    for (const p of plans) {
      p.label = names.filter(n => n === p.algo).length > 1 && p.file ? p.file : p.algo;
      p.progress = null;
      /* Messages that a rank has under way on average. */
      p.sending = p.folded || !p.time_us ? 0 : p.moves.reduce((s, v) => s + v.end - v.start, 0) / (p.ranks * p.time_us);
    }
    if (doc.bound) {
      doc.bound.item = doc.bound.kinds[doc.bound.best];
      doc.bound.us = doc.bound.item.bound_us;
      for (const p of plans) p.ratio = doc.bound.us > 0 && !p.uneven ? p.time_us / doc.bound.us : 0;
    }
  }

  /* One or two sentences that say what there is to see. */
  function headline() {
    document.getElementById("title").textContent = doc.title;
    const e = document.getElementById("verdict"), sorted = [...plans].sort((x, y) => x.time_us - y.time_us);
    const best = sorted[0], worst = sorted[sorted.length - 1];
    const number = n => "" + (n >= 9.95 ? n.toFixed(0) : +n.toFixed(1)), atOnce = n => number(n) + (number(n) === "1" ? " message" : " messages") + " at a time";
    const used = p => p.links_used === p.links ? "all " + p.links : p.links_used + " of " + p.links;
    if (plans.length > 1 && worst.time_us > best.time_us * 1.05) {
      e.append(make("b", {}, best.label), " is ", make("b", {}, Text.times(worst.time_us / best.time_us) + " times as fast as " + worst.label),
        ": " + Text.us(best.time_us) + " against " + Text.us(worst.time_us) + ". ");
      if (best.sending && worst.sending)
        e.append("Its ranks send ", make("b", {}, atOnce(best.sending)), ", those of " + worst.label + " " + number(worst.sending) + ". ");
      e.append("It uses " + used(best) + " links (each direction counts) to " + Text.percent(best.meanUse) + " of their capacity, " +
        worst.label + " " + used(worst) + " to " + Text.percent(worst.meanUse) + ". ");
      for (const p of sorted.slice(1, -1).slice(0, 3))
        e.append(p.label + ": " + Text.times(worst.time_us / p.time_us) + " times as fast as " + worst.label + (p.sending ? ", " + atOnce(p.sending) : "") +
          ", " + Text.percent(p.meanUse) + " of the capacity. ");
    } else {
      if (plans.length > 1) e.append("All take about the same time. ");
      e.append(make("b", {}, best.label), " takes ", make("b", {}, Text.us(best.time_us)),
        best.ratio ? ", " + best.ratio.toFixed(2) + " times the bound" : "", ". It sends over " + used(best) +
        " links (each direction counts) and uses " + Text.percent(best.meanUse) + " of their capacity.");
    }
    const notes = [];
    if (doc.made_up) notes.push("No network was given (--topo): every pair of ranks has a link of 10 Gbit/s and 1 \u00b5s here.");
    if (net.members) notes.push("The network is folded: " + net.ranks + " ranks are drawn as " + net.drawn_ranks + ".");
    if (plans.some(p => p.folded)) notes.push("Too many messages to show one by one: links show their use at each moment.");
    if (notes.length) {
      const note = document.getElementById("note");
      note.textContent = notes.join(" ");
      note.hidden = false;
    }
  }

  /* ---- the parts of the page ---- */

  function build() {
    const row = make("section", {class: "cards", "aria-label": "Networks"});
    doc.plans.forEach(p => row.append(p.refused === undefined ? planCard(p) : refusedCard(p)));
    const canvas = make("canvas", {role: "img", tabindex: "-1"});
    const axis = make("section", {class: "lanes", "aria-label": "Time axis"},
      make("p", {}, "Share of the capacity of all links that is in use, over time. Drag to move."), canvas);
    controls = makeControls();
    panels = makePanels();
    main.append(axis, row, controls.root, panels.root, keysHelp());
    lanes = new Lanes.LaneChart(canvas, plans, doc);
    dragAxis(canvas);
    cards.forEach(c => { c.map = new Map2.NetworkMap(c.canvas, net, layout, c.plan); });
    window.addEventListener("resize", () => {
      cards.forEach(c => c.map.resize());
      lanes.resize();
      changed();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", readColours);
    document.addEventListener("keydown", keys);
  }

  function facts(p) {
    const rows = [["steps", Text.count(p.steps, "step") + ", " + Text.count(p.messageCount, "message") +
      (p.segments > 1 ? " in " + p.segments + " segments" : "")]];
    rows.push(["links", p.links_used + " of " + p.links + " used, " + Text.percent(p.meanUse) + " of all capacity"]);
    if (p.busiest_link_name)
      rows.push(["busiest link", p.busiest_link_name.replace("->", "\u2192") + ": " + Text.bytes(p.bytes_on_busiest_link) +
        (p.link_use ? ", " + Text.percent(p.link_use[p.busiest_link]) + " used" : "")]);
    if (p.idle_us) rows.push(["idle", idleText(p)]);
    rows.push(["proof", (p.proof.exact ? "exact, for all inputs: " : "by fingerprints (error below " +
      p.proof.error_probability.toExponential(0) + "): ") + Text.count(p.proof.ops, "operation")]);
    return rows;
  }

  /* Ranks that neither send nor receive nor reduce for a part of the time. */
  function idleText(p) {
    const most = Math.max(...p.idle_us), part = most / p.time_us;
    if (part < 0.01) return "no rank, at any time";
    const who = [];
    p.idle_us.forEach((v, r) => { if (v > most * 0.98) who.push(r); });
    if (who.length === p.ranks) return "every rank, " + Text.percent(part) + " of the time";
    return "most: " + (who.length === 1 ? "rank " : "ranks ") + Text.list(who, 6) + ", " + Text.percent(part) + " of the time";
  }

  function planCard(p) {
    const canvas = make("canvas", {class: "map", role: "img", tabindex: "0"});
    const now = make("p", {class: "now"}), list = make("dl");
    for (const [k, v] of facts(p)) list.append(make("dt", {}, k), make("dd", {}, v));
    const root = make("article", {class: "card" + (doc.plans.length === 1 ? " alone" : ""), "aria-label": p.label},
      make("header", {}, make("h2", {}, p.label), make("span", {class: "time"}, Text.us(p.time_us)),
        make("span", {class: "ratio"}, p.ratio ? p.ratio.toFixed(2) + " \u00d7 the bound" : "")),
      canvas, now, list);
    const card = {plan: p, canvas, now, root};
    cards.push(card);
    canvas.addEventListener("click", e => {
      const v = card.map.find(e.offsetX, e.offsetY);
      if (v >= 0) select(cards.indexOf(card), v);
    });
    canvas.addEventListener("mousemove", e => tip(e, card));
    canvas.addEventListener("mouseleave", () => tip(null));
    return root;
  }

  function refusedCard(p) {
    return make("article", {class: "card refused", "aria-label": p.algo}, make("h2", {}, p.algo),
      make("p", {}, "does not apply here: " + p.refused));
  }

  function tip(e, card) {
    if (tipBox) tipBox.remove();
    tipBox = null;
    if (!e) return;
    const v = card.map.find(e.offsetX, e.offsetY), l = v < 0 ? card.map.findLink(e.offsetX, e.offsetY) : -1;
    if (v < 0 && l < 0) return;
    const text = v >= 0 ? net.name(v) + (v < net.drawn_ranks && !card.plan.folded ? ": click for its operations" : "")
      : net.linkName(l) + ", " + Text.rate(net.rate(l)) + ", " + Text.percent(card.plan.linkUse[l] || 0) + " used";
    tipBox = make("div", {class: "tip"}, text);
    tipBox.style.left = Math.min(e.clientX + 12, innerWidth - 260) + "px";
    tipBox.style.top = e.clientY + 14 + "px";
    document.body.append(tipBox);
  }

  function makeControls() {
    const c = {};
    const button = (text, title, action, more) => make("button", Object.assign({type: "button", title, "aria-label": title, onclick: action}, more), text);
    c.play = button("Play", "Play or pause (space)", () => play(!state.playing), {class: "play"});
    c.back = button("\u25c0", "One step back (left arrow)", () => stepBy(-1));
    c.on = button("\u25b6", "One step on (right arrow)", () => stepBy(1));
    c.slider = make("input", {type: "range", min: "0", max: "1000", value: "0", step: "1", id: "slider", "aria-label": "Position in time"});
    c.slider.addEventListener("input", () => { play(false); moveTo(c.slider.value / 1000 * state.max); });
    c.clock = make("output", {id: "clock", for: "slider"});
    c.mode = make("select", {"aria-label": "Axis", title: "What the axis counts"}, make("option", {value: "time"}, "by time"), make("option", {value: "step"}, "by step"));
    c.mode.addEventListener("change", () => setMode(c.mode.value === "step"));
    c.speed = make("select", {"aria-label": "Speed"}, ...[["0.25", "\u00bc \u00d7"], ["0.5", "\u00bd \u00d7"], ["1", "1 \u00d7"], ["2", "2 \u00d7"], ["4", "4 \u00d7"]]
      .map(([v, t]) => make("option", {value: v}, t)));
    c.speed.value = "1";
    c.speed.addEventListener("change", () => { state.speed = +c.speed.value; });
    c.chunk = make("select", {"aria-label": "Chunks shown", title: "Show the way of one chunk"}, make("option", {value: "-1"}, "all chunks"));
    const chunks = Math.min(512, Math.max(0, ...plans.filter(p => !p.folded).map(p => p.chunks)));
    for (let i = 0; i < chunks; i++) c.chunk.append(make("option", {value: "" + i}, "chunk " + i));
    c.chunk.addEventListener("change", () => { state.chunk = +c.chunk.value; changed(); });
    c.heat = button("Heat", "Colour links by their use (h)", () => toggle("heat"), {"aria-pressed": "false"});
    c.bound = button("Bound", "Show the cut or partition that proves the bound (b)", () => toggle("bound"), {"aria-pressed": "false"});
    c.bound.disabled = !boundSides();
    c.theme = button("\u25d0", "Change between light and dark", theme);
    if (plans.every(p => p.folded)) c.mode.disabled = c.chunk.disabled = c.back.disabled = c.on.disabled = true;
    c.root = make("div", {id: "controls", role: "toolbar", "aria-label": "Controls"}, c.play, c.back, c.on, c.slider, c.clock,
      c.mode, c.speed, c.chunk, c.heat, c.bound, c.theme);
    return c;
  }

  function makePanels() {
    const p = {};
    p.plan = make("select", {"aria-label": "Plan"}, ...plans.map((q, i) => make("option", {value: "" + i}, q.label)));
    p.plan.addEventListener("change", () => select(+p.plan.value, state.rank));
    p.rank = make("input", {type: "number", min: "0", max: "" + (net.ranks - 1), value: "0", id: "rank", "aria-label": "Rank"});
    p.rank.addEventListener("change", () => select(state.plan, Math.max(0, Math.min(net.ranks - 1, p.rank.value | 0))));
    p.ops = make("div", {class: "scroll", tabindex: "0", "aria-label": "Operations of the rank"});
    p.hold = make("canvas", {class: "hold", role: "img"});
    p.holdText = make("p", {class: "soft"});
    p.opsText = make("p", {class: "soft"});
    const rank = make("section", {class: "panel wide", "aria-label": "What a rank does"}, make("h2", {}, "What rank ", p.rank, " does in ", p.plan), p.opsText, p.ops);
    const hold = make("section", {class: "panel", "aria-label": "Who holds what"}, make("h2", {}, "Who holds what"), p.holdText, p.hold, holdLegend());
    p.root = make("div", {class: "details"}, rank, hold, boundPanel());
    if (plans.every(q => q.folded)) rank.hidden = hold.hidden = true;
    return p;
  }

  function holdLegend() {
    return make("p", {class: "legend"}, "rows: ranks; columns: chunks; the darker, the more ranks' values are in it; a dot: the final result");
  }

  function boundPanel() {
    const root = make("section", {class: "panel", "aria-label": "Bound"}, make("h2", {}, "Why nothing can be faster"));
    if (!doc.bound) return root;
    root.append(make("p", {}, "No schedule takes less than " + Text.us(doc.bound.us) + " (" + doc.bound.item.kind + " bound): " + doc.bound.item.certificate));
    const list = make("table", {}, make("tr", {}, make("th", {}, "kind"), make("th", {}, "at least")));
    for (const k of doc.bound.kinds)
      if (k.applies) list.append(make("tr", {}, make("td", {}, k.kind), make("td", {}, Text.us(k.bound_us))));
    root.append(list);
    if (boundSides())
      root.append(make("p", {class: "soft"}, "\u201cBound\u201d shows the " + (boundSides() === doc.bound.parts ? "parts of the partition bound" : "two sides of the cut bound") +
        " and, in red, the cables between them."));
    const proofs = plans.map(p => p.label + ": " + (p.proof.exact ? "exactly" : "by fingerprints"));
    root.append(make("h2", {}, "Why the result is right"), make("p", {}, "Every plan was proved: at the end each rank holds every contribution once. " + proofs.join("; ") + "."));
    return root;
  }

  function keysHelp() {
    const p = make("p", {class: "keys"}, "Keys: ");
    for (const [k, t] of [["space", "play, pause"], ["\u2190 \u2192", "step"], ["Home End", "ends"], ["r", "rank"], ["h", "heat"], ["b", "bound"], ["t", "time or steps"]])
      p.append(make("kbd", {}, k), " " + t + "  ");
    return p;
  }

  function boundSides() {
    if (!doc.bound) return null;
    return doc.bound.item.kind === "partition" ? doc.bound.parts : doc.bound.item.kind === "cut" ? doc.bound.cut : doc.bound.parts || doc.bound.cut || null;
  }

  /* ---- time ---- */

  function setMode(steps) {
    state.steps = steps && plans.some(p => !p.folded);
    controls.mode.value = state.steps ? "step" : "time";
    state.max = Math.max(...plans.map(p => state.steps ? p.steps : p.time_us)) || 1;
    moveTo(0);
  }

  function moveTo(pos) {
    state.pos = Math.max(0, Math.min(state.max, pos));
    changed();
  }

  function play(on) {
    if (on && state.pos >= state.max) state.pos = 0;
    state.playing = on;
    controls.play.textContent = on ? "Pause" : "Play";
    last = 0;
    if (!on) announce();
    changed();
  }

  /* Boundaries between steps: of the axis itself, or of the plan that is selected. */
  function stepBy(by) {
    play(false);
    const p = plans[state.plan], slack = state.max * 1e-6;
    if (state.steps) return moveTo(by > 0 ? Math.floor(state.pos + 1 + 1e-6) : Math.ceil(state.pos - 1 - 1e-6));
    const ends = [0, ...(p.stepEnd || [])];
    const next = by > 0 ? ends.find(t => t > state.pos + slack) : [...ends].reverse().find(t => t < state.pos - slack);
    moveTo(next === undefined ? (by > 0 ? state.max : 0) : next);
    announce();
  }

  /* Steps whose messages have all arrived. */
  function stepsDone(p) {
    if (state.steps) return Math.min(p.steps, Math.floor(state.pos + 1e-6));
    let low = 0, high = p.stepEnd.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (p.stepEnd[mid] <= state.pos + p.time_us * 1e-6) low = mid + 1;
      else high = mid;
    }
    return low;
  }

  /* Messages under way, with the part of their way that is done. */
  function underWay(p) {
    const active = [];
    if (state.steps) {
      const n = Math.floor(state.pos), part = state.pos - n;
      if (n < p.stepNumbers.length && part > 0)
        for (const m of p.byStep.get(p.stepNumbers[n])) active.push({m, part});
      return active;
    }
    let low = 0, high = p.moves.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (p.moves[mid].start <= state.pos) low = mid + 1;
      else high = mid;
    }
    for (let i = low - 1; i >= 0 && p.moves[i].start > state.pos - p.longest - 1e-9; i--) {
      const v = p.moves[i];
      if (v.end > state.pos && v.start < state.pos) active.push({m: v.m, part: (state.pos - v.start) / (v.end - v.start)});
    }
    return active;
  }

  /* Use of each link in the present part of the time. */
  function useNow(p) {
    const done = state.pos >= p.time_us, part = done ? p.parts : Math.min(p.parts - 1, Math.floor(state.pos / p.time_us * p.parts)), use = [];
    for (let l = 0; l < 2 * net.cables; l++) use.push(done ? 0 : p.use[l * p.parts + part] / 1000);
    return {part, use};
  }

  /* ---- drawing ---- */

  function changed() {
    if (!frame) frame = requestAnimationFrame(draw);
  }

  function draw(t) {
    frame = 0;
    if (state.playing) {
      if (last) state.pos += (t - last) / 1000 * state.max / 12 * state.speed;
      last = t;
      if (state.pos >= state.max) {
        state.pos = state.max;
        play(false);
      }
    }
    const tell = !state.playing || t - told >= TELL;
    for (const c of cards) drawCard(c, tell);
    lanes.draw(look, state);
    if (tell) tellPosition(t);
    drawPanels(t);
    if (state.playing) changed();
  }

  /* What changes the page's layout follows a few times a second while it plays. */
  function tellPosition(t) {
    told = t;
    lanes.canvas.setAttribute("aria-label", "Time axis at " + clockText() + ". " + plans.map(p => p.label + " ends at " + Text.us(p.time_us)).join(", "));
    controls.slider.value = state.pos / state.max * 1000;
    controls.slider.setAttribute("aria-valuetext", clockText());
    controls.clock.textContent = clockText();
  }

  function clockText() {
    return state.steps ? "step " + state.pos.toFixed(1) + " of " + state.max : Text.us(state.pos) + " of " + Text.us(state.max);
  }

  function drawCard(c, tell) {
    const p = c.plan, mine = cards.indexOf(c) === state.plan;
    look.bound = state.bound ? boundSides() : null;
    look.heat = state.heat;
    look.chunk = state.chunk;
    look.selected = mine && state.asked ? state.rank : -1;
    if (p.folded) {
      c.map.draw(look, null, null, useNow(p));
      if (tell) c.now.textContent = state.pos >= p.time_us ? "done" : "";
    } else {
      const n = stepsDone(p), active = underWay(p);
      if (p.progress === null) p.progress = Data.progress(p);
      c.map.draw(look, active, p.progress && p.progress[n], null);
      if (tell) c.now.textContent = nowText(p, n, active);
    }
    if (tell) c.canvas.setAttribute("aria-label", p.label + " on " + net.spec + ": " + c.now.textContent);
  }

  function nowText(p, n, active) {
    if (n >= p.steps) return "done after " + Text.us(p.time_us);
    const links = new Set();
    for (const {m} of active) for (const l of m.route) links.add(l);
    return Text.count(active.length, "message") + " under way on " + Text.count(links.size, "link") + "; " + n + " of " + Text.count(p.steps, "step") + " done";
  }

  function announce() {
    live.textContent = clockText() + ". " + cards.map(c => c.plan.label + ": " + c.now.textContent).join(". ");
  }

  function drawPanels(t) {
    const p = plans[state.plan];
    if (p.folded) return;
    const key = state.plan + " " + state.rank;
    if (key !== shownRank) {
      shownRank = key;
      listOps(p);
    }
    markOps(p);
    const n = stepsDone(p), hold = state.plan + " " + n + " " + look.dark, rare = state.playing && p.ranks * p.chunks > 20000;
    if (hold !== shownHold && p.hold && !(rare && t - heldAt < RARE)) {
      shownHold = hold;
      heldAt = t;
      drawHoldings(p, n);
    }
  }

  /* The operations of a rank in order of their steps; at most 400 rows. */
  function listOps(p) {
    const r = state.rank, rows = [];
    for (const m of p.messages) {
      const chunks = Text.ranges(p.range.first.slice(m.range, m.range + m.ranges), p.range.len.slice(m.range, m.range + m.ranges));
      if (m.src === r) rows.push({order: 0, m, what: "send \u2192 rank " + m.dst, chunks});
      if (m.dst === r) rows.push({order: 1, m, what: (m.sums ? "add" : "receive") + " \u2190 rank " + m.src, chunks});
    }
    for (const l of p.locals)
      if (l.rank === r) {
        const a = p.act, end = l.act + l.acts, adds = a.add.slice(l.act, end).some(x => x);
        rows.push({order: 2, l, what: adds ? "add up" : "copy", chunks: Text.ranges(a.first.slice(l.act, end), a.len.slice(l.act, end))});
      }
    const step = x => (x.m || x.l).step;
    rows.sort((x, y) => step(x) - step(y) || x.order - y.order);
    const table = make("table", {}, make("thead", {}, make("tr", {}, ...["step", "operation", "chunks", "bytes", "from", "to"].map(t => make("th", {scope: "col"}, t)))));
    const body = make("tbody");
    panels.rows = rows.slice(0, 400);
    for (const x of panels.rows) {
      const swatch = make("span", {class: "swatch"}), ordinal = x.m ? x.m.ordinal : p.ordinal.get(x.l.step);
      swatch.style.background = Map2.chunkColour(x.m ? x.m.chunk : p.act.first[x.l.act]);
      x.row = make("tr", {}, make("td", {}, ordinal === undefined ? "" : "" + ordinal), make("td", {}, x.what), make("td", {}, swatch, x.chunks),
        make("td", {}, x.m ? Text.bytes(x.m.bytes) : ""), make("td", {}, x.m ? Text.us(x.m.start) : ""), make("td", {}, x.m ? Text.us(x.m.end) : ""));
      body.append(x.row);
    }
    table.append(body);
    panels.ops.replaceChildren(table);
    const sent = rows.filter(x => x.m && x.m.src === r).reduce((s, x) => s + x.m.bytes, 0);
    const got = rows.filter(x => x.m && x.m.dst === r).reduce((s, x) => s + x.m.bytes, 0);
    panels.opsText.textContent = Text.count(rows.length, "operation") + (rows.length > 400 ? " (the first 400)" : "") + "; sends " + Text.bytes(sent) + ", receives " + Text.bytes(got) +
      (p.idle_us ? "; idle for " + Text.us(p.idle_us[r]) + " (" + Text.percent(p.idle_us[r] / p.time_us) + ")" : "");
    panels.rank.value = r;
    panels.plan.value = state.plan;
  }

  function markOps(p) {
    for (const x of panels.rows || []) {
      if (!x.m) continue;
      const start = state.steps ? x.m.ordinal : x.m.start, end = state.steps ? x.m.ordinal + 1 : x.m.end;
      const name = state.pos >= end ? "past" : state.pos > start ? "now" : "";
      if (x.name !== name) x.row.className = x.name = name;
    }
  }

  /* Cells of several pixels have gaps and dots; small ones are pixels of a picture that is scaled. */
  function drawHoldings(p, n) {
    const h = p.hold, canvas = panels.hold, cell = Math.max(1, Math.min(18, Math.floor(420 / Math.max(p.chunks, p.ranks))));
    h.after(n);
    const large = cell >= 6, width = p.chunks * (large ? cell : 1), height = p.ranks * (large ? cell : 1);
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, {width, height});
    canvas.style.width = p.chunks * cell + "px";
    (large ? drawCells : drawPixels)(p, canvas.getContext("2d"), cell);
    panels.holdText.textContent = p.label + ", after " + Text.count(n, "step") + ": " + Text.percent(completePart(p)) + " of the results are complete.";
    canvas.setAttribute("aria-label", panels.holdText.textContent);
  }

  function completePart(p) {
    let complete = 0, want = 0;
    for (let r = 0; r < p.ranks; r++)
      for (let k = 0; k < p.chunks; k++)
        if (p.output[r * p.chunks + k]) {
          want++;
          complete += p.hold.done(r, k) ? 1 : 0;
        }
    return want ? complete / want : 1;
  }

  /* How strong the colour of a chunk is at a rank: by how many ranks' values are in it. */
  function strength(h, r, k) {
    const part = h.best(r, k) / h.full;
    return part === 0 ? 0 : 0.15 + 0.85 * part;
  }

  function drawCells(p, c, cell) {
    c.fillStyle = look.lane;
    c.fillRect(0, 0, c.canvas.width, c.canvas.height);
    for (let r = 0; r < p.ranks; r++)
      for (let k = 0; k < p.chunks; k++) {
        c.globalAlpha = strength(p.hold, r, k);
        c.fillStyle = Map2.chunkColour(k);
        c.fillRect(k * cell, r * cell, cell - 1, cell - 1);
        c.globalAlpha = 1;
        if (!p.hold.done(r, k)) continue;
        c.fillStyle = look.back;
        c.beginPath();
        c.arc(k * cell + cell / 2 - 0.5, r * cell + cell / 2 - 0.5, cell / 5, 0, 2 * Math.PI);
        c.fill();
      }
  }

  function drawPixels(p, c) {
    const picture = c.createImageData(p.chunks, p.ranks), rgb = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
    const back = rgb(look.lane), colours = Array.from({length: p.chunks}, (_, k) => rgb(Map2.chunkColour(k)));
    for (let r = 0, at = 0; r < p.ranks; r++)
      for (let k = 0; k < p.chunks; k++, at += 4) {
        const a = strength(p.hold, r, k);
        for (let i = 0; i < 3; i++) picture.data[at + i] = back[i] + (colours[k][i] - back[i]) * a;
        picture.data[at + 3] = 255;
      }
    c.putImageData(picture, 0, 0);
  }

  /* ---- input ---- */

  function select(plan, rank) {
    if (rank >= net.drawn_ranks || plans[plan].folded) return;
    state.plan = plan;
    state.rank = rank;
    state.asked = true;
    live.textContent = "rank " + rank + " of " + plans[plan].label;
    changed();
  }

  function toggle(what) {
    state[what] = !state[what];
    controls[what].setAttribute("aria-pressed", "" + state[what]);
    changed();
  }

  function theme() {
    const root = document.documentElement;
    root.dataset.theme = look.dark ? "light" : "dark";
    readColours();
  }

  function readColours() {
    const style = getComputedStyle(document.documentElement);
    for (const k of ["back", "card", "text", "soft", "line", "accent", "area", "lane", "vertex", "done", "cut"])
      look[k] = style.getPropertyValue("--" + k).trim();
    look.dark = parseInt(look.back.slice(1, 3), 16) < 128;
    shownHold = "";
    changed();
  }

  function dragAxis(canvas) {
    const go = e => { play(false); moveTo(lanes.position(e.offsetX, state.max)); };
    canvas.addEventListener("pointerdown", e => { canvas.setPointerCapture(e.pointerId); go(e); });
    canvas.addEventListener("pointermove", e => { if (e.buttons) go(e); });
  }

  function keys(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const tag = e.target.tagName, typing = tag === "INPUT" && e.target.type === "number" || tag === "SELECT";
    if (typing && e.key !== "Escape") return;
    if (tag === "BUTTON" && (e.key === " " || e.key === "Enter")) return;
    const act = {" ": () => play(!state.playing), ArrowRight: () => stepBy(1), ArrowLeft: () => stepBy(-1),
      Home: () => { play(false); moveTo(0); }, End: () => { play(false); moveTo(state.max); }, h: () => toggle("heat"),
      b: () => { if (!controls.bound.disabled) toggle("bound"); }, r: () => panels.rank.focus(), t: () => setMode(!state.steps),
      Escape: () => document.activeElement.blur()}[e.key];
    if (!act) return;
    e.preventDefault();
    act();
  }

  /* For tests: what the page shows, without reading pixels. */
  window.tutti = {state, plans, cards, net, ready: performance.now(), moveTo, play, select,
    underWay: i => underWay(plans[i]).length, vertex: (i, v) => cards[i].map.at[v]};
}
