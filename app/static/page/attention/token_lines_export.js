// The lines between tokens on a canvas, as the browser laid them out. Knows no weights.

/**
 * @param context its unit is a CSS pixel
 * @param laid {figure, svg, rows: elements, curves: [{points, thickness, opacity}]}
 */
export function paintLines(context, { figure, svg, rows, curves }, colours) {
  const frame = figure.getBoundingClientRect();
  const drawing = svg.getBoundingClientRect();
  context.save();
  context.translate(drawing.left - frame.left, drawing.top - frame.top);
  context.strokeStyle = colours.accent;
  context.lineCap = "round";
  for (const { points, thickness, opacity } of curves) {
    context.globalAlpha = opacity;
    context.lineWidth = thickness;
    context.beginPath();
    context.moveTo(...points[0]);
    context.bezierCurveTo(...points[1], ...points[2], ...points[3]);
    context.stroke();
  }
  context.restore();
  for (const row of rows) {
    paintName(context, row, frame, colours);
    for (const token of row.querySelectorAll(".token")) paintToken(context, token, frame, colours);
  }
}

/** What a row is called, where styles/lines.css has it. */
function paintName(context, row, frame, colours) {
  const box = row.getBoundingClientRect();
  const isKey = row.dataset.side === "key";
  const isDown = row.parentElement.classList.contains("down");
  const [left, middle, right] = [box.left, (box.left + box.right) / 2, box.right].map((x) => x - frame.left);
  context.save();
  context.font = `12px ${colours.font}`;
  context.fillStyle = colours.soft;
  context.textBaseline = "middle";
  context.textAlign = isDown ? (isKey ? "right" : "left") : "center";
  const x = isDown ? (isKey ? right : left) : middle;
  const y = isDown || isKey ? box.top + 8 : box.bottom - 8;
  context.fillText(row.dataset.name, x, y - frame.top);
  context.restore();
}

/** The token's background and texts, as the browser laid them out. */
function paintToken(context, token, frame, colours) {
  const box = token.getBoundingClientRect();
  context.fillStyle = getComputedStyle(token).backgroundColor;
  context.beginPath();
  context.roundRect(box.left - frame.left, box.top - frame.top, box.width, box.height, 6);
  context.fill();
  context.textBaseline = "middle";
  for (const part of token.querySelectorAll(".rest, .share")) {
    const { left, top, bottom, width } = part.getBoundingClientRect();
    const style = getComputedStyle(part);
    context.font = `${style.fontWeight} ${style.fontSize} ${colours.font}`;
    context.fillStyle = style.color;
    // What takes two lines on a narrow page is drawn narrow in one.
    context.fillText(part.textContent, left - frame.left, (top + bottom) / 2 - frame.top, width + 1);
  }
  const space = token.querySelector(".space");
  if (space) paintSpace(context, space, frame);
}

/** An open box, which styles/lines.css makes of borders. */
function paintSpace(context, space, frame) {
  const box = space.getBoundingClientRect();
  const style = getComputedStyle(space);
  const [left, right] = [box.left - frame.left + 0.5, box.right - frame.left - 0.5];
  const [top, bottom] = [box.top - frame.top, box.bottom - frame.top - 0.5];
  context.save();
  context.globalAlpha = style.opacity;
  context.strokeStyle = style.color;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(left, top);
  context.lineTo(left, bottom);
  context.lineTo(right, bottom);
  context.lineTo(right, top);
  context.stroke();
  context.restore();
}
