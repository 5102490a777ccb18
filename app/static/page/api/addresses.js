// Addresses of the service, as programs reach it that are given one; and what a tool needs of it.

const { content: ownAPI } = document.querySelector('meta[name="interlinear-api"]');
const { content: rootAPIs, dataset } = document.querySelector('meta[name="interlinear-root-api"]');
const REQUIRES_KEY = dataset.keys === "on";
const ANY_KEY = "not-needed"; // ten characters: some tools take no fewer
const LOCAL = /^(localhost|127(\.\d+){3}|\[::1\])$/;
const KEYS = /\{(key|any|\?token|\?key)\}/;

/** @param {import("./tools.js").Tool} [tool] @returns {URL} the page's folder, as the tool is to name it */
function here(tool) {
  const url = new URL(".", location.href);
  if (tool?.https === "elsewhere" && isLocal()) url.hostname = "localhost";
  return url;
}

/** @returns {boolean} whether only programs on this machine can use the page's address */
export function isLocal() {
  return LOCAL.test(location.hostname);
}

/** @param {import("./tools.js").Tool} tool @param {string} value of a field, as in tools.js
 *  @returns {string | null} what to enter; null if there is nothing to enter, as no key is required */
export function filledIn(tool, value) {
  const url = here(tool);
  const path = url.pathname.replace(/\/$/, "");
  const key = REQUIRES_KEY ? "KEY" : "";
  const values = {
    url: url.origin + path,
    host: url.host + path,
    origin: url.origin,
    site: `${url.protocol}//${url.hostname}`,
    port: url.port || (url.protocol === "https:" ? "443" : "80"),
    own: new URL(ownAPI, url).href.replace(/\/$/, ""),
    key,
    any: key || ANY_KEY,
    "?token": key && `?token=${key}`,
    "?key": key && `?key=${key}`,
  };
  const lines = value.split("\n").filter((line) => key || line === "{key}" || !line.includes("{key}"));
  return lines.length ? lines.join("\n").replace(/\{([a-z?]+)\}/g, (place, name) => values[name] ?? place) : null;
}

/** @returns {string} a header for requests of one's own; none if no key is required */
export function keyHeader() {
  return REQUIRES_KEY ? "Authorization: Bearer KEY" : "";
}

/** @param {import("./tools.js").Tool} tool @returns {boolean} whether the service is where the tool looks for it */
export function isAtRoot(tool) {
  return rootAPIs.split(",").includes(tool.api) && here().pathname === "/";
}

/** @param {import("./tools.js").Tool} tool @returns {boolean} whether it asks by https, and the page came without */
export function lacksHTTPS(tool) {
  return Boolean(tool.https) && location.protocol !== "https:" && !(tool.https === "elsewhere" && isLocal());
}

/** @param {import("./tools.js").Tool} tool @returns {boolean} whether it sends no key, and the service requires one */
export function lacksKey(tool) {
  return REQUIRES_KEY && tool.fields.length > 0 && !tool.fields.some(([, value]) => KEYS.test(value));
}
