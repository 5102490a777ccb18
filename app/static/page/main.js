// The page: what each part tells the others.

import * as api from "./service/api.js";
import { startAppearance } from "./translate/preferences.js";
import { copy } from "./lib/clipboard.js";
import { createCycle, isGone, untilReady } from "./service/request_loop.js";
import { make } from "./lib/dom.js";
import { hideExamples, showExamples } from "./translate/examples.js";
import { startFiles } from "./translate/files.js";
import { askForKeys } from "./translate/api_key_dialog.js";
import { Languages } from "./translate/languages.js";
import { Links } from "./translate/word_hover.js";
import { ModelPanel } from "./translate/model_panel.js";
import { clearNotes, faultWords, goneWords, hush, say, showFault, showWarnings } from "./translate/notices.js";
import { Others } from "./translate/alternatives.js";
import * as panes from "./translate/panes.js";
import { linkTo, readPlace, writePlace } from "./translate/url_fragment.js";
import { AttentionPanel } from "./attention/panel.js";
import { codePoints } from "./lib/offsets.js";
import { keep, recall } from "./lib/storage.js";
import { number, text, translatePage } from "./i18n/index.js";

const LIMIT = Number(document.querySelector('meta[name="interlinear-max-characters"]').content);
const KEPT = "interlinear.text";
const SPOKEN = 300; // characters of a translation that are read out when it is there
const QUIET_MS = 900; // without typing, before it is
const DONE_MS = 1500; // that a button shows that it has done it

const at = (id) => document.getElementById(id);

let result = null; // what is shown, once it is whole
let chosen = 0; // the sentence that is looked at more closely

const cycle = createCycle({ wanted, accept, unchanged, begin, sentence: showSentence, done, fault });
const languages = new Languages({ changed: languagesChanged, swapped, say });
const links = new Links({ choose, fault: (error) => showFault(faultWords(error)), mended, say });
const others = new Others(replaceSentence);
const models = new ModelPanel();
const attention = new AttentionPanel();

function wanted() {
  return { text: panes.sourceText(), source: languages.source, target: languages.target };
}

/** Whether there is something to ask for; if not, shows nothing, or why. */
function accept({ text: words, target }) {
  forget();
  if (!target) return false; // the languages are not there yet, and if there is a fault, it is said
  const count = codePoints(words);
  if (!words.trim()) empty();
  else if (count > LIMIT) showFault(text("too-long", { count: number(count), limit: number(LIMIT) }));
  else return true;
  return false;
}

function empty() {
  clearNotes();
  panes.endAfter(0);
  languages.tell("und", null);
  at("time").textContent = "";
  look(0);
  enable();
}

/** Typed, and taken back: the panes belong together again. */
function unchanged() {
  if (!result) return;
  panes.undim();
  links.show(result);
}

/** The panes do not belong together any more. */
function forget() {
  result = null;
  links.show(null);
  panes.dim();
}

function begin() {
  panes.setLanguages(languages.source, languages.target);
  panes.dim();
}

function showSentence(index, sentence) {
  if (index === 0) clearNotes();
  panes.showSentence(index, sentence);
  enable(); // what follows is of an older translation, until this one is whole
}

function done(answer) {
  result = answer;
  panes.endAfter(answer.sentences.length);
  links.show(answer);
  languages.tell(answer.source, answer.confidence);
  const warned = showAbout(answer);
  models.measured(answer);
  look(0);
  enable();
  const words = panes.targetText();
  // In the voice of its language, where the browser has one.
  const said = words.length <= SPOKEN ? make("span", { lang: answer.target }, words) : text("spoken.done");
  say(said, QUIET_MS, warned);
}

/** @returns {string[]} the warnings that are shown */
function showAbout({ warnings, milliseconds }) {
  at("time").textContent = text("time", { time: number(Math.round(milliseconds)) });
  return showWarnings(warnings);
}

/** Words that could not be joined can be: what was said of that is over. */
function mended() {
  if (result) showWarnings(result.warnings);
}

function fault(error, wait) {
  forget();
  languages.tell("und", null); // what was told was of another text
  at("time").textContent = "";
  others.show(null);
  enable();
  const isWaitedFor = !wait && isGone(error);
  const words = isWaitedFor ? goneWords(error) : faultWords(error, wait);
  const isKey = error.status === 401;
  const helps = !wait && !isWaitedFor;
  const action = helps ? { words: text(isKey ? "key.enter" : "again"), act: cycle.again } : undefined;
  showFault(words, action, wait ? "warning" : "fault");
}

/** What can be done with the translation, as long as it is one. */
function enable() {
  const isThere = result !== null && panes.targetText() !== "";
  at("copy").disabled = at("copy-link").disabled = !isThere;
}

/** Looks at a sentence more closely. */
function look(index) {
  chosen = index;
  const sentence = result?.sentences[index];
  const isTranslated = sentence?.text && result.source !== "und" && result.source !== result.target;
  const shown = isTranslated
    ? { text: result.text.slice(...sentence.source), source: result.source, target: result.target }
    : null;
  others.show(shown && { ...shown, translation: sentence.text });
  const count = result?.sentences.length ?? 0;
  attention.show(shown && { ...shown, ...(sentence.isReplaced && { target_text: sentence.text }) }, index, count);
}

