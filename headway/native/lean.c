/* What a lean search spends its time on, for one processor core: products of 8-bit weights, attention to a past that does
   not move, norms. Every row is worked out by itself, so that its result does not depend on its neighbours.
   Matrices are row-major; `step` is the distance between rows, in numbers. All return 0, or 1 where there is no memory. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define BLOCK 64 /* outputs that are worked out together */
#define ROWS 6   /* rows, likewise */
#define API __attribute__((visibility("default")))

/* ---- products ----

   Weights lie in blocks of 64 outputs; in a block, for each 4 inputs, 4 weights of each output side by side. */

API int hw_pack(const int8_t *weight, int64_t outputs, int64_t inputs, int8_t *packed) {
    int64_t fours = (inputs + 3) / 4;
    for (int64_t o = 0; o < outputs; o++)
        for (int64_t i = 0; i < inputs; i++)
            packed[((o / BLOCK * fours + i / 4) * BLOCK + o % BLOCK) * 4 + i % 4] = weight[o * inputs + i];
    return 0;
}

/* sums[r][o] = Σ x[r][i] · weight[o][i] for so many rows of x, which are `fours` · 4 wide, and one block of outputs. */
#if defined(__AVX512VNNI__) && defined(__AVX512F__)
#define KERNEL(NAME, COUNT)                                                                                            \
    static void NAME(const uint8_t *x, int64_t fours, const int8_t *weight, int32_t *sums) {                           \
        __m512i acc[COUNT][4];                                                                                         \
        for (int r = 0; r < COUNT; r++)                                                                                \
            for (int j = 0; j < 4; j++) acc[r][j] = _mm512_setzero_si512();                                            \
        for (int64_t f = 0; f < fours; f++) {                                                                          \
            __m512i w[4];                                                                                              \
            for (int j = 0; j < 4; j++) w[j] = _mm512_loadu_si512(weight + (f * 4 + j) * 64);                          \
            for (int r = 0; r < COUNT; r++) {                                                                          \
                int32_t four;                                                                                          \
                memcpy(&four, x + (r * fours + f) * 4, 4);                                                             \
                __m512i all = _mm512_set1_epi32(four);                                                                 \
                for (int j = 0; j < 4; j++) acc[r][j] = _mm512_dpbusd_epi32(acc[r][j], all, w[j]);                     \
            }                                                                                                          \
        }                                                                                                              \
        for (int r = 0; r < COUNT; r++)                                                                                \
            for (int j = 0; j < 4; j++) _mm512_storeu_si512(sums + r * BLOCK + j * 16, acc[r][j]);                     \
    }
KERNEL(block_of_6, 6)
KERNEL(block_of_4, 4)
KERNEL(block_of_2, 2)
KERNEL(block_of_1, 1)
#elif defined(__AVX2__)
/* Two products of 7 bits by 8 fit into 16 bits. A block is taken in two halves: there are 16 registers. */
#define KERNEL(NAME, COUNT, WIDE)                                                                                      \
    static void NAME(const uint8_t *x, int64_t fours, const int8_t *weight, int32_t *sums) {                           \
        const __m256i ones = _mm256_set1_epi16(1);                                                                     \
        for (int part = 0; part < 8; part += WIDE) {                                                                   \
            __m256i acc[COUNT][WIDE];                                                                                  \
            for (int r = 0; r < COUNT; r++)                                                                            \
                for (int j = 0; j < WIDE; j++) acc[r][j] = _mm256_setzero_si256();                                     \
            for (int64_t f = 0; f < fours; f++) {                                                                      \
                for (int r = 0; r < COUNT; r++) {                                                                      \
                    int32_t four;                                                                                      \
                    memcpy(&four, x + (r * fours + f) * 4, 4);                                                         \
                    __m256i all = _mm256_set1_epi32(four);                                                             \
                    for (int j = 0; j < WIDE; j++) {                                                                   \
                        __m256i w = _mm256_loadu_si256((const __m256i *)(weight + f * 256 + (part + j) * 32));         \
                        __m256i pairs = _mm256_maddubs_epi16(all, w);                                                  \
                        acc[r][j] = _mm256_add_epi32(acc[r][j], _mm256_madd_epi16(pairs, ones));                       \
                    }                                                                                                  \
                }                                                                                                      \
            }                                                                                                          \
            for (int r = 0; r < COUNT; r++)                                                                            \
                for (int j = 0; j < WIDE; j++)                                                                         \
                    _mm256_storeu_si256((__m256i *)(sums + r * BLOCK + (part + j) * 8), acc[r][j]);                    \
        }                                                                                                              \
    }
