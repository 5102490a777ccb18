// The attention of one sentence: its tokens, its weights as they arrive, and their means. No DOM, no network.

/** In the order of the tabs. */
export const KINDS = ["cross", "encoder", "decoder"];

const SPACE_MARK = "\u2581";
const BYTE = /^<0x[0-9A-F]{2}>$/;
const RTL_CHARACTERS = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/; // Unicode blocks of Hebrew, Arabic and others

/**
 * A matrix of weights: `at(query, key)`. Every row is a distribution over the keys and sums to 1.
 * The values are 32-bit floats, as in the service, so that nothing is rounded here.
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

  /** Indices of the `count` greatest of `weights`, greatest first. */
  static greatest(weights, count) {
    return [...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, count);
  }
}

/** The sentence of a response of POST /attention. Weights of missing layers are added as they arrive. */
export class Sentence {
  /**
   * @param answer the response, with any kinds, layers and heads
   * @param shape {encoder_layers, decoder_layers, num_heads, decoder}: the model's architecture
   */
  constructor(answer, shape) {
    const { translation, source_tokens: source, target_tokens: target, alignment, start, model } = answer;
    Object.assign(this, { translation, source, target, alignment, start, model });
    this.heads = shape.num_heads;
    const isRecurrent = shape.decoder === "ssru"; // without decoder self-attention
    this.depth = {
      encoder: shape.encoder_layers,
      decoder: isRecurrent ? 0 : shape.decoder_layers,
      cross: shape.decoder_layers,
    };
    this.layers = { encoder: [], decoder: [], cross: [] }; // [layer][head], sparse until loaded
    this.means = new Map();
  }

  /** Adds the weights of layers from `first` on: [layer][head][query][key]. */
  add(kind, layers, first) {
    layers.forEach((heads, number) => {
      this.layers[kind][first + number] = heads.map(Matrix.of);
    });
  }

  /** The query tokens: the rows. */
  queries(kind) {
    return kind === "encoder" ? this.source : this.target;
  }

  /** The key tokens: the columns. The decoder's are the start token and the tokens generated so far. */
  keys(kind) {
    const start = { piece: this.start, start: 0, end: 0 };
    return kind === "decoder" ? [start, ...this.target.slice(0, -1)] : this.source;
  }

  /** Number of weights of a kind, over all layers and heads. */
  size(kind) {
    return this.depth[kind] * this.heads * this.queries(kind).length * this.keys(kind).length;
  }

  has(kind, layer) {
    return layer === null ? this.missing(kind).length === 0 : this.layers[kind][layer] !== undefined;
  }

  /** Indices of the layers of a kind that are not loaded. */
  missing(kind) {
    return Array.from({ length: this.depth[kind] }, (_, layer) => layer).filter((layer) => !this.has(kind, layer));
  }

  /** The weights of a head; the layer's mean if `head` is null, the mean of all if `layer` is null too. */
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

/** Groups tokens into words: ranges [from, to) of pieces. Symbols are groups of their own. */
export function groupIntoWords(tokens) {
  const isWordStart = (token, index) =>
    index === 0 || token.piece.startsWith(SPACE_MARK) || isSymbol(token) || isSymbol(tokens[index - 1]);
  const starts = tokens.flatMap((token, index) => (isWordStart(token, index) ? [index] : []));
  return starts.map((from, number) => [from, starts[number + 1] ?? tokens.length]);
}

/** Whether a token is no text: <s>, </s>, or a language's. It covers no character, as only some bytes and a space at
 *  the start do besides. */
export function isSymbol({ piece, start, end }) {
  return start === end && piece !== SPACE_MARK && !BYTE.test(piece);
}

/** The name of a piece in running text: without its space mark, unless it is only that. A right-to-left piece is
 *  isolated, or it would reorder the numbers and quotation marks around it. */
export function pieceName({ piece }) {
  const name = piece.replace(SPACE_MARK, "") || piece;
  return RTL_CHARACTERS.test(name) ? `\u2068${name}\u2069` : name;
}

/** The text of a piece on a canvas: its space mark becomes an open box, which is narrower in every font. */
export function pieceOnCanvas({ piece }) {
  return piece.replace(SPACE_MARK, "\u2423");
}

/** Splits a piece into its space mark, or "", and the rest. */
export function splitPiece({ piece }) {
  return piece.startsWith(SPACE_MARK) ? [SPACE_MARK, piece.slice(1)] : ["", piece];
}

/** A weight among others, with four decimals. */
export function formatWeight(weight) {
  return weight.toFixed(4);
}

/** A single weight, with four significant digits. */
export function formatWeightExact(weight) {
  if (weight === 0 || weight === 1) return String(weight);
  return weight < 1e-4 ? weight.toExponential(3) : weight.toPrecision(4);
}
