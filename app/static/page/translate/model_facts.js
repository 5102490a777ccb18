// What the panel says of one model: facts, figures, corpora.

import { make } from "../lib/dom.js";
import { languageName, number, text } from "../i18n/index.js";

const SHAPE = ["encoder_layers", "decoder_layers", "d_model", "num_heads", "d_ff"];

/** @param {any} model as GET /models tells it @returns {HTMLElement} an article; what changes in it has data-figure */
export function record(model) {
  const article = make("article", { className: "record" });
  const pair = text("model.pair", { from: languageName(model.source), into: languageName(model.target) });
  const columns = make("div", { className: "columns" }, facts(model), tables(model));
  article.append(make("h3", {}, pair), columns);
  return article;
}

function facts(model) {
  const shape = model.architecture;
  const list = make("dl");
  const add = (name, ...values) => list.append(make("dt", {}, text(name)), make("dd", {}, ...values));
  const figure = (name, key) => {
    add(name);
    list.lastChild.dataset.figure = key;
  };
  add("model.name", make("code", {}, model.model));
  const shown = Object.fromEntries(SHAPE.map((name) => [name, number(shape[name])]));
  add("model.architecture", text("model.layers", shown), make("br"), text("model.width", shown));
  add("model.parameters", number(model.parameters));
  add("model.vocabulary", text("model.pieces", { count: number(shape.target_vocab_size) }));
  add("model.licence", model.licence ?? text("model.unsaid"));
  if (model.checksum) add("model.checksum", make("code", {}, model.checksum));
  figure("model.precision", "precision");
  figure("model.now", "now");
  figure("model.last", "last");
  return list;
}

function tables({ corpora, metrics }) {
  const both = make("div", { className: "tables" });
  if (metrics.length) both.append(figures(metrics));
  if (corpora.length) both.append(sources(corpora));
  return both;
}

/** A line for each set; a column for each metric. */
function figures(metrics) {
  const sets = [...new Set(metrics.map(({ set }) => set))];
  const names = [...new Set(metrics.map(({ metric }) => metric))];
  const rows = sets.map((set) => {
    const of = metrics.filter((figure) => figure.set === set);
    const score = (name) => of.find(({ metric }) => metric === name)?.score;
    return [set, number(of[0].sentences ?? 0), ...names.map((name) => written(score(name)))];
  });
  return table(text("model.figures"), [text("model.set"), text("model.sentences"), ...names], rows);
}

function written(score) {
  // Rounded as it is, in binary, as the model card has it: 63.15 is a little less.
  return score === undefined ? "–" : number(Number(score.toFixed(1)), { minimumFractionDigits: 1 });
}

function sources(corpora) {
  const rows = corpora.map((corpus) => [corpus.name ?? String(corpus), corpus.pairs ? number(corpus.pairs) : "–"]);
  return table(text("model.corpora"), [text("model.corpus"), text("model.pairs")], rows);
}

function table(caption, names, rows) {
  const heads = names.map((name) => make("th", { scope: "col" }, name));
  const lines = rows.map(([name, ...values]) =>
    make("tr", {}, make("th", { scope: "row" }, name), ...values.map((value) => make("td", {}, value))),
  );
  const head = make("thead", {}, make("tr", {}, ...heads));
  return make("table", {}, make("caption", {}, caption), head, make("tbody", {}, ...lines));
}
