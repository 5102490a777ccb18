// Copies text. Knows what browsers lack on plain HTTP, where a service of one's own often is.

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
  const area = document.createElement("textarea");
  area.className = "unseen";
  area.value = words;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  before?.focus();
  return done;
}
