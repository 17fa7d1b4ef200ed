"""Examples from text: empty and too long pairs are left out and counted, tags, running text in pieces."""

from pathlib import Path

import numpy as np
import pytest

from headway.config.config import read_config
from headway.config.schema import make_part
from headway.data.corpora import parallel_from_memory, text_from_memory
from headway.data.epoch_encoder import EpochEncoder
from headway.errors import HeadwayError
from headway.text.lm_text import encode_text
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.special_tokens import special_tokens
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.train.dataset import Dataset, EpochShard, ParallelDataset, make_sides, tokenizer_dropout
from headway.train.lm_dataset import TextDataset, WholeTextDataset, encode_text_file
from headway.train.objectives import Example

BYTES = Tokenizer.train([], "bytes")
BOTH = Tokenizers(BYTES, BYTES)


def text_of(ids: np.ndarray) -> str:
    return BYTES.decode(ids.tolist())


def examples_of(corpus: Dataset, epoch: int = 0) -> list[Example]:
    return [portion.examples[i] for portion in corpus.epoch(epoch) for i in range(len(portion.examples))]


def test_examples_are_the_pairs() -> None:
    corpus = ParallelDataset([parallel_from_memory(["One", "Two"], ["Eins", "Zwei"])], BOTH, (), 20)
    examples = examples_of(corpus)
    assert [(text_of(e.source), text_of(e.target)) for e in examples] == [("One", "Eins"), ("Two", "Zwei")]
    assert all(e.source[-1] == BYTES.end and BYTES.end not in e.target for e in examples)
    [portion] = corpus.epoch(0)
    assert portion.lengths.tolist() == [[len(e.source), len(e.target) + 1] for e in examples]
    assert (corpus.size, corpus.skipped_summary) == (2, "")


def test_empty_and_too_long_pairs_are_left_out_and_counted() -> None:
    source = ["fits", "", "no target", "x" * 40, "short", "fits too"]
    target = ["passt", "no source", "", "lang", "y" * 40, "auch"]
    corpus = ParallelDataset([parallel_from_memory(source, target)], BOTH, (), 12)
    assert [text_of(e.source) for e in examples_of(corpus)] == ["fits", "fits too"]
    assert corpus.skipped_summary == "pairs left out: 2 with an empty side, 2 longer than 12 tokens"


def test_the_longest_that_fits_fits() -> None:
    """The source with its end, the target with its start: exactly `max_tokens` tokens."""
    length = len(BYTES.encode("x" * 10)) + 1
    for longest, count in ((length, 1), (length - 1, 0)):
        assert ParallelDataset([parallel_from_memory(["x" * 10], ["x" * 10])], BOTH, (), longest).size == count


def test_the_target_language_opens_the_source() -> None:
    tokenizer = Tokenizer.train(["a b"], "bytes", tags=["de", "fr"])
    pairs = [parallel_from_memory(["a", ""], ["b", "c"], "en", "fr"), parallel_from_memory(["a"], ["b"], "en", "de")]
    corpus = ParallelDataset(pairs, Tokenizers(tokenizer, tokenizer), ("de", "fr"), 20)
    leads = [tokenizer.pieces([int(e.source[0])])[0] for e in examples_of(corpus)]
    assert leads == ["⟨to:fr⟩", "⟨to:de⟩"]
    assert corpus.skipped_summary == "pairs left out: 1 with an empty side"


def test_a_language_without_a_tag_is_refused() -> None:
    tokenizer = Tokenizer.train(["a b"], "bytes", tags=["de", "fr"])
    with pytest.raises(
        HeadwayError, match=r'a target has the language "it", but this model learns de, fr. Name the language of each'
    ):
        ParallelDataset(
            [parallel_from_memory(["a"], ["b"], "en", "it")], Tokenizers(tokenizer, tokenizer), ("de", "fr"), 20
        )


def test_dropout_splits_anew_in_each_epoch_and_keeps_the_text(tmp_path: Path) -> None:
    lines = ["the dog sees the house", "the house sees the dog"] * 8
    tokenizer = Tokenizer.train(lines * 3, "bpe(384)")
    both, pairs = Tokenizers(tokenizer, tokenizer), parallel_from_memory(lines, lines)
    respelled = EpochEncoder(tmp_path, [(pairs.origin, make_sides(pairs, both, ()))], 0.5)
    corpus = ParallelDataset([pairs], both, (), 64, respelled)
    try:
        first, second = examples_of(corpus, 0), examples_of(corpus, 1)
    finally:
        corpus.close()
    for examples in (first, second):
        assert [tokenizer.decode(e.source.tolist()) for e in examples] == lines
        assert [tokenizer.decode(e.target.tolist()) for e in examples] == lines
    assert [e.source.tolist() for e in first] != [e.source.tolist() for e in second]
    assert tokenizer_dropout(read_config({"tokenizer": "bpe(dropout=0.1)"})) == 0.1
    assert tokenizer_dropout(read_config({"tokenizer": "bytes"})) == 0.0


