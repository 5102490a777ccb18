// Other translations of the sentence that is chosen, any of which may take its place.

import * as api from "../service/api.js";
import { make } from "../lib/dom.js";
import { faultWords, say } from "./notices.js";
import { number, text } from "../i18n/index.js";

const COUNT = 5;

const button = document.getElementById("show-others");
const list = document.getElementById("others");

/** The list under the translation. */
export class Others {
  #request = new AbortController();
  #sentence = null;
  #isAwaited = false; // by whoever opened the list, who may not see it

  /** @param {(words: string) => void} take what is told of the one that was taken */
  constructor(take) {
    this.take = take;
    button.addEventListener("click", () => this.#open(list.hidden));
    document.addEventListener("interfacechange", () => list.hidden || this.#ask());
  }

  /** @param {{text: string, source: string, target: string, translation: string} | null} sentence the chosen one */
  show(sentence) {
    const isSame = sentence?.text === this.#sentence?.text && sentence?.target === this.#sentence?.target;
    if (!isSame) list.replaceChildren(); // or one of them could take another sentence's place
    this.#sentence = sentence;
    button.disabled = !sentence;
    if (!sentence) this.#open(false);
    else if (!list.hidden) this.#ask();
  }

  #open(open) {
    list.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
    this.#request.abort();
    this.#isAwaited = open;
    if (open) this.#ask();
  }

  async #ask() {
    this.#request.abort();
    const { signal } = (this.#request = new AbortController());
    const { text: words, source, target, translation } = this.#sentence;
    if (!list.children.length) this.#head(text("others.wait"));
    try {
      const wanted = { text: words, source, target, alternatives: COUNT };
      const [told] = (await api.post("translate", wanted, { signal })).translations;
      const found = [told.text, ...told.alternatives.map((other) => other.text)];
      this.#fill([...new Set(found)].filter((other) => other !== translation));
    } catch (error) {
      if (signal.aborted) return;
      this.#head(faultWords(error));
    }
    if (this.#isAwaited) this.#tell();
    this.#isAwaited = false;
  }

  #head(words) {
    list.replaceChildren(make("h3", {}, words));
  }

  /** What there is to choose from: what it says is read by going on from the button. */
  #tell() {
    const [head, ...choices] = list.children;
    say(head.textContent, 0, choices.length ? [text("others.count", { count: number(choices.length) })] : []);
  }

  #fill(found) {
    this.#head(found.length ? text("others.of", { sentence: shortened(this.#sentence.text) }) : text("others.none"));
    list.append(...found.map((words) => this.#choice(words)));
  }

  #choice(words) {
    const click = () => {
      this.take(words);
      button.focus();
    };
    return make("button", { type: "button", lang: this.#sentence.target, dir: "auto", on: { click } }, words);
  }
}

function shortened(words) {
  return words.length > 60 ? `${words.slice(0, 60)}…` : words;
}
