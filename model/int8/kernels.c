/* The Transformer in 8-bit integers on one processor core: a batch of sentences, decoded greedily or, where Python chooses
 * among candidates, by beam search.
 *
 * Shapes, weights and token ids only. vectors.h has the arithmetic of 16 lanes for each instruction set. Python side:
 * model/int8/library.py compiles and loads, model/int8/weights.py lays out the weights; the readable reference that these
 * kernels are tested against is model/int8/reference.py over model/transformer.py.
 *
 * The bits of a result depend on the sentence and on the weights, on nothing else: not on the batch, since each sum of
 * floats runs over one token's or one sentence's numbers in an order fixed by its length; and not on the processor,
 * since every instruction set sums in that same order (vectors.h). Sums of integers are exact in any order.
 *
 * A product quantises each row of its input to signed bytes by the row's largest magnitude:
 * out = sum * row scale * column scale + bias.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "layout.h"
#include "vectors.h"

enum {
    DEMANDS = 64,      /* tokens that a sentence must have, and as many that it must not have */
    POSITIONS = 16,    /* of a block of the cache */
    POSITION_GROUP = 4, /* whose keys lie together */
    KEPT = 8,          /* groups of which a wide sentence's logits are kept */
    CHUNK = SQUARE ? SQUARE : PANELS == 4 ? TILE : 64, /* rows of which a group's logits are kept */
    HUGE_BLOCK = 1 << 17, /* bytes of a block from which on huge pages waste little memory */
    GROUP_TOKENS = 192 /* about so many are encoded together, so that they stay in the second-level cache */
};

/* How the weights must be packed for these kernels; model/int8/backend.py reads it. */
const Layout kernel_layout = {PANEL, DEPTH, ZERO, SATURATING};

typedef struct {
    const char *weight; /* in this variant's layout; see layout.h */
    const float *scale; /* [outputs], padded to GROUP */
    const float *bias;  /* the same, or NULL */
    int32_t inputs, outputs;
    int32_t nonnegative; /* whether no input is ever negative */
    Panel panel;
} Linear;

typedef struct {
    const float *weight, *bias; /* [d_model], or NULL for none */
} Norm;

typedef struct {
    Linear query_key_value, self_output, cross_query, cross_memory, cross_output, inner, outer;
    Linear candidate_forget; /* of a recurrent layer, in place of the first two; both from the same input */
    Norm self_norm, cross_norm, feed_norm; /* self_norm: also a recurrence's */
} Layer;

typedef struct {
    const float *tokens;         /* [vocabulary, d_model], or NULL: then */
    const uint16_t *half_tokens; /* the same in half precision, or NULL: then */
    const int8_t *int8_tokens;   /* the same in int8, or NULL: then */
    const Linear *output;        /* the vocabulary's product, whose weights they are, too; int8 ones are times */
    const float *row_scales;     /* [vocabulary] */
    const float *positions;      /* [positions, d_model] */
    float scale;
    int32_t zero; /* a token that is read as zeros; -1: none */
} Embedding;

enum { PRE, POST, RESIDUAL_POST };

typedef struct {
    int32_t d_model, heads, d_ff, placement, encoder_layers, decoder_layers, bos, eos;
    int32_t is_swish;    /* the activation: swish, or ReLU */
    int32_t source_ends; /* end symbols of a source, 1 or 0, which no target token aligns to */
    int32_t is_recurrent; /* whether decoder layers have a recurrence in place of self-attention */
    int32_t alignment_layer, alignment_head; /* of the cross-attention that was trained to align; -1: the mean of all */
    int32_t alignment_size; /* of the queries and keys of a head that aligns in its place; 0 without one */
    Linear alignment_query, alignment_key;
    Embedding source, target;
    Layer *encoder, *decoder;
    Norm encoder_norm, decoder_norm;
    Linear output;
} Model;

static inline int rounded_up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

/* out = norm(x) (Ba et al. 2016), width a multiple of 16; they may be the same. */
static void normalise(const float *x, const Norm *norm, int width, float *out) {
    if (norm->weight == NULL) {
        if (out != x) memcpy(out, x, sizeof(float) * width);
        return;
    }
    F16 sum = splat(0), squares = splat(0);
    for (int i = 0; i < width; i += LANES) sum = add(sum, load(x + i));
    const F16 mean = splat(sum_of(sum) / width);
    for (int i = 0; i < width; i += LANES) {
        const F16 centred = subtract(load(x + i), mean);
        squares = fused(centred, centred, squares);
    }
    const F16 rate = splat(1.0f / sqrtf(sum_of(squares) / width + 1e-5f));
    for (int i = 0; i < width; i += LANES) {
        const F16 unit = times(subtract(load(x + i), mean), rate);
        store(out + i, fused(unit, load(norm->weight + i), load(norm->bias + i)));
    }
}

/* ---- Matrix products -------------------------------------------------------------------------------------- */

typedef struct {
    int8_t *bytes;   /* [rows, inputs]; 128 more, as unsigned bytes, where the layout wants it */
    float *scale;    /* [rows]; NaN where a row is not finite */
    int32_t *offset; /* [rows]: what ZERO adds to a row's sums */
    int flip;        /* what the bytes are XORed with: -128 to add 128 */
} Quantised;

static void quantise_row(const float *x, int width, Quantised to, int row) {
    I16 largest = splat_int(0), sum = splat_int(0);
    for (int i = 0; i < width; i += LANES) { /* as integers, so that a NaN is the largest of all */
        const F16 values = load(x + i);
        EACH_PART largest.part[p] = max_int_part(largest.part[p], (Ints)values.part[p] & 0x7fffffff);
    }
    const float top = magnitude_of(largest);
    int8_t *bytes = to.bytes + (size_t)row * width;
    if (!(top < INFINITY)) {
        memset(bytes, 0, width);
        to.scale[row] = NAN;
        to.offset[row] = 0;
        return;
    }
    const F16 inverse = splat(top == 0 ? 0 : 127.0f / top);
    for (int i = 0; i < width; i += LANES) {
        const F16 scaled = times(load(x + i), inverse);
        I16 rounded;
        EACH_PART rounded.part[p] = rounded_part(scaled.part[p]); /* half to even */
        EACH_PART sum.part[p] += rounded.part[p];
        store_bytes(bytes + i, rounded, to.flip);
    }
    to.scale[row] = top / 127.0f;
    to.offset[row] = ZERO * int_sum_of(sum);
}

static void quantise(const float *x, int rows, int width, Quantised to) {
    for (int row = 0; row < rows; row++) quantise_row(x + (size_t)row * width, width, to, row);
}

/* The integer sums of `rows` rows from `row` and the panel of columns from `column`, which `count` rows use one after the
 * other. */
#if SATURATING

ALWAYS void multiply(const int rows, const Linear *linear, Quantised in, int row, int count, int column,
                     I16 sums[TILE][PANELS]) {
    const Panel at = linear->panel;
    const int inputs = linear->inputs, blocks = inputs / BLOCK;
    const char *panel = linear->weight + (size_t)(column / LANES) * at.bytes;
    const int safe = *(const int32_t *)(panel + at.safe);
    const uint16_t *order = (const uint16_t *)(panel + at.order);
    const int8_t *shuffle = (const int8_t *)(panel + at.shuffle), *weight = (const int8_t *)(panel + at.weight);
    const int8_t *bytes = in.bytes + (size_t)row * inputs;
    int block = 0;
    UNROLLED for (int r = 0; r < rows; r++) sums[r][0] = load_ints(panel + at.start);
    if (linear->nonnegative) {
        for (; block < safe; block++, weight += BLOCK * LANES)
            UNROLLED for (int k = 0; k < BLOCK; k += 8)
                add_fours(rows, sums, weight + k * LANES, bytes + order[block] + k, inputs);
        for (; block < blocks; block++)
            for (int k = 0; k < BLOCK; k += 4, weight += 4 * LANES)
                add_pairs(rows, sums, weight, bytes + order[block] + k, inputs);
        return;
    }
    /* The next panel, if it comes from memory, comes while the rows use this one. Of many rows the first four tiles fetch a
     * quarter each, since one that fetches it all waits for it. A single row is faster without. */
    if (count > 3 * TILE) {
        const char *fetched = panel + (row < 4 * TILE ? at.bytes + (size_t)(row / TILE) * blocks * 64 : 0);
        for (; block < safe; block++, shuffle += BLOCK, fetched += 64) {
            __builtin_prefetch(fetched);
            for (int k = 0; k < BLOCK; k += 4, weight += 4 * LANES)
                add_shuffled_pairs(rows, sums, weight, bytes + order[block], inputs, shuffle + k);
        }
    }
    const size_t ahead = rows > 1 && row == 0 ? at.bytes : 0;
    for (; block < safe; block++, shuffle += BLOCK)
        for (int k = 0; k < BLOCK; k += 4, weight += 4 * LANES) {
            __builtin_prefetch(weight + ahead);
            add_shuffled_pairs(rows, sums, weight, bytes + order[block], inputs, shuffle + k);
        }
    for (; block < blocks; block++)
        for (int k = 0; k < BLOCK; k += 4, weight += 4 * LANES)
            add_any_pairs(rows, sums, weight, bytes + order[block] + k, inputs);
}

#elif defined ISA_I8MM

