// Paints the token lines on a canvas, as the browser laid them out.

/**
 * @param context in CSS pixels
 * @param parts {figure, svg, rows: elements, curves: [{points, thickness, opacity}]}
 */
export function paintLines(context, { figure, svg, rows, curves }, colours) {
  const figureBox = figure.getBoundingClientRect();
  const svgBox = svg.getBoundingClientRect();
  context.save();
  context.translate(svgBox.left - figureBox.left, svgBox.top - figureBox.top);
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
    paintRowName(context, row, figureBox, colours);
    for (const token of row.querySelectorAll(".token")) paintToken(context, token, figureBox, colours);
  }
}

/** The name of a row, at its position in styles/lines.css. */
function paintRowName(context, row, figureBox, colours) {
  const box = row.getBoundingClientRect();
  const isKey = row.dataset.side === "key";
  const isDown = row.parentElement.classList.contains("down");
  const [left, middle, right] = [box.left, (box.left + box.right) / 2, box.right].map((x) => x - figureBox.left);
  context.save();
  context.font = `12px ${colours.font}`;
  context.fillStyle = colours.soft;
  context.textBaseline = "middle";
  context.textAlign = isDown ? (isKey ? "right" : "left") : "center";
  const x = isDown ? (isKey ? right : left) : middle;
  const y = isDown || isKey ? box.top + 8 : box.bottom - 8;
  context.fillText(row.dataset.name, x, y - figureBox.top);
  context.restore();
}

/** A token's background and texts, as the browser laid them out. */
function paintToken(context, token, figureBox, colours) {
  const box = token.getBoundingClientRect();
  context.fillStyle = getComputedStyle(token).backgroundColor;
  context.beginPath();
  context.roundRect(box.left - figureBox.left, box.top - figureBox.top, box.width, box.height, 6);
  context.fill();
  context.textBaseline = "middle";
  for (const part of token.querySelectorAll(".rest, .share")) {
    const { left, top, bottom, width } = part.getBoundingClientRect();
    const style = getComputedStyle(part);
    context.font = `${style.fontWeight} ${style.fontSize} ${colours.font}`;
    context.fillStyle = style.color;
    // Text that wraps on a narrow page is compressed to one line.
    context.fillText(part.textContent, left - figureBox.left, (top + bottom) / 2 - figureBox.top, width + 1);
  }
  const spaceMark = token.querySelector(".space");
  if (spaceMark) paintSpace(context, spaceMark, figureBox);
}

/** The space mark: an open box, which styles/lines.css makes of borders. */
function paintSpace(context, spaceMark, figureBox) {
  const box = spaceMark.getBoundingClientRect();
  const style = getComputedStyle(spaceMark);
  const [left, right] = [box.left - figureBox.left + 0.5, box.right - figureBox.left - 0.5];
  const [top, bottom] = [box.top - figureBox.top, box.bottom - figureBox.top - 0.5];
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
