// Two rows of tokens and lines between them: how much each below looked at each above. Knows one matrix at a time.

import { draw, make, rove } from "../lib/dom.js";
import { paintLines } from "./token_lines_export.js";
import { Matrix, cut, isSymbol, spoken, words, written } from "./attention_data.js";

const FAINTEST = 0.005; // of a token that is pointed at, lines lighter than this are not drawn
const FAINT_AT_REST = { short: 0.05, long: 0.2 }; // nor lighter ones than this, while none is
const LONG = 32; // tokens
const NAMED = 5;

export class Lines {
  /** @param text strings of the interface */
  constructor(text) {
    Object.assign(this, { text, tokens: { key: [], query: [] }, held: null, active: null });
    this.svg = draw("svg", { class: "lines-drawing", "aria-hidden": "true" });
    this.rows = { key: this.row("key"), query: this.row("query") };
    this.figure = make("div", { className: "lines" }, this.rows.key, this.svg, this.rows.query);
    this.element = make("div", { className: "lines-scroll" }, this.figure);
    this.said = make("p", { className: "lines-said", role: "status" });
    new ResizeObserver(() => this.layout()).observe(this.element);
  }

  /** @param view {kind, keys, queries, matrix, alignment}: with an alignment, that is what is seen at rest */
  show(view) {
    this.view = view;
    this.element.hidden = this.said.hidden = !view;
    if (!view) return;
    this.held = this.active = null;
    this.fill("key", view.keys);
    this.fill("query", view.queries);
    for (const [side, row] of Object.entries(this.rows)) {
      row.ariaLabel = this.text(`attention.row.${view.kind}.${side}`);
      row.dataset.name = this.text(`attention.side.${view.kind}.${side}`);
    }
    this.layout();
    this.point(null);
  }

  row(side) {
    const row = make("div", { className: "lines-row", role: "toolbar", data: { side } });
    const items = () => this.tokens[side];
    rove(row, items, (key, index) => this.step(side, key, index));
    row.addEventListener("focusin", ({ target }) => this.point(side, items().indexOf(target)));
    row.addEventListener("focusout", () => this.rest());
    row.addEventListener("pointerover", ({ target }) => {
      const token = target.closest(".token");
      if (token) this.point(side, items().indexOf(token));
    });
    row.addEventListener("pointerleave", () => this.rest());
    row.addEventListener("click", ({ target }) => {
      const token = target.closest(".token");
      if (token) this.hold(side, items().indexOf(token));
    });
    return row;
  }

  /** Where an arrow key leads: along the row, or to the token across that weighs most. */
  step(side, key, index) {
    const down = this.figure.classList.contains("down");
    const [back, on, ...across] = down
      ? ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"]
      : ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"];
    if (key === "Home") return 0;
    if (key === "End") return Infinity;
    if (key === back) return index - 1;
    if (key === on) return index + 1;
    if (across[side === "key" ? 1 : 0] === key) {
      const [best] = Matrix.greatest(this.weights(side, index), 1);
      this.tokens[other(side)][best].focus();
    }
    if (key === "Escape") this.hold(side, null);
    return null;
  }

  fill(side, tokens) {
    const buttons = tokens.map((token, index) => {
      const [space, rest] = cut(token);
      const piece = make("span", { className: "piece", dir: "auto" });
      if (space) piece.append(make("span", { className: "space" }, space));
      piece.append(make("span", { className: "rest" }, rest));
      const share = make("span", { className: "share", aria: { hidden: "true" } });
      const label = this.text("attention.token", { piece: spoken(token), number: index + 1, count: tokens.length });
      const looks = { className: "token", type: "button", tabIndex: -1, aria: { label } };
      const button = make("button", looks, piece, share);
      button.classList.toggle("symbol", isSymbol(token.piece));
      return button;
    });
    this.tokens[side] = buttons;
    if (buttons.length) buttons[0].tabIndex = 0;
    const groups = words(tokens).map(([from, to]) => make("span", { className: "word" }, ...buttons.slice(from, to)));
    this.rows[side].replaceChildren(...groups);
  }

  /** Side by side where both rows fit the width, else the sentences run down and the lines across. */
  layout() {
    if (!this.view) return;
    this.figure.classList.remove("down");
    const widest = Math.max(...Object.values(this.rows).map((row) => row.scrollWidth));
    this.figure.classList.toggle("down", widest > this.element.clientWidth);
    this.paint();
  }

  /** The weights of a token: what it looked at, or, from the other side, how much each looked at it. */
  weights(side, index) {
    return side === "query" ? this.view.matrix.row(index) : this.view.matrix.column(index);
  }

