// Two rows of tokens with lines between them: the attention of each query, below, to each key, above.

import { createSvgElement, make, addRovingTabIndex } from "../lib/dom.js";
import { paintLines } from "./token_lines_export.js";
import { Matrix, splitPiece, isSymbol, pieceName, groupIntoWords, formatWeight } from "./attention_data.js";

const ALIGNMENT_WEIGHT = 0.5; // of a line of the alignment, which is no attention
const MIN_WEIGHT = 0.005; // lines drawn for the token under the pointer
const MIN_WEIGHT_AT_REST = { short: 0.05, long: 0.2 }; // lines drawn while there is none
const LONG_SENTENCE_TOKENS = 32;
const MAX_NAMED_TOKENS = 5;

export class TokenLines {
  /** @param text strings of the interface */
  constructor(text) {
    Object.assign(this, { text, tokens: { key: [], query: [] }, pinned: null, active: null });
    this.svg = createSvgElement("svg", { class: "lines-drawing", "aria-hidden": "true" });
    this.rows = { key: this.row("key"), query: this.row("query") };
    this.figure = make("div", { className: "lines" }, this.rows.key, this.svg, this.rows.query);
    this.element = make("div", { className: "lines-scroll" }, this.figure);
    this.statusLine = make("p", { className: "lines-said", role: "status" });
    new ResizeObserver(() => this.layout()).observe(this.element);
  }

  /** @param view {kind, keys, queries, matrix, alignment}; an alignment is shown while no token is active */
  show(view) {
    this.view = view;
    this.element.hidden = this.statusLine.hidden = !view;
    if (!view) return;
    this.pinned = this.active = null;
    this.fillRow("key", view.keys);
    this.fillRow("query", view.queries);
    for (const [side, row] of Object.entries(this.rows)) {
      row.ariaLabel = this.text(`attention.row.${view.kind}.${side}`);
      row.dataset.name = this.text(`attention.side.${view.kind}.${side}`);
    }
    this.layout();
    this.showWeightsOf(null);
  }

  row(side) {
    const row = make("div", { className: "lines-row", role: "toolbar", data: { side } });
    const items = () => this.tokens[side];
    addRovingTabIndex(row, items, (key, index) => this.focusAfterKey(side, key, index));
    row.addEventListener("focusin", ({ target }) => this.showWeightsOf(side, items().indexOf(target)));
    row.addEventListener("focusout", () => this.restore());
    row.addEventListener("pointerover", ({ target }) => {
      const token = target.closest(".token");
      if (token) this.showWeightsOf(side, items().indexOf(token));
    });
    row.addEventListener("pointerleave", () => this.restore());
    row.addEventListener("click", ({ target }) => {
      const token = target.closest(".token");
      if (token) this.pin(side, items().indexOf(token));
    });
    return row;
  }

  /** The index after a key in the row. The arrow key across moves the focus to the token with the greatest weight. */
  focusAfterKey(side, key, index) {
    const isVertical = this.figure.classList.contains("down");
    const [back, on, ...across] = isVertical
      ? ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"]
      : ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"];
    if (key === "Home") return 0;
    if (key === "End") return Infinity;
    if (key === back) return index - 1;
    if (key === on) return index + 1;
    if (across[side === "key" ? 1 : 0] === key) {
      const [best] = Matrix.greatest(this.weights(side, index), 1);
      this.tokens[oppositeSide(side)][best].focus();
    }
    if (key === "Escape") this.pin(side, null);
    return null;
  }

  fillRow(side, tokens) {
    const buttons = tokens.map((token, index) => {
      const [space, rest] = splitPiece(token);
      const piece = make("span", { className: "piece", dir: "auto" });
      if (space) piece.append(make("span", { className: "space" }, space));
      piece.append(make("span", { className: "rest" }, rest));
      const share = make("span", { className: "share", aria: { hidden: "true" } });
      const label = this.text("attention.token", { piece: pieceName(token), number: index + 1, count: tokens.length });
      const properties = { className: "token", type: "button", tabIndex: -1, aria: { label } };
      const button = make("button", properties, piece, share);
      button.classList.toggle("symbol", isSymbol(token));
      return button;
    });
    this.tokens[side] = buttons;
    if (buttons.length) buttons[0].tabIndex = 0;
    const word = ([from, to]) => make("span", { className: "word" }, ...buttons.slice(from, to));
    const groups = groupIntoWords(tokens).map(word);
    this.rows[side].replaceChildren(...groups);
  }

  /** Rows are horizontal if both fit the width, else vertical. */
  layout() {
    if (!this.view) return;
    this.figure.classList.remove("down");
    const widest = Math.max(...Object.values(this.rows).map((row) => row.scrollWidth));
    this.figure.classList.toggle("down", widest > this.element.clientWidth);
    this.paint();
  }

  /** A query's weights for all keys, or a key's weights from all queries. */
  weights(side, index) {
    return side === "query" ? this.view.matrix.row(index) : this.view.matrix.column(index);
  }

  /** Shows a token's weights; with null, those of all tokens. */
  showWeightsOf(side, index) {
    if (side !== null && index < 0) return;
    this.active = side === null ? null : { side, index };
    this.figure.classList.toggle("pointed", this.active !== null);
    for (const each of ["key", "query"]) {
      const shares = side === oppositeSide(each) ? this.weights(side, index) : [];
      this.tokens[each].forEach((token, number) => {
        token.classList.toggle("active", side === each && index === number);
        token.style.setProperty("--weight", shares[number] ?? 0);
        token.lastChild.textContent = shares[number] >= 0.01 ? percent(shares[number]) : "";
      });
    }
    this.paint();
    this.statusLine.textContent = this.describe();
  }

