// The weights as a table, for who reads numbers or listens. Knows one matrix.

import { make } from "../lib/dom.js";
import { Matrix, spoken, written } from "./attention_data.js";

const MOST_CELLS = 900;
const NAMED = 5;

/** Every weight; of a large matrix, of each row the heaviest. */
export function table(view, text) {
  const { queries, keys, matrix, title } = view;
  const whole = matrix.values.length <= MOST_CELLS;
  const caption = make("caption", {}, title, whole ? "" : ` · ${text("attention.table.heaviest", { count: NAMED })}`);
  const corner = make("td");
  const heads = whole ? keys.map((key) => make("th", { scope: "col", dir: "auto" }, spoken(key))) : ranks(text);
  const rows = queries.map((query, index) => {
    const weights = matrix.row(index);
    const cells = whole
      ? [...weights].map((weight) => written(weight))
      : Matrix.greatest(weights, NAMED).map((key) => `${spoken(keys[key])} ${written(weights[key])}`);
    const name = make("th", { scope: "row", dir: "auto" }, spoken(query));
    return make("tr", {}, name, ...cells.map((cell) => make("td", {}, cell)));
  });
  const head = make("thead", {}, make("tr", {}, corner, ...heads));
  return make("table", { className: "weights" }, caption, head, make("tbody", {}, ...rows));
}

function ranks(text) {
  return Array.from({ length: NAMED }, (_, place) =>
    make("th", { scope: "col" }, text("attention.table.rank", { number: place + 1 })),
  );
}
