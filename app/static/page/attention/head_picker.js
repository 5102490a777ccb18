// Selects the kind of attention, the layer and the head: tabs and two lists.

import { make, addRovingTabIndex } from "../lib/dom.js";
import { KINDS } from "./attention_data.js";

export class HeadPicker {
  /** @param onChange called with {kind} or with {layer, head} */
  constructor(text, panel, onChange) {
    Object.assign(this, { text });
    this.tabs = KINDS.map((kind) => {
      const on = { click: () => onChange({ kind }) };
      const aria = { controls: panel };
      const name = (className) => make("span", { className }, text(`attention.${className}.${kind}`));
      const names = [name("kind"), name("short")];
      return make("button", { type: "button", role: "tab", id: `${panel}-${kind}`, aria, on }, ...names);
    });
    const aria = { label: text("attention.kinds") };
    const list = make("div", { className: "tabs", role: "tablist", aria }, ...this.tabs);
    addRovingTabIndex(list, () => this.visibleTabs(), (key, index) => this.selectByKey(key, index));
    this.layer = make("select", { on: { change: () => onChange({ layer: selectedNumber(this.layer), head: null }) } });
    this.head = make("select", { on: { change: () => onChange({ head: selectedNumber(this.head) }) } });
    this.description = make("p", { className: "about" });
    const choice = (name, select) => make("label", { className: "choose" }, text(name), select);
    const lists = [choice("attention.layers", this.layer), choice("attention.heads", this.head)];
    this.element = make("div", { className: "chooser" }, list, make("div", { className: "lists" }, ...lists));
  }

  visibleTabs() {
    return this.tabs.filter((tab) => !tab.hidden);
  }

  selectByKey(key, index) {
    const tabs = this.visibleTabs();
    const count = tabs.length;
    const to = { ArrowLeft: index + count - 1, ArrowRight: index + 1, Home: 0, End: count - 1 }[key];
    if (to === undefined) return null;
    tabs[to % count].click();
    return to % count;
  }

  show(sentence, { kind, layer, head }) {
    this.tabs.forEach((tab, index) => {
      tab.setAttribute("aria-selected", String(KINDS[index] === kind));
      tab.tabIndex = KINDS[index] === kind ? 0 : -1;
      tab.hidden = sentence.depth[KINDS[index]] === 0;
    });
    const isRecurrent = kind === "cross" && sentence.depth.decoder === 0;
    const notes = [`attention.about.${kind}`, ...(isRecurrent ? ["attention.recurrent"] : [])];
    this.description.textContent = notes.map((note) => this.text(note)).join(" ");
    this.fill(this.layer, sentence.depth[kind], layer);
    this.fill(this.head, sentence.heads, head);
    this.head.disabled = layer === null;
  }

  fill(select, count, selected) {
    const every = make("option", { value: "" }, this.text("attention.every"));
    const numbers = Array.from({ length: count }, (_, index) => make("option", { value: index }, String(index + 1)));
    select.replaceChildren(every, ...numbers);
    select.value = selected ?? "";
  }
}

const selectedNumber = (select) => (select.value === "" ? null : Number(select.value));
