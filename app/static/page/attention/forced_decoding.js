// A field for another translation, whose attention is then shown. Knows no weights.

import { make } from "../lib/dom.js";

export class Forced {
  /** @param changed called with the translation to force, or null for the model's own */
  constructor(text, changed) {
    const help = "attention-forced-help";
    const looks = { type: "text", autocomplete: "off", spellcheck: false, dir: "auto" };
    this.field = make("input", { ...looks, aria: { describedby: help } });
    this.submit = make("button", { type: "submit", className: "quiet" }, text("attention.forced.show"));
    const back = () => {
      this.field.focus();
      changed(null);
    };
    const quiet = { type: "button", className: "quiet" };
    this.back = make("button", { ...quiet, on: { click: back } }, text("attention.forced.back"));
    const send = (event) => {
      event.preventDefault();
      changed(this.field.value);
    };
    this.element = make(
      "form",
      { className: "forced", on: { submit: send, input: () => this.mark() } },
      make("label", {}, make("span", {}, text("attention.forced.label")), this.field),
      this.submit,
      this.back,
      make("p", { className: "forced-help", id: help }, text("attention.forced.help")),
    );
  }

  show(translation, forced) {
    Object.assign(this, { translation, forced });
    this.field.value = translation;
    this.mark();
  }

  mark() {
    const isLeft = document.activeElement === this.submit;
    this.submit.hidden = this.field.value.trim() === this.translation.trim();
    this.back.hidden = !this.forced;
    if (isLeft && this.submit.hidden) this.back.focus(); // or the keyboard would be nowhere
  }
}
