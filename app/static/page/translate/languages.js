// Which languages: the two lists, what was told of the text's own, and swapping them.

import { keep, recall } from "../lib/storage.js";
import { languageName, number, text } from "../i18n/index.js";

const STORED = "interlinear.pair";
const USED = "interlinear.targets"; // chosen by hand before, the latest first
const CERTAIN = 0.5; // confidence from which a text that is in the target language changes the target
export const AUTO = "auto";

const from = document.getElementById("source-language");
const into = document.getElementById("target-language");
const swap = document.getElementById("swap");

/** The languages that are chosen, of those that are served. */
export class Languages {
  /** @type {{code: string, name: string, targets: string[]}[]} */
  #served = [];
  #told = null; // {source, confidence} of the text, where it was not said
  #settled = false; // the target was chosen for the very text that is there

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
    this.choose(source || AUTO, target || this.#preferred(this.#targetsOf(AUTO)));
    this.#settled = false;
  }

  /** The text is another one: if it turns out to be in the target language, the target changes. */
  textChanged() {
    this.#settled = false;
  }

  /** @returns {string[]} what the text can be in, for the target that is chosen */
  get sources() {
    if (this.source !== AUTO) return [this.source];
    return this.#served.filter(({ targets }) => targets.includes(this.target)).map(({ code }) => code);
  }

  /** Chooses what of it is served, and what goes with it where it is not.
   *  @param {string} source @param {string} target @param {boolean} [byHand] it is remembered */
  choose(source, target, byHand = false) {
    this.#told = null;
    this.#settled = true;
    const codes = this.#served.map(({ code }) => code);
    const chosen = codes.includes(source) ? source : AUTO;
    const targets = this.#targetsOf(chosen);
    fill(from, [AUTO, ...codes], chosen, (code) => this.#sourceName(code));
    fill(into, targets, targets.includes(target) ? target : targets[0], (code) => this.#name(code));
    this.#reflectSwap();
    if (byHand) {
      keep(STORED, `${this.source}/${this.target}`);
      keep(USED, [...new Set([this.target, ...usedBefore()])].join(" "));
    }
    this.told.changed(byHand);
  }

  /** @param {string} source the text's language as told @param {number | null} confidence */
  tell(source, confidence) {
    this.#told = this.source === AUTO && confidence !== null ? { source, confidence } : null;
    this.#relabel();
    const isInTarget = this.#told?.source === this.target && confidence >= CERTAIN;
    const others = isInTarget && !this.#settled ? this.#targetsOf(source) : [];
    if (others.length) this.choose(AUTO, this.#preferred(others));
  }

  /** Which of `targets` this reader wants: the last used, else the browser's languages, else the first. */
  #preferred(targets) {
    const wanted = [...usedBefore(), ...navigator.languages.flatMap((code) => [code, code.split("-")[0]])];
    return wanted.find((code) => targets.includes(code)) ?? targets[0];
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

function usedBefore() {
  return (recall(USED) ?? "").split(" ").filter(Boolean);
}

function fill(select, codes, chosen, name) {
  select.replaceChildren(...codes.map((code) => new Option(name(code), code, false, code === chosen)));
}
