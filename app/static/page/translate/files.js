// Files: dropped anywhere or chosen, translated one after another, given back as links.

import * as api from "../service/api.js";
import { isGone, sleep, untilReady } from "../service/request_loop.js";
import { make } from "../lib/dom.js";
import { faultWords, goneWords, say } from "./notices.js";
import { languageName, number, text } from "../i18n/index.js";

const list = document.getElementById("files");
const chooser = document.getElementById("file");
const zone = document.getElementById("drop");
const MOST_WARNINGS = 100;
const MOST_BYTES = Number(chooser.dataset.maxBytes);

/** @param {() => {source: string, target: string}} languages those that are chosen when a file comes */
export function startFiles(languages) {
  let last = Promise.resolve();
  const add = (files) => {
    for (const file of files) {
      const job = new FileJob(file, languages());
      last = last.then(() => job.run());
    }
  };
  document.getElementById("choose-file").addEventListener("click", () => chooser.click());
  chooser.addEventListener("change", () => {
    add(chooser.files);
    chooser.value = ""; // the same file may be chosen again
  });
  acceptDrops(add, languages);
}

function acceptDrops(add, languages) {
  const hasFiles = ({ dataTransfer }) => dataTransfer?.types.includes("Files");
  const show = (shown) => {
    zone.hidden = !shown;
    if (shown) zone.firstElementChild.textContent = text("file.drop", { language: languageName(languages().target) });
  };
  addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
    if (zone.hidden) show(true);
  });
  // Out of the window, and not from one element to another.
  addEventListener("dragleave", (event) => event.relatedTarget === null && show(false));
  addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    show(false);
    add(event.dataTransfer.files);
  });
}

/** A file and its line in the list. */
class FileJob {
  #request = new AbortController();
  #address = null;

  constructor(file, { source, target }) {
    this.file = file;
    this.form = new FormData();
    for (const [name, value] of Object.entries({ source, target, file })) this.form.append(name, value);
    const name = make("span", { className: "name" }, file.name);
    this.said = make("span", { className: "state", role: "status" }, text("file.waits"));
    const click = () => this.#remove();
    this.action = make("button", { type: "button", className: "quiet", on: { click } }, text("cancel"));
    this.line = make("li", {}, name, this.said, this.action);
    list.append(this.line);
  }

  /** Never rejects: what went wrong is in the line. */
  async run() {
    const { signal } = this.#request;
    if (signal.aborted) return;
    this.line.classList.add("busy");
    this.said.textContent = text("file.busy");
    try {
      if (this.file.size > MOST_BYTES) throw new api.Problem(tooLarge());
      await this.#done(await this.#asked(signal));
    } catch (error) {
      if (!signal.aborted) this.#failed(error);
    }
    this.line.classList.remove("busy");
  }

  /** Refused with a time to come back, or the service is gone: then once more. */
  async #asked(signal) {
    const ask = () => api.postForm("translate/file", this.form, { signal });
    try {
      return await ask();
    } catch (error) {
      const wait = error.retryAfter;
      if (signal.aborted || !(wait || isGone(error))) throw error;
      this.said.textContent = wait ? faultWords(error, wait) : goneWords(error);
      await (wait ? sleep(1000 * wait, signal) : untilReady(signal));
      this.said.textContent = text("file.busy");
      return ask();
    }
  }

  async #done(response) {
    const warnings = Number(response.headers.get("X-Interlinear-Warnings") ?? 0);
    const name = fileName(response.headers.get("Content-Disposition") ?? "") ?? this.file.name;
    this.#address = URL.createObjectURL(await response.blob());
    const looks = { className: "primary", href: this.#address, download: name };
    const link = make("a", looks, text("file.save", { name }));
    this.said.textContent = warnings ? text("file.warnings", { count: number(warnings) }) : text("file.done");
    this.action.textContent = text("file.remove");
    this.action.before(link);
    const report = response.headers.get("X-Interlinear-Report");
    if (warnings && report) await this.#list(report.split("/").at(-1));
  }

  /** Which texts have warnings; without the report their number alone is told. */
  async #list(report) {
    try {
      const { warnings } = await api.get(`translate/file/report/${report}`, { signal: this.#request.signal });
      this.line.append(warningList(warnings));
    } catch (error) {
      if (!(error instanceof api.Problem || error instanceof api.Unreachable)) throw error;
    }
  }

  #failed(error) {
    this.said.textContent = faultWords(error);
    this.said.classList.add("fault");
    this.action.textContent = text("file.remove");
  }

  #remove() {
    this.#request.abort();
    if (this.#address) URL.revokeObjectURL(this.#address);
    this.line.remove();
    say(text("file.removed", { name: this.file.name }));
    document.getElementById("choose-file").focus();
  }
}

function warningList(warnings) {
  const lines = warnings.slice(0, MOST_WARNINGS).map(({ line, name, text: words, warning }) => {
    const place = name ?? (line && text("file.line", { line: String(line) }));
    const said = make("span", { lang: "en" }, warning); // the service's own words
    return make("li", {}, ...(place ? [make("b", {}, place)] : []), make("q", { dir: "auto" }, words), said);
  });
  const more = warnings.length - lines.length;
  if (more) lines.push(make("li", {}, text("warnings.more", { count: number(more) })));
  return make("details", {}, make("summary", {}, text("file.report")), make("ul", {}, ...lines));
}

function tooLarge() {
  const limit = number(MOST_BYTES / 2 ** 20, { maximumFractionDigits: 1 });
  return { status: 413, title: text("problem.too-much-text"), detail: text("file.limit", { limit }) };
}

/** The name in a Content-Disposition (RFC 6266), the one in any characters first. */
function fileName(header) {
  const encoded = /filename\*=UTF-8''([^;]+)/i.exec(header);
  return encoded ? decodeURIComponent(encoded[1]) : (/filename="([^"]*)"/i.exec(header)?.[1] ?? null);
}