  /** Returns to the pinned token, else to the focused one, else to none. */
  restore() {
    const focused = this.figure.querySelector(".token:focus-visible");
    const side = focused?.closest(".lines-row").dataset.side;
    if (this.pinned) this.showWeightsOf(this.pinned.side, this.pinned.index);
    else if (focused) this.showWeightsOf(side, this.tokens[side].indexOf(focused));
    else this.showWeightsOf(null);
  }

  pin(side, index) {
    const isPinned = this.pinned && this.pinned.side === side && this.pinned.index === index;
    this.pinned = isPinned || index === null ? null : { side, index };
    for (const each of ["key", "query"]) {
      this.tokens[each].forEach((token, number) => {
        const pinned = this.pinned?.side === each && this.pinned.index === number;
        token.classList.toggle("held", pinned);
      });
    }
    this.restore();
  }

  describe() {
    const { queries, keys } = this.view;
    if (!this.active && this.view.alignment) return this.text("attention.rest.alignment");
    if (!this.active) return this.text("attention.rest.weights", { least: this.minWeightAtRest() });
    const { side, index } = this.active;
    const [own, others] = side === "query" ? [queries, keys] : [keys, queries];
    const weights = this.weights(side, index);
    const best = Matrix.greatest(weights, MAX_NAMED_TOKENS).filter((number) => weights[number] >= MIN_WEIGHT);
    const list = best.map((number) => `${pieceName(others[number])} ${formatWeight(weights[number])}`).join(" · ");
    return this.text(`attention.said.${side}`, { piece: pieceName(own[index]), list });
  }

  minWeightAtRest() {
    return this.view.queries.length > LONG_SENTENCE_TOKENS ? MIN_WEIGHT_AT_REST.long : MIN_WEIGHT_AT_REST.short;
  }

  /** The visible links: [query, key, weight], the heaviest last, so that they are on top. */
  visibleLinks() {
    const { matrix, alignment } = this.view;
    const links = [];
    if (this.active) {
      const { side, index } = this.active;
      this.weights(side, index).forEach((weight, number) => {
        if (weight >= MIN_WEIGHT) links.push(side === "query" ? [index, number, weight] : [number, index, weight]);
      });
    } else if (alignment) {
      for (const [source, target] of alignment) links.push([target, source, ALIGNMENT_WEIGHT]);
    } else {
      const minWeightAtRest = this.minWeightAtRest();
      matrix.values.forEach((weight, index) => {
        const query = Math.floor(index / matrix.columns);
        if (weight >= minWeightAtRest) links.push([query, index % matrix.columns, weight]);
      });
    }
    return links.sort((a, b) => a[2] - b[2]);
  }

  paint() {
    const paths = this.curves().map(({ points, weight }) => {
      const [from, first, second, to] = points;
      const { thickness, opacity } = strokeOf(weight);
      const d = `M${from} C${first} ${second} ${to}`;
      return createSvgElement("path", { d, "stroke-width": thickness, "stroke-opacity": opacity });
    });
    this.svg.replaceChildren(...paths);
  }

  /** The links as Bézier curves in the SVG: {points: [from, first, second, to], weight}. */
  curves() {
    const svgBox = this.svg.getBoundingClientRect();
    const isVertical = this.figure.classList.contains("down");
    const centres = Object.fromEntries(
      ["key", "query"].map((side) => [side, this.tokens[side].map((token) => centreOf(token, svgBox, isVertical))]),
    );
    const reach = isVertical ? svgBox.width : svgBox.height;
    return this.visibleLinks().map(([query, key, weight]) => {
      const [a, b] = [centres.key[key], centres.query[query]];
      const along = isVertical
        ? [[0, a], [reach * 0.45, a], [reach * 0.55, b], [reach, b]]
        : [[a, 0], [a, reach * 0.45], [b, reach * 0.55], [b, reach]];
      return { points: along.map((point) => point.map((number) => Math.round(number * 10) / 10)), weight };
    });
  }

  /** The size of what `drawTo` draws. */
  size() {
    const { width, height } = this.figure.getBoundingClientRect();
    return { width, height };
  }

  /** Draws the figure as it is displayed, on a context in CSS pixels. */
  drawTo(context, colours) {
    const { figure, svg, rows } = this;
    const curves = this.curves().map(({ points, weight }) => ({ points, ...strokeOf(weight) }));
    paintLines(context, { figure, svg, rows: Object.values(rows), curves }, colours);
  }
}

const oppositeSide = (side) => (side === "key" ? "query" : "key");
const percent = (weight) => `${Math.round(100 * weight)}%`;

/** Thickness and opacity of a weight's line. */
function strokeOf(weight) {
  return { thickness: (1 + 4 * weight).toFixed(2), opacity: (0.08 + 0.92 * Math.sqrt(Math.min(1, weight))).toFixed(3) };
}

function centreOf(token, svgBox, isVertical) {
  const box = token.firstChild.getBoundingClientRect();
  return isVertical ? (box.top + box.bottom) / 2 - svgBox.top : (box.left + box.right) / 2 - svgBox.left;
}
