// The half of the page that asks for many labels at once: a picture, a sentence or a graph, and how its labels come to be.

import { milliseconds, number, percent, withUnit } from "./format.js";
import { events } from "./server.js";

const LONGEST_SIDE = 640; // pixels; larger pictures are made smaller before they are sent
const OVER = 0.62; // opacity of labels over the picture
const SLOWLY = 5000; // milliseconds of a replay
const MOST_SHOWN = 300; // elements of a sentence or graph
const element = (id) => document.getElementById(id);

export class Labelled {
  constructor() {
    this.model = null;
    this.frames = []; // answers in the order in which they came
    this.shown = -1;
    const scene = element("scene");
    element("file").addEventListener("change", ({ target }) => this.choose(target.files[0]));
    for (const kind of ["dragover", "dragleave", "drop"]) {
      scene.addEventListener(kind, (event) => {
        event.preventDefault();
        scene.classList.toggle("over", kind === "dragover");
        if (kind === "drop") this.choose(event.dataTransfer.files[0]);
      });
    }
    element("given").addEventListener("input", () => {
      clearTimeout(this.pause);
      this.pause = setTimeout(() => this.read(), 250);
    });
    element("step").addEventListener("input", ({ target }) => {
      clearInterval(this.replaying);
      this.display(Number(target.value));
    });
    element("replay").addEventListener("click", () => this.replay());
    element("view").addEventListener("click", ({ target }) => {
      target.ariaPressed = String(target.ariaPressed !== "true");
      this.display(this.shown);
    });
  }

  get isPicture() {
    return this.model.labels === "picture";
  }

  /** A model, or a new version of it: the picture stays, and is labelled anew. */
  show(model) {
    const same = this.model?.labels === model.labels;
    this.model = model;
    element("scene").hidden = element("view").hidden = !this.isPicture;
    element("words").hidden = this.isPicture;
    element("given-label").textContent = `The ${model.labels}, as JSON`;
    this.shares = null;
    this.legend();
    if (this.isPicture) {
      if (same && this.picture) this.follow(this.sent);
      else this.clear();
      return;
    }
    if (!same) element("given").value = written(model.example);
    this.read();
  }

  // What is labelled ---------------------------------------------------------------------------------------------

  async choose(file) {
    if (!file) return;
    let bitmap;
    try {
      bitmap = await createImageBitmap(file);
    } catch {
      this.trouble(`${file.name} is no picture that this browser can read.`);
      return;
    }
    const scale = Math.min(1, LONGEST_SIDE / Math.max(bitmap.width, bitmap.height));
    const canvas = element("canvas");
    canvas.width = Math.max(1, Math.round(scale * bitmap.width));
    canvas.height = Math.max(1, Math.round(scale * bitmap.height));
    this.picture = await createImageBitmap(bitmap, { resizeWidth: canvas.width, resizeHeight: canvas.height, resizeQuality: "high" });
    canvas.getContext("2d").drawImage(this.picture, 0, 0);
    canvas.hidden = false;
    element("drop").querySelector("span").textContent = "Choose another picture, or drop it here";
    this.sent = canvas.toDataURL("image/png");
    this.follow(this.sent);
  }

  read() {
    let given;
    try {
      given = JSON.parse(element("given").value);
    } catch {
      this.trouble(`The ${this.model.labels} is not valid JSON.`);
      return;
    }
    this.names = named(Array.isArray(given) ? given : (given?.nodes ?? []));
    element("elements").replaceChildren(
      ...this.names.slice(0, MOST_SHOWN).map((name) => {
        const item = document.createElement("li");
        item.append(name, document.createElement("span"));
        return item;
      }),
    );
    this.follow(given);
  }

  // The answers --------------------------------------------------------------------------------------------------