def test_sides_are_those_of_the_examples() -> None:
    """Of several corpora, one corpus after the other."""
    tokenizer = Tokenizer.train(["a b"], "bytes")
    pairs = [parallel_from_memory(["a", "b b", "c"], ["x", "y", "z z"]), parallel_from_memory(["d"], ["w w w"])]
    corpus = ParallelDataset(pairs, Tokenizers(tokenizer, tokenizer), (), 20)
    [portion] = corpus.epoch(0)
    chosen = np.array([3, 2, 0])
    plain = EpochShard([portion.examples[i] for i in range(4)], portion.lengths)
    for found in (portion.take(chosen), plain.take(chosen)):
        texts = [[tokenizer.decode(rows[n].tolist()) for n in range(3)] for rows in found]
        assert sorted(zip(*texts)) == [("a", "x"), ("c", "z z"), ("d", "w w w")]


def test_a_text_becomes_one_stream_without_torn_tokens() -> None:
    tokenizer = Tokenizer.train(["the dog sees the house\n"] * 30, "bpe(384)")
    lines = ["the dog sees the house"] * 9000  # more than one piece
    stream = encode_text_file(text_from_memory(lines), tokenizer)
    assert tokenizer.decode(stream[:4].tolist()) == "\nthe dog sees"
    assert len(stream) - 1 == pytest.approx(len(tokenizer.encode("the dog sees the house\n")) * 9000, rel=0.01)
    assert stream.tolist() == encode_text("".join(f"{line}\n" for line in lines), tokenizer).tolist()
    assert len(encode_text("", tokenizer)) == 1


def test_a_text_without_line_ends_is_cut_too() -> None:
    stream = encode_text_file(text_from_memory(["x" * 250_000]), BYTES)
    assert len(stream) >= 250_000


def test_running_text_is_cut_elsewhere_in_each_epoch() -> None:
    corpus = TextDataset(np.arange(1003), 10, seed=1)
    starts = {int(examples_of(corpus, epoch)[0].target[0]) for epoch in range(12)}
    assert len(starts) > 1
    again = TextDataset(np.arange(1003), 10, seed=1)
    assert [e.target.tolist() for e in examples_of(again, 3)] == [e.target.tolist() for e in examples_of(corpus, 3)]


@pytest.mark.parametrize("length", [2, 9, 10, 11, 12, 20, 21, 22, 35])
def test_what_is_measured_on_is_whole(length: int) -> None:
    """Every token but the first is guessed once, from the pieces' own beginnings."""
    corpus = WholeTextDataset(np.arange(length), 10)
    pieces = [example.target for example in examples_of(corpus)]
    guessed = [int(token) for piece in pieces for token in piece[1:]]
    assert guessed == list(range(1, length))
    assert max(len(piece) for piece in pieces) <= 11
    assert corpus.size == length - 1


@pytest.mark.parametrize("length", [1, 9, 10, 11, 20, 21, 35])
def test_where_nothing_is_guessed_ahead_every_token_is_read_once(length: int) -> None:
    """Hidden words are among those that are read: a piece is no longer than the model's last position."""
    measured, learned = (
        WholeTextDataset(np.arange(length), 10, lookahead=0),
        TextDataset(np.arange(length), 10, seed=1, lookahead=0),
    )
    pieces = [example.target.tolist() for example in examples_of(measured)]
    assert [token for piece in pieces for token in piece] == list(range(length)) and max(map(len, pieces)) <= 10
    assert measured.size == learned.size == length
    for epoch in range(4):
        read = [token for example in examples_of(learned, epoch) for token in example.target.tolist()]
        assert len(read) == len(set(read)) > length - 10
        assert max(len(example.target) for example in examples_of(learned, epoch)) <= 10


@pytest.mark.parametrize(("kind", "ahead"), [("causal", 1), ("masked", 0)])
def test_a_step_of_running_text_holds_the_tokens_that_were_asked_for(kind: str, ahead: int) -> None:
    objective = make_part("objective", kind)
    corpus = TextDataset(np.arange(5, 64 * 128 + 5 + ahead), 128, seed=1, lookahead=ahead)
    (portion,) = corpus.epoch(0)
    for rows in portion.batches(4096, [0]):
        chosen = [portion.examples[i] for i in rows]
        batch = objective.collate(chosen, special_tokens(BYTES), np.random.default_rng(0))  # type: ignore[attr-defined]
        assert batch.token_count == batch.labels.numel() == 4096


def test_marks_are_the_tokenizers() -> None:
    special = special_tokens(BYTES)
    assert (special.pad, special.start, special.end, special.mask) == (BYTES.pad, BYTES.start, BYTES.end, BYTES.mask)
    assert special.vocabulary == BYTES.size
