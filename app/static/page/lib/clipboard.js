// Copies text. Knows what browsers lack on plain HTTP, where a service of one's own often is.

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
  const before = document.activeElement;
  const area = make("textarea", { className: "unseen", value: words });
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  before?.focus();
  return done;
}
