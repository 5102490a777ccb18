// Copies text, also over plain HTTP, where browsers offer no navigator.clipboard.

import { make } from "./dom.js";

const CONFIRMATION_MS = 1500; // for which a button shows that it succeeded

/** @param {string} words @returns {Promise<boolean>} whether they are on the clipboard */
export async function copy(words) {
  try {
    await navigator.clipboard.writeText(words);
    return true;
  } catch {
    return copyBySelecting(words);
  }
}

/** Shows a check mark in place of a button's icon for a moment. @param {HTMLButtonElement} button
 *  @param {() => void} [then] called when it is over */
export function showDone(button, then) {
  const icon = button.querySelector("use");
  const usualIcon = (button.dataset.icon ??= icon.getAttribute("href"));
  icon.setAttribute("href", "#icon-done");
  setTimeout(() => {
    icon.setAttribute("href", usualIcon);
    then?.();
  }, CONFIRMATION_MS);
}

function copyBySelecting(words) {
  const focused = document.activeElement;
  const area = make("textarea", { className: "unseen", value: words });
  // While a dialog is open, nothing outside it can be selected.
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return isDone;
}
