"""Placeholders in training text: each stands on both sides, at words that belong together."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import headway
from headway.data.corpora import parallel_from_memory
from headway.data.toy import toy_corpus
from headway.decode.types import Hypothesis
from headway.text.spans.protect import PLACEHOLDER, make_protector
from headway.train.placeholders import add_placeholders, find_phrases, insert_placeholders
from headway.translate.options import TranslateOptions
from headway.translate.search import Fault, Request, SentenceSearch, translate_requests
from headway.translate.source import Sentence
from headway.translate.translator import Translator

PAIR = ("A small dog runs, and barks.", "Ein kleiner Hund rennt und bellt.")
LINKS = [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)]


def numbers(text: str) -> list[int]:
    return [int(found[1]) for found in PLACEHOLDER.finditer(text)]


def test_every_placeholder_is_on_both_sides_and_counted_by_the_source() -> None:
    seen: Counter[bool] = Counter()
    for seed in range(300):
        source, target = insert_placeholders(PAIR, LINKS, random.Random(seed))
        assert (source, target) != PAIR
        assert numbers(source) == list(range(len(numbers(source))))
        assert sorted(numbers(target)) == numbers(source)
        seen["⟦0⟧ runs" in source and "⟦0⟧ rennt" in target] += 1
        seen[False] += "Hund" in source  # a word of the target, as a glossary would give it
    assert min(seen.values()) > 0
    assert insert_placeholders(PAIR, LINKS, random.Random(7)) == insert_placeholders(PAIR, LINKS, random.Random(7))


def test_where_nothing_is_linked_they_stand_at_the_edges() -> None:
    for seed in range(50):
        source, target = insert_placeholders(PAIR, [], random.Random(seed))
        assert PLACEHOLDER.sub("", source).strip() in (PAIR[0], "A small dog runs, and barks .")
        assert source[:1] == target[:1] or source[-2:] == target[-2:]
    assert insert_placeholders(("⟦0⟧ a", "⟦0⟧ b"), [], random.Random(0)) == ("⟦0⟧ a", "⟦0⟧ b")


def test_phrases_say_the_same_and_nothing_else() -> None:
    pair = ("a b, c.", "x y z.")
    spelled = {
        (pair[0][slice(*one)], pair[1][slice(*other)]) for one, other in find_phrases(pair, [(0, 1), (1, 0), (2, 2)])
    }
    assert spelled == {("a", "y"), ("b", "x"), ("a b", "x y"), ("c", "z"), ("a b, c", "x y z")}
    assert find_phrases(("… b", "… y"), [(0, 0)]) == []  # signs alone are no words


def test_a_share_of_a_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path))
    pairs = [(pair.source, pair.target) for pair in toy_corpus(400)]
    corpus = parallel_from_memory([a for a, _ in pairs], [b for _, b in pairs], "en", "qtx", 2.0)
    (made,) = add_placeholders([corpus], 0.5)
    changed = [a != b for a, b in zip(pairs, made.read(), strict=True)]
    assert 120 < sum(changed) < 280
    assert made.identity != corpus.identity
    assert (made.weight, made.counts, made.target_language) == (2.0, corpus.counts, "qtx")
    assert list(made.read()) == list(add_placeholders([corpus], 0.5)[0].read())
    marked = list(made.read())
    corpus = parallel_from_memory([a for a, _ in marked], [b for _, b in marked], "en", "qtx")
    assert add_placeholders([corpus], 0.3) == [corpus]  # it came with so many


@pytest.fixture(scope="module")
def taught(train_toy: Callable[..., Path]) -> Path:
    return train_toy("--set", "train.placeholder_share=0.5")


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_model_that_has_learned_them(taught: Path, toy: Path, engine: str) -> None:
    translator = headway.load(taught, device="cpu", engine=engine)
    assert isinstance(translator, Translator)
    assert translator.summary.placeholders
    lines = (toy / "train.en").read_text().splitlines()[:20]
    given = [f"{first} <b>{second}</b> %s {rest}" for first, second, rest in (line.split(" ", 2) for line in lines)]
    for line, one in zip(given, translator.translate(given)):
        assert make_protector().find_missing(make_protector().mask(line)[1], one.text) == []
    assert any("<b>" in one.text and not one.warnings for one in translator.translate(given))


def test_a_placeholder_that_nobody_gave(taught: Path, toy: Path) -> None:
    translator = headway.load(taught, device="cpu")
    assert isinstance(translator, Translator)
    line = (toy / "train.en").read_text().splitlines()[0]
    [forced] = translate_requests(translator, [Request(line, prefix="⟦0⟧")], TranslateOptions())
    assert forced.text.startswith("⟦0⟧")  # it was asked for
    finder = SentenceSearch(translator, translator.summary.search, retry=True)
    made = Sentence("", line, translator.tokenizers.source.encode(line), 0)
    found = Hypothesis(translator.tokenizers.target.encode("mi ⟦0⟧ ni"), 0.0, 0.0, [], True)
    assert finder._find_fault(made, found) == Fault("the output had a placeholder that the input lacks")
