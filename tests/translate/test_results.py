"""Results: each text of an n-best list once, whatever its tokens."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headway.cli.app import main
from headway.config.search import Search
from headway.decode.types import Hypothesis
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.translate.options import TranslateOptions
from headway.translate.source import Sentence
from headway.translate.translator import Translator, load_translator

TEXT = "A dog runs."


@pytest.fixture(scope="module")
def translator(translator_dir: Path) -> Translator:
    return load_translator(translator_dir, device="cpu", engine="torch")


def split_token(tokenizer: Tokenizer, ids: list[int]) -> list[int]:
    """The same text with one token written as two."""
    pieces = tokenizer.pieces(range(tokenizer.size))
    by_piece = {piece: n for n, piece in enumerate(pieces) if n not in tokenizer.control_ids}
    for place, token in enumerate(ids):
        for cut in range(1, len(pieces[token])):
            parts = [by_piece.get(part) for part in (pieces[token][:cut], pieces[token][cut:])]
            if None not in parts:
                found = [*ids[:place], *(part for part in parts if part is not None), *ids[place + 1 :]]
                assert tokenizer.decode(found) == tokenizer.decode(ids)
                return found
    raise AssertionError("no token can be written as two")


@pytest.fixture
def same_text_twice(translator: Translator, toy: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A search that finds two texts, the first of them twice; these texts."""
    target = translator.tokenizers.target
    texts = (toy / "train.qtx").read_text().splitlines()[:2]
    first = target.encode(texts[0])
    rows = [first, split_token(target, first), target.encode(texts[1])]

    def search_batch(translator: Translator, engine: Any, batch: Sequence[Sentence], search: Search) -> None:
        for sentence in batch:
            found = [Hypothesis(ids, -1.0 - n, -1.0 - n, [-1.0 - n], True) for n, ids in enumerate(rows)]
            sentence.hypotheses = found[: search.n_best]

    monkeypatch.setattr("headway.translate.search_calls.search_batch", search_batch)
    return texts


def test_each_text_once_with_its_best_score(translator: Translator, same_text_twice: list[str]) -> None:
    options = TranslateOptions(search=translator.search(n_best=3), retry=False)
    [result] = translator.translate([TEXT], options)
    assert [guess.text for guess in result.guesses] == same_text_twice
    assert [guess.score for guess in result.guesses] == [-1.0, -3.0]
    [two] = translator.translate([TEXT], TranslateOptions(search=translator.search(n_best=2), retry=False))
    assert [guess.text for guess in two.guesses] == same_text_twice[:1], (
        "fewer than n, and nothing searched in its place"
    )


def test_samples_are_independent_and_may_repeat(translator: Translator, same_text_twice: list[str]) -> None:
    search = translator.search(sample=True, n_best=3, seed=1)
    [result] = translator.translate([TEXT], TranslateOptions(search=search))
    assert [guess.text for guess in result.guesses] == [same_text_twice[0], *same_text_twice]


def test_each_text_once_on_the_command_line(
    same_text_twice: list[str], translator_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["translate", "--model", str(translator_dir), "--device", "cpu", "--engine", "torch", "--n-best", "3"]
    assert main([*command, TEXT]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" ||| ")[1] for line in lines] == same_text_twice
    assert main([*command, "--json", TEXT]) == 0
    assert [guess["text"] for guess in json.loads(capsys.readouterr().out)["n_best"]] == same_text_twice
