// The page's entry point: connects its parts.

import * as api from "./service/api.js";
import { startAdaptation } from "./adapt/loader.js";
import { startPreferences } from "./translate/preferences.js";
import { copy, showDone } from "./lib/clipboard.js";
import { engineField, engineRemark, startEngine } from "./translate/engine.js";
import { createRequestLoop, isUnavailable, waitUntilReady } from "./service/request_loop.js";
import { make } from "./lib/dom.js";
import { exampleFor, hideExamples, showExamples } from "./translate/examples.js";
import { startInstalls } from "./models/loader.js";
import { startFiles } from "./translate/files.js";
import { startKeyDialog } from "./translate/api_key_dialog.js";
import { LanguagePicker } from "./translate/languages.js";
import { WordHover } from "./translate/word_hover.js";
import { ModelPanel } from "./translate/model_panel.js";
import {
  announce,
  cancelAnnouncement,
  clearNotices,
  errorMessage,
  qualityWarnings,
  showError,
  showWarnings,
  unavailableMessage,
} from "./translate/notices.js";
import { Alternatives } from "./translate/alternatives.js";
import { Correction } from "./translate/correction.js";
import * as panes from "./translate/panes.js";
import { linkTo, readFragment, writeFragment } from "./translate/url_fragment.js";
import { AttentionPanel } from "./attention/panel.js";
import { codePoints } from "./lib/offsets.js";
import { getStored, setStored } from "./lib/storage.js";
import { number, text, translatePage } from "./i18n/index.js";

const MAX_CHARACTERS = Number(document.querySelector('meta[name="interlinear-max-characters"]').content);
const STORED_TEXT = "interlinear.text";
const MAX_ANNOUNCED_CHARACTERS = 300; // a screen reader reads out shorter translations when they arrive
const ANNOUNCE_DELAY_MS = 900; // without typing, before an announcement

const byId = (id) => document.getElementById(id);

let result = null; // the complete translation that is shown
let selectedIndex = 0; // of the sentence whose alternatives and attention are shown

const requestLoop = createRequestLoop({
  getRequest,
  validate,
  onUnchanged: restore,
  onStart: showStarted,
  onSentence: showSentence,
  onDone: showResult,
  onError: showFailure,
});
const languages = new LanguagePicker({ onChange: languagesChanged, onSwap: swapTexts, announce });
const wordHover = new WordHover({
  onSelect: selectSentence,
  onError: (error) => showError(errorMessage(error)),
  onRecovered: alignmentRecovered,
  announce,
});
const alternatives = new Alternatives((words) => replaceSentence(selectedIndex, words, "others.taken"));
const correction = new Correction((index, words) => replaceSentence(index, words, "correct.done"));
const installs = startInstalls({ languages, reload: reloadModels });
const modelPanel = new ModelPanel(installs.showModel);
const attention = new AttentionPanel();

function getRequest() {
  return { text: panes.sourceText(), source: languages.source, target: languages.target, ...engineField() };
}

/** Whether there is something to translate; if not, clears the translation or shows why. */
function validate({ text: words, target }) {
  invalidate();
  if (!target) return false; // the languages are still loading, or their error is shown
  const count = codePoints(words);
  const limit = number(MAX_CHARACTERS);
  if (!words.trim() || !languages.isServed) showEmpty();
  else if (count > MAX_CHARACTERS) showError(text("too-long", { count: number(count), limit }));
  else return true;
  return false;
}

function showEmpty() {
  clearNotices();
  panes.setSentenceCount(0);
  languages.setDetected("und", null);
  byId("time").textContent = "";
  showDetails(0);
  updateButtons();
}

/** An edit was undone: the translation shown is that of the text again. */
function restore() {
  if (!result) return;
  panes.undim();
  wordHover.show(result);
}

/** The translation shown is no longer that of the text. */
function invalidate() {
  result = null;
  wordHover.show(null);
  correction.show(null);
  panes.dim();
}

function showStarted() {
  panes.setLanguages(languages.source, languages.target);
  panes.dim();
}

function showSentence(index, sentence) {
  if (index === 0) clearNotices();
  panes.showSentence(index, sentence);
  updateButtons(); // the sentences that follow are of the previous translation
}

