// The attention of a sentence, as lines between tokens and as heat maps of all layers and heads, to view and to save.
// Texts are in i18n/attention.js, colours in styles/page.css.

import { chinese, english } from "../i18n/attention.js";
import { HeadPicker } from "./head_picker.js";
import { make } from "../lib/dom.js";
import { SaveButtons, downloadBlob, renderPng } from "./save_file.js";
import { ForcedDecodingForm } from "./forced_decoding.js";
import { HeadGrid, headName } from "./head_grid.js";
import { headPatternText } from "./head_patterns.js";
import { HeatMap } from "./heatmap.js";
import { TokenLines } from "./token_lines.js";
import { AttentionLoader } from "./attention_loader.js";
import { errorMessage } from "../translate/notices.js";
import { palette } from "../lib/canvas_colours.js";
import { weightsTable } from "./weights_table.js";
import { addTexts } from "../i18n/index.js";

const SETTLE_MS = 400;
const PANEL_ID = "attention-view";
const EXTENSIONS = { json: ".json", bertviz: ".bertviz.json", svg: ".svg" };

/**
 * Mounts the view in `element`. If `element` is in a <details>, the view sends requests only while that is open.
 * @param element an empty section
 * @param options {api: {get, post, postForResponse}, text(key, values), choice: {kind, layer, head}}; the view updates
 *   `choice`, so that a view mounted in its place shows the same layer and head
 * @returns {{show: (request: {text: string, source: string, target: string}) => void, clear: () => void,
 *   close: () => void}} call `close` before mounting another view in its place
 */
export function mountAttention(element, { api, text, choice }) {
  addTexts({ en: english, zh: chinese });
  const view = new View(element, api, text, choice);
  return { show: (request) => view.show(request), clear: () => view.clear(), close: () => view.close() };
}

class View {
  constructor(element, api, text, choice) {
    Object.assign(this, { element, api, text, choice, loader: new AttentionLoader(api) });
    Object.assign(this, { input: null, pendingRequest: null, shownRequest: null, sentence: null, view: null });
    this.controller = new AbortController();
    this.build();
    this.setStatus(text("attention.empty"));
    this.details = element.closest("details");
    this.mounted = new AbortController();
    const { signal } = this.mounted;
    this.details?.addEventListener("toggle", () => this.load(), { signal });
    document.addEventListener("themechange", () => this.sentence && this.render(), { signal });
  }

  /** Aborts requests and removes event listeners. */
  close() {
    this.mounted.abort();
    this.clear();
  }

  build() {
    const { text } = this;
    this.statusLine = make("p", { className: "attention-note", role: "status" });
    this.forced = new ForcedDecodingForm(text, (translation) => this.force(translation));
    this.headPicker = new HeadPicker(text, PANEL_ID, (choice) => this.choose(choice));
    this.tokenLines = new TokenLines(text);
    this.headGrid = new HeadGrid(text, (layer, head) => this.choose({ layer, head }));
    this.heatMap = new HeatMap(text);
    this.saveButtons = new SaveButtons(text, (format) => this.save(format));
    this.panel = make(
      "div",
      { id: PANEL_ID, role: "tabpanel", className: "attention-panel" },
      this.headPicker.description,
      this.tokenLines.element,
      this.tokenLines.statusLine,
      this.maps(),
      this.saveButtons.element,
    );
    this.body = make("div", { className: "attention-body" }, this.forced.element, this.headPicker.element, this.panel);
    this.element.replaceChildren(make("div", { className: "attention" }, this.statusLine, this.body));
  }

  maps() {
    const toggle = () => {
      this.tableRegion.hidden = !this.tableRegion.hidden;
      this.showTable();
    };
    this.title = make("h3", { className: "map-title" });
    this.tableButton = make("button", { type: "button", className: "quiet", on: { click: toggle } });
    this.tableRegion = make("div", { className: "table-scroll", role: "region", tabIndex: 0, hidden: true });
    this.patternLine = make("span", { className: "pattern" });
    const heading = make("div", { className: "heading" }, this.title, this.patternLine, this.tableButton);
    return make(
      "div",
      { className: "maps" },
      make("div", { className: "all" }, make("h3", {}, this.text("attention.maps")), this.headGrid.element),
      make("div", { className: "large" }, heading, this.heatMap.element),
      this.tableRegion,
    );
  }

  /** Shows the attention of this request, once it is visible and has not changed for a moment. */
  show({ text, source, target, target_text: forced = null }) {
    const input = { text, source, target, target_text: forced };
    if (isEqual(input, this.input)) return;
    Object.assign(this, { input, pendingRequest: input });
    clearTimeout(this.settleTimer);
    this.settleTimer = setTimeout(() => this.load(), this.sentence ? SETTLE_MS : 0);
  }

  clear() {
    clearTimeout(this.settleTimer);
    this.controller.abort();
    Object.assign(this, { input: null, pendingRequest: null, shownRequest: null, sentence: null });
    this.setStatus(this.text("attention.empty"));
  }

  /** Shows another translation of the same sentence; with null, the model's own. */
  force(translation) {
    this.pendingRequest = { ...this.shownRequest, target_text: translation };
    this.load();
  }

  async load() {
    const request = this.pendingRequest;
    if (!request || isEqual(request, this.shownRequest) || this.details?.open === false) return;
    clearTimeout(this.settleTimer);
    this.setStatus(this.text("attention.wait"), "waiting");
    await this.replaceRequest(async (signal) => {
      const sentence = await this.loader.sentence(request, signal);
      Object.assign(this, { shownRequest: request, sentence });
      this.resetInvalidChoice();
      this.render();
      this.forced.show(sentence.translation, request.target_text !== null);
      await this.complete(signal);
    });
  }

