// What is known of a published model, in words: figures, size, licence, publisher, and the link to its page.

import { make } from "../lib/dom.js";
import { languageName, number, text } from "../i18n/index.js";

const MEGABYTE = 1e6; // as registries and browsers count
const GIGABYTE = 1e9;
const NO_BREAK_SPACE = "\u00a0";

/** @param {{source: string, target: string}} direction @returns {string} such as "English to Spanish" */
export function directionText({ source, target }) {
  return text("model.pair", { from: languageName(source), into: languageName(target) });
}

/** @param {number} bytes @returns {string} such as "23 MB" */
export function sizeText(bytes) {
  const [unit, size] = bytes < GIGABYTE ? ["megabyte", bytes / MEGABYTE] : ["gigabyte", bytes / GIGABYTE];
  return number(size, { style: "unit", unit, maximumFractionDigits: size < 10 ? 1 : 0 }).replace(" ", NO_BREAK_SPACE);
}

/** @param {number} seconds @returns {string} such as "40 seconds", without false precision */
export function timeText(seconds) {
  const [unit, time] = seconds <= 55 ? ["second", 5 * Math.ceil(seconds / 5)] : ["minute", Math.ceil(seconds / 60)];
  return number(Math.max(1, time), { style: "unit", unit, unitDisplay: "long" });
}

/** @param {string} date of ISO 8601 @returns {string} such as "29 November 2026" */
export function dateText(date) {
  const format = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "long", timeZone: "UTC" });
  const time = new Date(date);
  return Number.isNaN(time.valueOf()) ? date : format.format(time);
}

/** @param {{metric: string, score: number}} figure @returns {string} rounded as publishers do */
export function scoreText({ score }) {
  const digits = Math.abs(score) <= 1 ? 4 : 1; // COMET is about 1, BLEU and chrF are out of 100
  return number(score, { minimumFractionDigits: Math.min(digits, 1), maximumFractionDigits: digits });
}

/** @param {import("./figures.js").Figure} figure @returns {string} such as "27.4 BLEU on FLORES-200 devtest" */
export function figureText(figure) {
  return text("installs.figure", { score: scoreText(figure), metric: figure.metric, dataset: figure.dataset });
}

/** @param {import("./figures.js").Figure[]} figures @returns {string} those of a test set together */
export function figuresText(figures) {
  const sets = Map.groupBy(figures, ({ dataset }) => dataset);
  return joined(
    [...sets].map(([dataset, ofSet]) => {
      const scores = ofSet.map((figure) => `${scoreText(figure)} ${figure.metric}`).join(text("installs.comma"));
      return text("installs.figures", { scores, dataset });
    }),
  );
}

/** @param {import("./catalogue.js").Published} published @returns {string[]} size, licence and publisher */
export function factTexts(published) {
  const { bytes, publisher } = published;
  const [terms] = licenceText(published).split(/[;.](?=\s|$)/); // without what a registry adds to it
  return [...(bytes ? [sizeText(bytes)] : []), terms, text("installs.from", { publisher })];
}

/** @param {import("./catalogue.js").Published} published @returns {string} */
export function licenceText({ licence, forbids_commercial_use: isRestricted }) {
  return isRestricted ? text("model.noncommercial", { licence }) : licence;
}

/** @param {string[]} parts @returns {string} */
export function joined(parts) {
  return parts.join(text("installs.semicolon"));
}

/** @param {string} words @returns {(HTMLElement | string)[]} that break no line within MPL-2.0 and FLORES-200+ */
export function unbroken(words) {
  const parts = words.split(/\b([A-Z]{2,8}-\d[\d.+]{0,4})/i);
  return parts.map((part, index) => (index % 2 ? make("span", { className: "unbroken" }, part) : part));
}

/** @param {string} page an address @param {string} words @returns {(HTMLElement | string)} a link that opens beside the
 *  page, whose text stays; only words if the address is none of the web */
export function pageLink(page, words) {
  if (!/^https?:\/\//.test(page ?? "")) return words;
  return make("a", { href: page, target: "_blank", rel: "noopener" }, words);
}
