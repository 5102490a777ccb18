// Stores settings in the tab's session or in local storage. Some browsers block both.

/** @param {string} name @returns {string | null} the stored value, from this session first */
export function getStored(name) {
  return withStorage((session, local) => session.getItem(name) ?? local.getItem(name)) ?? null;
}

/** @param {string} name @param {string | null} value null removes it @param {"session" | "local"} [where] */
export function setStored(name, value, where = "local") {
  withStorage((session, local) => {
    for (const store of [session, local]) store.removeItem(name);
    if (value !== null) (where === "session" ? session : local).setItem(name, value);
  });
}

function withStorage(access) {
  try {
    return access(sessionStorage, localStorage);
  } catch {
    return null; // blocked or full: the page works without storage
  }
}
