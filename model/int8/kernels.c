/* The Transformer in 8-bit integers for one processor core with AVX-512 VNNI: a batch of sentences, decoded greedily
 * or, where Python chooses among candidates, by beam search.
 *
 * Knows shapes, weights and token ids. Python side, compilation and the layout of the weights: model/int8/library.py; the
 * readable reference that these kernels are tested against: model/int8/reference.py over model/transformer.py.
 *
 * Every sentence's arithmetic is its own. Integer sums are exact whatever their order, and each sum of floats runs
 * over one token's or one sentence's numbers in an order fixed by its length alone; multiply-adds are explicit and
 * the compiler may not form others (-ffp-contract=off). So no bit of a result depends on what else is in the batch.
 *
 * A product quantises each row of its input to signed bytes by the row's largest magnitude and multiplies by
 * unsigned weights (the signed ones plus 128): out = (sum - 128 * row sum) * row scale * column scale + bias.
 */
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    LANES = 16,       /* floats in a vector */
    PANEL = 64,       /* output columns computed together, four vectors */
    TILE = 6,         /* rows computed together: 24 sums, 4 weights and an input fit the 32 registers */
    QUERIES = 8,      /* rows of an attention product computed together */
    DEMANDS = 64,     /* tokens that a sentence must have once, and as many that it must not have */
    POSITIONS = 16,   /* of a block of the cache */
    GROUP_TOKENS = 192 /* about so many are encoded together, so that they stay in the second-level cache */
};

typedef struct {
    const uint8_t *weight; /* [outputs / PANEL, inputs / 4, PANEL, 4], outputs padded */
    const float *scale;    /* [outputs], padded */
    const float *bias;     /* the same, or NULL */
    int32_t inputs, outputs;
} Linear;

typedef struct {
    const float *weight, *bias; /* [d_model], or NULL for none */
} Norm;

typedef struct {
    Linear query_key_value, self_output, cross_query, cross_memory, cross_output, inner, outer;
    Norm self_norm, cross_norm, feed_norm;
} Layer;

typedef struct {
    const float *tokens, *positions; /* [vocabulary, d_model], [positions, d_model] */
    float scale;
} Embedding;

enum { PRE, POST, RESIDUAL_POST };

typedef struct {
    int32_t d_model, heads, d_ff, placement, encoder_layers, decoder_layers, bos, eos;
    Embedding source, target;
    const Layer *encoder, *decoder;
    Norm encoder_norm, decoder_norm;
    Linear output;
} Model;

/* ---- Numbers ---------------------------------------------------------------------------------------------- */

static inline __m512 fused(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }

/* e^x as 2^n 2^f, the second a minimax polynomial of relative error 7.5e-8 on [-1/2, 1/2]. */
static inline __m512 exponential(__m512 x) {
    const __m512 t = _mm512_mul_ps(x, _mm512_set1_ps(1.442695041f));
    const __m512 n = _mm512_roundscale_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m512 f = _mm512_sub_ps(t, n);
    __m512 p = fused(_mm512_set1_ps(1.327647198e-3f), f, _mm512_set1_ps(9.675541334e-3f));
    p = fused(p, f, _mm512_set1_ps(5.550713274e-2f));
    p = fused(p, f, _mm512_set1_ps(2.402211972e-1f));
    p = fused(p, f, _mm512_set1_ps(6.931469671e-1f));
    p = fused(p, f, _mm512_set1_ps(1.000000072f));
    return _mm512_scalef_ps(p, n);
}

static inline __mmask16 first_lanes(int count) {
    return count >= LANES ? 0xffff : count <= 0 ? 0 : (__mmask16)((1u << count) - 1);
}

static inline int rounded_up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

/* out = norm(x) (Ba et al. 2016), width a multiple of 16; they may be the same. */
static void normalise(const float *x, const Norm *norm, int width, float *out) {
    if (norm->weight == NULL) {
        if (out != x) memcpy(out, x, sizeof(float) * width);
        return;
    }
    __m512 sum = _mm512_setzero_ps(), squares = _mm512_setzero_ps();
    for (int i = 0; i < width; i += LANES) sum = _mm512_add_ps(sum, _mm512_loadu_ps(x + i));
    const __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(sum) / width);
    for (int i = 0; i < width; i += LANES) {
        const __m512 centred = _mm512_sub_ps(_mm512_loadu_ps(x + i), mean);
        squares = fused(centred, centred, squares);
    }
    const __m512 rate = _mm512_set1_ps(1.0f / sqrtf(_mm512_reduce_add_ps(squares) / width + 1e-5f));
    for (int i = 0; i < width; i += LANES) {
        const __m512 unit = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(x + i), mean), rate);
        _mm512_storeu_ps(out + i, fused(unit, _mm512_loadu_ps(norm->weight + i), _mm512_loadu_ps(norm->bias + i)));
    }
}

/* ---- Matrix products -------------------------------------------------------------------------------------- */

typedef struct {
    int8_t *bytes;   /* [rows, inputs] */
    float *scale;    /* [rows] */
    int32_t *offset; /* 128 times each row's sum */
} Quantised;

