// The live half of the page: what the server does now, and where on the model's curve that is.

import { Bars, Curve, Timeline } from "./charts.js";
import { known, milliseconds, number, percent, withUnit } from "./format.js";

const SPAN = 120; // seconds kept
const element = (id) => document.getElementById(id);

export class Live {
  constructor() {
    this.history = [];
    this.at = null;
    this.load = new Timeline(element("load-chart"), { lines: [{ label: "now", of: (p) => p.rps, style: "first" }], area: true });
    this.latency = new Timeline(element("latency-chart"), {
      height: 150,
      format: milliseconds,
      lines: [
        { label: "median", of: (p) => p.p50, style: "third" },
        { label: "95th", of: (p) => p.p95, style: "second" },
        { label: "99th", of: (p) => p.p99, style: "first" },
      ],
    });
    this.depth = new Timeline(element("depth-chart"), {
      height: 138,
      axis: true,
      area: true,
      lines: [{ label: "mean", of: (p) => p.stage, style: "first" }],
    });
    for (const chart of [this.load, this.latency, this.depth]) {
      chart.pointed = (ago) => {
        this.at = ago === null ? null : Math.max(0, ago);
        this.soon();
      };
    }
    this.curve = new Curve(element("quality-chart"));
    this.costs = new Bars(element("cost-chart"));
    this.stages = new Bars(element("stage-chart"));
    for (const table of ["time-table", "stage-table"]) {
      element(table).closest("details").addEventListener("toggle", () => this.soon());
    }
  }

  /** Another model: its past is another one too. */
  forget() {
    this.history = [];
  }

  show(stats, model) {
    this.stats = stats;
    this.model = model;
    this.now = { ...stats.window, ...model.window };
    if (stats.models.length > 1) this.now.rps = model.window.answers / stats.window.seconds;
    const last = this.history.at(-1);
    if (last && stats.uptime < last.time - 1) this.forget(); // the server began anew
    const { rps, p50_ms: p50, p95_ms: p95, p99_ms: p99, mean_stage: stage, mean_cost: cost } = this.now;
    this.history.push({ time: stats.uptime, rps, p50, p95, p99, stage, cost });
    this.history = this.history.filter(({ time }) => time >= stats.uptime - SPAN);
    this.spread = spread(model);
    this.soon();
  }

