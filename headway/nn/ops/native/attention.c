/* Attention over an int8 KV cache, whose entries never move. There is a scale for each head of a token; 8 bits because
   attention is bound by memory. Keys have 128 added, so that dot products can take them as unsigned. */

#include "common.h"

#define KEY_ZERO 128

/* ---- scores of 16 keys at once ---- */

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
static inline __mmask64 first_bytes(int64_t count) { return count >= 64 ? ~0ULL : (1ULL << count) - 1; }

/* The sums of four vectors, as four numbers. */
static inline __m128i sums_of_4(__m512i a, __m512i b, __m512i c, __m512i d) {
    __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    __m512i abcd = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(abcd), _mm512_extracti64x4_epi64(abcd, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

INLINE ints_t dot_products(const int8_t *query, const int8_t *keys, const int32_t *offsets, int64_t size) {
    __m512i dots = _mm512_setzero_si512(), zero_part = dots;
    for (int64_t i = 0; i < size; i += 64) /* what KEY_ZERO adds */
        zero_part = _mm512_dpbusd_epi32(zero_part, _mm512_set1_epi8((char)KEY_ZERO),
                                        _mm512_maskz_loadu_epi8(first_bytes(size - i), query + i));
    for (int part = 0; part < 4; part++) {
        __m512i acc[4];
        for (int t = 0; t < 4; t++) {
            const int8_t *key = keys + offsets[part * 4 + t] * size;
            acc[t] = _mm512_sub_epi32(_mm512_setzero_si512(), zero_part);
            for (int64_t i = 0; i < size; i += 64)
                acc[t] = _mm512_dpbusd_epi32(acc[t], _mm512_maskz_loadu_epi8(first_bytes(size - i), key + i),
                                             _mm512_maskz_loadu_epi8(first_bytes(size - i), query + i));
        }
        __m512i sums = _mm512_castsi128_si512(sums_of_4(acc[0], acc[1], acc[2], acc[3]));
        dots = _mm512_mask_shuffle_i32x4(dots, 0xf << part * 4, sums, sums, 0); /* into lanes 4 · part … */
    }
    return (ints_t)dots;
}
#else
INLINE ints_t dot_products(const int8_t *query, const int8_t *keys, const int32_t *offsets, int64_t size) {
    ints_t sums;
    for (int t = 0; t < LANES; t++) {
        const uint8_t *key = (const uint8_t *)keys + offsets[t] * size;
        int32_t sum = 0;
        for (int64_t i = 0; i < size; i++) sum += ((int32_t)key[i] - KEY_ZERO) * query[i];
        sums[t] = sum;
    }
    return sums;
}
#endif

INLINE lanes_t gather(const float *from, const int32_t *offsets) {
#if defined(__AVX512F__)
    return (lanes_t)_mm512_i32gather_ps(_mm512_loadu_si512(offsets), from, 4);
#else
    lanes_t gathered;
    for (int i = 0; i < LANES; i++) gathered[i] = from[offsets[i]];
    return gathered;
#endif
}

/* ---- a head of a query ---- */

/* Keys and values of one head: the token at position t has them at offsets[t] · size, and their scales at offsets[t]. There are
   offsets of existing tokens up to the next multiple of LANES. */
typedef struct {
    const int8_t *keys, *values;
    const float *key_scales, *value_scales;
    const int32_t *offsets;
    int64_t count, size;
    float scale;
} kv_view_t;

INLINE lanes_t to_floats(const int8_t *x) {
    lanes_t floats;
#if defined(__AVX512F__)
    floats = (lanes_t)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)x)));
#elif defined(__AVX2__)
    for (int half = 0; half < 2; half++) {
        __m256i ints = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(x + half * 8)));
        _mm256_storeu_ps((float *)&floats + half * 8, _mm256_cvtepi32_ps(ints));
    }
#else
    for (int i = 0; i < LANES; i++) floats[i] = x[i];
#endif
    return floats;
}

/* chunks: of LANES numbers; a constant, so that the result stays in registers. */
INLINE void weighted_sum(const kv_view_t *kv, int chunks, const float *weights, float *to) {
    lanes_t out[chunks];
    for (int c = 0; c < chunks; c++) out[c] = broadcast(0);
    for (int64_t t = 0; t < kv->count; t++) {
        const int8_t *value = kv->values + (int64_t)kv->offsets[t] * chunks * LANES;
        for (int c = 0; c < chunks; c++) out[c] += weights[t] * to_floats(value + c * LANES);
    }
    for (int c = 0; c < chunks; c++) store(to + c * LANES, out[c]);
}