ALWAYS void multiply(const int rows, const Linear *linear, Quantised in, int row, int count, int column,
                     I16 sums[TILE][PANELS]) {
    const int inputs = linear->inputs;
    const int8_t *bytes = in.bytes + (size_t)row * inputs;
    const int8_t *panel = (const int8_t *)linear->weight + (size_t)column * inputs;
    int32x4_t squares[TILE / 2][LANES / 2] = {0};
    for (int k = 0; k < inputs; k += DEPTH, panel += DEPTH * PANEL)
        UNROLLED for (int r = 0; r < rows; r += 2) { /* a last row without another is paired with itself */
            const int8_t *first = bytes + (size_t)r * inputs + k;
            add_squares(squares[r / 2], panel, load_pair(first, r + 1 < rows ? first + inputs : first));
        }
    UNROLLED for (int r = 0; r < rows; r++) sums[r][0] = row_of_squares(squares[r / 2], r % 2);
}

#else

ALWAYS void multiply(const int rows, const Linear *linear, Quantised in, int row, int count, int column,
                     I16 sums[TILE][PANELS]) {
    const int inputs = linear->inputs;
    const int8_t *bytes = in.bytes + (size_t)row * inputs;
    const int8_t *panel = (const int8_t *)linear->weight + (size_t)column * inputs;
    UNROLLED for (int r = 0; r < rows; r++)
        UNROLLED for (int v = 0; v < PANELS; v++) sums[r][v] = splat_int(ZERO ? -in.offset[row + r] : 0);
    /* Of many rows the first four tiles fetch a quarter each of the next panel, which may come from memory. */
    const size_t quarter = (size_t)PANEL / 4 * inputs;
    const int8_t *fetched = panel + (count > 3 * TILE && row < 4 * TILE ? (4 + row / TILE) * quarter : 0);
    for (int k = 0; k < inputs; k += 4, panel += 4 * PANEL, fetched += PANEL) {
        __builtin_prefetch(fetched, 0, 2);
        Weights weights[PANELS];
        UNROLLED for (int v = 0; v < PANELS; v++) weights[v] = load_weights(panel + v * 4 * LANES);
        UNROLLED for (int r = 0; r < rows; r++) {
            const Inputs four = load_inputs(bytes + (size_t)r * inputs + k);
            UNROLLED for (int v = 0; v < PANELS; v++) add_products(&sums[r][v], weights[v], four);
        }
    }
}

#endif

ALWAYS F16 scaled(I16 sum, const Linear *linear, int column, float scale) {
    const F16 y = times(to_floats(sum), splat(scale));
    return fused(y, load(linear->scale + column), linear->bias ? load(linear->bias + column) : splat(0));
}

/* Rows of the next tile. Seven or eight are two tiles of about four: one or two rows take as long as three. */
ALWAYS int tile_height(int left) { return left > TILE && left <= 8 && TILE == 6 ? 4 : left < TILE ? left : TILE; }

/* Calls `square` or `tile` for all `rows`, from `row` on; a tile's height, at most TILE, is a constant each time. */
#define IN_TILES(linear, rows, square, tile)                                                                           \
    for (int row = 0, height; row < (rows); row += height)                                                             \
        if ((height = square_height(linear, (rows) - row))) square(height);                                            \
        else switch (height = tile_height((rows) - row)) {                                                             \
        case 6: if (TILE > 5) tile(6); break;                                                                          \
        case 5: if (TILE > 4) tile(5); break;                                                                          \
        case 4: tile(4); break;                                                                                        \
        case 3: tile(3); break;                                                                                        \
        case 2: tile(2); break;                                                                                        \
        case 1: tile(1); break;                                                                                        \
        }

/* Rows of the next square; 0 if it has to be a tile. */
ALWAYS int square_height(const Linear *linear, int left) {
    if (!SQUARE || left < LEAST_SQUARE || linear->inputs % TILE_INPUTS) return 0;
    return left > TILE_ROWS && left < TILE_ROWS + LEAST_SQUARE ? TILE_ROWS : left < SQUARE ? left : SQUARE;
}

/* What becomes of a product: stored, as it is or after an activation, or added to what is there. */
typedef enum { STORE, RELU, SWISH, ADD } Finish;

ALWAYS void finish_row(const Linear *linear, I16 sums[PANELS], float scale, int column, float *to, const Finish finish) {
    UNROLLED for (int v = 0; v < PANELS; v++) {
        const int at = column + v * LANES;
        if (PANELS > 1 && at >= linear->outputs) break;
        F16 y = scaled(sums[v], linear, at, scale);
        if (finish == RELU) y = larger(splat(0), y); /* in this order a NaN comes through */
        if (finish == SWISH) y = swish(y);
        if (finish == ADD) y = add(load(to + at), y);
        store(to + at, y);
    }
}

ALWAYS void product_tile(const int rows, const Linear *linear, Quantised in, int row, int count, int column, float *out,
                         const Finish finish) {
    I16 sums[TILE][PANELS];
    multiply(rows, linear, in, row, count, column, sums);
    UNROLLED for (int r = 0; r < rows; r++) {
        const int at = row + r;
        finish_row(linear, sums[r], in.scale[at], column, out + (size_t)at * linear->outputs, finish);
    }
}

/* Integer sums of a square, one row more than there can be, since there may be none; aligned for tiles. */
typedef int32_t Squares[SQUARE + 1][GROUP] __attribute__((aligned(64)));

/* The sums of `height` rows from `row` and the panel of columns from `column`, without what ZERO adds taken off. */
ALWAYS void multiply_rows(const Linear *linear, Quantised in, int row, int height, int column, int32_t (*sums)[GROUP]) {
    const size_t inputs = linear->inputs;
    multiply_square(linear->weight + column * inputs, in.bytes + row * inputs, linear->inputs, height, sums);
}

ALWAYS void product_square(const Linear *linear, Quantised in, int row, int height, int column, float *out,
                           const Finish finish) {
    Squares squares;
    multiply_rows(linear, in, row, height, column, squares);
    for (int r = 0; r < height; r++) {
        const int at = row + r;
        I16 sums[PANELS];
        UNROLLED for (int v = 0; v < PANELS; v++) sums[v] = load_sums(squares[r] + v * LANES, in.offset[at]);
        finish_row(linear, sums, in.scale[at], column, out + (size_t)at * linear->outputs, finish);
    }
}

ALWAYS void product_tiles(const Linear *linear, Quantised in, int rows, float *out, const Finish finish) {
    for (int column = 0; column < linear->outputs; column += PANEL) { /* a panel stays in the first-level cache */
#define SQUARE_ROWS(height) product_square(linear, in, row, height, column, out, finish)
#define ROWS(tile_rows) product_tile(tile_rows, linear, in, row, rows, column, out, finish)
        IN_TILES(linear, rows, SQUARE_ROWS, ROWS)
#undef SQUARE_ROWS
#undef ROWS
    }
}

/* out [rows, outputs] from in [rows, inputs]; whole vectors are stored, where outputs is no multiple of 16. */
static void product(const Linear *linear, Quantised in, int rows, float *out, Finish finish) {
    switch (finish) {
    case STORE: product_tiles(linear, in, rows, out, STORE); break;
    case RELU: product_tiles(linear, in, rows, out, RELU); break;
    case SWISH: product_tiles(linear, in, rows, out, SWISH); break;
    case ADD: product_tiles(linear, in, rows, out, ADD); break;
    }
}

/* ---- The best token --------------------------------------------------------------------------------------- */

/* The groups with the largest logits, in any order: the candidates of a beam are nearly always among them. */
typedef struct {
    float logits[KEPT][GROUP];
    float peaks[KEPT];
    int32_t columns[KEPT]; /* the first of each group */
    int32_t lowest;        /* which has the lowest peak */
} KeptGroups;

/* Of one row, over the groups seen: the best logit, where it is, the sum of e^(logit - best), lane by lane, and the
 * logit of the token asked for. */
typedef struct {
    F16 sum;
    float best, asked_logit;
    int32_t token, asked; /* asked: -1 for none */
    KeptGroups *kept;     /* NULL for a sentence that is not wide */
} Choice;

static void keep_group(KeptGroups *kept, const float *logits, float peak, int column) {
    const int at = kept->lowest;
    memcpy(kept->logits[at], logits, sizeof kept->logits[at]);
    kept->peaks[at] = peak;
    kept->columns[at] = column;
    for (int i = 0; i < KEPT; i++)
        if (kept->peaks[i] < kept->peaks[kept->lowest]) kept->lowest = i;
}

/* logits [GROUP], those past the vocabulary -INFINITY. Returns the largest. */
ALWAYS float consider(Choice *choice, const float *logits, int column) {
    F16 l[4];
    UNROLLED for (int v = 0; v < 4; v++) l[v] = load(logits + v * LANES);
    const float best = largest_of(larger(larger(l[0], l[1]), larger(l[2], l[3])));
    F16 sum = choice->sum;
    if (best > choice->best) {
        int at = 0;
        while (logits[at] != best) at++;
        choice->token = column + at;
        sum = times(sum, exponential(splat(choice->best - best)));
        choice->best = best;
    }
    KeptGroups *kept = choice->kept;
    if (kept && best > kept->peaks[kept->lowest]) keep_group(kept, logits, best, column);
    const F16 top = splat(choice->best);
    UNROLLED for (int v = 0; v < 4; v++) sum = add(sum, exponential(subtract(l[v], top)));
    choice->sum = sum;
    if (choice->asked >= column && choice->asked < column + GROUP) choice->asked_logit = logits[choice->asked - column];
    return best;
}

