// Corrects the selected sentence of the translation in its place; the service's translation memory keeps the correction.

import * as api from "../service/api.js";
import { make } from "../lib/dom.js";
import { InlineCompletion } from "./inline_completion.js";
import { announce, errorMessage, showError } from "./notices.js";
import { putInPlace } from "./panes.js";
import { text } from "../i18n/index.js";

const HAS_MEMORY = document.querySelector('meta[name="interlinear-translation-memory"]').content === "on";

const button = document.getElementById("correct");

/** The button, and the form that it opens. */
export class Correction {
  #sentence = null;
  #index = 0;
  #form = null; // of the sentence that is being corrected, which need not be the selected one
  #completion = null; // of its field

  /** @param {(index: number, words: string) => void} onRemembered called with the sentence's index and correction */
  constructor(onRemembered) {
    this.onRemembered = onRemembered;
    button.hidden = !HAS_MEMORY;
    button.addEventListener("click", () => (this.#form ? this.#close() : this.#open()));
  }

  /** Ends a correction if the translation is gone or its sentence was replaced.
   *  @param {{text: string, source: string, target: string, translation: string} | null} sentence the selected one
   *  @param {number} [index] */
  show(sentence, index = 0) {
    this.#sentence = sentence;
    this.#index = index;
    if (this.#form && !(sentence && this.#form.isConnected)) this.#close();
    button.disabled = !sentence;
  }

  #open() {
    const [sentence, index] = [this.#sentence, this.#index];
    const value = sentence.translation.trim();
    const attributes = { rows: 1, lang: sentence.target, dir: "auto", autocomplete: "off", required: true, value };
    const name = { ariaLabel: text("correct.field"), data: { label: "correct.field" } };
    const field = make("textarea", { ...attributes, ...name });
    this.#completion = new InlineCompletion(field, sentence);
    const form = make(
      "form",
      { className: "correction" },
      this.#completion.element,
      make(
        "div",
        { className: "buttons" },
        make("button", { type: "button", className: "quiet", data: { text: "cancel" } }, text("cancel")),
        make("button", { className: "primary", data: { text: "correct.remember" } }, text("correct.remember")),
      ),
    );
    form.querySelector(".quiet").addEventListener("click", () => this.#cancel());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#remember(form, field, sentence, index);
    });
    form.addEventListener("keydown", (event) => this.#onKey(event));
    form.addEventListener("click", (event) => event.stopPropagation()); // a click on the translation selects
    this.#form = form;
    putInPlace(index, form);
    button.setAttribute("aria-expanded", "true");
    field.focus();
    field.setSelectionRange(value.length, value.length);
  }

  /** Keys in the form are not the translation's, where arrows go from word to word. */
  #onKey(event) {
    event.stopPropagation();
    if (event.isComposing) return; // the key is the input method's
    if (event.target.matches("textarea") && this.#completion.onKey(event)) return;
    if (event.key === "Escape") this.#cancel();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.#form.requestSubmit();
  }

  #cancel() {
    this.#close();
    button.focus();
  }

  #close() {
    this.#completion.close();
    this.#form.remove();
    this.#form = this.#completion = null;
    button.setAttribute("aria-expanded", "false");
  }

  async #remember(form, field, { text: words, source, target, translation: replaced }, index) {
    const translation = field.value.toWellFormed().trim();
    if (!translation || field.readOnly) return;
    field.readOnly = true; // until the service has answered
    this.#completion.stop();
    try {
      await api.put("memory", { source, target, pairs: [{ text: words, translation }] });
    } catch (error) {
      field.readOnly = false;
      return showError(errorMessage(error));
    }
    if (form !== this.#form) return announce(text("correct.done", { words: translation })); // the text has changed since
    this.#cancel();
    this.onRemembered(index, translation + replaced.slice(replaced.trimEnd().length));
  }
}
