// The dialog that asks for an API key, where the service wants one.

import { key, onKeyWanted, setKey } from "../service/api.js";
import { text } from "../i18n/index.js";

const dialog = document.getElementById("key-dialog");
const form = document.getElementById("key-form");
const field = document.getElementById("key");
const remember = document.getElementById("key-remember");
const problemLine = document.getElementById("key-problem");
const SENDABLE = /^[\x20-\xff]+$/; // the characters that a header can hold

/** From now on, a request that needs a key waits for it. */
export function askForKeys() {
  onKeyWanted(ask);
  document.getElementById("key-cancel").addEventListener("click", () => dialog.close());
}

/** @param {import("../service/api.js").Problem} problem
 *  @returns {Promise<void>} a key was given. @throws the problem, if none was */
function ask(problem) {
  problemLine.textContent = text(key() ? "key.wrong" : "key.why");
  field.value = "";
  dialog.showModal();
  return new Promise((resolve, reject) => {
    let given = false;
    const take = (event) => {
      event.preventDefault();
      const value = field.value.trim();
      if (!SENDABLE.test(value)) return void (problemLine.textContent = text("key.wrong"));
      setKey(value, remember.checked);
      given = true;
      dialog.close();
    };
    form.addEventListener("submit", take);
    dialog.addEventListener("close", () => {
      form.removeEventListener("submit", take);
      if (given) resolve();
      else reject(problem);
    }, { once: true });
  });
}
