// The two panes as elements: the text with what is lit in it, the translation sentence by sentence. Asks nobody.

import { make } from "../lib/dom.js";
import { codePoints, wordsOf } from "../lib/offsets.js";

const source = document.getElementById("source-text");
const mirror = document.getElementById("mirror");
const target = document.getElementById("target-text");

/** @typedef {{text: string, lead: string, source: [number, number]}} Sentence
 *  A sentence of the translation, the white space before it, and the UTF-16 units of the text that it is of.
 *  @typedef {{start: number, end: number, as: string}} Lit UTF-16 units, and the class that shows them */

/** @returns {string} the text to translate; JSON can carry no lone surrogate */
export function sourceText() {
  return source.value.toWellFormed();
}

/** @param {string} text */
export function setSourceText(text) {
  source.value = text;
  reflect();
}

/** @returns {string} the translation that is shown */
export function targetText() {
  return target.textContent;
}

/** @param {string} from @param {string} to language codes, for voices, fonts and hyphens */
export function setLanguages(from, to) {
  source.lang = mirror.lang = from === "auto" ? "" : from;
  target.lang = to;
}

/** The mirror takes the height of what was typed, and nothing is lit any more. */
export function reflect() {
  lightSource([]);
}

/** @param {Lit[]} lit places of the text to show; they may lie in each other */
export function lightSource(lit) {
  const text = source.value;
  const cuts = [...new Set([0, text.length, ...lit.flatMap(({ start, end }) => [start, end])])].sort((a, b) => a - b);
  const parts = cuts.slice(1).map((end, index) => part(text, cuts[index], end, lit));
  // A line that is empty so far has a height all the same.
  mirror.replaceChildren(...parts, "\u200b");
}

function part(text, start, end, lit) {
  const here = lit.filter((place) => place.start <= start && end <= place.end);
  if (!here.length) return text.slice(start, end);
  return make("span", { className: here.map((place) => place.as).join(" ") }, text.slice(start, end));
}

/** What was translated before stays, dimmed, until something else is there. */
export function dim() {
  for (const sentence of target.children) sentence.classList.add("old");
}

/** The translation that is shown is right after all. */
export function undim() {
  for (const sentence of target.children) sentence.classList.remove("old");
}

/** @param {number} index its place in the translation @param {Sentence} sentence */
export function showSentence(index, sentence) {
  const shown = target.children[index];
  if (shown?.textContent === sentence.lead + sentence.text) shown.classList.remove("old");
  else if (shown) shown.replaceWith(element(index, sentence));
  else target.append(element(index, sentence));
}

/** @param {number} count sentences that the translation has: what is after them is of an older one */
export function endAfter(count) {
  while (target.children.length > count) target.lastChild.remove();
  target.classList.toggle("several", count > 1);
}

/** A sentence as spans: its words have data-start and data-end, code points of the sentence's own text. */
function element(index, { lead, text }) {
  let at = 0;
  const words = wordsOf(text, target.lang || "und").map((word) => {
    const start = at;
    at += codePoints(word.text);
    return word.isWord ? make("span", { className: "word", data: { start, end: at } }, word.text) : word.text;
  });
  return make("span", { className: "sentence", data: { index } }, lead, make("span", { className: "said" }, ...words));
}

/** @param {Element} word @returns {{index: number, span: [number, number]}} its sentence, its code points there */
export function placeOf(word) {
  const { start, end } = word.dataset;
  return { index: Number(word.closest(".sentence").dataset.index), span: [Number(start), Number(end)] };
}

/** @param {number} index @returns {HTMLElement[]} the words of a sentence of the translation */
export function wordElements(index) {
  return [...(target.children[index]?.querySelectorAll(".word") ?? [])];
}

/** @param {Iterable<Element>} words of the translation @param {number | null} sentence */
export function lightTarget(words, sentence) {
  for (const lit of target.querySelectorAll(".lit, .lit-sentence")) lit.classList.remove("lit", "lit-sentence");
  for (const word of words) word.classList.add("lit");
  if (sentence !== null) target.children[sentence]?.lastChild.classList.add("lit-sentence");
}

/** Scrolls to what is lit of the text. */
export function revealSource() {
  mirror.querySelector("span")?.scrollIntoView({ block: "nearest" });
}

/** @param {number} x @param {number} y of the window
 *  @returns {number | null} the UTF-16 unit of the text that is there, if a character is */
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
