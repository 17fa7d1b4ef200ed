/* Attention to keys and values that stay where they were written. They are kept in 8 bits, with a scale for each head of a
   token: what attention waits for is memory. Keys have 128 added, so that sums of products can take them for positive. */

#include "common.h"

#define MIDDLE 128

/* ---- scores of 16 keys at once ---- */

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
static inline __mmask64 there(int64_t count) { return count >= 64 ? ~0ULL : (1ULL << count) - 1; }

/* Of four vectors the sums, as four numbers. */
static inline __m128i sums_of_4(__m512i a, __m512i b, __m512i c, __m512i d) {
    __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    __m512i abcd = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(abcd), _mm512_extracti64x4_epi64(abcd, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

INLINE ints_t dots(const int8_t *asked, const int8_t *keys, const int32_t *offsets, int64_t size) {
    __m512i all = _mm512_setzero_si512(), none = all;
    for (int64_t i = 0; i < size; i += 64) /* what MIDDLE would add */
        none = _mm512_dpbusd_epi32(none, _mm512_set1_epi8((char)MIDDLE), _mm512_maskz_loadu_epi8(there(size - i), asked + i));
    for (int part = 0; part < 4; part++) {
        __m512i acc[4];
        for (int t = 0; t < 4; t++) {
            const int8_t *key = keys + offsets[part * 4 + t] * size;
            acc[t] = _mm512_sub_epi32(_mm512_setzero_si512(), none);
            for (int64_t i = 0; i < size; i += 64)
                acc[t] = _mm512_dpbusd_epi32(acc[t], _mm512_maskz_loadu_epi8(there(size - i), key + i),
                                             _mm512_maskz_loadu_epi8(there(size - i), asked + i));
        }
        __m512i sums = _mm512_castsi128_si512(sums_of_4(acc[0], acc[1], acc[2], acc[3]));
        all = _mm512_mask_shuffle_i32x4(all, 0xf << part * 4, sums, sums, 0); /* to its place */
    }
    return (ints_t)all;
}
#else
INLINE ints_t dots(const int8_t *asked, const int8_t *keys, const int32_t *offsets, int64_t size) {
    ints_t sums;
    for (int t = 0; t < LANES; t++) {
        const uint8_t *key = (const uint8_t *)keys + offsets[t] * size;
        int32_t sum = 0;
        for (int64_t i = 0; i < size; i++) sum += ((int32_t)key[i] - MIDDLE) * asked[i];
        sums[t] = sum;
    }
    return sums;
}
#endif

INLINE lanes_t at(const float *from, const int32_t *offsets) {
#if defined(__AVX512F__)
    return (lanes_t)_mm512_i32gather_ps(_mm512_loadu_si512(offsets), from, 4);
#else
    lanes_t found;
    for (int i = 0; i < LANES; i++) found[i] = from[offsets[i]];
    return found;
#endif
}

/* ---- a head of a query ---- */

/* What it listens to: the token at place t has its key and value at offsets[t] · size, and their scales at offsets[t]. There
   are offsets up to the next multiple of LANES, of tokens that are there. */
typedef struct {
    const int8_t *keys, *values;
    const float *key_scales, *value_scales;
    const int32_t *offsets;
    int64_t count, size;
    float scale;
} heard_t;

INLINE lanes_t widened(const int8_t *x) {
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

/* chunks: of LANES numbers; a constant, so that the result stays in registers. */
INLINE void mix(const heard_t *heard, int chunks, const float *weights, float *to) {
    lanes_t out[chunks];
    for (int c = 0; c < chunks; c++) out[c] = all(0);
    for (int64_t t = 0; t < heard->count; t++) {
        const int8_t *value = heard->values + (int64_t)heard->offsets[t] * chunks * LANES;
        for (int c = 0; c < chunks; c++) out[c] += weights[t] * widened(value + c * LANES);
    }
    for (int c = 0; c < chunks; c++) store(to + c * LANES, out[c]);
}

static void mix_any(const heard_t *heard, const float *weights, float *to) {
    for (int64_t i = 0; i < heard->size; i++) to[i] = 0;
    for (int64_t t = 0; t < heard->count; t++)
        for (int64_t i = 0; i < heard->size; i++) to[i] += weights[t] * heard->values[heard->offsets[t] * heard->size + i];
}

/* A head of a query is a chain of small steps, each waiting for the one before. So several go through each step together. */
#define ASKED 32

typedef struct {
    const float *q;
    heard_t heard;
    float *to;
} question_t;

typedef struct {
    question_t questions[ASKED];
    float factors[ASKED];
    int64_t count, longest, size; /* longest: of what is heard, a multiple of LANES */
    float *scores;                /* (ASKED, longest) */
    int8_t *asked;                /* (ASKED, size) */
    int32_t *offsets;             /* (rows, longest) */
} desk_t;

static int desk(int64_t rows, int64_t longest, int64_t size, desk_t *made) {
    made->count = 0, made->longest = whole_lanes(longest), made->size = size;
    made->scores = room(LISTENING, made->longest * (rows * sizeof(int32_t) + ASKED * sizeof(float)) + ASKED * size);
    made->offsets = (int32_t *)(made->scores + ASKED * made->longest);
    made->asked = (int8_t *)(made->offsets + rows * made->longest);
    return !made->scores;
}

static void score_all(desk_t *d) {
    int64_t size = d->size;
    for (int64_t n = 0; n < d->count; n++) {
        const question_t *one = d->questions + n;
        float largest = largest_of(one->q, size);
        rounded(one->q, size, 127 / largest, 0, d->asked + n * size);
        d->factors[n] = one->heard.scale * largest / 127;
    }
    for (int64_t n = 0; n < d->count; n++) {
        const heard_t *heard = &d->questions[n].heard;
        float *scores = d->scores + n * d->longest;
        for (int64_t t = 0; t < heard->count; t += LANES) {
            ints_t whole = dots(d->asked + n * size, heard->keys, heard->offsets + t, size);
            lanes_t scales = at(heard->key_scales, heard->offsets + t) * d->factors[n];
            store(scores + t, first_lanes(heard->count - t, __builtin_convertvector(whole, lanes_t) * scales, NOTHING));
        }
    }
}

static void mix_all(desk_t *d) {
    for (int64_t n = 0; n < d->count; n++) {
        const heard_t *heard = &d->questions[n].heard;
        float *scores = d->scores + n * d->longest;
        if (heard->count) settle(scores, whole_lanes(heard->count));
        for (int64_t t = 0; t < heard->count; t += LANES)
            store(scores + t, load(scores + t) * at(heard->value_scales, heard->offsets + t));
    }
    for (int64_t n = 0; n < d->count; n++) {
        const question_t *one = d->questions + n;
        const float *weights = d->scores + n * d->longest;
        switch (d->size) {
        case 16: mix(&one->heard, 1, weights, one->to); break;
        case 32: mix(&one->heard, 2, weights, one->to); break;
        case 48: mix(&one->heard, 3, weights, one->to); break;
        case 64: mix(&one->heard, 4, weights, one->to); break;
        case 128: mix(&one->heard, 8, weights, one->to); break;
        default: mix_any(&one->heard, weights, one->to);
        }
    }
}

static void answer(desk_t *d) {
    score_all(d);
    mix_all(d);
    d->count = 0;
}

static void ask(desk_t *d, const float *q, const heard_t *heard, float *to) {
    d->questions[d->count++] = (question_t){q, *heard, to};
    if (d->count == ASKED) answer(d);
}

/* ---- keeping and listening ---- */

/* One head of a token; returns its scale. */
static float keep(const float *x, int64_t size, int zero, int8_t *to) {
    float largest = largest_of(x, size);
    rounded(x, size, 127 / largest, zero, to);
    return largest / 127;
}

/* One more token for each of `now` hypotheses of `sentences`: q (N, step), k and v (N, kept), out (N, heads · size). They are
   remembered in (2, P, groups, longest, width, size), scales likewise; owners (P, width, longest) says which slot wrote what
   a hypothesis takes for its past; live (sentences,) which of `all` P each is. `length` counts the new token. */
API int hw_listen(const float *q, int64_t step, const float *k, const float *v, int64_t kept, int8_t *past, float *scales,
                  const int64_t *owners, const int64_t *live, int64_t all, int64_t sentences, int64_t width, int64_t now,
                  int64_t longest, int64_t length, int64_t heads, int64_t groups, int64_t size, float scale, float *out) {
    int64_t half = all * groups * longest * width, each = heads / groups, last = (length - 1) * width;
    desk_t own;
    if (desk(now, length, size, &own)) return 1;
    for (int64_t b = 0; b < sentences; b++) {
        int64_t p = live[b];
        for (int64_t w = 0; w < now; w++) {
            const int64_t *owner = owners + (p * width + w) * longest;
            int32_t *offsets = own.offsets + w * own.longest;
            for (int64_t t = 0; t < own.longest; t++) offsets[t] = t < length ? (int32_t)(t * width + owner[t]) : 0;
            for (int64_t g = 0; g < groups; g++) {
                int64_t row = (b * now + w) * kept + g * size, place = (p * groups + g) * longest * width + last + w;
                scales[place] = keep(k + row, size, MIDDLE, past + place * size);
                scales[half + place] = keep(v + row, size, 0, past + (half + place) * size);
            }
        }
        for (int64_t h = 0; h < heads; h++) {
            int64_t base = (p * groups + h / each) * longest * width;
            heard_t heard = {past + base * size, past + (half + base) * size, scales + base, scales + half + base,
                             own.offsets, length, size, scale};
            for (int64_t r = b * now; r < (b + 1) * now; r++, heard.offsets += own.longest)
                ask(&own, q + r * step + h * size, &heard, out + (r * heads + h) * size);
        }
        answer(&own);
    }
    return 0;
}

/* Sources, which stay as they are: k and v (M, kept) into (2, M · groups, size), those of a sentence side by side, head by
   head. Sentence b is the rows from[b] up to to[b] of `total`; that at k and v is the row `begin`. */
API int hw_keep(const float *k, const float *v, int64_t kept, const int64_t *from, const int64_t *to, int64_t sentences,
                int64_t begin, int64_t total, int64_t groups, int64_t size, int8_t *past, float *scales) {
    int64_t half = total * groups;
    for (int64_t b = 0; b < sentences; b++)
        for (int64_t g = 0; g < groups; g++)
            for (int64_t r = from[b]; r < to[b]; r++) {
                int64_t place = from[b] * groups + g * (to[b] - from[b]) + r - from[b], at = (r - begin) * kept + g * size;
                scales[place] = keep(k + at, size, MIDDLE, past + place * size);
                scales[half + place] = keep(v + at, size, 0, past + (half + place) * size);
            }
    return 0;
}

/* Queries q (N, step), `now` of each sentence one after the other, listen to a source that was kept. live (sentences,): which
   of the sources from[p] up to to[p] it is that a sentence hears; NULL: the first, the second … out (N, heads · size) */
API int hw_hear(const float *q, int64_t step, int64_t now, const int8_t *past, const float *scales, const int64_t *live,
                const int64_t *from, const int64_t *to, int64_t sentences, int64_t total, int64_t heads, int64_t groups,
                int64_t size, float scale, float *out) {
    int64_t longest = 1, half = total * groups;
    for (int64_t b = 0; b < sentences; b++) {
        int64_t p = live ? live[b] : b;
        longest = to[p] - from[p] > longest ? to[p] - from[p] : longest;
    }
    desk_t own;
    if (desk(1, longest, size, &own)) return 1;
    for (int64_t b = 0; b < sentences; b++) {
        int64_t p = live ? live[b] : b, count = to[p] - from[p];
        for (int64_t t = 0; t < whole_lanes(count); t++) own.offsets[t] = t < count ? (int32_t)t : 0;
        for (int64_t h = 0; h < heads; h++) {
            int64_t base = from[p] * groups + h / (heads / groups) * count;
            heard_t heard = {past + base * size, past + (half + base) * size, scales + base, scales + half + base,
                             own.offsets, count, size, scale};
            for (int64_t r = b * now; r < (b + 1) * now; r++)
                ask(&own, q + r * step + h * size, &heard, out + (r * heads + h) * size);
        }
        answer(&own);
    }
    return 0;
}
