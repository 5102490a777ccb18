// One matrix in the large: cells, tokens on the axes, a cell that is pointed at. Knows nothing of layers and heads.

import { make } from "../lib/dom.js";
import { MOST_PIXELS, measured, paintCells, paintLegend } from "../lib/canvas_colours.js";
import { cut, exactly, isSymbol, shown, spoken } from "./attention_data.js";

const SMALLEST = 15; // pixels of a cell; what does not fit then scrolls inside the figure
const LARGEST = 42;
const LOWEST = 26; // no smaller than this to be seen without scrolling up and down
const LABEL = 13;
const LONGEST_LABEL = 120;
const HEIGHT = 0.85; // of the window: as styles/maps.css has it
const PAGE = 10;

/** Where cells and labels go, in CSS pixels, in a figure of so much width. */
function plan(view, width, font) {
  const room = (token) => measured(shown(token), `${LABEL}px ${font}`);
  const longest = (tokens) => Math.min(LONGEST_LABEL, Math.ceil(Math.max(...tokens.map(room))));
  const left = longest(view.queries) + 14;
  const wide = Math.floor((width - left - 2) / view.matrix.columns);
  const high = Math.max(LOWEST, Math.floor((HEIGHT * innerHeight - longest(view.keys) - 16) / view.matrix.rows));
  const cell = Math.max(SMALLEST, Math.min(LARGEST, wide, high));
  const turned = longest(view.keys) > cell - 4;
  const top = (turned ? longest(view.keys) : LABEL) + 14;
  return { left, top, cell, turned, width: view.matrix.columns * cell, height: view.matrix.rows * cell, label: LABEL };
}

export class HeatMap {
  /** @param text strings of the interface */
  constructor(text) {
    Object.assign(this, { text, held: null });
    this.canvas = make("canvas", { className: "map-cells" });
    this.marks = ["row", "column", "cell"].map((name) => make("div", { className: `map-mark map-${name}` }));
    this.cells = make("div", { className: "map-body", tabIndex: 0, role: "application" }, this.canvas, ...this.marks);
    this.top = make("div", { className: "map-top", aria: { hidden: "true" } });
    this.left = make("div", { className: "map-left", aria: { hidden: "true" } });
    const corner = make("div", { className: "map-corner" });
    this.figure = make("div", { className: "map-figure" }, corner, this.top, this.left, this.cells);
    this.scroll = make("div", { className: "map-scroll" }, this.figure);
    this.legend = make("canvas", { className: "map-legend", aria: { hidden: "true" } });
    this.said = make("p", { className: "map-said", role: "status" });
    this.element = make("div", { className: "map" }, this.scroll, this.said, this.legend);
    this.listen();
  }

  listen() {
    const on = (name, listener) => this.cells.addEventListener(name, listener);
    on("pointermove", (event) => this.point(...this.under(event)));
    on("pointerleave", () => this.point(...(this.held ?? [null, null])));
    on("click", (event) => this.hold(...this.under(event)));
    on("focus", () => this.cells.matches(":focus-visible") && this.hold(...(this.held ?? [0, 0])));
    on("keydown", (event) => this.key(event));
    let width = 0;
    new ResizeObserver(([{ contentRect }]) => {
      if (Math.abs(contentRect.width - width) < 1) return;
      width = contentRect.width;
      this.paint();
    }).observe(this.element);
  }

  /** @param view {queries, keys, matrix, title}; null: there is none yet */
  show(view, colours) {
    const same = this.view && view && this.view.queries === view.queries && this.view.keys.length === view.keys.length;
    Object.assign(this, { view, colours, held: same ? this.held : null });
    this.element.hidden = !view;
    if (!view) return;
    this.cells.setAttribute("aria-label", this.text("attention.map.label", { title: view.title }));
    this.paint();
    this.point(...(this.held ?? [null, null]));
  }

  paint() {
    if (!this.view || !this.element.clientWidth) return;
    this.plan = plan(this.view, this.element.clientWidth, this.colours.font);
    const { left, top, cell, turned, width, height } = this.plan;
    const sizes = { "--cell": cell, "--left": left, "--top": top };
    for (const [name, pixels] of Object.entries(sizes)) this.figure.style.setProperty(name, `${pixels}px`);
    const context = sized(this.canvas, width, height);
    paintCells(context, this.view.matrix, { cell, colours: this.colours });
    this.top.classList.toggle("turned", turned);
    this.top.replaceChildren(...this.view.keys.map(label));
    this.left.replaceChildren(...this.view.queries.map(label));
    paintLegend(sized(this.legend, 220, 26), { x: 8, y: 0, width: 200, height: 8, colours: this.colours });
    if (this.cell) this.mark(...this.cell);
  }