KERNEL(block_of_6, 6, 2)
KERNEL(block_of_4, 4, 2)
KERNEL(block_of_2, 2, 4)
KERNEL(block_of_1, 1, 8)
#else
static void block_of(int count, const uint8_t *x, int64_t fours, const int8_t *weight, int32_t *sums) {
    memset(sums, 0, sizeof(int32_t) * BLOCK * count);
    for (int r = 0; r < count; r++)
        for (int64_t f = 0; f < fours; f++)
            for (int o = 0; o < BLOCK; o++)
                for (int i = 0; i < 4; i++)
                    sums[r * BLOCK + o] += (int32_t)x[(r * fours + f) * 4 + i] * weight[(f * BLOCK + o) * 4 + i];
}
#define block_of_6(x, f, w, s) block_of(6, x, f, w, s)
#define block_of_4(x, f, w, s) block_of(4, x, f, w, s)
#define block_of_2(x, f, w, s) block_of(2, x, f, w, s)
#define block_of_1(x, f, w, s) block_of(1, x, f, w, s)
#endif

/* Without its sign. Floats are then in the order of their bits, and those that are no numbers come last, so that what is
   made of them is none either. */
static float largest_of(const float *x, int64_t count) {
    int32_t top = 0;
    for (int64_t i = 0; i < count; i++) {
        int32_t bits;
        memcpy(&bits, x + i, 4);
        bits &= 0x7fffffff;
        top = bits > top ? bits : top;
    }
    float largest;
    memcpy(&largest, &top, 4);
    return largest < 1e-30f ? 1e-30f : largest;
}

/* A row as whole numbers around `zero`, its largest being `most` away; returns what one step is worth. */
static float whole(const float *x, int64_t inputs, int64_t padded, float most, int zero, uint8_t *to) {
    float largest = largest_of(x, inputs), factor = most / largest;
    for (int64_t i = 0; i < inputs; i++) to[i] = (uint8_t)((int32_t)nearbyintf(x[i] * factor) + zero);
    for (int64_t i = inputs; i < padded; i++) to[i] = 0;
    return largest / most;
}

static __thread void *scratch;
static __thread size_t held;

static void *room(size_t bytes) {
    if (bytes > held || !scratch) {
        free(scratch);
        scratch = malloc(bytes + 64);
        held = scratch ? bytes : 0;
    }
    return scratch;
}

