"""Alignments by a translator: of given pairs, of its own output, with and without a head that learned them."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from headway.data.toy import toy_corpus
from headway.errors import HeadwayError
from headway.text.align.aligner import train_aligner
from headway.text.align.words import split_words
from headway.text.tokenizer.direction_tokens import DirectionTokens
from headway.translate.alignment import (
    align_ids,
    align_pairs,
    find_alignment_weights,
    is_guided,
    link_words,
    read_source_attention,
)
from headway.translate.options import TranslateOptions
from headway.translate.translator import Translator, load_translator

PAIRS = [(pair.source, pair.target) for pair in toy_corpus(120)[20:]]  # what the models of the tests were trained on


@pytest.fixture(scope="module")
def guided_dir(train_toy: Callable[..., Path]) -> Path:
    return train_toy("--set", "train.alignment=guided(0.5)")


@pytest.fixture(scope="module")
def guided(guided_dir: Path) -> Translator:
    return load_translator(guided_dir, device="cpu")


def error_rate(found: list[list[tuple[int, int]]], wanted: list[set[tuple[int, int]]]) -> float:
    right = sum(len(set(one) & other) for one, other in zip(found, wanted))
    return 1 - 2 * right / (sum(map(len, found)) + sum(map(len, wanted)))


def taught() -> list[set[tuple[int, int]]]:
    return [{(i, j) for i, j in own.tolist()} for own in train_aligner(PAIRS).align(PAIRS)]


def test_a_guided_head_says_what_it_was_taught(guided: Translator, translator_dir: Path) -> None:
    """So little text teaches the aligner little; but what it said is what the head has learned."""
    plain = load_translator(translator_dir, device="cpu")
    assert is_guided(guided.config) and not is_guided(plain.config)
    wanted = taught()
    rough = error_rate(plain.align(PAIRS), wanted)
    assert error_rate(guided.align(PAIRS), wanted) < 0.15 < rough


def test_it_still_translates(guided: Translator) -> None:
    found = guided([source for source, _ in PAIRS[:40]])
    assert sum(one == target for one, (_, target) in zip(found, PAIRS)) > 30


def test_pairs_are_aligned_one_by_one_as_together(guided: Translator) -> None:
    together = guided.align(PAIRS[:20])
    assert together == [guided.align([pair])[0] for pair in PAIRS[:20]]
    guided.batch_tokens, before = 60, guided.batch_tokens
    assert guided.align(PAIRS[:20]) == together
    guided.batch_tokens = before
    for (source, target), links in zip(PAIRS, together):
        assert links == sorted(set(links)) and links
        assert all(i < len(split_words(source)) and j < len(split_words(target)) for i, j in links)


def test_blank_sides_have_no_links(guided: Translator) -> None:
    assert guided.align([]) == []
    assert guided.align([("", "Kavu dorma."), ("The dog sleeps.", " "), ("", "")]) == [[], [], []]


def test_space_around_and_between_does_not_count(guided: Translator) -> None:
    source, target = PAIRS[0]
    (links,) = guided.align([(f"  {source}\n", f"{target} ")])
    assert guided.align([(source, target)]) == [links]


def test_what_is_too_long_is_told_and_the_others_are_aligned(
    guided: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guided, "max_positions", 40)
    found = align_pairs(guided, [("word " * 100, "word"), PAIRS[0]])
    assert found[0].links == []
    assert found[0].warnings[0].startswith("not aligned: it has ") and "reads at most 40" in found[0].warnings[0]
    assert found[1].links and not found[1].warnings


@pytest.mark.parametrize("pair", ["ab", ("a",), ("a", 1), ("a", "b", "c")])
def test_what_is_no_pair_is_refused(guided: Translator, pair: object) -> None:
    with pytest.raises(HeadwayError, match=r"give pairs of two strings, \(source, target\), not "):
        guided.align([pair])  # type: ignore[list-item]


# ---- of its own output


def test_its_own_output_is_aligned_as_if_it_were_given(guided: Translator) -> None:
    sources = [source for source, _ in PAIRS[:12]]
    found = guided.translate(sources, TranslateOptions(align=True))
    given = guided.align([(result.source, result.text) for result in found])
    assert [result.guesses[0].alignment for result in found] == given


def test_without_asking_there_is_none(guided: Translator) -> None:
    assert guided.translate([PAIRS[0][0], ""])[0].guesses[0].alignment is None


def test_links_of_a_line_count_the_words_of_the_whole_line(guided: Translator) -> None:
    """Several sentences, odd spacing, nothing between two of them, blank lines: word numbers are those of the line."""
    first, second, third = (source for source, _ in PAIRS[:3])
    line = f"  {first}   {second}\n{third} "
    (result,) = guided.translate([line], TranslateOptions(align=True))
    alone = guided.translate([first, second, third], TranslateOptions(align=True))
    expected, before = [], [0, 0]
    for part in alone:
        expected += [(before[0] + i, before[1] + j) for i, j in part.guesses[0].alignment or []]
        before = [before[0] + len(split_words(part.source)), before[1] + len(split_words(part.text))]
    assert result.guesses[0].alignment == expected
    assert len(split_words(line)) == before[0] and len(split_words(result.text)) == before[1]
    assert [one.guesses[0].alignment for one in guided.translate(["", "  "], TranslateOptions(align=True))] == [[], []]


def test_each_of_the_best_has_its_own_links(guided: Translator) -> None:
    (result,) = guided.translate([PAIRS[3][0]], TranslateOptions(search=guided.search(n_best=3), align=True))
    assert len(result.guesses) == 3
    for guess in result.guesses:
        assert guess.alignment == guided.align([(PAIRS[3][0], guess.text)])[0]


def test_models_vote(guided_dir: Path, translator_dir: Path, guided: Translator) -> None:
    """The mean of what each head says; a model without one lends the mean of its heads."""
    plain = load_translator(translator_dir, device="cpu")
    both = load_translator(guided_dir, translator_dir, device="cpu")
    reader, writer = guided.tokenizers.source, guided.tokenizers.target
    sources, targets = [[*reader.encode(PAIRS[0][0]), reader.end]], [writer.encode(PAIRS[0][1])]
    one, other, mean = (read_source_attention(model, sources, targets) for model in (guided, plain, both))
    np.testing.assert_allclose(mean, (one + other) / 2, rtol=1e-5)
    assert one.shape == (1, len(targets[0]), len(sources[0]))
    np.testing.assert_allclose(one.sum(-1), 1, rtol=1e-5)


def test_a_model_without_weights_to_read_is_refused() -> None:
    last = SimpleNamespace(kind="retention")
    decoder = SimpleNamespace(layers=1, tiled=lambda name: [last])
    train, model = SimpleNamespace(alignment=SimpleNamespace(kind="none")), SimpleNamespace(decoder=decoder)
    config = SimpleNamespace(train=train, model=model)
    with pytest.raises(
        HeadwayError, match='reads the source by "retention", which has no attention weights to align by'
    ):
        find_alignment_weights(config)  # type: ignore[arg-type]


def test_nothing_is_left_behind(guided: Translator) -> None:
    """No gradients, and the random state as it was."""
    before = torch.get_rng_state()
    reader = guided.tokenizers.source
    align_ids(guided, [[*reader.encode("a dog"), reader.end]], [reader.encode("b")], [DirectionTokens()])
    assert torch.equal(before, torch.get_rng_state())
    assert all(weight.grad is None for weight in guided.steppers[0].model.parameters())


# ---- from weights to links


def test_a_source_word_without_a_link_goes_where_it_is_seen_most() -> None:
    weights = np.array([[0.8, 0.16, 0.04], [0.0, 0.96, 0.04]])
    assert link_words(weights, np.array([0, 1]), np.array([0, 1, 2])) == [(0, 0), (1, 1)]  # 0.04 is next to nothing
    weights = np.array([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2]])
    assert link_words(weights, np.array([0, 1]), np.array([0, 1, 2])) == [(0, 0), (1, 1), (2, 1)]


def test_links_are_source_words_with_more_than_their_share() -> None:
    weights = np.array([[0.5, 0.1, 0.3, 0.1], [0.0, 0.9, 0.1, 0.0], [0.1, 0.1, 0.2, 0.6]])
    # Tokens 0 and 1 of the target are one word; tokens 0 and 1 of the source are one word; the last is the end.
    assert link_words(weights, np.array([0, 0, 1]), np.array([0, 0, 1, -1])) == [(0, 0), (0, 1), (1, 1)]
    assert link_words(weights, np.array([0, -1, -1]), np.array([0, 1, 2, -1])) == [(0, 0), (1, 0), (2, 0)]
    assert link_words(weights, np.array([-1, -1, -1]), np.array([0, 1, 2, -1])) == []
    assert link_words(weights[:0], np.zeros(0, int), np.array([0, 1, 2, -1])) == []


@pytest.mark.slow
def test_the_error_on_the_toy_corpus_is_at_most_5_percent(tmp_path: Path) -> None:
    """As `make demo`, for 1,500 steps."""
    from headway.cli.app import main
    from headway.data.toy import write_toy

    write_toy(tmp_path)
    names = {"source": "train.en", "target": "train.qtx", "valid-source": "valid.en", "valid-target": "valid.qtx"}
    files = [word for name, file in names.items() for word in (f"--{name}", str(tmp_path / file))]
    settings = [
        "--preset",
        "tiny",
        "--steps",
        "1500",
        "--set",
        "train.alignment=guided",
        "--set",
        "train.decode_lines=0",
    ]
    assert main(["train", *files, *settings, "--out", str(tmp_path / "model")]) == 0
    test = toy_corpus(1000)[500:]
    found = load_translator(tmp_path / "model").align([(pair.source, pair.target) for pair in test])
    assert error_rate(found, [set(pair.alignment) for pair in test]) <= 0.05
