// What the browser keeps for the page: for this tab, or for good. Some browsers are told to keep nothing.

/** @param {string} name @returns {string | null} what was kept, in this tab first */
export function recall(name) {
  return withStores((tab, good) => tab.getItem(name) ?? good.getItem(name)) ?? null;
}

/** @param {string} name @param {string | null} value null: forget it @param {"tab" | "good"} [where] for how long */
export function keep(name, value, where = "good") {
  withStores((tab, good) => {
    for (const store of [tab, good]) store.removeItem(name);
    if (value !== null) (where === "tab" ? tab : good).setItem(name, value);
  });
}

function withStores(work) {
  try {
    return work(sessionStorage, localStorage);
  } catch {
    return null; // not allowed, or full: the page works without
  }
}
