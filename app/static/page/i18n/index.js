// The page's words in the language that was chosen. The words themselves are i18n/en.js's and i18n/zh.js's.

import { chinese } from "./zh.js";
import { english } from "./en.js";
import { keep, recall } from "../lib/storage.js";

const STORED = "interlinear.interface";
const CATALOGUES = { en: english, zh: chinese };
const ATTRIBUTES = { text: "textContent", label: "ariaLabel", title: "title", hint: "placeholder" };

let language = chosen();

/** @returns {"en" | "zh"} the language of the interface */
export function interfaceLanguage() {
  return language;
}

/** @param {string} code @returns {void} Says everything in another language, from now on. */
export function setInterfaceLanguage(code) {
  language = code;
  keep(STORED, code);
  translatePage();
  document.dispatchEvent(new CustomEvent("interfacechange"));
}

/** Adds the words of a part that is loaded by itself. @param {Record<"en" | "zh", Record<string, string>>} catalogues */
export function addTexts(catalogues) {
  for (const [code, words] of Object.entries(catalogues)) Object.assign(CATALOGUES[code], words);
}

/** @param {string} key @param {Record<string, string | number>} [values] for the {places} of the text
 *  @returns {string} the words; English where a translation is missing, the key where there is no text at all */
export function text(key, values = {}) {
  const words = CATALOGUES[language][key] ?? english[key] ?? key;
  return words.replace(/\{(\w+)\}/g, (place, name) => values[name] ?? place);
}

/** Fills in every element that names its words: data-text, data-label (spoken), data-title, data-hint. */
export function translatePage() {
  document.documentElement.lang = language === "zh" ? "zh-Hans" : language;
  for (const [name, property] of Object.entries(ATTRIBUTES)) {
    for (const element of document.querySelectorAll(`[data-${name}]`)) element[property] = text(element.dataset[name]);
  }
  delete document.documentElement.dataset.waiting;
}

/** @param {string} code @returns {string} a language's name in the interface's language */
export function languageName(code) {
  try {
    return new Intl.DisplayNames([language], { type: "language" }).of(code) ?? code;
  } catch {
    return code; // any code may be served, also one that is none
  }
}

/** @param {number} value @param {Intl.NumberFormatOptions} [options] @returns {string} as the reader writes numbers */
export function number(value, options) {
  return new Intl.NumberFormat(language, options).format(value);
}

function chosen() {
  const stored = recall(STORED);
  if (stored in CATALOGUES) return stored;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}
