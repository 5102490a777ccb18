// Published models, as in GET /catalogue, where the best of a pair is the first: which are needed to serve a pair, and
// how one compares with what is served.
// Does not touch the DOM.

import * as api from "../service/api.js";

const PIVOT = "en"; // through which the service translates between languages that have no model of their own

/** @typedef {{dataset: string, metric: string, score: number, origin: string}} Figure
 *
 *  @typedef {object} Published a model of the catalogue
 *  @property {string} model its name, as in firefox:en-es@base-memory
 *  @property {string} publisher @property {string} source @property {string} target
 *  @property {number | null} bytes @property {string} licence @property {string} page
 *  @property {string} [host] from which it is downloaded
 *  @property {Figure[]} figures @property {boolean} installed @property {boolean} is_newer than the one installed
 *  @property {boolean} forbids_commercial_use
 *
 *  @typedef {{figure: Figure | null, served: number | null}} Comparison `served`: the served model's score on the same
 *    test set by the same metric
 *  @typedef {{published: Published, kind: "newer" | "better" | "other"} & Comparison} Recommendation
 *  @typedef {{dated: string, may_install: boolean, how_to_install: string, models: Published[]}} Answer */

/** Responses of GET /catalogue, each requested once. */
export class Catalogue {
  #answers = new Map();

  /** @param {Record<string, string>} query @returns {Promise<Answer>} @throws {api.Problem | api.Unreachable} */
  async get(query) {
    const path = `catalogue?${new URLSearchParams(query)}`;
    if (!this.#answers.has(path)) this.#answers.set(path, api.get(path));
    try {
      return await this.#answers.get(path);
    } catch (error) {
      this.#answers.delete(path);
      throw error;
    }
  }

  /** Forgets what it knows: another model is installed, or the key is another. */
  clear() {
    this.#answers.clear();
  }
}

/** The best model of each pair. */
export class BestModels {
  #byPair = new Map();

  /** @param {Published[]} models */
  constructor(models) {
    for (const model of [...models].reverse()) this.#byPair.set(`${model.source}/${model.target}`, model);
  }

  /** @returns {string[]} codes of all languages */
  get codes() {
    return [...new Set([...this.#byPair.keys()].flatMap((pair) => pair.split("/")))];
  }

  /** @returns {Published | undefined} */
  of(source, target) {
    return this.#byPair.get(`${source}/${target}`);
  }

  /** What is missing to translate between two languages, directly or through English: the fewest models, of as many the
   *  smallest, and of unknown size those with scores.
   *  @param {(source: string, target: string) => boolean} serves whether the service translates between two languages
   *  @returns {Published[] | null} null if no published models would do */
  missing(serves, source, target) {
    if (source === target) return null;
    const routes = [[[source, target]]];
    if (source !== PIVOT && target !== PIVOT) routes.push([[source, PIVOT], [PIVOT, target]]);
    const found = routes
      .map((steps) => steps.filter((step) => !serves(...step)).map((step) => this.of(...step)))
      .filter((models) => models.every(Boolean));
    const isLess = (one, other) => {
      const [first, second] = [one, other].map((models) => [models.length, downloadSize(models), unscored(models)]);
      const index = first.findIndex((value, at) => value !== second[at]);
      return index >= 0 && first[index] < second[index];
    };
    return found.reduce((least, models) => (least && !isLess(models, least) ? least : models), null);
  }
}

/** @param {Published[]} models @returns {number} bytes; infinite if one's size is not known */
export function downloadSize(models) {
  return models.reduce((sum, { bytes }) => sum + (bytes ?? Infinity), 0);
}

/** @param {Published} published @param {any} model of GET /models @returns {Comparison} */
function compare({ figures }, model) {
  const measured = model.metrics.map(({ set, metric, score }) => ({ dataset: datasetOf(set), metric, score }));
  const known = new Map([...(model.installed?.published ?? []), ...measured].map((figure) => [keyOf(figure), figure]));
  const inOrder = [...figures].sort((one, other) => (other.metric === "BLEU") - (one.metric === "BLEU"));
  const figure = inOrder.find((each) => known.has(keyOf(each))) ?? inOrder[0];
  return { figure: figure ?? null, served: (figure && known.get(keyOf(figure))?.score) ?? null };
}

function unscored(models) {
  return models.filter(({ figures }) => !figures.length).length;
}

/** The best published model of a direction, if it is worth telling of beside the one that serves.
 *  @param {Published[]} models of that direction @param {any} model of GET /models
 *  @returns {Recommendation | null} */
export function recommendation(models, model) {
  const [published] = models;
  if (!published) return null;
  const compared = compare(published, model);
  if (published.installed) return published.is_newer ? { published, kind: "newer", ...compared } : null;
  const { figure, served } = compared;
  // Without a common test set nobody knows which one is better: one that was chosen stays.
  if (served === null) return model.installed ? null : { published, kind: "other", ...compared };
  return figure.score > served ? { published, kind: "better", ...compared } : null;
}

function keyOf({ dataset, metric }) {
  return `${metric} ${dataset}`;
}

/** The test set that a bundle's record names; files as flores-devtest/en-es.tsv are those of FLORES-200. */
function datasetOf(set) {
  const part = set.match(/^flores-(dev|devtest)\//)?.[1];
  return part ? `FLORES-200 ${part}` : set;
}
