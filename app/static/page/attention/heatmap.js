// One matrix as a large heat map, with tokens on the axes and details of the cell under the pointer.

import { make } from "../lib/dom.js";
import { MAX_CANVAS_PIXELS, textWidth, paintCells, paintLegend } from "../lib/canvas_colours.js";
import { splitPiece, formatWeightExact, isSymbol, pieceOnCanvas, pieceName } from "./attention_data.js";

const MIN_CELL_PX = 15; // a larger matrix scrolls inside the figure
const MAX_CELL_PX = 42;
const MIN_CELL_BY_HEIGHT_PX = 26; // the window's height does not make cells smaller than this
const LABEL_PX = 13;
const MAX_LABEL_PX = 120;
const MAX_HEIGHT_SHARE = 0.85; // of the window, as in styles/maps.css
const PAGE_CELLS = 10;

/** Positions and sizes of cells and labels, in CSS pixels, for a figure of a width. */
function layoutOf(view, width, font) {
  const labelWidth = (token) => textWidth(pieceOnCanvas(token), `${LABEL_PX}px ${font}`);
  const longest = (tokens) => Math.min(MAX_LABEL_PX, Math.ceil(Math.max(...tokens.map(labelWidth))));
  const left = longest(view.queries) + 14;
  const widthLimited = Math.floor((width - left - 2) / view.matrix.columns);
  const maxHeight = MAX_HEIGHT_SHARE * innerHeight - longest(view.keys) - 16;
  const heightLimited = Math.max(MIN_CELL_BY_HEIGHT_PX, Math.floor(maxHeight / view.matrix.rows));
  const cell = Math.max(MIN_CELL_PX, Math.min(MAX_CELL_PX, widthLimited, heightLimited));
  const isRotated = longest(view.keys) > cell - 4;
  const top = (isRotated ? longest(view.keys) : LABEL_PX) + 14;
  const { rows, columns } = view.matrix;
  return { left, top, cell, isRotated, width: columns * cell, height: rows * cell, labelPx: LABEL_PX };
}

export class HeatMap {
  /** @param text strings of the interface */
  constructor(text) {
    Object.assign(this, { text, pinned: null });
    this.canvas = make("canvas", { className: "map-cells" });
    this.marks = ["row", "column", "cell"].map((name) => make("div", { className: `map-mark map-${name}` }));
    this.cells = make("div", { className: "map-body", tabIndex: 0, role: "application" }, this.canvas, ...this.marks);
    this.top = make("div", { className: "map-top", aria: { hidden: "true" } });
    this.left = make("div", { className: "map-left", aria: { hidden: "true" } });
    const corner = make("div", { className: "map-corner" });
    this.figure = make("div", { className: "map-figure" }, corner, this.top, this.left, this.cells);
    this.scroll = make("div", { className: "map-scroll" }, this.figure);
    this.legend = make("canvas", { className: "map-legend", aria: { hidden: "true" } });
    this.statusLine = make("p", { className: "map-said", role: "status" });
    this.element = make("div", { className: "map" }, this.scroll, this.statusLine, this.legend);
    this.listen();
  }

  listen() {
    const on = (name, listener) => this.cells.addEventListener(name, listener);
    on("pointermove", (event) => this.showCell(...this.cellAt(event)));
    on("pointerleave", () => this.showCell(...(this.pinned ?? [null, null])));
    on("click", (event) => this.pin(...this.cellAt(event)));
    on("focus", () => this.cells.matches(":focus-visible") && this.pin(...(this.pinned ?? [0, 0])));
    on("keydown", (event) => this.onKey(event));
    let width = 0;
    new ResizeObserver(([{ contentRect }]) => {
      if (Math.abs(contentRect.width - width) < 1) return;
      width = contentRect.width;
      this.paint();
    }).observe(this.element);
  }

  /** @param view {queries, keys, matrix, title}; null while it is loading */
  show(view, colours) {
    const old = this.view;
    const isSameTable = old && view && old.queries === view.queries && old.keys.length === view.keys.length;
    Object.assign(this, { view, colours, pinned: isSameTable ? this.pinned : null });
    this.element.hidden = !view;
    if (!view) return;
    this.cells.setAttribute("aria-label", this.text("attention.map.label", { title: view.title }));
    this.paint();
    this.showCell(...(this.pinned ?? [null, null]));
  }

  paint() {
    if (!this.view || !this.element.clientWidth) return;
    this.layout = layoutOf(this.view, this.element.clientWidth, this.colours.font);
    const { left, top, cell, isRotated, width, height } = this.layout;
    const sizes = { "--cell": cell, "--left": left, "--top": top };
    for (const [name, pixels] of Object.entries(sizes)) this.figure.style.setProperty(name, `${pixels}px`);
    const context = resizeCanvas(this.canvas, width, height);
    paintCells(context, this.view.matrix, { cell, colours: this.colours });
    this.top.classList.toggle("turned", isRotated);
    this.top.replaceChildren(...this.view.keys.map(labelElement));
    this.left.replaceChildren(...this.view.queries.map(labelElement));
    paintLegend(resizeCanvas(this.legend, 220, 26), { x: 8, y: 0, width: 200, height: 8, colours: this.colours });
    if (this.cell) this.markCell(...this.cell);
  }

