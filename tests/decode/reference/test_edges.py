"""Requests at the border of what makes sense: each has an answer, or an error that says what to do."""

import pytest
import torch
from decode.tables import END, SPECIAL, START, Table

from headway.decode import Search, SpecialTokens, decode
from headway.errors import HeadwayError

SOURCE = torch.tensor([[5], [6], [7]])


class Broken(Table):
    """Says `value` for row source (6,) at its third token."""

    value = float("nan")

    def invent(self, source, ids):
        return [self.value if source == (6,) and len(ids) == 2 else logp for logp in super().invent(source, ids)]


class Infinite(Broken):
    value = float("inf")


STRATEGIES = [
    Search(beam_size=1, min_length=9),
    Search(beam_size=3, min_length=9),
    Search(beam_size=1, sample=True, seed=0, min_length=9),
    Search(beam_size=1, sample=True, seed=0, min_length=9, top_k=2, top_p=0.9),
]


@pytest.mark.parametrize("table", [Broken, Infinite])
@pytest.mark.parametrize("search", STRATEGIES, ids=["greedy", "beam", "sample", "top"])
def test_numbers_that_are_none(search, table):
    with pytest.raises(HeadwayError, match="row 1, output token 3: the model's log-probabilities are not numbers"):
        decode(table(6), SOURCE, special_tokens=SPECIAL, search=search)


def test_no_rows():
    table = Table(6)
    assert decode(table, torch.zeros(0, 4, dtype=torch.long), special_tokens=SPECIAL, search=Search()) == []
    assert decode(table, None, special_tokens=SPECIAL, search=Search(), prefixes=[]) == []
    assert table.widths == []


def test_an_empty_source():
    found = decode(Table(6), torch.zeros(2, 0, dtype=torch.long), special_tokens=SPECIAL, search=Search(max_extra=3))
    assert found[0] == found[1]
    assert len(found[0][0].ids) <= 3


@pytest.mark.parametrize("beams", [1, 4])
def test_no_room(beams):
    table = Table(6)
    search = Search(beam_size=beams, n_best=beams, max_length=0)
    for row in decode(table, SOURCE, special_tokens=SPECIAL, search=search):
        [found] = row
        assert (found.ids, found.logp, found.score, found.token_logps, found.finished) == ([], 0.0, 0.0, [], False)
    assert table.widths == []


def test_room_for_one():
    """Either the end, or one token that is cut; the four best of the five that may come."""
    for source, row in zip(
        SOURCE, decode(Table(6), SOURCE, special_tokens=SPECIAL, search=Search(n_best=4, max_length=1))
    ):
        logps = Table(6).logps(tuple(source.tolist()), ())
        best = sorted(range(1, 6), key=lambda token: -logps[token])[:4]
        assert [found.ids for found in row] == [[] if token == END else [token] for token in best]
        assert [found.finished for found in row] == [token == END for token in best]


@pytest.mark.parametrize("copies", [1, 3])
def test_a_prefix_that_fills_the_output(copies):
    """It is kept whole, alone, and cut; its neighbours go on as they would without it."""
    prefixes = [[2, 3, 2], [2], [2, 3, 2, 3, 2]]
    search = Search(beam_size=1, max_length=3, sample=copies > 1, n_best=copies, seed=1)
    found = decode(Table(6), SOURCE, special_tokens=SPECIAL, search=search, prefixes=prefixes)
    for row in (0, 2):
        [only] = found[row]
        assert (only.ids, only.prefix, only.finished, only.logp) == (prefixes[row], len(prefixes[row]), False, 0.0)
    alone = decode(Table(6), SOURCE[1:2], special_tokens=SPECIAL, search=search, prefixes=[[2]], line_numbers=[1])
    assert found[1] == alone[0]


def test_a_vocabulary_smaller_than_the_beam():
    """Start, end and one word: everything there is, and no more."""
    [found] = decode(Table(3), SOURCE[:1], special_tokens=SPECIAL, search=Search(beam_size=8, n_best=8, max_length=3))
    assert sorted((len(h.ids), h.finished) for h in found) == [(0, True), (1, True), (2, True), (3, False)]


@pytest.mark.parametrize("search", [Search(beam_size=1), Search(), Search(beam_size=1, sample=True)])
def test_nothing_may_follow(search):
    everything = SpecialTokens(start=START, end=END, suppress=tuple(range(6)))
    for prefixes in ([[], [], []], [[2], [], [3, 4]]):
        found = decode(Table(6), SOURCE, special_tokens=everything, search=search, prefixes=prefixes)
        assert [[h.ids for h in row] for row in found] == [[prefix] for prefix in prefixes]
        assert not any(h.finished or h.logp for row in found for h in row)


def test_nothing_may_follow_later():
    """Without repeats and without an end, a sentence is over when all words are used up."""
    special = SpecialTokens(start=START, end=END, suppress=(START, END))
    found = decode(Table(5), SOURCE, special_tokens=special, search=Search(no_repeat_ngram=1))
    assert all(sorted(row[0].ids) == [2, 3, 4] and not row[0].finished for row in found)


def test_a_minimum_beyond_the_usual_maximum():
    found = decode(Table(6), SOURCE, special_tokens=SPECIAL, search=Search(max_extra=0, min_length=5))
    assert all(len(row[0].ids) + row[0].finished == 5 for row in found)


def test_gradients_are_not_kept():
    class Learning(Table):
        def step(self, state, ids, valid=None):
            assert not torch.is_grad_enabled()
            return super().step(state, ids, valid)

    decode(Learning(6), SOURCE, special_tokens=SPECIAL, search=Search())
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"source": torch.tensor([5])}, r"the source has the shape \(1,\); it must be \(rows, tokens\)"),
        ({"valid": torch.ones(2, 1)}, r"valid has the shape \(2, 1\), beside a source of \(3, 1\). Both must be"),
        ({"source": None, "valid": torch.ones(3, 1)}, r"valid has the shape \(3, 1\), beside no source"),
        ({"prefixes": [[2]]}, "1 prefixes for 3 rows. Give one for each row, or none at all"),
        ({"line_numbers": [2]}, "1 line numbers for 3 rows. Give one for each row, or none at all"),
        ({"prefixes": [[], [2, 6], []]}, "the prefix of row 1 holds the id 6; the model knows 0 to 5"),
        ({"prefixes": [[], [], [2, END]]}, "the prefix of row 2 holds the end token, 1. Leave it out"),
        ({"special_tokens": SpecialTokens(start=-1, end=1)}, "start holds the id -1; the model knows 0 to 5"),
        ({"special_tokens": SpecialTokens(start=0, end=6)}, "end holds the id 6; the model knows 0 to 5"),
        (
            {"special_tokens": SpecialTokens(start=0, end=1, suppress=(2, 9))},
            "suppress holds the id 9; the model knows 0 to 5",
        ),
    ],
)
def test_requests_that_make_no_sense(request_, words):
    request_ = {"source": SOURCE, "special_tokens": SPECIAL, "search": Search(), **request_}
    with pytest.raises(HeadwayError, match=words):
        decode(Table(6), request_.pop("source"), request_.pop("valid", None), **request_)


@pytest.mark.gpu
@pytest.mark.parametrize("search", [Search(beam_size=1), Search(n_best=4, no_repeat_ngram=2), *STRATEGIES[2:]])
def test_the_same_on_a_gpu(search):
    prefixes = [[2, 3], [], [4]]
    there, here = (
        decode(Table(40, grain=1.0, device=device), SOURCE, special_tokens=SPECIAL, search=search, prefixes=prefixes)
        for device in ("cuda", "cpu")
    )
    assert there == here
