// HTTP client of the service: API key, problem responses, event streams. Does not touch the DOM.

import { setStored, getStored } from "../lib/storage.js";

const BASE = new URL(document.querySelector('meta[name="interlinear-api"]').content, document.baseURI);
const KEY = "interlinear.key";

/** An error response: a problem (RFC 9457), or what a proxy's response tells. */
export class Problem extends Error {
  /** @param {{status: number, title: string, detail?: string, type?: string}} body
   *  @param {number | null} retryAfter seconds, from the Retry-After header */
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

/** The service cannot be reached: it or the network is down. */
export class Unreachable extends Error {}

let visitKey = null; // for browsers that block storage
let askForKey = async (problem) => {
  throw problem;
};

/** Sets the function that asks the user for a key when the service requires one.
 *  @param {(problem: Problem) => Promise<string>} ask rejects if the user gives none */
export function onKeyRequired(ask) {
  let pendingKey = null; // shared by requests that fail together
  askForKey = (problem) => (pendingKey ??= ask(problem).finally(() => (pendingKey = null)));
}

/** @returns {string | null} the key that requests send */
export function key() {
  return visitKey ?? getStored(KEY);
}

/** Sets the key for the requests that follow. `remember` keeps it across sessions; an empty value removes it.
 *  @param {string} value @param {boolean} remember */
export function setKey(value, remember) {
  visitKey = value || null;
  setStored(KEY, visitKey, remember ? "local" : "session");
}

/** @param {string} path below the native API @param {{signal?: AbortSignal}} [options]
 *  @returns {Promise<any>} the JSON. @throws {Problem | Unreachable | DOMException} a DOMException if aborted */
export async function get(path, options = {}) {
  return readJSON(await send(path, { signal: options.signal }));
}

/** @param {string} path @param {object} body sent as JSON @param {{signal?: AbortSignal}} [options]
 *  @returns {Promise<any>} the JSON. @throws {Problem | Unreachable | DOMException} */
export async function post(path, body, options = {}) {
  return readJSON(await send(path, jsonOptions(body, options)));
}

/** @param {string} path @param {object} body sent as JSON @returns {Promise<any>} the JSON.
 *  @throws {Problem | Unreachable} */
export async function put(path, body) {
  return readJSON(await send(path, { ...jsonOptions(body, {}), method: "PUT" }));
}

/** Deletes what is at `path`. @param {string} path @throws {Problem | Unreachable} */
export async function remove(path) {
  await send(path, { method: "DELETE" });
}

/** @param {string} path @param {object} body sent as JSON @param {{signal?: AbortSignal}} [options]
 *  @returns {Promise<Response>} successful, its body unread. @throws {Problem | Unreachable | DOMException} */
export function postForResponse(path, body, options = {}) {
  return send(path, jsonOptions(body, options));
}

/** @param {string} path @param {FormData} form @param {{signal?: AbortSignal}} [options]
 *  @returns {Promise<Response>} a successful response. @throws {Problem | Unreachable | DOMException} */
export function postForm(path, form, options = {}) {
  return send(path, { method: "POST", body: form, signal: options.signal });
}

/** Yields the server-sent events of a POST as they arrive.
 *  @param {string} path @param {object} body @param {{signal?: AbortSignal}} [options]
 *  @returns {AsyncGenerator<{event: string, data: any}>} @throws {Problem | Unreachable | DOMException} */
export async function* stream(path, body, options = {}) {
  const response = await send(path, jsonOptions(body, options));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await withNetworkErrors(() => reader.read());
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    yield* events.map(readEvent);
  }
}

/** @returns {Promise<boolean>} whether the service is reachable and its models are loaded */
export async function isReady() {
  try {
    return (await fetch(new URL("ready", document.baseURI), { cache: "no-store" })).ok;
  } catch {
    return false;
  }
}

function jsonOptions(body, { signal }) {
  return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal };
}

async function send(path, options) {
  const sentKey = key();
  const headers = { ...options.headers, ...(sentKey && { Authorization: `Bearer ${sentKey}` }) };
  const request = { ...options, headers, credentials: "same-origin" };
  const response = await withNetworkErrors(() => fetch(new URL(path, BASE), request));
  if (response.ok) return response;
  const problem = await toProblem(response);
  if (problem.status !== 401) throw problem;
  // Another request may have obtained a key since this one was sent.
  if (key() === sentKey) await askForKey(problem);
  return send(path, options);
}

/** Runs `operation`, and turns fetch's TypeError of a failed network into Unreachable. */
async function withNetworkErrors(operation) {
  try {
    return await operation();
  } catch (error) {
    throw error instanceof TypeError ? new Unreachable(error.message) : error;
  }
}

function readJSON(response) {
  return withNetworkErrors(() => response.json());
}

function readEvent(lines) {
  const fields = Object.fromEntries(lines.split("\n").map((line) => line.split(/: (.*)/s, 2)));
  return { event: fields.event, data: JSON.parse(fields.data) };
}

async function toProblem(response) {
  const retryAfter = Number.parseInt(response.headers.get("Retry-After") ?? "", 10);
  const status = response.status;
  let body = {};
  try {
    body = await response.json();
  } catch {
    // A proxy's error page, not JSON.
  }
  const title = typeof body.title === "string" ? body.title : `${status} ${response.statusText}`.trim();
  return new Problem({ ...body, status, title }, Number.isNaN(retryAfter) ? null : retryAfter);
}
