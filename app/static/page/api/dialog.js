// The page's "API": what to enter in a tool, so that it translates with this service, and a request to try.

import { filledIn, isAtRoot, isLocal, lacksHTTPS, lacksKey } from "./addresses.js";
import { curlCommand } from "./curl.js";
import { OTHERS, OWN, TOOLS } from "./tools.js";
import { addTexts, text } from "../i18n/index.js";
import { chinese, english } from "../i18n/api.js";
import { copy, showDone } from "../lib/clipboard.js";
import { createSvgElement, make } from "../lib/dom.js";

addTexts({ en: english, zh: chinese });

let picked = OWN; // also when the dialog is opened again

/** @typedef {{text: string, source: string, target: string}} Example of a text to translate
 *
 *  @param {HTMLElement} opener gets the focus afterwards @param {Example} example */
export function showTools(opener, example) {
  if (document.querySelector(".api-dialog")) return; // a second click while this module was loading
  const entry = make("section", { className: "api-entry", aria: { labelledby: "api-tool" } });
  const status = make("p", { className: "api-status", role: "status" });
  const pick = (tool) => {
    picked = tool;
    entry.replaceChildren(...entryOf(tool, example, status));
    entry.scrollTop = 0;
  };
  const close = make("button", { type: "button", className: "icon", ariaLabel: text("api.close") }, icon("clear"));
  const title = make("h2", { id: "api-title" }, text("api.title"));
  const choice = choiceOf(pick);
  const dialog = make(
    "dialog",
    { className: "api-dialog", aria: { labelledby: title.id } },
    make("header", {}, title, close),
    make("p", { className: "about" }, text("api.about")),
    make("div", { className: "api-columns" }, choice, entry),
    make("footer", {}, ...linksOf(), status),
  );
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => {
    dialog.remove();
    opener.focus();
  });
  pick(picked);
  document.body.append(dialog);
  dialog.showModal();
  const checked = choice.querySelector(":checked");
  checked.closest("label").scrollIntoView({ block: "nearest" });
  // On a phone, focus would open a keyboard that covers half of the dialog.
  (matchMedia("(pointer: fine)").matches ? choice.querySelector("input") : checked).focus();
}

// ---- The choice of a tool

function choiceOf(pick) {
  const tools = TOOLS.toSorted((one, other) => one.name.localeCompare(other.name, "en"));
  const groups = [
    groupOf(text("api.own"), [OWN], pick, false),
    groupOf(text("api.tools"), tools, pick),
    groupOf(text("api.others"), OTHERS, pick),
  ];
  const none = make("p", { className: "about", hidden: true }, text("api.none"));
  const list = make(
    "div",
    { className: "api-tools", role: "radiogroup", ariaLabel: text("api.tool") },
    ...groups,
    none,
  );
  const labels = [...list.querySelectorAll("label")];
  const search = make("input", { type: "search", ariaLabel: text("api.search"), placeholder: text("api.search") });
  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/);
    for (const label of labels) {
      label.hidden = !words.every((word) => label.dataset.names.includes(word));
      label.control.disabled = label.hidden; // so that arrow keys pass over it
    }
    for (const group of groups) group.hidden = !group.querySelector("label:not([hidden])");
    none.hidden = labels.some((label) => !label.hidden);
  });
  search.addEventListener("keydown", (event) => {
    const radios = labels.filter((label) => !label.hidden).map((label) => label.control);
    const next = radios.find((radio) => radio.checked) ?? radios[0];
    if (!["Enter", "ArrowDown"].includes(event.key) || event.isComposing || !next) return;
    event.preventDefault();
    next.click();
    if (event.key === "ArrowDown") next.focus();
  });
  return make("div", { className: "api-choice" }, search, list);
}

