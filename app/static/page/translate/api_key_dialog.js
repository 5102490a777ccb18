// The dialog that asks for an API key if the service requires one.

import { key, onKeyRequired, setKey } from "../service/api.js";
import { text } from "../i18n/index.js";

const dialog = document.getElementById("key-dialog");
const form = document.getElementById("key-form");
const field = document.getElementById("key");
const remember = document.getElementById("key-remember");
const message = document.getElementById("key-problem");
const HEADER_VALUE = /^[\x20-\xff]+$/; // characters allowed in a header value

/** Makes requests that need a key wait for the dialog. */
export function startKeyDialog() {
  onKeyRequired(askForKey);
  document.getElementById("key-cancel").addEventListener("click", () => dialog.close());
}

/** @param {import("../service/api.js").Problem} problem
 *  @returns {Promise<void>} resolves when a key is set. @throws the problem if the user cancels */
function askForKey(problem) {
  message.textContent = text(key() ? "key.wrong" : "key.why");
  field.value = "";
  dialog.showModal();
  return new Promise((resolve, reject) => {
    let isGiven = false;
    const submit = (event) => {
      event.preventDefault();
      const value = field.value.trim();
      if (!HEADER_VALUE.test(value)) return void (message.textContent = text("key.wrong"));
      setKey(value, remember.checked);
      document.dispatchEvent(new CustomEvent("keychange"));
      isGiven = true;
      dialog.close();
    };
    form.addEventListener("submit", submit);
    dialog.addEventListener("close", () => {
      form.removeEventListener("submit", submit);
      if (isGiven) resolve();
      else reject(problem);
    }, { once: true });
  });
}
