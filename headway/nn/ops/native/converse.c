/* Attention of words to all words of their sentence, in float32. */

#include "common.h"

#define TOGETHER 4 /* queries */

/* Keys of one head, (count, step), as (wide, padded); values as (count, wide). What is added is 0. */
static void lay(const float *k, const float *v, int64_t step, int64_t count, int64_t size, float *keys, float *values) {
    int64_t padded = whole_lanes(count), wide = whole_lanes(size);
    for (int64_t i = 0; i < size; i++)
        for (int64_t t = 0; t < padded; t++) keys[i * padded + t] = t < count ? k[t * step + i] : 0;
    for (int64_t t = 0; t < count; t++)
        for (int64_t i = 0; i < wide; i++) values[t * wide + i] = i < size ? v[t * step + i] : 0;
}

/* Scores (TOGETHER, padded) of as many queries. */
static void score(const float *const *q, const float *keys, int64_t count, int64_t size, float scale, float *scores) {
    int64_t padded = whole_lanes(count);
    for (int64_t t = 0; t < padded; t += LANES) {
        lanes_t sums[TOGETHER] = {{0}};
        for (int64_t i = 0; i < size; i++)
            for (int j = 0; j < TOGETHER; j++) sums[j] += q[j][i] * load(keys + i * padded + t);
        for (int j = 0; j < TOGETHER; j++) store(scores + j * padded + t, sums[j] * scale);
    }
    for (int j = 0; j < TOGETHER; j++)
        for (int64_t t = count; t < padded; t++) scores[j * padded + t] = NOTHING;
}

/* chunks: of LANES numbers of a value, a constant; `left` of them are wanted. */
INLINE void blend_chunks(const float *weights, const float *values, int64_t count, int64_t wide, int chunks, int64_t left,
                         float *to) {
    lanes_t out[chunks];
    for (int c = 0; c < chunks; c++) out[c] = all(0);
    for (int64_t t = 0; t < count; t++)
        for (int c = 0; c < chunks; c++) out[c] += weights[t] * load(values + t * wide + c * LANES);
    memcpy(to, out, sizeof(float) * (left < chunks * LANES ? left : chunks * LANES));
}

static void blend(const float *weights, const float *values, int64_t count, int64_t size, float *to) {
    int64_t wide = whole_lanes(size), i = 0;
    for (; i + 4 * LANES <= wide; i += 4 * LANES) blend_chunks(weights, values + i, count, wide, 4, size - i, to + i);
    for (; i < wide; i += LANES) blend_chunks(weights, values + i, count, wide, 1, size - i, to + i);
}

/* Words q, k and v (M, step) of `sentences`, b being the rows from[b] - begin up to to[b] - begin, listen to all of their
   sentence, in float32. out (M, heads · size) */
API int hw_converse(const float *q, const float *k, const float *v, int64_t step, const int64_t *from, const int64_t *to,
                    int64_t sentences, int64_t begin, int64_t heads, int64_t groups, int64_t size, float scale, float *out) {
    int64_t longest = 0, each = heads / groups;
    for (int64_t b = 0; b < sentences; b++) longest = to[b] - from[b] > longest ? to[b] - from[b] : longest;
    longest = whole_lanes(longest);
    float *keys = room(LISTENING, sizeof(float) * longest * (2 * whole_lanes(size) + TOGETHER));
    if (!keys) return 1;
    float *values = keys + longest * whole_lanes(size), *scores = values + longest * whole_lanes(size);
    for (int64_t b = 0; b < sentences; b++)
        for (int64_t g = 0; g < groups; g++) {
            int64_t first = from[b] - begin, count = to[b] - from[b], padded = whole_lanes(count);
            lay(k + first * step + g * size, v + first * step + g * size, step, count, size, keys, values);
            for (int64_t h = g * each; h < (g + 1) * each; h++)
                for (int64_t r = 0; r < count; r += TOGETHER) {
                    const float *asked[TOGETHER];
                    int64_t now = count - r < TOGETHER ? count - r : TOGETHER;
                    for (int j = 0; j < TOGETHER; j++) asked[j] = q + (first + r + (j < now ? j : 0)) * step + h * size;
                    score(asked, keys, count, size, scale, scores);
                    for (int j = 0; j < now; j++) {
                        settle(scores + j * padded, padded);
                        blend(scores + j * padded, values, count, size, out + ((first + r + j) * heads + h) * size);
                    }
                }
        }
    return 0;
}