static void quantise_row(const float *x, int width, Quantised to, int row) {
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    __m512i largest = _mm512_setzero_si512(), sum = _mm512_setzero_si512();
    for (int i = 0; i < width; i += LANES) /* as integers, so that a NaN is the largest of all and spreads */
        largest = _mm512_max_epu32(largest, _mm512_and_si512(magnitude, _mm512_loadu_si512(x + i)));
    const uint32_t bits = _mm512_reduce_max_epu32(largest);
    float top;
    memcpy(&top, &bits, sizeof top);
    const __m512 inverse = _mm512_set1_ps(top == 0 ? 0 : 127.0f / top);
    int8_t *bytes = to.bytes + (size_t)row * width;
    for (int i = 0; i < width; i += LANES) {
        const __m512i q = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + i), inverse)); /* half to even */
        sum = _mm512_add_epi32(sum, q);
        _mm_storeu_si128((__m128i *)(bytes + i), _mm512_cvtsepi32_epi8(q));
    }
    to.scale[row] = top / 127.0f;
    to.offset[row] = 128 * _mm512_reduce_add_epi32(sum);
}

static void quantise(const float *x, int rows, int width, Quantised to) {
    for (int row = 0; row < rows; row++) quantise_row(x + (size_t)row * width, width, to, row);
}

#define ALWAYS static inline __attribute__((always_inline))
#ifdef __clang__ /* early, so that arrays of vectors become registers */
#define UNROLLED _Pragma("unroll")
#else
#define UNROLLED _Pragma("GCC unroll 8")
#endif

/* sum += the products of four unsigned weights a lane and four signed inputs. GCC 12 keeps the intrinsic's sums in
 * memory, which halves the speed; Clang 14 does so with the other form. */
ALWAYS void add_products(__m512i *sum, __m512i weights, __m512i inputs) {
#ifdef __clang__
    *sum = _mm512_dpbusd_epi32(*sum, weights, inputs);
#else
    __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(weights), "v"(inputs));
#endif
}

/* The integer sums of `rows` rows from `row` and the panel of columns from `column`. */
ALWAYS void multiply(const int rows, const Linear *linear, Quantised in, int row, int column, __m512i sums[TILE][4]) {
    const int inputs = linear->inputs;
    const int8_t *bytes = in.bytes + (size_t)row * inputs;
    const uint8_t *panel = linear->weight + (size_t)column * inputs;
    UNROLLED for (int r = 0; r < rows; r++)
        UNROLLED for (int v = 0; v < 4; v++) sums[r][v] = _mm512_setzero_si512();
    for (int k = 0; k < inputs; k += 4, panel += 4 * PANEL) {
        __m512i weights[4];
        UNROLLED for (int v = 0; v < 4; v++) weights[v] = _mm512_loadu_si512(panel + v * PANEL);
        UNROLLED for (int r = 0; r < rows; r++) {
            int32_t four;
            memcpy(&four, bytes + (size_t)r * inputs + k, sizeof four);
            const __m512i input = _mm512_set1_epi32(four);
            UNROLLED for (int v = 0; v < 4; v++) add_products(&sums[r][v], weights[v], input);
        }
    }
}

ALWAYS __m512 scaled(__m512i sum, const Linear *linear, int column, float scale, int32_t offset) {
    const __m512 exact = _mm512_cvtepi32_ps(_mm512_sub_epi32(sum, _mm512_set1_epi32(offset)));
    const __m512 y = _mm512_mul_ps(exact, _mm512_set1_ps(scale));
    const __m512 bias = linear->bias ? _mm512_loadu_ps(linear->bias + column) : _mm512_setzero_ps();
    return fused(y, _mm512_loadu_ps(linear->scale + column), bias);
}

/* Calls `tile` for all `rows`, at most TILE at a time, from `row` on; how many is a constant each time. */
#define IN_TILES(rows, tile)                                                                                           \
    int row = 0;                                                                                                       \
    for (; row + TILE <= (rows); row += TILE) tile(TILE);                                                              \
    switch ((rows) - row) {                                                                                            \
    case 5: tile(5); break;                                                                                            \
    case 4: tile(4); break;                                                                                            \
    case 3: tile(3); break;                                                                                            \
    case 2: tile(2); break;                                                                                            \
    case 1: tile(1); break;                                                                                            \
    }

/* What becomes of a product: stored, its negatives made 0 and stored, or added to what is there. */
typedef enum { STORE, RELU, ADD } Finish;

ALWAYS void finish_row(const Linear *linear, __m512i sums[4], float scale, int32_t offset, int column, float *to,
                       const Finish finish) {
    UNROLLED for (int v = 0; v < 4; v++) {
        const int at = column + v * LANES;
        const __mmask16 real = first_lanes(linear->outputs - at);
        __m512 y = scaled(sums[v], linear, at, scale, offset);
        if (finish == RELU) y = _mm512_max_ps(_mm512_setzero_ps(), y); /* in this order a NaN comes through */
        if (finish == ADD) y = _mm512_add_ps(_mm512_maskz_loadu_ps(real, to + at), y);
        _mm512_mask_storeu_ps(to + at, real, y);
    }
}

