"use strict";
/* lanes.js - one time axis for all plans: how much of the network's capacity each uses at every
   moment, where it ends, and the bound. */

const Lanes = (() => {
  const LEFT = 120, RIGHT = 150, TOP = 22, LANE = 44, GAP = 8, BOTTOM = 26;

  class LaneChart {
    constructor(canvas, plans, doc) {
      Object.assign(this, {canvas, plans, doc, ctx: canvas.getContext("2d", {alpha: false})});
      for (const p of plans) {
        p.capacity = Data.capacityUse(p, doc.network, 240);
        if (!p.folded) p.stepMessages = p.stepNumbers.map(s => p.byStep.get(s).length);
      }
      canvas.style.height = this.height() + "px";
      this.resize();
    }
    height() { return TOP + this.plans.length * (LANE + GAP) + BOTTOM; }
    resize() {
      const ratio = window.devicePixelRatio || 1, box = this.canvas.getBoundingClientRect();
      this.width = Math.max(300, box.width);
      this.canvas.width = Math.round(this.width * ratio);
      this.canvas.height = Math.round(this.height() * ratio);
      this.ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
      this.ratio = ratio;
      this.key = null;
    }
    span() { return this.width - LEFT - RIGHT; }
    x(pos, max) { return LEFT + pos / (max || 1) * this.span(); }
    /* The position on the axis at a point of the canvas. */
    position(x, max) { return Math.max(0, Math.min(max, (x - LEFT) / this.span() * max)); }

    /* The lanes are drawn once; a frame copies them and adds the position. */
    draw(look, state) {
      const c = this.ctx, key = [look.dark, state.steps, state.max, this.width].join();
      if (key !== this.key) this.lanes = Map2.picture(this.width, this.height(), this.ratio, ink => this.drawLanes(ink, look, state));
      this.key = key;
      c.drawImage(this.lanes, 0, 0, this.width, this.height());
      const x = this.x(state.pos, state.max);
      c.strokeStyle = look.accent;
      c.lineWidth = 2;
      c.beginPath();
      c.moveTo(x, TOP - 6);
      c.lineTo(x, this.height() - BOTTOM + 4);
      c.stroke();
    }

    drawLanes(c, look, state) {
      c.fillStyle = look.back;
      c.fillRect(0, 0, this.width, this.height());
      c.font = "12px system-ui, sans-serif";
      c.textBaseline = "middle";
      this.drawAxis(c, look, state);
      this.plans.forEach((p, i) => this.drawLane(c, look, state, p, TOP + i * (LANE + GAP)));
      if (!state.steps) this.drawBound(c, look, state);
    }

    drawAxis(c, look, state) {
      const y = this.height() - BOTTOM;
      c.fillStyle = look.soft;
      c.strokeStyle = look.line;
      c.lineWidth = 1;
      c.textAlign = "center";
      for (const v of Text.marks(state.max, 8)) {
        const x = this.x(v, state.max);
        c.beginPath();
        c.moveTo(x, TOP);
        c.lineTo(x, y + 4);
        c.stroke();
        c.fillText(state.steps ? "step " + Math.round(v) : Text.us(v), x, y + 14);
      }
    }

    drawLane(c, look, state, p, top) {
      const base = top + LANE, end = state.steps ? p.steps : p.time_us;
      c.textAlign = "right";
      c.fillStyle = look.text;
      c.font = "600 13px system-ui, sans-serif";
      c.fillText(p.label, LEFT - 10, top + LANE / 2 - 7, LEFT - 16);
      c.font = "11px system-ui, sans-serif";
      c.fillStyle = look.soft;
      c.fillText(Text.percent(p.meanUse) + " of all links", LEFT - 10, top + LANE / 2 + 9, LEFT - 16);
      c.fillStyle = look.lane;
      c.fillRect(LEFT, top, this.span(), LANE);
      if (state.steps) this.drawSteps(c, look, state, p, top);
      else this.drawArea(c, look, state, p, top);
      c.textAlign = "left";
      c.fillStyle = look.text;
      c.font = "600 13px system-ui, sans-serif";
      const ends = state.steps ? Text.count(p.steps, "step") : Text.us(p.time_us);
      c.fillText(ends, this.x(end, state.max) + 7, base - 21);
      c.font = "11px system-ui, sans-serif";
      c.fillStyle = look.soft;
      if (p.ratio && !state.steps)
        c.fillText(p.ratio.toFixed(2) + " \u00d7 the bound", this.x(end, state.max) + 7, base - 7);
    }

    drawArea(c, look, state, p, top) {
      const base = top + LANE, n = p.capacity.length;
      c.beginPath();
      c.moveTo(this.x(0, state.max), base);
      for (let i = 0; i < n; i++) {
        c.lineTo(this.x(i / n * p.time_us, state.max), base - p.capacity[i] * LANE);
        c.lineTo(this.x((i + 1) / n * p.time_us, state.max), base - p.capacity[i] * LANE);
      }
      c.lineTo(this.x(p.time_us, state.max), base);
      c.fillStyle = look.area;
      c.fill();
      c.strokeStyle = look.accent;
      c.lineWidth = 1.2;
      c.stroke();
    }

    /* Messages of each step, the largest number of all plans being the full height. */
    drawSteps(c, look, state, p, top) {
      const most = Math.max(1, ...this.plans.map(q => Math.max(0, ...(q.stepMessages || []))));
      c.fillStyle = look.accent;
      (p.stepMessages || []).forEach((n, i) => {
        const x = this.x(i, state.max), w = Math.max(1, this.span() / state.max - 1.5);
        c.fillRect(x, top + LANE * (1 - n / most), w, LANE * n / most);
      });
    }

    drawBound(c, look, state) {
      const b = this.doc.bound;
      if (!b || !(b.us > 0)) return;
      const x = this.x(b.us, state.max);
      c.strokeStyle = look.cut;
      c.setLineDash([6, 4]);
      c.lineWidth = 2;
      c.beginPath();
      c.moveTo(x, TOP - 4);
      c.lineTo(x, this.height() - BOTTOM);
      c.stroke();
      c.setLineDash([]);
      c.fillStyle = look.cut;
      c.font = "600 12px system-ui, sans-serif";
      const text = "bound " + Text.us(b.us) + ": nothing can be faster", right = x < this.width * 0.6;
      c.textAlign = right ? "left" : "right";
      c.fillText(text, x + (right ? 4 : -4), TOP - 12);
    }
  }
  return {LaneChart};
})();
