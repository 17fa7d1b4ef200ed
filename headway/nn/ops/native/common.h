/* Kernels for int8 decoding on one CPU core: linear layers, attention over a KV cache, a decoder step, a beam search.

   Every row is computed by itself, so that its result does not depend on the other rows. Matrices are row-major; `stride` is
   the distance between rows, in numbers. Exported functions return 0, or 1 where there is no memory. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define API __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline, unused))
#define MIN_MAXIMUM 1e-30f /* in place of the maximum of a row of zeros, to divide by */

/* A vector of numbers, in whatever registers there are. */
#define LANES 16
typedef float lanes_t __attribute__((vector_size(64), aligned(4)));
typedef int32_t ints_t __attribute__((vector_size(64), aligned(4)));

INLINE lanes_t load(const float *from) { return *(const lanes_t *)from; }
INLINE void store(float *to, lanes_t x) { *(lanes_t *)to = x; }
INLINE lanes_t broadcast(float x) { return x - (lanes_t){0}; }

INLINE float sum_of(lanes_t x) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)x);
#else
    float half[8], sum = 0;
    for (int i = 0; i < 8; i++) half[i] = x[i] + x[i + 8];
    for (int i = 0; i < 8; i++) sum += half[i];
    return sum;
#endif
}

INLINE ints_t max_ints(ints_t a, ints_t b) {
#if defined(__AVX512F__)
    return (ints_t)_mm512_max_epi32((__m512i)a, (__m512i)b);
#else
    for (int i = 0; i < LANES; i++) a[i] = a[i] > b[i] ? a[i] : b[i];
    return a;
#endif
}

INLINE lanes_t max_lanes(lanes_t a, lanes_t b) {
#if defined(__AVX512F__)
    return (lanes_t)_mm512_max_ps((__m512)a, (__m512)b);
#else
    for (int i = 0; i < LANES; i++) a[i] = a[i] > b[i] ? a[i] : b[i];
    return a;
#endif
}

INLINE float max_of(lanes_t x) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps((__m512)x);
#else
    for (int i = 1; i < LANES; i++) x[0] = x[i] > x[0] ? x[i] : x[0];
    return x[0];
#endif
}

INLINE lanes_t first_lanes(int64_t count, lanes_t x, float other) {
#if defined(__AVX512F__)
    __mmask16 first = count >= LANES ? 0xffff : (1 << count) - 1;
    return (lanes_t)_mm512_mask_blend_ps(first, _mm512_set1_ps(other), (__m512)x);
#else
    for (int i = 0; i < LANES; i++) x[i] = i < count ? x[i] : other;
    return x;
#endif
}

INLINE int any_true(ints_t mask) { /* of comparisons */
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#else
    int32_t found = 0;
    for (int i = 0; i < LANES; i++) found |= mask[i];
    return found != 0;
#endif
}

INLINE lanes_t round_lanes(lanes_t x) {
#if defined(__AVX512F__)
    return (lanes_t)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    for (int i = 0; i < LANES; i++) x[i] = nearbyintf(x[i]);
    return x;
#endif
}

INLINE lanes_t exp_lanes(lanes_t x) { /* e^x for x ≤ 0 */
    ints_t low = x < -87.0f;
    x = (lanes_t)(((ints_t)x & ~low) | ((ints_t)broadcast(-87.0f) & low));
    lanes_t n = round_lanes(x * 1.44269504f), r = x - n * 0.693359375f + n * 2.12194440e-4f;
    lanes_t p = broadcast(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return p * (lanes_t)((__builtin_convertvector(n, ints_t) + 127) << 23);
}

INLINE int64_t round_up_lanes(int64_t count) { return (count + LANES - 1) / LANES * LANES; }

#define MASKED_SCORE -1e30f /* of keys that do not exist */

/* Softmax in place; `count` is a multiple of LANES. */
INLINE void softmax(float *scores, int64_t count) {
    lanes_t maximum = load(scores), sum = {0};
    for (int64_t i = LANES; i < count; i += LANES) maximum = max_lanes(maximum, load(scores + i));
    maximum = broadcast(max_of(maximum));
    for (int64_t i = 0; i < count; i += LANES) {
        lanes_t part = exp_lanes(load(scores + i) - maximum);
        store(scores + i, part);
        sum += part;
    }
    float factor = 1.0f / sum_of(sum);
    for (int64_t i = 0; i < count; i += LANES) store(scores + i, load(scores + i) * factor);
}

/* Scratch memory, one buffer for each use and thread, freed when the thread ends. Asking for more may discard its contents. */
enum slot { QUANTISED, ATTENTION, STEP, STREAM, SCORES, SEARCH, SLOTS };
void *scratch(enum slot slot, size_t bytes);

/* The largest magnitude in a row. Without their signs, floats are in the order of their bits, and NaN is above all of them,
   so that a row with a NaN gives NaN. */
INLINE float max_abs(const float *x, int64_t count) {
    ints_t tops = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) tops = max_ints(tops, (ints_t)load(x + i) & 0x7fffffff);
    int32_t top = 0, bits, each[LANES];
    memcpy(each, &tops, sizeof each);
    for (int j = 0; j < LANES; j++) top = each[j] > top ? each[j] : top;
    for (; i < count; i++) {
        memcpy(&bits, x + i, 4);
        bits &= 0x7fffffff;
        top = bits > top ? bits : top;
    }
    float largest;
    memcpy(&largest, &top, 4);
    return largest < MIN_MAXIMUM ? MIN_MAXIMUM : largest;
}