/* ---- Attention, a sentence or a row of the cache at its own length ---------------------------------------- */

/* sums[r] = sum over i of a[r][i] * b[i][0..15], in the order of i. */
ALWAYS void combine(const int rows, const float *const a[QUERIES], const float *b, int stride, int count,
                    F16 sums[QUERIES]) {
    UNROLLED for (int r = 0; r < rows; r++) sums[r] = splat(0);
    for (int i = 0; i < count; i++, b += stride) {
        const F16 vector = load(b);
        UNROLLED for (int r = 0; r < rows; r++) sums[r] = fused(splat(a[r][i]), vector, sums[r]);
    }
}

/* Turns `count` scores into weights that sum to 1, after scaling; what follows up to a whole vector becomes 0. */
static void softmax(float *scores, int count, float scale) {
    const F16 rate = splat(scale);
    F16 largest = splat(-INFINITY), sum = splat(0);
    for (int i = 0; i < count; i += LANES) {
        const F16 real = first_lanes(load(scores + i), count - i, -INFINITY);
        store(scores + i, real);
        largest = larger(largest, real);
    }
    const F16 top = splat(largest_of(largest));
    for (int i = 0; i < count; i += LANES) {
        const F16 power = exponential(times(subtract(load(scores + i), top), rate));
        sum = add(sum, power);
        store(scores + i, power);
    }
    const F16 share = splat(1.0f / sum_of(sum));
    for (int i = 0; i < count; i += LANES) store(scores + i, times(load(scores + i), share));
}

/* One head of a sentence's self-attention. query, key, value: its columns in rows of `stride` floats; keys: room for
 * [d_k, rounded length]; weights: room for [QUERIES, rounded length]; record: [length, length] or NULL. */
static void attend_head(const float *query, const float *key, const float *value, int stride, int length, int d_k,
                        float *keys, float *weights, float *out, int out_stride, float *record) {
    const int padded = rounded_up(length, LANES);
    for (int t = 0; t < length; t += LANES)
        for (int d = 0; d < d_k; d += LANES)
            transpose(key + (size_t)t * stride + d, stride, length - t, keys + (size_t)d * padded + t, padded);
    for (int first = 0; first < length; first += QUERIES) {
        const int rows = length - first < QUERIES ? length - first : QUERIES;
        const float *queries[QUERIES], *shares[QUERIES];
        F16 sums[QUERIES];
        for (int r = 0; r < QUERIES; r++) { /* past the end the last row is computed again, and not kept */
            queries[r] = query + (size_t)(first + (r < rows ? r : rows - 1)) * stride;
            shares[r] = weights + (size_t)(r < rows ? r : rows - 1) * padded;
        }
        for (int t = 0; t < padded; t += LANES) {
            combine(QUERIES, queries, keys + t, padded, d_k, sums);
            for (int r = 0; r < rows; r++) store(weights + (size_t)r * padded + t, sums[r]);
        }
        for (int r = 0; r < rows; r++) {
            softmax(weights + (size_t)r * padded, length, 1.0f / sqrtf(d_k));
            if (record)
                memcpy(record + (size_t)(first + r) * length, weights + (size_t)r * padded, sizeof(float) * length);
        }
        for (int d = 0; d < d_k; d += LANES) {
            combine(QUERIES, shares, value + d, stride, length, sums);
            for (int r = 0; r < rows; r++) store(out + (size_t)(first + r) * out_stride + d, sums[r]);
        }
    }
}

/* ---- The batch -------------------------------------------------------------------------------------------- */

typedef struct {
    int32_t source_length, length, limit;
    int32_t prefix_length;                    /* source tokens to which none is aligned */
    int32_t positions;                        /* remembered: one more than tokens once a step is made */
    int32_t forced_length;                    /* -1: the model chooses */
    int32_t open;                             /* after what is forced the model goes on; else the end comes */
    int32_t wide;                             /* Python chooses, among candidates; see batch_extend */
    int32_t once_count, never_count;          /* see Demands */
    int32_t once[DEMANDS], never[DEMANDS];
    int32_t *source_blocks, *target_blocks;   /* which blocks of the pool hold its keys and values */
    float *cells;                             /* [decoder_layers, d_model]: of recurrent layers, in place of target_blocks */
    int32_t *tokens, *forced, *aligned;       /* [max_target] */
    float *log_probs;                         /* [max_target] */
    float *look, *looked;                     /* [max_source]: this step's cross-attention, and the steps' before it */
    float *alignment_keys;                    /* [max_source, alignment_size] */
} Sentence;

/* What the next token may be. If there are `only`, one of these; else none of `never`, and the end only once no token
 * is owed. Where the end would be best and tokens are owed, the best of them comes. */
typedef struct {
    const int32_t *only, *owed, *never;
    int32_t only_count, owed_count, never_count;
} Demands;

/* A cache in blocks of positions, given to sentences as they grow (after Kwon et al. 2023, section 4.1): of a block,
 * a decoder layer has keys [heads, POSITIONS / 4, d_k, 4] and values [heads, POSITIONS, d_k], in half precision. So a head's
 * first positions lie together, and a block that is not full costs no more memory traffic than what it holds. */
typedef struct {
    const Model *model;
    int32_t rows, max_source, max_target, live;
    Sentence *sentences; /* [rows] */
    int32_t *running;    /* [rows]: the live ones' numbers, then the free ones' */
    uint16_t *pool;
    size_t pool_bytes;
    int32_t *free_blocks;
    int32_t *holders; /* by block: the sentences that have it */
    int32_t free_count;
    int32_t *numbers; /* what the sentences' own arrays are cut from */
    float *log_probs;
    float *x, *y, *mixed, *keys, *weights;
    float *peaks, *unseen; /* the largest logit of each group: [rows, groups]; a copy of one row's, those unseen */
    Quantised narrow, wide; /* of d_model and of d_ff columns */
    Choice *choices;  /* [rows], as is the next */
    KeptGroups *kept;
} Batch;

/* Number of floats in the cells of a sentence. */
static size_t cells_of(const Model *model) {
    return model->is_recurrent ? (size_t)model->decoder_layers * model->d_model : 0;
}

static uint16_t *key_block(const Batch *batch, int32_t block, int layer, int head) {
    const Model *model = batch->model;
    const size_t part = (size_t)model->d_model * POSITIONS;
    const size_t at = ((size_t)block * model->decoder_layers + layer) * 2 * part;
    return batch->pool + at + (size_t)head * (model->d_model / model->heads) * POSITIONS;
}

static uint16_t *value_block(const Batch *batch, int32_t block, int layer, int head) {
    return key_block(batch, block, layer, head) + (size_t)batch->model->d_model * POSITIONS;
}

/* Amount of a head's keys up to position `count` of a block. */
static size_t key_count(int count, int d_k) { return (size_t)rounded_up(count, POSITION_GROUP) * d_k; }

/* Puts one position's keys and values, each [d_model], where `blocks` say. */
static void remember(const Batch *batch, const int32_t *blocks, int position, int layer, const float *key,
                     const float *value) {
    const int d_k = batch->model->d_model / batch->model->heads, at = position % POSITIONS;
    const int32_t block = blocks[position / POSITIONS];
    for (int head = 0; head < batch->model->heads; head++, key += d_k, value += d_k) {
        uint16_t *keys = key_block(batch, block, layer, head) + key_count(at - at % POSITION_GROUP, d_k) + at % POSITION_GROUP;
        uint16_t *values = value_block(batch, block, layer, head) + at * d_k;
        for (int d = 0; d < d_k; d += LANES) {
            uint16_t halves[LANES];
            store_halves(halves, load(key + d));
            for (int i = 0; i < LANES; i++) keys[(d + i) * POSITION_GROUP] = halves[i];
            store_halves(values + d, load(value + d));
        }
    }
}

/* The same for a whole sentence: memory [length, 2 d_model], keys and values beside each other. */
static void remember_all(const Batch *batch, const int32_t *blocks, int length, int layer, const float *memory) {
    const int width = batch->model->d_model, heads = batch->model->heads, d_k = width / heads, stride = 2 * width;
    for (int t = 0; t < length; t += POSITIONS, memory += (size_t)POSITIONS * stride)
        for (int head = 0; head < heads; head++) {
            const float *key = memory + head * d_k, *value = key + width;
            uint16_t *keys = key_block(batch, blocks[t / POSITIONS], layer, head);
            uint16_t *values = value_block(batch, blocks[t / POSITIONS], layer, head);
            for (int d = 0; d < d_k; d += LANES) {
                float columns[LANES * POSITIONS]; /* [LANES of d_k, POSITIONS] */
                transpose(key + d, stride, length - t, columns, POSITIONS);
                for (int i = 0; i < LANES; i++) {
                    uint16_t halves[POSITIONS];
                    store_halves(halves, load(columns + i * POSITIONS));
                    for (int at = 0; at < POSITIONS; at += POSITION_GROUP)
                        memcpy(keys + key_count(at, d_k) + (d + i) * POSITION_GROUP, halves + at,
                               sizeof(uint16_t) * POSITION_GROUP);
                }
            }
            for (int at = 0; at < POSITIONS && t + at < length; at++)
                for (int d = 0; d < d_k; d += LANES)
                    store_halves(values + at * d_k + d, load(value + (size_t)at * stride + d));
        }
}