static void weighted_sum_any(const kv_view_t *kv, const float *weights, float *to) {
    for (int64_t i = 0; i < kv->size; i++) to[i] = 0;
    for (int64_t t = 0; t < kv->count; t++)
        for (int64_t i = 0; i < kv->size; i++) to[i] += weights[t] * kv->values[kv->offsets[t] * kv->size + i];
}

/* A head of a query is a chain of small steps, each waiting for the one before. So several go through each step together. */
#define BATCH 32

typedef struct {
    const float *q;
    kv_view_t kv;
    float *to;
} query_t;

typedef struct {
    query_t queries[BATCH];
    float factors[BATCH];
    int64_t count, max_keys, size; /* max_keys: a multiple of LANES */
    float *scores;                 /* (BATCH, max_keys) */
    int8_t *quantised;             /* (BATCH, size) queries */
    int32_t *offsets;              /* (rows, max_keys) */
} batch_t;

static int new_batch(int64_t rows, int64_t max_keys, int64_t size, batch_t *batch) {
    batch->count = 0, batch->max_keys = round_up_lanes(max_keys), batch->size = size;
    batch->scores = scratch(ATTENTION, batch->max_keys * (rows * sizeof(int32_t) + BATCH * sizeof(float)) + BATCH * size);
    batch->offsets = (int32_t *)(batch->scores + BATCH * batch->max_keys);
    batch->quantised = (int8_t *)(batch->offsets + rows * batch->max_keys);
    return !batch->scores;
}

static void compute_scores(batch_t *batch) {
    int64_t size = batch->size;
    for (int64_t n = 0; n < batch->count; n++) {
        const query_t *query = batch->queries + n;
        float largest = max_abs(query->q, size);
        quantise(query->q, size, 127 / largest, 0, batch->quantised + n * size);
        batch->factors[n] = query->kv.scale * largest / 127;
    }
    for (int64_t n = 0; n < batch->count; n++) {
        const kv_view_t *kv = &batch->queries[n].kv;
        float *scores = batch->scores + n * batch->max_keys;
        for (int64_t t = 0; t < kv->count; t += LANES) {
            ints_t exact = dot_products(batch->quantised + n * size, kv->keys, kv->offsets + t, size);
            lanes_t scales = gather(kv->key_scales, kv->offsets + t) * batch->factors[n];
            store(scores + t, first_lanes(kv->count - t, __builtin_convertvector(exact, lanes_t) * scales, MASKED_SCORE));
        }
    }
}

static void compute_outputs(batch_t *batch) {
    for (int64_t n = 0; n < batch->count; n++) {
        const kv_view_t *kv = &batch->queries[n].kv;
        float *scores = batch->scores + n * batch->max_keys;
        if (kv->count) softmax(scores, round_up_lanes(kv->count));
        for (int64_t t = 0; t < kv->count; t += LANES)
            store(scores + t, load(scores + t) * gather(kv->value_scales, kv->offsets + t));
    }
    for (int64_t n = 0; n < batch->count; n++) {
        const query_t *query = batch->queries + n;
        const float *weights = batch->scores + n * batch->max_keys;
        switch (batch->size) {
        case 16: weighted_sum(&query->kv, 1, weights, query->to); break;
        case 32: weighted_sum(&query->kv, 2, weights, query->to); break;
        case 48: weighted_sum(&query->kv, 3, weights, query->to); break;
        case 64: weighted_sum(&query->kv, 4, weights, query->to); break;
        case 128: weighted_sum(&query->kv, 8, weights, query->to); break;
        default: weighted_sum_any(&query->kv, weights, query->to);
        }
    }
}

static void flush(batch_t *batch) {
    compute_scores(batch);
    compute_outputs(batch);
    batch->count = 0;
}

static void add_query(batch_t *batch, const float *q, const kv_view_t *kv, float *to) {
    batch->queries[batch->count++] = (query_t){q, *kv, to};
    if (batch->count == BATCH) flush(batch);
}

/* ---- writing to the cache and attending to it ---- */

/* One head of a token; returns its scale. */
static float quantise_head(const float *x, int64_t size, int zero, int8_t *to) {
    float largest = max_abs(x, size);
    quantise(x, size, 127 / largest, zero, to);
    return largest / 127;
}

/* Self-attention of one more token for each of the `now` hypotheses of `sentences`: q (N, stride), k and v (N, kv_stride), out
   (N, heads · size). The cache is (2, P, groups, capacity, width, size), its scales likewise; owners (P, width, capacity) says
   which slot wrote each earlier token of a hypothesis; live (sentences,) which of `all` P each sentence is. `length` includes
   the new token. */
