"""The same ids and scores as `generate` of Hugging Face on the same weights."""

import pytest
import torch
from decode.hf_marian import END, PAD, MarianStepper, small_marian
from torch import Tensor

from headway.decode import Search, SpecialTokens, decode

SPECIAL = SpecialTokens(start=PAD, end=END, suppress=(PAD,))
LONGEST = 14  # of the output, its end token counted


@pytest.fixture(scope="module")
def model():
    return small_marian()


def inputs(rows: int) -> tuple[Tensor, Tensor]:
    """Random sources of 1 to 12 tokens, each closed by the end token, padded."""
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(1, 13, (rows, 1), generator=generator)
    places = torch.arange(13)
    source = torch.randint(1, PAD, (rows, 13), generator=generator)
    source = source.masked_fill(places == lengths, END).masked_fill(places > lengths, PAD)
    return source, places <= lengths


def generate(model, source, valid, beams, **options):
    """For each row, all beams as (ids without start, end and padding; score or None)."""
    if beams > 1:
        options = {"early_stopping": True, "output_scores": True} | options
    out = model.generate(
        source,
        attention_mask=valid.long(),
        num_beams=beams,
        num_return_sequences=beams,
        do_sample=False,
        bad_words_ids=[[PAD]],
        return_dict_in_generate=True,
        **{"max_length": LONGEST + 1, **options},
    )
    scores = out.sequences_scores.tolist() if beams > 1 else [None] * len(out.sequences)
    lines = [[token for token in line if token not in (PAD, END)] for line in out.sequences.tolist()]
    found = list(zip(lines, scores))
    return [found[row : row + beams] for row in range(0, len(found), beams)]


def assert_same(ours, theirs):
    for mine, other in zip(ours, theirs, strict=True):
        assert [hypothesis.ids for hypothesis in mine] == [ids for ids, _ in other]
        for hypothesis, (_, score) in zip(mine, other):
            assert score is None or hypothesis.score == pytest.approx(score, rel=1e-5)


@pytest.mark.parametrize(("beams", "alpha"), [(1, 0.6), (4, 0.6), (4, 2.0), (8, 0.6), (8, 0.0)])
def test_two_hundred_inputs(model, beams, alpha):
    source, valid = inputs(200)
    search = Search(beam_size=beams, n_best=beams, penalty="power", alpha=alpha, max_length=LONGEST)
    ours = decode(MarianStepper(model), source, valid, special_tokens=SPECIAL, search=search)
    penalty = {"length_penalty": alpha} if beams > 1 else {}
    assert_same(ours, generate(model, source, valid, beams, **penalty))
    found = [hypothesis for row in ours for hypothesis in row]
    assert len({len(hypothesis.ids) for hypothesis in found}) > 8
    assert {hypothesis.finished for hypothesis in found} == {True, False}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"no_repeat_ngram": 1}, {"no_repeat_ngram_size": 1}),
        ({"no_repeat_ngram": 2}, {"no_repeat_ngram_size": 2}),
        ({"min_length": 6}, {"min_length": 6}),  # theirs counts the start token and compares before the end one
        ({"max_length": 1}, {"max_length": 2}),
    ],
    ids=str,
)
@pytest.mark.parametrize("beams", [1, 4])
def test_settings(model, beams, ours, theirs):
    source, valid = inputs(40)
    search = Search(beam_size=beams, n_best=beams, penalty="power", **{"max_length": LONGEST, **ours})
    found = decode(MarianStepper(model), source, valid, special_tokens=SPECIAL, search=search)
    penalty = {"length_penalty": search.alpha} if beams > 1 else {}
    assert_same(found, generate(model, source, valid, beams, **penalty, **theirs))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"stopping": "score"}, {"early_stopping": False}),
        ({"stopping": "score", "alpha": 2.0}, {"early_stopping": False, "length_penalty": 2.0}),
        ({"force_end": True}, {"forced_eos_token_id": END}),
        ({"renormalise": True}, {"renormalize_logits": True}),
        (
            {"stopping": "score", "force_end": True, "renormalise": True},
            {"early_stopping": False, "forced_eos_token_id": END, "renormalize_logits": True},
        ),
    ],
    ids=str,
)
def test_settings_of_the_reference_search_alone(model, ours, theirs):
    source, valid = inputs(120)
    search = Search(beam_size=4, n_best=4, penalty="power", **{"max_length": LONGEST, **ours})
    found = decode(MarianStepper(model), source, valid, special_tokens=SPECIAL, search=search)
    assert_same(found, generate(model, source, valid, 4, **{"length_penalty": search.alpha, **theirs}))
    plain = decode(
        MarianStepper(model), source, valid, special_tokens=SPECIAL,
        search=Search(beam_size=4, n_best=4, penalty="power", alpha=search.alpha, max_length=LONGEST),
    )  # fmt: skip
    assert [row[0].score for row in found] != [row[0].score for row in plain], "the settings matter"


@pytest.mark.parametrize("beams", [1, 4])
def test_forced_prefix(model, beams):
    """The prefix is neither in the score nor in the length it is divided by."""
    source, valid = inputs(40)
    prefixes = [[1 + row, 2, 3] for row in range(40)]
    search = Search(beam_size=beams, n_best=beams, penalty="power", max_length=LONGEST)
    ours = decode(MarianStepper(model), source, valid, special_tokens=SPECIAL, search=search, prefixes=prefixes)
    penalty = {"length_penalty": search.alpha} if beams > 1 else {}
    prompt = torch.tensor([[PAD, *prefix] for prefix in prefixes])
    assert_same(ours, generate(model, source, valid, beams, decoder_input_ids=prompt, **penalty))
