// The panel about the models: what they are, what they learnt from, how good they are, how fast now.

import * as api from "./api.js";
import { faultWords } from "./notes.js";
import { record } from "./record.js";
import { number, text } from "./texts.js";

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
    if (!this.#models.length) return;
    const names = this.#models.map(({ model }) => model).join();
    if (anew || names !== this.#shown) place.replaceChildren(...this.#models.map(record));
    this.#shown = names;
    const [first] = this.#models;
    const size = number(first.parameters, { notation: "compact" });
    const words = { size, precision: first.precision, device: first.device, count: this.#models.length };
    aside.textContent = text(this.#models.length > 1 ? "model.asides" : "model.aside", words);
    this.#models.forEach((model, index) => this.#drawFigures(model, place.children[index]));
  }

  /** What changes: only these are written again, so that whoever reads or selects is left alone. */
  #drawFigures(model, element) {
    const now = model.tokens_per_second;
    set(element, "now", now === undefined ? null : text("speed.now", { rate: number(Math.round(now)) }));
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
