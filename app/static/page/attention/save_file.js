// Pictures and answers as files. Knows how a file is made and given, not what is drawn in it.

import { make } from "../lib/dom.js";
import { faultWords } from "../translate/notices.js";
import { MOST_PIXELS, measured } from "../lib/canvas_colours.js";

const MARGIN = 24;
const TITLE = 15;
const HEAD = 28; // the title's room
const PICTURES = ["lines", "map"];
const FORMATS = [...PICTURES, "json", "bertviz", "svg"];

export class Exports {
  /** @param saved called with a format; what it throws is told here */
  constructor(text, saved) {
    this.fault = make("span", { className: "fault", role: "status" });
    const click = async (format) => {
      this.fault.textContent = "";
      try {
        await saved(format);
      } catch (error) {
        this.fault.textContent = faultWords(error);
      }
    };
    this.buttons = FORMATS.map((format) => {
      const looks = { type: "button", className: "quiet", data: { format }, on: { click: () => click(format) } };
      return make("button", looks, text(`attention.save.${format}`));
    });
    const name = make("span", { aria: { hidden: "true" } }, text("attention.save"));
    const aria = { label: text("attention.save") };
    this.element = make("div", { className: "exports", role: "group", aria }, name, ...this.buttons, this.fault);
  }

  /** @param isDrawn whether there is a figure to be saved */
  show(isDrawn) {
    this.fault.textContent = "";
    for (const button of this.buttons) button.disabled = !isDrawn && PICTURES.includes(button.dataset.format);
  }
}

/**
 * A figure under its title as a PNG, at twice its size on the screen or as much as a canvas may have.
 * @param figure {size(): {width, height}, picture(context)}, in CSS pixels
 * @returns {Promise<Blob>}
 */
export function png(figure, title, colours) {
  const { width, height } = figure.size();
  const full = { width: Math.ceil(width) + 2 * MARGIN, height: Math.ceil(height) + HEAD + 2 * MARGIN };
  const scale = Math.min(2, Math.sqrt(MOST_PIXELS / (full.width * full.height)));
  const canvas = make("canvas", { width: Math.floor(full.width * scale), height: Math.floor(full.height * scale) });
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.fillStyle = colours.surface;
  context.fillRect(0, 0, full.width, full.height);
  const room = width / measured(title, `600 ${TITLE}px ${colours.font}`);
  context.font = `600 ${TITLE * Math.min(1, room)}px ${colours.font}`;
  context.fillStyle = colours.ink;
  context.textBaseline = "top";
  context.fillText(title, MARGIN, MARGIN);
  context.translate(MARGIN, MARGIN + HEAD);
  figure.picture(context, colours);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/** Gives `blob` to the reader as a file. */
export function save(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  // The browser reads it after this returns; how long after, it does not tell.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