  /** Draw once before the next frame, however much has arrived; not at all while nobody looks. */
  soon() {
    if (!this.stats) return;
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.words();
      this.timelines();
      this.distributions();
      this.tables();
    });
  }

  /** The headline, the sentence below it and the row of figures. */
  words() {
    const { now, stats, model } = this;
    const set = (id, text) => {
      if (element(id).textContent !== text) element(id).textContent = text;
    };
    const limit = milliseconds(stats.slo_ms);
    const late = now.late_share ?? 0;
    const busy = now.rps > 0;
    element("intime").classList.toggle("late", busy && late > 0.005);
    set("rps", number(now.rps));
    set("p50", busy ? milliseconds(now.p50_ms) : "–");
    set("p95", busy ? milliseconds(now.p95_ms) : "–");
    set("p99", busy ? milliseconds(now.p99_ms) : "–");
    set("intime", busy && stats.slo_ms ? percent(1 - late) : "–");
    set("partial", busy ? percent(now.partial_share) : "–");
    set("batch", busy ? number(now.mean_batch) : "–");
    set("queue", number(now.queue));
    if (!busy) {
      set("headline", "Ready to answer");
      set("story", `No requests in the last ${Math.max(1, Math.round(now.seconds ?? 1))} s. Try a row below.`);
      return;
    }
    const share = late > 0 ? `${percent(1 - late)}` : "all";
    const promise = stats.slo_ms ? `${share} within ${limit}` : `half of them within ${milliseconds(now.p50_ms)}`;
    set("headline", `${number(now.rps)} ${now.rps === 1 ? "request" : "requests"} per second, ${promise}`);
    const full = now.mean_stage > model.n_stages - 0.05;
    const depth = full ? `Answers run all ${number(model.n_stages)} stages` : `Answers run ${number(now.mean_stage)} of ${number(model.n_stages)} stages on average`;
    const price = known(now.mean_cost) ? ` and cost ${withUnit(now.mean_cost, model.unit)}` : "";
    set("story", `${depth}${price}${this.worth(full)}.`);
  }

  /** What is given up for being in time, in the model's own measure. */
  worth(full) {
    const point = this.operating();
    if (!point || full) return "";
    const lossy = this.model.quality.every((quality) => quality <= 0);
    const [here, best] = [point.quality, this.model.quality.at(-1)].map((quality) => number(Math.abs(quality)));
    return lossy ? `: held-out loss ${here}, against ${best} of the full model` : `: ${here} right on held-out rows, against ${best} of the full model`;
  }

  /** Mean cost and mean held-out quality of the answers now. */
  operating() {
    const { model, now, spread: bins } = this;
    const total = bins.reduce((sum, { share }) => sum + share, 0);
    if (!model.quality || !total || !(now.rps > 0)) return null;
    const quality = bins.reduce((sum, { share, at }) => sum + share * model.quality[at], 0) / total;
    return { cost: now.mean_cost, quality };
  }

  timelines() {
    const { history, at, stats, model } = this;
    const limit = stats.slo_ms ? { value: stats.slo_ms, label: `SLO ${milliseconds(stats.slo_ms)}` } : null;
    this.load.show(history, { at });
    this.latency.show(history, { at, limit });
    this.depth.show(history, { at, marks: model.n_stages < 6 ? [0, model.n_stages] : [0, Math.round(model.n_stages / 2), model.n_stages] });
  }

  distributions() {
    const { model, now, stats, spread: bins } = this;
    const most = model.stage_costs.at(-1);
    const points = model.quality?.map((quality, i) => ({ cost: model.stage_costs[i], quality })) ?? [];
    this.curve.show({ points, now: this.operating(), unit: model.unit, most });
    this.costs.show({
      bars: costBars(bins, model),
      most,
      unit: model.unit,
      mean: now.rps > 0 ? withUnit(now.mean_cost, model.unit) : null,
      naming: "Cost of answers",
    });
    this.stages.show({
      bars: bins.map(({ stage, share }) => ({ name: number(stage), share })),
      mean: now.rps > 0 ? `${number(now.mean_stage)} of ${number(model.n_stages)}` : null,
      naming: "Stage of answers",
    });
  }

  tables() {
    const { history, model, spread: bins, stats } = this;
    fill("time-table", () =>
      history.toReversed().map(({ time, rps, p50, p95, p99, stage, cost }) =>
        [stats.uptime - time, rps, p50, p95, p99, stage, cost].map((value, i) => (i ? number(value) : String(Math.round(value)))),
      ),
    );
    fill("stage-table", () =>
      bins.map(({ stage, at, share }) => [
        number(stage),
        withUnit(model.stage_costs[at], model.unit),
        model.quality ? number(model.quality[at]) : "–",
        percent(share),
      ]),
    );
  }
}

/** Tables are written only while they are open. */
function fill(id, rows) {
  const table = element(id);
  if (!table.closest("details").open) return;
  table.tBodies[0].replaceChildren(
    ...rows().map((cells) => {
      const row = document.createElement("tr");
      for (const text of cells) row.insertCell().textContent = text;
      return row;
    }),
  );
}

/** Shares of answers by the checkpoint they have passed last. */
const spread = ({ stages: { edges, share } }) => edges.map((stage, at) => ({ stage, at, share: share[at] }));

/** Bars on the cost axis: what it costs to come to the stages that answers came to. */
function costBars(bins, model) {
  const most = model.stage_costs.at(-1);
  const count = 40;
  const bars = Array.from({ length: count }, (_, i) => {
    const [from, to] = [(most * i) / count, (most * (i + 1)) / count];
    return { from, to, share: 0, name: withUnit(to, model.unit) };
  });
  for (const { at, share } of bins) {
    const place = Math.ceil((count * model.stage_costs[at]) / (most || 1)) - 1;
    bars[Math.min(count - 1, Math.max(0, place))].share += share;
  }
  return bars;
}
