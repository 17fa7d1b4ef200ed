/* int8 linear layers, norms, log-softmax, and scratch memory.

   Packed weights are in blocks of 64 outputs; in a block, for each 4 inputs, the 4 weights of each output are contiguous. */

#include "common.h"
#include <pthread.h>

#define BLOCK 64 /* outputs that are computed together */
#define ROWS 6   /* rows, likewise */

static __thread struct {
    void *at[SLOTS];
    size_t size[SLOTS];
} buffers;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void free_buffers(void *unused) {
    (void)unused;
    for (int slot = 0; slot < SLOTS; slot++) free(buffers.at[slot]);
}
static void make_key(void) { pthread_key_create(&key, free_buffers); }

void *scratch(enum slot slot, size_t bytes) {
    if (bytes <= buffers.size[slot] && buffers.at[slot]) return buffers.at[slot];
    pthread_once(&once, make_key);
    pthread_setspecific(key, &buffers); /* not NULL, so that `free_buffers` is called */
    free(buffers.at[slot]);
    buffers.at[slot] = aligned_alloc(64, (bytes / 64 + 1) * 64);
    buffers.size[slot] = buffers.at[slot] ? bytes : 0;
    return buffers.at[slot];
}

/* The largest magnitude of a quantised input; unsigned ones, where no input is negative, go up to twice that, plus 1. Without
   VNNI, pairs of products are added in 16 bits, into which two of 7 by 8 bits just fit. */
#if defined(__AVX512VNNI__) && defined(__AVX512F__)
#define MAX_SIGNED_INPUT 127
#else
#define MAX_SIGNED_INPUT 63
#endif
#define ZERO (MAX_SIGNED_INPUT + 1) /* zero point: instructions want unsigned inputs */

API int hw_max_signed_input(void) { return MAX_SIGNED_INPUT; }

/* offsets: what ZERO adds to each output; 0 if no input is negative. */
API int hw_pack(const int8_t *weight, int64_t outputs, int64_t inputs, int64_t positive, int8_t *packed, int32_t *offsets) {
    int64_t fours = (inputs + 3) / 4;
    for (int64_t o = 0; o < outputs; o++) {
        const int8_t *row = weight + o * inputs;
        int8_t *to = packed + (o / BLOCK * fours * BLOCK + o % BLOCK) * 4;
        int32_t sum = 0;
        for (int64_t i = 0; i < inputs; i += 4) memcpy(to + i * BLOCK, row + i, inputs - i < 4 ? inputs - i : 4);
        for (int64_t i = 0; i < inputs; i++) sum += row[i];
        offsets[o] = positive ? 0 : ZERO * sum;
    }
    return 0;
}

/* sums[r][o] = Σ x[r][i] · weight[o][i] for COUNT rows of x, which are `fours` · 4 wide, and one block of outputs. Meanwhile
   `share` bytes of `next`, the next block of weights, are prefetched from the third-level cache. */
#if defined(__AVX512VNNI__) && defined(__AVX512F__)
#define KERNEL(COUNT)                                                                                                  \
    static void block_of_##COUNT(const uint8_t *x, int64_t fours, const int8_t *weight, int32_t *sums,                 \
                                 const char *next, int64_t share) {                                                    \
        __m512i acc[COUNT][4];                                                                                         \
        for (int r = 0; r < COUNT; r++)                                                                                \
            for (int j = 0; j < 4; j++) acc[r][j] = _mm512_setzero_si512();                                            \
        for (int64_t f = 0; f < fours; f++, next += share) {                                                           \
            __m512i w[4];                                                                                              \
            __builtin_prefetch(next, 0, 2);                                                                            \
            for (int j = 0; j < 4; j++) w[j] = _mm512_loadu_si512(weight + (f * 4 + j) * 64);                          \
            for (int r = 0; r < COUNT; r++) {                                                                          \
                int32_t four;                                                                                          \
                memcpy(&four, x + (r * fours + f) * 4, 4);                                                             \
                __m512i same = _mm512_set1_epi32(four);                                                                \
                for (int j = 0; j < 4; j++) acc[r][j] = _mm512_dpbusd_epi32(acc[r][j], same, w[j]);                    \
            }                                                                                                          \
        }                                                                                                              \
        for (int r = 0; r < COUNT; r++)                                                                                \
            for (int j = 0; j < 4; j++) _mm512_storeu_si512(sums + r * BLOCK + j * 16, acc[r][j]);                     \
    }
