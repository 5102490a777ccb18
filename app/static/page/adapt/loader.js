// Shows the panel that adapts the model to holders of an admin key, and loads adapt/panel.js for them alone.

import * as api from "../service/api.js";

const CAN_ADAPT = document.querySelector('meta[name="interlinear-adaptation"]').content === "on";

/** Looks whether the key may adapt, now and whenever it changes.
 *  @param {() => {source: string, target: string}} languages called for the selected languages */
export function startAdaptation(languages) {
  if (!CAN_ADAPT) return;
  let panel = null;
  const check = async () => {
    const status = api.key() ? await api.get("adaptation").catch(() => null) : null; // another key's holder, or no one
    if (!status) return void panel?.hide();
    const { AdaptPanel } = await import("./panel.js");
    panel ??= new AdaptPanel(document.getElementById("model-panel"), languages);
    panel.show(status);
  };
  document.addEventListener("keychange", check);
  check();
}