function showResult(answer) {
  result = answer;
  panes.setSentenceCount(answer.sentences.length);
  wordHover.show(answer);
  languages.setDetected(answer.source, answer.confidence);
  const shownWarnings = showTimeAndWarnings(answer);
  modelPanel.setLastResult(answer);
  showDetails(0);
  updateButtons();
  const words = panes.targetText();
  // `lang` selects the screen reader's voice.
  const isShort = words.length <= MAX_ANNOUNCED_CHARACTERS;
  const announcement = isShort ? make("span", { lang: answer.target }, words) : text("spoken.done");
  announce(announcement, ANNOUNCE_DELAY_MS, shownWarnings);
}

/** @returns {string[]} the warnings that are shown */
function showTimeAndWarnings(answer) {
  byId("time").textContent = text("time", { time: number(Math.round(answer.milliseconds)) });
  return showResultWarnings(answer);
}

/** @returns {string[]} what is shown */
function showResultWarnings({ warnings, sentences, memory }) {
  const made = engineRemark(sentences);
  const remarks = memory ? [text(sentences.length > 1 ? "memory.some" : "memory.all")] : [];
  if (made) remarks.push(text(...made));
  return showWarnings([...warnings, ...qualityWarnings(sentences)], remarks);
}

/** Word alignment works again after an error: shows the warnings in its place. */
function alignmentRecovered() {
  if (result) showResultWarnings(result);
}

function showFailure(error, wait) {
  invalidate();
  languages.setDetected("und", null); // the detected language was of another text
  byId("time").textContent = "";
  alternatives.show(null);
  updateButtons();
  const isPolled = !wait && isUnavailable(error);
  const words = isPolled ? unavailableMessage(error) : errorMessage(error, wait);
  const needsKey = error.status === 401;
  const canRetry = !wait && !isPolled;
  const action = canRetry ? { words: text(needsKey ? "key.enter" : "again"), act: requestLoop.retry } : undefined;
  showError(words, action, wait ? "warning" : "fault");
}

/** Enables the buttons that need a translation. */
function updateButtons() {
  const hasTranslation = result !== null && panes.targetText() !== "";
  byId("copy").disabled = byId("copy-link").disabled = !hasTranslation;
}

/** Shows the alternatives and the attention of a sentence, which can be corrected. */
function showDetails(index) {
  selectedIndex = index;
  const sentence = result?.sentences[index];
  const words = sentence && result.text.slice(...sentence.source); // of copied text none
  const isTranslated = words && sentence.text && result.source !== "und" && result.source !== result.target;
  const shown = isTranslated ? { text: words, source: result.source, target: result.target } : null;
  const selected = shown && { ...shown, translation: sentence.text };
  alternatives.show(selected);
  const count = result?.sentences.length ?? 0;
  // Through another language only whole texts are looked up in the translation memory.
  correction.show(result?.via && count > 1 ? null : selected, index);
  attention.show(shown && { ...shown, ...(sentence.isReplaced && { target_text: sentence.text }) }, index, count);
}

function selectSentence(index) {
  wordHover.select(result.sentences.length > 1 ? index : null);
  if (index !== selectedIndex) showDetails(index);
}

/** Replaces a sentence of the translation, and announces it with the text of `announcement`. */
function replaceSentence(index, words, announcement) {
  if (!result) return; // the text has changed since
  // The quality and the doubtful words were those of the other translation.
  const sentence = { ...result.sentences[index], text: words, quality: null, doubtful: [], isReplaced: true };
  result.sentences[index] = sentence;
  panes.showSentence(index, sentence);
  wordHover.select(result.sentences.length > 1 ? index : null);
  showDetails(index);
  showResultWarnings(result);
  announce(text(announcement, { words }));
}

function swapTexts() {
  if (result && panes.targetText()) panes.setSourceText(panes.targetText());
  textChanged();
}

function languagesChanged(byUser) {
  if (byUser && languages.isServed) writeFragment(languages.source, languages.target);
  modelPanel.show(getRequest());
  installs.showPair();
  updateExamples();
  requestLoop.schedule();
}

/** After an edit by the user, a reload restores this text and not that of the link. */
function textEdited() {
  const fragment = readFragment();
  if (fragment?.text) writeFragment(fragment.source, fragment.target);
  languages.textChanged();
  textChanged();
}

/** Puts an example in place of the text, and opens its attention. */
function useExample(sentence) {
  panes.setSourceText(sentence);
  textEdited();
  requestLoop.schedule();
  byId("attention-panel").open = true;
  byId("source-text").focus();
}

