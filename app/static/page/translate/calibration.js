// How well a model's estimates of quality hold: the calibration plot of a test set, and figures of all sets.

import { createSvgElement, make } from "../lib/dom.js";
import { table } from "../lib/table.js";
import { number, text } from "../i18n/index.js";

const SIDE = 160; // of the plot, in units of the picture
const [LEFT, TOP, RIGHT, BOTTOM] = [44, 8, 20, 38]; // room for the axes' labels
const TICKS = [0, 0.5, 1];
const MIN_RADIUS = 1.5;
const MAX_RADIUS = 9;

/** @typedef {{set: string, sentences: number, error: number, auroc: number | null, bins: [number, number, number][]}}
 *    Measured `bins` are sentences, mean estimate and share of good ones
 *  @typedef {{fitted_on: {set: string}[], measured: Measured[]}} Calibration of a direction, from GET /models */

/** @param {any} model of GET /models @param {{source?: string, target?: string}} pair the selected languages
 *  @returns {string | undefined} the direction to show: that of the pair, or the first;
 *    undefined if none is calibrated */
export function calibratedDirection({ quality }, { source, target }) {
  const direction = `${source}-${target}`;
  return direction in quality ? direction : Object.keys(quality)[0];
}

/** @param {Calibration} calibration @returns {HTMLElement} */
export function calibrationFigures({ fitted_on: fittedOn, measured }) {
  const fitted = new Set(fittedOn.map(({ set }) => set));
  // As on the model card: a set that the estimates were not fitted on says more.
  const shown = measured.find(({ set }) => !fitted.has(set)) ?? measured[0];
  const rows = measured.map((one) => [
    fitted.has(one.set) ? text("calibration.fitted", { set: one.set }) : one.set,
    number(one.sentences),
    formatError(one.error),
    formatAuroc(one.auroc),
  ]);
  const figures = shown ? [figure(shown)] : [];
  const columns = ["model.set", "model.sentences", "calibration.error", "calibration.auroc"].map((name) => text(name));
  return make("div", { className: "calibration" }, ...figures, table(text("calibration.figures"), columns, rows));
}

function figure(measured) {
  const { set, error, auroc } = measured;
  const figures = { set, error: formatError(error), auroc: formatAuroc(auroc) };
  const caption = make("figcaption", {}, text("calibration.caption", figures));
  return make("figure", {}, plot(measured), caption);
}

/** The calibration plot: a dot for each bin, larger for more sentences, and on the diagonal if its estimates hold. */
function plot({ bins }) {
  const largest = Math.max(...bins.map(([count]) => count));
  const points = bins.map(([, estimate, good]) => `${x(estimate)},${y(good)}`).join(" ");
  const dots = bins.map(([count, estimate, good]) => {
    const r = Math.max(MIN_RADIUS, MAX_RADIUS * Math.sqrt(count / largest));
    const words = text("calibration.bin", { ...percentages(estimate, good), count: number(count) });
    const title = createSvgElement("title", {}, words);
    return createSvgElement("circle", { class: "dot", cx: x(estimate), cy: y(good), r }, title);
  });
  const said = bins.map(([, estimate, good]) => text("calibration.point", percentages(estimate, good)));
  const label = text("calibration.plot", { points: said.join(text("calibration.comma")) });
  const [width, height] = [LEFT + SIDE + RIGHT, TOP + SIDE + BOTTOM];
  return createSvgElement(
    "svg",
    { role: "img", "aria-label": label, viewBox: `0 0 ${width} ${height}` },
    ...axes(),
    createSvgElement("line", { class: "ideal", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }),
    createSvgElement("polyline", { class: "measured", points }),
    ...dots,
  );
}

function* axes() {
  yield createSvgElement("rect", { class: "frame", x: LEFT, y: TOP, width: SIDE, height: SIDE });
  for (const share of TICKS) {
    const words = number(share, { style: "percent" });
    yield createSvgElement("text", { x: x(share), y: TOP + SIDE + 14, "text-anchor": "middle" }, words);
    yield createSvgElement("text", { x: LEFT - 5, y: y(share) + 4, "text-anchor": "end" }, words);
  }
  const middle = TOP + SIDE / 2;
  const [estimated, good] = [text("calibration.estimated"), text("calibration.good")];
  yield createSvgElement("text", { x: x(0.5), y: TOP + SIDE + 31, "text-anchor": "middle" }, estimated);
  const turned = { x: 12, y: middle, transform: `rotate(-90 12 ${middle})`, "text-anchor": "middle" };
  yield createSvgElement("text", turned, good);
}

function x(share) {
  return round(LEFT + SIDE * share);
}

function y(share) {
  return round(TOP + SIDE * (1 - share));
}

function round(length) {
  return Math.round(length * 10) / 10;
}

function percentages(estimate, good) {
  return { estimate: number(estimate, { style: "percent" }), good: number(good, { style: "percent" }) };
}

function formatError(error) {
  return number(error, { minimumFractionDigits: 3, maximumFractionDigits: 3 });
}

function formatAuroc(auroc) {
  return auroc === null ? "–" : number(auroc, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
}
