/* Kernels for one processor core, for a search on the CPU. Every row is worked out by itself, so that its result does not
   depend on its neighbours. Matrices are row-major; `step` is the distance between rows, in numbers. What is exported
   returns 0, or 1 where there is no memory. */

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
#define LEAST 1e-30f /* stands for the largest of a row of zeros */

/* Numbers that are worked on together, in whatever registers there are. */
#define LANES 16
typedef float lanes_t __attribute__((vector_size(64), aligned(4)));
typedef int32_t ints_t __attribute__((vector_size(64), aligned(4)));

INLINE lanes_t load(const float *from) { return *(const lanes_t *)from; }
INLINE void store(float *to, lanes_t x) { *(lanes_t *)to = x; }
INLINE lanes_t all(float x) { return x - (lanes_t){0}; }

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

INLINE ints_t larger(ints_t a, ints_t b) {
#if defined(__AVX512F__)
    return (ints_t)_mm512_max_epi32((__m512i)a, (__m512i)b);
#else
    for (int i = 0; i < LANES; i++) a[i] = a[i] > b[i] ? a[i] : b[i];
    return a;
#endif
}

INLINE lanes_t higher(lanes_t a, lanes_t b) {
#if defined(__AVX512F__)
    return (lanes_t)_mm512_max_ps((__m512)a, (__m512)b);
#else
    for (int i = 0; i < LANES; i++) a[i] = a[i] > b[i] ? a[i] : b[i];
    return a;
#endif
}

INLINE float most_of(lanes_t x) {
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

INLINE int any(ints_t mask) { /* of comparisons */
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#else
    int32_t found = 0;
    for (int i = 0; i < LANES; i++) found |= mask[i];
    return found != 0;
#endif
}

INLINE lanes_t nearest(lanes_t x) {
#if defined(__AVX512F__)
    return (lanes_t)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    for (int i = 0; i < LANES; i++) x[i] = nearbyintf(x[i]);
    return x;
#endif
}

INLINE lanes_t power(lanes_t x) { /* e^x for x up to 0 */
    ints_t low = x < -87.0f;
    x = (lanes_t)(((ints_t)x & ~low) | ((ints_t)all(-87.0f) & low));
    lanes_t n = nearest(x * 1.44269504f), r = x - n * 0.693359375f + n * 2.12194440e-4f;
    lanes_t p = all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return p * (lanes_t)((__builtin_convertvector(n, ints_t) + 127) << 23);
}

INLINE int64_t whole_lanes(int64_t count) { return (count + LANES - 1) / LANES * LANES; }

#define NOTHING -1e30f /* the score of what is not there */

/* softmax of `count` scores, which is a multiple of LANES */
INLINE void settle(float *scores, int64_t count) {
    lanes_t most = load(scores), sum = {0};
    for (int64_t i = LANES; i < count; i += LANES) most = higher(most, load(scores + i));
    most = all(most_of(most));
    for (int64_t i = 0; i < count; i += LANES) {
        lanes_t part = power(load(scores + i) - most);
        store(scores + i, part);
        sum += part;
    }
    float factor = 1.0f / sum_of(sum);
    for (int64_t i = 0; i < count; i += LANES) store(scores + i, load(scores + i) * factor);
}

/* Memory of this thread, which keeps it until it ends. What it held may be gone when more is asked for. */
enum slot { ROUNDED, LISTENING, STEP, STREAM, SCORES, CHOICE, SLOTS };
void *room(enum slot slot, size_t bytes);

/* The largest number of a row, without its sign. Floats are then in the order of their bits, and those that are no numbers
   come last, so that what is made of them is none either. */
INLINE float largest_of(const float *x, int64_t count) {
    ints_t tops = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) tops = larger(tops, (ints_t)load(x + i) & 0x7fffffff);
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
    return largest < LEAST ? LEAST : largest;
}

/* x · factor + zero as whole numbers of 8 bits. Added to this float, whole numbers are its last bits. */
INLINE void rounded(const float *x, int64_t count, float factor, int zero, int8_t *to) {
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

/* ---- products.c ---- */

typedef struct {
    const int8_t *weight;   /* as hw_pack lays it */
    const float *scale;     /* of each output */
    const int32_t *offsets; /* what zero, where it is no 0, has added to each output */
    const float *bias;      /* or NULL */
    int64_t inputs, outputs, positive, relu;
} linear_t;

typedef struct {
    const float *gain, *bias; /* without a bias also without the mean; without a gain no norm at all */
} norm_t;

typedef struct {
    int8_t *whole;
    float *steps; /* what 1 of them is worth, of each row */
} rounded_t;

/* y = xWᵀ + b, and relu of it if asked for: rows are rounded, then multiplied for the outputs from `begin`, a multiple of 64,
   up to `end`; `step` is between rows of y. */
int product(const linear_t *layer, const float *x, int64_t rows, float *y);
int round_rows(const linear_t *layer, const float *x, int64_t rows, rounded_t *made);
void multiply(const linear_t *layer, const rounded_t *x, int64_t rows, int64_t begin, int64_t end, float *y, int64_t step);
void norm_row(const norm_t *norm, const float *x, int64_t width, float eps, float *out);

/* ---- attention.c, converse.c ---- */

typedef struct {
    int64_t heads, groups, size;
    double scale;
} heads_t;

API int hw_converse(const float *q, const float *k, const float *v, int64_t step, const int64_t *from, const int64_t *to,
                    int64_t sentences, int64_t begin, int64_t heads, int64_t groups, int64_t size, float scale, float *out);
API int hw_listen(const float *q, int64_t step, const float *k, const float *v, int64_t kept, int8_t *past, float *scales,
                  const int64_t *owners, const int64_t *live, int64_t all, int64_t sentences, int64_t width, int64_t now,
                  int64_t longest, int64_t length, int64_t heads, int64_t groups, int64_t size, float scale, float *out);
API int hw_keep(const float *k, const float *v, int64_t kept, const int64_t *from, const int64_t *to, int64_t sentences,
                int64_t begin, int64_t total, int64_t groups, int64_t size, int8_t *past, float *scales);
API int hw_hear(const float *q, int64_t step, int64_t now, const int8_t *past, const float *scales, const int64_t *live,
                const int64_t *from, const int64_t *to, int64_t sentences, int64_t total, int64_t heads, int64_t groups,
                int64_t size, float scale, float *out);

/* ---- layers.c ---- */

typedef struct {
    linear_t ask, hear, say; /* `ask` also hears, where all is said by the same words */
    norm_t norm;
    heads_t heads;
    int8_t *past; /* what is listened to, see hw_listen and hw_keep */
    float *scales;
} attention_t;

typedef struct {
    attention_t own, cross;
    linear_t inner, outer;
    norm_t norm;
} layer_t;

typedef struct {
    const float *words, *positions; /* of which a token is the sum, words times `factor` */
    norm_t start, end;
    const layer_t *layers;
    int64_t count, width, wide, before; /* wide: the most that a layer makes of a row; before: norms stand before the parts */
    double factor, eps;
} stack_of_t;

/* What hypotheses remember: see hw_listen and hw_hear. */
typedef struct {
    int64_t *owners;
    const int64_t *from, *to; /* of all P sources */
    int64_t all, width, now, longest, length, total;
} past_t;

#define PANEL 66 /* rows that are taken through everything together, about */

API int hw_decode(const stack_of_t *stack, const past_t *past, const int64_t *live, int64_t sentences, const int64_t *ids,
                  float *x);
