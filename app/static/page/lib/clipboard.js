// Copies text, also over plain HTTP, where browsers offer no navigator.clipboard.

import { make } from "./dom.js";

/** @param {string} words @returns {Promise<boolean>} whether they are on the clipboard */
export async function copy(words) {
  try {
    await navigator.clipboard.writeText(words);
    return true;
  } catch {
    return copyBySelecting(words);
  }
}

function copyBySelecting(words) {
  const focused = document.activeElement;
  const area = make("textarea", { className: "unseen", value: words });
  document.body.append(area);
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return isDone;
}
