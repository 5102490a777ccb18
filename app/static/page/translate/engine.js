// The choice between the bundle's model and a large one, where the service has one.

import { text } from "../i18n/index.js";
import { getStored, setStored } from "../lib/storage.js";

const STORED = "interlinear.engine";
const { content: largeModel, dataset } = document.querySelector('meta[name="interlinear-llm"]');
const select = document.getElementById("engine");

/** @returns {{engine?: string}} the field of a request; none where there is no choice */
export function engineField() {
  return largeModel ? { engine: select.value } : {};
}

/** @param {() => void} onChange */
export function startEngine(onChange) {
  if (!largeModel) return;
  const footer = document.querySelector("footer");
  footer.dataset.text = "footer.llm";
  footer.textContent = text("footer.llm");
  select.hidden = false;
  select.title = largeModel;
  select.value = getStored(STORED) ?? dataset.engine;
  select.addEventListener("change", () => {
    setStored(STORED, select.value);
    onChange();
  });
}

/** @param {{engine?: string}[]} sentences @returns {[string, object] | null} the text that says which a large model
 *  translated, and its values */
export function engineRemark(sentences) {
  const count = sentences.filter(({ engine }) => engine === "llm" || engine === "both").length;
  if (!count) return null;
  return [count === sentences.length ? "engine.all" : "engine.some", { model: largeModel }];
}