/* y = xWᵀ + b, and relu of it if asked for. sums: of the weights of each output. positive: no x is below 0. */
API int hw_linear(const float *x, int64_t rows, int64_t inputs, const int8_t *weight, const float *scale,
                  const int32_t *sums, const float *bias, float *y, int64_t outputs, int64_t positive,
                  int64_t relu) {
    int64_t fours = (inputs + 3) / 4, padded = fours * 4;
    uint8_t *xs = room(rows * (padded + sizeof(float)));
    if (!xs) return 1;
    float *steps = (float *)(xs + rows * padded);
    int zero = positive ? 0 : 64;
    for (int64_t r = 0; r < rows; r++) steps[r] = whole(x + r * inputs, inputs, padded, positive ? 127 : 63, zero, xs + r * padded);
    for (int64_t first = 0; first < outputs; first += BLOCK) {
        int64_t count = outputs - first < BLOCK ? outputs - first : BLOCK;
        const int8_t *w = weight + first * padded;
        for (int64_t r = 0; r < rows;) {
            int32_t acc[ROWS * BLOCK];
            int64_t left = rows - r, now = left >= 6 ? 6 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
            const uint8_t *from = xs + r * padded;
            if (now == 6) block_of_6(from, fours, w, acc);
            else if (now == 4) block_of_4(from, fours, w, acc);
            else if (now == 2) block_of_2(from, fours, w, acc);
            else block_of_1(from, fours, w, acc);
            for (int64_t i = 0; i < now; i++, r++) {
                float step = steps[r], *to = y + r * outputs + first;
                const int32_t *got = acc + i * BLOCK;
                for (int64_t o = 0; o < count; o++) {
                    float value = (float)(got[o] - zero * sums[first + o]) * (scale[first + o] * step);
                    if (bias) value += bias[first + o];
                    to[o] = relu && value < 0 ? 0 : value;
                }
            }
        }
    }
    return 0;
}

/* ---- attention ---- */

static inline float power(float x) { /* e^x for x up to 0 */
    x = x < -87.0f ? -87.0f : x;
    float n = nearbyintf(x * 1.44269504f);
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    int32_t bits = ((int32_t)n + 127) << 23;
    float two;
    memcpy(&two, &bits, 4);
    return p * two;
}

typedef float lanes_t __attribute__((vector_size(64), aligned(4)));
#define LANES 16

static inline float sum_of(lanes_t x) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)x);
#else
    float half[8], sum = 0;
    for (int i = 0; i < 8; i++) half[i] = x[i] + x[i + 8];
    for (int i = 0; i < 8; i++) sum += half[i];
    return sum;
#endif
}

static inline float most_of(const float *x, int64_t count) {
    float lanes[LANES];
    for (int j = 0; j < LANES; j++) lanes[j] = x[0];
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int j = 0; j < LANES; j++) lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
    for (; i < count; i++) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
    for (int j = 1; j < LANES; j++) lanes[0] = lanes[j] > lanes[0] ? lanes[j] : lanes[0];
    return lanes[0];
}

static inline void settle(float *scores, int64_t count) { /* softmax */
    if (!count) return;
    float most = most_of(scores, count), sum = 0;
    for (int64_t i = 0; i < count; i++) scores[i] = power(scores[i] - most);
    for (int64_t i = 0; i < count; i++) sum += scores[i];
    sum = 1.0f / sum;
    for (int64_t i = 0; i < count; i++) scores[i] *= sum;
}

/* Keys and values are kept in 8 bits, with a scale for each head of each token: what attention waits for is memory. */
static inline lanes_t widened(const int8_t *x) {
    lanes_t wide;
#if defined(__AVX512F__)
    wide = (lanes_t)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)x)));
#elif defined(__AVX2__)
    for (int half = 0; half < 2; half++) {
        __m256i whole = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(x + half * 8)));
        _mm256_storeu_ps((float *)&wide + half * 8, _mm256_cvtepi32_ps(whole));
    }
#else
    for (int i = 0; i < LANES; i++) wide[i] = x[i];
#endif
    return wide;
}

/* One head of a token; returns its scale. */
static float keep(const float *x, int64_t size, int8_t *to) {
    float largest = largest_of(x, size), factor = 127.0f / largest;
    for (int64_t i = 0; i < size; i++) to[i] = (int8_t)(int32_t)nearbyintf(x[i] * factor);
    return largest / 127.0f;
}

/* What a head listens to: the token at place t has its key and value at offsets[t] · size, and their scales at offsets[t]. */
typedef struct {
    const int8_t *keys, *values;
    const float *key_scales, *value_scales;
    const int64_t *offsets;
    int64_t count, size;
    float scale;
} heard_t;

