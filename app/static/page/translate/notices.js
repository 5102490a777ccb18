// Warnings and errors below the translation, with a button where one helps, and announcements for screen readers.

import { Problem, Unreachable } from "../service/api.js";
import { make } from "../lib/dom.js";
import { number, text } from "../i18n/index.js";

const MAX_WARNINGS = 3;
const MAX_EXCERPT = 60; // code points of a sentence in advice to check it
export const DOUBTFUL = 0.5; // a sentence whose quality is lower should be checked; as in model/quality.py
const RETRY_SENTENCE = / Retry after \d+ s\.$/; // the service's advice, which the page words itself

const container = document.getElementById("notes");
const liveRegion = document.getElementById("spoken");
let announceTimer = 0;

/** Announces something to screen readers.
 *  @param {string | Node} words @param {number} [delayMs] @param {string[]} [more] announced after them */
export function announce(words, delayMs = 50, more = []) {
  cancelAnnouncement();
  liveRegion.textContent = ""; // else the same words would not be announced again
  announceTimer = setTimeout(() => liveRegion.replaceChildren(words, ...more.map((line) => ` ${line}`)), delayMs);
}

/** Cancels the pending announcement. */
export function cancelAnnouncement() {
  clearTimeout(announceTimer);
}

/** Removes warnings and errors. */
export function clearNotices() {
  container.replaceChildren();
}

/** @param {import("./panes.js").Sentence[]} sentences @returns {string[]} advice to check those that may be wrong */
export function qualityWarnings(sentences) {
  return sentences
    .filter(({ quality, engine }) => quality !== null && quality < DOUBTFUL && engine !== "llm")
    .sort((one, other) => one.quality - other.quality)
    .map(({ text: words, quality }) =>
      text("check.sentence", { sentence: excerpt(words), percent: number(quality, { style: "percent" }) }),
    );
}

function excerpt(words) {
  const characters = [...words];
  return characters.length > MAX_EXCERPT ? `${characters.slice(0, MAX_EXCERPT).join("").trimEnd()}…` : words;
}

/** @param {string[]} warnings of an answer @param {string[]} [remarks] shown before them
 *  @returns {string[]} those that are shown */
export function showWarnings(warnings, remarks = []) {
  const shown = [...remarks, ...warnings.slice(0, MAX_WARNINGS)];
  const more = warnings.length - MAX_WARNINGS;
  if (more > 0) shown.push(text("warnings.more", { count: number(more) }));
  container.replaceChildren(...shown.map((words) => notice(words)));
  return shown;
}

/** @param {string} words @param {{words: string, act: () => void}} [action] a button that helps
 *  @param {"fault" | "warning"} [kind] the severity */
export function showError(words, action, kind = "fault") {
  const line = notice(words, kind);
  line.role = "alert";
  const properties = { type: "button", className: "quiet" };
  if (action) line.append(make("button", { ...properties, on: { click: action.act } }, action.words));
  container.replaceChildren(line);
}

/** @param {Error} error @param {number | null} [wait] seconds until the automatic retry
 *  @returns {string} the error in the user's words */
export function errorMessage(error, wait = null) {
  return wait ? `${problemMessage(error).replace(RETRY_SENTENCE, "")} ${retryMessage(wait)}` : problemMessage(error);
}

/** @param {Error} error @returns {string} the same, and that the page will continue when the service is back */
export function unavailableMessage(error) {
  return `${errorMessage(error)} ${text("goes-on")}`;
}

function problemMessage(error) {
  if (error instanceof Unreachable || error.status === 502) return text("unreachable");
  if (!(error instanceof Problem)) return text("bug", { error: `${error.name}: ${error.message}` });
  const key = `problem.${error.slug}`;
  const title = text(key) === key ? error.title : text(key);
  // The service's detail names the limit or the language, so it is shown whatever the page's language is.
  return error.detail && error.detail !== title ? `${title}${text("colon")}${error.detail}` : title;
}

function retryMessage(seconds) {
  if (seconds < 100) return text("again.in", { seconds: number(seconds) });
  const time = new Date(Date.now() + 1000 * seconds);
  return text("again.at", { time: time.toLocaleTimeString(document.documentElement.lang, { timeStyle: "short" }) });
}

function notice(words, kind = "warning") {
  return make("p", { className: `note ${kind}` }, make("span", {}, words));
}
