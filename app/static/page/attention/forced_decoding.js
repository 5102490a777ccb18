// A form for forced decoding: the attention of a translation that the user writes.

import { make } from "../lib/dom.js";

export class ForcedDecodingForm {
  /** @param onChange called with the translation to force; with null for the model's own */
  constructor(text, onChange) {
    const help = "attention-forced-help";
    const properties = { type: "text", autocomplete: "off", spellcheck: false, dir: "auto" };
    this.field = make("input", { ...properties, aria: { describedby: help } });
    this.submitButton = make("button", { type: "submit", className: "quiet" }, text("attention.forced.show"));
    const onBack = () => {
      this.field.focus();
      onChange(null);
    };
    const buttonProperties = { type: "button", className: "quiet" };
    this.backButton = make("button", { ...buttonProperties, on: { click: onBack } }, text("attention.forced.back"));
    const onSubmit = (event) => {
      event.preventDefault();
      onChange(this.field.value);
    };
    this.element = make(
      "form",
      { className: "forced", on: { submit: onSubmit, input: () => this.updateButtons() } },
      make("label", {}, make("span", {}, text("attention.forced.label")), this.field),
      this.submitButton,
      this.backButton,
      make("p", { className: "forced-help", id: help }, text("attention.forced.help")),
    );
  }

  show(translation, forced) {
    Object.assign(this, { translation, forced });
    this.field.value = translation;
    this.updateButtons();
  }

  updateButtons() {
    const wasFocused = document.activeElement === this.submitButton;
    this.submitButton.hidden = this.field.value.trim() === this.translation.trim();
    this.backButton.hidden = !this.forced;
    if (wasFocused && this.submitButton.hidden) this.backButton.focus(); // else the focus would be lost
  }
}
