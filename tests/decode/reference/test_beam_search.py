"""Beam search against its plain form, against exhaustive search, and against itself in other batches."""

import itertools
import math

import pytest
import torch
from decode.tables import END, SPECIAL, START, Table, allowed, naive
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.decode import Search, SpecialTokens, decode


@st.composite
def requests(draw):
    """A table, settings, sources and prefixes, small enough that everything odd happens."""
    vocabulary = draw(st.sampled_from([2, 3, 4, 5, 6, 7, 40]))
    seed, grain, holes = (
        draw(st.integers(0, 1000)),
        draw(st.sampled_from([0.0, 2.0])),
        draw(st.sampled_from([0.0, 0.5])),
    )
    table = Table(vocabulary, seed=seed, grain=grain, holes=holes)
    width = draw(st.integers(1, 6))
    most = draw(st.integers(0, 6))
    search = Search(
        beam_size=width,
        n_best=draw(st.integers(1, width)),
        penalty=draw(st.sampled_from(["paper", "power", "none"])),
        alpha=draw(st.sampled_from([0.0, 0.6, 1.0])),
        max_length=most,
        min_length=draw(st.integers(0, most)),
        no_repeat_ngram=draw(st.integers(0, 3)),
    )
    ids = [token for token in range(vocabulary) if token != END]
    rows = draw(st.integers(1, 4))
    source = torch.tensor([[draw(st.integers(0, 9))] for _ in range(rows)])
    prefixes = [draw(st.lists(st.sampled_from(ids), max_size=3)) for _ in range(rows)]
    return (
        table,
        search,
        SpecialTokens(start=START, end=END, suppress=draw(st.sampled_from([(), (START,)]))),
        source,
        prefixes,
    )


@settings(max_examples=300, deadline=None)
@given(requests())
def test_the_plain_form(request_):
    """Ids, scores and their parts, equal to the last bit."""
    table, search, special, source, prefixes = request_
    ours = decode(table, source, special_tokens=special, search=search, prefixes=prefixes)
    for line, prefix, found in zip(source.tolist(), prefixes, ours):
        plain = allowed(table, tuple(line), search, special)
        assert found == naive(plain, search, prefix, search.max_output_length(len(line)) - len(prefix))


@settings(max_examples=60, deadline=None)
@given(requests())
def test_a_row_is_what_it_is_alone(request_):
    table, search, special, source, prefixes = request_
    together = decode(table, source, special_tokens=special, search=search, prefixes=prefixes)
    for row, found in enumerate(together):
        one = slice(row, row + 1)
        assert [found] == decode(table, source[one], special_tokens=special, search=search, prefixes=prefixes[one])


@settings(max_examples=60, deadline=None)
@given(requests())
def test_never_loses_a_line_and_says_what_it_cut(request_):
    table, search, special, source, prefixes = request_
    ours = decode(table, source, special_tokens=special, search=search, prefixes=prefixes)
    assert len(ours) == len(source)
    for prefix, found in zip(prefixes, ours):
        assert 1 <= len(found) <= search.n_best
        assert len({tuple(hypothesis.ids) + (END,) * hypothesis.finished for hypothesis in found}) == len(found)
        for hypothesis in found:
            assert hypothesis.ids[: hypothesis.prefix] == prefix
            assert END not in hypothesis.ids
            assert len(hypothesis.token_logps) == len(hypothesis.ids) - len(prefix) + hypothesis.finished
            assert sum(hypothesis.token_logps) == pytest.approx(hypothesis.logp, abs=1e-9)


@pytest.mark.parametrize("penalty", ["paper", "power", "none"])
@pytest.mark.parametrize("seed", range(5))
def test_exhaustive(seed, penalty):
    """A beam that holds everything finds the best of all sequences up to the maximum length."""
    table, most = Table(5, seed=seed), 4
    inner = [token for token in range(5) if token not in (START, END)]
    every = [ids for length in range(most + 1) for ids in itertools.product(inner, repeat=length)]
    search = Search(beam_size=len(every), penalty=penalty, max_length=most)

    def score(ids, finished):
        line = [*ids, END] if finished else list(ids)
        logps = [table.logps((7,), tuple(line[:place]))[token] for place, token in enumerate(line)]
        return search.score(sum(logps), len(line))

    results = [(score(ids, True), ids) for ids in every if len(ids) < most]
    results += [(score(ids, False), ids) for ids in every if len(ids) == most]
    [[found]] = decode(table, torch.tensor([[7]]), special_tokens=SPECIAL, search=search)
    assert (found.score, tuple(found.ids)) == (pytest.approx(max(results)[0]), max(results)[1])


