// What the address says after "#", which no server is sent: en/fr/text.

const LONGEST = 2000;

/** @returns {{source: string, target: string, text: string} | null} */
export function readPlace() {
  const [source, target, ...rest] = location.hash.slice(1).split("/");
  if (!source || !target) return null;
  try {
    return { source, target, text: decodeURIComponent(rest.join("/")) };
  } catch {
    return { source, target, text: "" }; // cut in the middle of a character
  }
}

/** The languages, so that a reload or a bookmark keeps them. Not the text: a browser's history is no place for it.
 *  @param {string} source @param {string} target */
export function writePlace(source, target) {
  history.replaceState(null, "", `#${source}/${target}`);
}

/** @param {{source: string, target: string, text: string}} wanted @returns {string | null} an address that shows the
 *  translation of a text; null if the text is too long for one */
export function linkTo({ source, target, text }) {
  if (text.length > LONGEST) return null;
  return new URL(`#${source}/${target}/${encodeURIComponent(text)}`, location.href).href;
}