/* Copies the first `count` positions of a block. */
static void copy_block(const Batch *batch, int32_t from, int32_t to, int count) {
    const Model *model = batch->model;
    const int d_k = model->d_model / model->heads;
    for (int layer = 0; layer < model->decoder_layers; layer++)
        for (int head = 0; head < model->heads; head++) {
            memcpy(key_block(batch, to, layer, head), key_block(batch, from, layer, head),
                   sizeof(uint16_t) * key_count(count, d_k));
            memcpy(value_block(batch, to, layer, head), value_block(batch, from, layer, head),
                   sizeof(uint16_t) * count * d_k);
        }
}

/* scores[0 .. 4 * groups) = the query [d_k] times the keys of so many positions of a head's block. */
ALWAYS void score(const int groups, const float *query, const uint16_t *keys, int d_k, float *scores) {
    F16 sums[POSITIONS / POSITION_GROUP]; /* [4 of d_k, 4 positions] */
    UNROLLED for (int g = 0; g < groups; g++) sums[g] = splat(0);
    for (int d = 0; d < d_k; d += 4) {
        const F16 four = spread(query + d);
        UNROLLED for (int g = 0; g < groups; g++)
            sums[g] = fused(four, load_halves(keys + (size_t)POSITION_GROUP * (g * d_k + d)), sums[g]);
    }
    UNROLLED for (int g = 0; g < groups; g++) store_sums_of_four(scores + g * POSITION_GROUP, sums[g]);
}

/* out[0 .. 16 * vectors) = the values' average over `length` positions. */
ALWAYS void average(const int vectors, const Batch *batch, const int32_t *blocks, int length, int layer, int head,
                    int column, const float *weights, float *out) {
    const int d_k = batch->model->d_model / batch->model->heads;
    F16 sums[4];
    UNROLLED for (int v = 0; v < vectors; v++) sums[v] = splat(0);
    for (int first = 0; first < length; first += POSITIONS) {
        const uint16_t *values = value_block(batch, blocks[first / POSITIONS], layer, head) + column;
        const int last = length - first < POSITIONS ? length - first : POSITIONS;
        for (int t = 0; t < last; t++, values += d_k) {
            const F16 weight = splat(weights[first + t]);
            UNROLLED for (int v = 0; v < vectors; v++) sums[v] = fused(weight, load_halves(values + v * LANES), sums[v]);
        }
    }
    UNROLLED for (int v = 0; v < vectors; v++) store(out + v * LANES, sums[v]);
}

/* One query [d_model] over `length` remembered positions to out [d_model]; record: [heads, length] or NULL. The weights
 * of head `look_head`, or of all where it is -1, are added to look [length], if it is not NULL. */
static void attend_cached(const Batch *batch, const int32_t *blocks, int length, int layer, const float *query,
                          float *out, float *record, float *look, int look_head) {
    const int heads = batch->model->heads, d_k = batch->model->d_model / heads;
    float *weights = batch->weights;
    for (int head = 0; head < heads; head++, query += d_k, out += d_k) {
        for (int first = 0; first < length; first += POSITIONS) {
            const uint16_t *keys = key_block(batch, blocks[first / POSITIONS], layer, head);
            switch (rounded_up(length - first, POSITION_GROUP) / POSITION_GROUP) {
            case 1: score(1, query, keys, d_k, weights + first); break;
            case 2: score(2, query, keys, d_k, weights + first); break;
            case 3: score(3, query, keys, d_k, weights + first); break;
            default: score(4, query, keys, d_k, weights + first); break;
            }
        }
        softmax(weights, length, 1.0f / sqrtf(d_k));
        if (record) memcpy(record + (size_t)head * length, weights, sizeof(float) * length);
        if (look && (look_head < 0 || look_head == head))
            for (int t = 0; t < length; t++) look[t] += weights[t];
        int d = 0;
        for (; d + 64 <= d_k; d += 64) average(4, batch, blocks, length, layer, head, d, weights, out + d);
        for (; d + 32 <= d_k; d += 32) average(2, batch, blocks, length, layer, head, d, weights, out + d);
        for (; d < d_k; d += 16) average(1, batch, blocks, length, layer, head, d, weights, out + d);
    }
}

/* ---- Sublayers -------------------------------------------------------------------------------------------- */

/* A sublayer's input, quantised: x [rows, d_model], normalised first where the placement says so. */
static Quantised sublayer_input(Batch *batch, const float *x, int rows, const Norm *norm) {
    const int width = batch->model->d_model;
    for (int row = 0; row < rows; row++) {
        const float *from = x + (size_t)row * width;
        if (batch->model->placement == PRE) {
            normalise(from, norm, width, batch->mixed);
            from = batch->mixed;
        }
        quantise_row(from, width, batch->narrow, row);
    }
    return batch->narrow;
}

/* x += y, width a multiple of 16 */
static void add_to(float *x, const float *y, int width) {
    for (int i = 0; i < width; i += LANES) store(x + i, add(load(x + i), load(y + i)));
}

/* A sublayer's last product, and the residual connection: x [rows, d_model] in place. */
static void sublayer_output(Batch *batch, const Linear *linear, Quantised in, int rows, const Norm *norm, float *x) {
    const Model *model = batch->model;
    const int width = model->d_model;
    if (model->placement != RESIDUAL_POST) product(linear, in, rows, x, ADD);
    if (model->placement == PRE) return;
    if (model->placement == RESIDUAL_POST) product(linear, in, rows, batch->y, STORE);
    for (int row = 0; row < rows; row++, x += width) {
        if (model->placement == POST) {
            normalise(x, norm, width, x);
            continue;
        }
        float *y = batch->y + (size_t)row * width;
        normalise(y, norm, width, y);
        add_to(x, y, width);
    }
}

static void feed_forward(Batch *batch, const Layer *layer, int rows, float *x) {
    const int inner = batch->model->d_ff;
    product(&layer->inner, sublayer_input(batch, x, rows, &layer->feed_norm), rows, batch->y,
            batch->model->is_swish ? SWISH : RELU);
    quantise(batch->y, rows, inner, batch->wide);
    sublayer_output(batch, &layer->outer, batch->wide, rows, &layer->feed_norm, x);
}

static void embed(const Embedding *embedding, int32_t token, int position, int width, float *x) {
    const size_t start = (size_t)token * width;
    const float *row = x, *at = embedding->positions + (size_t)position * width;
    if (embedding->tokens) {
        row = embedding->tokens + start;
    } else if (embedding->half_tokens) {
        for (int i = 0; i < width; i++) x[i] = from_half(embedding->half_tokens[start + i]);
    } else {
        int8_t unpacked[width];
        const int8_t *bytes = unpacked;
        if (embedding->int8_tokens) bytes = embedding->int8_tokens + start;
        else unpack_row(&kernel_layout, embedding->output->weight, width, 0, token, unpacked);
        for (int i = 0; i < width; i++) x[i] = (float)bytes[i] * embedding->row_scales[token];
    }
    if (token == embedding->zero) {
        memset(x, 0, sizeof(float) * width);
        row = x;
    }
    const F16 scale = splat(embedding->scale);
    for (int i = 0; i < width; i += LANES) store(x + i, add(times(load(row + i), scale), load(at + i)));
}

/* ---- The encoder ------------------------------------------------------------------------------------------ */

/* Self-attention of `count` sentences that lie one after the other in batch->y, into batch->mixed. */
static void attend_sentences(Batch *batch, int number, int count, const int32_t *lengths, float *const *records) {
    const Model *model = batch->model;
    const int width = model->d_model, d_k = width / model->heads, stride = 3 * width;
    const float *projected = batch->y;
    float *mixed = batch->mixed;
    for (int s = 0; s < count; s++) {
        const int length = lengths[s];
        for (int head = 0; head < model->heads; head++) {
            const float *query = projected + head * d_k;
            float *record = records && records[s] ? records[s] : NULL;
            if (record) record += ((size_t)number * model->heads + head) * length * length;
            attend_head(query, query + width, query + 2 * width, stride, length, d_k, batch->keys, batch->weights,
                        mixed + head * d_k, width, record);
        }
        projected += (size_t)length * stride;
        mixed += (size_t)length * width;
    }
}

static void encode_group(Batch *batch, int count, const int32_t *tokens, const int32_t *lengths,
                         const int32_t *numbers, float *const *records) {
    const Model *model = batch->model;
    const int width = model->d_model;
    int rows = 0;
    for (int s = 0; s < count; s++)
        for (int position = 0; position < lengths[s]; position++, rows++)
            embed(&model->source, tokens[rows], position, width, batch->x + (size_t)rows * width);
    for (int number = 0; number < model->encoder_layers; number++) {
        const Layer *layer = model->encoder + number;
        product(&layer->query_key_value, sublayer_input(batch, batch->x, rows, &layer->self_norm), rows, batch->y,
                STORE);
        attend_sentences(batch, number, count, lengths, records);
        quantise(batch->mixed, rows, width, batch->narrow);
        sublayer_output(batch, &layer->self_output, batch->narrow, rows, &layer->self_norm, batch->x);
        feed_forward(batch, layer, rows, batch->x);
    }
    for (int row = 0; row < rows; row++) {
        float *x = batch->x + (size_t)row * width;
        normalise(x, &model->encoder_norm, width, x);
    }
    quantise(batch->x, rows, width, batch->narrow);
    for (int number = 0; number < model->decoder_layers; number++) {
        product(&model->decoder[number].cross_memory, batch->narrow, rows, batch->y, STORE);
        const float *memory = batch->y;
        for (int s = 0; s < count; memory += (size_t)lengths[s++] * 2 * width)
            remember_all(batch, batch->sentences[numbers[s]].source_blocks, lengths[s], number, memory);
    }
    if (model->alignment_size == 0) return;
    product(&model->alignment_key, batch->narrow, rows, batch->y, STORE);
    const float *keys = batch->y;
    for (int s = 0; s < count; s++) {
        const size_t floats = (size_t)lengths[s] * model->alignment_size;
        memcpy(batch->sentences[numbers[s]].alignment_keys, keys, sizeof(float) * floats);
        keys += floats;
    }
}