  /** Loads the missing weights of the selected kind. */
  async complete(signal) {
    const { sentence, shownRequest } = this;
    const { kind } = this.choice;
    const all = sentence.depth[kind];
    const showProgress = () => {
      const missing = sentence.missing(kind).length;
      if (missing) this.setStatus(this.text("attention.wait.layers", { done: all - missing, all }), "waiting");
      else this.setStatus(null);
    };
    showProgress();
    await this.loader.complete(sentence, shownRequest, kind, signal, () => {
      this.headGrid.paintLoaded();
      if (!this.view) this.showMatrix();
      showProgress();
    });
  }

  /** Aborts the current request and runs `operation`. On an error, shows it, and no sentence that failed. */
  async replaceRequest(operation) {
    this.controller.abort();
    this.controller = new AbortController();
    const { signal } = this.controller;
    try {
      await operation(signal);
    } catch (error) {
      if (signal.aborted) return;
      const unforced = (request) => ({ ...request, target_text: null });
      const isForced = isEqual(unforced(this.pendingRequest), unforced(this.shownRequest));
      if (isForced) this.pendingRequest = this.shownRequest;
      else Object.assign(this, { shownRequest: null, sentence: null });
      this.input = null; // so that showing it again tries again
      this.setStatus(errorMessage(error), "fault");
    }
  }

  /** Falls back to what this sentence's model has: to cross-attention, and to the mean of layers and heads. */
  resetInvalidChoice() {
    if (this.sentence.depth[this.choice.kind] === 0) this.choice.kind = "cross";
    const { kind, layer, head } = this.choice;
    const isValid = layer < this.sentence.depth[kind] && head < this.sentence.heads;
    if (!isValid) Object.assign(this.choice, { layer: null, head: null });
  }

  choose(choice) {
    const changed = choice.kind !== undefined && choice.kind !== this.choice.kind;
    Object.assign(this.choice, choice);
    this.resetInvalidChoice();
    if (!changed) {
      this.updateSelection();
      this.showMatrix();
      return;
    }
    this.render();
    // A sentence that is loading will load the selected kind itself.
    if (isEqual(this.pendingRequest, this.shownRequest)) this.replaceRequest((signal) => this.complete(signal));
  }

  render() {
    this.colours = palette(this.element);
    this.headGrid.show(this.sentence, this.choice.kind, this.colours);
    this.updateSelection();
    this.showMatrix();
  }

  updateSelection() {
    this.headPicker.show(this.sentence, this.choice);
    this.panel.setAttribute("aria-labelledby", `${PANEL_ID}-${this.choice.kind}`);
    this.headGrid.select(this.choice.layer, this.choice.head);
  }

  showMatrix() {
    const { kind, layer, head } = this.choice;
    const { sentence } = this;
    const matrix = sentence.matrix(kind, layer, head);
    this.title.textContent = headName(this.text, layer, head);
    const title = `${this.text(`attention.kind.${kind}`)} · ${this.title.textContent}`;
    const alignment = kind === "cross" && layer === null ? sentence.alignment : null;
    const [keys, queries] = [sentence.keys(kind), sentence.queries(kind)];
    this.view = matrix && { kind, title, matrix, alignment, keys, queries };
    this.patternLine.textContent = matrix ? headPatternText(this.text, kind, matrix) : "";
    this.tokenLines.show(this.view);
    this.heatMap.show(this.view, this.colours);
    this.saveButtons.show(this.view !== null);
    this.showTable();
  }

  showTable() {
    const isShown = !this.tableRegion.hidden;
    this.tableButton.textContent = this.text(isShown ? "attention.table.hide" : "attention.table.show");
    this.tableButton.setAttribute("aria-expanded", String(isShown));
    this.tableRegion.replaceChildren(...(isShown && this.view ? [weightsTable(this.view, this.text)] : []));
    this.tableRegion.setAttribute("aria-label", this.view?.title ?? "");
  }

  /** Shows progress or an error above the view; null hides the line. */
  setStatus(message, state = "") {
    this.statusLine.textContent = message ?? "";
    this.statusLine.hidden = message === null;
    this.statusLine.className = `attention-note ${state}`;
    this.body.hidden = !this.sentence;
    this.body.classList.toggle("old", state === "waiting");
    this.element.setAttribute("aria-busy", String(state === "waiting"));
  }

  /** Saves a PNG of a figure, or the service's answer unchanged. */
  async save(format) {
    const file = `attention-${this.shownRequest.source}-${this.shownRequest.target}`;
    if (format === "lines" || format === "map") {
      const figure = format === "lines" ? this.tokenLines : this.heatMap;
      const title = `${this.sentence.model} · ${this.view.title}`;
      downloadBlob(await renderPng(figure, title, this.colours), `${file}-${this.fileSuffix()}-${format}.png`);
    } else {
      const response = await this.api.postForResponse("attention", { ...this.shownRequest, as: format });
      downloadBlob(await response.blob(), `${file}${EXTENSIONS[format]}`);
    }
  }

  fileSuffix() {
    const { kind, layer, head } = this.choice;
    return [kind, layer === null ? "all" : `layer-${layer + 1}`, head === null ? "mean" : `head-${head + 1}`].join("-");
  }
}

const isEqual = (one, other) => JSON.stringify(one) === JSON.stringify(other);