ALWAYS void product_tile(const int rows, const Linear *linear, Quantised in, int row, int column, float *out,
                         const Finish finish) {
    __m512i sums[TILE][4];
    multiply(rows, linear, in, row, column, sums);
    UNROLLED for (int r = 0; r < rows; r++) {
        const int at = row + r;
        finish_row(linear, sums[r], in.scale[at], in.offset[at], column, out + (size_t)at * linear->outputs, finish);
    }
}

ALWAYS void product_tiles(const Linear *linear, Quantised in, int rows, float *out, const Finish finish) {
    for (int column = 0; column < linear->outputs; column += PANEL) { /* a panel stays in the first-level cache */
#define ROWS(count) product_tile(count, linear, in, row, column, out, finish)
        IN_TILES(rows, ROWS)
#undef ROWS
    }
}

/* out [rows, outputs] from in [rows, inputs]. */
static void product(const Linear *linear, Quantised in, int rows, float *out, Finish finish) {
    switch (finish) {
    case STORE: product_tiles(linear, in, rows, out, STORE); break;
    case RELU: product_tiles(linear, in, rows, out, RELU); break;
    case ADD: product_tiles(linear, in, rows, out, ADD); break;
    }
}

/* ---- The best token --------------------------------------------------------------------------------------- */

/* Of one row, over the panels seen: the best logit, where it is, the sum of e^(logit - best), lane by lane, and the
 * logit of the token asked for. */
typedef struct {
    __m512 sum;
    float best, asked_logit;
    int32_t token, asked; /* asked: -1 for none */
} Choice;

ALWAYS void consider(Choice *choice, const __m512 logits[4], const __mmask16 real[4], int column) {
    const __m512 pair = _mm512_max_ps(logits[0], logits[1]), other = _mm512_max_ps(logits[2], logits[3]);
    const float best = _mm512_reduce_max_ps(_mm512_max_ps(pair, other));
    if (best > choice->best) {
        const __m512 top = _mm512_set1_ps(best);
        for (int v = 3; v >= 0; v--) {
            const __mmask16 equal = _mm512_cmpeq_ps_mask(logits[v], top);
            if (equal) choice->token = column + v * LANES + __builtin_ctz(equal);
        }
        const __m512 shrink = exponential(_mm512_set1_ps(choice->best - best));
        choice->sum = _mm512_mul_ps(choice->sum, shrink);
        choice->best = best;
    }
    const __m512 top = _mm512_set1_ps(choice->best);
    UNROLLED for (int v = 0; v < 4; v++)
        choice->sum = _mm512_mask_add_ps(choice->sum, real[v], choice->sum,
                                         exponential(_mm512_sub_ps(logits[v], top)));
    if (choice->asked >= column && choice->asked < column + PANEL) {
        float values[PANEL];
        UNROLLED for (int v = 0; v < 4; v++) _mm512_storeu_ps(values + v * LANES, logits[v]);
        choice->asked_logit = values[choice->asked - column];
    }
}

/* ---- Attention, a sentence or a row of the cache at its own length ---------------------------------------- */

/* to[column][row] = from[row][column], 16 by 16; rows from `count` on are taken as 0. */
static void transpose(const float *from, int stride, int count, float *to, int to_stride) {
    __m512 a[LANES], b[LANES];
    for (int i = 0; i < LANES; i++) a[i] = i < count ? _mm512_loadu_ps(from + (size_t)i * stride) : _mm512_setzero_ps();
    UNROLLED for (int i = 0; i < LANES; i += 2) {
        b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
    }
    /* then a[4 * i + c], lane of four l: column 4 * l + c of rows 4 * i to 4 * i + 3 */
    UNROLLED for (int i = 0; i < LANES; i += 4)
        UNROLLED for (int half = 0; half < 2; half++) {
            const __m512d even = _mm512_castps_pd(b[i + half]), odd = _mm512_castps_pd(b[i + half + 2]);
            a[i + 2 * half] = _mm512_castpd_ps(_mm512_unpacklo_pd(even, odd));
            a[i + 2 * half + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(even, odd));
        }
    UNROLLED for (int c = 0; c < 4; c++) {
        const __m512 even = _mm512_shuffle_f32x4(a[c], a[4 + c], 0x88), odd = _mm512_shuffle_f32x4(a[c], a[4 + c], 0xdd);
        const __m512 even_below = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0x88);
        const __m512 odd_below = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0xdd);
        _mm512_storeu_ps(to + (size_t)c * to_stride, _mm512_shuffle_f32x4(even, even_below, 0x88));
        _mm512_storeu_ps(to + (size_t)(4 + c) * to_stride, _mm512_shuffle_f32x4(odd, odd_below, 0x88));
        _mm512_storeu_ps(to + (size_t)(8 + c) * to_stride, _mm512_shuffle_f32x4(even, even_below, 0xdd));
        _mm512_storeu_ps(to + (size_t)(12 + c) * to_stride, _mm512_shuffle_f32x4(odd, odd_below, 0xdd));
    }
}