/* ---- A step of the decoder -------------------------------------------------------------------------------- */

static float *part_of(float *const *records, int32_t number, size_t size) {
    return records && records[number] ? records[number] + size : NULL;
}

static void attend_target(Batch *batch, int number, float *const *records) {
    const Model *model = batch->model;
    const Layer *layer = model->decoder + number;
    const int width = model->d_model, rows = batch->live;
    product(&layer->query_key_value, sublayer_input(batch, batch->x, rows, &layer->self_norm), rows, batch->y, STORE);
    for (int row = 0; row < rows; row++) {
        const Sentence *sentence = batch->sentences + batch->running[row];
        const float *query = batch->y + (size_t)row * 3 * width;
        const int length = sentence->length + 1;
        remember(batch, sentence->target_blocks, sentence->length, number, query + width, query + 2 * width);
        attend_cached(batch, sentence->target_blocks, length, number, query, batch->mixed + (size_t)row * width,
                      part_of(records, batch->running[row], (size_t)number * model->heads * length), NULL, -1);
    }
    quantise(batch->mixed, rows, width, batch->narrow);
    sublayer_output(batch, &layer->self_output, batch->narrow, rows, &layer->self_norm, batch->x);
}

/* The recurrence of Kim et al. 2019: f = sigmoid(W_f x + b_f), c = f c + (1 - f) W x, and x's residual gets max(0, c).
 * projected [2 width]: W x, W_f x + b_f. */
static void recur(const Batch *batch, const Norm *norm, const float *projected, float *cells, float *x) {
    const int width = batch->model->d_model, placement = batch->model->placement;
    float *out = batch->mixed;
    for (int i = 0; i < width; i += LANES) {
        const F16 forget = sigmoid(load(projected + width + i));
        const F16 update = times(subtract(splat(1), forget), load(projected + i));
        const F16 cell = fused(forget, load(cells + i), update);
        store(cells + i, cell);
        store(out + i, larger(splat(0), cell)); /* in this order a NaN comes through */
    }
    if (placement == RESIDUAL_POST) normalise(out, norm, width, out);
    add_to(x, out, width);
    if (placement == POST) normalise(x, norm, width, x);
}

static void recur_target(Batch *batch, int number) {
    const Model *model = batch->model;
    const Layer *layer = model->decoder + number;
    const int width = model->d_model, rows = batch->live;
    product(&layer->candidate_forget, sublayer_input(batch, batch->x, rows, &layer->self_norm), rows, batch->y, STORE);
    for (int row = 0; row < rows; row++)
        recur(batch, &layer->self_norm, batch->y + (size_t)row * 2 * width,
              batch->sentences[batch->running[row]].cells + (size_t)number * width, batch->x + (size_t)row * width);
}

/* Aligns the token that each row reads to the source token that the alignment head scores highest, the end symbol among
 * them. in: what the first layer's cross-attention reads. */
static void align(Batch *batch, Quantised in) {
    const Model *model = batch->model;
    const int size = model->alignment_size;
    product(&model->alignment_query, in, batch->live, batch->y, STORE);
    for (int row = 0; row < batch->live; row++) {
        const Sentence *sentence = batch->sentences + batch->running[row];
        const float *query = batch->y + (size_t)row * size;
        int best = sentence->prefix_length;
        float highest = -INFINITY;
        for (int t = best; t < sentence->source_length; t++) {
            const float *key = sentence->alignment_keys + (size_t)t * size;
            F16 sum = splat(0);
            for (int i = 0; i < size; i += LANES) sum = fused(load(query + i), load(key + i), sum);
            const float score = sum_of(sum);
            if (score > highest) best = t, highest = score;
        }
        if (sentence->length > 0) sentence->aligned[sentence->length - 1] = best;
    }
}

static void decode_layer(Batch *batch, int number, float *const *self_records, float *const *cross_records) {
    const Model *model = batch->model;
    const Layer *layer = model->decoder + number;
    const int width = model->d_model, rows = batch->live;
    const int is_looked_at = model->alignment_layer < 0 || model->alignment_layer == number;
    if (model->is_recurrent) recur_target(batch, number);
    else attend_target(batch, number, self_records);
    const Quantised in = sublayer_input(batch, batch->x, rows, &layer->cross_norm);
    if (model->alignment_size && number == 0) align(batch, in);
    product(&layer->cross_query, in, rows, batch->y, STORE);
    for (int row = 0; row < rows; row++) {
        const Sentence *sentence = batch->sentences + batch->running[row];
        const int length = sentence->source_length;
        attend_cached(batch, sentence->source_blocks, length, number, batch->y + (size_t)row * width,
                      batch->mixed + (size_t)row * width,
                      part_of(cross_records, batch->running[row], (size_t)number * model->heads * length),
                      is_looked_at ? sentence->look : NULL, model->alignment_head);
    }
    quantise(batch->mixed, rows, width, batch->narrow);
    sublayer_output(batch, &layer->cross_output, batch->narrow, rows, &layer->cross_norm, batch->x);
    feed_forward(batch, layer, rows, batch->x);
}

/* Logits of `rows` rows from `row` and the panel of columns from `column`, into rows of GROUP floats. */
ALWAYS void logits_tile(const int rows, const Linear *linear, Quantised in, int row, int count, int column,
                        float *logits) {
    I16 sums[TILE][PANELS];
    multiply(rows, linear, in, row, count, column, sums);
    UNROLLED for (int r = 0; r < rows; r++)
        UNROLLED for (int v = 0; v < PANELS; v++)
            store(logits + r * GROUP + v * LANES, scaled(sums[r][v], linear, column + v * LANES, in.scale[row + r]));
}

ALWAYS void logits_square(const Linear *linear, Quantised in, int row, int height, int column, float *logits) {
    Squares squares;
    multiply_rows(linear, in, row, height, column, squares);
    for (int r = 0; r < height; r++)
        UNROLLED for (int v = 0; v < PANELS; v++) {
            const I16 sums = load_sums(squares[r] + v * LANES, in.offset[row + r]);
            store(logits + r * GROUP + v * LANES, scaled(sums, linear, column + v * LANES, in.scale[row + r]));
        }
}

/* Number of groups of logits, rounded up to a vector. */
static int groups_of(const Linear *linear) { return rounded_up(rounded_up(linear->outputs, GROUP) / GROUP, LANES); }

/* The vocabulary's product: logits are looked at group by group and never written to memory, except the largest of each
 * group: peaks [rows, groups_of]. A panel of weights stays in the first-level cache while CHUNK rows use it. */
static void choose(const Linear *linear, Quantised in, int rows, Choice *choices, float *peaks) {
    const int groups = groups_of(linear);
    float logits[CHUNK * GROUP];
    for (int column = 0; column < linear->outputs; column += GROUP)
        for (int first = 0; first < rows; first += CHUNK) {
            const int count = rows - first < CHUNK ? rows - first : CHUNK;
            for (int panel = 0; panel < GROUP; panel += PANEL) {
#define SQUARE_ROWS(height) logits_square(linear, in, first + row, height, column, logits + row * GROUP)
#define ROWS(tile_rows)                                                                                                \
    logits_tile(tile_rows, linear, in, first + row, rows, column + panel, logits + row * GROUP + panel)
                IN_TILES(linear, count, SQUARE_ROWS, ROWS)
#undef SQUARE_ROWS
#undef ROWS
            }
            for (int r = 0; r < count; r++)
                peaks[(size_t)(first + r) * groups + column / GROUP] =
                    consider(choices + first + r, logits + r * GROUP, column);
        }
}

static int32_t take_block(Batch *batch) {
    const int32_t block = batch->free_blocks[--batch->free_count];
    batch->holders[block] = 1;
    return block;
}

/* Positions of the target that are in the cache; a recurrence keeps none. */
static int cached_positions(const Batch *batch, const Sentence *sentence) {
    return batch->model->is_recurrent ? 0 : sentence->positions;
}

static void give_blocks_back(Batch *batch, const int32_t *blocks, int positions) {
    for (int t = 0; t < positions; t += POSITIONS)
        if (--batch->holders[blocks[t / POSITIONS]] == 0)
            batch->free_blocks[batch->free_count++] = blocks[t / POSITIONS];
}

static int is_among(int32_t token, const int32_t *tokens, int count) {
    for (int i = 0; i < count; i++)
        if (tokens[i] == token) return 1;
    return 0;
}

/* The best tokens so far, best first. */
typedef struct {
    int32_t *tokens;
    float *values;
    int count, found; /* found: at most `count` */
} Best;