/* One head of one query. chunks: of LANES numbers; a constant, so that query and result stay in registers. */
static inline __attribute__((always_inline)) void look(const float *asked, const heard_t *heard, int chunks, float *scores,
                                                       float *to) {
    lanes_t q[chunks], out[chunks];
    for (int c = 0; c < chunks; c++) memcpy(&q[c], asked + c * LANES, sizeof(lanes_t));
    for (int64_t t = 0; t < heard->count; t++) {
        const int8_t *key = heard->keys + heard->offsets[t] * chunks * LANES;
        lanes_t sum = q[0] * widened(key);
        for (int c = 1; c < chunks; c++) sum += q[c] * widened(key + c * LANES);
        scores[t] = heard->scale * heard->key_scales[heard->offsets[t]] * sum_of(sum);
    }
    settle(scores, heard->count);
    for (int c = 0; c < chunks; c++) out[c] = (lanes_t){0};
    for (int64_t t = 0; t < heard->count; t++) {
        const int8_t *value = heard->values + heard->offsets[t] * chunks * LANES;
        float weight = scores[t] * heard->value_scales[heard->offsets[t]];
        for (int c = 0; c < chunks; c++) out[c] += weight * widened(value + c * LANES);
    }
    for (int c = 0; c < chunks; c++) memcpy(to + c * LANES, &out[c], sizeof(lanes_t));
}

static void look_any(const float *asked, const heard_t *heard, float *scores, float *to) {
    int64_t size = heard->size;
    for (int64_t t = 0; t < heard->count; t++) {
        const int8_t *key = heard->keys + heard->offsets[t] * size;
        float sum = 0;
        for (int64_t i = 0; i < size; i++) sum += asked[i] * key[i];
        scores[t] = heard->scale * heard->key_scales[heard->offsets[t]] * sum;
    }
    settle(scores, heard->count);
    for (int64_t i = 0; i < size; i++) to[i] = 0;
    for (int64_t t = 0; t < heard->count; t++) {
        const int8_t *value = heard->values + heard->offsets[t] * size;
        float weight = scores[t] * heard->value_scales[heard->offsets[t]];
        for (int64_t i = 0; i < size; i++) to[i] += weight * value[i];
    }
}

static void look_at(const float *asked, const heard_t *heard, float *scores, float *to) {
    switch (heard->size) {
    case 16: look(asked, heard, 1, scores, to); break;
    case 32: look(asked, heard, 2, scores, to); break;
    case 48: look(asked, heard, 3, scores, to); break;
    case 64: look(asked, heard, 4, scores, to); break;
    case 128: look(asked, heard, 8, scores, to); break;
    default: look_any(asked, heard, scores, to);
    }
}

/* One more token for each of `width` hypotheses of `sentences`: q (N, step), k and v (N, kept), out (N, heads · size). They
   are remembered in (2, P, groups, longest, width, size), scales likewise; owners (P, width, longest) says which slot wrote
   what a hypothesis takes for its past; live (sentences,) which of `all` P each is. `length` counts the new token. */
API int hw_listen(const float *q, int64_t step, const float *k, const float *v, int64_t kept, int8_t *past, float *scales,
                  const int64_t *owners, const int64_t *live, int64_t all, int64_t sentences, int64_t width,
                  int64_t longest, int64_t length, int64_t heads, int64_t groups, int64_t size, float scale, float *out) {
    int64_t *offsets = room((sizeof(int64_t) + sizeof(float)) * length), half = all * groups * longest * width;
    if (!offsets) return 1;
    float *scores = (float *)(offsets + length);
    for (int64_t b = 0; b < sentences; b++) {
        int64_t p = live[b];
        for (int64_t w = 0; w < width; w++)
            for (int64_t g = 0; g < groups; g++) {
                int64_t place = ((p * groups + g) * longest + length - 1) * width + w;
                int64_t row = (b * width + w) * kept + g * size;
                scales[place] = keep(k + row, size, past + place * size);
                scales[half + place] = keep(v + row, size, past + (half + place) * size);
            }
        for (int64_t w = 0; w < width; w++) {
            const int64_t *owner = owners + (p * width + w) * longest;
            for (int64_t t = 0; t < length; t++) offsets[t] = t * width + owner[t];
            for (int64_t h = 0; h < heads; h++) {
                int64_t base = (p * groups + h / (heads / groups)) * longest * width, row = b * width + w;
                heard_t heard = {past + base * size, past + (half + base) * size, scales + base, scales + half + base,
                                 offsets, length, size, scale};
                look_at(q + row * step + h * size, &heard, scores, out + (row * heads + h) * size);
            }
        }
    }
    return 0;
}

