/* Encoder self-attention: tokens attend to all tokens of their sentence, in float32. */

#include "common.h"

#define QUERIES 4 /* that are computed together */

/* Keys of one head, (count, stride), transposed to (wide, padded); values to (count, wide). Padding is 0. */
static void copy_kv(const float *k, const float *v, int64_t stride, int64_t count, int64_t size, float *keys, float *values) {
    int64_t padded = round_up_lanes(count), wide = round_up_lanes(size);
    for (int64_t i = 0; i < size; i++)
        for (int64_t t = 0; t < padded; t++) keys[i * padded + t] = t < count ? k[t * stride + i] : 0;
    for (int64_t t = 0; t < count; t++)
        for (int64_t i = 0; i < wide; i++) values[t * wide + i] = i < size ? v[t * stride + i] : 0;
}

/* Scores (QUERIES, padded). */
static void score(const float *const *q, const float *keys, int64_t count, int64_t size, float scale, float *scores) {
    int64_t padded = round_up_lanes(count);
    for (int64_t t = 0; t < padded; t += LANES) {
        lanes_t sums[QUERIES] = {{0}};
        for (int64_t i = 0; i < size; i++)
            for (int j = 0; j < QUERIES; j++) sums[j] += q[j][i] * load(keys + i * padded + t);
        for (int j = 0; j < QUERIES; j++) store(scores + j * padded + t, sums[j] * scale);
    }
    for (int j = 0; j < QUERIES; j++)
        for (int64_t t = count; t < padded; t++) scores[j * padded + t] = MASKED_SCORE;
}

/* chunks: of LANES numbers of a value, a constant; the first `left` numbers are stored. */
INLINE void weighted_sum_chunks(const float *weights, const float *values, int64_t count, int64_t wide, int chunks,
                                int64_t left, float *to) {
    lanes_t out[chunks];
    for (int c = 0; c < chunks; c++) out[c] = broadcast(0);
    for (int64_t t = 0; t < count; t++)
        for (int c = 0; c < chunks; c++) out[c] += weights[t] * load(values + t * wide + c * LANES);
    memcpy(to, out, sizeof(float) * (left < chunks * LANES ? left : chunks * LANES));
}

static void weighted_sum(const float *weights, const float *values, int64_t count, int64_t size, float *to) {
    int64_t wide = round_up_lanes(size), i = 0;
    for (; i + 4 * LANES <= wide; i += 4 * LANES) weighted_sum_chunks(weights, values + i, count, wide, 4, size - i, to + i);
    for (; i < wide; i += LANES) weighted_sum_chunks(weights, values + i, count, wide, 1, size - i, to + i);
}

/* Tokens q, k and v (M, stride) of `sentences`; sentence b is the rows begin[b] - first_row up to end[b] - first_row. out
   (M, heads · size) */
API int hw_encoder_attention(const float *q, const float *k, const float *v, int64_t stride, const int64_t *begin,
                             const int64_t *end, int64_t sentences, int64_t first_row, int64_t heads, int64_t groups,
                             int64_t size, float scale, float *out) {
    int64_t max_length = 0, group_heads = heads / groups;
    for (int64_t b = 0; b < sentences; b++) max_length = end[b] - begin[b] > max_length ? end[b] - begin[b] : max_length;
    max_length = round_up_lanes(max_length);
    float *keys = scratch(ATTENTION, sizeof(float) * max_length * (2 * round_up_lanes(size) + QUERIES));
    if (!keys) return 1;
    float *values = keys + max_length * round_up_lanes(size), *scores = values + max_length * round_up_lanes(size);
    for (int64_t b = 0; b < sentences; b++)
        for (int64_t g = 0; g < groups; g++) {
            int64_t first = begin[b] - first_row, count = end[b] - begin[b], padded = round_up_lanes(count);
            copy_kv(k + first * stride + g * size, v + first * stride + g * size, stride, count, size, keys, values);
            for (int64_t h = g * group_heads; h < (g + 1) * group_heads; h++)
                for (int64_t r = 0; r < count; r += QUERIES) {
                    const float *queries[QUERIES];
                    int64_t now = count - r < QUERIES ? count - r : QUERIES;
                    for (int j = 0; j < QUERIES; j++)
                        queries[j] = q + (first + r + (j < now ? j : 0)) * stride + h * size;
                    score(queries, keys, count, size, scale, scores);
                    for (int j = 0; j < now; j++) {
                        softmax(scores + j * padded, padded);
                        weighted_sum(scores + j * padded, values, count, size, out + ((first + r + j) * heads + h) * size);
                    }
                }
        }
    return 0;
}
