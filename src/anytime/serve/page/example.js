// The half of the page that asks: a row in fields, a budget under the thumb, the answer beside it.

import { Advice } from "./advice.js";
import { Path } from "./charts.js";
import { answer, known, milliseconds, number, percent, withUnit } from "./format.js";
import { ask, events } from "./server.js";

const MOST_FIELDS = 400; // wider rows are edited as text
const FOLDED = 8; // a group of more columns than this begins closed, unless it is the only one
const PATIENCE = 10_000; // milliseconds
const LINES = 4; // probabilities drawn
const element = (id) => document.getElementById(id);

export class Example {
  constructor() {
    this.form = element("row");
    this.slider = element("budget");
    this.path = new Path(element("path-chart"));
    this.advice = new Advice(() => ({ row: this.row(), budget: this.budget }));
    this.model = null;
    this.form.addEventListener("input", () => this.changed());
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.slider.addEventListener("input", () => this.moved());
    element("path-table").closest("details").addEventListener("toggle", () => this.table());
  }

  /** A model, or a new version of it: what was typed stays where the columns are the same. */
  show(model) {
    const share = this.model?.name === model.name ? this.slider.value / this.slider.max : 1;
    const same = JSON.stringify(this.model?.columns) === JSON.stringify(model.columns);
    this.model = model;
    this.steps = [];
    this.budgets = [...new Set(model.stage_costs)].sort((a, b) => a - b);
    this.slider.max = this.budgets.length - 1;
    this.slider.value = Math.round(share * this.slider.max);
    const wide = !model.columns.length; // the server sends no columns where there are thousands
    document.querySelector(".result").hidden = wide;
    const sorry = `${number(model.n_columns)} columns are too many for a form: POST /predict takes them.`;
    if (wide) return this.form.replaceChildren(sorry);
    if (!same) this.form.replaceChildren(...(model.columns.length > MOST_FIELDS ? [this.asText()] : this.asFields()));
    this.advice.show(model);
    this.refine();
    this.moved();
  }

  // The row ------------------------------------------------------------------------------------------------------

  asFields() {
    const groups = Map.groupBy(this.model.columns.map((column, i) => ({ ...column, i })), ({ group }) => group ?? "");
    const alone = [...groups.values()].every((columns) => columns.length === 1);
    if (alone) return [this.fields([...groups.values()].flat(), true)];
    return [...groups].map(([group, columns]) => {
      const box = document.createElement("details");
      box.className = "group";
      box.open = columns.length <= FOLDED || groups.size === 1;
      const title = document.createElement("summary");
      const name = document.createElement("span");
      name.textContent = group || "other columns";
      const price = document.createElement("span");
      price.className = "price";
      price.textContent = this.price(columns[0].price);
      title.append(name, price);
      const inside = this.fields(columns, false);
      inside.setAttribute("role", "group");
      inside.setAttribute("aria-label", `${name.textContent}, ${price.textContent}`);
      box.append(title, inside);
      return box;
    });
  }

  price(value) {
    if (!known(value)) return "";
    return value === 0 ? "free" : withUnit(value, this.model.unit);
  }

  fields(columns, priced) {
    const box = document.createElement("div");
    box.className = "fields";
    for (const { name, price, i } of columns) {
      const label = document.createElement("label");
      const title = document.createElement("span");
      title.textContent = /^\d+$/.test(name) ? `column ${name}` : name;
      label.append(title);
      if (priced && price > 0) {
        const tag = document.createElement("span");
        tag.className = "price";
        tag.textContent = this.price(price);
        label.append(tag);
      }
      const input = document.createElement("input");
      const value = this.model.example?.[i];
      input.name = `column-${i}`; // a bare number would be taken for a position
      input.value = value ?? "";
      input.placeholder = "missing";
      if (typeof value === "number") input.inputMode = "decimal";
      label.append(input);
      box.append(label);
    }
    return box;
  }

