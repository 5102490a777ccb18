// Schedules translation requests: after a pause in typing, after a refusal, and once an unavailable service is back.
// Does not touch the DOM.

import * as api from "./api.js";
import { codePoints, unitsOf } from "../lib/offsets.js";

const PAUSE_MS = 250;
const MAX_PAUSE_MS = 1000;
const COMPOSING_MS = 1000;

/** @typedef {{text: string, source: string, target: string, engine?: string}} TranslationRequest
 *  @typedef {TranslationRequest & {
 *    sentences: import("../translate/panes.js").Sentence[], warnings: string[], confidence: number | null,
 *    requestedSource: string, via: string[] | null, memory: "exact" | null, model: string, tokens: number,
 *    milliseconds: number}} Result `source` is the language that the service used, `requestedSource` may be "auto"; `via`
 *    are the languages between, `memory` says whether a sentence is from the translation memory
 *
 *  @typedef {object} View
 *  @property {() => TranslationRequest} getRequest
 *  @property {(request: TranslationRequest) => boolean} validate false: there is nothing to send; the view shows why
 *  @property {() => void} onUnchanged the request equals the last one
 *  @property {() => void} onStart
 *  @property {(index: number, sentence: import("../translate/panes.js").Sentence) => void} onSentence
 *  @property {(result: Result) => void} onDone
 *  @property {(error: Error, wait: number | null) => void} onError `wait`: seconds until the automatic retry */

/** @param {View} view
 *  @returns {{schedule: (cause?: "typing" | "composing") => void, retry: () => void}} call `schedule` when the request
 *  has changed, with a cause if it may soon change again; `retry` repeats a failed request */
export function createRequestLoop(view) {
  let controller = new AbortController();
  let lastRequest = null;
  let timer = 0;
  let firstChangeAt = 0;
  let earliestStart = 0;

  function schedule(cause) {
    const now = performance.now();
    firstChangeAt ||= now;
    const afterTyping = Math.min(now + PAUSE_MS, firstChangeAt + MAX_PAUSE_MS);
    const end = { typing: afterTyping, composing: now + COMPOSING_MS }[cause] ?? now;
    clearTimeout(timer);
    timer = setTimeout(translateIfChanged, Math.max(0, end - now));
  }

  function retry() {
    lastRequest = null;
    earliestStart = 0;
    schedule();
  }

  async function translateIfChanged() {
    firstChangeAt = 0;
    const request = view.getRequest();
    if (isSameRequest(request, lastRequest)) return view.onUnchanged();
    controller.abort(); // the service drops requests of closed connections
    lastRequest = null;
    // Without a valid request, an announced wait ends too.
    if (!view.validate(request)) return void (earliestStart = 0);
    lastRequest = request;
    controller = new AbortController();
    const { signal } = controller;
    const wait = earliestStart - performance.now();
    if (wait > 0) await sleep(wait, signal);
    if (signal.aborted) return;
    view.onStart();
    await translateWithRetries(request, signal);
  }

  async function translateWithRetries(request, signal) {
    let refusals = 0;
    let failedAttempts = 0;
    for (;;) {
      try {
        return await translate(request, signal);
      } catch (error) {
        if (signal.aborted) return;
        const wait = error.retryAfter && !refusals++ ? error.retryAfter : null;
        view.onError(error, wait);
        if (wait) earliestStart = performance.now() + 1000 * wait;
        if (wait) await sleep(1000 * wait, signal);
        else if (isUnavailable(error)) await waitUntilReady(signal, PAUSE_MS * 2 ** Math.min(++failedAttempts, 5));
        else return void (lastRequest = null);
        if (signal.aborted) return;
        view.onStart();
      }
    }
  }

  async function translate(request, signal) {
    const units = unitsOf(request.text);
    const sentences = [];
    const started = performance.now();
    let isDone = false;
    for await (const { event, data } of api.stream("translate/stream", request, { signal })) {
      if (event === "error") throw new api.Problem(data);
      if (event === "done") {
        view.onDone(result(request, sentences, data, performance.now() - started));
        isDone = true;
      } else {
        const sentence = sentenceOf(data, units, request.text);
        view.onSentence(sentences.push(sentence) - 1, sentence);
      }
    }
    if (!isDone) throw new api.Unreachable("The stream ended without a result.");
  }

  return { schedule, retry };
}

/** @param {Error} error @returns {boolean} whether the service is down or still starting, so that waiting helps */
export function isUnavailable(error) {
  // A proxy answers 502 or 503 if the service behind it has stopped; a service that is loading its models answers 503.
  return error instanceof api.Unreachable || error.status === 502 || (error.status === 503 && !error.retryAfter);
}

/** @param {AbortSignal} [signal] @param {number} [pause] milliseconds before the first check
 *  @returns {Promise<void>} resolves when the service is ready, or `signal` is aborted */
export async function waitUntilReady(signal, pause = 500) {
  for (; !signal?.aborted; pause = Math.min(2 * pause, 8000)) {
    await sleep(pause, signal, "online");
    if (await api.isReady()) return;
  }
}

/** @param {number} milliseconds @param {AbortSignal} [signal] @param {string} [event] of the window
 *  @returns {Promise<void>} resolves after that time, or sooner on the abort or the event */
export function sleep(milliseconds, signal, event) {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", resolve, { once: true });
    if (event) addEventListener(event, resolve, { once: true });
  });
}

function isSameRequest(one, other) {
  return other && ["text", "source", "target", "engine"].every((field) => one[field] === other[field]);
}

function sentenceOf({ text, source, score, quality, words, engine }, units, whole) {
  const lead = text.match(/^\s*/)[0];
  const [start, end] = (source ?? [0, 0]).map(units);
  const original = whole.slice(start, end);
  const from = start + original.length - original.trimStart().length;
  const skipped = codePoints(lead);
  const doubtful = words.map(({ span }) => span.map((at) => at - skipped));
  const span = [from, Math.max(from, start + original.trimEnd().length)];
  return { lead, text: text.slice(lead.length), source: span, quality, doubtful, engine, isReplaced: score === null };
}

function result(request, sentences, { translations: [translation], model, usage }, milliseconds) {
  if (translation.error) throw new api.Problem(translation.error);
  const { source, via, memory, confidence, warnings } = translation;
  const tokens = usage.target_tokens;
  const requestedSource = request.source;
  return { ...request, requestedSource, source, via, memory, confidence, warnings, sentences, model, tokens, milliseconds };
}
