/* How a matrix of int8 weights is stored for a product: packing, and what a kernel must know to read it.
 *
 * Plain: [columns / panel, inputs / depth, panel, depth], so that one load has `depth` inputs of each column.
 *
 * Saturating (AVX2): vpmaddubsw multiplies unsigned by signed bytes and adds pairs, but saturates at 16 bits. It is exact for
 * inputs x + 128 where no two weights w1, w2 of a pair have |w1 + w2| > 128 (255 * 128 < 2^15; with opposite signs they
 * never do). So each panel of 16 columns is cut into blocks of 16 inputs, and the inputs of each block are
 * reordered such that all pairs are safe; the kernel shuffles its inputs the same way. Trained weights mostly have such
 * an order. Blocks without one come last, in their own order; their products take more instructions.
 *
 * Inputs that are never negative (after a ReLU) lie in 0 .. 127, and then every pair is safe. There the kernel adds two pairs
 * before it widens them, which is exact where the weights of one sign among the four sum to at most 258 (127 * 258 < 2^15).
 * Blocks that do not keep to this come last.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    GROUP = 64,   /* outputs are padded to a multiple */
    COLUMNS = 16, /* of a panel of the second layout */
    BLOCK = 16,   /* inputs of a block */
    SAFE_PAIR = 128,
    SAFE_FOUR = 258
};

typedef struct {
    int32_t panel;      /* columns of a panel */
    int32_t depth;      /* inputs of a column that lie beside each other */
    int32_t zero;       /* added to each weight */
    int32_t saturating; /* whether the layout is the second one: then panel is 16, depth 4 and zero 0 */
} Layout;

/* Offsets in a panel of the second layout, in bytes. */
typedef struct {
    size_t start;   /* int32_t [16]: what the sums begin with, so that they come out as for plain inputs */
    size_t safe;    /* int32_t: number of safe blocks */
    size_t order;   /* uint16_t [blocks]: the first input of each block */
    size_t shuffle; /* uint8_t [inputs]: for each place the input, within its block; not if inputs are never negative */
    size_t weight;  /* int8_t [inputs / 4, 16, 4] */
    size_t bytes;   /* of a panel */
} Panel;

static inline size_t to_cache_line(size_t bytes) { return (bytes + 63) / 64 * 64; }

static inline Panel panel_of(const Layout *layout, size_t inputs, int nonnegative) {
    if (!layout->saturating) return (Panel){.bytes = layout->panel * inputs};
    Panel panel = {.start = 0, .safe = 4 * COLUMNS, .order = 4 * COLUMNS + 4};
    panel.shuffle = to_cache_line(panel.order + inputs / BLOCK * sizeof(uint16_t));
    panel.weight = panel.shuffle + (nonnegative ? 0 : to_cache_line(inputs));
    panel.bytes = to_cache_line(panel.weight + COLUMNS * inputs);
    return panel;
}

/* Size of a packed matrix of `inputs` x `outputs`. */
size_t packed_bytes(const Layout *layout, int inputs, int outputs, int nonnegative) {
    const size_t padded = (outputs + GROUP - 1) / GROUP * GROUP;
    return padded / layout->panel * panel_of(layout, inputs, nonnegative).bytes;
}

/* Pairs up the inputs in `left`, of which `partners` can go together; 0 if it cannot, or not within `budget` attempts.
 * shuffle: partners beside each other, from `at` on. */
static int pair_up(uint32_t left, const uint16_t partners[BLOCK], uint8_t *shuffle, int at, int *budget) {
    if (!left) return 1;
    if (--*budget < 0) return 0;
    int first = -1, fewest = BLOCK;
    for (int i = 0; i < BLOCK; i++) { /* the one with the least choice goes first */
        const int choices = __builtin_popcount(partners[i] & left);
        if (left >> i & 1 && choices < fewest) first = i, fewest = choices;
    }
    for (uint32_t choices = partners[first] & left; choices; choices &= choices - 1) {
        const int second = __builtin_ctz(choices);
        shuffle[at] = first;
        shuffle[at + 1] = second;
        if (pair_up(left & ~(1u << first) & ~(1u << second), partners, shuffle, at + 2, budget)) return 1;
    }
    return 0;
}

/* Finds an order of block[input][column] in which all pairs are safe; 0 if there is none. */
static int order_block(int8_t block[BLOCK][COLUMNS], uint8_t *shuffle) {
    uint16_t partners[BLOCK] = {0};
    int budget = 200;
    for (int i = 0; i < BLOCK; i++)
        for (int j = 0; j < i; j++) {
            int16_t largest = 0;
            for (int column = 0; column < COLUMNS; column++) {
                const int16_t sum = block[i][column] + block[j][column], magnitude = sum < 0 ? -sum : sum;
                largest = magnitude > largest ? magnitude : largest;
            }
            if (largest > SAFE_PAIR) continue;
            partners[i] |= 1 << j;
            partners[j] |= 1 << i;
        }
    return pair_up(0xffff, partners, shuffle, 0, &budget);
}

