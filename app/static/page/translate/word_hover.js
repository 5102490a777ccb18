// Pointing at a word, or stepping to it, lights its counterpart in the other pane.

import { pairsOf } from "./word_alignment.js";
import * as panes from "./panes.js";
import { overlap, unitsOf } from "../lib/offsets.js";
import { text } from "../i18n/index.js";

const source = document.getElementById("source-text");
const target = document.getElementById("target-text");

/** Code points of a sentence and of its translation that belong together.
 *  @typedef {{source: number[][], target: number[][]}} Found */

/** What is lit in the panes. */
export class Links {
  /** @type {import("../service/request_loop.js").Result | null} */
  #result = null;
  #chosen = null; // a sentence
  #stepped = null; // the word that the arrow keys are at
  #unit; // of the text, that is pointed at
  #pointing = 0; // what was pointed at last; answers to what was before are too late
  #failed = false; // the last answer, which was told

  /** @param {{choose: (index: number) => void, fault: (error: Error) => void, mended: () => void,
   *           say: (words: string) => void}} told */
  constructor(told) {
    this.told = told;
    target.addEventListener("pointerover", (event) => this.#overTarget(event));
    source.addEventListener("pointermove", (event) => this.#overSource(event));
    source.addEventListener("selectionchange", () => this.#caretMoved());
    target.addEventListener("click", (event) => this.#clicked(event));
    target.addEventListener("keydown", (event) => this.#keyed(event));
    for (const pane of [source, target]) {
      for (const event of ["pointerleave", "blur"]) pane.addEventListener(event, () => this.#left());
    }
  }

  /** @param {import("../service/request_loop.js").Result | null} result what the panes show, null while they do not agree */
  show(result) {
    this.#result = result;
    this.#chosen = this.#stepped = null;
    this.#unit = undefined;
    this.#failed = false;
    this.#dark();
  }

  /** @param {number | null} index lights a sentence, until another is chosen */
  choose(index) {
    this.#chosen = index;
    this.#dark();
    panes.revealSource();
  }

  #dark() {
    this.#pointing += 1;
    panes.lightSource(this.#chosenPlace());
    panes.lightTarget([], this.#chosen);
  }

  #chosenPlace() {
    if (this.#chosen === null || !this.#result) return [];
    const [start, end] = this.#result.sentences[this.#chosen].source;
    return [{ start, end, as: "lit-sentence" }];
  }

  /** Lights of the sentence what `find` finds among its pairs. */
  async #point(index, find) {
    const mine = ++this.#pointing;
    const result = this.#result;
    try {
      const found = find(await pairsOf(result, index));
      if (this.#failed) this.told.mended();
      this.#failed = false;
      if (mine === this.#pointing) this.#light(index, found);
      return found;
    } catch (error) {
      if (result === this.#result) this.told.fault(error);
      this.#failed = result === this.#result;
      return { source: [], target: [] };
    }
  }

  #light(index, found) {
    const [start] = this.#result.sentences[index].source;
    const units = unitsOf(this.#sentence(index));
    const lit = found.source.map(([from, to]) => ({ start: start + units(from), end: start + units(to), as: "lit" }));
    panes.lightSource([...this.#chosenPlace(), ...lit]);
    const words = panes.wordElements(index);
    panes.lightTarget(words.filter((word) => touches(word, found.target)), this.#chosen);
  }

  #sentence(index) {
    return this.#result.text.slice(...this.#result.sentences[index].source);
  }

  #pointAtWord(word) {
    const { index, span } = panes.placeOf(word);
    return this.#point(index, (pairs) => {
      const meant = pairs.filter((pair) => overlap(pair.target, span));
      return { source: meant.map((pair) => pair.source), target: [span] };
    });
  }

  #pointAtUnit(unit) {
    const index = this.#result.sentences.findIndex(({ source: [start, end] }) => start <= unit && unit < end);
    if (index < 0) return this.#dark();
    const units = unitsOf(this.#sentence(index));
    const at = unit - this.#result.sentences[index].source[0];
    return this.#point(index, (pairs) => {
      const meant = pairs.filter((pair) => units(pair.source[0]) <= at && at < units(pair.source[1]));
      return { source: meant.map((pair) => pair.source), target: meant.map((pair) => pair.target) };
    });
  }

  #overTarget({ target: at }) {
    if (!this.#result) return;
    if (at.classList.contains("word")) this.#pointAtWord(at);
    else this.#dark();
  }

  #overSource({ clientX, clientY, buttons }) {
    if (!this.#result || buttons) return;
    const unit = panes.sourceUnitAt(clientX, clientY);
    if (unit === this.#unit) return; // a long text is not lit anew for every pixel
    this.#unit = unit;
    if (unit === null) this.#dark();
    else this.#pointAtUnit(unit);
  }

  #caretMoved() {
    if (!this.#result || document.activeElement !== source || source.selectionStart !== source.selectionEnd) return;
    this.#pointAtUnit(source.selectionStart);
  }

  #left() {
    this.#stepped = null;
    this.#unit = undefined;
    if (this.#result) this.#dark();
  }

  #clicked({ target: at }) {
    const sentence = at.closest(".sentence");
    if (!this.#result || !sentence || !getSelection().isCollapsed) return;
    this.told.choose(Number(sentence.dataset.index));
    if (at.classList.contains("word")) this.#pointAtWord(at);
  }

  #keyed(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!this.#result || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (step) this.#stepBy(step);
    else if (event.key === "Enter" && this.#stepped) this.told.choose(panes.placeOf(this.#stepped).index);
    else return;
    event.preventDefault();
  }

  async #stepBy(step) {
    const words = [...target.querySelectorAll(".word")];
    if (!words.length) return;
    const before = this.#stepped ? words.indexOf(this.#stepped) : -1;
    const word = (this.#stepped = words[Math.min(Math.max(before + step, 0), words.length - 1)]);
    word.scrollIntoView({ block: "nearest" });
    const { index } = panes.placeOf(word);
    const sentence = this.#sentence(index);
    const { source: spans } = await this.#pointAtWord(word);
    const units = unitsOf(sentence);
    const from = spans.map(([start, end]) => sentence.slice(units(start), units(end))).join(" ");
    const said = from ? text("word.from", { word: word.textContent, from }) : word.textContent;
    if (word === this.#stepped) this.told.say(said);
  }
}

function touches(word, spans) {
  const { span } = panes.placeOf(word);
  return spans.some((other) => overlap(span, other));
}
