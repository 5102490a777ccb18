// Highlights aligned words in both panes: on hover, at the caret, and with the arrow keys.

import { alignmentOf } from "./word_alignment.js";
import * as panes from "./panes.js";
import { overlap, unitsOf } from "../lib/offsets.js";
import { text } from "../i18n/index.js";

const source = document.getElementById("source-text");
const target = document.getElementById("target-text");

/** Aligned spans, in code points of a sentence and of its translation.
 *  @typedef {{source: number[][], target: number[][]}} MatchedSpans */

/** Controls the highlights in the panes. */
export class WordHover {
  /** @type {import("../service/request_loop.js").Result | null} */
  #result = null;
  #selectedIndex = null; // of the selected sentence
  #keyboardWord = null; // the word reached with the arrow keys
  #hoveredUnit; // the UTF-16 offset of the text under the pointer
  #latestLookup = 0; // results of earlier lookups are ignored
  #hasFailed = false; // whether the error of the last lookup is shown

  /** @param {{onSelect: (index: number) => void, onError: (error: Error) => void, onRecovered: () => void,
   *           announce: (words: string) => void}} callbacks */
  constructor(callbacks) {
    this.callbacks = callbacks;
    target.addEventListener("pointerover", (event) => this.#onTargetPointer(event));
    source.addEventListener("pointermove", (event) => this.#onSourcePointer(event));
    source.addEventListener("selectionchange", () => this.#onCaretMove());
    target.addEventListener("click", (event) => this.#onClick(event));
    target.addEventListener("keydown", (event) => this.#onKey(event));
    for (const pane of [source, target]) {
      for (const event of ["pointerleave", "blur"]) pane.addEventListener(event, () => this.#onLeave());
    }
  }

  /** @param {import("../service/request_loop.js").Result | null} result null while the translation is outdated */
  show(result) {
    this.#result = result;
    this.#selectedIndex = this.#keyboardWord = null;
    this.#hoveredUnit = undefined;
    this.#hasFailed = false;
    this.#clearHighlights();
  }

  /** @param {number | null} index of a sentence to highlight until another is selected */
  select(index) {
    this.#selectedIndex = index;
    this.#clearHighlights();
    panes.scrollToHighlight();
  }

  #clearHighlights() {
    this.#latestLookup += 1;
    panes.highlightSource(this.#selectedSpan());
    panes.highlightTarget([], this.#selectedIndex);
  }

  #selectedSpan() {
    if (this.#selectedIndex === null || !this.#result) return [];
    const [start, end] = this.#result.sentences[this.#selectedIndex].source;
    return [{ start, end, as: "lit-sentence" }];
  }

  /** Highlights the spans that `find` selects from the sentence's word pairs. */
  async #highlightPairs(index, find) {
    const lookup = ++this.#latestLookup;
    const result = this.#result;
    try {
      const found = find(await alignmentOf(result, index));
      if (this.#hasFailed) this.callbacks.onRecovered();
      this.#hasFailed = false;
      if (lookup === this.#latestLookup) this.#highlight(index, found);
      return found;
    } catch (error) {
      if (result === this.#result) this.callbacks.onError(error);
      this.#hasFailed = result === this.#result;
      return { source: [], target: [] };
    }
  }

  #highlight(index, found) {
    const [start] = this.#result.sentences[index].source;
    const units = unitsOf(this.#sourceOf(index));
    const highlights = found.source.map(([from, to]) => {
      return { start: start + units(from), end: start + units(to), as: "lit" };
    });
    panes.highlightSource([...this.#selectedSpan(), ...highlights]);
    const words = panes.wordElements(index);
    panes.highlightTarget(words.filter((word) => touches(word, found.target)), this.#selectedIndex);
  }

  #sourceOf(index) {
    return this.#result.text.slice(...this.#result.sentences[index].source);
  }

  #highlightWord(word) {
    const { index, span } = panes.positionOf(word);
    return this.#highlightPairs(index, (pairs) => {
      const matching = pairs.filter((pair) => overlap(pair.target, span));
      return { source: matching.map((pair) => pair.source), target: [span] };
    });
  }

  #highlightUnit(unit) {
    const index = this.#result.sentences.findIndex(({ source: [start, end] }) => start <= unit && unit < end);
    if (index < 0) return this.#clearHighlights();
    const units = unitsOf(this.#sourceOf(index));
    const at = unit - this.#result.sentences[index].source[0];
    return this.#highlightPairs(index, (pairs) => {
      const matching = pairs.filter((pair) => units(pair.source[0]) <= at && at < units(pair.source[1]));
      return { source: matching.map((pair) => pair.source), target: matching.map((pair) => pair.target) };
    });
  }

  #onTargetPointer({ target: at }) {
    if (!this.#result) return;
    if (at.classList.contains("word")) this.#highlightWord(at);
    else this.#clearHighlights();
  }

  #onSourcePointer({ clientX, clientY, buttons }) {
    if (!this.#result || buttons) return;
    const unit = panes.sourceUnitAt(clientX, clientY);
    if (unit === this.#hoveredUnit) return; // highlights of a long text are not renewed for every pixel
    this.#hoveredUnit = unit;
    if (unit === null) this.#clearHighlights();
    else this.#highlightUnit(unit);
  }

  #onCaretMove() {
    if (!this.#result || document.activeElement !== source || source.selectionStart !== source.selectionEnd) return;
    this.#highlightUnit(source.selectionStart);
  }

  #onLeave() {
    this.#keyboardWord = null;
    this.#hoveredUnit = undefined;
    if (this.#result) this.#clearHighlights();
  }

  #onClick({ target: at }) {
    const sentence = at.closest(".sentence");
    if (!this.#result || !sentence || !getSelection().isCollapsed) return;
    this.callbacks.onSelect(Number(sentence.dataset.index));
    if (at.classList.contains("word")) this.#highlightWord(at);
  }

  #onKey(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!this.#result || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (step) this.#moveBy(step);
    else if (event.key === "Enter" && this.#keyboardWord) {
      this.callbacks.onSelect(panes.positionOf(this.#keyboardWord).index);
    } else return;
    event.preventDefault();
  }

  async #moveBy(step) {
    const words = [...target.querySelectorAll(".word")];
    if (!words.length) return;
    const before = this.#keyboardWord ? words.indexOf(this.#keyboardWord) : -1;
    const word = (this.#keyboardWord = words[Math.min(Math.max(before + step, 0), words.length - 1)]);
    word.scrollIntoView({ block: "nearest" });
    const { index } = panes.positionOf(word);
    const sentence = this.#sourceOf(index);
    const { source: spans } = await this.#highlightWord(word);
    const units = unitsOf(sentence);
    const from = spans.map(([start, end]) => sentence.slice(units(start), units(end))).join(" ");
    const announcement = from ? text("word.from", { word: word.textContent, from }) : word.textContent;
    if (word === this.#keyboardWord) this.callbacks.announce(announcement);
  }
}

function touches(word, spans) {
  const { span } = panes.positionOf(word);
  return spans.some((other) => overlap(span, other));
}
