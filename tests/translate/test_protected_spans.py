"""Protected spans and glossaries through a translator: nothing lost, and what is not sure is said."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.cli.app import main
from headway.decode.types import Hypothesis
from headway.errors import ConfigError, HeadwayError
from headway.text.glossary import Glossary
from headway.text.spans.protect import MaskedText, make_protector
from headway.text.tokenizer.direction_tokens import DirectionTokens
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.translate.options import TranslateOptions
from headway.translate.protected_spans import SpanKeeper
from headway.translate.search_calls import run_plan
from headway.translate.source import Sentence, SourceReader
from headway.translate.translator import Translator, load_translator

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module", params=["torch", "ctranslate2"])
def translator(request: Any, translator_dir: Path) -> Translator:
    found = headway.load(translator_dir, device="cpu", engine=request.param)
    assert isinstance(found, Translator)
    return found


@pytest.fixture(scope="module")
def lines(toy: Path) -> list[str]:
    return (toy / "train.en").read_text().splitlines()


def with_span(line: str, number: int) -> str:
    words = line.split()
    place = number % len(words)
    words[place] = (f"<b>{words[place]}</b>", f"{words[place]} %(n)d", f"{{x}} {words[place]}")[number % 3]
    return " ".join(words)


def test_no_span_is_lost_and_what_was_put_back_is_said(translator: Translator, lines: list[str]) -> None:
    given = [with_span(line, number) for number, line in enumerate(lines[:30])]
    found = translator.translate(given)
    for line, one in zip(given, found):
        assert not make_protector().find_missing(make_protector().mask(line)[1], one.text), one
    assert any("restored by word alignment; check the position of:" in told for one in found for told in one.warnings)


def test_what_stands_at_the_edges_is_certain(translator: Translator, lines: list[str]) -> None:
    plain = translator.translate(lines[:5])
    found = translator.translate([f"<p>{line}</p>" for line in lines[:5]])
    assert [one.text for one in found] == [f"<p>{one.text}</p>" for one in plain]
    assert [one.warnings for one in found] == [[]] * 5


def test_a_line_of_spans_is_not_translated(translator: Translator) -> None:
    given = ["https://example.org/a.b", " {x}: %s ", "<br/>"]
    found = translator.translate(given)
    assert [one.text for one in found] == given
    assert [(one.guesses[0].tokens, one.warnings) for one in found] == [([], [])] * 3


def test_a_span_that_is_too_long_to_be_read(translator: Translator, lines: list[str]) -> None:
    address = "https://example.org/" + "a1b2" * 115
    found = translator.translate(
        [f"{lines[0]} See {address}, {lines[1]}", address, "{x}" * 400], TranslateOptions(align=True)
    )
    assert found[0].text.count(address) == 1
    assert [one.text for one in found[1:]] == [address, "{x}" * 400]


@pytest.mark.parametrize("middle", ["https://example.org/" + "a1b2" * 115, "{x}" * 100, "<br/>" * 30 + "%s" * 50])
@pytest.mark.parametrize("placeholders", [False, True])
def test_what_is_read_is_the_line(middle: str, placeholders: bool) -> None:
    tail = DirectionTokens(source_tail=(2,))
    reader = SourceReader(Tokenizer.train([], "bytes"), tail, 60, "en", True, make_protector(), placeholders)
    line = f"A dog runs through the snow. Then it finds ({middle}), and it stops. The end."
    read = reader.read(line, 0)
    assert "".join(sentence.before + sentence.text for sentence in read.sentences) + read.tail == line
    assert all(len(s.ids) <= 60 or s.is_untranslatable for s in read.sentences)


def test_protection_can_be_changed(translator: Translator, lines: list[str]) -> None:
    given = f"{lines[0]} Foo-7."
    assert "Foo-7" in translator.translate([given], TranslateOptions(protect=[r"Foo-\d"]))[0].text
    raw = translator.translate(["{x} " + lines[0]], TranslateOptions(protect=None))[0]
    assert not raw.text.startswith("{x}")
    assert raw.warnings == []


def test_n_best_and_alignments(translator: Translator, lines: list[str]) -> None:
    line = with_span(lines[1], 3)  # a pair of tags
    [one] = translator.translate([line], TranslateOptions(search=translator.search(n_best=3), align=True))
    assert len(one.guesses) == 3
    for guess in one.guesses:
        assert guess.text.count("<b>") == guess.text.count("</b>") == 1
        assert guess.alignment
        assert max(i for i, _ in guess.alignment) < len(line.split())
        assert max(j for _, j in guess.alignment) < len(guess.text.split())


def test_without_attention_to_read_the_place_is_a_guess(
    translator: Translator, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise HeadwayError("no weights")

    monkeypatch.setattr("headway.translate.alignment.align_ids", refuse)
    [one] = translator.translate([with_span(lines[2], 1)])
    assert "%(n)d" in one.text
    assert "check the position of: %(n)d" in one.warnings[-1]


# ---- glossaries


def test_terms_are_said(translator: Translator, lines: list[str], toy: Path) -> None:
    """Known words in other places; a model of 100 pairs may say more besides, or go round in a loop."""
    said = (toy / "train.qtx").read_text().splitlines()
    glossary = {
        line.split()[1].strip(",."): " ".join(text.split()[1:3]).strip(".") for line, text in zip(lines, said[9:15])
    }
    found = translator.translate(lines[:6], TranslateOptions(glossary=Glossary(glossary)))
    for line, one in zip(lines, found):
        asked = [target for source, target in glossary.items() if source in line.split()]
        assert all(target in one.text for target in asked)
        assert not any("could not be placed" in told for told in one.warnings)
    plain = translator.translate(lines[:6])
    unused = translator.translate(lines[:6], TranslateOptions(glossary=Glossary({"nowhere": "x"})))
    assert [one.text for one in unused] == [p.text for p in plain]


def test_a_term_without_room_is_reported(translator: Translator, lines: list[str]) -> None:
    word = lines[0].split()[1]
    glossary = Glossary({word: "zork plem krull"})
    options = TranslateOptions(search=translator.search(max_length=2), glossary=glossary)
    [one] = translator.translate([lines[0]], options)
    assert f'the term "{word}" could not be placed as "zork plem krull"' in one.warnings


def test_terms_beside_spans_and_links(translator: Translator, lines: list[str]) -> None:
    word = lines[0].split()[1]
    options = TranslateOptions(glossary=Glossary({word: "Zork Plem"}), align=True)
    [one] = translator.translate([f"<p>{lines[0]}</p>"], options)
    assert one.text.startswith("<p>")
    assert "Zork Plem" in one.text
    assert one.guesses[0].alignment


def test_a_glossary_is_not_for_draws(translator: Translator) -> None:
    with pytest.raises(ConfigError, match="a glossary needs beam search"):
        options = TranslateOptions(search=translator.search(sample=True), glossary=Glossary({"a": "b"}))
        translator.translate(["x"], options)


def test_of_the_hypotheses_with_all_spans_one_without_another_fault_is_taken(translator: Translator) -> None:
    target = translator.tokenizers.target
    masked = MaskedText("no ⟦0⟧", ["{x}"])

    def keep(find_fault: Callable[[Sentence, Hypothesis], str | None]) -> Sentence:
        found = [Hypothesis(target.encode(text), -1.0, -1.0, [], True) for text in ("ein {x}", "kein {x}")]
        sentence = Sentence("", "no {x}", [], 0, hypotheses=found, spans=masked)
        keeper = SpanKeeper(translator, make_protector(), lambda _: iter(()), find_fault, {})  # type: ignore[arg-type]
        run_plan(translator, keeper.keep_spans([sentence]))
        return sentence

    chosen = keep(lambda _, found: None if target.decode(found.ids).startswith("kein") else "it lacks a word")
    assert chosen.outputs == ["kein {x}"] and not chosen.warnings
    all_wrong = keep(lambda *_: "it lacks a word")
    assert all_wrong.outputs == ["ein {x}", "kein {x}"]
    assert all_wrong.warnings == ["it lacks a word; nothing better was found"]


# ---- the command line


def test_the_command_line(capsys: Capture, translator_dir: Path, lines: list[str], tmp_path: Path) -> None:
    word = lines[0].split()[1]
    (tmp_path / "terms.tsv").write_text(f"{word}\tZork\n")
    flags = ["--glossary", str(tmp_path / "terms.tsv"), "--protect", r"Foo-\d", "--json"]
    assert main(["translate", "--model", str(translator_dir), *flags, f"{lines[0]} Foo-7", with_span(lines[1], 1)]) == 0
    out, err = capsys.readouterr()
    first, second = (json.loads(line) for line in out.splitlines())
    assert "Zork" in first["text"]
    assert "Foo-7" in first["text"]
    assert "confidence" not in first
    assert second["warnings"]
    assert "warning: line 2: restored by word alignment" in err
    assert main(["translate", "--model", str(translator_dir), "--protect", "x", "--no-protect", "a"]) == 2
    assert "--protect and --no-protect were both given: choose one." in capsys.readouterr().err
    assert main(["translate", "--model", str(translator_dir), "--min-confidence", "0.5", "a"]) == 1
    assert "is not calibrated, so its translations have no confidence score" in capsys.readouterr().err


def test_several_models_have_no_score(translator_dir: Path, other_translator_dir: Path) -> None:
    both = load_translator(translator_dir, other_translator_dir, device="cpu")
    assert both.translate(["A dog."])[0].confidence is None
    with pytest.raises(HeadwayError, match="--min-confidence is not available for ensembles: give one model"):
        both.translate(["A dog."], TranslateOptions(min_confidence=0.5))
    with pytest.raises(ConfigError, match="min_confidence: 2 is not allowed: give a number from 0 to 1"):
        both.translate(["A dog."], TranslateOptions(min_confidence=2))
