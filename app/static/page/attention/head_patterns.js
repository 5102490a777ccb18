// Names the attention pattern of a head: many heads mostly attend to one position.
//
// The patterns are those of Clark et al. 2019, "What Does BERT Look At?", section 3.

const MIN_PATTERN_WEIGHT = 0.4; // mean weight from which a pattern is named

// For each kind and pattern, the key that belongs to a row, given the number of keys. The decoder's keys begin with
// <s>, so the key in the row's own column is the token before.
const KEY_POSITIONS = {
  encoder: { before: (row) => row - 1, itself: (row) => row, after: (row) => row + 1, end: (_, keys) => keys - 1 },
  decoder: { start: () => 0, before: (row) => row },
  cross: { end: (_, keys) => keys - 1 },
};

/**
 * The strongest pattern of a matrix, if its mean weight suffices.
 * @returns {{name: string, share: number} | null} its name, and the mean weight of its keys
 */
export function headPattern(kind, matrix) {
  const means = Object.entries(KEY_POSITIONS[kind]).map(([name, keyOf]) => {
    const weights = [];
    for (let row = 0; row < matrix.rows; row += 1) {
      const key = keyOf(row, matrix.columns);
      if (key >= 0 && key < matrix.columns) weights.push(matrix.at(row, key));
    }
    return { name, share: weights.reduce((sum, weight) => sum + weight, 0) / weights.length };
  });
  const strongest = means.reduce((one, other) => (other.share > one.share ? other : one));
  return strongest.share >= MIN_PATTERN_WEIGHT ? strongest : null;
}

/** The pattern as text, or "". */
export function headPatternText(text, kind, matrix) {
  const pattern = headPattern(kind, matrix);
  return pattern ? text(`attention.pattern.${kind}.${pattern.name}`, { share: pattern.share.toFixed(2) }) : "";
}
