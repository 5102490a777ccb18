// The dialogs before a model is installed, with its licence, and before one is removed.

import { make } from "../lib/dom.js";
import { errorMessage } from "../translate/notices.js";
import { downloadSize } from "./catalogue.js";
import { dateText, directionText, figuresText, licenceText, pageLink, sizeText, unbroken } from "./published_facts.js";
import { text } from "../i18n/index.js";

/** Shows licence, size and origin of models. @param {import("./catalogue.js").Published[]} models
 *  @param {string} dated the date of the catalogue
 *  @param {() => Promise<() => void>} install called when the user agrees; if it fails, the dialog stays and says why.
 *    What it returns is called once the dialog is closed */
export function askToInstall(models, dated, install) {
  const size = downloadSize(models);
  const hosts = [...new Set(models.map(({ host }) => host))].join(text("installs.comma"));
  const download = Number.isFinite(size)
    ? text("installs.download", { size: sizeText(size), hosts })
    : text("installs.download.unknown", { hosts });
  const restricted = [...new Set(models.filter((model) => model.forbids_commercial_use).map(({ licence }) => licence))];
  const content = [
    ...models.map((model) => termsOf(model, models.length > 1)),
    make("p", {}, download),
    make("p", { className: "about" }, text("installs.published", { date: dateText(dated) })),
    ...restricted.map(acceptance),
  ];
  const title = models.length > 1 ? text("installs.title.several") : text("installs.title", titleValues(models[0]));
  ask({ title, content, action: text("installs.install"), act: install });
}

/** @param {{direction: string, model: string}} removed its languages and its name
 *  @param {string | null} then the model that serves afterwards; null if there is none
 *  @param {() => Promise<() => void>} remove as `install` above */
export function askToRemove({ direction, model }, then, remove) {
  const consequence = then === null ? "installs.then.none" : "installs.then";
  const content = [
    make("p", {}, make("code", {}, model)),
    make("p", {}, text(consequence, { direction, model: then })),
    make("p", { className: "about" }, text("installs.again.later")),
  ];
  ask({ title: text("installs.remove.title", { direction }), content, action: text("installs.remove"), act: remove });
}

function ask({ title, content, action, act }) {
  const heading = make("h2", { id: "install-title" }, title);
  const fault = make("p", { className: "fault", role: "alert" });
  const close = () => dialog.close();
  const cancel = make("button", { type: "button", className: "quiet", on: { click: close } }, text("cancel"));
  const agree = make("button", { type: "submit", className: "primary" }, action);
  const form = make("form", { method: "dialog" }, heading, ...content, fault);
  form.append(make("div", { className: "buttons" }, cancel, agree));
  const dialog = make("dialog", { className: "install-dialog", aria: { labelledby: heading.id } }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    agree.disabled = true; // a second click would ask twice
    fault.textContent = "";
    try {
      const then = await act();
      close();
      then();
    } catch (error) {
      fault.textContent = errorMessage(error);
    }
    agree.disabled = false;
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function termsOf(model, isOneOfSeveral) {
  const rows = [
    ["model.licence", ...unbroken(licenceText(model))],
    ["installs.publisher", pageLink(model.page, model.publisher)],
    ["model.name", make("code", {}, model.model)],
    ["installs.size", model.bytes ? sizeText(model.bytes) : text("installs.unknown")],
  ];
  if (model.figures.length) rows.push(["installs.scores", ...unbroken(figuresText(model.figures))]);
  const parts = rows.flatMap(([key, ...value]) => [make("dt", {}, text(key)), make("dd", {}, ...value)]);
  const title = isOneOfSeveral ? [make("h3", {}, directionText(model))] : [];
  return make("section", {}, ...title, make("dl", {}, ...parts));
}

function acceptance(licence) {
  const box = make("input", { type: "checkbox", required: true });
  return make("label", { className: "check" }, box, make("span", {}, text("installs.noncommercial", { licence })));
}

function titleValues(model) {
  return { direction: directionText(model) };
}
