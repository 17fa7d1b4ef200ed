/* The search in one call: greedy, or a beam. The beam search stopping rule (when a candidate ends, when a sentence stops,
   who stays in the beam) is that of headway/decode/reference/beam_search.py, the specification. Every step is written into a lattice, which
   headway/decode/lattice.py reads. */

#include "common.h"

#define CHUNK 512 /* tokens whose logits are scanned while they are in the cache */

/* P sentences, of which the first `active` of `live` are searched, K hypotheses of each, C candidates. */
typedef struct {
    int64_t *live;           /* (P,) */
    int64_t *ids;            /* (P · K,) the next inputs */
    float *sums;             /* (P · K,) log-probabilities; -inf: an empty slot */
    int64_t *ended;          /* (P,) number of finished hypotheses */
    const int64_t *limit;    /* (P,) maximum length of a hypothesis */
    const int64_t *suppress; /* ids that are never chosen */
    int32_t *lattice;        /* (steps, 4, P, C) from this call's first step on: ids, parents, bits of logps and of sums */
    int32_t *inputs;         /* (P, capacity, width) the token that each slot was given at each position */
    const int32_t *stop;     /* not 0: end before the next step */
    const double *penalties; /* (steps,) what sums are divided by at each step from now on: they are scores then */
    double *best_scores;     /* (P, K) of the finished hypotheses, best first; NULL: scores do not decide when to stop */
    int64_t suppressed, active, beam, candidates, end, min_length;
    int64_t no_repeat; /* no n-gram of this size may occur twice in a hypothesis; 0: any may */
    int64_t steps;     /* that this call may make */
    int64_t force_end, renormalise; /* see headway/config/search.py */
} search_t;

typedef struct { /* ids that a hypothesis may not continue with, because an n-gram would repeat */
    const int32_t *ids;
    int64_t count, ends; /* ends: it must end now */
} banned_t;

typedef struct { /* candidates, best first */
    float *sums, *logps;
    int32_t *ids, *parents;
} candidates_t;

/* ---- the best tokens of a row ---- */

typedef struct {
    float maximum, sum; /* of e^(score - maximum) */
    int64_t count;      /* of tokens among the best */
} row_state_t;

/* The tokens that would complete an n-gram which hypothesis w of sentence p has already; returns how many. Position 0 holds the
   start token, which belongs to no n-gram. */
static int64_t find_banned(const search_t *search, const cache_t *cache, int64_t p, int64_t w, int32_t *to) {
    int64_t n = search->no_repeat, last = cache->length - 1, count = 0;
    const int64_t *owners = cache->owners + (p * cache->width + w) * cache->capacity;
    const int32_t *inputs = search->inputs + p * cache->capacity * cache->width;
    for (int64_t end = n; end <= last; end++) {
        int64_t same = 1;
        while (same < n && inputs[(end - same) * cache->width + owners[end - same]] ==
                               inputs[(last + 1 - same) * cache->width + owners[last + 1 - same]])
            same++;
        if (same == n) to[count++] = inputs[end * cache->width + owners[end]];
    }
    return count;
}

static int forbidden(const search_t *search, int64_t step, const banned_t *banned, int32_t id) {
    if (id == search->end && step + 1 < search->min_length) return 1;
    for (int64_t i = 0; i < search->suppressed; i++)
        if (search->suppress[i] == id) return 1;
    for (int64_t i = 0; i < banned->count; i++)
        if (banned->ids[i] == id) return 1;
    return 0;
}

/* Insert a token among the best. Among equal ones the first stays ahead. */
static void insert(float value, int32_t id, int64_t wanted, row_state_t *state, float *values, int32_t *ids) {
    int64_t rank = state->count < wanted ? state->count++ : wanted - 1;
    for (; rank > 0 && values[rank - 1] < value; rank--) {
        values[rank] = values[rank - 1];
        ids[rank] = ids[rank - 1];
    }
    values[rank] = value;
    ids[rank] = id;
}