/* sums[r] = sum over i of a[r][i] * b[i][0..15], in the order of i. */
ALWAYS void combine(const int rows, const float *const a[QUERIES], const float *b, int stride, int count,
                    __m512 sums[QUERIES]) {
    UNROLLED for (int r = 0; r < rows; r++) sums[r] = _mm512_setzero_ps();
    for (int i = 0; i < count; i++, b += stride) {
        const __m512 vector = _mm512_loadu_ps(b);
        UNROLLED for (int r = 0; r < rows; r++) sums[r] = fused(_mm512_set1_ps(a[r][i]), vector, sums[r]);
    }
}

/* Turns `count` scores into weights that sum to 1, after scaling; what follows up to a whole vector becomes 0. */
static void softmax(float *scores, int count, float scale) {
    const __m512 rate = _mm512_set1_ps(scale);
    __m512 largest = _mm512_set1_ps(-INFINITY), sum = _mm512_setzero_ps();
    for (int i = 0; i < count; i += LANES)
        largest = _mm512_mask_max_ps(largest, first_lanes(count - i), largest, _mm512_loadu_ps(scores + i));
    const __m512 top = _mm512_set1_ps(_mm512_reduce_max_ps(largest));
    for (int i = 0; i < count; i += LANES) {
        const __m512 below = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(scores + i), top), rate);
        const __m512 power = _mm512_maskz_mov_ps(first_lanes(count - i), exponential(below));
        sum = _mm512_add_ps(sum, power);
        _mm512_storeu_ps(scores + i, power);
    }
    const __m512 share = _mm512_set1_ps(1.0f / _mm512_reduce_add_ps(sum));
    for (int i = 0; i < count; i += LANES)
        _mm512_storeu_ps(scores + i, _mm512_mul_ps(_mm512_loadu_ps(scores + i), share));
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
        __m512 sums[QUERIES];
        for (int r = 0; r < QUERIES; r++) { /* past the end the last row is computed again, and not kept */
            queries[r] = query + (size_t)(first + (r < rows ? r : rows - 1)) * stride;
            shares[r] = weights + (size_t)(r < rows ? r : rows - 1) * padded;
        }
        for (int t = 0; t < padded; t += LANES) {
            combine(QUERIES, queries, keys + t, padded, d_k, sums);
            for (int r = 0; r < rows; r++) _mm512_storeu_ps(weights + (size_t)r * padded + t, sums[r]);
        }
        for (int r = 0; r < rows; r++) {
            softmax(weights + (size_t)r * padded, length, 1.0f / sqrtf(d_k));
            if (record)
                memcpy(record + (size_t)(first + r) * length, weights + (size_t)r * padded, sizeof(float) * length);
        }
        for (int d = 0; d < d_k; d += LANES) {
            combine(QUERIES, shares, value + d, stride, length, sums);
            for (int r = 0; r < rows; r++) _mm512_storeu_ps(out + (size_t)(first + r) * out_stride + d, sums[r]);
        }
    }
}

/* ---- The batch -------------------------------------------------------------------------------------------- */

typedef struct {
    int32_t source_length, length, limit;
    int32_t positions;                        /* remembered: one more than tokens once a step is made */
    int32_t forced_length;                    /* -1: the model chooses */
    int32_t open;                             /* after what is forced the model goes on; else the end comes */
    int32_t wide;                             /* Python chooses, among candidates; see batch_extend */
    int32_t once_count, never_count;          /* see Demands */
    int32_t once[DEMANDS], never[DEMANDS];
    int32_t *source_blocks, *target_blocks;   /* which blocks of the pool hold its keys and values */
    int32_t *tokens, *forced, *aligned;       /* [max_target] */
    float *log_probs;                         /* [max_target] */
    float *look, *looked;                     /* [max_source]: this step's cross-attention, and the steps' before it */
} Sentence;

/* What the next token may be. If there are `only`, one of these; else none of `never`, and the end only once no token
 * is owed. Where the end would be best and tokens are owed, the best of them comes. */
typedef struct {
    const int32_t *only, *owed, *never;
    int32_t only_count, owed_count, never_count;
} Demands;

/* A cache in blocks of positions, given to sentences as they grow (after Kwon et al. 2023, section 4.1): of a block,
 * a decoder layer has keys [heads, d_k, POSITIONS] and values [heads, POSITIONS, d_k]. */
typedef struct {
    const Model *model;
    int32_t rows, max_source, max_target, live;
    Sentence *sentences; /* [rows] */
    int32_t *running;    /* [rows]: the live ones' numbers, then the free ones' */
    float *pool;
    size_t pool_bytes;
    int32_t *free_blocks;
    int32_t *holders; /* by block: the sentences that have it */
    int32_t free_count;
    int32_t *numbers; /* what the sentences' own arrays are cut from */
    float *log_probs;
    float *x, *y, *mixed, *keys, *weights, *logits;
    Quantised narrow, wide; /* of d_model and of d_ff columns */
    Choice *choices;
} Batch;

static float *key_block(const Batch *batch, int32_t block, int layer, int head) {
    const Model *model = batch->model;
    const size_t part = (size_t)model->d_model * POSITIONS;
    const size_t at = ((size_t)block * model->decoder_layers + layer) * 2 * part;
    return batch->pool + at + (size_t)head * (model->d_model / model->heads) * POSITIONS;
}