/* Sources, which stay as they are: k and v (M, kept) into (2, M · groups, size), those of a sentence side by side, head by
   head. Sentence b is the rows from[b] up to to[b]. */
API int hw_keep(const float *k, const float *v, int64_t kept, const int64_t *from, const int64_t *to, int64_t sentences,
                int64_t total, int64_t groups, int64_t size, int8_t *past, float *scales) {
    int64_t half = total * groups;
    for (int64_t b = 0; b < sentences; b++)
        for (int64_t g = 0; g < groups; g++)
            for (int64_t r = from[b]; r < to[b]; r++) {
                int64_t place = from[b] * groups + g * (to[b] - from[b]) + r - from[b];
                scales[place] = keep(k + r * kept + g * size, size, past + place * size);
                scales[half + place] = keep(v + r * kept + g * size, size, past + (half + place) * size);
            }
    return 0;
}

/* Queries q (N, step) listen to a source that was kept: those of sentence b, rows first[b] up to first[b + 1], to the tokens
   from[b] up to to[b] of all `total`. out (N, heads · size) */
API int hw_hear(const float *q, int64_t step, const int64_t *first, const int8_t *past, const float *scales,
                const int64_t *from, const int64_t *to, int64_t sentences, int64_t total, int64_t heads, int64_t groups,
                int64_t size, float scale, float *out) {
    int64_t longest = 0, half = total * groups;
    for (int64_t b = 0; b < sentences; b++) longest = to[b] - from[b] > longest ? to[b] - from[b] : longest;
    int64_t *offsets = room((sizeof(int64_t) + sizeof(float)) * longest);
    if (!offsets) return 1;
    float *scores = (float *)(offsets + longest);
    for (int64_t t = 0; t < longest; t++) offsets[t] = t;
    for (int64_t b = 0; b < sentences; b++)
        for (int64_t h = 0; h < heads; h++) {
            int64_t count = to[b] - from[b], base = from[b] * groups + h / (heads / groups) * count;
            heard_t heard = {past + base * size, past + (half + base) * size, scales + base, scales + half + base,
                             offsets, count, size, scale};
            for (int64_t r = first[b]; r < first[b + 1]; r++)
                look_at(q + r * step + h * size, &heard, scores, out + (r * heads + h) * size);
        }
    return 0;
}

/* ---- norms and logarithms ---- */

/* (x - mean) / √(variance + eps) · gain + bias; without a bias also without the mean. x may be out. */
static void norm_row(const float *x, int64_t width, const float *gain, const float *bias, float eps, float *out) {
    float mean = 0, square = 0;
    if (bias)
        for (int64_t i = 0; i < width; i++) mean += x[i];
    mean /= width;
    for (int64_t i = 0; i < width; i++) square += (x[i] - mean) * (x[i] - mean);
    float factor = 1.0f / sqrtf(square / width + eps);
    if (bias)
        for (int64_t i = 0; i < width; i++) out[i] = (x[i] - mean) * factor * gain[i] + bias[i];
    else
        for (int64_t i = 0; i < width; i++) out[i] = x[i] * factor * gain[i];
}

/* In place. */
API int hw_log_softmax(float *x, int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; r++, x += width) {
        float most = most_of(x, width), sum = 0;
        for (int64_t i = 0; i < width; i++) sum += power(x[i] - most);
        most += logf(sum);
        for (int64_t i = 0; i < width; i++) x[i] -= most;
    }
    return 0;
}

