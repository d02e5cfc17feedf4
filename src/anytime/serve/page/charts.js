// Charts in SVG, drawn anew whenever their data, their width or the pointer changes. Colours come from the style sheet.

import { known, number } from "./format.js";

const NAMESPACE = "http://www.w3.org/2000/svg";
const GUTTER = 46; // room for the numbers on the left, the same in every chart, so that axes of a column line up
const FOOT = 20; // room for the numbers below
const TOP = 8;
const SPAN = 120; // seconds that a timeline shows

function shape(name, attributes = {}, text = null) {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  return element;
}

/** About `count` round numbers that cover [low, high]. */
export function ticks(low, high, count = 3) {
  const span = high - low || Math.abs(high) || 1;
  const rough = span / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough * 0.999) * power;
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) {
    found.push(i * step + 0); // + 0: no minus zero
  }
  return found;
}

/** The frame of a chart: an image with a sentence for those who do not see it, redrawn when its width changes. */
class Chart {
  constructor(figure, height) {
    this.figure = figure;
    this.height = height;
    this.svg = shape("svg", { role: "img", height });
    this.holder = document.createElement("div");
    this.holder.className = "plot";
    this.holder.append(this.svg);
    figure.append(this.holder);
    this.key = document.createElement("p");
    this.key.className = "key";
    figure.querySelector("figcaption").append(this.key);
    new ResizeObserver(() => this.redraw()).observe(this.holder);
  }

  get right() {
    return this.width - 6;
  }

  get bottom() {
    return this.height - FOOT;
  }

  redraw() {
    this.width = this.holder.clientWidth;
    if (!this.width) return;
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.svg.replaceChildren();
    this.draw();
  }

  put(name, attributes, text) {
    const element = shape(name, attributes, text);
    this.svg.append(element);
    return element;
  }

  /** What a screen reader says in place of the picture. */
  say(sentence) {
    this.svg.setAttribute("aria-label", sentence);
  }

  /** Names with their colours and numbers, beside the title. */
  explain(entries) {
    this.key.replaceChildren(
      ...entries.map(({ label, value, style }) => {
        const item = document.createElement("span");
        if (style) item.className = `swatch ${style}`;
        item.append(`${label} `);
        const strong = document.createElement("b");
        strong.textContent = value;
        item.append(strong);
        return item;
      }),
    );
  }

  note(text) {
    this.put("text", { class: "empty", x: this.width / 2, y: this.height / 2, "text-anchor": "middle" }, text);
    this.say(text);
  }

  rows(values, y, label = number) {
    for (const value of values) {
      this.put("line", { class: "grid", x1: GUTTER, x2: this.right, y1: y(value), y2: y(value) });
      this.put("text", { x: GUTTER - 8, y: y(value) + 4, "text-anchor": "end" }, label(value));
    }
  }

  /** Numbers below, left out where they would touch. */
  columns(marks) {
    let end = -Infinity;
    for (const { x, text, anchor = "middle" } of marks) {
      const half = 3.4 * text.length;
      const start = anchor === "end" ? x - 2 * half : anchor === "start" ? x : x - half;
      if (start < end + 10) continue;
      end = start + 2 * half;
      this.put("text", { x, y: this.height - 4, "text-anchor": anchor }, text);
    }
  }
}

/** Quantities over the last two minutes; `limit` is a dashed line they are judged by. */
export class Timeline extends Chart {
  constructor(figure, { height = 118, lines, format = number, area = false, axis = false, least = 1 }) {
    super(figure, height);
    Object.assign(this, { lines, format, area, axis, least, history: [], limit: null, marks: null, at: null });
    this.pointed = () => {};
    this.svg.addEventListener("pointermove", (event) => {
      const x = event.clientX - this.svg.getBoundingClientRect().left;
      this.pointed(SPAN * (1 - (x - GUTTER) / (this.right - GUTTER)));
    });
    this.svg.addEventListener("pointerleave", () => this.pointed(null));
  }

  show(history, { limit = null, marks = null, at = null } = {}) {
    Object.assign(this, { history, limit, marks, at });
    this.redraw();
  }

  get bottom() {
    return this.height - (this.axis ? FOOT : 6);
  }