/* Of two equal values the one that came first is better, or, if `by_token`, the one of the lower token. */
static void enter(Best *best, int32_t token, float value, int by_token) {
#define IS_BETTER(at) (value > best->values[at] || (by_token && value == best->values[at] && token < best->tokens[at]))
    if (value == -INFINITY || (best->found == best->count && !IS_BETTER(best->count - 1))) return;
    int at = best->found < best->count ? best->found++ : best->count - 1;
    for (; at > 0 && IS_BETTER(at - 1); at--) {
        best->values[at] = best->values[at - 1];
        best->tokens[at] = best->tokens[at - 1];
    }
#undef IS_BETTER
    best->values[at] = value;
    best->tokens[at] = token;
}

/* One row's logits of a group: kept, or computed again, to the same bits. room: for GROUP floats. */
static const float *group_logits(const Batch *batch, int row, int column, float *room) {
    const KeptGroups *kept = batch->choices[row].kept;
    for (int i = 0; kept && i < KEPT; i++)
        if (kept->columns[i] == column && kept->peaks[i] > -INFINITY) return kept->logits[i];
    for (int panel = 0; panel < GROUP; panel += PANEL)
        logits_tile(1, &batch->model->output, batch->narrow, row, 1, column + panel, room + panel);
    return room;
}

static float logit_of(const Batch *batch, int row, int32_t token) {
    float room[GROUP];
    return group_logits(batch, row, token / GROUP * GROUP, room)[token % GROUP];
}

/* Puts the `count` best tokens that are not among `never`, nor `other`, into tokens, best first, and their logits;
 * returns how many there are. Looks at groups in the order of their peaks, as long as they can have one of the best. */
static int best_but(Batch *batch, int row, const int32_t *never, int never_count, int32_t other, int count,
                    int32_t *tokens, float *values) {
    const int groups = groups_of(&batch->model->output);
    float *peaks = batch->unseen;
    Best best = {tokens, values, count, 0};
    memcpy(peaks, batch->peaks + (size_t)row * groups, sizeof(float) * groups);
    for (;;) {
        F16 highest = splat(-INFINITY);
        for (int i = 0; i < groups; i += LANES) highest = larger(highest, load(peaks + i));
        const float peak = largest_of(highest);
        if (peak == -INFINITY || (best.found == count && peak < values[count - 1])) return best.found;
        int group = 0;
        while (peaks[group] != peak) group++;
        peaks[group] = -INFINITY;
        float room[GROUP];
        const float *logits = group_logits(batch, row, group * GROUP, room);
        for (int i = 0; i < GROUP; i++) {
            const int32_t token = group * GROUP + i;
            if (best.found == count && logits[i] < values[count - 1]) continue;
            if (token != other && !is_among(token, never, never_count)) enter(&best, token, logits[i], 1);
        }
    }
}

/* Puts the `count` best of the tokens that `demands` allow into tokens, best first, and their logits; returns how many
 * there are. */
static int allowed_best(Batch *batch, int row, const Demands *demands, int count, int32_t *tokens, float *values) {
    const int32_t eos = batch->model->eos, *only = demands->only;
    int only_count = demands->only_count;
    if (!only_count) {
        const int is_owed = demands->owed_count > 0;
        const int found = best_but(batch, row, demands->never, demands->never_count, is_owed ? eos : -1, count, tokens, values);
        if (!is_owed) return found;
        const int may_end = !is_among(eos, demands->never, demands->never_count);
        const float end = may_end ? logit_of(batch, row, eos) : -INFINITY;
        if (found && end < values[0]) return found;
        only = demands->owed;
        only_count = demands->owed_count;
    }
    Best best = {tokens, values, count, 0};
    for (int i = 0; i < only_count; i++) enter(&best, only[i], logit_of(batch, row, only[i]), 0);
    return best.found;
}

/* The best token that the sentence may have next, instead of the row's best, and its logit. */
static void obey(Batch *batch, const Sentence *sentence, int row, int32_t *token, float *logit) {
    int32_t owed[DEMANDS], never[2 * DEMANDS];
    Demands demands = {.owed = owed, .never = never};
    memcpy(never, sentence->never, sizeof(int32_t) * sentence->never_count);
    demands.never_count = sentence->never_count;
    for (int i = 0; i < sentence->once_count; i++)
        if (is_among(sentence->once[i], sentence->tokens, sentence->length))
            never[demands.never_count++] = sentence->once[i];
        else
            owed[demands.owed_count++] = sentence->once[i];
    if (demands.owed_count && sentence->limit - sentence->length <= demands.owed_count) {
        demands.only = owed;
        demands.only_count = demands.owed_count;
    } else if (!(demands.owed_count && *token == batch->model->eos) &&
               !is_among(*token, never, demands.never_count)) {
        return;
    }
    allowed_best(batch, row, &demands, 1, token, logit);
}

static int best_aligned(const Sentence *sentence, int source_ends) {
    int best = sentence->prefix_length;
    for (int t = best + 1; t < sentence->source_length - source_ends; t++)
        if (sentence->look[t] > sentence->look[best]) best = t;
    return best;
}

/* Notes the choice; whether the sentence has ended. One whose numbers broke down ends there, with NaN as its last. */
static int extend(Batch *batch, Sentence *sentence, int row) {
    const Choice *choice = batch->choices + row;
    const float normaliser = logarithm(sum_of(choice->sum));
    float logit = choice->asked >= 0 ? choice->asked_logit : choice->best;
    int32_t token = choice->asked >= 0 ? choice->asked : choice->token;
    if (sentence->once_count + sentence->never_count && choice->asked < 0 && !isnan(normaliser))
        obey(batch, sentence, row, &token, &logit);
    const float log_prob = logit - choice->best - normaliser;
    sentence->tokens[sentence->length] = token;
    sentence->log_probs[sentence->length] = log_prob;
    sentence->length++;
    return token == batch->model->eos || isnan(log_prob) ||
           sentence->length >= sentence->limit + (sentence->forced_length >= 0 && !sentence->open);
}

/* ---- The weights ------------------------------------------------------------------------------------------ */

/* Reads packed weights from the front, array by array, each from a multiple of 64 bytes on. */
typedef struct {
    const char *at;
} Reader;

static const void *next_array(Reader *reader, size_t bytes) {
    const void *array = reader->at;
    reader->at += (bytes + 63) / 64 * 64;
    return array;
}

static const float *next_floats(Reader *reader, size_t count) { return next_array(reader, sizeof(float) * count); }

static void next_tokens(Reader *reader, Embedding *embedding, size_t vocabulary, size_t width, int number_bytes) {
    const void *tokens = next_array(reader, number_bytes * vocabulary * width);
    if (number_bytes == 4) embedding->tokens = tokens;
    if (number_bytes == 2) embedding->half_tokens = tokens;
    if (number_bytes == 1) {
        embedding->int8_tokens = tokens;
        embedding->row_scales = next_floats(reader, vocabulary);
    }
}

static Linear next_linear(Reader *reader, int inputs, int outputs, int has_bias, int nonnegative) {
    const size_t padded = rounded_up(outputs, GROUP);
    Linear linear = {.inputs = inputs, .outputs = outputs, .nonnegative = nonnegative};
    linear.panel = panel_of(&kernel_layout, inputs, nonnegative);
    linear.weight = next_array(reader, packed_bytes(&kernel_layout, inputs, outputs, nonnegative));
    linear.scale = next_floats(reader, padded);
    linear.bias = has_bias ? next_floats(reader, padded) : NULL;
    return linear;
}

static Norm next_norm(Reader *reader, int width) {
    const float *weight = next_floats(reader, width);
    return (Norm){weight, next_floats(reader, width)};
}

static Layer next_layer(Reader *reader, const Model *model, int has_bias, int has_cross_attention) {
    const int width = model->d_model;
    Layer layer = {0};
    if (model->is_recurrent && has_cross_attention) {
        layer.candidate_forget = next_linear(reader, width, 2 * width, 1, 0);
    } else {
        layer.query_key_value = next_linear(reader, width, 3 * width, has_bias, 0);
        layer.self_output = next_linear(reader, width, width, has_bias, 0);
    }
    layer.self_norm = next_norm(reader, width);
    if (has_cross_attention) {
        layer.cross_query = next_linear(reader, width, width, has_bias, 0);
        layer.cross_memory = next_linear(reader, width, 2 * width, has_bias, 0);
        layer.cross_output = next_linear(reader, width, width, has_bias, 0);
        layer.cross_norm = next_norm(reader, width);
    }
    layer.inner = next_linear(reader, width, model->d_ff, 1, 0);
    layer.outer = next_linear(reader, model->d_ff, width, 1, !model->is_swish);
    layer.feed_norm = next_norm(reader, width);
    return layer;
}

void model_close(Model *model) {
    if (model == NULL) return;
    free(model->encoder);
    free(model->decoder);
    free(model);
}

