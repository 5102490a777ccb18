/* Decodes token ids with the int8 kernels, without Python: for processors that only an emulator has.
 *
 *     harness WEIGHTS SOURCES MAX_SOURCE MAX_TARGET
 *
 * WEIGHTS: packed by model/int8/weights.py. SOURCES: a sentence a line, its target's limit and then its token ids, the end
 * symbol included. Prints each sentence's token ids, and the bits of their log probabilities in hexadecimal. With
 * no arguments, the layout of the weights, which packing needs.
 */
#include <stdio.h>

#include "../../model/int8/kernels.c"

enum { MOST = 512 };

static void decode(Batch *batch, int limit, int length, const int32_t *ids) {
    const int32_t none = -1, zero = 0, one = 1;
    int32_t number, finished, rows[3], tokens[MOST], aligned[MOST];
    float log_probs[MOST], coverage[MOST];
    batch_admit(batch, 1, ids, &length, &zero, &limit, NULL, &none, &one, NULL, &zero, &zero, &zero, NULL, &number);
    while (!batch_steps(batch, 3, 0, NULL, NULL, &finished, rows)) {}
    const int count = batch_read(batch, number, tokens, log_probs, aligned, coverage);
    for (int i = 0; i < count; i++) printf("%d ", tokens[i]);
    for (int i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, log_probs + i, sizeof bits);
        printf("%08x ", bits);
    }
    printf("\n");
    batch_drop(batch, number);
}

int main(int argc, char **argv) {
    const Layout *layout = &kernel_layout;
    if (argc == 1) return printf("%d %d %d %d\n", layout->panel, layout->depth, layout->zero, layout->saturating) < 0;
    FILE *weights = fopen(argv[1], "rb"), *sources = fopen(argv[2], "r");
    if (!weights || !sources) return 1;
    fseek(weights, 0, SEEK_END);
    const long size = ftell(weights);
    rewind(weights);
    void *packed = room(size);
    if (!packed || fread(packed, 1, size, weights) != (size_t)size) return 1;
    Batch *batch = batch_new(model_open(packed), 1, atoi(argv[3]), atoi(argv[4]));
    char line[16 * MOST];
    while (fgets(line, sizeof line, sources)) {
        int32_t ids[MOST];
        int length = 0;
        char *at = line;
        const int limit = (int)strtol(at, &at, 10);
        for (char *end; length < MOST; length++, at = end) {
            ids[length] = (int32_t)strtol(at, &end, 10);
            if (end == at) break;
        }
        decode(batch, limit, length, ids);
    }
    return 0;
}
