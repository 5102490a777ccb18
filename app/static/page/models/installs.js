// Installs published models: connects the catalogue, the jobs of the service, and what the page shows of both.

import { AUTO } from "../translate/languages.js";
import { errorMessage, showError } from "../translate/notices.js";
import { BestModels, Catalogue } from "./catalogue.js";
import { askToInstall, askToRemove } from "./dialogs.js";
import { installs, isActive, Jobs } from "./jobs.js";
import { JobList } from "./job_list.js";
import { ModelBlock } from "./model_block.js";
import { Offer } from "./offer.js";
import { directionText } from "./published_facts.js";
import { addTexts, text } from "../i18n/index.js";
import { chinese, english } from "../i18n/installs.js";
import * as api from "../service/api.js";

const PREFERRED_SOURCE = "en"; // in place of a language that is still to be detected

const panel = document.getElementById("model-panel");

addTexts({ en: english, zh: chinese });

export class Installs {
  #catalogue = new Catalogue();
  #around = null; // the answer about models from or into a served language
  #best = new BestModels([]);
  #jobs = [];
  #model = null; // of GET /models, which the panel shows
  #direction = null; // of the model, as far as the selection says

  /** @param {import("./loader.js").Page} page */
  constructor(page) {
    this.page = page;
    const remove = (job) => this.#removeJob(job);
    const retry = (job) => this.#retry(job);
    this.following = new Jobs({
      isWatched: () => panel.open,
      onChange: (jobs) => this.#showJobs(jobs),
      onDone: () => this.#reload(),
    });
    this.list = new JobList({ remove, retry });
    const install = (models, dated) => this.#askToInstall(models, dated);
    const isBeingInstalled = (published) => this.#isBeingInstalled(published);
    this.block = new ModelBlock({ install, isBeingInstalled, remove: (model) => this.#askToRemove(model) });
    this.offer = new Offer(install);
    panel.addEventListener("toggle", () => this.#panelToggled());
    document.addEventListener("keychange", () => this.#forget());
    document.addEventListener("interfacechange", () => this.#render());
  }

  start() {
    this.#loadLanguages();
  }

  /** Other languages are selected or served. */
  async showPair() {
    if (!this.#around) await this.#loadLanguages();
    this.#renderOffer();
  }

  /** @param {any} model of GET /models, which the panel shows @param {{source: string, target: string}} pair */
  showModel(model, pair) {
    this.#model = model;
    this.#direction = directionOf(model, pair);
    if (panel.open) this.#renderBlock();
  }

  // What the service knows

  /** Adds the languages of published models to the lists. */
  async #loadLanguages() {
    const { languages } = this.page;
    if (!languages.servedCodes.length) return; // the page is still loading; then it calls showPair
    try {
      this.#around = await this.#catalogue.get({ from_or_to: languages.servedCodes.join(",") });
    } catch (error) {
      return void this.#showFault(error);
    }
    this.#best = new BestModels(this.#around.models);
    const offered = (isPossible) => this.#best.codes.filter((code) => isPossible(code));
    languages.offer({
      sources: (target) => offered((code) => this.#missing(code, target)?.length),
      targets: (source) => offered((code) => this.#missing(this.#sourceOr(source), code)?.length),
    });
    if (this.#around.may_install) this.following.refresh();
  }

  /** @returns {import("./catalogue.js").Published[] | null} */
  #missing(source, target) {
    return this.#best.missing((from, into) => this.page.languages.serves(from, into), source, target);
  }

  #sourceOr(source) {
    if (source !== AUTO) return source;
    const codes = this.page.languages.servedCodes;
    return codes.includes(PREFERRED_SOURCE) ? PREFERRED_SOURCE : codes[0];
  }

  /** Another key may allow other things. */
  async #forget() {
    this.#catalogue.clear();
    await this.#loadLanguages();
    this.#render();
  }

  async #reload() {
    this.#catalogue.clear();
    try {
      await this.page.reload();
    } catch (error) {
      showError(errorMessage(error), { words: text("again"), act: () => this.#reload() });
    }
    await this.#loadLanguages();
    this.#render();
  }

  // What the page shows

  #panelToggled() {
    if (!panel.open) return;
    this.#renderBlock();
    if (this.#around?.may_install) this.following.refresh();
  }

  async #showJobs(jobs) {
    this.#jobs = jobs;
    const hasLostFocus = this.list.show(jobs);
    await this.#render();
    if (hasLostFocus) focusInstallButton();
  }

  async #render() {
    this.#renderOffer();
    if (panel.open) await this.#renderBlock();
  }

  #renderOffer() {
    const { languages } = this.page;
    if (languages.isServed || !this.#around) return this.offer.show(null);
    const [source, target] = [this.#sourceOr(languages.source), languages.target];
    const needed = this.#missing(source, target) ?? [];
    const back = (this.#missing(target, source) ?? []).filter((model) => !needed.includes(model));
    const isBusy = needed.length > 0 && needed.every((model) => this.#isBeingInstalled(model));
    const { may_install: mayInstall, how_to_install: advice, dated } = this.#around;
    this.offer.show({ source, target, needed, back, isBusy, mayInstall, advice, dated });
  }

  async #renderBlock() {
    if (!this.#model || !this.#direction) return this.block.hide();
    const [model, direction] = [this.#model, this.#direction];
    try {
      const answer = await this.#catalogue.get(direction);
      if (direction === this.#direction) this.block.show(model, answer);
    } catch (error) {
      this.#showFault(error);
    }
  }

  /** Faults are shown in the panel, where they are no obstacle to translating. */
  #showFault(error) {
    this.block.showError(errorMessage(error));
  }

  #isBeingInstalled({ model }) {
    return this.#jobs.some((job) => isActive(job) && installs(job, model));
  }

  // What the user does

  #askToInstall(models, dated) {
    askToInstall(models, dated, async () => {
      const jobs = [];
      for (const { model } of models) jobs.push(await this.following.start(model, true));
      return () => this.list.focus(jobs[0].id);
    });
  }

  async #retry(job) {
    const { models, dated } = this.#around;
    const published = models.find(({ model }) => installs(job, model));
    const isRestricted = published?.forbids_commercial_use ?? false;
    const again = async () => {
      await this.following.remove(job);
      const { id } = await this.following.start(job.model, isRestricted);
      return () => this.list.focus(id);
    };
    if (isRestricted) return askToInstall([published], dated, again);
    await this.#try(job, async () => (await again())());
  }

  #removeJob(job) {
    return this.#try(job, () => this.following.remove(job));
  }

  async #try(job, act) {
    try {
      await act();
    } catch (error) {
      this.list.showError(job.id, error);
    }
  }

  #askToRemove(model) {
    const direction = directionText(this.#direction);
    const { model: name, replaces } = model.installed;
    askToRemove({ direction, model: name }, replaces, async () => {
      await api.remove(`models/${model.source}-${model.target}`);
      const done = this.#jobs.find((job) => job.state === "done" && installs(job, name));
      if (done) await this.following.remove(done); // it says that the model serves
      await this.#reload();
      return () => panel.querySelector("summary").focus();
    });
  }
}

/** Of the languages or the model that are shown; else the languages. */
function focusInstallButton() {
  const buttons = [...document.querySelectorAll("#offer button, #model-install button")];
  const shown = buttons.find((button) => button.checkVisibility()) ?? document.getElementById("target-language");
  shown.focus();
}

/** The direction of a model that has one alone, else of the pair if it is the model's. Null if the panel shows any
 *  model, since none translates into that language. */
function directionOf(model, { source, target }) {
  if (!model.targets.includes(target)) return null;
  if (model.sources.length === 1 && model.targets.length === 1) return { source: model.source, target: model.target };
  return model.sources.includes(source) && model.targets.includes(target) ? { source, target } : null;
}
