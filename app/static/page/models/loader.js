// Loads models/installs.js, which installs published models, once the user looks at the languages or the model, or
// one is being installed.

import { text } from "../i18n/index.js";

const IS_INSTALLING = document.querySelector('meta[name="interlinear-installing"]').content === "on";
const panel = document.getElementById("model-panel");
const languageRow = document.querySelector(".languages");

/** Browsers remember that a module could not be loaded, so only a new visit helps. */
function showMissing() {
  const place = document.getElementById("model-install");
  place.textContent = text("attention.failed");
  place.hidden = false;
}

/** @typedef {object} Page
 *  @property {import("../translate/languages.js").LanguagePicker} languages
 *  @property {() => Promise<void>} reload translates with what is served now
 *
 *  @param {Page} page
 *  @returns {{showPair: () => void, showModel: (model: any, pair: {source: string, target: string}) => void}} call
 *    `showPair` when other languages are selected or served, and `showModel` with what the panel shows */
export function startInstalls(page) {
  let installs = null;
  let shown = [];
  const load = async () => {
    if (installs) return;
    const part = await import("./installs.js").catch(() => null);
    if (installs) return; // two events at once
    if (!part) return showMissing();
    installs = new part.Installs(page);
    installs.start();
    if (shown.length) installs.showModel(...shown);
  };
  for (const event of ["pointerenter", "focusin"]) languageRow.addEventListener(event, load);
  panel.addEventListener("toggle", () => panel.open && load());
  if (IS_INSTALLING) load();
  return {
    showPair: () => installs?.showPair(),
    showModel: (...model) => {
      shown = model;
      installs?.showModel(...model);
    },
  };
}
