// Creates DOM elements in one expression, and a roving tabindex.

const SVG = "http://www.w3.org/2000/svg";

/**
 * Creates an element with properties, data-* (`data`) and aria-* attributes (`aria`), event listeners (`on`) and
 * children. Strings become text nodes, never markup.
 */
export function make(name, { data = {}, aria = {}, on = {}, ...properties } = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  Object.assign(element.dataset, data);
  for (const [key, value] of Object.entries(aria)) element.setAttribute(`aria-${key}`, value);
  for (const [event, listener] of Object.entries(on)) element.addEventListener(event, listener);
  element.append(...children);
  return element;
}

/** Creates an SVG element with attributes and children. */
export function createSvgElement(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** Keeps one of `items` in the tab order (roving tabindex, ARIA Authoring Practices); arrow keys move the focus.
 *  `step(key, index)` returns the next index, or null to ignore the key. */
export function addRovingTabIndex(container, items, step) {
  const setTabStop = (current) => items().forEach((item) => (item.tabIndex = item === current ? 0 : -1));
  container.addEventListener("focusin", ({ target }) => {
    const item = items().find((each) => each.contains(target));
    if (item) setTabStop(item);
  });
  container.addEventListener("keydown", (event) => {
    const index = items().findIndex((each) => each.contains(event.target));
    const next = index < 0 || event.ctrlKey || event.altKey || event.metaKey ? null : step(event.key, index);
    if (next === null) return;
    event.preventDefault();
    items()[Math.max(0, Math.min(items().length - 1, next))].focus();
  });
}
