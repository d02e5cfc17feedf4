// What to buy next: the groups that a row has are ticked, the model says which comes next, a press buys it.

import { known, number, percent, withUnit } from "./format.js";
import { ask } from "./server.js";

const PATIENCE = 10_000; // milliseconds
const element = (id) => document.getElementById(id);

export class Advice {
  /** @param question what is asked now: the row and the budget. */
  constructor(question) {
    this.question = question;
    this.box = element("next-box");
    this.bought = element("bought");
    this.box.addEventListener("toggle", () => this.request());
    this.bought.addEventListener("change", () => this.request());
  }

  /** A model, or a new version of it: what was bought stays where the groups are the same. */
  show(model) {
    const groups = [...new Set(model.columns.map(({ group }) => group).filter(Boolean))];
    this.box.hidden = !groups.length;
    this.model = model;
    const now = [...this.ticks].map(({ value }) => value);
    if (now.join("\n") !== groups.join("\n")) this.bought.replaceChildren(legend(), ...groups.map(tick));
  }

  get ticks() {
    return this.bought.querySelectorAll("input");
  }

  /** One question at a time; whatever changed meanwhile is asked next. */
  async request() {
    this.stale = true;
    if (this.asking || !this.box.open || this.box.hidden) return;
    this.asking = true;
    while (this.stale) {
      this.stale = false;
      const { model } = this;
      const bought = [...this.ticks].filter(({ checked }) => checked).map(({ value }) => value);
      try {
        const wanted = { model: model.name, bought, ...this.question() };
        const said = await ask("next", wanted, AbortSignal.timeout(PATIENCE));
        if (model === this.model) this.answered(said);
      } catch (error) {
        element("advice").textContent = error.message;
        element("offers").tBodies[0].replaceChildren();
      }
    }
    this.asking = false;
  }

  answered({ advice, offers, probability, unit }) {
    element("advice").textContent = advice;
    const change = (value) => (probability === null ? number(value) : percent(value));
    element("offers").tBodies[0].replaceChildren(
      ...offers.map((offer) => {
        const row = document.createElement("tr");
        const cells = [offer.buys.join(", "), withUnit(offer.price, unit), number(offer.gain)];
        for (const text of [...cells, known(offer.change) ? change(offer.change) : "–"]) row.insertCell().textContent = text;
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = "Buy";
        button.setAttribute("aria-label", `Buy ${offer.group}`);
        button.addEventListener("click", () => this.buy(offer.buys));
        row.insertCell().append(button);
        return row;
      }),
    );
  }

  buy(groups) {
    for (const input of this.ticks) input.checked ||= groups.includes(input.value);
    this.request();
  }
}

function legend() {
  const title = document.createElement("legend");
  title.textContent = "Bought already";
  return title;
}

function tick(group) {
  const label = document.createElement("label");
  const input = document.createElement("input");
  input.type = "checkbox";
  input.value = group;
  label.append(input, group);
  return label;
}
