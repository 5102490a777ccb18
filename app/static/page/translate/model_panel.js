// The panel about the model: architecture, corpora, quality, and current throughput.

import * as api from "../service/api.js";
import { modelNamed, modelOfPair } from "../service/models.js";
import { calibratedDirection } from "./calibration.js";
import { errorMessage } from "./notices.js";
import { forbidsCommercialUse, modelFacts } from "./model_facts.js";
import { number, text } from "../i18n/index.js";

const REFRESH_MS = 3000;

const panel = document.getElementById("model-panel");
const container = document.getElementById("model");
const aside = document.getElementById("model-aside");

/** Shows the model of the selected languages; polls the service only while the panel is open and visible. */
export class ModelPanel {
  #models = [];
  #pair = {};
  #shown = ""; // the model and the direction whose calibration is shown
  #lastResult = null;
  #timer = 0;

  /** @param {(model: any, pair: {source: string, target: string}) => void} onShow called with the model of GET /models
   *    that is shown, whenever it is loaded again, and the selected languages */
  constructor(onShow) {
    this.onShow = onShow;
    panel.addEventListener("toggle", () => this.#refresh());
    document.addEventListener("visibilitychange", () => this.#refresh());
    document.addEventListener("interfacechange", () => this.#render(true));
  }

  /** Loads the models, for the summary line, which is always visible. */
  async start() {
    await this.#load();
  }

  /** @param {{source: string, target: string, model?: string}} pair the selected languages, where the source may be
   *  "auto"; and the model, once a translation names it */
  show(pair) {
    this.#pair = pair;
    this.#render();
  }

  /** @param {import("../service/request_loop.js").Result} result the last translation, for its throughput */
  setLastResult(result) {
    this.#lastResult = result;
    this.show(result);
  }

  async #refresh() {
    clearTimeout(this.#timer);
    if (!panel.open || document.hidden) return;
    // Stops polling when refused, or the key dialog would open every few seconds.
    if (!(await this.#load())) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#refresh(), REFRESH_MS);
  }

  async #load() {
    try {
      this.#models = await api.get("models");
      this.#render();
      return true;
    } catch (error) {
      if (!this.#models.length) container.textContent = errorMessage(error);
      return error instanceof api.Unreachable;
    }
  }

  #render(isForced = false) {
    const model = this.#selectedModel();
    if (!model) return;
    const direction = calibratedDirection(model, this.#pair);
    const selected = `${model.model} ${direction}`;
    if (isForced || selected !== this.#shown) container.replaceChildren(modelFacts(model, direction));
    this.#shown = selected;
    const { precision, device } = model;
    const size = number(model.parameters, { notation: "compact" });
    const facts = text("model.aside", { size, precision, device });
    aside.textContent = forbidsCommercialUse(model) ? text("model.aside.noncommercial", { facts }) : facts;
    this.#renderFigures(model);
    this.onShow(model, this.#pair);
  }

  /** The model of the selected languages; a possible one until a translation names it. */
  #selectedModel() {
    const made = this.#pair.model && modelNamed(this.#models, this.#pair.model);
    return made ?? modelOfPair(this.#models, this.#pair) ?? this.#models[0];
  }

  /** Updates only the figures that change, so that reading and text selection are not disturbed. */
  #renderFigures(model) {
    const rate = model.tokens_per_second;
    setFigure("now", rate === undefined ? null : text("speed.now", { rate: number(Math.round(rate)) }));
    setFigure("precision", text("model.computed", { precision: model.precision, device: model.device }));
    const last = this.#lastResult && modelNamed([model], this.#lastResult.model) ? this.#lastResult : null;
    setFigure("last", last && lastResultText(last));
  }
}

function lastResultText({ milliseconds, tokens }) {
  const rate = number(Math.round((1000 * tokens) / milliseconds));
  return text("speed.last", { time: number(Math.round(milliseconds)), tokens: number(tokens), rate });
}

/** Shows a figure; null hides its row. */
function setFigure(name, words) {
  const figure = container.querySelector(`[data-figure="${name}"]`);
  figure.hidden = figure.previousElementSibling.hidden = words === null;
  if (words !== null && figure.textContent !== words) figure.textContent = words;
}
