// Files, dropped on the page or chosen, are translated one after another and offered as downloads.

import * as api from "../service/api.js";
import { isUnavailable, sleep, waitUntilReady } from "../service/request_loop.js";
import { make } from "../lib/dom.js";
import { errorMessage, unavailableMessage, announce } from "./notices.js";
import { languageName, number, text } from "../i18n/index.js";

const list = document.getElementById("files");
const fileInput = document.getElementById("file");
const dropZone = document.getElementById("drop");
const MAX_WARNINGS = 100;
const MAX_BYTES = Number(fileInput.dataset.maxBytes);

/** @param {() => {source: string, target: string}} languages called for the selected languages when a file is added */
export function startFiles(languages) {
  let last = Promise.resolve();
  const add = (files) => {
    for (const file of files) {
      const job = new FileJob(file, languages());
      last = last.then(() => job.run());
    }
  };
  document.getElementById("choose-file").addEventListener("click", () => fileInput.click());
  fileInput.addEventListener("change", () => {
    add(fileInput.files);
    fileInput.value = ""; // so that choosing the same file again is a change
  });
  acceptDrops(add, languages);
}

function acceptDrops(add, languages) {
  const hasFiles = ({ dataTransfer }) => dataTransfer?.types.includes("Files");
  const show = (shown) => {
    dropZone.hidden = !shown;
    if (!shown) return;
    const language = languageName(languages().target);
    dropZone.firstElementChild.textContent = text("file.drop", { language });
  };
  addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
    if (dropZone.hidden) show(true);
  });
  // Null when the pointer leaves the window, not when it moves between elements.
  addEventListener("dragleave", (event) => event.relatedTarget === null && show(false));
  addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    show(false);
    add(event.dataTransfer.files);
  });
}

/** A file and its row in the list. */
class FileJob {
  #request = new AbortController();
  #objectUrl = null;

  constructor(file, { source, target, engine }) {
    this.file = file;
    this.form = new FormData();
    for (const [name, value] of Object.entries({ source, target, ...(engine && { engine }), file })) this.form.append(name, value);
    const name = make("span", { className: "name" }, file.name);
    this.status = make("span", { className: "state", role: "status" }, text("file.waits"));
    const click = () => this.#removeLine();
    this.action = make("button", { type: "button", className: "quiet", on: { click } }, text("cancel"));
    this.line = make("li", {}, name, this.status, this.action);
    list.append(this.line);
  }

  /** Never rejects: errors are shown in the row. */
  async run() {
    const { signal } = this.#request;
    if (signal.aborted) return;
    this.line.classList.add("busy");
    this.status.textContent = text("file.busy");
    try {
      if (this.file.size > MAX_BYTES) throw new api.Problem(tooLarge());
      await this.#finish(await this.#requestWithRetry(signal));
    } catch (error) {
      if (!signal.aborted) this.#fail(error);
    }
    this.line.classList.remove("busy");
  }

  /** Retries once after a Retry-After, or when an unavailable service is back. */
  async #requestWithRetry(signal) {
    const request = () => api.postForm("translate/file", this.form, { signal });
    try {
      return await request();
    } catch (error) {
      const wait = error.retryAfter;
      if (signal.aborted || !(wait || isUnavailable(error))) throw error;
      this.status.textContent = wait ? errorMessage(error, wait) : unavailableMessage(error);
      await (wait ? sleep(1000 * wait, signal) : waitUntilReady(signal));
      this.status.textContent = text("file.busy");
      return request();
    }
  }

  async #finish(response) {
    const warnings = Number(response.headers.get("X-Interlinear-Warnings") ?? 0);
    const name = fileName(response.headers.get("Content-Disposition") ?? "") ?? this.file.name;
    this.#objectUrl = URL.createObjectURL(await response.blob());
    const properties = { className: "primary", href: this.#objectUrl, download: name };
    const link = make("a", properties, text("file.save", { name }));
    const click = () => this.#review(name, link);
    this.reviewButton = make("button", { type: "button", className: "quiet", on: { click } }, text("file.review"));
    this.reviewButton.setAttribute("aria-expanded", "false");
    this.status.textContent = warnings ? text("file.warnings", { count: number(warnings) }) : text("file.done");
    this.action.textContent = text("file.remove");
    this.action.before(this.reviewButton, link);
    const report = response.headers.get("X-Interlinear-Report");
    if (warnings && report) await this.#showReport(report.split("/").at(-1));
  }

  /** Opens the review, or closes it: changes that were not saved are kept until the row is removed. */
  async #review(name, link) {
    const button = this.reviewButton;
    if (this.reviewPanel) {
      this.reviewPanel.hidden = !this.reviewPanel.hidden;
      button.setAttribute("aria-expanded", String(!this.reviewPanel.hidden));
      return;
    }
    button.disabled = true;
    this.line.classList.add("busy");
    const { signal } = this.#request;
    try {
      const { Review } = await import("./review.js");
      const replace = async (response) => {
        URL.revokeObjectURL(this.#objectUrl);
        link.href = this.#objectUrl = URL.createObjectURL(await response.blob());
        link.click();
      };
      this.reviewPanel = await new Review(this.form, name, replace).open(signal);
      this.line.append(this.reviewPanel);
      button.setAttribute("aria-expanded", "true");
    } catch (error) {
      if (!signal.aborted) this.#fail(error);
    }
    this.line.classList.remove("busy");
    button.disabled = false;
  }

  /** Lists the texts with warnings; without the report, the row shows only their number. */
  async #showReport(report) {
    try {
      const { warnings } = await api.get(`translate/file/report/${report}`, { signal: this.#request.signal });
      this.line.append(warningList(warnings));
    } catch (error) {
      if (!(error instanceof api.Problem || error instanceof api.Unreachable)) throw error;
    }
  }

  #fail(error) {
    this.status.textContent = errorMessage(error);
    this.status.classList.add("fault");
    this.action.textContent = text("file.remove");
  }

  #removeLine() {
    this.#request.abort();
    if (this.#objectUrl) URL.revokeObjectURL(this.#objectUrl);
    this.line.remove();
    announce(text("file.removed", { name: this.file.name }));
    document.getElementById("choose-file").focus();
  }
}

function warningList(warnings) {
  const lines = warnings.slice(0, MAX_WARNINGS).map(({ line, name, text: words, warning }) => {
    const position = name ?? (line && text("file.line", { line: String(line) }));
    const message = make("span", { lang: "en" }, warning); // the service's text, in English
    return make("li", {}, ...(position ? [make("b", {}, position)] : []), make("q", { dir: "auto" }, words), message);
  });
  const more = warnings.length - lines.length;
  if (more) lines.push(make("li", {}, text("warnings.more", { count: number(more) })));
  return make("details", {}, make("summary", {}, text("file.report")), make("ul", {}, ...lines));
}

function tooLarge() {
  const limit = number(MAX_BYTES / 2 ** 20, { maximumFractionDigits: 1 });
  return { status: 413, title: text("problem.too-much-text"), detail: text("file.limit", { limit }) };
}

/** The file name in a Content-Disposition (RFC 6266), preferring the Unicode one. */
function fileName(header) {
  const encoded = /filename\*=UTF-8''([^;]+)/i.exec(header);
  return encoded ? decodeURIComponent(encoded[1]) : (/filename="([^"]*)"/i.exec(header)?.[1] ?? null);
}
