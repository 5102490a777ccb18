// Texts of the page in the selected interface language, from i18n/en.js and i18n/zh.js.

import { chinese } from "./zh.js";
import { english } from "./en.js";
import { setStored, getStored } from "../lib/storage.js";

const STORED_LANGUAGE = "interlinear.interface";
const CATALOGUES = { en: english, zh: chinese };
const ATTRIBUTES = { text: "textContent", label: "ariaLabel", title: "title", hint: "placeholder" };

let language = initialLanguage();

/** @returns {"en" | "zh"} the language of the interface */
export function interfaceLanguage() {
  return language;
}

/** @param {string} code @returns {void} Switches the page to another interface language. */
export function setInterfaceLanguage(code) {
  language = code;
  setStored(STORED_LANGUAGE, code);
  translatePage();
  document.dispatchEvent(new CustomEvent("interfacechange"));
}

/** Adds the texts of a module loaded on demand. @param {Record<"en" | "zh", Record<string, string>>} catalogues */
export function addTexts(catalogues) {
  for (const [code, words] of Object.entries(catalogues)) Object.assign(CATALOGUES[code], words);
}

/** @param {string} key @param {Record<string, string | number>} [values] for the {placeholders} of the text
 *  @returns {string} the text; in English if the translation is missing, the key if there is no text */
export function text(key, values = {}) {
  const words = CATALOGUES[language][key] ?? english[key] ?? key;
  return words.replace(/\{(\w+)\}/g, (place, name) => values[name] ?? place);
}

/** Fills every element with a data-text, data-label (its accessible name), data-title or data-hint attribute. */
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
    return code; // a service may use codes that are not BCP 47 tags
  }
}

/** @param {number} value @param {Intl.NumberFormatOptions} [options] @returns {string} in the interface's language */
export function number(value, options) {
  return new Intl.NumberFormat(language, options).format(value);
}

function initialLanguage() {
  const stored = getStored(STORED_LANGUAGE);
  if (stored in CATALOGUES) return stored;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}