/* A model whose weights stay where `packed` has them; see model/int8/weights.py. NULL if there is no memory. */
Model *model_open(const void *packed) {
    Reader reader = {packed};
    struct {
        int32_t d_model, heads, d_ff, placement, encoder_layers, decoder_layers, bos, eos;
        int32_t source_vocabulary, target_vocabulary, positions;
        int32_t shares_embeddings, learns_positions, has_attention_bias, has_final_norm, token_number_bytes, is_swish;
        int32_t source_ends, is_recurrent, alignment_layer, alignment_head, alignment_size, is_tied, zero_token;
    } head;
    memcpy(&head, next_array(&reader, sizeof head), sizeof head);
    Model *model = calloc(1, sizeof(Model));
    if (model == NULL) return NULL;
    memcpy(model, &head, 8 * sizeof(int32_t));
    model->is_swish = head.is_swish;
    model->source_ends = head.source_ends;
    model->is_recurrent = head.is_recurrent;
    model->alignment_layer = head.alignment_layer;
    model->alignment_head = head.alignment_head;
    model->alignment_size = head.alignment_size;
    model->encoder = calloc(head.encoder_layers, sizeof(Layer));
    model->decoder = calloc(head.decoder_layers, sizeof(Layer));
    if (!model->encoder || !model->decoder) {
        model_close(model);
        return NULL;
    }
    const size_t width = head.d_model;
    model->output = next_linear(&reader, width, head.target_vocabulary, 1, 0);
    if (head.is_tied) model->target = (Embedding){.output = &model->output, .row_scales = model->output.scale};
    else next_tokens(&reader, &model->target, head.target_vocabulary, width, head.token_number_bytes);
    if (head.shares_embeddings) model->source = model->target;
    else next_tokens(&reader, &model->source, head.source_vocabulary, width, head.token_number_bytes);
    model->source.zero = -1;
    model->target.zero = head.zero_token;
    model->source.positions = model->target.positions = next_floats(&reader, head.positions * width);
    if (head.learns_positions) model->target.positions = next_floats(&reader, head.positions * width);
    model->source.scale = model->target.scale = (float)sqrt((double)width);
    for (int number = 0; number < head.encoder_layers; number++)
        model->encoder[number] = next_layer(&reader, model, head.has_attention_bias, 0);
    for (int number = 0; number < head.decoder_layers; number++)
        model->decoder[number] = next_layer(&reader, model, head.has_attention_bias, 1);
    if (head.has_final_norm) {
        model->encoder_norm = next_norm(&reader, width);
        model->decoder_norm = next_norm(&reader, width);
    }
    if (model->alignment_size) {
        model->alignment_query = next_linear(&reader, width, model->alignment_size, 1, 0);
        model->alignment_key = next_linear(&reader, width, model->alignment_size, 0, 0);
    }
    return model;
}

/* ---- What Python calls ------------------------------------------------------------------------------------ */

/* Puts the rows of a beam beside each other, so that what they share in the cache comes from memory once. */
static void sort_rows(Batch *batch) {
    int32_t *running = batch->running;
    for (int row = 1; row < batch->live; row++) {
        const int32_t number = running[row], block = batch->sentences[number].source_blocks[0];
        int at = row;
        for (; at > 0 && batch->sentences[running[at - 1]].source_blocks[0] > block; at--) running[at] = running[at - 1];
        running[at] = number;
    }
}

/* Decodes one token of each sentence. Puts the numbers of those that have ended into `finished`; returns how many. */
static int step(Batch *batch, float *const *self_records, float *const *cross_records, int32_t *finished) {
    const Model *model = batch->model;
    const int width = model->d_model, rows = batch->live;
    sort_rows(batch);
    start_products();
    for (int row = 0; row < rows; row++) {
        Sentence *sentence = batch->sentences + batch->running[row];
        const int at = sentence->length;
        for (int t = 0; t < sentence->source_length; t++) {
            sentence->looked[t] += sentence->look[t];
            sentence->look[t] = 0;
        }
        if (!model->is_recurrent && at % POSITIONS == 0) sentence->target_blocks[at / POSITIONS] = take_block(batch);
        sentence->positions = at + 1;
        embed(&model->target, at ? sentence->tokens[at - 1] : model->bos, at, width, batch->x + (size_t)row * width);
        int32_t asked = -1;
        if (at < sentence->forced_length) asked = sentence->forced[at];
        else if (sentence->forced_length >= 0 && !sentence->open) asked = model->eos;
        KeptGroups *kept = sentence->wide ? batch->kept + row : NULL;
        if (kept) kept->lowest = 0;
        for (int i = 0; kept && i < KEPT; i++) kept->peaks[i] = -INFINITY;
        batch->choices[row] = (Choice){splat(0), -1e30f, -1e30f, 0, asked, kept};
    }
    for (int number = 0; number < model->decoder_layers; number++)
        decode_layer(batch, number, self_records, cross_records);
    for (int row = 0; row < rows; row++) {
        normalise(batch->x + (size_t)row * width, &model->decoder_norm, width, batch->mixed);
        quantise_row(batch->mixed, width, batch->narrow, row);
    }
    choose(&model->output, batch->narrow, rows, batch->choices, batch->peaks);
    end_products();
    int count = 0;
    for (int row = 0; row < rows; row++) {
        Sentence *sentence = batch->sentences + batch->running[row];
        sentence->aligned[sentence->length] = best_aligned(sentence, model->source_ends);
        if (!sentence->wide && extend(batch, sentence, row)) finished[count++] = batch->running[row];
    }
    return count;
}

static int row_of(const Batch *batch, int32_t number) {
    int row = 0;
    while (batch->running[row] != number) row++;
    return row;
}

/* Frees the sentence's place and its blocks, unless it has left by itself: see batch_steps. */
void batch_drop(Batch *batch, int32_t number) {
    const int row = row_of(batch, number);
    if (row >= batch->live) return;
    Sentence *sentence = batch->sentences + number;
    give_blocks_back(batch, sentence->source_blocks, sentence->source_length);
    give_blocks_back(batch, sentence->target_blocks, cached_positions(batch, sentence));
    batch->running[row] = batch->running[--batch->live];
    batch->running[batch->live] = number;
}

/* Decodes up to `most` tokens of each sentence: fewer once `enough` sentences have ended, if that is not 0. Puts the numbers
 * of those that have ended into `finished`, and returns how many; they have left, except those of the last step, and can be
 * read until another sentence joins. rows [most]: the sentences of each step; 0 for steps that were not made.
 * More than one step only without records and wide sentences, for which there is something to do after each. */
int batch_steps(Batch *batch, int most, int enough, float *const *self_records, float *const *cross_records,
                int32_t *finished, int32_t *rows) {
    int count = 0, left = 0;
    memset(rows, 0, sizeof(int32_t) * most);
    for (int number = 0; number < most; number++) {
        for (; left < count; left++) batch_drop(batch, finished[left]);
        if (batch->live == 0) break;
        rows[number] = batch->live;
        count += step(batch, self_records, cross_records, finished + count);
        if (enough && count >= enough) break;
    }
    return count;
}

/* The `count` best next tokens of a wide sentence and their log probabilities, best first; returns how many there are.
 * Only after a step and before a sentence is admitted, forked or dropped. only, owed, never: see Demands. */
int batch_candidates(Batch *batch, int32_t number, const int32_t *only, int only_count, const int32_t *owed,
                     int owed_count, const int32_t *never, int never_count, int count, int32_t *tokens,
                     float *log_probs) {
    const int row = row_of(batch, number);
    const Choice *choice = batch->choices + row;
    const float normaliser = logarithm(sum_of(choice->sum));
    const Demands demands = {only, owed, never, only_count, owed_count, never_count};
    if (isnan(normaliser)) {
        tokens[0] = choice->token;
        log_probs[0] = normaliser;
        return 1;
    }
    const int found = allowed_best(batch, row, &demands, count, tokens, log_probs);
    for (int i = 0; i < found; i++) log_probs[i] = log_probs[i] - choice->best - normaliser;
    return found;
}

/* Gives a wide sentence its next token. */
void batch_extend(Batch *batch, int32_t number, int32_t token) {
    Sentence *sentence = batch->sentences + number;
    sentence->tokens[sentence->length++] = token;
}

/* A second sentence that has come as far as this one, with which it shares all full blocks; its number. */
int32_t batch_fork(Batch *batch, int32_t number) {
    const Sentence *from = batch->sentences + number;
    const int32_t other = batch->running[batch->live++];
    Sentence *to = batch->sentences + other;
    to->source_length = from->source_length;
    to->prefix_length = from->prefix_length;
    to->length = from->length;
    to->positions = from->positions;
    to->limit = from->limit;
    to->forced_length = from->forced_length;
    to->open = from->open;
    to->wide = from->wide;
    to->once_count = to->never_count = 0;
    for (int t = 0; t < from->source_length; t += POSITIONS)
        batch->holders[to->source_blocks[t / POSITIONS] = from->source_blocks[t / POSITIONS]]++;
    const int positions = cached_positions(batch, from);
    for (int t = 0; t < positions; t += POSITIONS) {
        const int32_t block = from->target_blocks[t / POSITIONS];
        if (t + POSITIONS <= positions) {
            batch->holders[to->target_blocks[t / POSITIONS] = block]++;
        } else {
            copy_block(batch, block, to->target_blocks[t / POSITIONS] = take_block(batch), positions - t);
        }
    }
    memcpy(to->cells, from->cells, sizeof(float) * cells_of(batch->model));
    memcpy(to->tokens, from->tokens, sizeof(int32_t) * from->length);
    memcpy(to->aligned, from->aligned, sizeof(int32_t) * from->positions);
    memcpy(to->look, from->look, sizeof(float) * from->source_length);
    memcpy(to->looked, from->looked, sizeof(float) * from->source_length);
    memcpy(to->alignment_keys, from->alignment_keys,
           sizeof(float) * from->source_length * batch->model->alignment_size);
    return other;
}

