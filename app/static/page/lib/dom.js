// Elements made in one expression. Knows nothing of what they are for.

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element with properties (`data` and `aria` by their own names, events by `on`) and what goes inside it.
 * Text is only ever text.
 */
export function make(name, { data = {}, aria = {}, on = {}, ...properties } = {}, ...inside) {
  const element = Object.assign(document.createElement(name), properties);
  Object.assign(element.dataset, data);
  for (const [key, value] of Object.entries(aria)) element.setAttribute(`aria-${key}`, value);
  for (const [event, listener] of Object.entries(on)) element.addEventListener(event, listener);
  element.append(...inside);
  return element;
}

/** An element of a drawing, with its attributes. */
export function draw(name, attributes = {}, ...inside) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...inside);
  return element;
}

/** Keeps one of `items` in the tab order, which the arrow keys move; `step(key, index)` gives where to, or null. */
export function rove(container, items, step) {
  const into = (chosen) => items().forEach((item) => (item.tabIndex = item === chosen ? 0 : -1));
  container.addEventListener("focusin", ({ target }) => {
    const item = items().find((each) => each.contains(target));
    if (item) into(item);
  });
  container.addEventListener("keydown", (event) => {
    const index = items().findIndex((each) => each.contains(event.target));
    const next = index < 0 || event.ctrlKey || event.altKey || event.metaKey ? null : step(event.key, index);
    if (next === null) return;
    event.preventDefault();
    items()[Math.max(0, Math.min(items().length - 1, next))].focus();
  });
}
