"""What docs/teaching.md says that the included model writes is what it writes."""

import math
import re
from pathlib import Path

import pytest

import headway
from headway.inspect.ablation import ablate
from headway.translate.translator import Translator

PAGE = (Path(__file__).parent.parent / "docs/teaching.md").read_text(encoding="utf-8")
OPTIONS = headway.TranslateOptions(target="de")
GARDEN = "The children are playing in the garden."


@pytest.fixture(scope="module")
def translator() -> Translator:
    model = headway.load("en-de")
    assert isinstance(model, Translator)
    return model


def name_part(said: str) -> str:
    """ "self-attention of the decoder's layer 2" is decoder.1.self."""
    found = re.fullmatch(r"(?:(self|cross)-attention of the (\w+)'s layer|layer) (\d+)(?: of the (\w+))?", said)
    assert found, said
    sublayer, side, layer, of = found.groups()
    return ".".join(filter(None, [side or of, str(int(layer) - 1), sublayer]))


def test_sentences(translator: Translator) -> None:
    found = re.findall(r"`([^`]+\.)`[^*|`]*?(?:writes|becomes) \*([A-ZÄÖÜ][^*]+\.)\*", PAGE)
    assert len(found) == 3
    for source, output in found:
        assert translator.translate([source], OPTIONS)[0].text == output


def test_ablations(translator: Translator) -> None:
    output = translator.translate([GARDEN], OPTIONS)[0].text
    (whole,) = translator.score([(GARDEN, output)], target="de")
    rows = re.findall(r"^\| ([^|]*\blayer \d[^|]*) \| −([\d.]+) \| (.+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 6
    for part, change, text in rows:
        without = ablate(translator, [name_part(part)])
        (scored,) = without.score([(GARDEN, output)], target="de")
        assert whole.logp - scored.logp == pytest.approx(float(change), abs=0.1), part
        assert without.translate([GARDEN], OPTIONS)[0].text == text, part


def test_pronoun(translator: Translator) -> None:
    shares = []
    for word, written in (("tired", "müde"), ("wide", "breit")):
        source = f"The dog did not cross the street because it was too {word}."
        prefix = "Der Hund überquerte die Straße nicht, weil"
        (scored,) = translator.score([(source, f"{prefix} sie zu {written} war.")], target="de")
        assert " er " in translator.translate([source], OPTIONS)[0].text
        shares.append(scored.token_logps[11])
    assert [f"{100 * math.exp(share):.1f}" for share in shares] == ["0.1", "0.5"]
