// What is known of an adaptation, as elements: the plan, the scores, and translations before and after.

import { make } from "../lib/dom.js";
import { languageName, number, text } from "../i18n/index.js";

const SHOWN_AT_ONCE = 10;
const GENERAL = "general set"; // the trainer's name for the pairs that a bundle carries

/** @param {object} plan @param {[string, string]} languages @returns {HTMLElement} a list of facts */
export function planOf(plan, languages) {
  const left = Object.entries(plan.left_out).map(([reason, count]) =>
    make("div", {}, `${number(count)}: `, make("span", { lang: "en" }, reason)),
  );
  const general = Object.entries(plan.general).map(([name, count]) => make("div", {}, setName(name, count)));
  const time = plan.minutes === null ? "free" : "limit";
  const facts = [
    ["adapt.direction", languages.map(languageName).join(" → ")],
    ["adapt.bundle", make("code", {}, plan.bundle)],
    ["adapt.pairs", number(plan.pairs)],
    ["adapt.held", number(plan.held_out)],
    ...(left.length ? [["adapt.left", ...left]] : []),
    ["adapt.rehearsed", number(plan.rehearsed)],
    ...(general.length ? [["adapt.general", ...general]] : []),
    ["adapt.limit", text("adapt.bleu", { loss: number(plan.accepted_loss) })],
    ["adapt.time", text(`adapt.time.${time}`, { minutes: number(plan.minutes ?? 0) })],
  ];
  const rows = facts.flatMap(([key, ...values]) => [make("dt", {}, text(key)), make("dd", {}, ...values)]);
  return make("dl", { className: "plan" }, ...rows);
}

/** @param {{scores: object[]}} status @returns {HTMLElement} a table */
export function scoresOf({ scores }) {
  const head = ["adapt.set", "adapt.metric", "adapt.before", "adapt.after"];
  const cells = head.map((key) => make("th", { scope: "col" }, text(key)));
  const rows = scores.map((score) => {
    const name = score.held_out
      ? text("adapt.own", { count: number(score.sentences) })
      : setName(score.set, score.sentences);
    const figures = [score.before, score.after].map((value) => make("td", {}, rounded(value)));
    return make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, score.metric), ...figures);
  });
  const caption = make("caption", {}, text("adapt.scores"));
  return make("table", {}, caption, make("thead", {}, make("tr", {}, ...cells)), make("tbody", {}, ...rows));
}

/** @param {object} status @returns {HTMLElement} pairs that are translated otherwise than before */
export function comparisonOf({ comparison, source, target }) {
  const changed = comparison.filter(({ before, after }) => before !== after);
  const rows = make("ol", {});
  const more = make("button", { type: "button", className: "quiet" });
  const show = () => {
    rows.append(...changed.splice(0, SHOWN_AT_ONCE).map((row) => comparedRow(row, source, target)));
    more.hidden = !changed.length;
    more.textContent = text("adapt.more", { count: number(Math.min(changed.length, SHOWN_AT_ONCE)) });
  };
  more.addEventListener("click", show);
  const same = number(comparison.length - changed.length);
  const counts = make("p", { className: "about" }, text("adapt.same", { count: same, total: number(comparison.length) }));
  show();
  return make("div", { className: "compared" }, make("h3", {}, text("adapt.comparison")), rows, counts, more);
}

function comparedRow({ text: words, reference, before, after }, source, target) {
  const part = (key, shown, lang) => {
    const label = make("span", { className: "label" }, text(key));
    return make("div", { className: key.split(".")[1] }, label, make("div", { lang, dir: "auto" }, shown));
  };
  const first = [part("adapt.text", words, source), part("adapt.reference", reference, target)];
  return make("li", {}, ...first, part("adapt.before", before, target), part("adapt.after", after, target));
}

function setName(name, count) {
  return text("adapt.others", { name: name === GENERAL ? text("adapt.general.set") : name, count: number(count) });
}

function rounded(value) {
  return number(value, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
}