  clear() {
    this.following?.abort();
    clearInterval(this.replaying);
    this.frames = [];
    this.shown = -1;
    for (const id of ["moment", "label-stage", "label-cost", "label-share"]) element(id).textContent = "–";
    element("wrong").textContent = element("step-value").textContent = element("said").textContent = "";
    element("moment").classList.remove("old");
    for (const id of ["step", "replay", "view"]) element(id).disabled = true;
  }

  /** Every improved labelling, as the server streams them. */
  async follow(raw) {
    this.clear();
    const model = this.model;
    this.following = new AbortController();
    const { signal } = this.following;
    try {
      for (let pause = 250; pause < 5000; pause *= 2) {
        this.frames = [];
        for await (const { event, data } of events("stream", { model: model.name, raw }, signal)) {
          if (event === "error") throw new Error(data.error);
          const frame = await this.frame(data);
          if (signal.aborted) return;
          this.frames.push(frame);
          this.display(this.frames.length - 1);
        }
        if (this.frames.at(-1)?.reason !== "deadline") break;
        await new Promise((resume) => setTimeout(resume, pause)); // cut short for time: later there may be more of it
        if (signal.aborted) return;
      }
      this.finished();
    } catch (error) {
      if (error.name !== "AbortError") this.trouble(error instanceof TypeError ? "The server does not answer." : error.message);
    }
  }

  async frame({ predictions, cost, stage, elapsed_ms: elapsed, reason }) {
    const frame = { cost: cost[0], stage: stage[0], elapsed, reason };
    if (!this.isPicture) return { ...frame, labels: predictions[0] };
    const bytes = Uint8Array.from(atob(predictions[0]), (letter) => letter.charCodeAt(0));
    const options = { colorSpaceConversion: "none", premultiplyAlpha: "none" };
    return { ...frame, map: await createImageBitmap(new Blob([bytes], { type: "image/png" }), options) };
  }

  finished() {
    const last = this.frames.at(-1);
    const several = this.frames.length > 1;
    element("step").disabled = element("replay").disabled = !several;
    element("view").disabled = false;
    const ended = { complete: "All stages", deadline: "Stopped for time", budget: "Stopped by the budget" }[last.reason] ?? "Done";
    const spread = this.ranked().slice(0, 5).map(({ name, share }) => `${name} ${percent(share)}`);
    element("said").textContent = `${ended}, ${milliseconds(last.elapsed)}: ${spread.join(", ")}`;
  }

  trouble(sentence) {
    element("wrong").textContent = sentence;
    element("moment").classList.add("old");
  }

  replay() {
    clearInterval(this.replaying);
    const pause = Math.max(40, Math.min(SLOWLY / this.frames.length, 700));
    let next = 0;
    const forward = () => {
      this.display(next);
      next += 1;
      if (next >= this.frames.length) clearInterval(this.replaying);
    };
    this.replaying = setInterval(forward, pause);
    forward();
  }

  // What is seen -------------------------------------------------------------------------------------------------

  display(place) {
    const frame = this.frames[place];
    if (!frame) return;
    const { model } = this;
    this.shown = place;
    const done = model.n_stages ? frame.stage / model.n_stages : 1;
    element("moment").textContent = milliseconds(frame.elapsed);
    element("label-stage").textContent = `${number(frame.stage)} of ${number(model.n_stages)}`;
    element("label-cost").textContent = withUnit(frame.cost, model.unit);
    element("label-share").textContent = percent(done);
    const slider = element("step");
    slider.max = this.frames.length - 1;
    slider.value = place;
    slider.style.setProperty("--done", `${this.frames.length > 1 ? (100 * place) / (this.frames.length - 1) : 100}%`);
    slider.setAttribute("aria-valuetext", `stage ${frame.stage}, ${milliseconds(frame.elapsed)}`);
    element("step-value").textContent = `${place + 1} of ${this.frames.length} answers`;
    if (this.isPicture) this.paint(frame);
    else this.colour(frame);
    this.legend();
  }