#elif defined(__AVX2__)
/* A block is computed in parts: there are only 16 registers. */
#define WIDE(COUNT) (COUNT > 2 ? 2 : COUNT > 1 ? 4 : 8)
#define KERNEL(COUNT)                                                                                                  \
    static void block_of_##COUNT(const uint8_t *x, int64_t fours, const int8_t *weight, int32_t *sums,                 \
                                 const char *next, int64_t share) {                                                    \
        const __m256i ones = _mm256_set1_epi16(1);                                                                     \
        for (int part = 0; part < 8; part += WIDE(COUNT)) {                                                            \
            __m256i acc[COUNT][WIDE(COUNT)];                                                                           \
            for (int r = 0; r < COUNT; r++)                                                                            \
                for (int j = 0; j < WIDE(COUNT); j++) acc[r][j] = _mm256_setzero_si256();                              \
            for (int64_t f = 0; f < fours; f++) {                                                                      \
                __builtin_prefetch(next + f * share, 0, 2);                                                            \
                for (int r = 0; r < COUNT; r++) {                                                                      \
                    int32_t four;                                                                                      \
                    memcpy(&four, x + (r * fours + f) * 4, 4);                                                         \
                    __m256i same = _mm256_set1_epi32(four);                                                            \
                    for (int j = 0; j < WIDE(COUNT); j++) {                                                            \
                        __m256i w = _mm256_loadu_si256((const __m256i *)(weight + f * 256 + (part + j) * 32));         \
                        __m256i pairs = _mm256_maddubs_epi16(same, w);                                                 \
                        acc[r][j] = _mm256_add_epi32(acc[r][j], _mm256_madd_epi16(pairs, ones));                       \
                    }                                                                                                  \
                }                                                                                                      \
            }                                                                                                          \
            for (int r = 0; r < COUNT; r++)                                                                            \
                for (int j = 0; j < WIDE(COUNT); j++)                                                                  \
                    _mm256_storeu_si256((__m256i *)(sums + r * BLOCK + (part + j) * 8), acc[r][j]);                    \
        }                                                                                                              \
    }
#else
#define KERNEL(COUNT)                                                                                                  \
    static void block_of_##COUNT(const uint8_t *x, int64_t fours, const int8_t *weight, int32_t *sums,                 \
                                 const char *next, int64_t share) {                                                    \
        memset(sums, 0, sizeof(int32_t) * BLOCK * COUNT);                                                              \
        for (int r = 0; r < COUNT; r++)                                                                                \
            for (int64_t f = 0; f < fours; f++)                                                                        \
                for (int o = 0; o < BLOCK; o++)                                                                        \
                    for (int i = 0; i < 4; i++)                                                                        \
                        sums[r * BLOCK + o] += (int32_t)x[(r * fours + f) * 4 + i] * weight[(f * BLOCK + o) * 4 + i];  \
    }
#endif
KERNEL(6)
KERNEL(4)
KERNEL(2)
KERNEL(1)

/* x / (1 + e^-x), with the exponential of a negative number: it cannot overflow. */
INLINE lanes_t silu(lanes_t x) {
    ints_t negative = x < 0;
    lanes_t small = exp_lanes((lanes_t)((ints_t)x | INT32_MIN)); /* e^-|x| */
    lanes_t upper = (lanes_t)(((ints_t)small & negative) | ((ints_t)broadcast(1.0f) & ~negative));
    return x * upper / (small + 1.0f);
}

INLINE lanes_t activate(enum activation activation, lanes_t x) {
    if (activation == RELU) return (lanes_t)((ints_t)x & ~(x < 0));
    return activation == SILU ? silu(x) : x;
}

