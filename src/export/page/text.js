"use strict";
/* text.js - numbers and lists as people read them, and elements with text. Text is only ever placed
   as text. */

const Text = {
  us(v) {
    if (!(v >= 0)) return "?";
    const [n, unit] = v >= 1e6 ? [v / 1e6, "s"] : v >= 1e3 ? [v / 1e3, "ms"] : v >= 1 || v === 0 ? [v, "\u00b5s"] : [v * 1e3, "ns"];
    return (n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n === 0 ? "0" : n.toFixed(2)) + " " + unit;
  },
  bytes(v) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let i = 0;
    for (; v >= 1024 && i < 4; i++) v /= 1024;
    return (i === 0 || v >= 100 ? Math.round(v) : +v.toPrecision(3)) + " " + units[i];
  },
  rate(v) { /* bytes per second, as bits */
    const b = v * 8, units = [[1e12, "Tbit/s"], [1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"]];
    for (const [f, u] of units) if (b >= f) return +(b / f).toPrecision(3) + " " + u;
    return +b.toPrecision(3) + " bit/s";
  },
  percent: v => (v >= 0.995 ? 100 : v < 0.095 ? +(100 * v).toFixed(1) : Math.round(100 * v)) + " %",
  count: (n, what) => n.toLocaleString("en") + " " + what + (n === 1 ? "" : "s"),
  times: v => (v >= 10 ? v.toFixed(0) : v.toFixed(1)),
  /* 0-3, 7 */
  ranges(first, len) {
    const parts = first.slice(0, 6).map((f, i) => (len[i] === 1 ? "" + f : f + "\u2013" + (f + len[i] - 1)));
    return parts.join(", ") + (first.length > 6 ? ", \u2026" : "");
  },
  /* About n round numbers from 0 to max. */
  marks(max, n) {
    const raw = max / n, power = 10 ** Math.floor(Math.log10(raw || 1)), f = raw / power;
    const step = (f < 1.5 ? 1 : f < 3.5 ? 2 : f < 7.5 ? 5 : 10) * power, list = [];
    for (let v = 0; v <= max * 1.0001; v += step) list.push(v);
    return list;
  },
  list(items, most) {
    return items.slice(0, most).join(", ") + (items.length > most ? " and " + (items.length - most) + " more" : "");
  },
};

/* An element with attributes and children; strings become text. */
function make(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {}))
    if (k === "class") e.className = v;
    else if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else e.setAttribute(k, v);
  e.append(...children);
  return e;
}

/* Makes a canvas as wide as its place and so many pixels high; its context, empty, and its width. */
function fitCanvas(canvas, height) {
  const ratio = window.devicePixelRatio || 1, width = Math.max(300, canvas.getBoundingClientRect().width), c = canvas.getContext("2d");
  canvas.style.height = height + "px";
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.font = "12px system-ui, sans-serif";
  c.textBaseline = "middle";
  return {c, width};
}
