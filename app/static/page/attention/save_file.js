// Saves figures as PNG and responses as files.

import { make } from "../lib/dom.js";
import { errorMessage } from "../translate/notices.js";
import { MAX_CANVAS_PIXELS, textWidth } from "../lib/canvas_colours.js";

const MARGIN_PX = 24;
const TITLE_PX = 15;
const TITLE_HEIGHT_PX = 28;
const PNG_FORMATS = ["lines", "map"];
const FORMATS = [...PNG_FORMATS, "json", "bertviz", "svg"];

export class SaveButtons {
  /** @param onSave called with a format; its errors are shown beside the buttons */
  constructor(text, onSave) {
    this.errorLine = make("span", { className: "fault", role: "status" });
    const click = async (format) => {
      this.errorLine.textContent = "";
      try {
        await onSave(format);
      } catch (error) {
        this.errorLine.textContent = errorMessage(error);
      }
    };
    this.buttons = FORMATS.map((format) => {
      const properties = { type: "button", className: "quiet", data: { format }, on: { click: () => click(format) } };
      return make("button", properties, text(`attention.save.${format}`));
    });
    const name = make("span", { aria: { hidden: "true" } }, text("attention.save"));
    const aria = { label: text("attention.save") };
    this.element = make("div", { className: "exports", role: "group", aria }, name, ...this.buttons, this.errorLine);
  }

  /** @param hasFigure enables the PNG formats */
  show(hasFigure) {
    this.errorLine.textContent = "";
    for (const button of this.buttons) button.disabled = !hasFigure && PNG_FORMATS.includes(button.dataset.format);
  }
}

/**
 * Renders a figure and its title as a PNG, at twice its size on the screen or at the canvas limit.
 * @param figure {size(): {width, height}, drawTo(context, colours)}, in CSS pixels
 * @returns {Promise<Blob>}
 */
export function renderPng(figure, title, colours) {
  const { width, height } = figure.size();
  const size = { width: Math.ceil(width) + 2 * MARGIN_PX, height: Math.ceil(height) + TITLE_HEIGHT_PX + 2 * MARGIN_PX };
  const scale = Math.min(2, Math.sqrt(MAX_CANVAS_PIXELS / (size.width * size.height)));
  const canvas = make("canvas", { width: Math.floor(size.width * scale), height: Math.floor(size.height * scale) });
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.fillStyle = colours.surface;
  context.fillRect(0, 0, size.width, size.height);
  const fit = width / textWidth(title, `600 ${TITLE_PX}px ${colours.font}`);
  context.font = `600 ${TITLE_PX * Math.min(1, fit)}px ${colours.font}`;
  context.fillStyle = colours.ink;
  context.textBaseline = "top";
  context.fillText(title, MARGIN_PX, MARGIN_PX);
  context.translate(MARGIN_PX, MARGIN_PX + TITLE_HEIGHT_PX);
  figure.drawTo(context, colours);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/** Downloads `blob` as a file. */
export function downloadBlob(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  // The browser reads the URL some time after this function returns.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