/* What may not come has no share of the probability. */
static void mask_forbidden(const search_t *search, int64_t step, const banned_t *banned, float *scores, int64_t count,
                           int64_t first) {
    int64_t end = search->end - first;
    if (step + 1 < search->min_length && end >= 0 && end < count) scores[end] = -INFINITY;
    for (int64_t i = 0; i < search->suppressed; i++) {
        int64_t at = search->suppress[i] - first;
        if (at >= 0 && at < count) scores[at] = -INFINITY;
    }
    for (int64_t i = 0; i < banned->count; i++) {
        int64_t at = banned->ids[i] - first;
        if (at >= 0 && at < count) scores[at] = -INFINITY;
    }
}

/* Take in the scores of the tokens from `first` on; count is a multiple of LANES, padded with -inf. */
static void scan(const search_t *search, int64_t step, const banned_t *banned, const float *scores, int64_t count,
                 int64_t first, row_state_t *state, float *values, int32_t *ids) {
    int64_t wanted = search->candidates;
    lanes_t tops = load(scores), sum = {0};
    for (int64_t i = LANES; i < count; i += LANES) tops = max_lanes(tops, load(scores + i));
    float top = max_of(tops);
    if (top == -INFINITY) return; /* all are masked */
    if (top > state->maximum) {
        state->sum *= expf(state->maximum - top);
        state->maximum = top;
    }
    for (int64_t i = 0; i < count; i += LANES) sum += exp_lanes(load(scores + i) - state->maximum);
    state->sum += sum_of(sum);
    float threshold = state->count < wanted ? -INFINITY : values[wanted - 1];
    if (!(top > threshold)) return;
    for (int64_t i = 0; i < count; i += LANES) {
        if (!any_true(load(scores + i) > threshold)) continue;
        for (int64_t j = i; j < i + LANES; j++)
            if (scores[j] > threshold && !forbidden(search, step, banned, (int32_t)(first + j))) {
                insert(scores[j], (int32_t)(first + j), wanted, state, values, ids);
                threshold = state->count < wanted ? -INFINITY : values[wanted - 1];
            }
    }
}

/* The best tokens of each row of x, up to PANEL rows: log-probabilities and ids; -inf where there are too few. */
static int best_tokens(const linear_t *output, const search_t *search, int64_t step, const banned_t *banned, const float *x,
                       int64_t rows, float *values, int32_t *ids) {
    int64_t wanted = search->candidates, vocabulary = output->outputs;
    float *scores = scratch(SCORES, sizeof(float) * rows * CHUNK + sizeof(row_state_t) * rows);
    row_state_t *states = (row_state_t *)(scores + rows * CHUNK);
    quantised_t quantised;
    if (!scores || quantise_rows(output, x, rows, &quantised)) return 1;
    for (int64_t r = 0; r < rows; r++) states[r] = (row_state_t){-INFINITY, 0, 0};
    for (int64_t first = 0; first < vocabulary; first += CHUNK) {
        int64_t last = first + CHUNK < vocabulary ? first + CHUNK : vocabulary, count = round_up_lanes(last - first);
        multiply(output, &quantised, rows, first, last, scores, CHUNK);
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t i = last - first; i < count; i++) scores[r * CHUNK + i] = -INFINITY;
            if (search->renormalise) mask_forbidden(search, step, banned + r, scores + r * CHUNK, last - first, first);
            scan(search, step, banned + r, scores + r * CHUNK, count, first, states + r, values + r * wanted, ids + r * wanted);
        }
    }
    for (int64_t r = 0; r < rows; r++, values += wanted, ids += wanted) {
        if (banned[r].ends) {
            for (int64_t c = 0; c < wanted; c++) values[c] = c ? -INFINITY : 0.0f;
            for (int64_t c = 0; c < wanted; c++) ids[c] = c ? 0 : (int32_t)search->end;
            continue;
        }
        float norm = states[r].maximum + logf(states[r].sum);
        for (int64_t c = 0; c < wanted; c++) {
            values[c] = c < states[r].count ? values[c] - norm : -INFINITY;
            ids[c] = c < states[r].count ? ids[c] : 0;
        }
        if (norm != norm) values[0] = norm; /* NaN: the reader of the lattice reports it */
    }
    return 0;
}

