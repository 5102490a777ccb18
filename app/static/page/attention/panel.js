// The panel that shows how a sentence was translated. The view itself is attention/view.js, loaded when it is first
// wanted.

import * as api from "../service/api.js";
import { number, text } from "../i18n/index.js";

const panel = document.getElementById("attention-panel");
const place = document.getElementById("attention");
const which = document.getElementById("attention-which");

/** Shows a sentence's attention, while the panel is open. */
export class AttentionPanel {
  #sentence = null;
  #index = 0;
  #count = 0;
  #view = null;
  #choice = { kind: "cross", layer: null, head: null }; // what is looked at of a sentence

  constructor() {
    panel.addEventListener("toggle", () => this.#reflect());
    document.addEventListener("interfacechange", () => this.#rebuild());
  }

  /** @param {{text: string, source: string, target: string, target_text?: string} | null} sentence the one that is
   *  looked at; `target_text`: its translation, where that is not the model's first
   *  @param {number} index which one of the text's it is @param {number} count how many there are */
  show(sentence, index, count) {
    [this.#sentence, this.#index, this.#count] = [sentence, index, count];
    this.#sayWhich();
    this.#reflect();
  }

  /** In another language. */
  async #rebuild() {
    const old = this.#view;
    this.#view = null;
    (await old)?.close();
    this.#sayWhich();
    this.#reflect();
  }

  #sayWhich() {
    which.hidden = this.#count < 2;
    which.textContent = text("attention.which", { number: number(this.#index + 1), count: number(this.#count) });
  }

  async #reflect() {
    if (!panel.open) return;
    const view = await (this.#view ??= this.#load());
    if (!view) return;
    if (this.#sentence) view.show(this.#sentence);
    else view.clear();
  }

  async #load() {
    try {
      const { mountAttention } = await import("./view.js");
      return mountAttention(place, { api, text, choice: this.#choice });
    } catch (error) {
      console.error(error);
      place.textContent = text("attention.failed");
      return null;
    }
  }
}