function choose(index) {
  links.choose(result.sentences.length > 1 ? index : null);
  if (index !== chosen) look(index);
}

function replaceSentence(words) {
  if (!result) return; // the text has changed since
  const sentence = { ...result.sentences[chosen], text: words, isReplaced: true };
  result.sentences[chosen] = sentence;
  panes.showSentence(chosen, sentence);
  links.choose(result.sentences.length > 1 ? chosen : null);
  look(chosen);
  say(text("others.taken", { words }));
}

function swapped() {
  if (result && panes.targetText()) panes.setSourceText(panes.targetText());
  typed();
}

function languagesChanged(byHand) {
  if (byHand) writePlace(languages.source, languages.target);
  models.show(wanted());
  reflectExamples();
  cycle.change();
}

/** By hand: from now on a reload is to bring this text, and not that of the link. */
function edited() {
  const place = readPlace();
  if (place?.text) writePlace(place.source, place.target);
  languages.textChanged();
  typed();
}

/** An example takes the place of the text, and shows what the page can show of it. */
function takeExample(sentence) {
  panes.setSourceText(sentence);
  edited();
  cycle.change();
  at("attention-panel").open = true;
  at("source-text").focus();
}

function reflectExamples() {
  if (panes.sourceText() || !languages.target) hideExamples();
  else showExamples(languages.sources, takeExample);
}

/** What follows from the text alone, at once. */
function typed() {
  hush();
  panes.reflect();
  links.show(null);
  showCount();
  reflectExamples();
  keep(KEPT, panes.sourceText().slice(0, LIMIT), "tab");
}

function showCount() {
  const words = panes.sourceText();
  const count = codePoints(words);
  const figures = { count: number(count), limit: number(LIMIT) };
  at("count").textContent = text("count", figures);
  at("count-said").textContent = text("count.said", figures);
  at("count").classList.toggle("over", count > LIMIT);
  at("clear").hidden = !words;
}

function startText() {
  const area = at("source-text");
  area.addEventListener("input", (event) => {
    edited();
    // Half a character of Chinese is not worth translating. But keyboards of phones compose every word, the last one
    // until something follows: what is left as it is, is meant. What was pasted is whole.
    const isPasted = event.inputType === "insertFromPaste";
    cycle.change(event.isComposing ? "composing" : isPasted ? undefined : "typing");
  });
  area.addEventListener("compositionend", () => cycle.change("typing"));
  at("clear").addEventListener("click", () => {
    panes.setSourceText("");
    edited();
    cycle.change();
    area.focus();
  });
}

function startTools() {
  const label = at("copy").querySelector("span");
  at("copy").addEventListener("click", async () => {
    if (!(await copied(at("copy"), panes.targetText(), "copied"))) return;
    label.textContent = text("copied");
    setTimeout(() => (label.textContent = text("copy")), DONE_MS);
  });
  at("copy-link").addEventListener("click", () => {
    const link = linkTo(wanted());
    if (link) copied(at("copy-link"), link, "link.copied");
    else showFault(text("link.long"));
  });
}

/** Copies `words`, and says so: in the key `said`, and for a moment by the sign on `button`.
 *  @returns {Promise<boolean>} whether the browser did it */
async function copied(button, words, said) {
  const isDone = await copy(words);
  say(text(isDone ? said : "copy.failed"));
  if (!isDone) {
    showFault(text("copy.failed"));
    return false;
  }
  const sign = button.querySelector("use");
  const usual = (button.dataset.sign ??= sign.getAttribute("href"));
  sign.setAttribute("href", "#icon-done");
  setTimeout(() => sign.setAttribute("href", usual), DONE_MS);
  return true;
}

async function start() {
  translatePage();
  startAppearance();
  askForKeys();
  startText();
  startTools();
  startFiles(wanted);
  document.addEventListener("interfacechange", () => {
    languages.rename();
    showCount();
    reflectExamples();
    if (result) showAbout(result);
  });
  // Somebody may have been quicker than this script.
  if (!panes.sourceText()) panes.setSourceText(recall(KEPT) ?? "");
  typed();
  // On a phone a keyboard would cover half of the page.
  if (!panes.sourceText() && matchMedia("(pointer: fine)").matches) at("source-text").focus();
  await loadLanguages();
  addEventListener("hashchange", goToPlace);
}

async function loadLanguages() {
  try {
    languages.load(await api.get("languages"));
    goToPlace();
    clearNotes();
    await models.start();
  } catch (error) {
    if (!isGone(error)) {
      return showFault(faultWords(error), { words: text("again"), act: loadLanguages });
    }
    showFault(goneWords(error));
    await untilReady();
    await loadLanguages();
  }
}

function goToPlace() {
  const place = readPlace();
  if (!place) return;
  if (place.text) panes.setSourceText(place.text);
  typed();
  languages.choose(place.source, place.target);
}

await start();