function groupOf(name, tools, pick, hasHeading = true) {
  const heading = hasHeading ? [make("h3", { ariaHidden: "true" }, name)] : [];
  const options = tools.map((tool) => {
    const names = [nameOf(tool), tool.api, ...(tool.also ?? []), ...(tool.prompts ?? [])].join(" ").toLowerCase();
    const on = { change: () => pick(tool) };
    const radio = make("input", { type: "radio", name: "api-tool", className: "unseen", checked: tool === picked, on });
    return make("label", { data: { names } }, radio, make("span", {}, nameOf(tool)));
  });
  return make("div", { role: "group", ariaLabel: name }, ...heading, ...options);
}

function nameOf(tool) {
  if (tool === OWN) return text("api.own");
  return OTHERS.includes(tool) ? text("api.other", { api: tool.name }) : tool.name;
}

// ---- What to enter

function entryOf(tool, example, status) {
  const rows = tool.fields.flatMap(([label, value]) => rowOf(tool, label, value, status));
  const content = [make("h3", { id: "api-tool" }, nameOf(tool)), ...faultsOf(tool).map((words) => note(words, "fault"))];
  if (rows.length) content.push(make("dl", {}, ...rows));
  content.push(...remarksOf(tool).map((words) => note(words)));
  if (rows.length && (!tool.isRoot || isAtRoot(tool))) {
    const label = text("api.try");
    content.push(make("h4", {}, label), copyable(curlCommand(tool, example), label, status));
  }
  return content;
}

function rowOf(tool, key, value, status) {
  const label = text(key);
  const filled = filledIn(tool, value);
  if (filled === null) return [];
  const about = (name) => make("span", { className: "about" }, text(name));
  const isKey = value === "{key}" || value === "{any}";
  let content = [key === "api.choose" ? filled : copyable(filled, label, status)];
  if (!filled) content = [about("api.empty")];
  else if (isKey) content = filled === "KEY" ? [about("api.your-key")] : [...content, about("api.any")];
  return [make("dt", {}, label), make("dd", {}, ...content)];
}

function copyable(words, label, status) {
  const name = { ariaLabel: text("api.copy", { label }), title: text("copy") };
  const button = make("button", { type: "button", className: "icon", ...name }, icon("copy"));
  button.addEventListener("click", async () => {
    const isDone = await copy(words);
    if (isDone) showDone(button);
    status.textContent = ""; // else the same words would not be announced again
    status.classList.toggle("fault", !isDone);
    setTimeout(() => (status.textContent = text(isDone ? "copied" : "copy.failed")), 50);
  });
  return make("div", { className: "api-value" }, make("code", { dir: "ltr" }, words), button);
}

/** Why the tool cannot work with this service as it is. */
function faultsOf(tool) {
  const faults = [];
  if (tool.isRoot && !isAtRoot(tool)) faults.push(text("api.root.lacks", { setting: settingOf(tool) }));
  if (lacksHTTPS(tool)) faults.push(text("api.https"));
  if (lacksKey(tool)) faults.push(text("api.keyless"));
  return faults;
}

function remarksOf(tool) {
  const remarks = tool.note ? [text(tool.note, { tools: tool.prompts?.join(", ") })] : [];
  if (tool.isRoot && isAtRoot(tool)) remarks.push(text("api.root.has", { setting: settingOf(tool) }));
  if (isLocal()) remarks.push(text("api.local"));
  return remarks;
}

function settingOf(tool) {
  return `INTERLINEAR_ROOT_API=${tool.api}`;
}

function note(words, kind = "") {
  return make("p", { className: `note ${kind}` }, make("span", {}, words));
}

function linksOf() {
  const links = [make("a", { href: "docs" }, text("api.reference"))];
  if (!document.querySelector('nav a[href="manual/"]').hidden) {
    links.push(make("a", { href: "manual/tools/" }, text("api.manual")));
  }
  return links;
}

function icon(name) {
  return createSvgElement("svg", { "aria-hidden": "true" }, createSvgElement("use", { href: `#icon-${name}` }));
}
