"""Pairs for next sentences: half of them consecutive, every one within its documents, packed to the length."""

import itertools
from typing import Any

import numpy as np
import pytest

from headway.config.schema import make_part
from headway.data.ragged import RaggedArray, ragged_from_lists
from headway.errors import ConfigError, HeadwayError
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.train.document_pairs import DocumentPairs, encode_documents, has_documents, split_documents
from headway.train.masked_objective import SentencePair
from headway.train.masking import choose_spans, choose_words, number_units
from headway.train.objectives import Example

SPECIAL = SpecialTokens(start=1, end=2, vocabulary=10_000)


def documents(count: int = 60, seed: int = 0) -> RaggedArray:
    """Token 100 · document + sentence, as often as the sentence is long."""
    random = np.random.default_rng(seed)
    rows: list[list[int]] = []
    for number in range(count):
        rows += [[100 * number + 10 + n] * int(random.integers(1, 12)) for n in range(int(random.integers(1, 30)))]
        rows.append([])
    return ragged_from_lists(rows)


def read_epoch(data: DocumentPairs, number: int = 0) -> list[SentencePair]:
    return [shard.examples[i] for shard in data.epoch(number) for i in range(len(shard.examples))]  # type: ignore[misc]


def test_half_of_the_pairs_are_consecutive_and_all_fit() -> None:
    data = DocumentPairs(documents(), 32, seed=1)
    pairs = list(itertools.chain.from_iterable(read_epoch(data, epoch) for epoch in range(8)))
    share = sum(pair.follows for pair in pairs) / len(pairs)
    assert abs(share - 0.5) < 4 * 0.5 / len(pairs) ** 0.5
    sizes = [len(pair.first) + len(pair.second) for pair in pairs]
    assert max(sizes) == 29 and min(min(len(pair.first), len(pair.second)) for pair in pairs) >= 1
    assert np.mean(np.array(sizes) > 20) > 0.6  # most of them are as long as they can be
    for pair in pairs:
        left, right = pair.first // 100, pair.second // 100
        assert len(set(left)) == 1 and len(set(right)) == 1
        assert (left[0] == right[0]) == pair.follows
        assert (np.diff(pair.first) >= 0).all() and (np.diff(pair.second) >= 0).all()
        if pair.follows:
            assert 0 <= pair.second[0] - pair.first[-1] <= 30


def test_an_epoch_depends_on_its_number_and_the_seed_alone() -> None:
    def flat(seed: int, epoch: int) -> list[tuple[list[int], list[int], bool]]:
        pairs = read_epoch(DocumentPairs(documents(), 32, seed), epoch)
        return [(pair.first.tolist(), pair.second.tolist(), pair.follows) for pair in pairs]

    assert flat(1, 0) == flat(1, 0)
    assert flat(1, 0) != flat(1, 1) and flat(1, 0) != flat(2, 0)


def test_every_sentence_is_read_in_pairs_that_follow() -> None:
    """Over some epochs: what a foreign text replaced is used again."""
    rows = documents(20)
    data = DocumentPairs(rows, 64, seed=3)
    seen = {int(n) for epoch in range(12) for pair in read_epoch(data, epoch) for n in pair.first}
    every = set(rows.flat.tolist())
    alone = {int(rows[i][0]) for i in range(len(rows)) if len(rows[i]) and (i == 0 or not len(rows[i - 1]))}
    assert seen <= every and len(every - seen) < len(alone) + 20


def test_sentences_and_documents_of_a_text() -> None:
    lines = ["One. Two is here!", "Three.", "", "  ", "Four"]
    assert list(split_documents(lines)) == ["One.", "Two is here!", "Three.", "", "", "Four"]
    tokenizer = Tokenizer.train(["one two three four"], "bytes")
    rows = encode_documents(lines, tokenizer)
    assert [tokenizer.decode(rows[i].tolist()) for i in range(len(rows))] == list(split_documents(lines))
    assert has_documents(rows)
    assert not has_documents(encode_documents(["One. Two."], tokenizer))
    assert not has_documents(encode_documents([], tokenizer))
    assert not has_documents(encode_documents(["One.", "", "Two."], tokenizer))


@pytest.mark.parametrize(
    ("rows", "max_tokens", "message"),
    [
        ([[5], [6]], 32, "from this text: it has 1 document, and half of the pairs need another. Put an em"),
        ([], 32, "from this text: it has 0 documents"),
        ([[5], [], [6]], 32, "none of its documents has two sentences. Put an empty line between documents, or set"),
        ([[5], [6], [], [7]], 4, "a pair of texts has at least 5 tokens, and train.max_tokens = 4. Raise it."),
    ],
)
def test_text_without_documents_is_refused(rows: list[list[int]], max_tokens: int, message: str) -> None:
    with pytest.raises(HeadwayError) as caught:
        DocumentPairs(ragged_from_lists(rows), max_tokens, 0)
    assert message in str(caught.value)