/* Encodes `count` sentences, tokens one after the other, and gives each a number. forced_lengths: -1 for none.
 * demands: each sentence's `once` and then its `never`. wide: see Sentence. */
void batch_admit(Batch *batch, int count, const int32_t *tokens, const int32_t *lengths, const int32_t *prefix_lengths,
                 const int32_t *limits,
                 const int32_t *forced, const int32_t *forced_lengths, const int32_t *open, const int32_t *demands,
                 const int32_t *once_counts, const int32_t *never_counts, const int32_t *wide, float *const *records,
                 int32_t *numbers) {
    const int most = batch->max_source > GROUP_TOKENS ? batch->max_source : GROUP_TOKENS;
    for (int s = 0; s < count; s++) {
        const int32_t number = numbers[s] = batch->running[batch->live++];
        Sentence *sentence = batch->sentences + number;
        sentence->source_length = lengths[s];
        sentence->prefix_length = prefix_lengths[s];
        sentence->length = sentence->positions = 0;
        sentence->limit = limits[s];
        sentence->forced_length = forced_lengths[s];
        sentence->open = open[s];
        sentence->wide = wide[s];
        for (int t = 0; t < forced_lengths[s]; t++) sentence->forced[t] = *forced++;
        sentence->once_count = once_counts[s];
        sentence->never_count = never_counts[s];
        for (int t = 0; t < once_counts[s]; t++) sentence->once[t] = *demands++;
        for (int t = 0; t < never_counts[s]; t++) sentence->never[t] = *demands++;
        memset(sentence->cells, 0, sizeof(float) * cells_of(batch->model));
        memset(sentence->look, 0, sizeof(float) * lengths[s]);
        memset(sentence->looked, 0, sizeof(float) * lengths[s]);
        for (int t = 0; t < lengths[s]; t += POSITIONS) sentence->source_blocks[t / POSITIONS] = take_block(batch);
    }
    start_products();
    for (int first = 0, next = 0; first < count; first = next) {
        int rows = 0;
        for (; next < count && (next == first || rows + lengths[next] <= most); next++) rows += lengths[next];
        encode_group(batch, next - first, tokens, lengths + first, numbers + first, records ? records + first : NULL);
        tokens += rows;
    }
    end_products();
}

/* Copies out what the sentence has so far; returns how many tokens. looked [source_length]: the last step's attention is
 * not in it. aligned has one for each position. */
int batch_read(const Batch *batch, int32_t number, int32_t *tokens, float *log_probs, int32_t *aligned,
               float *looked) {
    const Sentence *sentence = batch->sentences + number;
    const Model *model = batch->model;
    const float share = model->alignment_layer < 0 ? 1.0f / (model->decoder_layers * model->heads) : 1;
    memcpy(tokens, sentence->tokens, sizeof(int32_t) * sentence->length);
    memcpy(log_probs, sentence->log_probs, sizeof(float) * sentence->length);
    memcpy(aligned, sentence->aligned, sizeof(int32_t) * sentence->positions);
    for (int t = 0; t < sentence->source_length; t++) looked[t] = sentence->looked[t] * share;
    return sentence->length;
}

static void *room(size_t bytes) { return aligned_alloc(64, (bytes + 63) / 64 * 64); }

void batch_free(Batch *batch) {
    if (batch == NULL) return;
    if (batch->pool != NULL && batch->pool != MAP_FAILED) munmap(batch->pool, batch->pool_bytes);
    void *const parts[] = {batch->sentences, batch->running, batch->free_blocks, batch->holders, batch->numbers, batch->log_probs,
                           batch->peaks, batch->unseen,
                           batch->x, batch->y, batch->mixed, batch->keys, batch->weights, batch->narrow.bytes,
                           batch->narrow.scale, batch->narrow.offset, batch->wide.bytes, batch->wide.scale,
                           batch->wide.offset, batch->choices, batch->kept};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) free(parts[i]);
    free(batch);
}

static Quantised quantised_room(size_t rows, size_t columns, int nonnegative) {
    rows = rounded_up(rows, TILE_ROWS); /* squares read whole tiles */
    return (Quantised){room(rows * columns), room(rows * sizeof(float)), room(rows * sizeof(int32_t)),
                       SATURATING && !nonnegative ? -128 : 0};
}

/* Scratch for `tokens` rows at a time, and for one head of the longest sentence. */
static int make_scratch(Batch *batch, size_t tokens) {
    const size_t width = batch->model->d_model, inner = batch->model->d_ff, d_k = width / batch->model->heads;
    const size_t longest = rounded_up(batch->max_source > batch->max_target ? batch->max_source : batch->max_target,
                                      POSITIONS);
    batch->x = room(sizeof(float) * tokens * width);
    batch->y = room(sizeof(float) * tokens * (inner > 3 * width ? inner : 3 * width));
    batch->mixed = room(sizeof(float) * tokens * width);
    batch->keys = room(sizeof(float) * d_k * longest);
    batch->weights = room(sizeof(float) * QUERIES * longest);
    batch->narrow = quantised_room(tokens, width, 0);
    batch->wide = quantised_room(tokens, inner, !batch->model->is_swish);
    batch->choices = room(sizeof(Choice) * batch->rows);
    batch->kept = room(sizeof(KeptGroups) * batch->rows);
    const int groups = groups_of(&batch->model->output);
    batch->peaks = room(sizeof(float) * batch->rows * groups);
    batch->unseen = room(sizeof(float) * groups);
    for (int i = 0; batch->peaks && i < batch->rows * groups; i++) batch->peaks[i] = -INFINITY;
    return batch->x && batch->y && batch->mixed && batch->keys && batch->weights && batch->narrow.bytes &&
           batch->narrow.scale && batch->narrow.offset && batch->wide.bytes && batch->wide.scale &&
           batch->wide.offset && batch->choices && batch->kept && batch->peaks && batch->unseen;
}

/* The pool is reserved for the worst case and touched block by block, the last freed first, so that the memory in
 * use is that of the most positions ever held at once. */
static int make_pool(Batch *batch, int source_blocks, int target_blocks) {
    const int blocks = batch->rows * (source_blocks + target_blocks);
    const Model *model = batch->model;
    batch->pool_bytes = sizeof(uint16_t) * blocks * model->decoder_layers * 2 * model->d_model * POSITIONS;
    batch->pool = mmap(NULL, batch->pool_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                       -1, 0);
    /* A row reads each of its blocks at each step: with small pages addresses take as long to translate as data to come. */
    if (batch->pool_bytes / blocks >= HUGE_BLOCK && batch->pool != MAP_FAILED)
        madvise(batch->pool, batch->pool_bytes, MADV_HUGEPAGE);
    batch->free_blocks = room(sizeof(int32_t) * blocks);
    batch->holders = room(sizeof(int32_t) * blocks);
    if (batch->pool == MAP_FAILED || !batch->free_blocks || !batch->holders) return 0;
    for (int block = 0; block < blocks; block++) batch->free_blocks[block] = blocks - 1 - block;
    batch->free_count = blocks;
    return 1;
}

static int make_sentences(Batch *batch, int source_blocks, int target_blocks) {
    const size_t each = source_blocks + target_blocks + 3 * (size_t)batch->max_target;
    const size_t source_floats = 2 + (size_t)batch->model->alignment_size;
    const size_t floats = batch->max_target + source_floats * batch->max_source + cells_of(batch->model);
    batch->sentences = room(sizeof(Sentence) * batch->rows);
    batch->running = room(sizeof(int32_t) * batch->rows);
    batch->numbers = room(sizeof(int32_t) * batch->rows * each);
    batch->log_probs = room(sizeof(float) * batch->rows * floats);
    if (!batch->sentences || !batch->running || !batch->numbers || !batch->log_probs) return 0;
    for (int row = 0; row < batch->rows; row++) {
        Sentence *sentence = batch->sentences + row;
        sentence->source_blocks = batch->numbers + row * each;
        sentence->target_blocks = sentence->source_blocks + source_blocks;
        sentence->tokens = sentence->target_blocks + target_blocks;
        sentence->forced = sentence->tokens + batch->max_target;
        sentence->aligned = sentence->forced + batch->max_target;
        sentence->log_probs = batch->log_probs + row * floats;
        sentence->look = sentence->log_probs + batch->max_target;
        sentence->looked = sentence->look + batch->max_source;
        sentence->cells = sentence->looked + batch->max_source;
        sentence->alignment_keys = sentence->cells + cells_of(batch->model);
        batch->running[row] = row;
    }
    return 1;
}

/* Room for `rows` sentences of at most so many positions each, the end symbol included; NULL if there is no memory. */
Batch *batch_new(const Model *model, int rows, int max_source, int max_target) {
    Batch *batch = calloc(1, sizeof(Batch));
    if (batch == NULL) return NULL;
    batch->model = model;
    batch->rows = rows;
    batch->max_source = max_source;
    batch->max_target = max_target;
    const int source_blocks = rounded_up(max_source, POSITIONS) / POSITIONS;
    const int target_blocks = model->is_recurrent ? 0 : rounded_up(max_target, POSITIONS) / POSITIONS;
    int tokens = max_source > GROUP_TOKENS ? max_source : GROUP_TOKENS;
    if (rows > tokens) tokens = rows;
    if (make_scratch(batch, tokens) && make_pool(batch, source_blocks, target_blocks) &&
        make_sentences(batch, source_blocks, target_blocks))
        return batch;
    batch_free(batch);
    return NULL;
}