  paint({ map, stage, elapsed }) {
    const canvas = element("canvas");
    const { width, height } = canvas;
    this.shares = this.counted(map, width, height);
    const brush = canvas.getContext("2d");
    brush.globalAlpha = 1;
    brush.drawImage(this.picture, 0, 0);
    brush.imageSmoothingEnabled = false;
    brush.globalAlpha = element("view").ariaPressed === "true" ? 1 : OVER;
    brush.drawImage(map, 0, 0, width, height);
    const most = this.ranked().slice(0, 3).map(({ name, share }) => `${name} ${percent(share)}`);
    canvas.setAttribute("aria-label", `The picture with its labels after stage ${stage}, ${milliseconds(elapsed)}: ${most.join(", ")}`);
  }

  /** The share of the pixels that each class has. */
  counted(map, width, height) {
    this.scratch ??= new OffscreenCanvas(1, 1);
    Object.assign(this.scratch, { width, height });
    const brush = this.scratch.getContext("2d", { willReadFrequently: true });
    brush.drawImage(map, 0, 0);
    const pixels = new Uint32Array(brush.getImageData(0, 0, width, height).data.buffer);
    const counts = new Map();
    for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
    return this.model.colours.map((colour) => (counts.get(packed(colour)) ?? 0) / pixels.length);
  }

  colour({ labels }) {
    const { classes, colours } = this.model;
    const places = new Map(classes.map((name, i) => [name, i]));
    const counts = classes.map(() => 0);
    const items = element("elements").children;
    labels.forEach((label, i) => {
      const place = places.get(label);
      counts[place] += 1;
      if (i >= items.length) return;
      items[i].style.setProperty("--tone", colours[place]);
      items[i].lastChild.textContent = String(label);
    });
    this.shares = counts.map((count) => count / Math.max(labels.length, 1));
  }

  ranked() {
    const shares = this.shares ?? [];
    return shares.map((share, i) => ({ name: String(this.model.classes[i]), share })).filter(({ share }) => share > 0).sort((a, b) => b.share - a.share);
  }

  /** Classes with their colours, in their own order, so that nothing jumps while labels change. */
  legend() {
    const list = element("legend");
    const { classes, colours } = this.model;
    if (list.children.length !== classes.length) {
      list.replaceChildren(...classes.map(() => {
        const item = document.createElement("li");
        item.append(document.createElement("span"), document.createElement("span"));
        return item;
      }));
    }
    classes.forEach((name, i) => {
      const item = list.children[i];
      const share = this.shares?.[i];
      item.style.setProperty("--tone", colours[i]);
      item.firstChild.textContent = String(name);
      item.lastChild.textContent = share ? percent(share) : "";
      item.classList.toggle("none", !share);
    });
  }
}

/** A colour as the four bytes of a pixel, in the order of this machine. */
function packed(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return new Uint32Array(new Uint8Array([red, green, blue, 255]).buffer)[0];
}

/** What elements are called: by the feature that tells most of them apart, else by their numbers. */
function named(elements) {
  const values = new Map();
  for (const features of elements) {
    for (const [key, value] of Object.entries(Array.isArray(features) ? {} : (features ?? {}))) {
      if (typeof value === "string") values.set(key, (values.get(key) ?? new Set()).add(value));
    }
  }
  const tells = ([, words]) => 1000 * words.size + [...words].join("").length; // of equally many, the longer words
  const [best] = [...values].sort((a, b) => tells(b) - tells(a))[0] ?? [];
  return elements.map((features, i) => (best && features?.[best] !== undefined ? String(features[best]) : String(i)));
}

/** JSON with one element per line. */
function written(example) {
  const lines = (list) => `[\n${list.map((item) => `  ${JSON.stringify(item)}`).join(",\n")}\n]`;
  if (Array.isArray(example)) return lines(example);
  return `{"nodes": ${lines(example.nodes)},\n"edges": ${JSON.stringify(example.edges)}}`;
}