def test_a_batch_of_pairs() -> None:
    """[CLS] a [SEP] b [SEP], two segments; control tokens and padding are never predicted."""
    objective = make_part("objective", "masked(0.9, masked=1, random=0, next_sentence=true)")
    pairs = [
        SentencePair(np.arange(10, 14), np.arange(20, 23), True),
        SentencePair(np.arange(30, 31), np.arange(40, 42), False),
    ]
    batch = objective.collate(pairs, SPECIAL, np.random.default_rng(0))  # type: ignore[attr-defined]
    original = np.where(batch.labels == IGNORE_INDEX, batch.source, batch.labels)
    assert original.tolist() == [[1, 10, 11, 12, 13, 2, 20, 21, 22, 2], [1, 30, 2, 40, 41, 2, 0, 0, 0, 0]]
    assert batch.segments.tolist() == [[0] * 6 + [1] * 4, [0] * 3 + [1] * 3 + [0] * 4]
    assert batch.follows.tolist() == [0, 1]
    assert batch.source_valid.sum(1).tolist() == [10, 6]
    padded = batch.pad_to(4, 8)
    assert padded.segments.shape == padded.source.shape == (4, 16)
    assert padded.follows.tolist() == [0, 1, IGNORE_INDEX, IGNORE_INDEX]
    part = batch.slice_rows(1, 2)
    assert part.follows.tolist() == [1] and part.segments.tolist() == [batch.segments[1].tolist()]


def test_random_tokens_stand_for_text_wherever_the_control_tokens_are() -> None:
    """In RoBERTa's vocabulary the mask token is the last one."""
    objective: Any = make_part("objective", "masked(0.5, masked=0, random=1)")
    special = SpecialTokens(start=0, end=2, pad=1, mask=49, suppress=(0, 1, 3, 49), vocabulary=50)
    ids = np.full(400, 10)
    batch = objective.collate([Example(ids[:0], ids)], special, np.random.default_rng(0))
    hidden = batch.labels != IGNORE_INDEX
    found = set(batch.source[hidden].tolist())
    assert found <= set(range(4, 49)) and len(found) > 30 and (batch.source[~hidden] == 10).all()
    with pytest.raises(ConfigError, match="has no mask token"):
        objective.check_vocabulary(SpecialTokens(start=1, end=2, mask=-1), 64)


# Control tokens 0 to 3, odd ids begin words, even ids continue them.
ROLES = np.array([0] * 4 + [2 if n % 2 == 0 else 3 for n in range(4, 100)], np.uint8)


def word_rows(count: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    ids = random.integers(4, 100, (count, length))
    text = np.ones_like(ids, bool)
    ids[:, 0], ids[:, length // 2], text[:, 0], text[:, length // 2] = 1, 2, False, False
    return ids, text


def test_words_are_masked_whole() -> None:
    ids, text = word_rows(200, 64)
    units = number_units(ids, text, ROLES)
    chosen = choose_words(ids, text, ROLES, 0.15, np.random.default_rng(0))
    assert not chosen[~text].any() and chosen.any(1).all()
    assert abs(chosen[text].mean() - 0.15) < 0.02
    for row in range(len(ids)):
        for unit in range(units[row].max() + 1):
            assert len(set(chosen[row, units[row] == unit].tolist())) == 1
    assert (units[:, 1] == 0).all()  # a continuation behind a control token begins a word of its own
    assert (np.diff(units, axis=1)[:, 32:33] != 0).all()


def test_spans_have_geometric_lengths_and_one_fate() -> None:
    """In words of one token each; SpanBERT: p = 0.2, at most 10, mean 3.8."""
    ids, text = np.full((400, 512), 5), np.ones((400, 512), bool)
    chosen, dice = choose_spans(ids, text, ROLES, 0.15, (0.2, 10), np.random.default_rng(0))
    assert (chosen.sum(1) == round(0.15 * 512)).all()
    assert (dice[~chosen] == 0).all()
    lengths = np.concatenate([np.unique(row[row > 0], return_counts=True)[1] for row in dice])
    assert lengths.max() == 10
    expected = 0.2 * 0.8 ** np.arange(10)
    expected /= expected.sum()
    assert abs(lengths.mean() - (expected * np.arange(1, 11)).sum()) < 0.35  # a little less: spans overlap, or are cut
    found = np.bincount(lengths, minlength=11)[1:] / len(lengths)
    assert np.abs(found - expected).max() < 0.04
    whole, dice = choose_spans(*word_rows(50, 40), ROLES, 0.3, (0.2, 3), np.random.default_rng(0))
    assert whole.any(1).all()
    nothing = choose_spans(
        np.zeros((1, 4), int), np.zeros((1, 4), bool), ROLES, 0.3, (0.2, 3), np.random.default_rng(0)
    )
    assert not nothing[0].any()


@pytest.mark.parametrize("unit", ["words", "spans"])
def test_the_objective_masks_words_and_spans_of_a_tokenizer(unit: str) -> None:
    from headway.config.config import read_config
    from headway.text.tokenizer.pair import Tokenizers
    from headway.train.dataset import training_special_tokens

    lines = ["unbelievable wonders happened, astonishingly", "wonderful wonders: unbelievably astonishing!"] * 3
    for kind in ("wordpiece", "bpe"):
        tokenizer = Tokenizer.train(lines, kind)
        table = {"train": {"objective": f"masked(0.4, masked=1, random=0, unit='{unit}', max_span=1)"}}
        config = read_config({"model": {"decoder": {"layers": 0}}, **table})
        special = training_special_tokens(config, Tokenizers(tokenizer, tokenizer))
        ids = np.array(tokenizer.encode("unbelieved wandering, happily wonders"))
        batch = config.train.objective.collate([Example(ids[:0], ids)] * 40, special, np.random.default_rng(0))
        text = np.ones((1, len(ids)), bool)
        units = number_units(ids[None], text, special.target_roles)[0]
        assert units.max() + 1 < len(ids)  # some words have several tokens
        if unit == "words":
            for row in (batch.labels != IGNORE_INDEX).numpy():
                assert all(len(set(row[units == n].tolist())) == 1 for n in range(units.max() + 1))
        assert ((batch.source == special.mask) == (batch.labels != IGNORE_INDEX)).all()
