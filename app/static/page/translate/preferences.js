// Light or dark, English or Chinese, panels open or closed: the switches. What is dark is styles/page.css's to say.

import { keep, recall } from "../lib/storage.js";
import { interfaceLanguage, setInterfaceLanguage, text } from "../i18n/index.js";

const STORED = "interlinear.theme";
const THEMES = ["auto", "light", "dark"];

const theme = document.getElementById("theme");
const themeName = document.getElementById("theme-name");
const language = document.getElementById("interface");

/** Makes the switches work. */
export function startAppearance() {
  theme.addEventListener("click", nextTheme);
  language.addEventListener("click", () => setInterfaceLanguage(interfaceLanguage() === "en" ? "zh" : "en"));
  document.addEventListener("interfacechange", reflect);
  for (const panel of document.querySelectorAll("details.panel")) rememberOpen(panel);
  reflect();
}

function rememberOpen(panel) {
  const stored = `interlinear.${panel.id}`;
  panel.open = recall(stored) === "open";
  // By hand only: an example opens a panel as well, and the click comes before the panel has changed.
  const summary = panel.querySelector("summary");
  summary.addEventListener("click", () => keep(stored, panel.open ? "closed" : "open"));
}

function chosenTheme() {
  return recall(STORED) ?? "auto";
}

function nextTheme() {
  const next = THEMES[(THEMES.indexOf(chosenTheme()) + 1) % THEMES.length];
  keep(STORED, next === "auto" ? null : next);
  document.dispatchEvent(new CustomEvent("themechosen")); // theme_boot.js does the rest
  reflect();
}

function reflect() {
  themeName.textContent = text(`theme.${chosenTheme()}`);
  theme.ariaLabel = text("theme", { theme: themeName.textContent });
  theme.title = theme.ariaLabel;
  const [name, code] = interfaceLanguage() === "en" ? ["中文", "zh-Hans"] : ["English", "en"];
  language.textContent = name;
  language.lang = code;
}
