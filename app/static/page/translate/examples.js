// Sentences to begin with, while there is no text yet.

import { make } from "../lib/dom.js";
import { text } from "../i18n/index.js";

const SENTENCES = {
  en: "Where is the train station?",
  fr: "Où est la gare ?",
  de: "Wo ist der Bahnhof?",
  es: "¿Dónde está la estación?",
  zh: "车站在哪里？",
};
const MOST = 4;

const place = document.getElementById("examples");

/** Shows one sentence of each language, up to four; none where there is none.
 *  @param {string[]} languages codes @param {(sentence: string) => void} take is called with the one that is chosen */
export function showExamples(languages, take) {
  const found = languages.filter((code) => Object.hasOwn(SENTENCES, code)).slice(0, MOST);
  const buttons = found.map((code) => {
    const button = make("button", { type: "button", className: "example", lang: code }, SENTENCES[code]);
    button.addEventListener("click", () => take(SENTENCES[code]));
    return button;
  });
  place.hidden = !buttons.length;
  place.replaceChildren(make("span", {}, text("examples")), ...buttons);
}

/** Takes the examples away: there is a text. */
export function hideExamples() {
  place.hidden = true;
}
