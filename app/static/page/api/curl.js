// Requests to try in a terminal, one for each API.

import { filledIn, keyHeader } from "./addresses.js";

/** What each API takes: the path below its own, and its fields, as a form, in the query or as JSON. */
const REQUESTS = {
  "": { json: (text, source, target) => ({ text, source, target }) },
  libretranslate: { form: (q, source, target) => ({ q, source, target }) },
  deepl: { path: "/v2/translate", form: (text, source_lang, target_lang) => ({ text, source_lang, target_lang }) },
  deeplx: { form: (text, source_lang, target_lang) => ({ text, source_lang, target_lang }) },
  mtranserver: { form: (text, from, to) => ({ text, from, to }) },
  immersive: { json: (text, source_lang, target_lang) => ({ source_lang, target_lang, text_list: [text] }) },
  kiss: { form: (text, from, to) => ({ text, from, to }) },
  hcfy: { json: (text, source, target) => ({ text, source, destination: [target] }) },
  google: { path: "/language/translate/v2", form: (q, source, target) => ({ q, source, target }) },
  azure: { path: "/translate?api-version=3.0&from={from}&to={to}", json: (Text) => [{ Text }] },
  nllb: { form: (source, src_lang, tgt_lang) => ({ source, src_lang, tgt_lang }) },
  plain: { query: (text, from, to) => ({ from, to, text }) },
  omegat: { query: (text, source, target) => ({ source, target, text }) },
  openai: { path: "/v1/chat/completions", json: (text, from, to) => ({ messages: [prompt(text, from, to)] }) },
};

/**
 * @param {import("./tools.js").Tool} tool @param {{text: string, source: string, target: string}} example
 * @returns {string} a command that translates the example as the tool does
 */
export function curlCommand(tool, { text, source, target }) {
  const { path = "/translate", form, query, json } = REQUESTS[tool.api];
  const base = tool.api ? filledIn(tool, tool.isRoot ? "{origin}" : `{url}/${tool.api}`) : filledIn(tool, "{own}");
  const words = [quoted(base + path.replace("{from}", source).replace("{to}", target))];
  if (query) words.unshift("-G");
  if (keyHeader()) words.push("-H", quoted(keyHeader()));
  if (json) words.push("-H", quoted("Content-Type: application/json"));
  if (json) words.push("-d", quoted(JSON.stringify(json(text, source, target))));
  for (const [name, value] of Object.entries((form ?? query)?.(text, source, target) ?? {})) {
    words.push(value === text ? "--data-urlencode" : "-d", quoted(`${name}=${value}`));
  }
  return ["curl", ...words].join(" ");
}

/** Quotes as the shells of Unix and of Windows both read, for values without variables. */
function quoted(word) {
  return /^[\w.:/=-]+$/.test(word) ? word : `"${word.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

function prompt(text, from, to) {
  const names = new Intl.DisplayNames(["en"], { type: "language" });
  return { role: "user", content: `Translate from ${names.of(from)} to ${names.of(to)}: ${text}` };
}
