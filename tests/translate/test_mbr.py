"""Minimum Bayes risk decoding: the sample that a naive loop would choose, for lines and documents, with their spans."""

from pathlib import Path

import pytest
from sacrebleu.metrics import CHRF

from headway.cli.app import main
from headway.errors import ConfigError
from headway.translate.options import TranslateOptions
from headway.translate.translator import Translator, load_translator

LINES = ["The dog sees a red house.", "Anna sleeps in the garden.", "", "We are old. The man reads a book."]


@pytest.fixture(scope="module")
def translator(translator_dir: Path) -> Translator:
    return load_translator(translator_dir, engine="torch")


def test_it_chooses_what_a_naive_loop_chooses(translator: Translator) -> None:
    search = translator.search(sample=True, n_best=12, seed=5, temperature=1.3)
    samples = translator.translate(LINES[:2], TranslateOptions(search=search, split_sentences=False, retry=False))
    how = TranslateOptions(search=search, mbr="chrf", split_sentences=False, retry=False)
    chosen = translator.translate(LINES[:2], how)
    chrf = CHRF()
    for drawn, found in zip(samples, chosen):
        texts = [guess.text for guess in drawn.guesses]
        assert len(texts) == 12 and len(set(texts)) > 1
        utility = {text: sum(chrf.sentence_score(text, [other]).score for other in texts) for text in texts}
        ranked = [guess.text for guess in found.guesses]
        assert set(ranked) == set(texts), "each text once"
        in_order = sorted((utility[text] for text in set(texts)), reverse=True)
        assert [utility[text] for text in ranked] == pytest.approx(in_order)
        assert utility[found.text] == pytest.approx(max(utility.values()))


def test_one_line_for_each_and_the_same_with_the_same_seed(translator: Translator) -> None:
    how = TranslateOptions(search=translator.search(sample=True, n_best=8, seed=3), mbr="chrf")
    first, second = (translator.translate(LINES, how) for _ in range(2))
    assert [result.text for result in first] == [result.text for result in second]
    assert len(first) == len(LINES) and first[2].text == ""
    alone = translator.translate(LINES[:1], how)
    assert alone[0].text == first[0].text


def test_the_n_best_of_a_beam_are_candidates_too(translator: Translator) -> None:
    search = translator.search(beam_size=6, n_best=6)
    beam = translator.translate(LINES[:2], TranslateOptions(search=search, retry=False))
    chosen = translator.translate(LINES[:2], TranslateOptions(search=search, mbr="bleu", retry=False))
    for one, other in zip(beam, chosen):
        assert {guess.text for guess in one.guesses} == {guess.text for guess in other.guesses}


def test_a_call_gives_the_chosen_one(translator: Translator) -> None:
    how = {"mbr": "chrf", "sample": True, "n_best": 8, "seed": 3}
    options = TranslateOptions(mbr="chrf", search=translator.search(sample=True, n_best=8, seed=3))
    assert translator(LINES[0], **how) == translator.translate(LINES[:1], options)[0].text


def test_protected_spans_stay(translator: Translator) -> None:
    how = TranslateOptions(mbr="chrf", search=translator.search(sample=True, n_best=8, seed=3))
    lines = ["The dog sees {name} and https://example.org/x.", "<b>Anna</b> sleeps."]
    first, second = (result.text for result in translator.translate(lines, how))
    assert "{name}" in first and "https://example.org/x" in first
    assert "<b>" in second and "</b>" in second


@pytest.mark.parametrize(("metric", "n_best", "says"), [("chrf", 1, "several candidates"), ("ter", 100, "at most 64")])
def test_what_makes_no_sense_is_refused(translator: Translator, metric: str, n_best: int, says: str) -> None:
    search = translator.search(sample=True, n_best=n_best)
    with pytest.raises(ConfigError, match=says):
        translator.translate(LINES, TranslateOptions(mbr=metric, search=search))


def test_on_the_command_line(
    translator_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], translator: Translator
) -> None:
    base = ["translate", "--model", str(translator_dir), "--engine", "torch", "--seed", "3"]
    assert main([*base, "--mbr", "chrf", "--samples", "8", *LINES[:2]]) == 0
    lines = capsys.readouterr().out.removesuffix("\n").split("\n")
    how = TranslateOptions(mbr="chrf", search=translator.search(sample=True, n_best=8, seed=3))
    assert lines == [result.text for result in translator.translate(LINES[:2], how)]
    assert main([*base, "--mbr", "chrf", "--samples", "8", "--n-best", "2", LINES[0]]) == 0
    assert len(capsys.readouterr().out.removesuffix("\n").split("\n")) <= 2
    assert main([*base[:-2], "--mbr", "bleu", *LINES[:2]]) == 0
    assert len(capsys.readouterr().out.removesuffix("\n").split("\n")) == 2
    (tmp_path / "page.html").write_text("<p>The dog sees a <b>red</b> house.</p>")
    assert (
        main(
            [
                *base,
                "--mbr",
                "chrf",
                "--samples",
                "4",
                "--document",
                str(tmp_path / "page.html"),
                "--out",
                str(tmp_path / "out.html"),
            ]
        )
        == 0
    )
    assert "<b>" in (tmp_path / "out.html").read_text()
    capsys.readouterr()
    for words, says in (
        (["--samples", "4"], "--samples is for --mbr"),
        (["--mbr", "chrf", "--sample"], "say how many"),
    ):
        assert main([*base, *words, "x"]) == 2
        assert says in capsys.readouterr().err
