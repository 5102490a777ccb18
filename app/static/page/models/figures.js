// Compares the scores of a published model with those of the one that serves. Does not touch the DOM.

/** @typedef {{dataset: string, metric: string, score: number}} Figure
 *
 *  @typedef {object} Comparison
 *  @property {Figure | null} figure of the published model; null if it has none
 *  @property {Figure | null} served of the model that serves, on the same test set or a related one; null if none is
 */

const RELATED = /^FLORES-200\+? (dev|devtest)$/; // about as difficult: other sentences of the same pages, or corrected
const METRICS = ["BLEU", "spBLEU", "COMET-22"]; // the best known first
// By how much a score on a related set has to be higher to say more than how much such sets differ.
const CLEARLY_HIGHER = { BLEU: 5, spBLEU: 5, "COMET-22": 0.03 };

/** @param {any} model of GET /models @returns {Figure[]} measured here, and as published */
export function figuresOf(model) {
  const measured = model.metrics.map(({ set, metric, score }) => ({ dataset: datasetOf(set), metric, score }));
  return [...measured, ...(model.installed?.published ?? [])];
}

/** Finds the figures that say most about which model is better.
 *  @param {Figure[]} published @param {Figure[]} served @returns {Comparison} */
export function compareFigures(published, served) {
  const [ours, theirs] = [byMetric(served), byMetric(published)];
  for (const areLike of [areOfOneSet, areOfRelatedSets, areRelated]) {
    for (const figure of theirs) {
      const like = ours.find((each) => areLike(figure, each));
      if (like) return { figure, served: like };
    }
  }
  return { figure: theirs[0] ?? null, served: null };
}

/** @param {Comparison} comparison @returns {"better" | "other" | null} null: the published model is no better */
export function verdict({ figure, served }) {
  if (!served || figure.metric !== served.metric) return "other";
  const gain = figure.score - served.score;
  if (gain <= 0) return null;
  const enough = figure.dataset === served.dataset ? 0 : (CLEARLY_HIGHER[figure.metric] ?? Infinity);
  return gain >= enough ? "better" : "other";
}

function areOfOneSet(one, other) {
  return one.metric === other.metric && one.dataset === other.dataset;
}

function areOfRelatedSets(one, other) {
  return one.metric === other.metric && areRelated(one, other);
}

function areRelated(one, other) {
  return one.dataset === other.dataset || (RELATED.test(one.dataset) && RELATED.test(other.dataset));
}

function byMetric(figures) {
  const rank = ({ metric }) => (METRICS.includes(metric) ? METRICS.indexOf(metric) : METRICS.length);
  return [...figures].sort((one, other) => rank(one) - rank(other));
}

/** The test set that a bundle's record names; files as flores-devtest/en-es.tsv are those of FLORES-200. */
function datasetOf(set) {
  const part = set.match(/^flores-(dev|devtest)\//)?.[1];
  return part ? `FLORES-200 ${part}` : set;
}