/* ---- a step of the decoder ---- */

typedef struct {
    const int8_t *weight;
    const float *scale;
    const int32_t *sums;
    const float *bias;
    int64_t inputs, outputs, positive, relu;
} linear_t;

typedef struct {
    const float *gain, *bias;
} norm_t;

typedef struct {
    linear_t ask_hear, say, ask, answer, inner, outer;
    norm_t own, cross, feed;
    int64_t heads, groups, size, cross_heads, cross_groups, cross_size;
    double scale, cross_scale;
    int8_t *past;
    float *past_scales;
    const int8_t *source;
    const float *source_scales;
} layer_t;

/* What all layers of a step have in common: see hw_listen and hw_hear. */
typedef struct {
    const int64_t *owners, *live, *first, *from, *to;
    int64_t all, sentences, width, longest, length, total, before, wide;
    double eps;
} step_t;

static __thread void *bench;
static __thread size_t spread;

static int product(const linear_t *layer, const float *x, int64_t rows, float *y) {
    return hw_linear(x, rows, layer->inputs, layer->weight, layer->scale, layer->sums, layer->bias, y, layer->outputs,
                     layer->positive, layer->relu);
}

/* Before a part: what it reads. Behind it: what it said joins the stream x. before: norms stand before the parts. */
static const float *read_by(const step_t *step, const norm_t *norm, const float *x, int64_t rows, int64_t width, float *to) {
    if (!step->before) return x;
    for (int64_t r = 0; r < rows; r++) norm_row(x + r * width, width, norm->gain, norm->bias, step->eps, to + r * width);
    return to;
}

static void join(const step_t *step, const norm_t *norm, const float *said, int64_t rows, int64_t width, float *x) {
    for (int64_t r = 0; r < rows; r++, x += width, said += width) {
        for (int64_t i = 0; i < width; i++) x[i] += said[i];
        if (!step->before) norm_row(x, width, norm->gain, norm->bias, step->eps, x);
    }
}

/* One token of each hypothesis through all layers: x (N, width), in place. step->wide: the widest that a layer makes. */
API int hw_decode(float *x, int64_t rows, int64_t width, const layer_t *layers, int64_t count, const step_t *step) {
    size_t bytes = sizeof(float) * rows * (2 * step->wide + 2 * width);
    if (bytes > spread) {
        free(bench);
        bench = malloc(bytes);
        spread = bench ? bytes : 0;
    }
    if (!bench) return 1;
    float *made = bench, *heard = made + rows * step->wide, *said = heard + rows * step->wide, *normed = said + rows * width;
    int failed = 0;
    for (const layer_t *l = layers; l < layers + count; l++) {
        const float *y = read_by(step, &l->own, x, rows, width, normed);
        int64_t across = l->ask_hear.outputs, q = l->heads * l->size, k = l->groups * l->size;
        failed |= product(&l->ask_hear, y, rows, made);
        failed |= hw_listen(made, across, made + q, made + q + k, across, l->past, l->past_scales, step->owners, step->live,
                            step->all, step->sentences, step->width, step->longest, step->length, l->heads, l->groups,
                            l->size, l->scale, heard);
        failed |= product(&l->say, heard, rows, said);
        join(step, &l->own, said, rows, width, x);
        y = read_by(step, &l->cross, x, rows, width, normed);
        failed |= product(&l->ask, y, rows, made);
        failed |= hw_hear(made, l->ask.outputs, step->first, l->source, l->source_scales, step->from, step->to,
                          step->sentences, step->total, l->cross_heads, l->cross_groups, l->cross_size, l->cross_scale, heard);
        failed |= product(&l->answer, heard, rows, said);
        join(step, &l->cross, said, rows, width, x);
        y = read_by(step, &l->feed, x, rows, width, normed);
        failed |= product(&l->inner, y, rows, made);
        failed |= product(&l->outer, made, rows, said);
        join(step, &l->feed, said, rows, width, x);
        if (failed) return 1;
    }
    return 0;
}