  draw() {
    const last = this.history.at(-1);
    const highest = Math.max(...this.history.flatMap((point) => this.lines.map(({ of }) => of(point) ?? 0)), 0);
    const top = this.marks ? this.marks.at(-1) * 1.06 : Math.max(highest * 1.12, (this.limit?.value ?? 0) * 1.25, this.least);
    const y = (value) => this.bottom - ((this.bottom - TOP) * value) / top;
    const x = (point) => this.right - ((last.time - point.time) / SPAN) * (this.right - GUTTER);
    this.rows(this.marks ?? ticks(0, top, this.limit ? 3 : 2.4), y);
    if (this.axis) this.seconds();
    if (this.limit) this.threshold(y(this.limit.value));
    if (!last) return this.explain(this.lines.map(({ label, style }) => ({ label, style, value: "–" })));
    for (const line of this.lines) this.trace(line, x, y);
    const point = this.at === null ? last : this.nearest(last.time - this.at);
    if (this.at !== null) this.put("line", { class: "cursor", x1: x(point), x2: x(point), y1: TOP, y2: this.bottom });
    const entries = this.lines.map(({ label, style, of }) => ({ label, style, value: this.format(of(point)) }));
    this.explain(entries);
    this.say(entries.map(({ label, value }) => `${label} ${value}`).join(", ") + (this.limit ? `; ${this.limit.label}` : ""));
  }

  nearest(time) {
    return this.history.reduce((best, p) => (Math.abs(p.time - time) < Math.abs(best.time - time) ? p : best));
  }

  seconds() {
    const x = (ago) => this.right - (ago / SPAN) * (this.right - GUTTER);
    this.columns([
      { x: x(120), text: "2 min ago", anchor: "start" },
      { x: x(60), text: "1 min" },
      { x: x(0), text: "now", anchor: "end" },
    ]);
  }

  threshold(y) {
    this.put("line", { class: "limit", x1: GUTTER, x2: this.right, y1: y, y2: y });
    this.put("text", { class: "limit-name", x: this.right, y: y - 6, "text-anchor": "end" }, this.limit.label);
  }

  /** One line, broken where seconds are missing. */
  trace({ of, style }, x, y) {
    let path = "";
    let before = null;
    let start = null;
    const close = () => {
      if (this.area && before && start !== before) {
        const filled = `${path.slice(path.lastIndexOf("M"))}L${x(before)},${this.bottom}L${x(start)},${this.bottom}Z`;
        this.put("path", { class: `fill ${style}`, d: filled });
      }
    };
    for (const point of this.history) {
      if (!known(of(point))) continue;
      const joined = before && point.time - before.time < 5;
      if (!joined) {
        close();
        start = point;
      }
      path += `${joined ? "L" : "M"}${x(point).toFixed(1)},${y(of(point)).toFixed(1)}`;
      before = point;
    }
    close();
    this.put("path", { class: `line ${style}`, d: path });
    if (before) this.put("circle", { class: `tip ${style}`, cx: x(before), cy: y(of(before)), r: 2.6 });
  }
}

/** The model's quality after each checkpoint against its cost, and where answers are now. */
export class Curve extends Chart {
  constructor(figure) {
    super(figure, 210);
    this.data = null;
  }

  /** points: [{ cost, quality }], now: { cost, quality } or null. Quality below zero is minus a loss, and read as one. */
  show(data) {
    this.data = data;
    this.redraw();
  }

  draw() {
    const { points, now, scale } = this.data ?? {};
    if (!points?.length) {
      this.explain([]);
      return this.note(this.data ? "This model was not validated: no quality is known." : "");
    }
    const lossy = points.every(({ quality }) => quality <= 0);
    const read = (quality) => number(lossy ? -quality : quality);
    const values = points.map(({ quality }) => quality).concat(now ? now.quality : []);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const margin = (high - low || Math.abs(high) || 1) * 0.1;
    const y = (quality) => this.bottom - ((this.bottom - TOP) * (quality - low + margin)) / (high - low + 2 * margin);
    const x = (cost) => GUTTER + (this.right - GUTTER) * scale.place(cost);
    this.rows(ticks(low, high, 4), y, read);
    this.columns(scale.marks.map(({ cost, text }) => ({ x: x(cost), text, anchor: anchored(scale.place(cost)) })));
    let path = "";
    for (const { cost, quality } of points) path += path ? `H${x(cost)}V${y(quality)}` : `M${x(cost)},${y(quality)}`;
    this.put("path", { class: "line base", d: `${path}H${this.right}` });
    const final = points.at(-1);
    const measure = lossy ? "full model, held-out loss" : "full model, held out";
    const entries = [{ label: measure, value: read(final.quality), style: "base" }];
    if (now) {
      this.put("line", { class: "drop", x1: x(now.cost), x2: x(now.cost), y1: y(now.quality), y2: this.bottom });
      this.put("circle", { class: "halo", cx: x(now.cost), cy: y(now.quality), r: 11 });
      this.put("circle", { class: "now", cx: x(now.cost), cy: y(now.quality), r: 5.5 });
      entries.push({ label: "now", value: read(now.quality), style: "first" });
    }
    this.explain(entries);
    this.say(entries.map(({ label, value }) => `${label} ${value}`).join(", ") + (now ? ` at cost ${number(now.cost)}` : ""));
  }
}

const anchored = (place) => (place > 0.95 ? "end" : "middle");

