// How a sentence was translated: its attention as lines and as heat maps, all of it, to be seen and saved.
//
// Knows which part shows what. Words are i18n/attention.js's, colours are styles/page.css's.

import { chinese, english } from "../i18n/attention.js";
import { Chooser } from "./head_picker.js";
import { make } from "../lib/dom.js";
import { Exports, png, save } from "./save_file.js";
import { Forced } from "./forced_decoding.js";
import { Grid, name } from "./head_grid.js";
import { habitWords } from "./head_patterns.js";
import { HeatMap } from "./heatmap.js";
import { Lines } from "./token_lines.js";
import { Loading } from "./attention_loader.js";
import { faultWords } from "../translate/notices.js";
import { palette } from "../lib/canvas_colours.js";
import { table } from "./weights_table.js";
import { addTexts } from "../i18n/index.js";

const SETTLED_MS = 400;
const PANEL = "attention-view";
const EXTENSIONS = { json: ".json", bertviz: ".bertviz.json", svg: ".svg" };

/**
 * Puts the view into `element`. Nothing is asked of the service before it can be seen: where `element` is in a
 * <details>, that is when it is open.
 * @param element an empty section
 * @param options {api: {get, post, answer}, text(key, values), choice: {kind, layer, head}}; `choice` is changed when
 *   another is made, so that a view that is built again shows the same
 * @returns {{show: (asked: {text: string, source: string, target: string}) => void, clear: () => void,
 *   close: () => void}} `close`: another will be mounted in its place
 */
export function mountAttention(element, { api, text, choice }) {
  addTexts({ en: english, zh: chinese });
  const view = new View(element, api, text, choice);
  return { show: (asked) => view.ask(asked), clear: () => view.clear(), close: () => view.close() };
}

class View {
  constructor(element, api, text, choice) {
    Object.assign(this, { element, api, text, choice, loading: new Loading(api) });
    Object.assign(this, { given: null, wanted: null, asked: null, sentence: null, view: null });
    this.request = new AbortController();
    this.build();
    this.say(text("attention.empty"));
    this.details = element.closest("details");
    this.mounted = new AbortController();
    const { signal } = this.mounted;
    this.details?.addEventListener("toggle", () => this.load(), { signal });
    document.addEventListener("themechange", () => this.sentence && this.render(), { signal });
  }

  /** Another view takes its place: it asks and hears no more. */
  close() {
    this.mounted.abort();
    this.clear();
  }

  build() {
    const { text } = this;
    this.note = make("p", { className: "attention-note", role: "status" });
    this.forced = new Forced(text, (translation) => this.force(translation));
    this.chooser = new Chooser(text, PANEL, (choice) => this.choose(choice));
    this.lines = new Lines(text);
    this.grid = new Grid(text, (layer, head) => this.choose({ layer, head }));
    this.map = new HeatMap(text);
    this.exports = new Exports(text, (format) => this.save(format));
    this.panel = make(
      "div",
      { id: PANEL, role: "tabpanel", className: "attention-panel" },
      this.chooser.about,
      this.lines.element,
      this.lines.said,
      this.maps(),
      this.exports.element,
    );
    this.body = make("div", { className: "attention-body" }, this.forced.element, this.chooser.element, this.panel);
    this.element.replaceChildren(make("div", { className: "attention" }, this.note, this.body));
  }

  maps() {
    const toggle = () => {
      this.table.hidden = !this.table.hidden;
      this.showTable();
    };
    this.title = make("h3", { className: "map-title" });
    this.tableButton = make("button", { type: "button", className: "quiet", on: { click: toggle } });
    this.table = make("div", { className: "table-scroll", role: "region", tabIndex: 0, hidden: true });
    this.habit = make("span", { className: "habit" });
    const heading = make("div", { className: "heading" }, this.title, this.habit, this.tableButton);
    return make(
      "div",
      { className: "maps" },
      make("div", { className: "all" }, make("h3", {}, this.text("attention.maps")), this.grid.element),
      make("div", { className: "large" }, heading, this.map.element),
      this.table,
    );
  }

