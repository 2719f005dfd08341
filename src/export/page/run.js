"use strict";
/* run.js - what the events of a run say: where the time of each rank went, who was late, which link
   was slow. */

const Run = (() => {
  const KINDS = ["call", "wait", "send", "receive", "idle", "step", "gradients", "launch", "exposed"];

  function open(doc) {
    const c = {}, raw = doc.run, events = [];
    for (const k of ["kind", "rank", "start", "length", "bytes", "peer", "comm", "seq", "message", "piece", "plan", "coll"])
      c[k] = Data.unpack(raw[k]);
    for (let i = 0; i < c.kind.length; i++)
      events.push({kind: KINDS[c.kind[i]], rank: c.rank[i], start: c.start[i] / 1e3, end: (c.start[i] + c.length[i]) / 1e3, bytes: c.bytes[i],
        peer: c.peer[i], comm: c.comm[i], seq: c.seq[i], message: c.message[i], piece: c.piece[i], plan: c.plan[i], coll: doc.colls[c.coll[i]],
        request: KINDS[c.kind[i]] === "call" && c.piece[i] === 1});
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
  const mean = list => list.length ? sum(list, x => x) / list.length : 0;
  const median = list => list.length ? [...list].sort((a, b) => a - b)[list.length >> 1] : 0;

  /* Where each rank's time went: outside of calls; in calls, until the last rank had entered (late),
     afterwards with nothing to do until a message came (idle), or at work. What trainers do is not
     counted: their own thread does it (steps.js). `awaited`: what others lost until this rank had
     entered; `missed`: until its messages came. */
  function account(events, calls, ranks, end, trainers) {
    const rows = Array.from({length: ranks}, (_, rank) => ({rank, calls: 0, inside: 0, late: 0, idle: 0, awaited: 0, lateIn: 0, missed: 0}));
    const spans = Array.from({length: ranks}, () => []), idle = rows.map(() => []), waits = new Map();
    for (const e of events) {
      if (e.kind === "idle" && !trainers.has(e.comm)) idle[e.rank].push(e);
      if (e.kind === "wait") waits.set([e.comm, e.seq, e.rank].join(" "), e);
    }
    for (const c of calls) {
      if (trainers.has(c.comm)) continue;
      if (c.whole && ranks > 1) rows[c.late].lateIn++;
      for (const e of c.by) {
        const at = e && e.request ? waits.get([c.comm, c.seq, e.rank].join(" ")) : e;
        if (e) rows[e.rank].calls++;
        if (at) spans[e.rank].push({from: at.start, to: at.end, last: c.whole ? c.last : at.start, late: c.late});
      }
    }
    rows.forEach((row, r) => count(row, spans[r].sort((x, y) => x.from - y.from), idle[r].sort((x, y) => x.start - y.start), rows));
    for (const row of rows) {
      row.work = Math.max(0, row.inside - row.late - row.idle);
      row.outside = Math.max(0, end - row.inside);
    }
    return rows;
  }

  /* Adds up one rank's times in calls, which follow each other. */
  function count(row, spans, idle, rows) {
    let done = 0, next = 0;
    for (const s of spans) {
      const from = Math.max(done, s.from), entered = Math.min(s.to, Math.max(from, s.last));
      if (s.to <= from) continue;
      done = s.to;
      row.inside += s.to - from;
      row.late += entered - from;
      rows[s.late].awaited += entered - from;
      while (next < idle.length && idle[next].end <= entered) next++;
      for (let i = next; i < idle.length && idle[i].start < s.to; i++) {
        const us = Math.min(s.to, idle[i].end) - Math.max(entered, idle[i].start);
        if (us <= 0) continue;
        row.idle += us;
        if (idle[i].peer >= 0) rows[idle[i].peer].missed += us;
      }
    }
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
  return {open, groupCalls, account, links, sum, mean, median};
})();
