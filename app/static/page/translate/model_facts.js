// Facts, quality metrics and training corpora of a model, as tables.

import { make } from "../lib/dom.js";
import { table } from "../lib/table.js";
import { calibrationFigures } from "./calibration.js";
import { languageName, number, text } from "../i18n/index.js";

const SEVERAL = "mul"; // ISO 639-2
const SHAPE = ["encoder_layers", "decoder_layers", "d_model", "num_heads", "d_ff"];

/** @param {any} model of GET /models @param {string} [direction] whose calibration is shown
 *  @returns {HTMLElement} an article; elements that change have data-figure */
export function modelFacts(model, direction) {
  const article = make("article", { className: "record" });
  const [from, into] = [model.source, model.target].map(
    (code) => (code === SEVERAL ? text("model.several") : languageName(code)),
  );
  const pair = text("model.pair", { from, into });
  const facts = make("div", {}, factList(model));
  if (direction) facts.append(calibrationFigures(model.quality[direction]));
  const columns = make("div", { className: "columns" }, facts, tableGroup(model));
  article.append(make("h3", {}, pair), columns);
  return article;
}

/** Whether the licence's name says so, as that of CC-BY-NC-4.0. @param {any} model of GET /models */
export function forbidsCommercialUse({ licence }) {
  return /\bnc\b|non-?commercial/i.test(licence ?? "");
}

function factList(model) {
  const shape = model.architecture;
  const list = make("dl");
  const add = (name, ...values) => list.append(make("dt", {}, text(name)), make("dd", {}, ...values));
  const figure = (name, key) => {
    add(name);
    list.lastChild.dataset.figure = key;
  };
  add("model.name", make("code", {}, model.model));
  const [sources, targets] = [model.sources.length, model.targets.length];
  if (sources * targets > 1)
    add("model.languages", text("model.counts", { sources: number(sources), targets: number(targets) }));
  const shown = Object.fromEntries(SHAPE.map((name) => [name, number(shape[name])]));
  add("model.architecture", text("model.layers", shown), make("br"), text("model.width", shown));
  add("model.parameters", number(model.parameters));
  add("model.vocabulary", text("model.pieces", { count: number(shape.target_vocab_size) }));
  const licence = model.licence ?? text("model.unsaid");
  add("model.licence", forbidsCommercialUse(model) ? text("model.noncommercial", { licence }) : licence);
  if (model.checksum) add("model.checksum", make("code", {}, model.checksum));
  if (!Object.keys(model.quality).length) add("model.quality", text("calibration.none"));
  figure("model.precision", "precision");
  figure("model.now", "now");
  figure("model.last", "last");
  return list;
}

function tableGroup({ corpora, metrics }) {
  const group = make("div", { className: "tables" });
  if (metrics.length) group.append(metricsTable(metrics));
  if (corpora.length) group.append(corporaTable(corpora));
  return group;
}

/** A row for each test set, a column for each metric. */
function metricsTable(metrics) {
  const sets = [...new Set(metrics.map(({ set }) => set))];
  const names = [...new Set(metrics.map(({ metric }) => metric))];
  const rows = sets.map((set) => {
    const ofSet = metrics.filter((figure) => figure.set === set);
    const score = (name) => ofSet.find(({ metric }) => metric === name)?.score;
    return [set, number(ofSet[0].sentences ?? 0), ...names.map((name) => formatScore(score(name)))];
  });
  return table(text("model.figures"), [text("model.set"), text("model.sentences"), ...names], rows);
}

function formatScore(score) {
  // toFixed rounds the binary value, as the model card does: 63.15 is a little less than 63.15.
  return score === undefined ? "–" : number(Number(score.toFixed(1)), { minimumFractionDigits: 1 });
}

function corporaTable(corpora) {
  const rows = corpora.map((corpus) => [corpus.name ?? String(corpus), corpus.pairs ? number(corpus.pairs) : "–"]);
  return table(text("model.corpora"), [text("model.corpus"), text("model.pairs")], rows);
}
