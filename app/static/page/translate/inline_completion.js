// Completes a translation while it is typed: shows in grey, after the caret, how the model goes on.

import * as api from "../service/api.js";
import { make } from "../lib/dom.js";
import { announce, cancelAnnouncement } from "./notices.js";
import { text } from "../i18n/index.js";

const PAUSE_MS = 250; // without typing, before a request
const ANNOUNCE_DELAY_MS = 900; // without typing, before an announcement
const HINT = "completion-hint"; // an id: only one translation is typed at a time

/** A text field with the words that may follow its text. Tab or a click takes them over, Escape hides them. */
export class InlineCompletion {
  #field;
  #sentence;
  #typed = make("span", { ariaHidden: "true" }); // a transparent copy of the field's text
  #offer; // the words that may follow; empty if there are none
  #request = new AbortController();
  #timer = 0;
  #translation = ""; // the service's last one: while the user types its words, the rest is offered without a request
  #isRefused = false;
  #listeners = new AbortController();

  /** @param {HTMLTextAreaElement} field
   *  @param {{text: string, source: string, target: string}} sentence whose translation is typed in it */
  constructor(field, sentence) {
    this.#field = field;
    this.#sentence = sentence;
    const title = { title: text("completion.take"), data: { title: "completion.take" } };
    this.#offer = make("span", { className: "completion", role: "button", tabIndex: -1, ...title });
    this.#offer.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
    this.#offer.addEventListener("click", () => this.#accept());
    const copy = make("div", { className: "typed", lang: sentence.target, dir: "auto" }, this.#typed, this.#offer);
    const described = { className: "unseen", id: HINT, data: { text: "completion.hint" } };
    const hint = make("span", described, text("completion.hint"));
    this.element = make("div", { className: "completing" }, field, copy, hint);
    field.setAttribute("aria-autocomplete", "inline");
    field.setAttribute("aria-describedby", HINT);
    field.addEventListener("input", ({ inputType, isComposing }) =>
      this.#update(inputType.startsWith("insert") && !isComposing),
    );
    field.addEventListener("compositionend", () => this.#update(true));
    const { signal } = this.#listeners;
    document.addEventListener("selectionchange", () => this.#isAtEnd || this.stop(), { signal });
    this.#update(false);
  }

  /** @param {KeyboardEvent} event of the field @returns {boolean} whether the key was for the completion */
  onKey(event) {
    const isTab = event.key === "Tab" && !event.shiftKey;
    if (!this.#words || !(isTab || event.key === "Escape")) return false;
    event.preventDefault();
    if (isTab) this.#accept();
    else this.stop();
    return true;
  }

  /** Offers nothing until more is typed. */
  stop() {
    clearTimeout(this.#timer);
    this.#request.abort(); // the service drops requests of closed connections
    this.#show("");
  }

  /** Stops for good. */
  close() {
    this.stop();
    this.#listeners.abort();
  }

  get #words() {
    return this.#offer.textContent;
  }

  get #isAtEnd() {
    const { selectionStart, selectionEnd, value } = this.#field;
    return selectionStart === value.length && selectionEnd === value.length;
  }

  /** The text has changed. @param {boolean} isTyped by words that the user added, which may go on */
  #update(isTyped) {
    const prefix = this.#field.value.toWellFormed();
    this.#typed.textContent = `${prefix}\u200b`; // what follows may go to the next line without the last word typed
    this.stop();
    if (!isTyped || !prefix.trim() || !this.#isAtEnd) return;
    if (this.#translation.startsWith(prefix)) this.#show(this.#translation.slice(prefix.length));
    else if (!this.#isRefused) this.#timer = setTimeout(() => this.#load(prefix), PAUSE_MS);
  }

  async #load(prefix) {
    const { signal } = (this.#request = new AbortController());
    const { text: words, source, target } = this.#sentence;
    try {
      const [answer] = (await api.post("translate", { text: words, source, target, prefix }, { signal })).translations;
      if (signal.aborted || !answer.text?.startsWith(prefix)) return;
      this.#translation = answer.text;
      this.#show(answer.text.slice(prefix.length));
    } catch (error) {
      // The user did not ask, so this is no error to show. The service refuses some sentences, whatever their prefix,
      // and clients with too many requests; more requests would not help.
      this.#isRefused ||= error instanceof api.Problem;
    }
  }

  #show(words) {
    if (words === this.#words) return;
    cancelAnnouncement();
    this.#offer.textContent = words;
    if (!words) return;
    const spoken = make("span", { lang: this.#sentence.target }, words); // `lang` selects the screen reader's voice
    announce(make("span", {}, text("completion.offer"), spoken), ANNOUNCE_DELAY_MS);
  }

  #accept() {
    this.#field.focus();
    document.execCommand("insertText", false, this.#words); // unlike setRangeText, it can be undone with Ctrl+Z
  }
}
