/* A search in one call: greedy, or a beam. What it finds is written down step by step, by the rules of headway/decode/reference/beam_search.py
   and loop.py; headway/decode/lattice.py reads it. */

#include "common.h"

#define CHUNK 512 /* words whose scores are looked at while they are in the cache */

/* P sentences, of which the first `left` of `live` are searched, K hypotheses of each, C candidates. */
typedef struct {
    int64_t *live;           /* (P,) */
    int64_t *ids;            /* (P · K,) what is read next */
    float *sums;             /* (P · K,) log-probability of each; -inf: there is none */
    int64_t *ended;          /* (P,) how many hypotheses have */
    const int64_t *limit;    /* (P,) how many tokens a hypothesis may have */
    const int64_t *suppress; /* ids that are never said */
    int32_t *trellis;        /* (steps, 4, P, C) from this call's first step on: ids, parents, bits of logps and of sums */
    int64_t banned, left, beam, candidates, end, least;
} search_t;

typedef struct { /* candidates, best first */
    float *sums, *logps;
    int32_t *ids, *parents;
} picks_t;

/* ---- the best words of a row ---- */

typedef struct {
    float most, sum; /* of e^(score - most) */
    int64_t count;   /* of words that were picked */
} seen_t;

static int forbidden(const search_t *search, int64_t step, int32_t id) {
    if (id == search->end && step + 1 < search->least) return 1;
    for (int64_t i = 0; i < search->banned; i++)
        if (search->suppress[i] == id) return 1;
    return 0;
}

/* One more word among the best. Of equal ones that which came first stays before. */
static void insert(float value, int32_t id, int64_t wanted, seen_t *seen, float *values, int32_t *ids) {
    int64_t place = seen->count < wanted ? seen->count++ : wanted - 1;
    for (; place > 0 && values[place - 1] < value; place--) {
        values[place] = values[place - 1];
        ids[place] = ids[place - 1];
    }
    values[place] = value;
    ids[place] = id;
}

/* Scores of the words from `first` on; count is a multiple of LANES, what is not there is -inf. */
static void regard(const search_t *search, int64_t step, const float *scores, int64_t count, int64_t first, seen_t *seen,
                   float *values, int32_t *ids) {
    int64_t wanted = search->candidates;
    lanes_t tops = load(scores), sum = {0};
    for (int64_t i = LANES; i < count; i += LANES) tops = higher(tops, load(scores + i));
    float top = most_of(tops);
    if (top > seen->most) {
        seen->sum *= expf(seen->most - top);
        seen->most = top;
    }
    for (int64_t i = 0; i < count; i += LANES) sum += power(load(scores + i) - seen->most);
    seen->sum += sum_of(sum);
    float least = seen->count < wanted ? -INFINITY : values[wanted - 1];
    if (!(top > least)) return;
    for (int64_t i = 0; i < count; i += LANES) {
        if (!any(load(scores + i) > least)) continue;
        for (int64_t j = i; j < i + LANES; j++)
            if (scores[j] > least && !forbidden(search, step, (int32_t)(first + j))) {
                insert(scores[j], (int32_t)(first + j), wanted, seen, values, ids);
                least = seen->count < wanted ? -INFINITY : values[wanted - 1];
            }
    }
}

/* Of each row of x, up to PANEL of them, the best words: log-probabilities and ids; -inf where there are too few. */
static int best(const linear_t *output, const search_t *search, int64_t step, const float *x, int64_t rows, float *values,
                int32_t *ids) {
    int64_t wanted = search->candidates, all = output->outputs;
    float *scores = room(SCORES, sizeof(float) * rows * CHUNK + sizeof(seen_t) * rows);
    seen_t *seen = (seen_t *)(scores + rows * CHUNK);
    rounded_t whole;
    if (!scores || round_rows(output, x, rows, &whole)) return 1;
    for (int64_t r = 0; r < rows; r++) seen[r] = (seen_t){-INFINITY, 0, 0};
    for (int64_t first = 0; first < all; first += CHUNK) {
        int64_t last = first + CHUNK < all ? first + CHUNK : all, count = whole_lanes(last - first);
        multiply(output, &whole, rows, first, last, scores, CHUNK);
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t i = last - first; i < count; i++) scores[r * CHUNK + i] = -INFINITY;
            regard(search, step, scores + r * CHUNK, count, first, seen + r, values + r * wanted, ids + r * wanted);
        }
    }
    for (int64_t r = 0; r < rows; r++, values += wanted, ids += wanted) {
        float total = seen[r].most + logf(seen[r].sum);
        for (int64_t c = 0; c < wanted; c++) {
            values[c] = c < seen[r].count ? values[c] - total : -INFINITY;
            ids[c] = c < seen[r].count ? ids[c] : 0;
        }
        if (total != total) values[0] = total; /* no number: whoever reads the trellis says so */
    }
    return 0;
}

/* ---- the best candidates of a sentence ---- */