  under({ clientX, clientY }) {
    const box = this.canvas.getBoundingClientRect();
    const place = (offset, count) => Math.max(0, Math.min(count - 1, Math.floor(offset / this.plan.cell)));
    const { rows, columns } = this.view.matrix;
    return [place(clientY - box.top, rows), place(clientX - box.left, columns)];
  }

  hold(query, key) {
    this.held = [query, key];
    this.point(query, key);
    this.reveal();
  }

  key(event) {
    if (event.altKey || event.metaKey) return;
    const { rows, columns } = this.view.matrix;
    const [query, key] = this.held ?? [0, 0];
    const moves = {
      ArrowUp: [query - 1, key],
      ArrowDown: [query + 1, key],
      ArrowLeft: [query, key - 1],
      ArrowRight: [query, key + 1],
      PageUp: [query - PAGE, key],
      PageDown: [query + PAGE, key],
      Home: [event.ctrlKey ? 0 : query, 0],
      End: [event.ctrlKey ? rows - 1 : query, columns - 1],
    };
    const to = moves[event.key];
    if (!to) return;
    event.preventDefault();
    const within = (place, count) => Math.max(0, Math.min(count - 1, place));
    this.hold(within(to[0], rows), within(to[1], columns));
  }

  point(query, key) {
    const told = query === null ? this.text("attention.map.hint") : this.describe(query, key);
    if (this.cell?.[0] === query && this.cell?.[1] === key && this.said.textContent === told) return;
    this.cell = query === null ? null : [query, key];
    this.said.textContent = told;
    this.mark(query, key);
  }

  describe(query, key) {
    const { queries, keys, matrix } = this.view;
    const sum = matrix.row(query).reduce((total, weight) => total + weight, 0);
    return this.text("attention.map.said", {
      query: spoken(queries[query]),
      key: spoken(keys[key]),
      weight: exactly(matrix.at(query, key)),
      sum: sum.toFixed(4),
    });
  }

  mark(query, key) {
    for (const mark of this.marks) mark.hidden = query === null;
    [...this.left.children].forEach((each, index) => each.classList.toggle("pointed", index === query));
    [...this.top.children].forEach((each, index) => each.classList.toggle("pointed", index === key));
    if (query === null) return;
    const { cell } = this.plan;
    const [row, column, square] = this.marks;
    row.style.transform = `translateY(${query * cell}px)`;
    column.style.transform = `translateX(${key * cell}px)`;
    square.style.transform = `translate(${key * cell}px, ${query * cell}px)`;
  }

  /** Scrolls the figure, and only that, so that the cell is not under the labels or outside. */
  reveal() {
    const [query, key] = this.held;
    const { cell, left, top } = this.plan;
    const { scroll } = this;
    const nearest = (position, from, room) => Math.max(Math.min(position, from), from + cell - room);
    scroll.scrollTop = nearest(scroll.scrollTop, query * cell, scroll.clientHeight - top);
    scroll.scrollLeft = nearest(scroll.scrollLeft, key * cell, scroll.clientWidth - left);
  }

  /** How large `picture` is. */
  size() {
    const { left, top, width, height } = this.plan;
    return { width: left + width, height: top + height };
  }

  /** The whole figure, also what is scrolled away, on a context whose unit is a CSS pixel. */
  picture(context, colours) {
    const { left, top, cell, turned, label: size } = this.plan;
    const { keys, queries, matrix } = this.view;
    paintCells(context, matrix, { x: left, y: top, cell, colours });
    context.save();
    context.font = `${size}px ${colours.font}`;
    context.textBaseline = "middle";
    context.fillStyle = colours.ink;
    context.textAlign = "right";
    queries.forEach((token, row) => context.fillText(shown(token), left - 7, top + (row + 0.5) * cell, left - 8));
    keys.forEach((token, column) => {
      context.save();
      context.translate(left + (column + 0.5) * cell, top - 7);
      if (turned) context.rotate(-Math.PI / 2);
      context.textAlign = turned ? "left" : "center";
      context.textBaseline = turned ? "middle" : "bottom";
      context.fillText(shown(token), 0, 0, top - 8);
      context.restore();
    });
    context.restore();
  }
}

function label(token) {
  const [space, rest] = cut(token);
  const element = make("span", { className: "map-label", title: token.piece });
  if (space) element.append(make("span", { className: "space" }, space));
  element.append(make("bdi", {}, rest));
  element.classList.toggle("symbol", isSymbol(token.piece));
  return element;
}

/** A canvas of so many CSS pixels, as sharp as the screen is where that is not too large; its context. */
function sized(canvas, width, height) {
  const scale = Math.min(devicePixelRatio, Math.sqrt(MOST_PIXELS / (width * height)));
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  return context;
}