/* Sums to outputs, for the first `count` of a block that begins with output `first`. `x_scale`: of the row of inputs. */
INLINE void finish_outputs(const int32_t *sums, const linear_t *l, int64_t first, int64_t count, float x_scale, float *to) {
    int64_t o = 0;
    for (; o + LANES <= count; o += LANES) {
        ints_t exact = *(const ints_t *)(sums + o) - *(const ints_t *)(l->offsets + first + o);
        lanes_t value = __builtin_convertvector(exact, lanes_t) * (load(l->scale + first + o) * x_scale);
        if (l->bias) value += load(l->bias + first + o);
        store(to + o, activate(l->activation, value));
    }
    for (; o < count; o++) {
        float value = (float)(sums[o] - l->offsets[first + o]) * (l->scale[first + o] * x_scale);
        if (l->bias) value += l->bias[first + o];
        to[o] = activate(l->activation, broadcast(value))[0];
    }
}

int quantise_rows(const linear_t *l, const float *x, int64_t rows, quantised_t *out) {
    int64_t padded = (l->inputs + 3) / 4 * 4;
    out->values = scratch(QUANTISED, rows * (padded + sizeof(float)));
    out->scales = (float *)(out->values + rows * padded);
    if (!out->values) return 1;
    float max_input = l->positive ? 2 * MAX_SIGNED_INPUT + 1 : MAX_SIGNED_INPUT;
    for (int64_t r = 0; r < rows; r++) {
        int8_t *to = out->values + r * padded;
        float largest = max_abs(x + r * l->inputs, l->inputs);
        quantise(x + r * l->inputs, l->inputs, max_input / largest, l->positive ? 0 : ZERO, to);
        memset(to + l->inputs, 0, padded - l->inputs);
        out->scales[r] = largest / max_input;
    }
    return 0;
}

void multiply(const linear_t *l, const quantised_t *x, int64_t rows, int64_t begin, int64_t end, float *y, int64_t stride) {
    int64_t fours = (l->inputs + 3) / 4, padded = fours * 4, passes = (rows + ROWS - 1) / ROWS;
    int64_t share = (4 * BLOCK + passes - 1) / passes; /* of the next block, for each 4 inputs of a pass */
    for (int64_t first = begin; first < end; first += BLOCK) {
        int64_t count = end - first < BLOCK ? end - first : BLOCK;
        const int8_t *w = l->weight + first * padded;
        const char *next = (const char *)w + BLOCK * padded;
        for (int64_t r = 0; r < rows; next += share * fours) {
            int32_t acc[ROWS * BLOCK];
            int64_t left = rows - r, now = left >= 6 ? 6 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
            const uint8_t *from = (const uint8_t *)x->values + r * padded;
            if (now == 6) block_of_6(from, fours, w, acc, next, share);
            else if (now == 4) block_of_4(from, fours, w, acc, next, share);
            else if (now == 2) block_of_2(from, fours, w, acc, next, share);
            else block_of_1(from, fours, w, acc, next, share);
            for (int64_t i = 0; i < now; i++, r++)
                finish_outputs(acc + i * BLOCK, l, first, count, x->scales[r], y + r * stride + first - begin);
        }
    }
}

int linear(const linear_t *l, const float *x, int64_t rows, float *y) {
    quantised_t quantised;
    if (quantise_rows(l, x, rows, &quantised)) return 1;
    multiply(l, &quantised, rows, 0, l->outputs, y, l->outputs);
    return 0;
}

API int hw_linear(const float *x, int64_t rows, int64_t inputs, const int8_t *weight, const float *scale,
                  const int32_t *offsets, const float *bias, float *y, int64_t outputs, int64_t positive,
                  int64_t activation) {
    linear_t layer = {weight, scale, offsets, bias, inputs, outputs, positive, activation};
    return linear(&layer, x, rows, y);
}

/* Layer norm: (x - mean) / √(variance + eps) · gain + bias; without a bias RMS norm. x may be out. */
void norm_row(const norm_t *norm, const float *x, int64_t width, float eps, float *out) {
    const float *gain = norm->gain, *bias = norm->bias;
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
        int64_t i = 0;
        float maximum = x[0], sum = 0, rest[LANES];
        for (; i < width; i++) maximum = x[i] > maximum ? x[i] : maximum;
        for (i = 0; i + LANES <= width; i += LANES) sum += sum_of(exp_lanes(load(x + i) - maximum));
        for (int j = 0; j < LANES; j++) rest[j] = i + j < width ? x[i + j] : -INFINITY;
        if (i < width) sum += sum_of(exp_lanes(load(rest) - maximum));
        maximum += logf(sum);
        for (i = 0; i < width; i++) x[i] -= maximum;
    }
    return 0;
}