/* Whether inputs k, k + 1, k + 4 and k + 5 of the block can be added in 16 bits, for each such four. */
static int fours_are_safe(int8_t block[BLOCK][COLUMNS]) {
    for (int column = 0; column < COLUMNS; column++)
        for (int k = 0; k < BLOCK; k += k % 8 == 2 ? 6 : 2) {
            int positive = 0, negative = 0;
            for (int i = 0; i < 4; i++) {
                const int w = block[k + i % 2 + i / 2 * 4][column];
                if (w > 0) positive += w;
                else negative -= w;
            }
            if (positive > SAFE_FOUR || negative > SAFE_FOUR) return 0;
        }
    return 1;
}

/* Packs `columns` rows of weight [columns, inputs], at most 16, which lack the rest. */
static void pack_panel(const int8_t *weight, int inputs, int columns, int nonnegative, Panel panel, char *to) {
    int32_t *start = (int32_t *)(to + panel.start), safe = 0, unsafe = inputs / BLOCK;
    uint16_t *order = (uint16_t *)(to + panel.order);
    for (int first = 0; first < inputs; first += BLOCK) { /* safe blocks from the front, others from the back */
        int8_t block[BLOCK][COLUMNS] = {0};
        uint8_t shuffle[BLOCK];
        for (int column = 0; column < columns; column++)
            for (int i = 0; i < BLOCK; i++) block[i][column] = weight[(size_t)column * inputs + first + i];
        const int is_safe = nonnegative ? fours_are_safe(block) : order_block(block, shuffle);
        const int number = is_safe ? safe++ : --unsafe;
        int8_t *packed = (int8_t *)(to + panel.weight) + number * BLOCK * COLUMNS;
        order[number] = first;
        if (nonnegative || !is_safe)
            for (int i = 0; i < BLOCK; i++) shuffle[i] = i;
        for (int k = 0; k < BLOCK; k += 4)
            for (int column = 0; column < COLUMNS; column++)
                for (int i = 0; i < 4; i++) *packed++ = block[shuffle[k + i]][column];
        for (int i = 0; i < BLOCK && !nonnegative; i++) /* for inputs x + 128; or for ~x = -x - 1, by |w|, where w < 0 */
            for (int column = 0; column < COLUMNS; column++) {
                const int32_t w = block[i][column];
                start[column] -= is_safe ? 128 * w : w < 0 ? w : 0;
            }
        if (!nonnegative && is_safe) memcpy(to + panel.shuffle + number * BLOCK, shuffle, BLOCK);
    }
    memcpy(to + panel.safe, &safe, sizeof safe);
}

/* Packs weight [outputs, inputs] to `to`. inputs: a multiple of 16, under 2^16. */
void pack_matrix(const Layout *layout, const int8_t *weight, int inputs, int outputs, int nonnegative, char *to) {
    const Panel panel = panel_of(layout, inputs, nonnegative);
    memset(to, 0, packed_bytes(layout, inputs, outputs, nonnegative));
    const int padded = (outputs + GROUP - 1) / GROUP * GROUP, width = layout->panel, depth = layout->depth;
    for (int first = 0; first < padded; first += width, to += panel.bytes) {
        const int columns = outputs - first < width ? outputs - first : width;
        if (layout->saturating) {
            pack_panel(weight + (size_t)first * inputs, inputs, columns, nonnegative, panel, to);
            continue;
        }
        char *packed = to;
        for (int k = 0; k < inputs; k += depth)
            for (int column = 0; column < width; column++, packed += depth) {
                const int8_t *from = weight + (size_t)(first + column) * inputs + k;
                for (int i = 0; i < depth; i++) packed[i] = (column < columns ? from[i] : 0) + layout->zero;
            }
    }
}

/* The reverse, for one row: to [inputs] = the weights of output `column`. */
static inline void unpack_row(const Layout *layout, const char *packed, int inputs, int nonnegative, int column, int8_t *to) {
    const Panel panel = panel_of(layout, inputs, nonnegative);
    const int lane = column % layout->panel, width = layout->panel, depth = layout->depth;
    packed += column / width * panel.bytes;
    if (!layout->saturating) {
        for (int k = 0; k < inputs; k += depth)
            for (int i = 0; i < depth; i++) to[k + i] = packed[(size_t)k * width + lane * depth + i] - layout->zero;
        return;
    }
    const uint16_t *order = (const uint16_t *)(packed + panel.order);
    const uint8_t *shuffle = (const uint8_t *)(packed + panel.shuffle);
    const int8_t *from = (const int8_t *)(packed + panel.weight) + lane * 4;
    int32_t safe;
    memcpy(&safe, packed + panel.safe, sizeof safe);
    for (int block = 0; block < inputs / BLOCK; block++)
        for (int k = 0; k < BLOCK; k += 4, from += 4 * COLUMNS)
            for (int i = 0; i < 4; i++) {
                const int is_shuffled = !nonnegative && block < safe;
                to[order[block] + (is_shuffled ? shuffle[block * BLOCK + k + i] : k + i)] = from[i];
            }
}
