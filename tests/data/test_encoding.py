"""Lines become rows of ids; with dropout other ids in every epoch, for the same text."""

import numpy as np
import pytest

from headway.data.encoding import EpochEncoder, Rows, encode_rows
from headway.text import Tokenizer

LINES = ["the dog sees the house", "", "a house", "the dog and the house and the dog"] * 5


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(LINES * 4, "bpe(384)")


def test_rows_are_what_the_tokenizer_says(tokenizer: Tokenizer) -> None:
    rows = encode_rows(tokenizer, LINES)
    assert len(rows) == len(LINES)
    assert [rows[n].tolist() for n in range(len(rows))] == tokenizer.encode_batch(LINES)
    assert rows.lengths().tolist() == [len(row) for row in tokenizer.encode_batch(LINES)]


def test_lead_and_tail_frame_every_row(tokenizer: Tokenizer) -> None:
    rows = encode_rows(tokenizer, LINES, lead=[7], tail=[2, 3])
    for n, line in enumerate(LINES):
        assert rows[n].tolist() == [7, *tokenizer.encode(line), 2, 3]


def test_no_lines_no_rows(tokenizer: Tokenizer) -> None:
    rows = encode_rows(tokenizer, [])
    assert len(rows) == 0
    assert rows.lengths().tolist() == []
    assert Rows(np.array([1, 2, 3]), np.array([1, 3]))[1].tolist() == [2, 3]


def test_dropout_gives_other_ids_in_each_epoch_and_the_same_text(tokenizer: Tokenizer) -> None:
    encoder = EpochEncoder([(tokenizer.to_json(), LINES, [], [2]), (tokenizer.to_json(), LINES, [], [])], 0.5)
    try:
        epochs = encoder.epochs()
        first, second = next(epochs), next(epochs)
    finally:
        encoder.close()
    assert len(first) == 2  # one for each side
    for rows in (first[0], second[0]):
        assert [tokenizer.decode(rows[n]) for n in range(len(rows))] == LINES
        assert all(rows[n][-1] == 2 for n in range(len(rows)))
    assert first[0].flat.tolist() != second[0].flat.tolist()
    assert first[1].flat.tolist() != second[1].flat.tolist()
    assert first[0].lengths().sum() > encode_rows(tokenizer, LINES, tail=[2]).lengths().sum()
