// Places in a text: the service counts code points, JavaScript UTF-16 units. And the words of a text.

/** @param {string} text @returns {number} code points in it */
export function codePoints(text) {
  let pairs = 0;
  for (let at = 0; at < text.length; at += 1) if (text.codePointAt(at) > 0xffff) pairs += 1;
  return text.length - pairs;
}

/** @param {string} text @returns {(codePoint: number) => number} where in UTF-16 units a code point of `text` begins */
export function unitsOf(text) {
  const starts = [];
  if (!/[\ud800-\udbff]/.test(text)) return (codePoint) => codePoint;
  for (let at = 0; at < text.length; at += text.codePointAt(at) > 0xffff ? 2 : 1) starts.push(at);
  return (codePoint) => starts[codePoint] ?? text.length;
}

/** @param {string} text @param {string} language
 *  @returns {{text: string, isWord: boolean}[]} its words and what is between them; joined, they are the text */
export function wordsOf(text, language) {
  const found = [];
  for (const { segment, isWordLike } of segmenter(language).segment(text)) {
    const last = found.at(-1);
    if (last && !last.isWord && !isWordLike) last.text += segment;
    else found.push({ text: segment, isWord: isWordLike });
  }
  return found;
}

/** @param {number[]} one @param {number[]} other [start, end) @returns {boolean} */
export function overlap([start, end], [otherStart, otherEnd]) {
  return start < otherEnd && otherStart < end;
}

const segmenters = new Map();

function segmenter(language) {
  if (!segmenters.has(language)) segmenters.set(language, newSegmenter(language));
  return segmenters.get(language);
}

function newSegmenter(language) {
  try {
    return new Intl.Segmenter(language, { granularity: "word" });
  } catch {
    return new Intl.Segmenter(undefined, { granularity: "word" }); // any code may be served, also one that is none
  }
}
