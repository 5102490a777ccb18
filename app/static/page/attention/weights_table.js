// The weights as a table, also for screen readers.

import { make } from "../lib/dom.js";
import { Matrix, pieceName, formatWeight } from "./attention_data.js";

const MAX_CELLS = 900;
const HEAVIEST_PER_ROW = 5;

/** A table of all weights; for a large matrix, of the greatest in each row. */
export function weightsTable(view, text) {
  const { queries, keys, matrix, title } = view;
  const isComplete = matrix.values.length <= MAX_CELLS;
  const note = isComplete ? "" : ` · ${text("attention.table.heaviest", { count: HEAVIEST_PER_ROW })}`;
  const caption = make("caption", {}, title, note);
  const corner = make("td");
  const header = (key) => make("th", { scope: "col", dir: "auto" }, pieceName(key));
  const headers = isComplete ? keys.map(header) : rankHeaders(text);
  const rows = queries.map((query, index) => {
    const weights = matrix.row(index);
    const cells = isComplete
      ? [...weights].map((weight) => formatWeight(weight))
      : Matrix.greatest(weights, HEAVIEST_PER_ROW).map((key) => {
          return `${pieceName(keys[key])} ${formatWeight(weights[key])}`;
        });
    const name = make("th", { scope: "row", dir: "auto" }, pieceName(query));
    return make("tr", {}, name, ...cells.map((cell) => make("td", {}, cell)));
  });
  const head = make("thead", {}, make("tr", {}, corner, ...headers));
  return make("table", { className: "weights" }, caption, head, make("tbody", {}, ...rows));
}

function rankHeaders(text) {
  return Array.from({ length: HEAVIEST_PER_ROW }, (_, place) =>
    make("th", { scope: "col" }, text("attention.table.rank", { number: place + 1 })),
  );
}
