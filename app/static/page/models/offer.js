// In place of the translation, for languages that are not served: which published models would translate between them.

import { make } from "../lib/dom.js";
import { directionText, factTexts, figureText, joined, unbroken } from "./published_facts.js";
import { adviceOf } from "./model_block.js";
import { announce } from "../translate/notices.js";
import { languageName, text } from "../i18n/index.js";

const container = document.getElementById("offer");

/** @typedef {object} Offered
 *  @property {string} source @property {string} target
 *  @property {import("./catalogue.js").Published[]} needed to translate from source into target
 *  @property {import("./catalogue.js").Published[]} back the further ones to translate the other way
 *  @property {boolean} isBusy whether those needed are being installed
 *  @property {boolean} mayInstall @property {string} advice for those who may not
 *  @property {string} dated when the catalogue was made */

/** Rebuilt only when it says something else, so that focus and check mark stay. */
export class Offer {
  #shown = "";

  /** @param {(models: import("./catalogue.js").Published[], dated: string) => void} install */
  constructor(install) {
    this.install = install;
  }

  /** @param {Offered | null} offered null: the languages are served */
  show(offered) {
    const state = JSON.stringify([offered, document.documentElement.lang]);
    if (state === this.#shown) return;
    this.#shown = state;
    container.hidden = offered === null;
    container.replaceChildren(...(offered ? this.#content(offered) : []));
    container.ariaLabel = text("installs.more");
  }

  #content({ source, target, needed, back, isBusy, mayInstall, advice, dated }) {
    const names = { from: languageName(source), into: languageName(target) };
    const missing = `${text("swap.not", names)}${text("installs.stop")}`;
    announce(missing);
    if (!needed.length) return [make("p", {}, missing), make("p", {}, text("installs.offer.none"))];
    const models = make("ul", {}, ...needed.map((model) => make("li", {}, ...factsOf(model))));
    const isDirect = needed.every((model) => model.source === source && model.target === target);
    const offer = text(isDirect ? "installs.offer" : "installs.offer.pivot");
    const content = [make("p", {}, missing), make("p", {}, offer), models];
    if (isBusy) return [...content, make("p", { className: "about" }, text("installs.busy"))];
    if (!mayInstall) return [...content, adviceOf(advice)];
    const also = back.length ? alsoBack(names, back) : null;
    const click = () => this.install(also?.control.checked ? [...needed, ...back] : needed, dated);
    const install = make("button", { type: "button", className: "primary", on: { click } }, text("installs.install"));
    return [...content, ...(also ? [also] : []), make("div", {}, install)];
  }
}

function alsoBack({ from, into }, back) {
  const box = make("input", { type: "checkbox", checked: true });
  const facts = unbroken(joined(back.flatMap(factTexts)));
  const words = make("span", {}, text("installs.also", { direction: text("model.pair", { from: into, into: from }) }));
  return make("label", { className: "check" }, box, make("span", {}, words, " ", make("small", {}, ...facts)));
}

function factsOf(model) {
  const figure = model.figures.find(({ metric }) => metric === "BLEU") ?? model.figures[0];
  const facts = [...(figure ? [figureText(figure)] : []), ...factTexts(model)];
  return [make("strong", {}, directionText(model)), " ", make("small", {}, ...unbroken(joined(facts)))];
}
