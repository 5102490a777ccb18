// Published models, as in GET /catalogue, where the best of a pair is the first: which are needed to serve a pair, and
// whether one is worth telling of.
// Does not touch the DOM.

import { compareFigures, figuresOf, verdict } from "./figures.js";
import * as api from "../service/api.js";

const PIVOT = "en"; // through which the service translates between languages that have no model of their own

/** @typedef {object} Published a model of the catalogue
 *  @property {string} model its name, as in firefox:en-es@base-memory
 *  @property {string} registry @property {string} publisher @property {string} source @property {string} target
 *  @property {number | null} bytes @property {string} licence @property {string} page
 *  @property {string} host from which it is downloaded
 *  @property {import("./figures.js").Figure[]} figures @property {boolean} installed
 *  @property {boolean} forbids_commercial_use
 *
 *  @typedef {{published: Published, kind: "better" | "other"} & import("./figures.js").Comparison} Recommendation
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

function unscored(models) {
  return models.filter(({ figures }) => !figures.length).length;
}

/** The best published model of a direction, if it is worth telling of beside the one that serves.
 *  @param {Published[]} models of that direction @param {any} model of GET /models
 *  @returns {Recommendation | null} */
export function recommendation(models, model) {
  const [published] = models;
  if (!published || published.installed) return null;
  const compared = compareFigures(published.figures, figuresOf(model));
  const kind = verdict(compared);
  // Where nobody knows which one is better, one that was chosen stays.
  if (kind === null || (kind === "other" && model.installed)) return null;
  return { published, kind, ...compared };
}
