// A grid of small heat maps of every layer and head of one kind; selecting one opens it.

import { make, addRovingTabIndex } from "../lib/dom.js";
import { headPatternText } from "./head_patterns.js";
import { paintPixels } from "../lib/canvas_colours.js";

const MANY_HEADS = 8; // more heads or layers get smaller thumbnails
const FEW_LAYERS = 3; // at most this many layers get larger thumbnails
const DENSE_TOKENS = 48; // more tokens than a thumbnail has pixels

export class HeadGrid {
  /** @param onSelect called with (layer, head); head is null for a layer's mean, layer too for the mean of all */
  constructor(text, onSelect) {
    Object.assign(this, { text, onSelect });
    this.table = make("table", { className: "grid", role: "grid" });
    this.element = make("div", { className: "grid-scroll" }, this.table);
    addRovingTabIndex(this.table, () => this.buttons, (key, index) => this.indexAfterKey(key, index));
  }

  /** Creates a thumbnail for every head of a kind; `paintLoaded` paints those whose weights are loaded. */
  show(sentence, kind, colours) {
    Object.assign(this, { sentence, kind, colours });
    this.positions = [[null, null]];
    for (let layer = 0; layer < sentence.depth[kind]; layer += 1) {
      for (let head = -1; head < sentence.heads; head += 1) this.positions.push([layer, head < 0 ? null : head]);
    }
    this.painted = new Set();
    this.buttons = this.positions.map((position) => this.button(...position));
    this.table.classList.toggle("many", Math.max(sentence.heads, sentence.depth[kind]) > MANY_HEADS);
    this.table.classList.toggle("few", sentence.heads <= MANY_HEADS && sentence.depth[kind] <= FEW_LAYERS);
    this.table.setAttribute("aria-label", this.text("attention.grid", { kind: this.text(`attention.kind.${kind}`) }));
    this.table.replaceChildren(this.header(), ...this.rows());
    this.paintLoaded();
  }

  header() {
    const headLabel = (number) => this.text("attention.head", { number });
    const isNumberOnly = this.table.classList.contains("many");
    const heads = Array.from({ length: this.sentence.heads }, (_, head) => {
      const label = isNumberOnly ? String(head + 1) : headLabel(head + 1);
      return make("th", { scope: "col", aria: { label: headLabel(head + 1) } }, label);
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
    const title = headName(this.text, layer, head);
    const canvas = make("canvas", { aria: { hidden: "true" } });
    const on = { click: () => this.onSelect(layer, head) };
    const properties = { className: "thumb", type: "button", title, ariaLabel: title, tabIndex: -1 };
    return make("button", { ...properties, on }, canvas);
  }

  paintLoaded() {
    this.positions.forEach(([layer, head], index) => {
      const matrix = this.painted.has(index) ? null : this.sentence.matrix(this.kind, layer, head);
      if (!matrix) return;
      const canvas = this.buttons[index].firstChild;
      paintPixels(canvas, matrix, this.colours.heat);
      canvas.classList.toggle("dense", Math.max(matrix.rows, matrix.columns) > DENSE_TOKENS);
      const pattern = headPatternText(this.text, this.kind, matrix);
      const label = [headName(this.text, layer, head), pattern].filter(Boolean).join(", ");
      Object.assign(this.buttons[index], { title: label, ariaLabel: label });
      this.buttons[index].classList.add("ready");
      this.painted.add(index);
    });
  }

  select(layer, head) {
    this.positions.forEach((position, index) => {
      const isCurrent = position[0] === layer && position[1] === head;
      this.buttons[index].setAttribute("aria-pressed", String(isCurrent));
      this.buttons[index].tabIndex = isCurrent ? 0 : -1;
    });
  }

  /** The index after a key. The mean of all is below the last layer's mean. */
  indexAfterKey(key, index) {
    const width = this.sentence.heads + 1;
    const last = this.positions.length - 1;
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

/** The name of a head or mean, such as "layer 2 · head 1". */
export function headName(text, layer, head) {
  if (layer === null) return text("attention.name.all");
  if (head === null) return text("attention.name.layer", { layer: layer + 1 });
  return text("attention.name.head", { layer: layer + 1, head: head + 1 });
}
