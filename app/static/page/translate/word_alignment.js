// Word alignments of a translation's sentences, requested when first needed and cached with the translation.

import * as api from "../service/api.js";

const BLOCK_SENTENCES = 16; // sentences per request

/** Spans of aligned words, in code points of the sentence and of its translation.
 *  @typedef {{source: [number, number], target: [number, number]}} WordPair */

/** @type {WeakMap<object, Map<number, Promise<WordPair[][]>>>} */
const cache = new WeakMap();

/** @param {import("../service/request_loop.js").Result} result @param {number} index of the sentence
 *  @returns {Promise<WordPair[]>} @throws {api.Problem | api.Unreachable} */
export async function alignmentOf(result, index) {
  // There is no translation, or it is not the model's best.
  if (["und", result.target].includes(result.source) || result.sentences[index].isReplaced) return [];
  if (!cache.has(result)) cache.set(result, new Map());
  const blocks = cache.get(result);
  const first = index - (index % BLOCK_SENTENCES);
  if (!blocks.has(first)) {
    const request = requestBlock(result, first);
    blocks.set(first, request);
    request.catch(() => blocks.delete(first)); // the next call tries again
  }
  return (await blocks.get(first))[index - first];
}

async function requestBlock({ text, source, target, sentences }, first) {
  const block = sentences.slice(first, first + BLOCK_SENTENCES);
  const texts = block.map((sentence) => text.slice(...sentence.source));
  const { translations } = await api.post("translate", { text: texts, source, target, alignment: true });
  // Without its context a sentence may be translated differently; its alignment then does not fit.
  return translations.map((answer, n) => (answer.text === block[n].text ? (answer.alignment ?? []) : []));
}