static float *value_block(const Batch *batch, int32_t block, int layer, int head) {
    return key_block(batch, block, layer, head) + (size_t)batch->model->d_model * POSITIONS;
}

/* Puts one position's keys and values, each [d_model], where `blocks` say. */
static void remember(const Batch *batch, const int32_t *blocks, int position, int layer, const float *key,
                     const float *value) {
    const int d_k = batch->model->d_model / batch->model->heads, at = position % POSITIONS;
    const int32_t block = blocks[position / POSITIONS];
    for (int head = 0; head < batch->model->heads; head++, key += d_k, value += d_k) {
        float *keys = key_block(batch, block, layer, head) + at;
        for (int d = 0; d < d_k; d++) keys[d * POSITIONS] = key[d];
        memcpy(value_block(batch, block, layer, head) + at * d_k, value, sizeof(float) * d_k);
    }
}

/* The same for a whole sentence: memory [length, 2 d_model], keys and values beside each other. */
static void remember_all(const Batch *batch, const int32_t *blocks, int length, int layer, const float *memory) {
    const int width = batch->model->d_model, heads = batch->model->heads, d_k = width / heads, stride = 2 * width;
    for (int t = 0; t < length; t += POSITIONS, memory += (size_t)POSITIONS * stride)
        for (int head = 0; head < heads; head++) {
            const float *key = memory + head * d_k, *value = key + width;
            float *keys = key_block(batch, blocks[t / POSITIONS], layer, head);
            float *values = value_block(batch, blocks[t / POSITIONS], layer, head);
            for (int d = 0; d < d_k; d += LANES)
                transpose(key + d, stride, length - t, keys + d * POSITIONS, POSITIONS);
            for (int at = 0; at < POSITIONS && t + at < length; at++)
                memcpy(values + at * d_k, value + (size_t)at * stride, sizeof(float) * d_k);
        }
}

/* out[0 .. 16 * vectors) = the values' average over `length` positions. */
ALWAYS void average(const int vectors, const Batch *batch, const int32_t *blocks, int length, int layer, int head,
                    int column, const float *weights, float *out) {
    const int d_k = batch->model->d_model / batch->model->heads;
    __m512 sums[4];
    for (int v = 0; v < vectors; v++) sums[v] = _mm512_setzero_ps();
    for (int first = 0; first < length; first += POSITIONS) {
        const float *values = value_block(batch, blocks[first / POSITIONS], layer, head) + column;
        const int last = length - first < POSITIONS ? length - first : POSITIONS;
        for (int t = 0; t < last; t++, values += d_k) {
            const __m512 weight = _mm512_set1_ps(weights[first + t]);
            for (int v = 0; v < vectors; v++) sums[v] = fused(weight, _mm512_loadu_ps(values + v * LANES), sums[v]);
        }
    }
    for (int v = 0; v < vectors; v++) _mm512_storeu_ps(out + v * LANES, sums[v]);
}

/* One query [d_model] over `length` remembered positions to out [d_model]; record: [heads, length] or NULL. The weights
 * are added to look [length], if it is not NULL. */
static void attend_cached(const Batch *batch, const int32_t *blocks, int length, int layer, const float *query,
                          float *out, float *record, float *look) {
    const int heads = batch->model->heads, d_k = batch->model->d_model / heads;
    float *weights = batch->weights;
    for (int head = 0; head < heads; head++, query += d_k, out += d_k) {
        for (int first = 0; first < length; first += POSITIONS) {
            const float *keys = key_block(batch, blocks[first / POSITIONS], layer, head);
            __m512 sums[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
            for (int d = 0; d < d_k; d += 4)
                for (int part = 0; part < 4; part++)
                    sums[part] = fused(_mm512_set1_ps(query[d + part]), _mm512_loadu_ps(keys + (d + part) * POSITIONS),
                                       sums[part]);
            const __m512 sum = _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3]));
            _mm512_storeu_ps(weights + first, sum);
        }
        softmax(weights, length, 1.0f / sqrtf(d_k));
        if (record) memcpy(record + (size_t)head * length, weights, sizeof(float) * length);
        if (look)
            for (int t = 0; t < length; t++) look[t] += weights[t];
        int d = 0;
        for (; d + 64 <= d_k; d += 64) average(4, batch, blocks, length, layer, head, d, weights, out + d);
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
        for (int i = 0; i < width; i += LANES)
            _mm512_storeu_ps(x + i, _mm512_add_ps(_mm512_loadu_ps(x + i), _mm512_loadu_ps(y + i)));
    }
}

static void feed_forward(Batch *batch, const Layer *layer, int rows, float *x) {
    const int inner = batch->model->d_ff;
    product(&layer->inner, sublayer_input(batch, x, rows, &layer->feed_norm), rows, batch->y, RELU);
    quantise(batch->y, rows, inner, batch->wide);
    sublayer_output(batch, &layer->outer, batch->wide, rows, &layer->feed_norm, x);
}

static void embed(const Embedding *embedding, int32_t token, int position, int width, float *x) {
    const float *row = embedding->tokens + (size_t)token * width, *at = embedding->positions + (size_t)position * width;
    const __m512 scale = _mm512_set1_ps(embedding->scale);
    for (int i = 0; i < width; i += LANES) {
        const __m512 y = _mm512_mul_ps(_mm512_loadu_ps(row + i), scale);
        _mm512_storeu_ps(x + i, _mm512_add_ps(y, _mm512_loadu_ps(at + i)));
    }
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
}

