// The list of what is being installed, with progress and buttons.

import { createSvgElement, make } from "../lib/dom.js";
import { errorMessage } from "../translate/notices.js";
import { isActive } from "./jobs.js";
import { directionText, sizeText, timeText } from "./published_facts.js";
import { text } from "../i18n/index.js";

const list = document.getElementById("installs");
// The other states pass by themselves and soon.
const ANNOUNCED = new Set(["downloading", "waiting", "failed", "done"]);

/** Rows that change in place, so that focus and progress bars stay. */
export class JobList {
  #rows = new Map(); // id → Row
  #jobs = [];
  #spoken = make("p", { className: "unseen", role: "status" });

  /** @param {{remove: (job: import("./jobs.js").Job) => void, retry: (job: import("./jobs.js").Job) => void}} actions
   *    of the buttons */
  constructor(actions) {
    this.actions = actions;
    list.after(this.#spoken);
    list.ariaLabel = text("installs.list");
    document.addEventListener("interfacechange", () => this.#relabel());
  }

  /** @param {import("./jobs.js").Job[]} jobs
   *  @returns {boolean} whether the row that had the focus is gone, and no other has it */
  show(jobs) {
    this.#jobs = jobs;
    const hadFocus = list.contains(document.activeElement);
    const ids = new Set(jobs.map(({ id }) => id));
    for (const [id, row] of this.#rows) if (!ids.has(id)) this.#drop(id, row);
    const said = jobs.map((job) => this.#row(job).show(job)).filter(Boolean);
    if (said.length) this.#spoken.textContent = said.join(" ");
    return hadFocus && !list.contains(document.activeElement);
  }

  /** @param {string} id of a job */
  focus(id) {
    this.#rows.get(id)?.line.focus();
  }

  /** @param {string} id @param {Error} error shown in the row of the job */
  showError(id, error) {
    this.#rows.get(id)?.showError(errorMessage(error));
  }

  #row(job) {
    if (!this.#rows.has(job.id)) {
      const row = new Row(this.actions);
      this.#rows.set(job.id, row);
      list.append(row.line);
    }
    return this.#rows.get(job.id);
  }

  #drop(id, row) {
    const hadFocus = row.line.contains(document.activeElement);
    const next = row.line.nextElementSibling ?? row.line.previousElementSibling;
    row.line.remove();
    if (isActive(row.job)) this.#spoken.textContent = text("installs.cancelled", { name: nameOf(row.job) });
    this.#rows.delete(id);
    if (hadFocus) next?.focus();
  }

  #relabel() {
    list.ariaLabel = text("installs.list");
    for (const job of this.#jobs) this.#row(job).show(job, true);
  }
}

class Row {
  #state = null;

  constructor(actions) {
    this.name = make("span", { className: "name" });
    this.status = make("span", { className: "state" });
    this.bar = make("progress");
    this.again = make("button", { type: "button", className: "quiet", on: { click: () => actions.retry(this.job) } });
    this.end = make("button", { type: "button", on: { click: () => actions.remove(this.job) } });
    const parts = [this.name, this.status, this.again, this.end, this.bar];
    this.line = make("li", { className: "install", tabIndex: -1 }, ...parts);
  }

  /** @param {import("./jobs.js").Job} job @param {boolean} [isForced] also if its state is the one that is shown
   *  @returns {string | null} what is to be announced */
  show(job, isForced = false) {
    this.job = job;
    setText(this.name, nameOf(job));
    setText(this.status, statusText(job));
    this.#showProgress(job);
    if (job.state === this.#state && !isForced) return null;
    this.#state = job.state;
    this.#showButtons(job);
    this.status.classList.toggle("fault", job.state === "failed");
    if (isForced || !ANNOUNCED.has(job.state)) return null;
    const status = job.state === "downloading" ? text("installs.downloading.start") : statusText(job);
    return `${nameOf(job)}${text("colon")}${status}`;
  }

  /** @param {string} words until the job's state changes */
  showError(words) {
    this.status.textContent = words;
    this.status.classList.add("fault");
  }

  #showProgress({ state, bytes, total }) {
    this.bar.hidden = !isMoving(state);
    if (state === "downloading" && total) {
      this.bar.max = total;
      this.bar.value = Math.min(bytes, total);
    } else {
      this.bar.removeAttribute("value"); // how far it is is not known
    }
  }

  #showButtons(job) {
    const name = nameOf(job);
    this.bar.ariaLabel = name;
    this.again.hidden = job.state !== "failed";
    this.again.textContent = text("again");
    this.again.ariaLabel = text("installs.again", { name });
    const isOver = !isActive(job);
    this.end.className = isOver ? "icon" : "quiet";
    this.end.replaceChildren(isOver ? icon("clear") : text("cancel"));
    this.end.ariaLabel = this.end.title = text(isOver ? "installs.dismiss" : "installs.cancel", { name });
  }
}

function isMoving(state) {
  return ["finding", "downloading", "converting", "checking", "loading"].includes(state);
}

/** The languages, once they are known. */
function nameOf({ model, name, source, target }) {
  return source && target ? directionText({ source, target }) : (name ?? model);
}

function statusText(job) {
  const { state, bytes, total, seconds_left: left, retry_at: retryAt, serves, name, model } = job;
  if (state === "downloading") {
    if (!total) return text("installs.downloading.some", { bytes: sizeText(bytes) });
    const figures = { bytes: sizeText(bytes), total: sizeText(total) };
    if (left === null) return text("installs.downloading", figures);
    return text("installs.downloading.left", { ...figures, time: timeText(left) });
  }
  const error = job.error?.detail || job.error?.title; // the service's words, whatever the page's language is
  if (state === "waiting") return text("installs.waiting", { error, time: clockText(retryAt) });
  if (state === "failed") return text("installs.failed", { error });
  return text(`installs.${state}`, { model: serves ?? name ?? model });
}

function clockText(time) {
  return new Date(time).toLocaleTimeString(document.documentElement.lang, { timeStyle: "short" });
}

function setText(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

function icon(name) {
  return createSvgElement("svg", { "aria-hidden": "true" }, createSvgElement("use", { href: `#icon-${name}` }));
}
