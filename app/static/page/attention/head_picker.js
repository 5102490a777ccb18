// Which kind of attention, layer and head is looked at: tabs and two lists. Knows no weights.

import { make, rove } from "../lib/dom.js";
import { KINDS } from "./attention_data.js";

export class Chooser {
  /** @param chosen called with {kind} or with {layer, head} */
  constructor(text, panel, chosen) {
    Object.assign(this, { text });
    this.tabs = KINDS.map((kind) => {
      const on = { click: () => chosen({ kind }) };
      const aria = { controls: panel };
      const name = (className) => make("span", { className }, text(`attention.${className}.${kind}`));
      const names = [name("kind"), name("short")];
      return make("button", { type: "button", role: "tab", id: `${panel}-${kind}`, aria, on }, ...names);
    });
    const aria = { label: text("attention.kinds") };
    const list = make("div", { className: "tabs", role: "tablist", aria }, ...this.tabs);
    rove(list, () => this.tabs, (key, index) => this.step(key, index));
    this.layer = make("select", { on: { change: () => chosen({ layer: number(this.layer), head: null }) } });
    this.head = make("select", { on: { change: () => chosen({ head: number(this.head) }) } });
    this.about = make("p", { className: "about" });
    const choice = (name, select) => make("label", { className: "choose" }, text(name), select);
    const lists = [choice("attention.layers", this.layer), choice("attention.heads", this.head)];
    this.element = make("div", { className: "chooser" }, list, make("div", { className: "lists" }, ...lists));
  }

  step(key, index) {
    const count = this.tabs.length;
    const to = { ArrowLeft: index + count - 1, ArrowRight: index + 1, Home: 0, End: count - 1 }[key];
    if (to === undefined) return null;
    this.tabs[to % count].click();
    return to % count;
  }

  show(sentence, { kind, layer, head }) {
    this.tabs.forEach((tab, index) => {
      tab.setAttribute("aria-selected", String(KINDS[index] === kind));
      tab.tabIndex = KINDS[index] === kind ? 0 : -1;
    });
    this.about.textContent = this.text(`attention.about.${kind}`);
    this.fill(this.layer, sentence.depth[kind], layer);
    this.fill(this.head, sentence.heads, head);
    this.head.disabled = layer === null;
  }

  fill(select, count, chosen) {
    const every = make("option", { value: "" }, this.text("attention.every"));
    const numbers = Array.from({ length: count }, (_, index) => make("option", { value: index }, String(index + 1)));
    select.replaceChildren(every, ...numbers);
    select.value = chosen ?? "";
  }
}

const number = (select) => (select.value === "" ? null : Number(select.value));
