// What is said beside the translation: warnings, faults and what can be done about them; and what is only spoken.

import { Problem, Unreachable } from "../service/api.js";
import { make } from "../lib/dom.js";
import { number, text } from "../i18n/index.js";

const MOST_WARNINGS = 3;
const RETRY = / Retry after \d+ s\.$/; // which the service says to all, and the page in its own words

const notes = document.getElementById("notes");
const spoken = document.getElementById("spoken");
let speaking = 0;

/** Says something to those who do not see the page.
 *  @param {string | Node} words @param {number} [afterMs] @param {string[]} [more] said after them */
export function say(words, afterMs = 50, more = []) {
  hush();
  spoken.textContent = ""; // or the same words twice would be said once
  speaking = setTimeout(() => spoken.replaceChildren(words, ...more.map((line) => ` ${line}`)), afterMs);
}

/** What was about to be said is not so any more. */
export function hush() {
  clearTimeout(speaking);
}

/** Nothing is wrong any more. */
export function clearNotes() {
  notes.replaceChildren();
}

/** @param {string[]} warnings of an answer @returns {string[]} those that are shown */
export function showWarnings(warnings) {
  const shown = warnings.slice(0, MOST_WARNINGS);
  const more = warnings.length - shown.length;
  if (more) shown.push(text("warnings.more", { count: number(more) }));
  notes.replaceChildren(...shown.map((words) => note(words)));
  return shown;
}

/** @param {string} words that hinder @param {{words: string, act: () => void}} [action] what helps
 *  @param {"fault" | "warning"} [kind] how much it hinders */
export function showFault(words, action, kind = "fault") {
  const line = note(words, kind);
  line.role = "alert";
  const looks = { type: "button", className: "quiet" };
  if (action) line.append(make("button", { ...looks, on: { click: action.act } }, action.words));
  notes.replaceChildren(line);
}

/** @param {Error} error @param {number | null} [wait] seconds until it is tried again by itself
 *  @returns {string} what is wrong, for those whom it hinders */
export function faultWords(error, wait = null) {
  return wait ? `${problemWords(error).replace(RETRY, "")} ${waitWords(wait)}` : problemWords(error);
}

/** @param {Error} error after which the service is waited for @returns {string} the same, and that it is */
export function goneWords(error) {
  return `${faultWords(error)} ${text("goes-on")}`;
}

function problemWords(error) {
  if (error instanceof Unreachable || error.status === 502) return text("unreachable");
  if (!(error instanceof Problem)) return text("bug", { error: `${error.name}: ${error.message}` });
  const key = `problem.${error.slug}`;
  const title = text(key) === key ? error.title : text(key);
  // The service's own words say which limit, which language: they stay, in whatever language the page is.
  return error.detail && error.detail !== title ? `${title}${text("colon")}${error.detail}` : title;
}

function waitWords(seconds) {
  if (seconds < 100) return text("again.in", { seconds: number(seconds) });
  const time = new Date(Date.now() + 1000 * seconds);
  return text("again.at", { time: time.toLocaleTimeString(document.documentElement.lang, { timeStyle: "short" }) });
}

function note(words, kind = "warning") {
  return make("p", { className: `note ${kind}` }, make("span", {}, words));
}
