// Alternative translations of the selected sentence; selecting one replaces it.

import * as api from "../service/api.js";
import { make } from "../lib/dom.js";
import { errorMessage, announce } from "./notices.js";
import { number, text } from "../i18n/index.js";

const ALTERNATIVES = 5;

const button = document.getElementById("show-others");
const list = document.getElementById("others");

/** The list below the translation. */
export class Alternatives {
  #request = new AbortController();
  #sentence = null;
  #isAnnouncementDue = false; // the list was just opened, perhaps by screen reader

  /** @param {(words: string) => void} onSelect called with the alternative that the user selects */
  constructor(onSelect) {
    this.onSelect = onSelect;
    button.addEventListener("click", () => this.#setOpen(list.hidden));
    document.addEventListener("interfacechange", () => list.hidden || this.#load());
  }

  /** @param {{text: string, source: string, target: string, translation: string} | null} sentence the selected one */
  show(sentence) {
    const isSame = sentence?.text === this.#sentence?.text && sentence?.target === this.#sentence?.target;
    if (!isSame) list.replaceChildren(); // else one of them could replace another sentence
    this.#sentence = sentence;
    button.disabled = !sentence;
    if (!sentence) this.#setOpen(false);
    else if (!list.hidden) this.#load();
  }

  #setOpen(open) {
    list.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
    this.#request.abort();
    this.#isAnnouncementDue = open;
    if (open) this.#load();
  }

  async #load() {
    this.#request.abort();
    const { signal } = (this.#request = new AbortController());
    const { text: words, source, target, translation } = this.#sentence;
    if (!list.children.length) this.#showHeading(text("others.wait"));
    try {
      const request = { text: words, source, target, alternatives: ALTERNATIVES };
      const [answer] = (await api.post("translate", request, { signal })).translations;
      const texts = [answer.text, ...answer.alternatives.map((alternative) => alternative.text)];
      this.#showChoices([...new Set(texts)].filter((alternative) => alternative !== translation));
    } catch (error) {
      if (signal.aborted) return;
      this.#showHeading(errorMessage(error));
    }
    if (this.#isAnnouncementDue) this.#announce();
    this.#isAnnouncementDue = false;
  }

  #showHeading(words) {
    list.replaceChildren(make("h3", {}, words));
  }

  /** Announces the heading and the number of alternatives; the alternatives follow the button in reading order. */
  #announce() {
    const [heading, ...choices] = list.children;
    announce(heading.textContent, 0, choices.length ? [text("others.count", { count: number(choices.length) })] : []);
  }

  #showChoices(texts) {
    const sentence = shortened(this.#sentence.text);
    this.#showHeading(texts.length ? text("others.of", { sentence }) : text("others.none"));
    list.append(...texts.map((words) => this.#choice(words)));
  }

  #choice(words) {
    const click = () => {
      this.onSelect(words);
      button.focus();
    };
    return make("button", { type: "button", lang: this.#sentence.target, dir: "auto", on: { click } }, words);
  }
}

function shortened(words) {
  return words.length > 60 ? `${words.slice(0, 60)}…` : words;
}
