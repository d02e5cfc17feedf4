// The live half of the page: what the server does now, and where on the model's curve that is.

import { Bars, CostScale, Curve, Timeline } from "./charts.js";
import { known, milliseconds, number, percent, withUnit } from "./format.js";

const SPAN = 120; // seconds kept
const COST_BARS = 40;
const LATELY = 5; // seconds over which errors are counted
const element = (id) => document.getElementById(id);

export class Live {
  constructor() {
    this.past = new Map(); // model: [{ time, window }]
    this.history = [];
    this.at = null;
    this.load = new Timeline(element("load-chart"), {
      area: true,
      lines: [{ label: "now", of: ({ window }) => window.rps, style: "first" }],
    });
    this.latency = new Timeline(element("latency-chart"), {
      height: 150,
      format: milliseconds,
      lines: [
        { label: "median", of: ({ window }) => window.p50_ms, style: "third" },
        { label: "95th", of: ({ window }) => window.p95_ms, style: "second" },
        { label: "99th", of: ({ window }) => window.p99_ms, style: "first" },
      ],
    });
    this.depth = new Timeline(element("depth-chart"), {
      height: 138,
      axis: true,
      area: true,
      lines: [{ label: "mean", of: ({ window }) => window.mean_stage, style: "first" }],
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

  /** Figures have arrived, or another model is looked at. */
  show(stats, model) {
    if (stats !== this.stats) this.remember(stats);
    this.stats = stats;
    this.model = model;
    this.history = this.past.get(model.name);
    this.now = this.history.at(-1).window;
    this.spread = spread(model);
    this.soon();
  }

  /** Milliseconds that this model has promised; models without a promise of their own have the server's. */
  get slo() {
    return this.model.slo_ms === undefined ? this.stats.slo_ms : this.model.slo_ms;
  }

  remember(stats) {
    if (stats.uptime < (this.stats?.uptime ?? 0) - 1) this.past.clear(); // the server began anew
    const { refused, failed, turned_away: away } = stats.totals;
    const wrong = refused + failed + away;
    for (const model of stats.models) {
      const window = { ...stats.window, ...model.window, wrong: this.rate(model.name, stats.uptime, wrong) };
      if (stats.models.length > 1) window.rps = model.window.answers / stats.window.seconds;
      const past = (this.past.get(model.name) ?? []).filter(({ time }) => time >= stats.uptime - SPAN);
      this.past.set(model.name, [...past, { time: stats.uptime, window, wrong }]);
    }
  }

  /** Requests per second, of late, that were refused or failed. */
  rate(name, time, wrong) {
    const then = this.past.get(name)?.find((point) => point.time >= time - LATELY);
    return then && time > then.time ? (wrong - then.wrong) / (time - then.time) : 0;
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
    const limit = milliseconds(this.slo);
    const late = now.late_share ?? 0;
    const busy = now.rps > 0;
    element("intime").classList.toggle("late", busy && late > 0.005);
    set("rps", number(now.rps));
    set("p50", busy ? milliseconds(now.p50_ms) : "–");
    set("p95", busy ? milliseconds(now.p95_ms) : "–");
    set("p99", busy ? milliseconds(now.p99_ms) : "–");
    set("intime", busy && this.slo ? percent(1 - late) : "–");
    set("partial", busy ? percent(now.partial_share) : "–");
    set("batch", busy ? number(now.mean_batch) : "–");
    set("queue", number(now.queue));
    set("errors", number(now.wrong));
    element("errors").classList.toggle("late", now.wrong > 0);
    if (!busy) {
      set("headline", now.wrong > 0 ? `${number(now.wrong)} requests per second refused` : "Ready to answer");
      const seconds = Math.max(1, Math.round(now.seconds ?? 1));
      set("story", `No requests ${now.wrong > 0 ? "answered " : ""}in the last ${seconds} s. Try a ${model.labels ?? "row"} below.`);
      return;
    }
    const share = late > 0 ? `${percent(1 - late)}` : "all";
    const promise = this.slo ? `${share} within ${limit}` : `half of them within ${milliseconds(now.p50_ms)}`;
    set("headline", `${number(now.rps)} ${now.rps === 1 ? "request" : "requests"} per second, ${promise}`);
    const full = now.mean_stage > model.n_stages - 0.05;
    const all = number(model.n_stages);
    const depth = full ? `Answers run all ${all} stages` : `Answers run ${number(now.mean_stage)} of ${all} stages on average`;
    const price = known(now.mean_cost) ? ` and cost ${withUnit(now.mean_cost, model.unit)}` : "";
    set("story", `${depth}${price}${this.worth(full)}.`);
  }

  /** What is given up for being in time, in the model's own measure. */
  worth(full) {
    const point = this.operating();
    if (!point || full) return "";
    const lossy = this.model.quality.every((quality) => quality <= 0);
    const [here, best] = [point.quality, this.model.quality.at(-1)].map((quality) => number(Math.abs(quality)));
    return `: ${lossy ? "held-out loss" : "held-out quality"} ${here}, against ${best} of the full model`;
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
    const all = model.n_stages;
    const limit = this.slo ? { value: this.slo, label: `SLO ${milliseconds(this.slo)}` } : null;
    element("latency-chart").querySelector("h3").textContent = stats.models.length > 1 ? "Latency of all models" : "Latency";
    this.load.show(history, { at });
    this.latency.show(history, { at, limit });
    this.depth.show(history, { at, marks: [0, ...(all < 6 ? [] : [Math.round(all / 2)]), all] });
  }

  distributions() {
    const { model, now, spread: bins } = this;
    const scale = new CostScale(model.stage_costs, model.unit);
    const busy = now.rps > 0;
    const points = model.quality?.map((quality, i) => ({ cost: model.stage_costs[i], quality })) ?? [];
    this.curve.show({ points, now: this.operating(), scale });
    this.costs.show({
      bars: costBars(bins, model, scale),
      marks: scale.marks.map(({ cost, text }) => ({ place: scale.place(cost), text })),
      mean: busy ? withUnit(now.mean_cost, model.unit) : null,
      naming: "Cost of answers",
    });
    this.stages.show({
      bars: bins.map(({ stage, share }) => ({ name: `stage ${number(stage)}`, share })),
      marks: bins.map(({ stage }, i) => ({ place: (i + 0.5) / bins.length, text: number(stage) })),
      mean: busy ? `${number(now.mean_stage)} of ${number(model.n_stages)}` : null,
      naming: "Stage of answers",
    });
  }

  tables() {
    const { history, model, spread: bins, stats } = this;
    fill("time-table", () =>
      history.toReversed().map(({ time, window }) => {
        const { rps, p50_ms, p95_ms, p99_ms, mean_stage, mean_cost } = window;
        return [String(Math.round(stats.uptime - time)), ...[rps, p50_ms, p95_ms, p99_ms, mean_stage, mean_cost].map(number)];
      }),
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

/** Bars along the cost axis: what it costs to come to the stages that answers came to. */
function costBars(bins, model, scale) {
  const bars = Array.from({ length: COST_BARS }, () => ({ share: 0, name: "" }));
  for (const { at, share } of bins) {
    const cost = model.stage_costs[at];
    const bar = bars[Math.min(Math.floor(COST_BARS * scale.place(cost)), COST_BARS - 1)];
    bar.share += share;
    bar.name = `about ${withUnit(cost, model.unit)}`;
  }
  return bars;
}
