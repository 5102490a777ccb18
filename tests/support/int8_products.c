/* Products of int8 matrices against sums in plain C, with weights and inputs of many kinds, their extremes among them, and
 * what is unpacked of a matrix against what was packed. Prints each that differs; the exit status is 1 if there is one.
 */
#include <stdio.h>

#include "../../model/int8/kernels.c"

static uint32_t state = 1;

static int draw(int count) { /* xorshift (Marsaglia 2003) */
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state % count;
}

/* Kinds of weights: of a bell curve, as trained ones are; narrower; uniform; at their limits; all at the same limit;
 * mostly zero. */
enum { BELL, NARROW, UNIFORM, LIMITS, LIMIT, SPARSE, WEIGHT_KINDS };

static int draw_weight(int kind) {
    int sum = 0;
    if (kind <= NARROW)
        for (int i = 0; i < 12; i++) sum += draw(257) - 128;
    switch (kind) {
    case BELL: sum /= 6; break;
    case NARROW: sum /= 24; break;
    case UNIFORM: sum = draw(255) - 127; break;
    case LIMITS: sum = draw(2) ? 127 : -127; break;
    case LIMIT: sum = 127; break;
    case SPARSE: sum = draw(8) ? 0 : draw(255) - 127; break;
    }
    return sum > 127 ? 127 : sum < -127 ? -127 : sum;
}

/* Kinds of inputs: uniform, at their limits, all at the upper, all at the lower limit, which is 0 if none is negative. */
enum { INPUT_KINDS = 4 };

static int draw_input(int kind, int nonnegative) {
    const int least = nonnegative ? 0 : -127;
    switch (kind) {
    case 0: return least + draw(128 - least);
    case 1: return draw(2) ? 127 : least;
    case 2: return 127;
    default: return least;
    }
}

static int check(int rows, int inputs, int outputs, int nonnegative, int weights, int kind) {
    const size_t padded = rounded_up(outputs, GROUP);
    int8_t *weight = room((size_t)outputs * inputs);
    int8_t *values = room((size_t)rows * inputs);
    float *x = room(sizeof(float) * rows * inputs), *scale = room(sizeof(float) * padded);
    float *out = room(sizeof(float) * (rows * outputs + LANES));
    char *packed = room(packed_bytes(&kernel_layout, inputs, outputs, nonnegative));
    Quantised in = quantised_room(rows, inputs, nonnegative);
    for (int i = 0; i < outputs * inputs; i++) weight[i] = draw_weight(weights);
    for (int i = 0; i < rows * inputs; i++) {
        values[i] = draw_input(kind, nonnegative);
        if (i % inputs == 0) values[i] = 127; /* so that the row's scale is 1 */
        x[i] = values[i];
    }
    for (size_t i = 0; i < padded; i++) scale[i] = 1;
    pack_matrix(&kernel_layout, weight, inputs, outputs, nonnegative, packed);
    const Linear linear = {packed, scale, NULL, inputs, outputs, nonnegative,
                           panel_of(&kernel_layout, inputs, nonnegative)};
    quantise(x, rows, inputs, in);
    product(&linear, in, rows, out, STORE);
    int differ = 0;
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < outputs; column++) {
            int sum = 0; /* under 2^24 for up to 1,040 inputs: exact as a float */
            for (int k = 0; k < inputs; k++) sum += values[row * inputs + k] * weight[column * inputs + k];
            differ += out[row * outputs + column] != (float)sum;
        }
    if (differ)
        printf("%d x %d x %d, nonnegative %d, weights %d, inputs %d: %d differ\n", rows, inputs, outputs, nonnegative,
               weights, kind, differ);
    int8_t *row = values; /* which has at least one row */
    for (int column = 0; column < outputs; column++) {
        unpack_row(&kernel_layout, packed, inputs, nonnegative, column, row);
        if (memcmp(row, weight + (size_t)column * inputs, inputs)) {
            printf("row %d of %d x %d is not unpacked\n", column, inputs, outputs);
            differ++;
        }
    }
    void *const used[] = {weight, values, x, scale, out, packed, in.bytes, in.scale, in.offset};
    for (size_t i = 0; i < sizeof used / sizeof used[0]; i++) free(used[i]);
    return differ;
}

int main(void) {
    const int most = SQUARE > TILE ? 2 * SQUARE : 2 * TILE; /* rows */
    int differ = 0;
    if (!kernels_usable()) return printf("the system refuses these kernels\n");
    start_products();
    for (int nonnegative = 0; nonnegative < 2; nonnegative++)
        for (int weights = 0; weights < WEIGHT_KINDS; weights++)
            for (int kind = 0; kind < INPUT_KINDS; kind++)
                for (int rows = 1; rows < most; rows += rows < 2 * TILE ? 1 : 7) {
                    const int inputs = draw(2) ? 16 + 16 * draw(40) : TILE_INPUTS + TILE_INPUTS * draw(10);
                    differ += check(rows, inputs, 16 + 16 * draw(12), nonnegative, weights, kind);
                }
    end_products();
    return differ != 0;
}
