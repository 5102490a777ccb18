// Stores and applies preferences: theme, interface language, open panels. Themes are in styles/page.css.

import { setStored, getStored } from "../lib/storage.js";
import { interfaceLanguage, setInterfaceLanguage, text } from "../i18n/index.js";

const STORED_THEME = "interlinear.theme";
const THEMES = ["auto", "light", "dark"];

const themeButton = document.getElementById("theme");
const themeName = document.getElementById("theme-name");
const languageButton = document.getElementById("interface");

/** Restores the preferences and connects the buttons that change them. */
export function startPreferences() {
  themeButton.addEventListener("click", nextTheme);
  languageButton.addEventListener("click", () => setInterfaceLanguage(interfaceLanguage() === "en" ? "zh" : "en"));
  document.addEventListener("interfacechange", updateLabels);
  for (const panel of document.querySelectorAll("details.panel")) restoreOpen(panel);
  updateLabels();
}

function restoreOpen(panel) {
  const stored = `interlinear.${panel.id}`;
  panel.open = getStored(stored) === "open";
  // Listens to clicks, not to "toggle", since an example also opens a panel. A click precedes the change.
  const summary = panel.querySelector("summary");
  summary.addEventListener("click", () => setStored(stored, panel.open ? "closed" : "open"));
}

function storedTheme() {
  return getStored(STORED_THEME) ?? "auto";
}

function nextTheme() {
  const next = THEMES[(THEMES.indexOf(storedTheme()) + 1) % THEMES.length];
  setStored(STORED_THEME, next === "auto" ? null : next);
  document.dispatchEvent(new CustomEvent("themechosen")); // theme_boot.js applies it
  updateLabels();
}

function updateLabels() {
  themeName.textContent = text(`theme.${storedTheme()}`);
  themeButton.ariaLabel = text("theme", { theme: themeName.textContent });
  themeButton.title = themeButton.ariaLabel;
  const [name, code] = interfaceLanguage() === "en" ? ["中文", "zh-Hans"] : ["English", "en"];
  languageButton.textContent = name;
  languageButton.lang = code;
}
