// Which words of a sentence became which: asked for when somebody points at one, and kept as long as its translation.

import * as api from "../service/api.js";

const TOGETHER = 16; // sentences that are asked for at once

/** A word of a sentence and one of its translation, as code points of each.
 *  @typedef {{source: [number, number], target: [number, number]}} Pair */

/** @type {WeakMap<object, Map<number, Promise<Pair[][]>>>} */
const known = new WeakMap();

/** @param {import("../service/request_loop.js").Result} result @param {number} index of the sentence
 *  @returns {Promise<Pair[]>} @throws {api.Problem | api.Unreachable} */
export async function pairsOf(result, index) {
  // Nothing was translated, or not by the model.
  if (["und", result.target].includes(result.source) || result.sentences[index].isReplaced) return [];
  if (!known.has(result)) known.set(result, new Map());
  const blocks = known.get(result);
  const first = index - (index % TOGETHER);
  if (!blocks.has(first)) {
    const asked = ask(result, first);
    blocks.set(first, asked);
    asked.catch(() => blocks.delete(first)); // who points again asks again
  }
  return (await blocks.get(first))[index - first];
}

async function ask({ text, source, target, sentences }, first) {
  const block = sentences.slice(first, first + TOGETHER);
  const texts = block.map((sentence) => text.slice(...sentence.source));
  const { translations } = await api.post("translate", { text: texts, source, target, alignment: true });
  // One that is another without its neighbours has no words in common with the one that is shown.
  return translations.map((told, n) => (told.text === block[n].text ? (told.alignment ?? []) : []));
}