  asText() {
    const label = document.createElement("label");
    label.textContent = `${number(this.model.columns.length)} values, as JSON`;
    const text = document.createElement("textarea");
    text.name = "json";
    text.rows = 12;
    text.spellcheck = false;
    text.value = JSON.stringify(this.model.example);
    label.append(text);
    return label;
  }

  row() {
    if (this.form.elements.json) return JSON.parse(this.form.elements.json.value);
    return this.model.columns.map((_, i) => {
      const text = this.form.elements[`column-${i}`].value.trim();
      if (text === "") return null;
      const value = Number(text);
      return Number.isNaN(value) ? text : value;
    });
  }

  // The answer ---------------------------------------------------------------------------------------------------

  changed() {
    clearTimeout(this.pause);
    this.pause = setTimeout(() => {
      this.refine();
      this.moved();
    }, 120);
  }

  get budget() {
    return this.budgets[Number(this.slider.value)];
  }

  moved() {
    const most = this.budgets.at(-1);
    const said = withUnit(this.budget, this.model.unit);
    const share = this.budgets.length > 1 ? this.slider.value / this.slider.max : 1;
    this.slider.style.setProperty("--done", `${100 * share}%`);
    this.slider.setAttribute("aria-valuetext", said);
    element("budget-value").textContent = this.budget === most ? `${said}, all of it` : `${said} of ${number(most)}`;
    this.draw();
    this.request();
    this.advice.request();
  }

  body() {
    const wanted = { model: this.model.name, rows: [this.row()] };
    return this.model.classes ? { ...wanted, probabilities: true } : wanted;
  }

  /** One question at a time; whatever moved meanwhile is asked next. */
  async request() {
    this.stale = true;
    if (this.asking) return;
    this.asking = true;
    while (this.stale) {
      this.stale = false;
      const model = this.model;
      try {
        const row = this.following;
        const reply = await ask("predict", { ...this.body(), budget: this.budget }, AbortSignal.timeout(PATIENCE));
        if (model !== this.model) continue;
        this.answered(reply);
        if (row !== this.following) continue; // the row has changed meanwhile: this belongs to another path
        this.note(reply);
        this.draw();
        this.table();
      } catch (error) {
        this.trouble(error);
      }
    }
    this.asking = false;
  }

  trouble(error) {
    const silent = error instanceof TypeError || error.name === "TimeoutError";
    const said = error instanceof SyntaxError ? "The row is not valid JSON." : error.message;
    element("trouble").textContent = silent ? "The server does not answer." : said;
    element("answer").classList.add("old");
  }

  answered({ predictions, probabilities, cost, stage, branch, partial, elapsed_ms: elapsed }) {
    const { model } = this;
    element("trouble").textContent = this.broken; // the path is cut short, whatever this answer is
    element("answer").classList.remove("old");
    element("answer").textContent = answer(predictions[0]);
    element("cost").textContent = withUnit(cost[0], model.unit);
    element("stage").textContent = branch && branch[0] >= 0
      ? `branch ${number(branch[0])}, for this budget`
      : `${number(stage[0])} of ${number(model.n_stages)}${partial[0] ? ", stopped for time" : ""}`;
    element("elapsed").textContent = milliseconds(elapsed);
    this.probabilities(probabilities?.[0], predictions[0]);
    clearTimeout(this.speech);
    this.speech = setTimeout(() => {
      const chance = probabilities ? `, ${percent(Math.max(...probabilities[0]))}` : "";
      const spent = `cost ${withUnit(cost[0], model.unit)}, stage ${stage[0]}`;
      element("spoken").textContent = `Answer ${answer(predictions[0])}${chance}, ${spent}`;
    }, 500);
  }

  probabilities(probabilities, prediction) {
    const list = element("probabilities");
    list.hidden = !probabilities;
    if (!probabilities) return;
    const ranked = probabilities.map((share, i) => ({ share, name: String(this.model.classes[i]) }));
    const shown = ranked.length > 6 ? ranked.toSorted((a, b) => b.share - a.share).slice(0, 5) : ranked;
    while (list.children.length > shown.length) list.lastChild.remove();
    while (list.children.length < shown.length) list.append(chanceLine());
    shown.forEach(({ share, name }, i) => {
      const [label, bar, value] = list.children[i].children;
      label.textContent = name;
      value.textContent = percent(share);
      bar.firstChild.style.width = `${100 * share}%`;
      list.children[i].classList.toggle("chosen", name === String(prediction));
    });
  }

