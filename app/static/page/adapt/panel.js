// The panel that adapts the model to a file of pairs: file, plan, training, comparison, and whether it is to be served.

import * as api from "../service/api.js";
import { createSvgElement, make } from "../lib/dom.js";
import { errorMessage } from "../translate/notices.js";
import { addTexts, languageName, text } from "../i18n/index.js";
import { chinese, english } from "../i18n/adapt.js";
import { comparisonOf, planOf, scoresOf } from "./facts.js";

const REFRESH_MS = 2000;
const DEFAULTS = { minutes: "30", accept_general_loss: "2" };
const BUSY = new Set(["planning", "training", "comparing", "accepting"]);
const ACCEPTING_FILES = new Set(["none", "accepted", "failed"]);

addTexts({ en: english, zh: chinese });

/** Polls the service only while something is in progress and the panel is open and visible. */
export class AdaptPanel {
  #status = { state: "none" };
  #shown = ""; // the state that is shown
  #timer = 0;
  #fields = { ...DEFAULTS, model: "" };

  /** @param {Element} place after which the panel stands
   *  @param {() => {source: string, target: string}} languages called for the selected languages */
  constructor(place, languages) {
    this.languages = languages;
    this.title = make("h2", {});
    this.aside = make("span", { className: "aside" });
    const chevron = createSvgElement("svg", { "aria-hidden": "true" }, createSvgElement("use", { href: "#icon-chevron" }));
    this.state = make("p", { className: "state", role: "status", tabIndex: -1 });
    this.fault = make("p", { className: "fault", role: "alert" });
    this.body = make("div", {});
    this.section = make("section", { className: "adapt" }, this.state, this.fault, this.body);
    const summary = make("summary", {}, chevron, this.title, this.aside);
    const toggle = () => this.#refresh();
    this.panel = make("details", { className: "panel", id: "adapt-panel", on: { toggle } }, summary, this.section);
    place.after(this.panel);
    document.addEventListener("visibilitychange", () => this.#refresh());
    document.addEventListener("interfacechange", () => this.#render(true));
  }

  /** @param {object} status of the adaptation, as from GET /adaptation */
  show(status) {
    this.panel.hidden = false;
    this.#status = status;
    this.#render();
    this.#refresh();
  }

  hide() {
    this.panel.hidden = true;
    clearTimeout(this.#timer);
  }

  async #refresh() {
    clearTimeout(this.#timer);
    if (!this.panel.open || this.panel.hidden || document.hidden) return;
    if (ACCEPTING_FILES.has(this.#status.state)) await this.#loadModels();
    if (!BUSY.has(this.#status.state)) return;
    try {
      this.#status = await api.get("adaptation");
      this.#render();
    } catch (error) {
      this.fault.textContent = errorMessage(error);
      if (!(error instanceof api.Unreachable)) return;
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#refresh(), REFRESH_MS);
  }

  /** @param {() => Promise<object>} request whose response is the status */
  async #act(request) {
    clearTimeout(this.#timer);
    this.fault.textContent = "";
    this.section.ariaBusy = "true";
    try {
      this.#status = await request();
    } catch (error) {
      this.fault.textContent = errorMessage(error);
    }
    this.section.ariaBusy = "false";
    this.#render();
    this.#refresh();
  }

  async #send(file) {
    if (!this.models) await this.#loadModels(); // the user was faster
    const model = this.models?.find(({ model: name }) => name === this.#fields.model);
    if (!file || !model) return;
    const { minutes, accept_general_loss } = this.#fields;
    const fields = { source: model.source, target: model.target, minutes, accept_general_loss, file };
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) if (value !== "") form.append(name, value);
    this.#act(async () => (await api.postForm("adaptation", form)).json());
  }

  #discard() {
    this.#act(async () => {
      await api.remove("adaptation");
      return { state: "none" };
    });
  }

  #post(path) {
    return () => this.#act(() => api.post(path, {}));
  }

  #render(isForced = false) {
    const { state, lines = [], error, model } = this.#status;
    this.title.textContent = text("adapt.title");
    this.aside.textContent = text("adapt.aside");
    this.section.ariaLabel = text("adapt.title");
    if (state === this.#shown && !isForced) return this.#updateLog(lines);
    this.#shown = state;
    this.state.textContent = state === "none" ? text("adapt.none") : text(`adapt.${state}`, { model, error });
    this.state.classList.toggle("fault", state === "failed");
    const hadFocus = this.section.contains(document.activeElement);
    this.body.replaceChildren(...this.#content());
    this.#updateLog(lines);
    if (hadFocus) this.state.focus(); // the button that was pressed is gone
  }

  /** Shows the last lines, unless the user has scrolled up to read others. */
  #updateLog(lines) {
    const log = this.log;
    if (!log) return;
    const isAtEnd = !log.textContent || log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
    log.textContent = lines.join("\n");
    if (isAtEnd) log.scrollTop = log.scrollHeight;
  }

  #content() {
    const { state, plan, source, target } = this.#status;
    this.log = null;
    if (ACCEPTING_FILES.has(state)) return [...(state === "failed" ? [this.#log(true)] : []), this.#form()];
    const discard = this.#button("adapt.discard", () => this.#discard());
    if (state === "planned") {
      const start = this.#button("adapt.start", this.#post("adaptation/start"), "primary");
      return [planOf(plan, [source, target]), make("div", { className: "buttons" }, discard, start)];
    }
    if (state === "trained") {
      const accept = this.#button("adapt.accept", this.#post("adaptation/accept"), "primary");
      const advice = make("p", { lang: "en", className: "advice" }, this.#status.advice);
      const found = [scoresOf(this.#status), advice, comparisonOf(this.#status), this.#log(false)];
      return [...found, make("div", { className: "buttons" }, discard, accept)];
    }
    const stop = this.#button("adapt.stop", () => this.#discard());
    const buttons = state === "accepting" ? [] : [make("div", { className: "buttons" }, stop)];
    return [...(plan ? [planOf(plan, [source, target])] : []), this.#log(true), ...buttons];
  }

  #button(key, click, className = "quiet") {
    return make("button", { type: "button", className, on: { click } }, text(key));
  }

  #log(open) {
    this.log = make("pre", { lang: "en", tabIndex: 0 });
    this.log.ariaLabel = text("adapt.log");
    return make("details", { open }, make("summary", {}, text("adapt.log")), this.log);
  }

  #form() {
    this.select = make("select", { ariaLabel: text("adapt.bundle") });
    this.select.addEventListener("change", () => (this.#fields.model = this.select.value));
    this.#fillModels();
    const input = make("input", { type: "file", accept: ".tsv,.tmx", hidden: true });
    input.addEventListener("change", () => this.#send(input.files[0]));
    const choose = this.#button("adapt.choose", () => input.click(), "primary");
    const zone = make("div", { className: "pairs" }, choose, input, make("span", {}, text("adapt.drop")));
    this.#acceptDrops(zone);
    const direction = make("label", {}, text("adapt.bundle"), this.select);
    const limits = make("div", { className: "limits" }, direction, this.#limit("minutes", "adapt.minutes", 1));
    limits.append(this.#limit("accept_general_loss", "adapt.loss", 0));
    return make("div", {}, limits, zone);
  }

  #limit(name, key, min) {
    const value = this.#fields[name];
    const input = make("input", { type: "number", min, step: "any", value, inputMode: "decimal", autocomplete: "off" });
    input.addEventListener("input", () => (this.#fields[name] = input.value));
    return make("label", {}, text(key), input);
  }

  /** Takes files dropped on `zone`, which the page would translate elsewhere. */
  #acceptDrops(zone) {
    const over = (isOver) => zone.classList.toggle("over", isOver);
    zone.addEventListener("dragover", (event) => {
      event.preventDefault();
      event.stopPropagation();
      document.getElementById("drop").hidden = true;
      over(true);
    });
    zone.addEventListener("dragleave", () => over(false));
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      event.stopPropagation();
      document.getElementById("drop").hidden = true;
      over(false);
      this.#send(event.dataTransfer.files[0]);
    });
  }

  async #loadModels() {
    try {
      const models = await api.get("models");
      this.models = models.filter(({ sources, targets }) => sources.length === 1 && targets.length === 1);
      this.#fillModels();
    } catch (error) {
      this.fault.textContent = errorMessage(error);
    }
  }

  #fillModels() {
    if (!this.models || !this.select) return;
    const { source, target } = this.languages();
    const isChosen = ({ model }) => model === this.#fields.model;
    const chosen = this.models.find(isChosen) ?? this.models.find((m) => m.source === source && m.target === target);
    this.#fields.model = (chosen ?? this.models[0])?.model ?? "";
    const options = this.models.map((m) => {
      const names = [m.source, m.target].map(languageName).join(" → ");
      return make("option", { value: m.model, selected: m.model === this.#fields.model }, names);
    });
    this.select.replaceChildren(...options);
  }
}
