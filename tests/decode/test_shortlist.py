"""Searching among the words of a shortlist: what a plain search over the allowed words alone finds, row by row."""

import random

import numpy as np
import pytest
import torch

from decode.reference.test_model import model
from decode.tables import END, SPECIAL, START, Table, naive
from headway.decode import Hypothesis, Search, decode, stream
from headway.decode.reference.model import Ensemble, ModelStepper
from headway.decode.shortlist import ShortlistedStepper, apply_shortlist
from headway.errors import HeadwayError
from headway.text.shortlist import Shortlist, concatenate_lists

SIZE = 12


def random_lists(seed: int, each: int = 2, size: int = SIZE) -> Shortlist:
    dice = random.Random(seed)
    lists = [np.array(dice.sample(range(2, size), each), dtype=np.int64) for _ in range(size)]
    starts, targets = concatenate_lists([*lists, np.array([END])])
    return Shortlist(starts, targets, size, size)


def table(shortlist: Shortlist | None, seed: int = 0) -> Table:
    made = Table(SIZE, seed=seed)
    made.shortlist = shortlist  # type: ignore[attr-defined]
    return made


def expected(
    made: Table, shortlist: Shortlist, source: list[int], search: Search, prefix: list[int]
) -> list[Hypothesis]:
    """The specification, one row by itself: logits of all other words are -inf before the softmax."""
    allowed = torch.full((SIZE,), -torch.inf, dtype=torch.float64)
    allowed[torch.from_numpy(shortlist.candidates(source))] = 0

    def logps(ids: list[int]) -> list[float]:
        found = (torch.tensor(made.logps(tuple(source), tuple(ids)), dtype=torch.float64) + allowed).log_softmax(0)
        found[START] = -torch.inf
        values: list[float] = found.tolist()
        return values

    return naive(logps, search, prefix, search.max_output_length(len(source)) - len(prefix))


@pytest.mark.parametrize("beam", [1, 2, 5, 9])
@pytest.mark.parametrize("each", [1, 3])
def test_it_finds_what_a_plain_search_among_them_finds(beam: int, each: int) -> None:
    """With fewer candidates than beams too, prefixes outside of the lists, and other rows beside."""
    shortlist = random_lists(beam, each)
    made, search = table(shortlist, seed=beam), Search(beam_size=beam, n_best=beam, max_length=6, shortlist=True)
    sources = [[3, 4, 5], [2], [7, 2, 0, 9], [11, 11]]
    outside = [next(n for n in range(2, SIZE) if n not in shortlist.candidates(source)) for source in sources]
    longest = max(map(len, sources))
    ids = torch.tensor([source + [0] * (longest - len(source)) for source in sources])
    valid = torch.tensor([[place < len(source) for place in range(longest)] for source in sources])
    for prefixes in ([[], [], [], []], [[n] for n in outside], [[], [outside[1], outside[1]], [4], []]):
        found = decode(made, ids, valid, special_tokens=SPECIAL, search=search, prefixes=prefixes)
        for source, prefix, own in zip(sources, prefixes, found):
            wanted = expected(made, shortlist, source, search, prefix)[: search.n_best]
            assert [h.ids for h in own] == [h.ids for h in wanted]
            assert [h.score for h in own] == pytest.approx([h.score for h in wanted])
            assert [h.logp for h in own] == pytest.approx([sum(h.token_logps) for h in own])
            for hypothesis in own:
                assert hypothesis.ids[: len(prefix)] == prefix
                assert set(hypothesis.ids[len(prefix) :]) <= set(shortlist.candidates(source))


def test_a_row_by_itself_is_the_same() -> None:
    shortlist, search = random_lists(1), Search(beam_size=3, n_best=3, max_length=8, shortlist=True)
    source = torch.randint(2, SIZE, (6, 4), generator=torch.Generator().manual_seed(1))
    together = decode(table(shortlist), source, special_tokens=SPECIAL, search=search)
    alone = [decode(table(shortlist), row[None], special_tokens=SPECIAL, search=search)[0] for row in source]
    assert together == alone


