// Before the first paint: light or dark, so that nothing flashes. Not a module, since those run later.

(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const stored = (name) => {
    try {
      return localStorage.getItem(name);
    } catch {
      return null; // the browser was told to keep nothing
    }
  };
  const apply = () => {
    root.dataset.theme = stored("interlinear.theme") ?? (dark.matches ? "dark" : "light");
    document.dispatchEvent(new CustomEvent("themechange"));
  };
  apply();
  dark.addEventListener("change", apply);
  document.addEventListener("themechosen", apply);
  // Nor should English be seen by whom main.js is about to show Chinese.
  const language = stored("interlinear.interface") ?? navigator.language;
  if (language.toLowerCase().startsWith("zh")) root.dataset.waiting = "";
})();
