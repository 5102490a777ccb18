// Example sentences, shown while there is no text.

import { make } from "../lib/dom.js";
import { text } from "../i18n/index.js";

const SENTENCES = {
  en: "Where is the train station?",
  fr: "Où est la gare ?",
  de: "Wo ist der Bahnhof?",
  es: "¿Dónde está la estación?",
  zh: "车站在哪里？",
};
const MAX_EXAMPLES = 4;

const container = document.getElementById("examples");

/** Shows one sentence for each language that has one, at most four.
 *  @param {string[]} languages codes @param {(sentence: string) => void} onSelect called with the selected sentence */
export function showExamples(languages, onSelect) {
  const codes = languages.filter((code) => Object.hasOwn(SENTENCES, code)).slice(0, MAX_EXAMPLES);
  const buttons = codes.map((code) => {
    const button = make("button", { type: "button", className: "example", lang: code }, SENTENCES[code]);
    button.addEventListener("click", () => onSelect(SENTENCES[code]));
    return button;
  });
  container.hidden = !buttons.length;
  container.replaceChildren(make("span", {}, text("examples")), ...buttons);
}

/** @param {string[]} sources codes of languages, if possible of one with an example @param {string} target
 *  @returns {{text: string, source: string, target: string}} a request */
export function exampleFor(sources, target) {
  const source = sources.find((code) => Object.hasOwn(SENTENCES, code)) ?? sources[0] ?? "en";
  return { text: SENTENCES[source] ?? SENTENCES.en, source, target: target || "fr" };
}

/** Hides the examples. */
export function hideExamples() {
  container.hidden = true;
}