function updateExamples() {
  if (panes.sourceText() || !languages.target) hideExamples();
  else showExamples(languages.sources, useExample);
}

/** Updates at once what depends on the text alone. */
function textChanged() {
  cancelAnnouncement();
  panes.resetMirror();
  wordHover.show(null);
  showCount();
  updateExamples();
  setStored(STORED_TEXT, panes.sourceText().slice(0, MAX_CHARACTERS), "session");
}

function showCount() {
  const words = panes.sourceText();
  const count = codePoints(words);
  const figures = { count: number(count), limit: number(MAX_CHARACTERS) };
  byId("count").textContent = text("count", figures);
  byId("count-said").textContent = text("count.said", figures);
  byId("count").classList.toggle("over", count > MAX_CHARACTERS);
  byId("clear").hidden = !words;
}

function startText() {
  const area = byId("source-text");
  area.addEventListener("input", (event) => {
    textEdited();
    // A half-composed Chinese character is not translated at once. Phone keyboards compose every word, the last one
    // until another follows, so composed text is translated after a longer pause. Pasted text is complete.
    const isPasted = event.inputType === "insertFromPaste";
    requestLoop.schedule(event.isComposing ? "composing" : isPasted ? undefined : "typing");
  });
  area.addEventListener("compositionend", () => requestLoop.schedule("typing"));
  byId("clear").addEventListener("click", () => {
    panes.setSourceText("");
    textEdited();
    requestLoop.schedule();
    area.focus();
  });
}

function startButtons() {
  const label = byId("copy").querySelector("span");
  byId("copy").addEventListener("click", async () => {
    const restore = () => (label.textContent = text("copy"));
    if (await copyAndConfirm(byId("copy"), panes.targetText(), "copied", restore)) label.textContent = text("copied");
  });
  byId("copy-link").addEventListener("click", () => {
    const link = linkTo(getRequest());
    if (link) copyAndConfirm(byId("copy-link"), link, "link.copied");
    else showError(text("link.long"));
  });
}

/** Copies `words`, announces the text of `confirmation`, and shows a check mark on `button` until it calls `then`.
 *  @returns {Promise<boolean>} whether the browser allowed it */
async function copyAndConfirm(button, words, confirmation, then) {
  const isDone = await copy(words);
  announce(text(isDone ? confirmation : "copy.failed"));
  if (isDone) showDone(button, then);
  else showError(text("copy.failed"));
  return isDone;
}

function startAPI() {
  byId("api").addEventListener("click", async () => {
    // Browsers remember that a module could not be loaded, but the reference is there.
    const part = await import("./api/dialog.js").catch(() => location.assign("docs"));
    part?.showTools(byId("api"), exampleFor(languages.sources, languages.target));
  });
}

async function start() {
  translatePage();
  startPreferences();
  startKeyDialog();
  startText();
  startButtons();
  startAPI();
  startFiles(getRequest);
  startEngine(() => requestLoop.schedule());
  document.addEventListener("interfacechange", () => {
    languages.relabel();
    showCount();
    updateExamples();
    if (result) showTimeAndWarnings(result);
  });
  // The user may have typed before this script ran.
  if (!panes.sourceText()) panes.setSourceText(getStored(STORED_TEXT) ?? "");
  textChanged();
  // On a phone, focus would open a keyboard that covers half of the page.
  if (!panes.sourceText() && matchMedia("(pointer: fine)").matches) byId("source-text").focus();
  await loadLanguages();
  addEventListener("hashchange", applyFragment);
}

async function loadLanguages() {
  try {
    languages.load(await api.get("languages"));
    applyFragment();
    clearNotices();
    await modelPanel.start();
    startAdaptation(getRequest);
  } catch (error) {
    if (!isUnavailable(error)) {
      return showError(errorMessage(error), { words: text("again"), act: loadLanguages });
    }
    showError(unavailableMessage(error));
    await waitUntilReady();
    await loadLanguages();
  }
}

/** Translates again with the models that are served now. @throws {api.Problem | api.Unreachable} */
async function reloadModels() {
  languages.update(await api.get("languages"));
  await modelPanel.start();
  requestLoop.retry();
}

function applyFragment() {
  const fragment = readFragment();
  if (!fragment) return;
  if (fragment.text) panes.setSourceText(fragment.text);
  textChanged();
  languages.select(fragment.source, fragment.target);
}

await start();
