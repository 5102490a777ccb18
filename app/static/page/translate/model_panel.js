// The panel about the model: what it is, what it learnt from, how good it is, how fast now.

import * as api from "../service/api.js";
import { faultWords } from "./notices.js";
import { record } from "./model_facts.js";
import { number, text } from "../i18n/index.js";

const EVERY_MS = 3000;

const panel = document.getElementById("model-panel");
const place = document.getElementById("model");
const aside = document.getElementById("model-aside");

/** The panel, of the model of the languages that are chosen; asks for news only while it is open and seen. */
export class ModelPanel {
  #models = [];
  #pair = {};
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

  /** @param {{source: string, target: string}} pair whose model is shown; the source may be "auto" */
  show(pair) {
    this.#pair = pair;
    this.#draw();
  }

  /** @param {import("../service/request_loop.js").Result} result the last translation, whose time is shown */
  measured(result) {
    this.#last = result;
    this.show(result);
  }

  async #refresh() {
    clearTimeout(this.#timer);
    if (!panel.open || document.hidden) return;
    // Who is refused is not to be asked for a key every few seconds.
    if (!(await this.#ask())) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#refresh(), EVERY_MS);
  }

  async #ask() {
    try {
      this.#models = await api.get("models");
      this.#draw();
      return true;
    } catch (error) {
      if (!this.#models.length) place.textContent = faultWords(error);
      return error instanceof api.Unreachable;
    }
  }

  #draw(anew = false) {
    const model = this.#chosen();
    if (!model) return;
    if (anew || model.model !== this.#shown) place.replaceChildren(record(model));
    this.#shown = model.model;
    const { precision, device } = model;
    const size = number(model.parameters, { notation: "compact" });
    aside.textContent = text("model.aside", { size, precision, device });
    this.#drawFigures(model);
  }

  /** The model of the languages that are chosen; the first that could be, as long as the text's is not known. */
  #chosen() {
    const { source, target } = this.#pair;
    const into = this.#models.filter((model) => model.target === target);
    return into.find((model) => model.source === source) ?? into[0] ?? this.#models[0];
  }

  /** What changes: only these are written again, so that whoever reads or selects is left alone. */
  #drawFigures(model) {
    const now = model.tokens_per_second;
    set("now", now === undefined ? null : text("speed.now", { rate: number(Math.round(now)) }));
    set("precision", text("model.computed", { precision: model.precision, device: model.device }));
    const last = this.#last?.model === model.model ? this.#last : null;
    set("last", last && lastWords(last));
  }
}

function lastWords({ milliseconds, tokens }) {
  const rate = number(Math.round((1000 * tokens) / milliseconds));
  return text("speed.last", { time: number(Math.round(milliseconds)), tokens: number(tokens), rate });
}

/** Shows a figure, or hides its line where there is none. */
function set(name, words) {
  const figure = place.querySelector(`[data-figure="${name}"]`);
  figure.hidden = figure.previousElementSibling.hidden = words === null;
  if (words !== null && figure.textContent !== words) figure.textContent = words;
}
