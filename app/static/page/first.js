// Before the first paint: light or dark, so that nothing flashes. Not a module, since those run later.

(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const apply = () => {
    const chosen = localStorage.getItem("interlinear.theme");
    root.dataset.theme = chosen ?? (dark.matches ? "dark" : "light");
    document.dispatchEvent(new CustomEvent("themechange"));
  };
  apply();
  dark.addEventListener("change", apply);
  document.addEventListener("themechosen", apply);
  // Nor should English be seen by whom main.js is about to show Chinese.
  const language = localStorage.getItem("interlinear.interface") ?? navigator.language;
  if (language.toLowerCase().startsWith("zh")) root.dataset.waiting = "";
})();