  /** Shows a token's weights; with null, everything's. */
  point(side, index) {
    if (side !== null && index < 0) return;
    this.active = side === null ? null : { side, index };
    this.figure.classList.toggle("pointed", this.active !== null);
    for (const each of ["key", "query"]) {
      const shares = side === other(each) ? this.weights(side, index) : [];
      this.tokens[each].forEach((token, number) => {
        token.classList.toggle("active", side === each && index === number);
        token.style.setProperty("--weight", shares[number] ?? 0);
        token.lastChild.textContent = shares[number] >= 0.01 ? percent(shares[number]) : "";
      });
    }
    this.paint();
    this.said.textContent = this.describe();
  }

  /** Back to the token that was clicked, or where the keyboard is, or to none. */
  rest() {
    const focused = this.figure.querySelector(".token:focus-visible");
    const side = focused?.closest(".lines-row").dataset.side;
    if (this.held) this.point(this.held.side, this.held.index);
    else if (focused) this.point(side, this.tokens[side].indexOf(focused));
    else this.point(null);
  }

  hold(side, index) {
    const again = this.held && this.held.side === side && this.held.index === index;
    this.held = again || index === null ? null : { side, index };
    for (const each of ["key", "query"]) {
      this.tokens[each].forEach((token, number) => {
        const held = this.held?.side === each && this.held.index === number;
        token.classList.toggle("held", held);
      });
    }
    this.rest();
  }

  describe() {
    const { queries, keys } = this.view;
    if (!this.active && this.view.alignment) return this.text("attention.rest.alignment");
    if (!this.active) return this.text("attention.rest.weights", { least: this.least() });
    const { side, index } = this.active;
    const [own, others] = side === "query" ? [queries, keys] : [keys, queries];
    const weights = this.weights(side, index);
    const best = Matrix.greatest(weights, NAMED).filter((number) => weights[number] >= FAINTEST);
    const list = best.map((number) => `${spoken(others[number])} ${written(weights[number])}`).join(" · ");
    return this.text(`attention.said.${side}`, { piece: spoken(own[index]), list });
  }

  least() {
    return this.view.queries.length > LONG ? FAINT_AT_REST.long : FAINT_AT_REST.short;
  }

  /** The lines to be seen: [query, key, weight], the heavy ones last so that they lie on top. */
  links() {
    const { matrix, alignment } = this.view;
    const links = [];
    if (this.active) {
      const { side, index } = this.active;
      this.weights(side, index).forEach((weight, number) => {
        if (weight >= FAINTEST) links.push(side === "query" ? [index, number, weight] : [number, index, weight]);
      });
    } else if (alignment) {
      for (const [source, target] of alignment) links.push([target, source, matrix.at(target, source)]);
    } else {
      const least = this.least();
      matrix.values.forEach((weight, index) => {
        const query = Math.floor(index / matrix.columns);
        if (weight >= least) links.push([query, index % matrix.columns, weight]);
      });
    }
    return links.sort((a, b) => a[2] - b[2]);
  }

  paint() {
    const paths = this.curves().map(({ points, weight }) => {
      const [from, first, second, to] = points;
      const { thickness, opacity } = stroke(weight);
      const d = `M${from} C${first} ${second} ${to}`;
      return draw("path", { d, "stroke-width": thickness, "stroke-opacity": opacity });
    });
    this.svg.replaceChildren(...paths);
  }

  /** The links as curves in the drawing: {points: [from, first, second, to], weight}. */
  curves() {
    const frame = this.svg.getBoundingClientRect();
    const down = this.figure.classList.contains("down");
    const ends = Object.fromEntries(
      ["key", "query"].map((side) => [side, this.tokens[side].map((token) => middle(token, frame, down))]),
    );
    const reach = down ? frame.width : frame.height;
    return this.links().map(([query, key, weight]) => {
      const [a, b] = [ends.key[key], ends.query[query]];
      const along = down
        ? [[0, a], [reach * 0.45, a], [reach * 0.55, b], [reach, b]]
        : [[a, 0], [a, reach * 0.45], [b, reach * 0.55], [b, reach]];
      return { points: along.map((point) => point.map((number) => Math.round(number * 10) / 10)), weight };
    });
  }

  /** How large `picture` is. */
  size() {
    const { width, height } = this.figure.getBoundingClientRect();
    return { width, height };
  }

  /** The figure as it is seen, on a canvas context whose unit is a CSS pixel. */
  picture(context, colours) {
    const { figure, svg, rows } = this;
    const curves = this.curves().map(({ points, weight }) => ({ points, ...stroke(weight) }));
    paintLines(context, { figure, svg, rows: Object.values(rows), curves }, colours);
  }
}

const other = (side) => (side === "key" ? "query" : "key");
const percent = (weight) => `${Math.round(100 * weight)}%`;

/** How a weight is drawn. */
function stroke(weight) {
  return { thickness: (1 + 4 * weight).toFixed(2), opacity: (0.08 + 0.92 * Math.sqrt(Math.min(1, weight))).toFixed(3) };
}

function middle(token, frame, down) {
  const box = token.firstChild.getBoundingClientRect();
  return down ? (box.top + box.bottom) / 2 - frame.top : (box.left + box.right) / 2 - frame.left;
}
