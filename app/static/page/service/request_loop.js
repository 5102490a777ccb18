// When the service is asked, and again: after a pause in typing, after a refusal, after it was gone. Knows no element.

import * as api from "./api.js";
import { unitsOf } from "../lib/offsets.js";

const PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 1000;
const COMPOSING_MS = 1000;

/** What a translation is asked for. @typedef {{text: string, source: string, target: string}} Wanted
 *  @typedef {Wanted & {
 *    sentences: import("../translate/panes.js").Sentence[], warnings: string[], confidence: number | null, asked: string,
 *    model: string, tokens: number, milliseconds: number}} Result `source` as told, `asked` as it was asked for
 *
 *  @typedef {object} View
 *  @property {() => Wanted} wanted
 *  @property {(wanted: Wanted) => boolean} accept false: nothing to ask; the view shows why
 *  @property {() => void} unchanged what is asked for is what was asked for last
 *  @property {() => void} begin
 *  @property {(index: number, sentence: import("../translate/panes.js").Sentence) => void} sentence
 *  @property {(result: Result) => void} done
 *  @property {(error: Error, wait: number | null) => void} fault `wait`: seconds until it is tried again by itself */

/** @param {View} view @returns {{change: (by?: "typing" | "composing") => void, again: () => void}} what to call when
 *  what is wanted has changed (by what, if it may change again at once), and to ask anew */
export function createCycle(view) {
  let current = new AbortController();
  let asked = null; // what the last request was for
  let timer = 0;
  let firstChange = 0;
  let notBefore = 0;

  function change(by) {
    const now = performance.now();
    firstChange ||= now;
    const typing = Math.min(now + PAUSE_MS, firstChange + LONGEST_PAUSE_MS);
    const end = { typing, composing: now + COMPOSING_MS }[by] ?? now;
    clearTimeout(timer);
    timer = setTimeout(ask, Math.max(0, end - now));
  }

  function again() {
    asked = null;
    notBefore = 0;
    change();
  }

  async function ask() {
    firstChange = 0;
    const wanted = view.wanted();
    if (same(wanted, asked)) return view.unchanged();
    current.abort(); // the service drops what nobody waits for
    asked = null;
    // With nothing to ask for, no wait is told of any more either.
    if (!view.accept(wanted)) return void (notBefore = 0);
    asked = wanted;
    current = new AbortController();
    const { signal } = current;
    const wait = notBefore - performance.now();
    if (wait > 0) await sleep(wait, signal);
    if (signal.aborted) return;
    view.begin();
    await untilItWorks(wanted, signal);
  }

  async function untilItWorks(wanted, signal) {
    let refused = 0;
    let gone = 0;
    for (;;) {
      try {
        return await translate(wanted, signal);
      } catch (error) {
        if (signal.aborted) return;
        const wait = error.retryAfter && !refused++ ? error.retryAfter : null;
        view.fault(error, wait);
        if (wait) notBefore = performance.now() + 1000 * wait;
        if (wait) await sleep(1000 * wait, signal);
        else if (isGone(error)) await untilReady(signal, PAUSE_MS * 2 ** Math.min(++gone, 5));
        else return void (asked = null);
        if (signal.aborted) return;
        view.begin();
      }
    }
  }

  async function translate(wanted, signal) {
    const units = unitsOf(wanted.text);
    const sentences = [];
    const started = performance.now();
    let isDone = false;
    for await (const { event, data } of api.stream("translate/stream", wanted, { signal })) {
      if (event === "error") throw new api.Problem(data);
      if (event === "done") {
        view.done(result(wanted, sentences, data, performance.now() - started));
        isDone = true;
      } else {
        const sentence = sentenceOf(data, units, wanted.text);
        view.sentence(sentences.push(sentence) - 1, sentence);
      }
    }
    if (!isDone) throw new api.Unreachable("The answer has no end.");
  }

  return { change, again };
}

/** @param {Error} error @returns {boolean} whether the service is not there, or not yet: then it is waited for */
export function isGone(error) {
  // A proxy in front of a service that has stopped says 502 or 503; a service that still loads its models 503.
  return error instanceof api.Unreachable || error.status === 502 || (error.status === 503 && !error.retryAfter);
}

/** @param {AbortSignal} [signal] @param {number} [pause] milliseconds before it is first asked
 *  @returns {Promise<void>} when the service answers again, or `signal` says stop */
export async function untilReady(signal, pause = 500) {
  for (; !signal?.aborted; pause = Math.min(2 * pause, 8000)) {
    await sleep(pause, signal, "online");
    if (await api.isReady()) return;
  }
}

/** @param {number} milliseconds @param {AbortSignal} [signal] @param {string} [event] of the window
 *  @returns {Promise<void>} after that time, or sooner if one of the two comes */
export function sleep(milliseconds, signal, event) {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", resolve, { once: true });
    if (event) addEventListener(event, resolve, { once: true });
  });
}

function same(one, other) {
  return other && one.text === other.text && one.source === other.source && one.target === other.target;
}

function sentenceOf({ text, source }, units, whole) {
  const lead = text.match(/^\s*/)[0];
  const [start, end] = (source ?? [0, 0]).map(units);
  const taken = whole.slice(start, end);
  const from = start + taken.length - taken.trimStart().length;
  return { lead, text: text.slice(lead.length), source: [from, Math.max(from, start + taken.trimEnd().length)] };
}

function result(wanted, sentences, { translations: [told], model, usage }, milliseconds) {
  if (told.error) throw new api.Problem(told.error);
  const { source, confidence, warnings } = told;
  const tokens = usage.target_tokens;
  return { ...wanted, asked: wanted.source, source, confidence, warnings, sentences, model, tokens, milliseconds };
}