  /** What is to be shown from now on; asked for when it can be seen and stays the same for a moment. */
  ask({ text, source, target, target_text: forced = null }) {
    const given = { text, source, target, target_text: forced };
    if (same(given, this.given)) return;
    Object.assign(this, { given, wanted: given });
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.load(), this.sentence ? SETTLED_MS : 0);
  }

  clear() {
    clearTimeout(this.settling);
    this.request.abort();
    Object.assign(this, { given: null, wanted: null, asked: null, sentence: null });
    this.say(this.text("attention.empty"));
  }

  /** Shows another translation of the same sentence; with null, the model's own. */
  force(translation) {
    this.wanted = { ...this.asked, target_text: translation };
    this.load();
  }

  async load() {
    if (!this.wanted || same(this.wanted, this.asked) || this.details?.open === false) return;
    clearTimeout(this.settling);
    const asked = this.wanted;
    this.say(this.text("attention.wait"), "waiting");
    await this.requested(async (signal) => {
      const sentence = await this.loading.sentence(asked, signal);
      Object.assign(this, { asked, sentence });
      this.fit();
      this.render();
      this.forced.show(sentence.translation, asked.target_text !== null);
      await this.complete(signal);
    });
  }

  /** Brings the weights of the chosen kind that are not here yet. */
  async complete(signal) {
    const { sentence, asked } = this;
    const { kind } = this.choice;
    const all = sentence.depth[kind];
    const say = () => {
      const missing = sentence.missing(kind).length;
      if (missing) this.say(this.text("attention.wait.layers", { done: all - missing, all }), "waiting");
      else this.say(null);
    };
    say();
    await this.loading.complete(sentence, asked, kind, signal, () => {
      this.grid.fill();
      if (!this.view) this.showMatrix();
      say();
    });
  }

  /** Does `work` in place of what is on its way. What fails is told; a sentence that failed is not shown. */
  async requested(work) {
    this.request.abort();
    this.request = new AbortController();
    const { signal } = this.request;
    try {
      await work(signal);
    } catch (error) {
      if (signal.aborted) return;
      const isForced = same({ ...this.wanted, target_text: null }, { ...this.asked, target_text: null });
      if (isForced) this.wanted = this.asked;
      else Object.assign(this, { asked: null, sentence: null });
      this.given = null; // so that it is tried again when it is given again
      this.say(faultWords(error), "fault");
    }
  }

  /** A choice that this sentence's model has not falls back to the mean. */
  fit() {
    const { kind, layer, head } = this.choice;
    const isThere = layer < this.sentence.depth[kind] && head < this.sentence.heads;
    if (!isThere) Object.assign(this.choice, { layer: null, head: null });
  }

  choose(choice) {
    const changed = choice.kind !== undefined && choice.kind !== this.choice.kind;
    Object.assign(this.choice, choice);
    this.fit();
    if (!changed) {
      this.mark();
      this.showMatrix();
      return;
    }
    this.render();
    // A sentence on its way brings what is chosen when it is there.
    if (same(this.wanted, this.asked)) this.requested((signal) => this.complete(signal));
  }

  render() {
    this.colours = palette(this.element);
    this.grid.show(this.sentence, this.choice.kind, this.colours);
    this.mark();
    this.showMatrix();
  }

  mark() {
    this.chooser.show(this.sentence, this.choice);
    this.panel.setAttribute("aria-labelledby", `${PANEL}-${this.choice.kind}`);
    this.grid.mark(this.choice.layer, this.choice.head);
  }

  showMatrix() {
    const { kind, layer, head } = this.choice;
    const { sentence } = this;
    const matrix = sentence.matrix(kind, layer, head);
    this.title.textContent = name(this.text, layer, head);
    const title = `${this.text(`attention.kind.${kind}`)} · ${this.title.textContent}`;
    const alignment = kind === "cross" && layer === null ? sentence.alignment : null;
    const [keys, queries] = [sentence.keys(kind), sentence.queries(kind)];
    this.view = matrix && { kind, title, matrix, alignment, keys, queries };
    this.habit.textContent = matrix ? habitWords(this.text, kind, matrix) : "";
    this.lines.show(this.view);
    this.map.show(this.view, this.colours);
    this.exports.show(this.view !== null);
    this.showTable();
  }

  showTable() {
    const isShown = !this.table.hidden;
    this.tableButton.textContent = this.text(isShown ? "attention.table.hide" : "attention.table.show");
    this.tableButton.setAttribute("aria-expanded", String(isShown));
    this.table.replaceChildren(...(isShown && this.view ? [table(this.view, this.text)] : []));
    this.table.setAttribute("aria-label", this.view?.title ?? "");
  }

  /** A line above everything: what is waited for, what went wrong; null: nothing. */
  say(words, state = "") {
    this.note.textContent = words ?? "";
    this.note.hidden = words === null;
    this.note.className = `attention-note ${state}`;
    this.body.hidden = !this.sentence;
    this.body.classList.toggle("old", state === "waiting");
    this.element.setAttribute("aria-busy", String(state === "waiting"));
  }

  /** A file of what is shown: a picture of it, or the service's answer as it sends it. */
  async save(format) {
    const file = `attention-${this.asked.source}-${this.asked.target}`;
    if (format === "lines" || format === "map") {
      const figure = format === "lines" ? this.lines : this.map;
      const title = `${this.sentence.model} · ${this.view.title}`;
      save(await png(figure, title, this.colours), `${file}-${this.place()}-${format}.png`);
    } else {
      const response = await this.api.answer("attention", { ...this.asked, as: format });
      save(await response.blob(), `${file}${EXTENSIONS[format]}`);
    }
  }

  place() {
    const { kind, layer, head } = this.choice;
    return [kind, layer === null ? "all" : `layer-${layer + 1}`, head === null ? "mean" : `head-${head + 1}`].join("-");
  }
}

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
