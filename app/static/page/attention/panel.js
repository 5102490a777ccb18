// The panel with a sentence's attention. Loads attention/view.js when it is first opened.

import * as api from "../service/api.js";
import { number, text } from "../i18n/index.js";

const panel = document.getElementById("attention-panel");
const container = document.getElementById("attention");
const sentenceLabel = document.getElementById("attention-which");

/** Shows a sentence's attention while the panel is open. */
export class AttentionPanel {
  #sentence = null;
  #index = 0;
  #count = 0;
  #view = null;
  #choice = { kind: "cross", layer: null, head: null }; // kept across sentences and views

  constructor() {
    panel.addEventListener("toggle", () => this.#update());
    document.addEventListener("interfacechange", () => this.#rebuild());
  }

  /** @param {{text: string, source: string, target: string, target_text?: string} | null} sentence the selected
   *  one; `target_text` is its translation if that is not the model's best
   *  @param {number} index of the sentence in the text @param {number} count sentences of the text */
  show(sentence, index, count) {
    [this.#sentence, this.#index, this.#count] = [sentence, index, count];
    this.#updateLabel();
    this.#update();
  }

  /** Mounts the view again, in another interface language. */
  async #rebuild() {
    const old = this.#view;
    this.#view = null;
    (await old)?.close();
    this.#updateLabel();
    this.#update();
  }

  #updateLabel() {
    sentenceLabel.hidden = this.#count < 2;
    const position = { number: number(this.#index + 1), count: number(this.#count) };
    sentenceLabel.textContent = text("attention.which", position);
  }

  async #update() {
    if (!panel.open) return;
    const view = await (this.#view ??= this.#load());
    if (!view) return;
    if (this.#sentence) view.show(this.#sentence);
    else view.clear();
  }

  async #load() {
    try {
      const { mountAttention } = await import("./view.js");
      return mountAttention(container, { api, text, choice: this.#choice });
    } catch (error) {
      console.error(error);
      container.textContent = text("attention.failed");
      return null;
    }
  }
}