/* ---- the best candidates of a sentence ---- */

/* From those of each of its hypotheses; equal sums rank by hypothesis, then in the given order. */
static void best_candidates(const search_t *search, int64_t now, const float *sums, const float *values, const int32_t *ids,
                 candidates_t *to) {
    int64_t wanted = search->candidates, count = 0;
    for (int64_t w = 0; w < now; w++)
        for (int64_t c = 0; c < wanted; c++) {
            float logp = values[w * wanted + c], sum = sums[w] == -INFINITY ? -INFINITY : sums[w] + logp;
            int64_t rank = count < wanted ? count++ : wanted;
            for (; rank > 0 && !(to->sums[rank - 1] >= sum) && to->sums[rank - 1] == to->sums[rank - 1]; rank--)
                if (rank < wanted) {
                    to->sums[rank] = to->sums[rank - 1];
                    to->logps[rank] = to->logps[rank - 1];
                    to->ids[rank] = to->ids[rank - 1];
                    to->parents[rank] = to->parents[rank - 1];
                }
            if (rank == wanted) break; /* the rest of this hypothesis is no better */
            to->sums[rank] = sum;
            to->logps[rank] = logp;
            to->ids[rank] = ids[w * wanted + c];
            to->parents[rank] = (int32_t)w;
        }
}

/* Beams that continue another one take over its owners. */
static void copy_owners(cache_t *cache, int64_t p, const int32_t *parents, int64_t beam, int64_t *copy) {
    int64_t *owners = cache->owners + p * cache->width * cache->capacity, moved = 0;
    for (int64_t w = 0; w < beam; w++) moved |= parents[w] != w;
    if (!moved) return;
    for (int64_t w = 0; w < beam; w++)
        memcpy(copy + w * cache->length, owners + w * cache->capacity, sizeof(int64_t) * cache->length);
    for (int64_t w = 0; w < beam; w++)
        memcpy(owners + w * cache->capacity, copy + parents[w] * cache->length, sizeof(int64_t) * cache->length);
}

/* Keep a score if it is one of the best. */
static void keep_score(double score, int64_t beam, double *best) {
    int64_t rank = beam;
    for (; rank > 0 && best[rank - 1] < score; rank--)
        if (rank < beam) best[rank] = best[rank - 1];
    if (rank < beam) best[rank] = score;
}

/* The next beam of a sentence, ids and sums; returns whether it is searched further. */
static int next_beam(search_t *search, cache_t *cache, int64_t p, const candidates_t *found, int64_t *ids, float *sums,
                     int64_t *copy) {
    int64_t beam = search->beam, last = cache->length >= search->limit[p], runs = 0, rank = 0;
    int32_t parents[beam];
    double penalty = *search->penalties, *best = search->best_scores ? search->best_scores + p * beam : NULL;
    for (int64_t c = 0; c < search->candidates; c++) {
        int exists = found->sums[c] > -INFINITY, ends = found->ids[c] == search->end;
        if (exists && (ends || last) && c < beam) {
            search->ended[p]++;
            if (best) keep_score(found->sums[c] / penalty, beam, best);
        }
        if (!exists || ends) continue;
        if (runs < beam) {
            parents[runs] = found->parents[c];
            ids[runs] = found->ids[c];
            sums[runs] = found->sums[c];
        }
        runs++;
    }
    if (!runs || last) return 0;
    if (best ? !(sums[0] / penalty > best[beam - 1]) : search->ended[p] >= beam) return 0;
    for (rank = runs; rank < beam; rank++) { /* empty slots, whose contents do not matter */
        parents[rank] = 0;
        ids[rank] = search->end;
        sums[rank] = -INFINITY;
    }
    copy_owners(cache, p, parents, beam, copy);
    return 1;
}

/* ---- the search ---- */

typedef struct {
    float *x, *values, *sums;
    int32_t *tokens, *banned_ids; /* banned_ids: (PANEL, capacity) */
    int64_t *ids, *owners;
    banned_t banned[PANEL];
} buffers_t;

