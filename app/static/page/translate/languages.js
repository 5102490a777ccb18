// The language lists, the detected language, and the button that swaps languages.

import { make } from "../lib/dom.js";
import { setStored, getStored } from "../lib/storage.js";
import { languageName, number, text } from "../i18n/index.js";

const STORED_PAIR = "interlinear.pair";
const STORED_TARGETS = "interlinear.targets"; // selected by the user before, the latest first
const MIN_CONFIDENCE = 0.5; // of detection, from which a text in the target language changes the target
export const AUTO = "auto";

/** @typedef {{sources: (target: string) => string[], targets: (source: string) => string[]}} Offered codes of languages
 *    that are not served from or into another one, but could be */
const NOTHING_OFFERED = { sources: () => [], targets: () => [] };

const sourceSelect = document.getElementById("source-language");
const targetSelect = document.getElementById("target-language");
const swap = document.getElementById("swap");

/** The selection of source and target among the served languages. */
export class LanguagePicker {
  /** @type {{code: string, name: string, targets: string[]}[]} */
  #served = [];
  #offered = NOTHING_OFFERED;
  #detected = null; // {source, confidence} of the text, if the source is "auto"
  #isTargetFixed = false; // the target was selected for the current text

  /** @param {{onChange: (byUser: boolean) => void, onSwap: () => void, announce: (words: string) => void}} callbacks */
  constructor(callbacks) {
    this.callbacks = callbacks;
    sourceSelect.addEventListener("change", () => this.select(sourceSelect.value, targetSelect.value, true));
    targetSelect.addEventListener("change", () => this.select(sourceSelect.value, targetSelect.value, true));
    swap.addEventListener("click", () => this.#swap());
  }

  /** @returns {string} a code, or "auto" */
  get source() {
    return sourceSelect.value;
  }

  /** @returns {string} a code */
  get target() {
    return targetSelect.value;
  }

  /** @param {{code: string, name: string, targets: string[]}[]} served the response of GET /languages */
  load(served) {
    this.#served = served;
    const [source, target] = (getStored(STORED_PAIR) ?? "").split("/");
    this.select(source || AUTO, target || this.#preferred(this.#targetsOf(AUTO)));
    this.#isTargetFixed = false;
  }

  /** Takes a later response of GET /languages, and keeps the selected pair if it is possible.
   *  @param {{code: string, name: string, targets: string[]}[]} served */
  update(served) {
    const wasServed = this.isServed;
    this.#served = served;
    this.select(this.source, this.target, !wasServed && this.isServed);
  }

  /** Adds further languages to both lists, below those served. @param {Offered} offered */
  offer(offered) {
    this.#offered = offered;
    this.#listOffered();
  }

  /** @returns {string[]} codes of the source languages that are served */
  get servedCodes() {
    return this.#served.map(({ code }) => code);
  }

  /** @param {string} source a code, or "auto" @param {string} target @returns {boolean} */
  serves(source, target) {
    return this.#targetsOf(source).includes(target);
  }

  /** @returns {boolean} whether the selected pair is served, and not only offered */
  get isServed() {
    return this.serves(this.source, this.target);
  }

  /** Allows a new text to change the target, if detection finds it in the target language. */
  textChanged() {
    this.#isTargetFixed = false;
  }

  /** @returns {string[]} the possible source languages for the selected target */
  get sources() {
    if (this.source !== AUTO) return [this.source];
    return this.#served.filter(({ targets }) => targets.includes(this.target)).map(({ code }) => code);
  }

  /** Selects a pair, or the closest possible one.
   *  @param {string} source @param {string} target @param {boolean} [byUser] store the selection */
  select(source, target, byUser = false) {
    this.#detected = null;
    this.#isTargetFixed = true;
    const codes = this.servedCodes;
    const selected = [...codes, ...this.#offered.sources(target)].includes(source) ? source : AUTO;
    const offered = this.#offered.targets(selected);
    const isOffered = selected !== AUTO && !codes.includes(selected);
    const targets = isOffered ? this.#servedAmong(offered) : this.#targetsOf(selected);
    const possible = [...targets, ...offered];
    const selectedTarget = possible.includes(target) ? target : possible[0];
    fillSelect(sourceSelect, [AUTO, ...codes], selected, (code) => this.#sourceName(code));
    fillSelect(targetSelect, targets, selectedTarget, (code) => this.#name(code));
    this.#listOffered(selected, selectedTarget);
    this.#updateSwap();
    if (byUser && this.isServed) {
      setStored(STORED_PAIR, `${this.source}/${this.target}`);
      setStored(STORED_TARGETS, [...new Set([this.target, ...storedTargets()])].join(" "));
    }
    this.callbacks.onChange(byUser);
  }

  /** @param {string} source the language that the service detected @param {number | null} confidence */
  setDetected(source, confidence) {
    this.#detected = this.source === AUTO && confidence !== null ? { source, confidence } : null;
    this.#relabelSources();
    const isInTarget = this.#detected?.source === this.target && confidence >= MIN_CONFIDENCE;
    const otherTargets = isInTarget && !this.#isTargetFixed ? this.#targetsOf(source) : [];
    if (otherTargets.length) this.select(AUTO, this.#preferred(otherTargets));
  }

  /** The preferred one of `targets`: the last used, else one of the browser's languages, else the first. */
  #preferred(targets) {
    const candidates = [...storedTargets(), ...navigator.languages.flatMap((code) => [code, code.split("-")[0]])];
    return candidates.find((code) => targets.includes(code)) ?? targets[0];
  }

  /** Updates the names after a change of interface language. */
  relabel() {
    for (const option of targetSelect.options) option.textContent = this.#name(option.value);
    this.#relabelSources();
    this.#listOffered(); // in the order of their new names
  }

  #relabelSources() {
    for (const option of sourceSelect.options) option.textContent = this.#sourceName(option.value);
    this.#updateSwap();
  }

  /** Lists the languages that are only offered in a group below the others. */
  #listOffered(source = this.source, target = this.target) {
    const name = (code) => this.#name(code);
    fillGroup(sourceSelect, this.#offered.sources(target), source, name);
    fillGroup(targetSelect, this.#offered.targets(source), target, name);
  }

  /** Those of `codes` that are served as a target of other languages. */
  #servedAmong(codes) {
    const targets = this.#targetsOf(AUTO);
    return codes.filter((code) => targets.includes(code));
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
    if (!this.#detected) return text("auto");
    const { source, confidence } = this.#detected;
    if (source === "und") return text("auto.unknown");
    const percent = number(Math.min(confidence, 0.99), { style: "percent" });
    return text("auto.told", { language: this.#name(source), percent });
  }

  /** @returns {[string, string] | null} the pair after swapping; null if it is not served */
  #swappedPair() {
    const source = this.source === AUTO ? (this.#detected?.source ?? this.#onlySource()) : this.source;
    return source && this.#targetsOf(this.target).includes(source) ? [this.target, source] : null;
  }

  /** The only possible source language, or null if there are several. */
  #onlySource() {
    const codes = this.#served.filter(({ targets }) => targets.includes(this.target)).map(({ code }) => code);
    return codes.length === 1 ? codes[0] : null;
  }

  #updateSwap() {
    const possible = this.#swappedPair() !== null;
    // Not `disabled`, so that keyboard users can focus it and hear the reason.
    swap.setAttribute("aria-disabled", String(!possible));
    swap.title = possible ? text("swap") : this.#swapUnavailableReason();
  }

  #swapUnavailableReason() {
    const source = this.source === AUTO ? (this.#detected?.source ?? this.#onlySource()) : this.source;
    if (!source || source === "und") return text("swap.auto");
    return text("swap.not", { from: this.#name(this.target), into: this.#name(source) });
  }

  #swap() {
    const pair = this.#swappedPair();
    if (!pair) return this.callbacks.announce(this.#swapUnavailableReason());
    this.callbacks.onSwap();
    this.select(...pair, true);
  }
}

function storedTargets() {
  return (getStored(STORED_TARGETS) ?? "").split(" ").filter(Boolean);
}

function fillSelect(select, codes, selected, name) {
  select.replaceChildren(...codes.map((code) => new Option(name(code), code, false, code === selected)));
}

/** Puts a group of further codes at the end of a list, which has the others already. */
function fillGroup(select, codes, selected, name) {
  select.querySelector("optgroup")?.remove();
  const listed = new Set([...select.options].map(({ value }) => value));
  const names = codes.filter((code) => !listed.has(code)).map((code) => [name(code), code]);
  if (!names.length) return;
  names.sort(([one], [other]) => one.localeCompare(other, document.documentElement.lang));
  const options = names.map(([label, code]) => new Option(label, code, false, code === selected));
  select.append(make("optgroup", { label: text("installs.more") }, ...options));
}
