/* The encoder, and a step of the decoder, in one call each. A few rows at a time go through all layers, so that intermediate
   results stay in the second-level cache; weights, which do not fit, are prefetched. */

#include "common.h"

typedef struct {
    float *projected, *attended, *output, *normed;
} buffers_t;

static int new_buffers(const stack_table_t *stack, int64_t rows, buffers_t *buffers) {
    buffers->projected = scratch(STEP, sizeof(float) * rows * 2 * (stack->max_width + stack->width));
    buffers->attended = buffers->projected + rows * stack->max_width;
    buffers->output = buffers->attended + rows * stack->max_width;
    buffers->normed = buffers->output + rows * stack->width;
    return !buffers->projected;
}

static void norm_rows(const stack_table_t *stack, const norm_t *norm, const float *x, int64_t rows, float *to) {
    for (int64_t r = 0; r < rows; r++)
        norm_row(norm, x + r * stack->width, stack->width, stack->eps, to + r * stack->width);
}

/* The input of a sub-layer: of the residual stream x, normed if pre-norm. */
static const float *sublayer_input(const stack_table_t *stack, const norm_t *norm, const float *x, int64_t rows, float *to) {
    if (!stack->pre_norm) return x;
    norm_rows(stack, norm, x, rows, to);
    return to;
}

/* The output of a sub-layer is added to the residual stream x, which is normed if post-norm. */
static void add_residual(const stack_table_t *stack, const norm_t *norm, const float *output, int64_t rows, float *x) {
    for (int64_t r = 0; r < rows; r++, x += stack->width, output += stack->width) {
        for (int64_t i = 0; i < stack->width; i++) x[i] += output[i];
        if (!stack->pre_norm) norm_row(norm, x, stack->width, stack->eps, x);
    }
}

static int feedforward(const stack_table_t *stack, const layer_t *l, int64_t rows, const buffers_t *on, float *x) {
    const float *y = sublayer_input(stack, &l->norm, x, rows, on->normed);
    if (linear(&l->inner, y, rows, on->projected) || linear(&l->outer, on->projected, rows, on->output)) return 1;
    add_residual(stack, &l->norm, on->output, rows, x);
    return 0;
}

static void embed(const stack_table_t *stack, int64_t id, int64_t position, float *to) {
    const float *token = stack->embedding + id * stack->width, *added = stack->positions + position * stack->width;
    for (int64_t i = 0; i < stack->width; i++) to[i] = token[i] * (float)stack->embedding_scale + added[i];
    if (stack->embedding_norm.gain) norm_row(&stack->embedding_norm, to, stack->width, stack->eps, to);
}

/* ---- the encoder ---- */

/* The sentence after the last of those from `first` on whose tokens fit into a panel; at least one is taken. */
static int64_t panel_end(const int64_t *begin, const int64_t *end, int64_t sentences, int64_t first) {
    int64_t last = first + 1;
    while (last < sentences && end[last] - begin[first] <= PANEL) last++;
    return last;
}

static int encode(const stack_table_t *stack, const int64_t *begin, const int64_t *end, int64_t sentences, float *x) {
    int64_t rows = end[sentences - 1] - begin[0];
    buffers_t on;
    if (new_buffers(stack, rows, &on)) return 1;
    for (const layer_t *l = stack->layers; l < stack->layers + stack->count; l++) {
        const attention_t *own = &l->self_attention;
        const heads_t *h = &own->heads;
        int64_t q = h->heads * h->size, k = h->groups * h->size;
        if (linear(&own->query, sublayer_input(stack, &own->norm, x, rows, on.normed), rows, on.projected)) return 1;
        if (hw_encoder_attention(on.projected, on.projected + q, on.projected + q + k, own->query.outputs, begin, end,
                                 sentences, begin[0], h->heads, h->groups, h->size, h->scale, on.attended))
            return 1;
        if (linear(&own->output, on.attended, rows, on.output)) return 1;
        add_residual(stack, &own->norm, on.output, rows, x);
        if (feedforward(stack, l, rows, &on, x)) return 1;
    }
    if (stack->final_norm.gain) norm_rows(stack, &stack->final_norm, x, rows, x);
    return 0;
}

/* Token ids (M,) of packed `sentences`; sentence b is begin[b] up to end[b]. Writes keys and values of the encoder output into
   the cross-attention caches of the decoder. */
