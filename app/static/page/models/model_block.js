// In the panel about the model: where it was downloaded from, and whether a better one is published.

import { make } from "../lib/dom.js";
import { recommendation } from "./catalogue.js";
import {
  dateText,
  directionText,
  factTexts,
  figuresText,
  figureText,
  joined,
  pageLink,
  scoreText,
  unbroken,
} from "./published_facts.js";
import { text } from "../i18n/index.js";

const container = document.getElementById("model-install");

/** Rebuilt only when it says something else, so that the panel's polling does not disturb reading. */
export class ModelBlock {
  #shown = "";

  /** @param {{install: (models: import("./catalogue.js").Published[], dated: string) => void,
   *    remove: (model: any) => void,
   *    isBeingInstalled: (published: import("./catalogue.js").Published) => boolean}} actions */
  constructor(actions) {
    this.actions = actions;
  }

  /** @param {any} model of GET /models
   *  @param {import("./catalogue.js").Answer} answer the published models of its pair */
  show(model, answer) {
    const found = recommendation(answer.models, model);
    const isBusy = found !== null && this.actions.isBeingInstalled(found.published);
    const state = JSON.stringify([model.model, model.installed, answer, isBusy, document.documentElement.lang]);
    if (state === this.#shown) return;
    this.#shown = state;
    const parts = [];
    if (model.installed) parts.push(this.#installed(model, answer));
    if (found) parts.push(this.#recommended(found, answer, isBusy));
    const hadFocus = container.contains(document.activeElement);
    container.replaceChildren(...parts);
    container.hidden = !parts.length;
    if (hadFocus) container.querySelector("button")?.focus();
  }

  hide() {
    this.#shown = "";
    container.hidden = true;
  }

  /** @param {string} words */
  showError(words) {
    this.#shown = "";
    container.replaceChildren(make("p", { className: "fault", role: "alert" }, words));
    container.hidden = false;
  }

  #installed(model, { models, may_install: mayInstall }) {
    const { model: name, page, published, downloaded, removable } = model.installed;
    const publisher = models.find(({ registry }) => name.startsWith(`${registry}:`))?.publisher;
    const values = { date: dateText(downloaded), publisher };
    const origin = text(publisher ? "installs.origin" : "installs.origin.unknown", values);
    const words = [origin, make("code", {}, name)];
    if (published.length) words.push(...unbroken(text("installs.scored", { figures: figuresText(published) })));
    const click = () => this.actions.remove(model);
    const remove = make("button", { type: "button", className: "quiet", on: { click } }, text("installs.remove"));
    return block(make("p", {}, ...words), page, ...(mayInstall && removable ? [remove] : []));
  }

  #recommended({ published, kind, figure, served }, answer, isBusy) {
    const { may_install: mayInstall, how_to_install: advice, dated } = answer;
    const facts = [...(figure ? comparedTexts(figure, served) : []), ...factTexts(published)];
    const values = { pair: directionText(published) };
    const title = make("strong", {}, text(`installs.${kind}`, values));
    const words = make("p", {}, title, text("colon"), ...unbroken(`${joined(facts)}${text("installs.stop")}`));
    if (!mayInstall) return block(words, published.page, adviceOf(advice));
    if (isBusy) return block(words, published.page, make("span", { className: "about" }, text("installs.busy")));
    const click = () => this.actions.install([published], dated);
    const button = make("button", { type: "button", className: "primary", on: { click } }, text("installs.install"));
    button.ariaLabel = text("installs.install.of", { direction: values.pair });
    return block(words, published.page, button);
  }
}

/** @returns {string[]} */
function comparedTexts(figure, served) {
  if (!served) return [figureText(figure)];
  const [score, { metric, dataset }] = [scoreText(served), served];
  if (metric !== figure.metric) return [figureText(figure), text("installs.served.other", { score, metric, dataset })];
  if (dataset !== figure.dataset) return [figureText(figure), text("installs.served", { score, dataset })];
  return [text("installs.instead", { figure: figureText(figure), served: score })];
}

/** What to do for those who may not install models. @param {string} advice the service's @returns {HTMLElement} */
export function adviceOf(advice) {
  const parts = advice.split("`").map((part, index) => (index % 2 ? make("code", {}, part) : part));
  return make("p", { className: "advice", lang: "en" }, ...parts);
}

function block(words, page, ...actions) {
  const link = pageLink(page, text("installs.page"));
  const shown = link instanceof HTMLElement ? [link, ...actions] : actions;
  return make("div", { className: "published" }, words, make("div", { className: "actions" }, ...shown));
}
