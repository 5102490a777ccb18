// What a head does most of the time, in a few words: many do one simple thing. Knows matrices and places in them.
//
// The kinds of habit are those of Clark et al. 2019, "What Does BERT Look At?", section 3.

const USUAL = 0.4; // a mean weight from which it is called a habit

// For each kind: what a key is to the query in row `row`, of so many keys. The decoder's keys begin with <s>, so that
// the key in its own column is the token before it.
const PLACES = {
  encoder: { before: (row) => row - 1, itself: (row) => row, after: (row) => row + 1, end: (_, keys) => keys - 1 },
  decoder: { start: () => 0, before: (row) => row },
  cross: { end: (_, keys) => keys - 1 },
};

/**
 * Where the weight goes, if most of it goes to one place.
 * @returns {{place: string, share: number} | null} the place, and the mean weight there of the rows that have it
 */
export function habit(kind, matrix) {
  const means = Object.entries(PLACES[kind]).map(([place, of]) => {
    const weights = [];
    for (let row = 0; row < matrix.rows; row += 1) {
      const key = of(row, matrix.columns);
      if (key >= 0 && key < matrix.columns) weights.push(matrix.at(row, key));
    }
    return { place, share: weights.reduce((sum, weight) => sum + weight, 0) / weights.length };
  });
  const best = means.reduce((one, other) => (other.share > one.share ? other : one));
  return best.share >= USUAL ? best : null;
}

/** The same in words, or nothing. */
export function habitWords(text, kind, matrix) {
  const found = habit(kind, matrix);
  return found ? text(`attention.habit.${kind}.${found.place}`, { share: found.share.toFixed(2) }) : "";
}