/* x · factor + zero, rounded to 8-bit integers: added to this float, an integer is in its last bits. */
INLINE void quantise(const float *x, int64_t count, float factor, int zero, int8_t *to) {
    const float last_bits = 12582912.0f + zero;
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + LANES <= count; i += LANES)
        _mm_storeu_si128((__m128i *)(to + i), _mm512_cvtepi32_epi8((__m512i)(load(x + i) * factor + last_bits)));
#endif
    for (; i < count; i++) {
        float sum = x[i] * factor + last_bits;
        int32_t bits;
        memcpy(&bits, &sum, 4);
        to[i] = (int8_t)bits;
    }
}

/* ---- linear.c ---- */

typedef struct {
    const int8_t *weight;   /* in the layout of hw_pack */
    const float *scale;     /* of each output */
    const int32_t *offsets; /* what a nonzero zero point has added to each output */
    const float *bias;      /* or NULL */
    int64_t inputs, outputs, positive, activation;
} linear_t;

enum activation { IDENTITY, RELU, SILU }; /* of the outputs */

typedef struct {
    const float *gain, *bias; /* no bias: RMS norm; no gain: no norm at all */
} norm_t;

typedef struct {
    int8_t *values;
    float *scales; /* of each row */
} quantised_t;

/* y = xWᵀ + b, then the activation of the layer: rows are quantised, then multiplied for the outputs from `begin`, a multiple of
   64, up to `end`; `stride` is that of y. */
int linear(const linear_t *layer, const float *x, int64_t rows, float *y);
int quantise_rows(const linear_t *layer, const float *x, int64_t rows, quantised_t *out);
void multiply(const linear_t *layer, const quantised_t *x, int64_t rows, int64_t begin, int64_t end, float *y, int64_t stride);
void norm_row(const norm_t *norm, const float *x, int64_t width, float eps, float *out);

/* ---- attention.c, encoder_attention.c ---- */

typedef struct {
    int64_t heads, groups, size;
    double scale;
} heads_t;

API int hw_encoder_attention(const float *q, const float *k, const float *v, int64_t stride, const int64_t *begin,
                             const int64_t *end, int64_t sentences, int64_t first_row, int64_t heads, int64_t groups,
                             int64_t size, float scale, float *out);
API int hw_self_attention(const float *q, int64_t stride, const float *k, const float *v, int64_t kv_stride, int8_t *kv,
                          float *scales, const int64_t *owners, const int64_t *live, int64_t all, int64_t sentences,
                          int64_t width, int64_t now, int64_t capacity, int64_t length, int64_t heads, int64_t groups,
                          int64_t size, float scale, float *out);
API int hw_store_kv(const float *k, const float *v, int64_t kv_stride, const int64_t *begin, const int64_t *end,
                    int64_t sentences, int64_t first_row, int64_t total, int64_t groups, int64_t size, int8_t *kv,
                    float *scales);
API int hw_cross_attention(const float *q, int64_t stride, int64_t now, const int8_t *kv, const float *scales,
                           const int64_t *live, const int64_t *begin, const int64_t *end, int64_t sentences, int64_t total,
                           int64_t heads, int64_t groups, int64_t size, float scale, float *out);

/* ---- layers.c ---- */

/* The fields of these structures, their order and types, are those of headway/nn/ops/native/tables.py. */
typedef struct {
    linear_t query, key_value, output; /* self-attention: `query` projects to queries, keys and values */
    norm_t norm;
    heads_t heads;
    int8_t *kv; /* the KV cache, see hw_self_attention and hw_store_kv */
    float *scales;
} attention_t;

typedef struct {
    attention_t self_attention, cross_attention;
    linear_t inner, outer;
    norm_t norm;
} layer_t;

typedef struct {
    const float *embedding, *positions; /* a token is their sum, the embedding times `embedding_scale` */
    norm_t embedding_norm, final_norm;
    const layer_t *layers;
    int64_t count, width, max_width, pre_norm; /* max_width: of anything that a layer computes of a row */
    double embedding_scale, eps;
} stack_table_t;

/* What hw_self_attention and hw_cross_attention need to know of the KV cache. */
typedef struct {
    int64_t *owners;
    const int64_t *begin, *end; /* rows of each of the source sentences */
    int64_t sentences, width, now, capacity, length, total;
} cache_t;

#define PANEL 66 /* rows, approximately, that go through all layers together */

API int hw_decode(const stack_table_t *stack, const cache_t *cache, const int64_t *live, int64_t sentences, const int64_t *ids,
                  float *x);
