/* Encoder and decoder, a call each. They take a few rows through all layers before the next ones, so that what is made of
   them stays in the second-level cache; weights, which do not fit, are fetched ahead. */

#include "common.h"

typedef struct {
    float *made, *heard, *said, *normed;
} bench_t;

static int bench(const stack_of_t *stack, int64_t rows, bench_t *made) {
    made->made = room(STEP, sizeof(float) * rows * 2 * (stack->wide + stack->width));
    made->heard = made->made + rows * stack->wide;
    made->said = made->heard + rows * stack->wide;
    made->normed = made->said + rows * stack->width;
    return !made->made;
}

static void norm_rows(const stack_of_t *stack, const norm_t *norm, const float *x, int64_t rows, float *to) {
    for (int64_t r = 0; r < rows; r++)
        norm_row(norm, x + r * stack->width, stack->width, stack->eps, to + r * stack->width);
}

/* Before a part: what it reads. Behind it: what it said joins the stream x. */
static const float *read_by(const stack_of_t *stack, const norm_t *norm, const float *x, int64_t rows, float *to) {
    if (!stack->before) return x;
    norm_rows(stack, norm, x, rows, to);
    return to;
}

static void join(const stack_of_t *stack, const norm_t *norm, const float *said, int64_t rows, float *x) {
    for (int64_t r = 0; r < rows; r++, x += stack->width, said += stack->width) {
        for (int64_t i = 0; i < stack->width; i++) x[i] += said[i];
        if (!stack->before) norm_row(norm, x, stack->width, stack->eps, x);
    }
}

static int feed(const stack_of_t *stack, const layer_t *l, int64_t rows, const bench_t *on, float *x) {
    const float *y = read_by(stack, &l->norm, x, rows, on->normed);
    if (product(&l->inner, y, rows, on->made) || product(&l->outer, on->made, rows, on->said)) return 1;
    join(stack, &l->norm, on->said, rows, x);
    return 0;
}

static void embed(const stack_of_t *stack, int64_t id, int64_t place, float *to) {
    const float *word = stack->words + id * stack->width, *position = stack->positions + place * stack->width;
    for (int64_t i = 0; i < stack->width; i++) to[i] = word[i] * (float)stack->factor + position[i];
    if (stack->start.gain) norm_row(&stack->start, to, stack->width, stack->eps, to);
}

/* ---- the encoder ---- */

/* Sentences from `first` on whose words are not more than fill a panel. */
static int64_t panel(const int64_t *from, const int64_t *to, int64_t sentences, int64_t first) {
    int64_t last = first + 1;
    while (last < sentences && to[last] - from[first] <= PANEL) last++;
    return last;
}

static int encode(const stack_of_t *stack, const int64_t *from, const int64_t *to, int64_t sentences, float *x) {
    int64_t rows = to[sentences - 1] - from[0];
    bench_t on;
    if (bench(stack, rows, &on)) return 1;
    for (const layer_t *l = stack->layers; l < stack->layers + stack->count; l++) {
        const attention_t *own = &l->own;
        const heads_t *h = &own->heads;
        int64_t q = h->heads * h->size, k = h->groups * h->size;
        if (product(&own->ask, read_by(stack, &own->norm, x, rows, on.normed), rows, on.made)) return 1;
        if (hw_converse(on.made, on.made + q, on.made + q + k, own->ask.outputs, from, to, sentences, from[0], h->heads,
                        h->groups, h->size, h->scale, on.heard))
            return 1;
        if (product(&own->say, on.heard, rows, on.said)) return 1;
        join(stack, &own->norm, on.said, rows, x);
        if (feed(stack, l, rows, &on, x)) return 1;
    }
    if (stack->end.gain) norm_rows(stack, &stack->end, x, rows, x);
    return 0;
}

/* Words ids (M,) of `sentences`, b being from[b] up to to[b], one behind the other: what the layers of the decoder will listen
   to is kept there. */