API int hw_self_attention(const float *q, int64_t stride, const float *k, const float *v, int64_t kv_stride, int8_t *kv,
                          float *scales, const int64_t *owners, const int64_t *live, int64_t all, int64_t sentences,
                          int64_t width, int64_t now, int64_t capacity, int64_t length, int64_t heads, int64_t groups,
                          int64_t size, float scale, float *out) {
    int64_t half = all * groups * capacity * width, group_heads = heads / groups, last = (length - 1) * width;
    batch_t batch;
    if (new_batch(now, length, size, &batch)) return 1;
    for (int64_t b = 0; b < sentences; b++) {
        int64_t p = live[b];
        for (int64_t w = 0; w < now; w++) {
            const int64_t *owner = owners + (p * width + w) * capacity;
            int32_t *offsets = batch.offsets + w * batch.max_keys;
            for (int64_t t = 0; t < batch.max_keys; t++) offsets[t] = t < length ? (int32_t)(t * width + owner[t]) : 0;
            for (int64_t g = 0; g < groups; g++) {
                int64_t row = (b * now + w) * kv_stride + g * size;
                int64_t slot = (p * groups + g) * capacity * width + last + w;
                scales[slot] = quantise_head(k + row, size, KEY_ZERO, kv + slot * size);
                scales[half + slot] = quantise_head(v + row, size, 0, kv + (half + slot) * size);
            }
        }
        for (int64_t h = 0; h < heads; h++) {
            int64_t base = (p * groups + h / group_heads) * capacity * width;
            kv_view_t view = {kv + base * size, kv + (half + base) * size, scales + base, scales + half + base,
                              batch.offsets, length, size, scale};
            for (int64_t r = b * now; r < (b + 1) * now; r++, view.offsets += batch.max_keys)
                add_query(&batch, q + r * stride + h * size, &view, out + (r * heads + h) * size);
        }
        flush(&batch);
    }
    return 0;
}

/* Store keys and values of the encoder output: k and v (M, kv_stride) into (2, M · groups, size), head by head within each
   sentence. Sentence b is the rows begin[b] up to end[b] of `total`; k and v begin with the row `first_row`. */
API int hw_store_kv(const float *k, const float *v, int64_t kv_stride, const int64_t *begin, const int64_t *end,
                    int64_t sentences, int64_t first_row, int64_t total, int64_t groups, int64_t size, int8_t *kv,
                    float *scales) {
    int64_t half = total * groups;
    for (int64_t b = 0; b < sentences; b++)
        for (int64_t g = 0; g < groups; g++)
            for (int64_t r = begin[b]; r < end[b]; r++) {
                int64_t slot = begin[b] * groups + g * (end[b] - begin[b]) + r - begin[b];
                int64_t from = (r - first_row) * kv_stride + g * size;
                scales[slot] = quantise_head(k + from, size, KEY_ZERO, kv + slot * size);
                scales[half + slot] = quantise_head(v + from, size, 0, kv + (half + slot) * size);
            }
    return 0;
}

/* Cross-attention of queries q (N, stride), `now` of each sentence one after another, to keys and values of hw_store_kv. live
   (sentences,): which of the sources, rows begin[p] up to end[p], a sentence attends to; NULL: the first, the second … out
   (N, heads · size) */
API int hw_cross_attention(const float *q, int64_t stride, int64_t now, const int8_t *kv, const float *scales,
                           const int64_t *live, const int64_t *begin, const int64_t *end, int64_t sentences, int64_t total,
                           int64_t heads, int64_t groups, int64_t size, float scale, float *out) {
    int64_t max_length = 1, half = total * groups;
    for (int64_t b = 0; b < sentences; b++) {
        int64_t p = live ? live[b] : b;
        max_length = end[p] - begin[p] > max_length ? end[p] - begin[p] : max_length;
    }
    batch_t batch;
    if (new_batch(1, max_length, size, &batch)) return 1;
    for (int64_t b = 0; b < sentences; b++) {
        int64_t p = live ? live[b] : b, count = end[p] - begin[p];
        for (int64_t t = 0; t < round_up_lanes(count); t++) batch.offsets[t] = t < count ? (int32_t)t : 0;
        for (int64_t h = 0; h < heads; h++) {
            int64_t base = begin[p] * groups + h / (heads / groups) * count;
            kv_view_t view = {kv + base * size, kv + (half + base) * size, scales + base, scales + half + base,
                              batch.offsets, count, size, scale};
            for (int64_t r = b * now; r < (b + 1) * now; r++)
                add_query(&batch, q + r * stride + h * size, &view, out + (r * heads + h) * size);
        }
        flush(&batch);
    }
    return 0;
}
