// The service, as the page calls it: the key, problems, streams. Knows no element of the page.

import { keep, recall } from "../lib/storage.js";

const BASE = new URL(document.querySelector('meta[name="interlinear-api"]').content, document.baseURI);
const KEY = "interlinear.key";

/** An error that the service answered with: RFC 9457, or what is known of another's answer. */
export class Problem extends Error {
  /** @param {{status: number, title: string, detail?: string, type?: string}} body
   *  @param {number | null} retryAfter seconds after which to ask again, if the service said so */
  constructor({ status, title, detail, type }, retryAfter = null) {
    super(detail || title);
    this.name = "Problem";
    this.status = status;
    this.title = title;
    this.detail = detail ?? "";
    this.slug = (type ?? "").split(":").at(-1);
    this.retryAfter = retryAfter;
  }
}

/** The service cannot be reached: it has stopped, or the network has. */
export class Unreachable extends Error {}

let given = null; // in this visit; a browser may keep nothing
let askForKey = async (problem) => {
  throw problem;
};

/** Sets who is asked for a key when the service wants one.
 *  @param {(problem: Problem) => Promise<string>} ask rejects if there is none to be had */
export function onKeyWanted(ask) {
  let asking = null; // requests that fail together are one question
  askForKey = (problem) => (asking ??= ask(problem).finally(() => (asking = null)));
}

/** @returns {string | null} the key that is sent */
export function key() {
  return given ?? recall(KEY);
}

/** Sends `value` from now on; `remember`: also after the browser was closed. An empty one forgets.
 *  @param {string} value @param {boolean} remember */
export function setKey(value, remember) {
  given = value || null;
  keep(KEY, given, remember ? "good" : "tab");
}

/** @param {string} path below the native API @param {{signal?: AbortSignal}} [options]
 *  @returns {Promise<any>} the JSON. @throws {Problem | Unreachable | DOMException} the last if aborted */
export async function get(path, options = {}) {
  return readJSON(await send(path, { signal: options.signal }));
}

/** @param {string} path @param {object} body sent as JSON @param {{signal?: AbortSignal}} [options]
 *  @returns {Promise<any>} the JSON. @throws {Problem | Unreachable | DOMException} */
export async function post(path, body, options = {}) {
  return readJSON(await send(path, asJSON(body, options)));
}

/** @param {string} path @param {object} body sent as JSON @param {{signal?: AbortSignal}} [options]
 *  @returns {Promise<Response>} a good one, not read yet. @throws {Problem | Unreachable | DOMException} */
export function answer(path, body, options = {}) {
  return send(path, asJSON(body, options));
}

/** @param {string} path @param {FormData} form @param {{signal?: AbortSignal}} [options]
 *  @returns {Promise<Response>} a good one. @throws {Problem | Unreachable | DOMException} */
export function postForm(path, form, options = {}) {
  return send(path, { method: "POST", body: form, signal: options.signal });
}

/** Server-sent events of a POST, as they come.
 *  @param {string} path @param {object} body @param {{signal?: AbortSignal}} [options]
 *  @returns {AsyncGenerator<{event: string, data: any}>} @throws {Problem | Unreachable | DOMException} */
export async function* stream(path, body, options = {}) {
  const response = await send(path, asJSON(body, options));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reached(() => reader.read());
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    yield* events.map(readEvent);
  }
}

/** @returns {Promise<boolean>} whether the service is there and has its models */
export async function isReady() {
  try {
    return (await fetch(new URL("ready", document.baseURI), { cache: "no-store" })).ok;
  } catch {
    return false;
  }
}

function asJSON(body, { signal }) {
  return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal };
}

async function send(path, options) {
  const sent = key();
  const headers = { ...options.headers, ...(sent && { Authorization: `Bearer ${sent}` }) };
  const response = await reached(() => fetch(new URL(path, BASE), { ...options, headers, credentials: "same-origin" }));
  if (response.ok) return response;
  const problem = await problemOf(response);
  if (problem.status !== 401) throw problem;
  // Another request's answer may have brought a key since this one was sent.
  if (key() === sent) await askForKey(problem);
  return send(path, options);
}

/** What `work` gives; what is neither aborted nor ours is the network's fault. */
async function reached(work) {
  try {
    return await work();
  } catch (error) {
    throw error instanceof TypeError ? new Unreachable(error.message) : error;
  }
}

function readJSON(response) {
  return reached(() => response.json());
}

function readEvent(lines) {
  const fields = Object.fromEntries(lines.split("\n").map((line) => line.split(/: (.*)/s, 2)));
  return { event: fields.event, data: JSON.parse(fields.data) };
}

async function problemOf(response) {
  const retryAfter = Number.parseInt(response.headers.get("Retry-After") ?? "", 10);
  const status = response.status;
  let body = {};
  try {
    body = await response.json();
  } catch {
    // A proxy's page, which is not for reading.
  }
  const title = typeof body.title === "string" ? body.title : `${status} ${response.statusText}`.trim();
  return new Problem({ ...body, status, title }, Number.isNaN(retryAfter) ? null : retryAfter);
}
