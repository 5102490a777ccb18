// A translated document for review: its texts beside their translations, which can be changed and written into the document.

import * as api from "../service/api.js";
import { make } from "../lib/dom.js";
import { DOUBTFUL, announce, errorMessage } from "./notices.js";
import { addTexts, number, text } from "../i18n/index.js";
import { chinese, english } from "../i18n/review.js";

const XLIFF = "urn:oasis:names:tc:xliff:document:1.2";
const SHOWN_AT_ONCE = 100;
const MAX_CODE = 24; // characters of a code that are shown

addTexts({ en: english, zh: chinese });

/** The review of one file, in a panel. */
export class Review {
  /** @param {FormData} form what the file was translated with @param {string} name of the translated file
   *  @param {(response: Response, name: string) => Promise<void>} onWritten called with the document */
  constructor(form, name, onWritten) {
    this.form = form;
    this.name = name;
    this.onWritten = onWritten;
  }

  /** @param {AbortSignal} signal @returns {Promise<HTMLElement>} the panel. @throws what `api.postForm` throws */
  async open(signal) {
    this.signal = signal;
    const response = await api.postForm("translate/file", this.#formWith("as", "xliff"), { signal });
    this.xml = new DOMParser().parseFromString(await response.text(), "application/xml");
    const file = this.xml.getElementsByTagNameNS(XLIFF, "file")[0];
    this.languages = ["source-language", "target-language"].map((name) => file.getAttribute(name));
    this.units = [...this.xml.getElementsByTagNameNS(XLIFF, "trans-unit")].map((unit, index) => new Unit(unit, index));
    return this.#panel();
  }

  #panel() {
    const first = this.units.filter((unit) => unit.isDoubtful).sort((one, other) => one.order - other.order);
    const waiting = [...first, ...this.units.filter((unit) => !unit.isDoubtful)];
    const count = number(this.units.length);
    const summary = make("p", {}, text("review.summary", { count, first: number(first.length) }));
    const rows = make("ol", {});
    const more = make("button", { type: "button", className: "quiet" });
    const show = () => {
      rows.append(...waiting.splice(0, SHOWN_AT_ONCE).map((unit) => unit.row(this.languages)));
      more.hidden = !waiting.length;
      more.textContent = text("review.more", { count: number(Math.min(waiting.length, SHOWN_AT_ONCE)) });
    };
    more.addEventListener("click", show);
    show();
    const save = make("button", { type: "button", className: "primary" }, text("review.save"));
    const fault = make("span", { className: "fault", role: "status" });
    save.addEventListener("click", () => this.#save(save, fault));
    const buttons = make("div", { className: "buttons" }, more, fault, save);
    const aria = { label: text("review.title", { name: this.name }) };
    return make("section", { className: "review", aria }, summary, rows, buttons);
  }

  async #save(button, fault) {
    fault.textContent = "";
    const wrong = this.units.find((unit) => !unit.write());
    if (wrong) return wrong.field.focus();
    button.disabled = true;
    try {
      const review = new File([new XMLSerializer().serializeToString(this.xml)], "review.xliff");
      const response = await api.postForm("translate/file", this.#formWith("review", review), { signal: this.signal });
      await this.onWritten(response, this.name);
      announce(text("review.saved", { name: this.name }));
    } catch (error) {
      if (!this.signal.aborted) fault.textContent = errorMessage(error);
    }
    button.disabled = false;
  }

  #formWith(name, value) {
    const form = new FormData();
    for (const [field, sent] of this.form) form.append(field, sent);
    form.append(name, value);
    return form;
  }
}

/** One text, its translation, and what is known of it. */
class Unit {
  constructor(unit, index) {
    const child = (name) => unit.getElementsByTagNameNS(XLIFF, name)[0];
    const notes = [...unit.getElementsByTagNameNS(XLIFF, "note")];
    const noted = (subject) => notes.filter((note) => note.getAttribute("from") === subject).map((n) => n.textContent);
    this.index = index;
    [this.source, this.target] = [child("source"), child("target")];
    [this.location = ""] = noted("location");
    this.warnings = noted("warning");
    const [quality] = noted("quality").map(Number);
    this.quality = quality ?? null;
    this.order = this.quality ?? 1;
    this.isDoubtful = this.order < DOUBTFUL || this.warnings.length > 0;
    this.field = null; // once it is shown
    this.codes = new Map(); // elements of the target by the chip that stands for each
  }

  row([source, target]) {
    const facts = [make("b", {}, this.location)];
    if (this.quality !== null && this.isDoubtful) {
      const percent = number(this.quality, { style: "percent" });
      facts.push(make("span", {}, text("review.quality", { percent })));
    }
    facts.push(...this.warnings.map((warning) => make("span", { lang: "en" }, warning)));
    this.field = make("div", { className: "words", lang: target, dir: "auto", tabIndex: 0, role: "textbox" });
    this.field.contentEditable = "plaintext-only";
    this.field.ariaMultiLine = "true";
    this.field.ariaLabel = text("review.target", { number: number(this.index + 1) });
    this.field.append(...this.#shown(this.target, true));
    this.field.addEventListener("input", () => this.#check());
    this.field.addEventListener("keydown", (event) => event.stopPropagation());
    const click = () => this.#undo();
    this.undo = make("button", { type: "button", className: "quiet", hidden: true, on: { click } }, text("review.undo"));
    this.fault = make("span", { className: "fault", role: "status" });
    const words = make("div", { className: "words", lang: source, dir: "auto" }, ...this.#shown(this.source, false));
    words.ariaLabel = text("review.source");
    const buttons = make("div", { className: "buttons" }, this.fault, this.undo);
    const known = make("div", { className: "facts" }, ...facts);
    return make("li", { className: this.isDoubtful ? "to-check" : "" }, known, words, this.field, buttons);
  }

  /** Writes what is in the field into the target. @returns {boolean} whether each code is there once */
  write() {
    if (!this.field || this.undo.hidden) return true; // not shown, or not changed
    if (!this.#check()) return false;
    const document = this.target.ownerDocument;
    const parts = [...this.field.childNodes].map((node) =>
      this.codes.has(node) ? this.codes.get(node).cloneNode(true) : document.createTextNode(node.textContent),
    );
    this.target.replaceChildren(...parts);
    return true;
  }

  #check() {
    this.undo.hidden = false;
    const chips = [...this.field.childNodes].filter((node) => this.codes.has(node));
    const isRight = chips.length === this.codes.size;
    this.fault.textContent = isRight ? "" : text("review.codes");
    this.field.ariaInvalid = String(!isRight);
    return isRight;
  }

  #undo() {
    this.codes.clear();
    this.field.replaceChildren(...this.#shown(this.target, true));
    this.field.ariaInvalid = "false";
    this.fault.textContent = "";
    this.undo.hidden = true;
    this.field.focus();
  }

  #shown(segment, isTarget) {
    return [...segment.childNodes].map((node) => {
      if (node.nodeType !== Node.ELEMENT_NODE) return document.createTextNode(node.textContent);
      const chip = make("code", { title: node.getAttribute("equiv-text") ?? "" }, codeName(node));
      chip.contentEditable = "false";
      if (isTarget) this.codes.set(chip, node);
      return chip;
    });
  }
}

/** What stands for a code: around words, its number; alone, what it is. */
function codeName(element) {
  const pair = element.getAttribute("rid");
  if (element.localName === "bx") return `${pair}⟨`;
  if (element.localName === "ex") return `⟩${pair}`;
  const shown = element.getAttribute("equiv-text") ?? "·";
  return shown.length > MAX_CODE ? `${shown.slice(0, MAX_CODE)}…` : shown;
}
