// The panel about the models: what they are, what they learnt from, how good they are, how fast now.

import * as api from "./api.js";
import { faultWords } from "./notes.js";
import { languageName, number, text } from "./texts.js";

const EVERY_MS = 3000;

const panel = document.getElementById("model-panel");
const place = document.getElementById("model");
const aside = document.getElementById("model-aside");

/** The panel; asks for news only while it is open and seen. */
export class ModelPanel {
  #models = [];
  #shown = "";
  #last = null;
  #timer = 0;

  constructor() {
    panel.addEventListener("toggle", () => this.#refresh());
    document.addEventListener("visibilitychange", () => this.#refresh());
    document.addEventListener("interfacechange", () => this.#draw(true));
  }

  /** Asks once, for the line that is always seen. */
  async start() {
    await this.#ask();
  }

  /** @param {import("./cycle.js").Result} result the last translation, whose time is shown */
  measured(result) {
    this.#last = result;
    this.#draw();
  }

  async #refresh() {
    clearTimeout(this.#timer);
    if (!panel.open || document.hidden) return;
    await this.#ask();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#refresh(), EVERY_MS);
  }

  async #ask() {
    try {
      this.#models = await api.get("models");
      this.#draw();
    } catch (error) {
      if (!this.#models.length) place.textContent = faultWords(error);
    }
  }

  #draw(anew = false) {
    if (!this.#models.length) return;
    const names = this.#models.map(({ model }) => model).join();
    if (anew || names !== this.#shown) place.replaceChildren(...this.#models.map(record));
    this.#shown = names;
    const [first] = this.#models;
    const size = number(first.parameters / 1e6, { maximumFractionDigits: 1 });
    const words = { size, precision: first.precision, device: first.device, count: this.#models.length };
    aside.textContent = text(this.#models.length > 1 ? "model.asides" : "model.aside", words);
    this.#models.forEach((model, index) => this.#drawFigures(model, place.children[index]));
  }

  /** What changes: only these are written again, so that whoever reads or selects is left alone. */
  #drawFigures(model, element) {
    const now = model.tokens_per_second;
    set(element, "now", now === undefined ? null : text("speed.tokens", { count: number(Math.round(now)) }));
    set(element, "precision", text("model.computed", { precision: model.precision, device: model.device }));
    const last = this.#last?.model === model.model ? this.#last : null;
    set(element, "last", last && lastWords(last));
  }
}

function lastWords({ milliseconds, tokens }) {
  const rate = number(Math.round((1000 * tokens) / milliseconds));
  return text("speed.last", { time: number(Math.round(milliseconds)), tokens: number(tokens), rate });
}

/** Shows a figure, or hides its line where there is none. */
function set(element, name, words) {
  const figure = element.querySelector(`[data-figure="${name}"]`);
  figure.hidden = figure.previousElementSibling.hidden = words === null;
  if (words !== null && figure.textContent !== words) figure.textContent = words;
}

function record(model) {
  const article = make("article", { className: "record" });
  const pair = text("model.pair", { from: languageName(model.source), into: languageName(model.target) });
  const columns = make("div", { className: "columns" }, facts(model), tables(model));
  article.append(make("h3", {}, pair), columns);
  return article;
}

function facts(model) {
  const shape = model.architecture;
  const list = make("dl");
  const add = (name, ...values) => list.append(make("dt", {}, text(name)), make("dd", {}, ...values));
  const figure = (name, key) => {
    add(name);
    list.lastChild.dataset.figure = key;
  };
  add("model.name", make("code", {}, model.model));
  add("model.architecture", text("model.layers", shape), make("br"), text("model.width", shape));
  add("model.parameters", number(model.parameters));
  add("model.vocabulary", text("model.pieces", { count: number(shape.target_vocab_size) }));
  add("model.licence", model.licence ?? text("model.unsaid"));
  if (model.checksum) add("model.checksum", make("code", {}, model.checksum));
  figure("model.precision", "precision");
  figure("model.now", "now");
  figure("model.last", "last");
  return list;
}

function tables({ corpora, metrics }) {
  const both = make("div", { className: "tables" });
  if (metrics.length) both.append(figures(metrics));
  if (corpora.length) both.append(sources(corpora));
  return both;
}

/** A line for each set; a column for each metric. */
function figures(metrics) {
  const sets = [...new Set(metrics.map(({ set }) => set))];
  const names = [...new Set(metrics.map(({ metric }) => metric))];
  const rows = sets.map((set) => {
    const of = metrics.filter((figure) => figure.set === set);
    const score = (name) => of.find(({ metric }) => metric === name)?.score;
    const written = (value) => (value === undefined ? "–" : number(value, { maximumFractionDigits: 1, minimumFractionDigits: 1 }));
    return [set, number(of[0].sentences ?? 0), ...names.map((name) => written(score(name)))];
  });
  return table(text("model.figures"), [text("model.set"), text("model.sentences"), ...names], rows);
}

function sources(corpora) {
  const rows = corpora.map((corpus) => [corpus.name ?? String(corpus), corpus.pairs ? number(corpus.pairs) : "–"]);
  return table(text("model.corpora"), [text("model.corpus"), text("model.pairs")], rows);
}

function table(caption, names, rows) {
  const heads = names.map((name) => make("th", { scope: "col" }, name));
  const lines = rows.map(([name, ...values]) =>
    make("tr", {}, make("th", { scope: "row" }, name), ...values.map((value) => make("td", {}, value))),
  );
  const head = make("thead", {}, make("tr", {}, ...heads));
  return make("table", {}, make("caption", {}, caption), head, make("tbody", {}, ...lines));
}

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}