  // How it refines -----------------------------------------------------------------------------------------------

  /** Every improved answer to this row, as the server streams them. */
  async refine() {
    this.following?.abort();
    this.following = new AbortController();
    const { signal } = this.following;
    this.steps = [];
    this.broken = ""; // the sentence with which the stream has ended, if something failed
    try {
      for (let pause = 250; pause < 5000; pause *= 2) {
        if (await this.streamed(signal)) return;
        await new Promise((resume) => setTimeout(resume, pause)); // cut short for time: later there may be more of it
        if (signal.aborted) return;
      }
    } catch (error) {
      if (error.name !== "AbortError") this.trouble(error);
    }
  }

  /** Whether the stream came to its end. */
  async streamed(signal) {
    let reply = null;
    for await (const { event, data } of events("stream", this.body(), signal)) {
      if (event === "error") {
        this.broken = data.error;
        break;
      }
      reply = data;
      this.note(reply);
    }
    this.draw();
    this.table();
    if (this.broken) throw new Error(this.broken);
    return !reply?.partial[0];
  }

  /** One more point of the path, from whichever answer it was learned. */
  note({ stage, cost, predictions, probabilities }) {
    const step = { stage: stage[0], cost: cost[0], answer: predictions[0], probabilities: probabilities?.[0] };
    const after = this.steps.findIndex((known) => known.stage >= step.stage);
    if (after < 0) this.steps.push(step);
    else this.steps.splice(after, this.steps[after].stage === step.stage ? 1 : 0, step);
  }

  /** Where a cost lies on the slider, whose steps are the costs of the model's checkpoints. */
  position(cost) {
    const next = this.budgets.findIndex((budget) => budget >= cost);
    if (next < 0) return this.budgets.length - 1;
    if (next === 0) return 0;
    const [low, high] = [this.budgets[next - 1], this.budgets[next]];
    return next - 1 + (cost - low) / (high - low);
  }

  draw() {
    const { model, budgets } = this;
    const { steps } = this;
    const last = steps.at(-1);
    if (!last) return this.path.show(null);
    const classes = last.probabilities ? top(last.probabilities, LINES) : null;
    const marks = [];
    const every = Math.max(1, Math.floor(budgets.length / 5));
    for (let i = 0; i < budgets.length; i += every) marks.push({ position: i, text: number(budgets[i]) });
    this.path.show({
      steps: steps.map(({ cost, probabilities, answer: value }) => ({
        position: this.position(cost),
        values: classes ? classes.map((i) => probabilities[i]) : [Number(value)],
      })),
      lines: classes ? classes.map((i) => `Probability of ${model.classes[i]}`) : ["Answer"],
      bounds: classes ? [0, 1] : null,
      at: Number(this.slider.value),
      most: budgets.length - 1,
      marks,
    });
  }

  table() {
    const table = element("path-table");
    if (!table.closest("details").open) return;
    table.tBodies[0].replaceChildren(
      ...this.steps.map(({ stage, cost, answer: value, probabilities }) => {
        const row = document.createElement("tr");
        const said = answer(value) + (probabilities ? `, ${percent(Math.max(...probabilities))}` : "");
        for (const text of [number(stage), withUnit(cost, this.model.unit), said]) row.insertCell().textContent = text;
        return row;
      }),
    );
  }
}

const top = (values, count) =>
  values.map((_, i) => i).sort((a, b) => values[b] - values[a]).slice(0, count);

function chanceLine() {
  const line = document.createElement("li");
  const [label, bar, fill, value] = ["span", "span", "span", "span"].map((name) => document.createElement(name));
  bar.className = "chance";
  value.className = "value";
  bar.append(fill);
  line.append(label, bar, value);
  return line;
}
