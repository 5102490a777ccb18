// The elements of the two panes: the text with its highlights, and the translation, sentence by sentence.

import { make } from "../lib/dom.js";
import { codePoints, overlap, wordsOf } from "../lib/offsets.js";

const source = document.getElementById("source-text");
const mirror = document.getElementById("mirror");
const target = document.getElementById("target-text");

/** @typedef {{text: string, lead: string, source: [number, number], quality?: number | null, doubtful?: number[][],
 *    engine?: string, isReplaced?: boolean}} Sentence a sentence of the translation, the white space before it, and its span in the
 *    source text, in UTF-16 units; the probability that it is good, and the spans of its doubtful words, in code points;
 *    which model made it; whether it is another translation than the model's best
 *  @typedef {{start: number, end: number, as: string}} Highlight a span in UTF-16 units, and its CSS class */

/** @returns {string} the text to translate, without lone surrogates, which JSON cannot carry */
export function sourceText() {
  return source.value.toWellFormed();
}

/** @param {string} text */
export function setSourceText(text) {
  source.value = text;
  resetMirror();
}

/** @returns {string} the translation that is shown */
export function targetText() {
  // A field for a correction is no part of it.
  return [...target.querySelectorAll(".lead, .said")].map((part) => part.textContent).join("");
}

/** @param {string} from @param {string} to language codes, for screen readers, fonts and hyphenation */
export function setLanguages(from, to) {
  source.lang = mirror.lang = from === "auto" ? "" : from;
  target.lang = to;
}

/** Copies the text to the mirror, which gives the textarea its height, and removes highlights. */
export function resetMirror() {
  highlightSource([]);
}

/** @param {Highlight[]} highlights may be nested */
export function highlightSource(highlights) {
  const text = source.value;
  const ends = highlights.flatMap(({ start, end }) => [start, end]);
  const cuts = [...new Set([0, text.length, ...ends])].sort((a, b) => a - b);
  const parts = cuts.slice(1).map((end, index) => highlightedPart(text, cuts[index], end, highlights));
  // Gives a trailing empty line its height.
  mirror.replaceChildren(...parts, "\u200b");
}

function highlightedPart(text, start, end, highlights) {
  const covering = highlights.filter((highlight) => highlight.start <= start && end <= highlight.end);
  if (!covering.length) return text.slice(start, end);
  return make("span", { className: covering.map((highlight) => highlight.as).join(" ") }, text.slice(start, end));
}

/** Dims the previous translation until a new one arrives. */
export function dim() {
  for (const sentence of target.children) sentence.classList.add("old");
}

/** Undoes `dim`. */
export function undim() {
  for (const sentence of target.children) sentence.classList.remove("old");
}

/** @param {number} index of the sentence in the translation @param {Sentence} sentence */
export function showSentence(index, sentence) {
  const shown = target.children[index];
  if (shown?.textContent === sentence.lead + sentence.text) shown.classList.remove("old");
  else if (shown) shown.replaceWith(sentenceElement(index, sentence));
  else target.append(sentenceElement(index, sentence));
}

/** @param {number} count sentences of the translation; removes further ones, which are of an older translation */
export function setSentenceCount(count) {
  while (target.children.length > count) target.lastChild.remove();
  target.classList.toggle("several", count > 1);
}

/** A sentence as spans. Words have data-start and data-end, in code points of the sentence. */
function sentenceElement(index, { lead, text, doubtful = [], engine }) {
  let at = 0;
  const words = wordsOf(text, target.lang || "und").map((word) => {
    const start = at;
    at += codePoints(word.text);
    if (!word.isWord) return word.text;
    const isDoubtful = doubtful.some((span) => overlap(span, [start, at]));
    return make("span", { className: isDoubtful ? "word doubtful" : "word", data: { start, end: at } }, word.text);
  });
  const parts = [make("span", { className: "lead" }, lead), make("span", { className: "said" }, ...words)];
  return make("span", { className: engine === "llm" ? "sentence by-llm" : "sentence", data: { index } }, ...parts);
}

/** Shows `form` in place of a sentence of the translation until it is removed. @param {number} index */
export function putInPlace(index, form) {
  target.children[index].append(form);
}

/** @param {Element} word @returns {{index: number, span: [number, number]}} its sentence, and its code points in it */
export function positionOf(word) {
  const { start, end } = word.dataset;
  return { index: Number(word.closest(".sentence").dataset.index), span: [Number(start), Number(end)] };
}

/** @param {number} index @returns {HTMLElement[]} the words of a sentence of the translation */
export function wordElements(index) {
  return [...(target.children[index]?.querySelectorAll(".word") ?? [])];
}

/** @param {Iterable<Element>} words of the translation @param {number | null} sentence */
export function highlightTarget(words, sentence) {
  for (const element of target.querySelectorAll(".lit, .lit-sentence")) element.classList.remove("lit", "lit-sentence");
  for (const word of words) word.classList.add("lit");
  if (sentence !== null) target.children[sentence]?.querySelector(".said").classList.add("lit-sentence");
}

/** Scrolls to the first highlight of the text. */
export function scrollToHighlight() {
  mirror.querySelector("span")?.scrollIntoView({ block: "nearest" });
}

/** @param {number} x @param {number} y in the viewport
 *  @returns {number | null} the offset of the character at this point, in UTF-16 units; null if there is none */
export function sourceUnitAt(x, y) {
  const caret = document.caretPositionFromPoint?.(x, y);
  if (caret?.offsetNode !== source) return null;
  return [caret.offset - 1, caret.offset].find((unit) => isAt(unit, x, y)) ?? null;
}

function isAt(unit, x, y) {
  const walker = document.createTreeWalker(mirror, NodeFilter.SHOW_TEXT);
  let rest = unit;
  for (let node = walker.nextNode(); node && rest >= 0; node = walker.nextNode()) {
    if (rest >= node.length) {
      rest -= node.length;
      continue;
    }
    const range = document.createRange();
    range.setStart(node, rest);
    range.setEnd(node, rest + 1);
    const box = range.getBoundingClientRect();
    return box.left <= x && x < box.right && box.top <= y && y < box.bottom;
  }
  return false;
}