def test_only_the_end_may_be_left() -> None:
    """A list of one word: one hypothesis, whatever the beam; and where it may not end, nothing can be said."""
    starts, targets = concatenate_lists([np.zeros(0)] * SIZE + [np.array([END])])
    made, source = table(Shortlist(starts, targets, SIZE, SIZE)), torch.tensor([[3, 4]])
    for beam in (1, 4):
        (found,) = decode(made, source, special_tokens=SPECIAL, search=Search(beam_size=beam, shortlist=True))
        assert [(h.ids, h.logp, h.finished) for h in found] == [([], 0.0, True)]
        (stuck,) = decode(
            made, source, special_tokens=SPECIAL, search=Search(beam_size=beam, min_length=3, shortlist=True)
        )
        assert [(h.ids, h.finished) for h in stuck] == [([], False)]


def test_draws_and_streams_keep_to_it() -> None:
    shortlist, source = random_lists(2), torch.tensor([[3, 4, 5]])
    drawn = Search(beam_size=1, sample=True, n_best=30, seed=1, max_length=5, shortlist=True)
    (found,) = decode(table(shortlist), source, special_tokens=SPECIAL, search=drawn)
    said = {token for hypothesis in found for token in hypothesis.ids}
    assert said <= set(shortlist.candidates([3, 4, 5])) and len(said) > 2
    greedy = Search(beam_size=1, max_length=5, shortlist=True)
    (one,) = decode(table(shortlist), source, special_tokens=SPECIAL, search=greedy)
    assert list(stream(table(shortlist), source, special_tokens=SPECIAL, search=greedy)) == one[0].ids


def test_a_model_gives_the_softmax_of_the_allowed_logits() -> None:
    built, shortlist = model(), random_lists(3, 4, 23)
    stepper = ModelStepper(built)
    source = torch.randint(23, (3, 5))
    bound: ShortlistedStepper[object] = ShortlistedStepper(stepper, shortlist)  # type: ignore[arg-type,type-var]
    state = bound.start(source, None, 3)
    state.select(torch.tensor([2, 0, 0]))
    with torch.no_grad():
        found = bound.step(state, torch.tensor([[0, 4], [0, 5], [0, 6]]))
        memory = built.encode(source[[2, 0, 0]])
        hidden = built.decode(torch.tensor([[0, 4], [0, 5], [0, 6]]), memory=memory)[:, -1]
        logits = built.logits(hidden)
    allowed = torch.from_numpy(shortlist.mask(source[[2, 0, 0]].tolist()))
    wanted = logits.masked_fill(~allowed, -torch.inf).log_softmax(-1)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(3))
    assert (bound.vocabulary, bound.device) == (stepper.vocabulary, stepper.device)


def test_all_words_on_it_change_nothing() -> None:
    starts, targets = concatenate_lists([np.zeros(0)] * 23 + [np.arange(23)])
    source = torch.randint(23, (4, 6))
    for stepper in (ModelStepper(model()), Ensemble([ModelStepper(model()), ModelStepper(model(seed=1))])):
        stepper.shortlist = Shortlist(starts, targets, 23, 23)
        plain, bound = (
            decode(stepper, source, special_tokens=SPECIAL, search=Search(n_best=3, max_length=9, shortlist=on))
            for on in (False, True)
        )
        assert [[h.ids for h in row] for row in plain] == [[h.ids for h in row] for row in bound]
        for one, other in zip(plain, bound):
            assert [h.score for h in one] == pytest.approx([h.score for h in other], rel=1e-5)


def test_what_cannot_be_is_said() -> None:
    search, source = Search(shortlist=True), torch.tensor([[3, 4]])
    with pytest.raises(HeadwayError, match="this model has no shortlist. Make one: headway shortlist --model DIR"):
        decode(table(None), source, special_tokens=SPECIAL, search=search)
    with pytest.raises(
        HeadwayError, match="shortlists need a source sentence; this is a language model. Remove shortlist."
    ):
        list(stream(table(random_lists(1)), None, special_tokens=SPECIAL, search=Search(beam_size=1, shortlist=True)))
    with pytest.raises(
        HeadwayError, match="made for 23 tokens, and the model has 12. Make it again: headway shortlist"
    ):
        apply_shortlist(table(random_lists(1, size=23)), source)
    with pytest.raises(HeadwayError, match='the "cuda" search does not support this: shortlist is set'):
        stepper = ModelStepper(model())
        stepper.shortlist = random_lists(1, size=23)
        decode(stepper, source, special_tokens=SPECIAL, search=search, search_kind="cuda")