static int new_buffers(const stack_table_t *stack, const search_t *search, const cache_t *cache, buffers_t *buffers) {
    int64_t rows = search->active * search->beam;
    size_t numbers = rows * (stack->width + 2 * search->candidates + 1) + (search->no_repeat ? PANEL * cache->capacity : 0);
    buffers->ids = scratch(SEARCH, sizeof(int64_t) * (rows + search->beam * cache->capacity) + sizeof(float) * numbers);
    buffers->owners = buffers->ids + rows;
    buffers->x = (float *)(buffers->owners + search->beam * cache->capacity);
    buffers->values = buffers->x + rows * stack->width;
    buffers->sums = buffers->values + rows * search->candidates;
    buffers->tokens = (int32_t *)(buffers->sums + rows);
    buffers->banned_ids = buffers->tokens + rows * search->candidates;
    return !buffers->ids;
}

/* The best tokens of all hypotheses, a panel of rows at a time. */
static int best_of_rows(const linear_t *output, const stack_table_t *stack, const cache_t *cache, const search_t *search,
                        buffers_t *on) {
    int64_t rows = search->active * cache->now, wanted = search->candidates;
    for (int64_t r = 0; r < rows; r += PANEL) {
        int64_t count = rows - r < PANEL ? rows - r : PANEL;
        for (int64_t i = 0; i < count; i++) {
            int32_t *ids = on->banned_ids + i * cache->capacity;
            int64_t p = search->live[(r + i) / cache->now], w = (r + i) % cache->now;
            int ends = search->force_end && cache->length >= search->limit[p];
            on->banned[i] = (banned_t){ids, search->no_repeat ? find_banned(search, cache, p, w, ids) : 0, ends};
        }
        if (best_tokens(output, search, cache->length - 1, on->banned, on->x + r * stack->width, count, on->values + r * wanted,
                        on->tokens + r * wanted))
            return 1;
    }
    return 0;
}

static int step(const stack_table_t *stack, const linear_t *output, cache_t *cache, search_t *search, buffers_t *on,
                int32_t *written) {
    int64_t now = cache->now, wanted = search->candidates, beam = search->beam, active = 0;
    int64_t row = cache->sentences * wanted; /* of the lattice */
    for (int64_t b = 0; b < search->active; b++)
        for (int64_t w = 0; w < cache->width; w++)
            cache->owners[(search->live[b] * cache->width + w) * cache->capacity + cache->length] = w;
    for (int64_t b = 0; b < search->active; b++)
        for (int64_t w = 0; w < now; w++)
            search->inputs[(search->live[b] * cache->capacity + cache->length) * cache->width + w] =
                (int32_t)search->ids[b * now + w];
    cache->length++;
    if (hw_decode(stack, cache, search->live, search->active, search->ids, on->x)) return 1;
    if (best_of_rows(output, stack, cache, search, on)) return 1;
    for (int64_t b = 0; b < search->active; b++) {
        int64_t p = search->live[b];
        int32_t *at = written + p * wanted;
        candidates_t found = {(float *)(at + 3 * row), (float *)(at + 2 * row), at, at + row};
        best_candidates(search, now, search->sums + b * now, on->values + b * now * wanted, on->tokens + b * now * wanted,
                        &found);
        if (!next_beam(search, cache, p, &found, on->ids + active * beam, on->sums + active * beam, on->owners)) continue;
        search->live[active++] = p;
    }
    memcpy(search->ids, on->ids, sizeof(int64_t) * active * beam);
    memcpy(search->sums, on->sums, sizeof(float) * active * beam);
    search->active = active;
    cache->now = beam;
    return 0;
}

/* Up to `steps`, until all sentences are done or another thread sets `stop`. */
API int hw_search(const stack_table_t *stack, const linear_t *output, cache_t *cache, search_t *search) {
    buffers_t on;
    if (new_buffers(stack, search, cache, &on)) return 1;
    int32_t *written = search->lattice;
    const volatile int32_t *stop = search->stop;
    int64_t end = cache->length + search->steps;
    for (; search->active && cache->length < end && !*stop; search->penalties++) {
        if (step(stack, output, cache, search, &on, written)) return 1;
        written += 4 * cache->sentences * search->candidates;
    }
    return 0;
}