API int hw_encode(const stack_table_t *stack, const stack_table_t *decoder, const int64_t *ids, const int64_t *begin,
                  const int64_t *end, int64_t sentences) {
    int64_t max_rows = 0, total = sentences ? end[sentences - 1] : 0;
    for (int64_t first = 0, last; first < sentences; first = last) {
        last = panel_end(begin, end, sentences, first);
        max_rows = end[last - 1] - begin[first] > max_rows ? end[last - 1] - begin[first] : max_rows;
    }
    float *x = scratch(STREAM, sizeof(float) * max_rows * stack->width);
    if (!x) return 1;
    for (int64_t first = 0, last; first < sentences; first = last) {
        last = panel_end(begin, end, sentences, first);
        int64_t rows = end[last - 1] - begin[first];
        for (int64_t b = first; b < last; b++)
            for (int64_t t = begin[b]; t < end[b]; t++)
                embed(stack, ids[t], t - begin[b], x + (t - begin[first]) * stack->width);
        buffers_t on;
        if (!rows) continue;
        if (encode(stack, begin + first, end + first, last - first, x) || new_buffers(decoder, rows, &on)) return 1;
        for (const layer_t *l = decoder->layers; l < decoder->layers + decoder->count; l++) {
            const attention_t *cross = &l->cross_attention;
            const heads_t *h = &cross->heads;
            if (linear(&cross->key_value, x, rows, on.projected)) return 1;
            hw_store_kv(on.projected, on.projected + h->groups * h->size, cross->key_value.outputs, begin + first,
                        end + first, last - first, begin[first], total, h->groups, h->size, cross->kv, cross->scales);
        }
    }
    return 0;
}

/* ---- a step of the decoder ---- */

/* One token of each hypothesis of `sentences` through all layers: x (sentences · now, width), in place. */
static int decode(const stack_table_t *stack, const cache_t *cache, const int64_t *live, int64_t sentences, float *x) {
    int64_t rows = sentences * cache->now;
    buffers_t on;
    if (new_buffers(stack, rows, &on)) return 1;
    for (const layer_t *l = stack->layers; l < stack->layers + stack->count; l++) {
        const attention_t *own = &l->self_attention, *cross = &l->cross_attention;
        const heads_t *h = &own->heads, *c = &cross->heads;
        int64_t stride = own->query.outputs, q = h->heads * h->size, k = h->groups * h->size;
        if (linear(&own->query, sublayer_input(stack, &own->norm, x, rows, on.normed), rows, on.projected)) return 1;
        if (hw_self_attention(on.projected, stride, on.projected + q, on.projected + q + k, stride, own->kv, own->scales,
                              cache->owners, live, cache->sentences, sentences, cache->width, cache->now, cache->capacity,
                              cache->length, h->heads, h->groups, h->size, h->scale, on.attended))
            return 1;
        if (linear(&own->output, on.attended, rows, on.output)) return 1;
        add_residual(stack, &own->norm, on.output, rows, x);
        if (linear(&cross->query, sublayer_input(stack, &cross->norm, x, rows, on.normed), rows, on.projected)) return 1;
        if (hw_cross_attention(on.projected, cross->query.outputs, cache->now, cross->kv, cross->scales, live, cache->begin,
                               cache->end, sentences, cache->total, c->heads, c->groups, c->size, c->scale, on.attended))
            return 1;
        if (linear(&cross->output, on.attended, rows, on.output)) return 1;
        add_residual(stack, &cross->norm, on.output, rows, x);
        if (feedforward(stack, l, rows, &on, x)) return 1;
    }
    if (stack->final_norm.gain) norm_rows(stack, &stack->final_norm, x, rows, x);
    return 0;
}

/* The same for any number of sentences, from token ids (N,) to the input of the output layer, x (N, width). */
API int hw_decode(const stack_table_t *stack, const cache_t *cache, const int64_t *live, int64_t sentences, const int64_t *ids,
                  float *x) {
    int64_t panels = (sentences * cache->now + PANEL - 1) / PANEL, each = panels ? (sentences + panels - 1) / panels : 1;
    for (int64_t r = 0; r < sentences * cache->now; r++) embed(stack, ids[r], cache->length - 1, x + r * stack->width);
    for (int64_t b = 0; b < sentences; b += each) {
        int64_t count = sentences - b < each ? sentences - b : each;
        if (decode(stack, cache, live + b, count, x + b * cache->now * stack->width)) return 1;
    }
    return 0;
}
