// Tables with a caption and headers.

import { make } from "./dom.js";

/** @param {string} caption @param {string[]} names of the columns
 *  @param {string[][]} rows the first cell of each is its header @returns {HTMLTableElement} */
export function table(caption, names, rows) {
  const headers = names.map((name) => make("th", { scope: "col" }, name));
  const lines = rows.map(([name, ...values]) =>
    make("tr", {}, make("th", { scope: "row" }, name), ...values.map((value) => make("td", {}, value))),
  );
  const head = make("thead", {}, make("tr", {}, ...headers));
  return make("table", {}, make("caption", {}, caption), head, make("tbody", {}, ...lines));
}
