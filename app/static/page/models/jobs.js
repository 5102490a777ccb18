// Follows the installations of the service. Does not touch the DOM but for whether the page is visible.

import * as api from "../service/api.js";

const REFRESH_MS = 2000;
const ENDED = new Set(["done", "failed", "cancelled"]);

/** @typedef {object} Job as in GET /models/jobs
 *  @property {string} id @property {string} model as it was asked for @property {string | null} name as it was found
 *  @property {string | null} source @property {string | null} target @property {string} state
 *  @property {number} bytes @property {number | null} total @property {number | null} seconds_left
 *  @property {{title: string, status: number, detail?: string, type?: string} | null} error
 *  @property {string | null} retry_at @property {string | null} serves the model that serves after it */

/** @param {Job} job @returns {boolean} whether it goes on */
export function isActive({ state }) {
  return !ENDED.has(state);
}

/** @param {Job} job @param {string} name of a published model @returns {boolean} */
export function installs(job, name) {
  return job.name === name || job.model === name;
}

/** Polls the service while something is being installed or may be, and the page is visible. */
export class Jobs {
  /** @type {Job[]} */
  #all = [];
  #past = null; // ids of those that were done before this looked for the first time
  #done = new Set(); // ids
  #cancelled = new Set(); // ids of those cancelled here, which go on for a moment
  #changes = 0; // made here; a response to what was asked before one is outdated
  #isFollowing = false;
  #timer = 0;

  /** @param {{isWatched: () => boolean, onChange: (jobs: Job[]) => void, onDone: () => void}} callbacks `isWatched`:
   *    whether the user would see one that another user starts; `onDone`: a model serves that did not before */
  constructor(callbacks) {
    this.callbacks = callbacks;
    document.addEventListener("visibilitychange", () => this.#isFollowing && this.refresh());
  }

  async refresh() {
    clearTimeout(this.#timer);
    this.#isFollowing = true;
    if (document.hidden) return;
    const changes = this.#changes;
    let wait = REFRESH_MS;
    try {
      const jobs = await api.get("models/jobs");
      if (changes === this.#changes) this.#receive(jobs);
    } catch (error) {
      // Stops when refused, or the key dialog would open every few seconds.
      if (!(error instanceof api.Unreachable) && !error.retryAfter) return void (this.#isFollowing = false);
      wait = Math.max(wait, 1000 * (error.retryAfter ?? 0));
    }
    clearTimeout(this.#timer);
    this.#isFollowing = this.#all.some(isActive) || this.#cancelled.size > 0 || this.callbacks.isWatched();
    if (this.#isFollowing) this.#timer = setTimeout(() => this.refresh(), wait);
  }

  /** @param {string} model @param {boolean} isLicenceAccepted by the user, who has seen it
   *  @returns {Promise<Job>} @throws {api.Problem | api.Unreachable} */
  async start(model, isLicenceAccepted) {
    const job = await api.post("models", { model, accept_licence: isLicenceAccepted });
    this.#cancelled.delete(job.id);
    this.#change([...this.#all.filter(({ id }) => id !== job.id), job]);
    return job;
  }

  /** Cancels a job, or forgets one that has ended. @param {Job} job @throws {api.Problem | api.Unreachable} */
  async remove(job) {
    const { id } = job;
    try {
      await api.remove(`models/jobs/${encodeURIComponent(id)}`);
    } catch (error) {
      if (error.status !== 404) throw error; // another page was faster
    }
    if (isActive(job)) this.#cancelled.add(id);
    this.#change(this.#all.filter((each) => each.id !== id));
  }

  #change(jobs) {
    this.#changes++;
    this.#show(jobs);
    this.refresh();
  }

  #receive(jobs) {
    const active = new Set(jobs.filter(isActive).map(({ id }) => id));
    for (const id of this.#cancelled) if (!active.has(id)) this.#cancelled.delete(id);
    const startedHere = new Set(this.#all.map(({ id }) => id));
    this.#past ??= new Set(doneIds(jobs).filter((id) => !startedHere.has(id)));
    this.#show(jobs);
  }

  #show(jobs) {
    // The same model installed once more is a job of the same id.
    for (const { id } of jobs.filter(isActive)) for (const ids of [this.#past, this.#done]) ids?.delete(id);
    const done = doneIds(jobs).filter((id) => !this.#past?.has(id));
    const isNew = done.some((id) => !this.#done.has(id));
    for (const id of done) this.#done.add(id);
    const isShown = ({ id, state }) => state !== "cancelled" && !this.#past?.has(id) && !this.#cancelled.has(id);
    this.#all = jobs.filter(isShown);
    this.callbacks.onChange(this.#all);
    if (isNew) this.callbacks.onDone();
  }
}

function doneIds(jobs) {
  return jobs.filter(({ state }) => state === "done").map(({ id }) => id);
}
