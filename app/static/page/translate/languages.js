// Which languages: the two lists, what was told of the text's own, and swapping them.

import { keep, recall } from "./storage.js";
import { languageName, number, text } from "./texts.js";

const STORED = "interlinear.pair";
export const AUTO = "auto";

const from = document.getElementById("source-language");
const into = document.getElementById("target-language");
const swap = document.getElementById("swap");

/** The languages that are chosen, of those that are served. */
export class Languages {
  /** @type {{code: string, name: string, targets: string[]}[]} */
  #served = [];
  #told = null; // {source, confidence} of the text, where it was not said

  /** @param {{changed: (byHand: boolean) => void, swapped: () => void, say: (words: string) => void}} told */
  constructor(told) {
    this.told = told;
    from.addEventListener("change", () => this.choose(from.value, into.value, true));
    into.addEventListener("change", () => this.choose(from.value, into.value, true));
    swap.addEventListener("click", () => this.#swap());
  }

  /** @returns {string} a code, or "auto" */
  get source() {
    return from.value;
  }

  /** @returns {string} a code */
  get target() {
    return into.value;
  }

  /** @param {{code: string, name: string, targets: string[]}[]} served as GET /languages tells them */
  load(served) {
    this.#served = served;
    const [source, target] = (recall(STORED) ?? "").split("/");
    this.choose(source || AUTO, target);
  }

  /** Chooses what of it is served, and what goes with it where it is not.
   *  @param {string} source @param {string} target @param {boolean} [byHand] it is remembered */
  choose(source, target, byHand = false) {
    this.#told = null;
    const codes = this.#served.map(({ code }) => code);
    const chosen = codes.includes(source) ? source : AUTO;
    const targets = this.#targetsOf(chosen);
    fill(from, [AUTO, ...codes], chosen, (code) => this.#sourceName(code));
    fill(into, targets, targets.includes(target) ? target : targets[0], (code) => this.#name(code));
    this.#reflectSwap();
    if (byHand) keep(STORED, `${this.source}/${this.target}`);
    this.told.changed(byHand);
  }

  /** @param {string} source the text's language as told @param {number | null} confidence */
  tell(source, confidence) {
    this.#told = this.source === AUTO && confidence !== null ? { source, confidence } : null;
    this.#relabel();
  }

  /** Says the names again, in another language. */
  rename() {
    for (const option of into.options) option.textContent = this.#name(option.value);
    this.#relabel();
  }

  #relabel() {
    for (const option of from.options) option.textContent = this.#sourceName(option.value);
    this.#reflectSwap();
  }

  #targetsOf(source) {
    const found = this.#served.filter(({ code }) => source === AUTO || code === source);
    return [...new Set(found.flatMap(({ targets }) => targets))];
  }

  #name(code) {
    const name = languageName(code);
    return name === code ? (this.#served.find((language) => language.code === code)?.name ?? code) : name;
  }

  #sourceName(code) {
    if (code !== AUTO) return this.#name(code);
    if (!this.#told) return text("auto");
    const { source, confidence } = this.#told;
    if (source === "und") return text("auto.unknown");
    const percent = number(Math.min(confidence, 0.99), { style: "percent" });
    return text("auto.told", { language: this.#name(source), percent });
  }

  /** @returns {[string, string] | null} what swapping would choose; null: it is not served */
  #swapped() {
    const source = this.source === AUTO ? (this.#told?.source ?? this.#only()) : this.source;
    return source && this.#targetsOf(this.target).includes(source) ? [this.target, source] : null;
  }

  /** The language that a text can be in, if it is one alone. */
  #only() {
    const codes = this.#served.filter(({ targets }) => targets.includes(this.target)).map(({ code }) => code);
    return codes.length === 1 ? codes[0] : null;
  }

  #reflectSwap() {
    const possible = this.#swapped() !== null;
    // Not `disabled`: whoever comes by keyboard is to find it, and hear why.
    swap.setAttribute("aria-disabled", String(!possible));
    swap.title = possible ? text("swap") : this.#whyNot();
  }

  #whyNot() {
    const source = this.source === AUTO ? (this.#told?.source ?? this.#only()) : this.source;
    if (!source || source === "und") return text("swap.auto");
    return text("swap.not", { from: this.#name(this.target), into: this.#name(source) });
  }

  #swap() {
    const swapped = this.#swapped();
    if (!swapped) return this.told.say(this.#whyNot());
    this.told.swapped();
    this.choose(...swapped, true);
  }
}

function fill(select, codes, chosen, name) {
  select.replaceChildren(...codes.map((code) => new Option(name(code), code, false, code === chosen)));
}