/* ---- A step of the decoder -------------------------------------------------------------------------------- */

static float *part_of(float *const *records, int32_t number, size_t size) {
    return records && records[number] ? records[number] + size : NULL;
}

static void decode_layer(Batch *batch, int number, float *const *self_records, float *const *cross_records) {
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
                      part_of(self_records, batch->running[row], (size_t)number * model->heads * length), NULL);
    }
    quantise(batch->mixed, rows, width, batch->narrow);
    sublayer_output(batch, &layer->self_output, batch->narrow, rows, &layer->self_norm, batch->x);

    product(&layer->cross_query, sublayer_input(batch, batch->x, rows, &layer->cross_norm), rows, batch->y, STORE);
    for (int row = 0; row < rows; row++) {
        const Sentence *sentence = batch->sentences + batch->running[row];
        const int length = sentence->source_length;
        attend_cached(batch, sentence->source_blocks, length, number, batch->y + (size_t)row * width,
                      batch->mixed + (size_t)row * width,
                      part_of(cross_records, batch->running[row], (size_t)number * model->heads * length),
                      sentence->look);
    }
    quantise(batch->mixed, rows, width, batch->narrow);
    sublayer_output(batch, &layer->cross_output, batch->narrow, rows, &layer->cross_norm, batch->x);
    feed_forward(batch, layer, rows, batch->x);
}

ALWAYS void choose_tile(const int rows, const Linear *linear, Quantised in, int row, int column, Choice *choices) {
    __m512i sums[TILE][4];
    multiply(rows, linear, in, row, column, sums);
    UNROLLED for (int r = 0; r < rows; r++) {
        __m512 logits[4];
        __mmask16 real[4];
        UNROLLED for (int v = 0; v < 4; v++) {
            const int at = column + v * LANES;
            real[v] = first_lanes(linear->outputs - at);
            logits[v] = _mm512_mask_mov_ps(_mm512_set1_ps(-INFINITY), real[v],
                                           scaled(sums[r][v], linear, at, in.scale[row + r], in.offset[row + r]));
        }
        consider(choices + row + r, logits, real, column);
    }
}

/* The vocabulary's product: the logits are looked at tile by tile and never written down. */
static void choose(const Linear *linear, Quantised in, int rows, Choice *choices) {
    for (int column = 0; column < linear->outputs; column += PANEL) {
#define ROWS(count) choose_tile(count, linear, in, row, column, choices)
        IN_TILES(rows, ROWS)
#undef ROWS
    }
}

static int32_t take_block(Batch *batch) {
    const int32_t block = batch->free_blocks[--batch->free_count];
    batch->holders[block] = 1;
    return block;
}

static void give_blocks_back(Batch *batch, const int32_t *blocks, int positions) {
    for (int t = 0; t < positions; t += POSITIONS)
        if (--batch->holders[blocks[t / POSITIONS]] == 0)
            batch->free_blocks[batch->free_count++] = blocks[t / POSITIONS];
}

/* Puts the `count` best of the tokens that `demands` allow into tokens, best first, and their logits; returns how many
 * there are. The row's logits are computed again, to the same bits: few sentences need it, in few steps. */
static int allowed_best(Batch *batch, int row, const Demands *demands, int count, int32_t *tokens, float *values) {
    const Linear *output = &batch->model->output;
    const int32_t eos = batch->model->eos;
    const Quantised in = batch->narrow;
    float *logits = batch->logits;
    const Quantised one = {in.bytes + (size_t)row * output->inputs, in.scale + row, in.offset + row};
    product(output, one, 1, logits, STORE);
    const int32_t *only = demands->only;
    int only_count = demands->only_count;
    if (!only_count) {
        for (int i = 0; i < demands->never_count; i++) logits[demands->never[i]] = -INFINITY;
        if (demands->owed_count) {
            const float end = logits[eos];
            logits[eos] = -INFINITY;
            float best = -INFINITY;
            for (int token = 0; token < output->outputs; token++) best = logits[token] > best ? logits[token] : best;
            if (end >= best) {
                only = demands->owed;
                only_count = demands->owed_count;
            }
        }
    }
    int found = 0;
    const int among = only_count ? only_count : output->outputs;
    for (int i = 0; i < among; i++) {
        const int32_t token = only_count ? only[i] : i;
        const float value = logits[token];
        if (value == -INFINITY || (found == count && !(value > values[count - 1]))) continue;
        int at = found < count ? found++ : count - 1;
        for (; at > 0 && value > values[at - 1]; at--) {
            values[at] = values[at - 1];
            tokens[at] = tokens[at - 1];
        }
        values[at] = value;
        tokens[at] = token;
    }
    return found;
}

