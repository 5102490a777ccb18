// Resolves the theme's colours for canvases, and paints a matrix as coloured cells.

import { make } from "./dom.js";

const LEVELS = 256;

/** The limit of a canvas on phones. */
export const MAX_CANVAS_PIXELS = 16_000_000;

const measuringContext = new OffscreenCanvas(1, 1).getContext("2d");

/** Width of a text in a font, in pixels. */
export function textWidth(words, font) {
  measuringContext.font = font;
  return measuringContext.measureText(words).width;
}

/** The theme's colours at `element`, and `heat`: the colour scale from weight 0 to 1. */
export function palette(element) {
  const style = getComputedStyle(element);
  const colour = (name) => resolveColour(element, style.getPropertyValue(name));
  const [ground, surface, ink, soft, line, accent] = ["ground", "surface", "ink", "ink-soft", "line", "accent"].map(
    (name) => colour(`--${name}`),
  );
  const heat = colourScale(colour("--heat-0"), colour("--heat-1"));
  return { ground, surface, ink, soft, line, accent, heat, font: style.fontFamily };
}

/** Resolves a CSS colour for a canvas, which does not understand light-dark() and var(). */
function resolveColour(element, colour) {
  const probe = make("span", { hidden: true });
  element.append(probe);
  probe.style.color = colour;
  const computed = getComputedStyle(probe).color;
  probe.remove();
  return computed;
}

/** LEVELS perceptually even colours: `data` has red, green, blue and alpha of each, `packed` all four in one number. */
function colourScale(from, to) {
  const canvas = new OffscreenCanvas(LEVELS, 1);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  for (let level = 0; level < LEVELS; level += 1) {
    const share = (100 * level) / (LEVELS - 1);
    context.fillStyle = `color-mix(in oklab, ${to} ${share}%, ${from})`;
    context.fillRect(level, 0, 1, 1);
  }
  const { data } = context.getImageData(0, 0, LEVELS, 1);
  return { data, packed: new Uint32Array(data.buffer) };
}

/** The level of a weight: its square root, since most weights of a sentence are small. */
function levelOf(weight) {
  return Math.round(Math.sqrt(Math.min(1, weight)) * (LEVELS - 1));
}

/** [red, green, blue] */
function colourAt(level, { data }) {
  return [...data.subarray(4 * level, 4 * level + 3)];
}

/** Paints a matrix with one pixel per weight, for CSS to enlarge. */
export function paintPixels(canvas, matrix, heat) {
  canvas.width = matrix.columns;
  canvas.height = matrix.rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(matrix.columns, matrix.rows);
  const pixels = new Uint32Array(image.data.buffer);
  matrix.values.forEach((weight, index) => (pixels[index] = heat.packed[levelOf(weight)]));
  context.putImageData(image, 0, 0);
}

/** Paints a matrix as squares of `cell` pixels at (x, y), with two decimals of each weight where they fit. */
export function paintCells(context, matrix, { x = 0, y = 0, cell, colours }) {
  const gap = cell > 11 ? 1 : 0;
  const numbers = cell >= 28;
  context.save();
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.font = `${Math.max(9.5, Math.round(cell * 0.3))}px ${colours.font}`;
  matrix.values.forEach((weight, index) => {
    const left = x + (index % matrix.columns) * cell;
    const top = y + Math.floor(index / matrix.columns) * cell;
    const colour = colourAt(levelOf(weight), colours.heat);
    context.fillStyle = `rgb(${colour})`;
    context.fillRect(left, top, cell - gap, cell - gap);
    if (numbers && weight >= 0.005) {
      context.fillStyle = textColourOn(colour);
      context.fillText(weight.toFixed(2).replace(/^0/, ""), left + (cell - gap) / 2, top + cell / 2);
    }
  });
  context.restore();
}

/** Black or white, whichever contrasts more with a colour (WCAG 2.2, relative luminance). */
function textColourOn(colour) {
  const [red, green, blue] = colour.map((value) => (value / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? "#000" : "#fff";
}

/** Paints the colour scale, labelled with weights. */
export function paintLegend(context, { x, y, width, height, colours }) {
  for (let step = 0; step < width; step += 1) {
    context.fillStyle = `rgb(${colourAt(Math.round((step / (width - 1)) * (LEVELS - 1)), colours.heat)})`;
    context.fillRect(x + step, y, 1, height);
  }
  context.save();
  context.fillStyle = colours.soft;
  context.font = `11px ${colours.font}`;
  context.textBaseline = "top";
  context.textAlign = "center";
  for (const weight of [0, 0.05, 0.25, 0.5, 1]) {
    context.fillText(String(weight), x + Math.sqrt(weight) * width, y + height + 3);
  }
  context.restore();
}
