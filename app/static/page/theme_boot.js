// Applies the theme before the first paint, so that nothing flashes. A classic script, since modules run later.

(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const stored = (name) => {
    try {
      return localStorage.getItem(name);
    } catch {
      return null; // storage is blocked
    }
  };
  const apply = () => {
    root.dataset.theme = stored("interlinear.theme") ?? (dark.matches ? "dark" : "light");
    document.dispatchEvent(new CustomEvent("themechange"));
  };
  apply();
  dark.addEventListener("change", apply);
  document.addEventListener("themechosen", apply);
  // Hides the English text until main.js replaces it with Chinese.
  const language = stored("interlinear.interface") ?? navigator.language;
  if (language.toLowerCase().startsWith("zh")) root.dataset.waiting = "";
})();