static int is_among(int32_t token, const int32_t *tokens, int count) {
    for (int i = 0; i < count; i++)
        if (tokens[i] == token) return 1;
    return 0;
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

static int best_aligned(const Sentence *sentence) {
    int best = 0;
    for (int t = 1; t < sentence->source_length - 1; t++)
        if (sentence->look[t] > sentence->look[best]) best = t;
    return best;
}

/* Notes the choice; whether the sentence has ended. One whose numbers broke down ends there, with NaN as its last. */
static int extend(Batch *batch, Sentence *sentence, int row) {
    const Choice *choice = batch->choices + row;
    const float normaliser = logf(_mm512_reduce_add_ps(choice->sum));
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

/* ---- What Python calls ------------------------------------------------------------------------------------ */

int batch_step(Batch *batch, float *const *self_records, float *const *cross_records, int32_t *finished) {
    const Model *model = batch->model;
    const int width = model->d_model, rows = batch->live;
    for (int row = 0; row < rows; row++) {
        Sentence *sentence = batch->sentences + batch->running[row];
        const int at = sentence->length;
        for (int t = 0; t < sentence->source_length; t++) {
            sentence->looked[t] += sentence->look[t];
            sentence->look[t] = 0;
        }
        if (at % POSITIONS == 0) sentence->target_blocks[at / POSITIONS] = take_block(batch);
        sentence->positions = at + 1;
        embed(&model->target, at ? sentence->tokens[at - 1] : model->bos, at, width, batch->x + (size_t)row * width);
        int32_t asked = -1;
        if (at < sentence->forced_length) asked = sentence->forced[at];
        else if (sentence->forced_length >= 0 && !sentence->open) asked = model->eos;
        batch->choices[row] = (Choice){_mm512_setzero_ps(), -1e30f, -1e30f, 0, asked};
    }
    for (int number = 0; number < model->decoder_layers; number++)
        decode_layer(batch, number, self_records, cross_records);
    for (int row = 0; row < rows; row++) {
        normalise(batch->x + (size_t)row * width, &model->decoder_norm, width, batch->mixed);
        quantise_row(batch->mixed, width, batch->narrow, row);
    }
    choose(&model->output, batch->narrow, rows, batch->choices);
    int count = 0;
    for (int row = 0; row < rows; row++) {
        Sentence *sentence = batch->sentences + batch->running[row];
        sentence->aligned[sentence->length] = best_aligned(sentence);
        if (!sentence->wide && extend(batch, sentence, row)) finished[count++] = batch->running[row];
    }
    return count;
}

static int row_of(const Batch *batch, int32_t number) {
    int row = 0;
    while (batch->running[row] != number) row++;
    return row;
}

/* The `count` best next tokens of a wide sentence and their log probabilities, best first; returns how many there are.
 * Only after a step and before a sentence is admitted, forked or dropped. only, owed, never: see Demands. */
int batch_candidates(Batch *batch, int32_t number, const int32_t *only, int only_count, const int32_t *owed,
                     int owed_count, const int32_t *never, int never_count, int count, int32_t *tokens,
                     float *log_probs) {
    const int row = row_of(batch, number);
    const Choice *choice = batch->choices + row;
    const float normaliser = logf(_mm512_reduce_add_ps(choice->sum));
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
    const size_t block_floats = (size_t)batch->model->decoder_layers * 2 * batch->model->d_model * POSITIONS;
    const Sentence *from = batch->sentences + number;
    const int32_t other = batch->running[batch->live++];
    Sentence *to = batch->sentences + other;
    to->source_length = from->source_length;
    to->length = from->length;
    to->positions = from->positions;
    to->limit = from->limit;
    to->forced_length = from->forced_length;
    to->open = from->open;
    to->wide = from->wide;
    to->once_count = to->never_count = 0;
    for (int t = 0; t < from->source_length; t += POSITIONS)
        batch->holders[to->source_blocks[t / POSITIONS] = from->source_blocks[t / POSITIONS]]++;
    for (int t = 0; t < from->positions; t += POSITIONS) {
        const int32_t block = from->target_blocks[t / POSITIONS];
        if (t + POSITIONS <= from->positions) {
            batch->holders[to->target_blocks[t / POSITIONS] = block]++;
        } else {
            const int32_t copy = to->target_blocks[t / POSITIONS] = take_block(batch);
            memcpy(batch->pool + copy * block_floats, batch->pool + block * block_floats, sizeof(float) * block_floats);
        }
    }
    memcpy(to->tokens, from->tokens, sizeof(int32_t) * from->length);
    memcpy(to->aligned, from->aligned, sizeof(int32_t) * from->positions);
    memcpy(to->look, from->look, sizeof(float) * from->source_length);
    memcpy(to->looked, from->looked, sizeof(float) * from->source_length);
    return other;
}

/* Encodes `count` sentences, tokens one after the other, and gives each a number. forced_lengths: -1 for none.
 * demands: each sentence's `once` and then its `never`. wide: see Sentence. */
void batch_admit(Batch *batch, int count, const int32_t *tokens, const int32_t *lengths, const int32_t *limits,
                 const int32_t *forced, const int32_t *forced_lengths, const int32_t *open, const int32_t *demands,
                 const int32_t *once_counts, const int32_t *never_counts, const int32_t *wide, float *const *records,
                 int32_t *numbers) {
    const int most = batch->max_source > GROUP_TOKENS ? batch->max_source : GROUP_TOKENS;
    for (int s = 0; s < count; s++) {
        const int32_t number = numbers[s] = batch->running[batch->live++];
        Sentence *sentence = batch->sentences + number;
        sentence->source_length = lengths[s];
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
        memset(sentence->look, 0, sizeof(float) * lengths[s]);
        memset(sentence->looked, 0, sizeof(float) * lengths[s]);
        for (int t = 0; t < lengths[s]; t += POSITIONS) sentence->source_blocks[t / POSITIONS] = take_block(batch);
    }
    for (int first = 0, next = 0; first < count; first = next) {
        int rows = 0;
        for (; next < count && (next == first || rows + lengths[next] <= most); next++) rows += lengths[next];
        encode_group(batch, next - first, tokens, lengths + first, numbers + first, records ? records + first : NULL);
        tokens += rows;
    }
}

/* Copies out what the sentence has so far; returns how many tokens. looked [source_length]: the last step's attention is
 * not in it. aligned has one for each position. */
int batch_read(const Batch *batch, int32_t number, int32_t *tokens, float *log_probs, int32_t *aligned,
               float *looked) {
    const Sentence *sentence = batch->sentences + number;
    const float share = 1.0f / (batch->model->decoder_layers * batch->model->heads);
    memcpy(tokens, sentence->tokens, sizeof(int32_t) * sentence->length);
    memcpy(log_probs, sentence->log_probs, sizeof(float) * sentence->length);
    memcpy(aligned, sentence->aligned, sizeof(int32_t) * sentence->positions);
    for (int t = 0; t < sentence->source_length; t++) looked[t] = sentence->looked[t] * share;
    return sentence->length;
}

/* Frees the sentence's place and its blocks. */
void batch_drop(Batch *batch, int32_t number) {
    Sentence *sentence = batch->sentences + number;
    give_blocks_back(batch, sentence->source_blocks, sentence->source_length);
    give_blocks_back(batch, sentence->target_blocks, sentence->positions);
    const int row = row_of(batch, number);
    batch->running[row] = batch->running[--batch->live];
    batch->running[batch->live] = number;
}

static void *room(size_t bytes) { return aligned_alloc(64, (bytes + 63) / 64 * 64); }

void batch_free(Batch *batch) {
    if (batch == NULL) return;
    if (batch->pool != NULL && batch->pool != MAP_FAILED) munmap(batch->pool, batch->pool_bytes);
    void *const parts[] = {batch->sentences, batch->running, batch->free_blocks, batch->holders, batch->numbers, batch->log_probs,
                           batch->logits,
                           batch->x, batch->y, batch->mixed, batch->keys, batch->weights, batch->narrow.bytes,
                           batch->narrow.scale, batch->narrow.offset, batch->wide.bytes, batch->wide.scale,
                           batch->wide.offset, batch->choices};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) free(parts[i]);
    free(batch);
}

static Quantised quantised_room(size_t rows, size_t columns) {
    return (Quantised){room(rows * columns), room(rows * sizeof(float)), room(rows * sizeof(int32_t))};
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
    batch->narrow = quantised_room(tokens, width);
    batch->wide = quantised_room(tokens, inner);
    batch->choices = room(sizeof(Choice) * batch->rows);
    batch->logits = room(sizeof(float) * batch->model->output.outputs);
    return batch->x && batch->y && batch->mixed && batch->keys && batch->weights && batch->narrow.bytes &&
           batch->narrow.scale && batch->narrow.offset && batch->wide.bytes && batch->wide.scale &&
           batch->wide.offset && batch->choices && batch->logits;
}

/* The pool is reserved for the worst case and touched block by block, the last freed first, so that the memory in
 * use is that of the most positions ever held at once. */
static int make_pool(Batch *batch, int source_blocks, int target_blocks) {
    const int blocks = batch->rows * (source_blocks + target_blocks);
    const Model *model = batch->model;
    batch->pool_bytes = sizeof(float) * blocks * model->decoder_layers * 2 * model->d_model * POSITIONS;
    batch->pool = mmap(NULL, batch->pool_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                       -1, 0);
    batch->free_blocks = room(sizeof(int32_t) * blocks);
    batch->holders = room(sizeof(int32_t) * blocks);
    if (batch->pool == MAP_FAILED || !batch->free_blocks || !batch->holders) return 0;
    for (int block = 0; block < blocks; block++) batch->free_blocks[block] = blocks - 1 - block;
    batch->free_count = blocks;
    return 1;
}

static int make_sentences(Batch *batch, int source_blocks, int target_blocks) {
    const size_t each = source_blocks + target_blocks + 3 * (size_t)batch->max_target;
    const size_t floats = batch->max_target + 2 * (size_t)batch->max_source;
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
    const int target_blocks = rounded_up(max_target, POSITIONS) / POSITIONS;
    int tokens = max_source > GROUP_TOKENS ? max_source : GROUP_TOKENS;
    if (rows > tokens) tokens = rows;
    if (make_scratch(batch, tokens) && make_pool(batch, source_blocks, target_blocks) &&
        make_sentences(batch, source_blocks, target_blocks))
        return batch;
    batch_free(batch);
    return NULL;
}