def test_what_was_found_before_a_dead_end():
    """Running hypotheses that cannot go on are given up where others have ended, and kept where none has."""

    class Ends(Table):
        def invent(self, source, ids):
            if not ids:
                return [-9.0, -3.0, -1.0, -2.0]
            return [math.nan if ids[-1] == END else -math.inf] * 4  # nobody may ask what follows the end

    search = Search(beam_size=3, n_best=3, penalty="none")
    [found] = decode(Ends(4), None, special_tokens=SPECIAL, search=search)
    assert [(h.ids, h.finished) for h in found] == [([], True)]
    [found] = decode(
        Ends(4), None, special_tokens=SpecialTokens(start=START, end=END, suppress=(START, END)), search=search
    )
    assert [(h.ids, h.finished) for h in found] == [([2], False), ([3], False)]


def test_a_beam_of_one_is_greedy():
    """The beam's own code with one hypothesis takes the same way as the shorter code for greedy."""
    from headway.decode.reference import candidates

    logps = Table(9, grain=1.0).step(Table(9).start(None, None, 1), torch.tensor([[START]]))
    one, other = candidates.pick_greedy(logps, torch.zeros(1, 1)), candidates.pick_beam(logps, torch.zeros(1, 1), 1)
    assert (one.ids[0, 0], one.sums[0, 0]) == (other.ids[0, 0], other.sums[0, 0])


def test_finished_rows_leave_the_batch_and_nothing_moves_without_need():
    source = torch.arange(12)[:, None]
    table = Table(6)
    greedy = decode(table, source, special_tokens=SPECIAL, search=Search(beam_size=1, max_length=30))
    lengths = [len(row[0].token_logps) for row in greedy]
    assert len(set(lengths)) > 3
    assert table.widths == [sum(length > step for length in lengths) for step in range(max(lengths))]
    assert table.selects == len(set(lengths)) - 1

    table = Table(6)
    decode(table, source, special_tokens=SPECIAL, search=Search(beam_size=4, max_length=30))
    assert table.widths[0] == 12  # the first step asks about each row once
    assert table.widths[1:] == sorted(table.widths[1:], reverse=True)
    assert table.widths[1] == 48
    assert table.widths[-1] < 24


def test_same_twice():
    source = torch.arange(5)[:, None]
    search = Search(beam_size=3, n_best=3)
    once, twice = (decode(Table(8, grain=2.0), source, special_tokens=SPECIAL, search=search) for _ in range(2))
    assert once == twice


def test_padding_is_not_counted_as_source():
    source = torch.tensor([[5, 6, 0], [5, 0, 0]])
    valid = source > 0
    search = Search(beam_size=1, max_extra=1, min_length=1000, max_ratio=2.0)
    assert [search.max_output_length(length) for length in (2, 1)] == [1000, 1000]
    search = Search(beam_size=1, max_extra=1, max_ratio=2.0, no_repeat_ngram=0)
    special = SpecialTokens(start=START, end=END, suppress=(START, END))
    found = decode(Table(5), source, valid, special_tokens=special, search=search)
    assert [len(row[0].ids) for row in found] == [5, 3]
    found = decode(Table(5), source, special_tokens=special, search=search)
    assert [len(row[0].ids) for row in found] == [7, 7]


def test_a_prompt_instead_of_a_source():
    """A language model goes on from each prompt, for max_extra tokens at most."""
    prompts = [[2, 3, 4], [], [3]]
    search = Search(beam_size=2, max_extra=4)
    together = decode(Table(6), None, special_tokens=SPECIAL, search=search, prefixes=prompts)
    for prompt, found in zip(prompts, together):
        assert [found] == decode(Table(6), None, special_tokens=SPECIAL, search=search, prefixes=[prompt])
        assert found[0].ids[: len(prompt)] == prompt
        assert len(found[0].ids) <= len(prompt) + 4
    assert decode(Table(6), None, special_tokens=SPECIAL, search=search) == [together[1]]
