// The URL fragment, "#en/fr/text". Browsers do not send it to a server.

const MAX_TEXT_UNITS = 2000;

/** @returns {{source: string, target: string, text: string} | null} */
export function readFragment() {
  const [source, target, ...rest] = location.hash.slice(1).split("/");
  if (!source || !target) return null;
  try {
    return { source, target, text: decodeURIComponent(rest.join("/")) };
  } catch {
    return { source, target, text: "" }; // truncated within an encoded character
  }
}

/** Stores the languages for reloads and bookmarks, but not the text, which does not belong in the browser's history.
 *  @param {string} source @param {string} target */
export function writeFragment(source, target) {
  history.replaceState(null, "", `#${source}/${target}`);
}

/** @param {{source: string, target: string, text: string}} request @returns {string | null} a URL that shows this
 *  translation; null if the text is too long */
export function linkTo({ source, target, text }) {
  if (text.length > MAX_TEXT_UNITS) return null;
  return new URL(`#${source}/${target}/${encodeURIComponent(text)}`, location.href).href;
}
