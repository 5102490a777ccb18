// One sentence's attention: its tokens, its weights as they arrive, their means. Knows no page and no network.

/** In the order of the tabs. */
export const KINDS = ["cross", "encoder", "decoder"];

const WORD_BEGINS = "\u2581";
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/; // the blocks of Hebrew, Arabic and the like
const START = { piece: "<s>", start: 0, end: 0 };

/**
 * A matrix of weights: `at(query, key)`. Every row is a distribution over the keys and sums to 1.
 * The values are 32-bit floats, as the service has them, so that nothing is rounded here.
 */
export class Matrix {
  constructor(rows, columns, values = new Float32Array(rows * columns)) {
    Object.assign(this, { rows, columns, values });
  }

  static of(nested) {
    const matrix = new Matrix(nested.length, nested[0].length);
    nested.forEach((row, query) => matrix.values.set(row, query * matrix.columns));
    return matrix;
  }

  static mean(matrices) {
    const mean = new Matrix(matrices[0].rows, matrices[0].columns);
    const sums = new Float64Array(mean.values.length);
    for (const { values } of matrices) {
      for (let index = 0; index < sums.length; index += 1) sums[index] += values[index];
    }
    mean.values.set(sums.map((sum) => sum / matrices.length));
    return mean;
  }

  at(query, key) {
    return this.values[query * this.columns + key];
  }

  row(query) {
    return this.values.subarray(query * this.columns, (query + 1) * this.columns);
  }

  column(key) {
    return Float32Array.from({ length: this.rows }, (_, query) => this.at(query, key));
  }

  /** The indices of the greatest of `weights`, the greatest first. */
  static greatest(weights, count) {
    return [...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, count);
  }
}

/** The sentence of one answer of POST /attention. Weights of layers that it lacks are added when they come. */
export class Sentence {
  /**
   * @param answer the service's answer, whatever kinds, layers and heads it holds
   * @param shape {encoder_layers, decoder_layers, num_heads}: the model's architecture
   */
  constructor(answer, shape) {
    const { translation, source_tokens: source, target_tokens: target, alignment, model } = answer;
    Object.assign(this, { translation, source, target, alignment, model });
    this.heads = shape.num_heads;
    this.depth = { encoder: shape.encoder_layers, decoder: shape.decoder_layers, cross: shape.decoder_layers };
    this.layers = { encoder: [], decoder: [], cross: [] }; // [layer][head], with holes where nothing came yet
    this.means = new Map();
  }

  /** Takes in the weights of some layers, from the layer `first` on: [layer][head][query][key]. */
  add(kind, layers, first) {
    layers.forEach((heads, number) => {
      this.layers[kind][first + number] = heads.map(Matrix.of);
    });
  }

  /** The tokens that ask: the rows. */
  queries(kind) {
    return kind === "encoder" ? this.source : this.target;
  }

  /** The tokens looked at: the columns. The decoder sees what it has written so far, which begins with <s>. */
  keys(kind) {
    return kind === "decoder" ? [START, ...this.target.slice(0, -1)] : this.source;
  }

  /** How many weights a kind has, over all layers and heads. */
  size(kind) {
    return this.depth[kind] * this.heads * this.queries(kind).length * this.keys(kind).length;
  }

  has(kind, layer) {
    return layer === null ? this.missing(kind).length === 0 : this.layers[kind][layer] !== undefined;
  }

  /** The layers of a kind that have not come yet. */
  missing(kind) {
    return Array.from({ length: this.depth[kind] }, (_, layer) => layer).filter((layer) => !this.has(kind, layer));
  }

  /** The weights of a head; of a layer's mean where `head` is null; of the mean of all where `layer` is, too. */
  matrix(kind, layer, head) {
    if (!this.has(kind, layer)) return null;
    if (head !== null) return this.layers[kind][layer][head];
    const name = `${kind} ${layer}`;
    if (!this.means.has(name)) {
      this.means.set(name, Matrix.mean(layer === null ? this.layers[kind].flat() : this.layers[kind][layer]));
    }
    return this.means.get(name);
  }
}

/** Tokens as words: runs [from, to) of pieces. The end symbol is alone, and so is what opens a sentence. */
export function words(tokens) {
  const begins = ({ piece }, index) =>
    index === 0 || piece.startsWith(WORD_BEGINS) || isSymbol(piece) || isSymbol(tokens[index - 1].piece);
  const starts = tokens.flatMap((token, index) => (begins(token, index) ? [index] : []));
  return starts.map((from, number) => [from, starts[number + 1] ?? tokens.length]);
}

export function isSymbol(piece) {
  return piece === "<s>" || piece === "</s>";
}

/** What a piece is called in running text: without the mark of the space before it, unless it is nothing else. One that
 *  runs from right to left is isolated, or it would turn round the numbers and quotation marks beside it. */
export function spoken({ piece }) {
  const name = piece.replace(WORD_BEGINS, "") || piece;
  return RIGHT_TO_LEFT.test(name) ? `\u2068${name}\u2069` : name;
}

/** A piece as a picture has it: the space before it as an open box, which every font's is narrower than the mark. */
export function shown({ piece }) {
  return piece.replace(WORD_BEGINS, "\u2423");
}

/** [the mark of a space or nothing, the rest] */
export function cut({ piece }) {
  return piece.startsWith(WORD_BEGINS) ? [WORD_BEGINS, piece.slice(1)] : ["", piece];
}

/** A weight beside others: four decimals. */
export function written(weight) {
  return weight.toFixed(4);
}

/** A weight by itself: four digits that count, also where it is small. */
export function exactly(weight) {
  if (weight === 0 || weight === 1) return String(weight);
  return weight < 1e-4 ? weight.toExponential(3) : weight.toPrecision(4);
}