  cellAt({ clientX, clientY }) {
    const box = this.canvas.getBoundingClientRect();
    const place = (offset, count) => Math.max(0, Math.min(count - 1, Math.floor(offset / this.layout.cell)));
    const { rows, columns } = this.view.matrix;
    return [place(clientY - box.top, rows), place(clientX - box.left, columns)];
  }

  pin(query, key) {
    this.pinned = [query, key];
    this.showCell(query, key);
    this.scrollToCell();
  }

  onKey(event) {
    if (event.altKey || event.metaKey) return;
    const { rows, columns } = this.view.matrix;
    const [query, key] = this.pinned ?? [0, 0];
    const moves = {
      ArrowUp: [query - 1, key],
      ArrowDown: [query + 1, key],
      ArrowLeft: [query, key - 1],
      ArrowRight: [query, key + 1],
      PageUp: [query - PAGE_CELLS, key],
      PageDown: [query + PAGE_CELLS, key],
      Home: [event.ctrlKey ? 0 : query, 0],
      End: [event.ctrlKey ? rows - 1 : query, columns - 1],
    };
    const to = moves[event.key];
    if (!to) return;
    event.preventDefault();
    const within = (place, count) => Math.max(0, Math.min(count - 1, place));
    this.pin(within(to[0], rows), within(to[1], columns));
  }

  showCell(query, key) {
    const message = query === null ? this.text("attention.map.hint") : this.describe(query, key);
    if (this.cell?.[0] === query && this.cell?.[1] === key && this.statusLine.textContent === message) return;
    this.cell = query === null ? null : [query, key];
    this.statusLine.textContent = message;
    this.markCell(query, key);
  }

  describe(query, key) {
    const { queries, keys, matrix } = this.view;
    const sum = matrix.row(query).reduce((total, weight) => total + weight, 0);
    return this.text("attention.map.said", {
      query: pieceName(queries[query]),
      key: pieceName(keys[key]),
      weight: formatWeightExact(matrix.at(query, key)),
      sum: sum.toFixed(4),
    });
  }

  markCell(query, key) {
    for (const mark of this.marks) mark.hidden = query === null;
    [...this.left.children].forEach((each, index) => each.classList.toggle("pointed", index === query));
    [...this.top.children].forEach((each, index) => each.classList.toggle("pointed", index === key));
    if (query === null) return;
    const { cell } = this.layout;
    const [row, column, square] = this.marks;
    row.style.transform = `translateY(${query * cell}px)`;
    column.style.transform = `translateX(${key * cell}px)`;
    square.style.transform = `translate(${key * cell}px, ${query * cell}px)`;
  }

  /** Scrolls the figure, but not the page, so that the cell is visible and not under the labels. */
  scrollToCell() {
    const [query, key] = this.pinned;
    const { cell, left, top } = this.layout;
    const { scroll } = this;
    const nearest = (position, from, viewSize) => Math.max(Math.min(position, from), from + cell - viewSize);
    scroll.scrollTop = nearest(scroll.scrollTop, query * cell, scroll.clientHeight - top);
    scroll.scrollLeft = nearest(scroll.scrollLeft, key * cell, scroll.clientWidth - left);
  }

  /** The size of what `drawTo` draws. */
  size() {
    const { left, top, width, height } = this.layout;
    return { width: left + width, height: top + height };
  }

  /** Draws the whole figure, including parts scrolled out of view, on a context in CSS pixels. */
  drawTo(context, colours) {
    const { left, top, cell, isRotated, labelPx } = this.layout;
    const { keys, queries, matrix } = this.view;
    paintCells(context, matrix, { x: left, y: top, cell, colours });
    context.save();
    context.font = `${labelPx}px ${colours.font}`;
    context.textBaseline = "middle";
    context.fillStyle = colours.ink;
    context.textAlign = "right";
    queries.forEach((token, row) => {
      context.fillText(pieceOnCanvas(token), left - 7, top + (row + 0.5) * cell, left - 8);
    });
    keys.forEach((token, column) => {
      context.save();
      context.translate(left + (column + 0.5) * cell, top - 7);
      if (isRotated) context.rotate(-Math.PI / 2);
      context.textAlign = isRotated ? "left" : "center";
      context.textBaseline = isRotated ? "middle" : "bottom";
      context.fillText(pieceOnCanvas(token), 0, 0, top - 8);
      context.restore();
    });
    context.restore();
  }
}

function labelElement(token) {
  const [space, rest] = splitPiece(token);
  const element = make("span", { className: "map-label", title: token.piece });
  if (space) element.append(make("span", { className: "space" }, space));
  element.append(make("bdi", {}, rest));
  element.classList.toggle("symbol", isSymbol(token));
  return element;
}

/** Resizes a canvas, in CSS pixels, at the screen's resolution or the canvas limit. @returns its context */
function resizeCanvas(canvas, width, height) {
  const scale = Math.min(devicePixelRatio, Math.sqrt(MAX_CANVAS_PIXELS / (width * height)));
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  return context;
}
