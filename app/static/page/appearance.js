// Light or dark, English or Chinese, panels open or closed: the switches. What is dark is page.css's to say.

import { interfaceLanguage, setInterfaceLanguage, text } from "./texts.js";

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
  panel.open = localStorage.getItem(stored) === "open";
  panel.addEventListener("toggle", () => localStorage.setItem(stored, panel.open ? "open" : "closed"));
}

function chosenTheme() {
  return localStorage.getItem(STORED) ?? "auto";
}

function nextTheme() {
  const next = THEMES[(THEMES.indexOf(chosenTheme()) + 1) % THEMES.length];
  if (next === "auto") localStorage.removeItem(STORED);
  else localStorage.setItem(STORED, next);
  document.dispatchEvent(new CustomEvent("themechosen")); // first.js does the rest
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