API int hw_encode(const stack_of_t *stack, const stack_of_t *decoder, const int64_t *ids, const int64_t *from,
                  const int64_t *to, int64_t sentences) {
    int64_t most = 0, total = sentences ? to[sentences - 1] : 0;
    for (int64_t first = 0, last; first < sentences; first = last) {
        last = panel(from, to, sentences, first);
        most = to[last - 1] - from[first] > most ? to[last - 1] - from[first] : most;
    }
    float *x = room(STREAM, sizeof(float) * most * stack->width);
    if (!x) return 1;
    for (int64_t first = 0, last; first < sentences; first = last) {
        last = panel(from, to, sentences, first);
        int64_t rows = to[last - 1] - from[first];
        for (int64_t b = first; b < last; b++)
            for (int64_t t = from[b]; t < to[b]; t++) embed(stack, ids[t], t - from[b], x + (t - from[first]) * stack->width);
        bench_t on;
        if (!rows) continue;
        if (encode(stack, from + first, to + first, last - first, x) || bench(decoder, rows, &on)) return 1;
        for (const layer_t *l = decoder->layers; l < decoder->layers + decoder->count; l++) {
            const attention_t *cross = &l->cross;
            if (product(&cross->hear, x, rows, on.made)) return 1;
            hw_keep(on.made, on.made + cross->heads.groups * cross->heads.size, cross->hear.outputs, from + first, to + first,
                    last - first, from[first], total, cross->heads.groups, cross->heads.size, cross->past, cross->scales);
        }
    }
    return 0;
}

/* ---- a step of the decoder ---- */

/* One token of each hypothesis of `sentences` through all layers: x (sentences · now, width), in place. */
static int decode(const stack_of_t *stack, const past_t *past, const int64_t *live, int64_t sentences, float *x) {
    int64_t rows = sentences * past->now;
    bench_t on;
    if (bench(stack, rows, &on)) return 1;
    for (const layer_t *l = stack->layers; l < stack->layers + stack->count; l++) {
        const attention_t *own = &l->own, *cross = &l->cross;
        const heads_t *h = &own->heads, *c = &cross->heads;
        int64_t across = own->ask.outputs, q = h->heads * h->size, k = h->groups * h->size;
        if (product(&own->ask, read_by(stack, &own->norm, x, rows, on.normed), rows, on.made)) return 1;
        if (hw_listen(on.made, across, on.made + q, on.made + q + k, across, own->past, own->scales, past->owners, live,
                      past->all, sentences, past->width, past->now, past->longest, past->length, h->heads, h->groups, h->size,
                      h->scale, on.heard))
            return 1;
        if (product(&own->say, on.heard, rows, on.said)) return 1;
        join(stack, &own->norm, on.said, rows, x);
        if (product(&cross->ask, read_by(stack, &cross->norm, x, rows, on.normed), rows, on.made)) return 1;
        if (hw_hear(on.made, cross->ask.outputs, past->now, cross->past, cross->scales, live, past->from, past->to,
                    sentences, past->total, c->heads, c->groups, c->size, c->scale, on.heard))
            return 1;
        if (product(&cross->say, on.heard, rows, on.said)) return 1;
        join(stack, &cross->norm, on.said, rows, x);
        if (feed(stack, l, rows, &on, x)) return 1;
    }
    if (stack->end.gain) norm_rows(stack, &stack->end, x, rows, x);
    return 0;
}

/* The same for any number of sentences, from words to what the output layer reads: ids (N,), x (N, width). */
API int hw_decode(const stack_of_t *stack, const past_t *past, const int64_t *live, int64_t sentences, const int64_t *ids,
                  float *x) {
    int64_t panels = (sentences * past->now + PANEL - 1) / PANEL, each = panels ? (sentences + panels - 1) / panels : 1;
    for (int64_t r = 0; r < sentences * past->now; r++) embed(stack, ids[r], past->length - 1, x + r * stack->width);
    for (int64_t b = 0; b < sentences; b += each) {
        int64_t count = sentences - b < each ? sentences - b : each;
        if (decode(stack, past, live + b, count, x + b * past->now * stack->width)) return 1;
    }
    return 0;
}
