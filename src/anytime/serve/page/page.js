// The page: one connection to the server's figures, and the two halves that show them.

import { Example } from "./example.js";
import { duration, number } from "./format.js";
import { Labelled } from "./labelled.js";
import { Live } from "./live.js";
import { events, useToken } from "./server.js";

const THEMES = ["auto", "light", "dark"];
const element = (id) => document.getElementById(id);
const live = new Live();
const example = new Example();
const labelled = new Labelled();
let shown = null; // name and version of the model on the page

function receive(stats) {
  offer(stats.models);
  const model = stats.models.find(({ name }) => name === element("model").value) ?? stats.models[0];
  if (!model) return;
  const key = `${model.name} ${model.version}`;
  if (key !== shown) {
    shown = key;
    element("version").textContent = `version ${model.version}, ${number(model.n_stages)} stages`;
    document.title = `${model.name} · anytime`;
    tryOut(model);
  }
  live.show(stats, model);
  const workers = stats.workers?.length ?? 1;
  element("about").textContent = `Up for ${duration(stats.uptime)}, ${workers} ${workers === 1 ? "worker" : "workers"}`;
}

/** What can be tried: a row of a table, or a picture, a sentence or a graph. */
function tryOut(model) {
  const what = model.labels ?? "row";
  element("row-bench").hidden = what !== "row";
  element("label-bench").hidden = what === "row";
  element("try-title").textContent = `Try a ${what}`;
  element("try-lead").textContent = {
    row: "Change a value, or drag the budget: the server answers with what the budget buys.",
    picture: "Watch it being labelled: the first labels come soon, and every stage refines those that are still uncertain.",
  }[what] ?? "Change it and watch the labels: every stage buys more features, and asks what the neighbours are taken for.";
  (what === "row" ? example : labelled).show(model);
}

/** The models in the selector, changed only when they changed. */
function offer(models) {
  const select = element("model");
  const names = models.map(({ name }) => name);
  if (names.join("\n") === [...select.options].map(({ value }) => value).join("\n")) return;
  const chosen = select.value;
  select.replaceChildren(...names.map((name) => new Option(name, name, false, name === chosen)));
  select.disabled = names.length < 2;
}

function state(name, words) {
  const link = element("link");
  if (link.dataset.state === name) return;
  link.dataset.state = name;
  link.textContent = words;
}

let latest = null;
let wake = () => {};

async function follow() {
  for (let wait = 1; ; wait = Math.min(2 * wait, 10)) {
    try {
      for await (const { data } of events("stats/stream")) {
        wait = 1;
        latest = data;
        state("live", "Live");
        receive(data);
      }
      state("lost", "Connection lost, trying again");
    } catch (error) {
      element("key").hidden = error.status !== 401;
      state("lost", error.status === 401 ? "Token needed" : "Connection lost, trying again");
    }
    await new Promise((resume) => {
      wake = resume;
      setTimeout(resume, 1000 * wait);
    });
  }
}

element("key").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(element("token").value);
  element("key").hidden = true;
  wake();
});

element("model").addEventListener("change", () => latest && receive(latest));

function theme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  element("theme").textContent = `Theme: ${name}`;
}

element("theme").addEventListener("click", () => {
  const now = document.documentElement.dataset.theme ?? "auto";
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  theme(next);
  try {
    if (next === "auto") localStorage.removeItem("theme");
    else localStorage.setItem("theme", next);
  } catch {
    // then it holds until the page is left
  }
});

theme(document.documentElement.dataset.theme ?? "auto");
follow();
