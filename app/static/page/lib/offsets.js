// Converts offsets between the service's code points and JavaScript's UTF-16 units, and splits text into words.

/** @param {string} text @returns {number} its length in code points */
export function codePoints(text) {
  let pairs = 0;
  for (let at = 0; at < text.length; at += 1) if (text.codePointAt(at) > 0xffff) pairs += 1;
  return text.length - pairs;
}

/** @param {string} text @returns {(codePoint: number) => number} converts a code point offset of `text` to UTF-16 */
export function unitsOf(text) {
  const starts = [];
  if (!/[\ud800-\udbff]/.test(text)) return (codePoint) => codePoint;
  for (let at = 0; at < text.length; at += text.codePointAt(at) > 0xffff ? 2 : 1) starts.push(at);
  return (codePoint) => starts[codePoint] ?? text.length;
}

/** @param {string} text @param {string} language
 *  @returns {{text: string, isWord: boolean}[]} words and the text between them, which together are the whole text */
export function wordsOf(text, language) {
  const segments = [];
  for (const { segment, isWordLike } of segmenter(language).segment(text)) {
    const last = segments.at(-1);
    if (last && !last.isWord && !isWordLike) last.text += segment;
    else segments.push({ text: segment, isWord: isWordLike });
  }
  return segments;
}

/** @param {number[]} one @param {number[]} other [start, end) @returns {boolean} */
export function overlap([start, end], [otherStart, otherEnd]) {
  return start < otherEnd && otherStart < end;
}

const segmenters = new Map();

function segmenter(language) {
  if (!segmenters.has(language)) segmenters.set(language, createSegmenter(language));
  return segmenters.get(language);
}

function createSegmenter(language) {
  try {
    return new Intl.Segmenter(language, { granularity: "word" });
  } catch {
    return new Intl.Segmenter(undefined, { granularity: "word" }); // a service may use codes that are not BCP 47 tags
  }
}