/* From those of each of its hypotheses; equal sums rank by hypothesis, then as they stand. */
static void pick(const search_t *search, int64_t now, const float *sums, const float *values, const int32_t *ids,
                 picks_t *to) {
    int64_t wanted = search->candidates, count = 0;
    for (int64_t w = 0; w < now; w++)
        for (int64_t c = 0; c < wanted; c++) {
            float logp = values[w * wanted + c], sum = sums[w] == -INFINITY ? -INFINITY : sums[w] + logp;
            int64_t place = count < wanted ? count++ : wanted;
            for (; place > 0 && !(to->sums[place - 1] >= sum) && to->sums[place - 1] == to->sums[place - 1]; place--)
                if (place < wanted) {
                    to->sums[place] = to->sums[place - 1];
                    to->logps[place] = to->logps[place - 1];
                    to->ids[place] = to->ids[place - 1];
                    to->parents[place] = to->parents[place - 1];
                }
            if (place == wanted) break; /* the rest of this hypothesis is no better */
            to->sums[place] = sum;
            to->logps[place] = logp;
            to->ids[place] = ids[w * wanted + c];
            to->parents[place] = (int32_t)w;
        }
}

/* Slots that go on with the past of others. */
static void follow(past_t *past, int64_t p, const int32_t *parents, int64_t beam, int64_t *aside) {
    int64_t *owners = past->owners + p * past->width * past->longest, moved = 0;
    for (int64_t w = 0; w < beam; w++) moved |= parents[w] != w;
    if (!moved) return;
    for (int64_t w = 0; w < beam; w++)
        memcpy(aside + w * past->length, owners + w * past->longest, sizeof(int64_t) * past->length);
    for (int64_t w = 0; w < beam; w++)
        memcpy(owners + w * past->longest, aside + parents[w] * past->length, sizeof(int64_t) * past->length);
}

/* What becomes of a sentence: whether it is searched further, and with which ids and sums. */
static int judge(search_t *search, past_t *past, int64_t p, const picks_t *picks, int64_t *ids, float *sums, int64_t *aside) {
    int64_t beam = search->beam, last = past->length >= search->limit[p], runs = 0, place = 0;
    int32_t parents[beam];
    for (int64_t c = 0; c < search->candidates; c++) {
        int exists = picks->sums[c] > -INFINITY, ends = picks->ids[c] == search->end;
        if (exists && (ends || last) && c < beam) search->ended[p]++;
        if (!exists || ends) continue;
        if (runs < beam) {
            parents[runs] = picks->parents[c];
            ids[runs] = picks->ids[c];
            sums[runs] = picks->sums[c];
        }
        runs++;
    }
    if (!runs || last || search->ended[p] >= beam) return 0;
    for (place = runs; place < beam; place++) { /* empty slots, which hold anything */
        parents[place] = 0;
        ids[place] = search->end;
        sums[place] = -INFINITY;
    }
    follow(past, p, parents, beam, aside);
    return 1;
}

/* ---- the search ---- */

typedef struct {
    float *x, *values, *sums;
    int32_t *found;
    int64_t *ids, *aside;
} space_t;

static int space(const stack_of_t *stack, const search_t *search, const past_t *past, space_t *made) {
    int64_t rows = search->left * search->beam;
    size_t numbers = rows * (stack->width + 2 * search->candidates + 1);
    made->ids = room(CHOICE, sizeof(int64_t) * (rows + search->beam * past->longest) + sizeof(float) * numbers);
    made->aside = made->ids + rows;
    made->x = (float *)(made->aside + search->beam * past->longest);
    made->values = made->x + rows * stack->width;
    made->sums = made->values + rows * search->candidates;
    made->found = (int32_t *)(made->sums + rows);
    return !made->ids;
}

static int step(const stack_of_t *stack, const linear_t *output, past_t *past, search_t *search, space_t *on, int32_t *written) {
    int64_t now = past->now, rows = search->left * now, wanted = search->candidates, beam = search->beam, left = 0;
    int64_t line = past->all * wanted; /* of the trellis */
    for (int64_t b = 0; b < search->left; b++)
        for (int64_t w = 0; w < past->width; w++)
            past->owners[(search->live[b] * past->width + w) * past->longest + past->length] = w;
    past->length++;
    if (hw_decode(stack, past, search->live, search->left, search->ids, on->x)) return 1;
    for (int64_t r = 0; r < rows; r += PANEL)
        if (best(output, search, past->length - 1, on->x + r * stack->width, rows - r < PANEL ? rows - r : PANEL,
                 on->values + r * wanted, on->found + r * wanted))
            return 1;
    for (int64_t b = 0; b < search->left; b++) {
        int64_t p = search->live[b];
        int32_t *at = written + p * wanted;
        picks_t picks = {(float *)(at + 3 * line), (float *)(at + 2 * line), at, at + line};
        pick(search, now, search->sums + b * now, on->values + b * now * wanted, on->found + b * now * wanted, &picks);
        if (!judge(search, past, p, &picks, on->ids + left * beam, on->sums + left * beam, on->aside)) continue;
        search->live[left++] = p;
    }
    memcpy(search->ids, on->ids, sizeof(int64_t) * left * beam);
    memcpy(search->sums, on->sums, sizeof(float) * left * beam);
    search->left = left;
    past->now = beam;
    return 0;
}

/* As many steps as the past has room for, or until all sentences are done. */
API int hw_search(const stack_of_t *stack, const linear_t *output, past_t *past, search_t *search) {
    space_t on;
    if (space(stack, search, past, &on)) return 1;
    int32_t *written = search->trellis;
    for (; search->left && past->length < past->longest; written += 4 * past->all * search->candidates)
        if (step(stack, output, past, search, &on, written)) return 1;
    return 0;
}