/** Where costs lie between 0 and 1: evenly, or by their logarithm where the first stages are a hundred times cheaper than all. */
export class CostScale {
  constructor(costs, unit) {
    this.most = costs.at(-1) || 1;
    this.least = costs.find((cost) => cost > 0) ?? this.most;
    this.bent = this.most > 100 * this.least;
    const values = this.bent ? this.powers() : ticks(0, this.most, 4);
    this.marks = values.map((cost) => ({ cost, text: number(cost) }));
    const last = this.marks.at(-1);
    if (unit) last.text += ` ${unit}`;
  }

  place(cost) {
    if (!this.bent) return Math.min(cost / this.most, 1);
    if (cost < this.least) return (0.04 * cost) / this.least; // a little room for nothing
    return Math.min(0.04 + (0.96 * Math.log(cost / this.least)) / Math.log(this.most / this.least), 1);
  }

  powers() {
    const found = [0];
    for (let cost = 10 ** Math.ceil(Math.log10(this.least)); cost <= this.most; cost *= 10) found.push(cost);
    return found;
  }
}

/** Shares of answers, as bars. */
export class Bars extends Chart {
  constructor(figure) {
    super(figure, 92);
    this.data = null;
  }

  /** bars: [{ share, name }] of equal width; marks: [{ place, text }], places between 0 and 1. */
  show(data) {
    this.data = data;
    this.redraw();
  }

  draw() {
    const { bars, marks, mean, naming } = this.data ?? { bars: [], marks: [] };
    const x = (place) => GUTTER + (this.right - GUTTER) * place;
    this.put("line", { class: "grid", x1: GUTTER, x2: this.right, y1: this.bottom, y2: this.bottom });
    this.columns(marks.map(({ place, text }) => ({ x: x(place), text, anchor: anchored(place) })));
    this.explain(mean ? [{ label: "mean", value: mean }] : []);
    const commonest = bars.reduce((best, bar) => (bar.share > best.share ? bar : best), { share: 0 });
    if (!commonest.share) return this.say(`${naming}: no answers yet`);
    this.put("text", { x: GUTTER - 8, y: TOP + 8, "text-anchor": "end" }, `${Math.round(100 * commonest.share)} %`);
    const width = Math.max((this.right - GUTTER) / bars.length - 1.5, 1.5);
    bars.forEach(({ share }, i) => {
      if (!share) return;
      const tall = Math.max(((this.bottom - TOP) * share) / commonest.share, 1.5);
      const rounded = Math.min(2, width / 2);
      this.put("rect", { class: "bar", x: x(i / bars.length), y: this.bottom - tall, width, height: tall, rx: rounded });
    });
    this.say(`${naming}: most often ${commonest.name}, ${number(100 * commonest.share)} % of answers`);
  }
}

/** How an answer changes along the budgets of the slider below it. */
export class Path extends Chart {
  constructor(figure) {
    super(figure, 130);
    this.data = null;
  }

  /** steps: [{ position, values }]; lines: names; chosen: index of the line in colour; at: position of the slider. */
  show(data) {
    this.data = data;
    this.redraw();
  }

  get right() {
    return this.width - 11; // half a thumb: the slider's ends stand under the chart's
  }

  draw() {
    const { steps = [], lines = [], chosen = 0, at = 0, most = 1, bounds = null, marks = [] } = this.data ?? {};
    const values = steps.flatMap((step) => step.values);
    if (!values.length) return this.explain([]);
    const [low, high] = bounds ?? [Math.min(...values), Math.max(...values)];
    const y = (value) => this.bottom - ((this.bottom - TOP) * (value - low)) / (high - low || 1);
    const left = GUTTER;
    const x = (position) => left + ((this.right - left) * position) / (most || 1);
    this.rows(ticks(low, high, 2), y);
    this.columns(marks.map(({ position, text }) => ({ x: x(position), text })));
    const order = lines.map((_, i) => i).sort((a, b) => (a === chosen) - (b === chosen));
    for (const i of order) {
      let path = "";
      for (const { position, values: now } of steps) {
        path += path ? `H${x(position)}V${y(now[i])}` : `M${x(position)},${y(now[i])}`;
      }
      this.put("path", { class: `line ${i === chosen ? "first" : "base"}`, d: path });
    }
    this.put("line", { class: "cursor", x1: x(at), x2: x(at), y1: TOP, y2: this.bottom });
    const here = steps.filter(({ position }) => position <= at + 1e-9).at(-1);
    if (here) this.put("circle", { class: "now", cx: x(at), cy: y(here.values[chosen]), r: 5 });
    this.explain([]);
    const ends = `${number(steps[0].values[chosen])} at first, ${number(steps.at(-1).values[chosen])} in the end`;
    this.say(`${lines[chosen]}: ${ends}`);
  }
}
