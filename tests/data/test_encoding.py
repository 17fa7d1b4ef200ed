"""Lines become rows of ids; with dropout other ids in every epoch, for the same text."""

import os
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from headway.data import epoch_encoder
from headway.data.corpora import MemoryPairs
from headway.data.encoding import LINES_PER_GROUP, MAX_SERIAL_GROUPS, EncodedSide, encode_lines, encode_to_folder
from headway.data.epoch_encoder import EpochEncoder
from headway.data.ragged import RaggedArray, open_ragged
from headway.text.tokenizer.tokenizer import Tokenizer

LINES = ["the dog sees the house", "", "a house", "the dog and the house and the dog"] * 5


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(LINES * 4, "bpe(384)")


def test_rows_are_what_the_tokenizer_says(tokenizer: Tokenizer) -> None:
    rows = encode_lines(tokenizer, LINES)
    assert len(rows) == len(LINES)
    assert [rows[n].tolist() for n in range(len(rows))] == tokenizer.encode_batch(LINES)
    assert rows.lengths().tolist() == [len(row) for row in tokenizer.encode_batch(LINES)]


def test_lead_and_tail_frame_every_row(tokenizer: Tokenizer) -> None:
    rows = encode_lines(tokenizer, LINES, lead=[7], tail=[2, 3])
    for n, line in enumerate(LINES):
        assert rows[n].tolist() == [7, *tokenizer.encode(line), 2, 3]


def test_no_lines_no_rows(tokenizer: Tokenizer) -> None:
    rows = encode_lines(tokenizer, [])
    assert len(rows) == 0
    assert rows.lengths().tolist() == []
    assert RaggedArray(np.array([1, 2, 3]), np.array([1, 3]))[1].tolist() == [2, 3]


def test_dropout_gives_other_ids_in_each_epoch_and_the_same_text(tokenizer: Tokenizer, tmp_path: Path) -> None:
    sides = [EncodedSide("source", tokenizer, tail=[2]), EncodedSide("target", tokenizer)]
    encoder = EpochEncoder(tmp_path, [(MemoryPairs(tuple(zip(LINES, LINES))), sides)], 0.5)
    try:
        first = encoder.epoch(0)
        kept = first[0].flat.tolist(), first[1].flat.tolist()
        second = encoder.epoch(1)
    finally:
        encoder.close()
    assert len(first) == 2  # one for each side
    for rows in (first[0], second[0]):
        assert [tokenizer.decode(rows[n].tolist()) for n in range(len(rows))] == LINES
        assert all(rows[n][-1] == 2 for n in range(len(rows)))
    assert kept[0] != second[0].flat.tolist()
    assert kept[1] != second[1].flat.tolist()
    assert first[0].lengths().sum() > encode_lines(tokenizer, LINES, tail=[2]).lengths().sum()
    assert (tmp_path / "epoch-000000").exists()  # others may not have opened it yet


def test_a_run_that_goes_on_finds_the_epoch_as_it_was(tokenizer: Tokenizer, tmp_path: Path) -> None:
    corpora = [
        (MemoryPairs(tuple(zip(LINES, LINES))), [EncodedSide("source", tokenizer), EncodedSide("target", tokenizer)])
    ]
    found = []
    for _ in range(2):
        encoder = EpochEncoder(tmp_path, corpora, 0.5)
        try:
            found.append([rows.flat.tolist() for rows in encoder.epoch(3)])
        finally:
            encoder.close()
    other = EpochEncoder(tmp_path, corpora, 0.5, writes=False)
    found.append([rows.flat.tolist() for rows in other.epoch(3)])
    assert found[0] == found[1] == found[2]


def test_several_processes_encode_an_epoch_each(tokenizer: Tokenizer, tmp_path: Path) -> None:
    sides = [EncodedSide("source", tokenizer), EncodedSide("target", tokenizer)]
    encoder = EpochEncoder(tmp_path / "text", [(MemoryPairs(tuple(zip(LINES, LINES))), sides)], 0.5)
    encoder.processes = 2
    try:
        encoder.begin()
        assert list(encoder.pending) == [0]
        found = [encoder.epoch(number)[0].flat.tolist() for number in range(3)]
        assert list(encoder.pending) == [3, 4]
        encoder.epoch(13)
        assert not (tmp_path / "text" / "epoch-000000").exists() and (tmp_path / "text" / "epoch-000001").exists()
        assert found[0] != found[1] != found[2]
        again = EpochEncoder(tmp_path / "text", [], 0.5)
        again.begin()  # goes on from somewhere
        assert not again.pending
    finally:
        encoder.close()


@pytest.mark.parametrize("made", [True, False])
def test_of_two_runs_that_encode_the_same_epoch_one_is_enough(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: bool
) -> None:
    """Another run's folder is there when this one has finished its own; or the disk fails."""
    folder = tmp_path / "epoch-000000"

    def replace(partial: Path, to: Path) -> None:
        if made:
            to.mkdir()
        raise OSError("no")

    monkeypatch.setattr(os, "replace", replace)
    corpora = [(MemoryPairs((("a", "b"),)), [("source", tokenizer.to_json(), (), ())])]
    with nullcontext() if made else pytest.raises(OSError, match="no"):
        epoch_encoder._encode_epoch(folder, corpora, 0.5)
    assert list(tmp_path.iterdir()) == [folder] * made


@pytest.mark.parametrize("count", [0, 7, 70_000])
def test_rows_on_disk_are_the_rows_in_memory(tokenizer: Tokenizer, tmp_path: Path, count: int) -> None:
    """However many there are: a few are encoded here, many by other processes."""
    texts = [(f"the dog {n % 97}", f"{n % 89} houses") for n in range(count)]
    assert count < LINES_PER_GROUP or count > MAX_SERIAL_GROUPS * LINES_PER_GROUP
    sides = [EncodedSide("source", tokenizer, [5], [2]), EncodedSide("target", tokenizer)]
    encode_to_folder(tmp_path, iter(texts), sides, opening=[1])
    for index, side in enumerate(sides):
        rows = open_ragged(tmp_path, side.name)
        expected = encode_lines(tokenizer, [pair[index] for pair in texts], 0.0, side.lead, side.tail)
        assert rows[0].tolist() == [1]
        assert rows.flat[1:].tolist() == expected.flat.tolist()
        assert rows.lengths(1).tolist() == expected.lengths().tolist()
        assert rows.flat.dtype == np.uint16
