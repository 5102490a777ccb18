// Every layer and head of one kind at a glance, each as a small heat map to be opened. Knows no tokens.

import { make, rove } from "../lib/dom.js";
import { habitWords } from "./head_patterns.js";
import { paintPixels } from "../lib/canvas_colours.js";

const MANY = 8; // more heads than this, or layers, have smaller pictures
const FEW = 3; // so many layers at most have larger ones
const DENSE = 48; // more tokens than this are more than the pixels of a picture

export class Grid {
  /** @param chosen called with (layer, head); head null is the layer's mean, layer null the mean of all */
  constructor(text, chosen) {
    Object.assign(this, { text, chosen });
    this.table = make("table", { className: "grid", role: "grid" });
    this.element = make("div", { className: "grid-scroll" }, this.table);
    rove(this.table, () => this.buttons, (key, index) => this.step(key, index));
  }

  /** Makes a place for every picture of a kind; `fill` then paints those whose weights are there. */
  show(sentence, kind, colours) {
    Object.assign(this, { sentence, kind, colours });
    this.places = [[null, null]];
    for (let layer = 0; layer < sentence.depth[kind]; layer += 1) {
      for (let head = -1; head < sentence.heads; head += 1) this.places.push([layer, head < 0 ? null : head]);
    }
    this.painted = new Set();
    this.buttons = this.places.map((place) => this.button(...place));
    this.table.classList.toggle("many", Math.max(sentence.heads, sentence.depth[kind]) > MANY);
    this.table.classList.toggle("few", sentence.heads <= MANY && sentence.depth[kind] <= FEW);
    this.table.setAttribute("aria-label", this.text("attention.grid", { kind: this.text(`attention.kind.${kind}`) }));
    this.table.replaceChildren(this.header(), ...this.rows());
    this.fill();
  }

  header() {
    const named = (number) => this.text("attention.head", { number });
    const isNarrow = this.table.classList.contains("many");
    const heads = Array.from({ length: this.sentence.heads }, (_, head) => {
      const shown = isNarrow ? String(head + 1) : named(head + 1);
      return make("th", { scope: "col", aria: { label: named(head + 1) } }, shown);
    });
    const mean = make("th", { scope: "col" }, this.text("attention.mean"));
    return make("thead", {}, make("tr", { role: "row" }, make("td"), mean, ...heads));
  }

  rows() {
    const width = this.sentence.heads + 1;
    const row = (name, buttons) => {
      const cells = buttons.map((button) => make("td", { role: "gridcell" }, button));
      return make("tr", { role: "row" }, make("th", { scope: "row" }, name), ...cells);
    };
    const layers = Array.from({ length: this.sentence.depth[this.kind] }, (_, layer) => {
      const first = 1 + layer * width;
      return row(this.text("attention.layer", { number: layer + 1 }), this.buttons.slice(first, first + width));
    });
    return [make("tbody", {}, ...layers, row(this.text("attention.all"), this.buttons.slice(0, 1)))];
  }

  button(layer, head) {
    const title = name(this.text, layer, head);
    const picture = make("canvas", { aria: { hidden: "true" } });
    const on = { click: () => this.chosen(layer, head) };
    const looks = { className: "thumb", type: "button", title, ariaLabel: title, tabIndex: -1 };
    return make("button", { ...looks, on }, picture);
  }

  fill() {
    this.places.forEach(([layer, head], index) => {
      const matrix = this.painted.has(index) ? null : this.sentence.matrix(this.kind, layer, head);
      if (!matrix) return;
      const picture = this.buttons[index].firstChild;
      paintPixels(picture, matrix, this.colours.heat);
      picture.classList.toggle("dense", Math.max(matrix.rows, matrix.columns) > DENSE);
      const label = [name(this.text, layer, head), habitWords(this.text, this.kind, matrix)].filter(Boolean).join(", ");
      Object.assign(this.buttons[index], { title: label, ariaLabel: label });
      this.buttons[index].classList.add("ready");
      this.painted.add(index);
    });
  }

  mark(layer, head) {
    this.places.forEach((place, index) => {
      const here = place[0] === layer && place[1] === head;
      this.buttons[index].setAttribute("aria-pressed", String(here));
      this.buttons[index].tabIndex = here ? 0 : -1;
    });
  }

  /** Where an arrow key leads. The mean of all is below the last layer's mean. */
  step(key, index) {
    const width = this.sentence.heads + 1;
    const last = this.places.length - 1;
    const order = index === 0 ? last : index - 1; // 0 is the first layer's mean, `last` the mean of all
    const row = Math.floor(order / width) * width;
    const moves = {
      ArrowLeft: Math.max(row, order - 1),
      ArrowRight: Math.min(row + width - 1, last, order + 1),
      ArrowUp: order - width < 0 ? order : order - width,
      ArrowDown: order === last ? last : Math.min(last, order + width),
      Home: row,
      End: Math.min(row + width - 1, last),
    };
    const to = moves[key];
    if (to === undefined) return null;
    return to === last ? 0 : to + 1;
  }
}

/** What a place is called: "layer 2, head 1" and the like. */
export function name(text, layer, head) {
  if (layer === null) return text("attention.name.all");
  if (head === null) return text("attention.name.layer", { layer: layer + 1 });
  return text("attention.name.head", { layer: layer + 1, head: head + 1 });
}
