// The panel that shows how a sentence was translated. The view itself is attention.js, loaded when it is first wanted.

import * as api from "./api.js";
import { text } from "./texts.js";

const panel = document.getElementById("attention-panel");
const place = document.getElementById("attention");

/** Shows a sentence's attention, while the panel is open. */
export class AttentionPanel {
  #sentence = null;
  #view = null;

  constructor() {
    panel.addEventListener("toggle", () => this.#reflect());
    document.addEventListener("interfacechange", () => {
      this.#view = null;
      place.replaceChildren();
      this.#reflect();
    });
  }

  /** @param {{text: string, source: string, target: string, target_text?: string} | null} sentence the one that is
   *  looked at; `target_text`: its translation, where that is not the model's first */
  show(sentence) {
    this.#sentence = sentence;
    this.#reflect();
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
      const { mountAttention } = await import("./attention.js");
      return mountAttention(place, { api, text });
    } catch (error) {
      console.error(error);
      place.textContent = text("attention.failed");
      return null;
    }
  }
}
