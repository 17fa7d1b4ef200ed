"""TranslateOptions: one value for how to translate, checked when it is made and against a translator."""

from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from typing import Any

import pytest

from headway.config.search import Search
from headway.errors import ConfigError, HeadwayError
from headway.text.glossary import Glossary
from headway.text.translation_memory import TranslationMemory
from headway.translate.options import DEPRECATED_KEYWORDS, RENAMED_KEYWORDS, TranslateOptions
from headway.translate.search import Request, make_requests, translate_requests
from headway.translate.translator import Translator, load_translator

TEXT = "The dog sees a red house."


@pytest.fixture(scope="module")
def translator(translator_dir: Path) -> Translator:
    return load_translator(translator_dir)


def test_equal_options_are_one_key() -> None:
    """Requests that ask for the same are translated together: see headway.serve.batch_queue."""

    def make() -> TranslateOptions:
        return TranslateOptions(
            target="de", protect=(r"A\d",), glossary=Glossary({"dog": "Hund"}), search=Search(beam_size=2)
        )

    assert make() == make() and len({make(), make()}) == 1
    others = [
        replace(make(), glossary=Glossary({"dog": "Köter"})), replace(make(), search=Search(beam_size=3)),
        replace(make(), protect=None), replace(make(), retry=False), replace(make(), source="en"),
    ]  # fmt: skip
    assert len({make(), *others}) == 6
    with pytest.raises(FrozenInstanceError):
        make().target = "fr"  # type: ignore[misc]


def test_glossaries_are_equal_by_their_terms() -> None:
    one = Glossary({"a": "b", "c": "d"})
    assert one == Glossary({"a": "b", "c": "d"}) and hash(one) == hash(Glossary({"a": "b", "c": "d"}))
    assert one != Glossary({"a": "b"}) and one != {"a": "b", "c": "d"}


def test_lists_become_tuples() -> None:
    assert TranslateOptions(protect=["x"]).protect == ("x",)  # type: ignore[arg-type]
    assert TranslateOptions(protect=None).protect is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"protect": "x+"}, r"protect: give a tuple of patterns: \('x\+',\) instead of 'x\+'"),
        ({"glossary": ["a"]}, r"glossary: give terms as a dict, or a Glossary: Glossary\(terms\), not list"),
        ({"min_confidence": 1.5}, "min_confidence: 1.5 is not allowed: give a number from 0 to 1"),
        ({"min_confidence": float("nan")}, "min_confidence: nan is not allowed"),
    ],
)
def test_what_is_wrong_by_itself(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TranslateOptions(**given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (TranslateOptions(target="fr"), 'this model does not translate to "fr"'),
        (TranslateOptions(protect=("(",)), "is not a regular expression"),
        (TranslateOptions(min_confidence=0.5), "is not calibrated"),
        (
            TranslateOptions(glossary=Glossary({"a": "b"}), search=Search(beam_size=1, sample=True)),
            "sample: a glossary needs beam search",
        ),
    ],
)
def test_what_a_translator_cannot_do(translator: Translator, options: TranslateOptions, message: str) -> None:
    with pytest.raises(HeadwayError, match=message):
        options.check(translator)
    with pytest.raises(HeadwayError, match=message):
        translator.translate([], options)
    TranslateOptions().check(translator)


def test_a_call_takes_the_target(translator: Translator) -> None:
    assert translator(TEXT, target="qtx", source="en") == translator(TEXT)
    with pytest.raises(HeadwayError, match='this model does not translate to "fr"'):
        translator(TEXT, target="fr")


# ---- the former keywords, for one more release


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ({"to": "qtx"}, {"target": "qtx"}, r"to=…\) is deprecated: write .*TranslateOptions\(target=…\)"),
        ({"split": False}, {"split_sentences": False}, r"TranslateOptions\(split_sentences=…\)"),
        ({"mend": False, "align": True}, {"retry": False, "align": True}, r"TranslateOptions\(retry=…, align=…\)"),
        ({"min_score": 0.0}, {"min_confidence": 0.0}, r"TranslateOptions\(min_confidence=…\)"),
        ({"protect": ["dog"], "source": "en"}, {"protect": ("dog",), "source": "en"}, r"protect=…, source=…"),
        ({"glossary": {"dog": "zork"}}, {"glossary": Glossary({"dog": "zork"})}, r"TranslateOptions\(glossary=…\)"),
        ({"search": Search(beam_size=1)}, {"search": Search(beam_size=1)}, r"TranslateOptions\(search=…\)"),
    ],
)
def test_former_keywords(translator: Translator, old: dict[str, Any], new: dict[str, Any], message: str) -> None:
    with pytest.warns(DeprecationWarning, match=message):
        [found] = translator.translate([TEXT], **old)
    [expected] = translator.translate([TEXT], TranslateOptions(**new))
    assert (found.text, found.guesses[0].alignment) == (expected.text, expected.guesses[0].alignment)


def test_a_search_as_second_argument(translator: Translator) -> None:
    with pytest.warns(DeprecationWarning, match=r"TranslateOptions\(search=…, retry=…\)"):
        [found] = translator.translate([TEXT], translator.search(beam_size=1), mend=False)  # type: ignore[arg-type]
    options = TranslateOptions(search=translator.search(beam_size=1), retry=False)
    assert found.text == translator.translate([TEXT], options)[0].text


def test_former_keywords_for_the_package(translator: Translator) -> None:
    steps: list[Any] = []
    with pytest.warns(DeprecationWarning, match="first, prefixes and record are deprecated: write translate_requests"):
        [forced] = translator.translate([TEXT], prefixes=["Kiu"], record=steps.append)
    assert steps and forced.text.startswith("Kiu")
    assert forced.text == translate_requests(translator, [Request(TEXT, prefix="Kiu")], TranslateOptions())[0].text
    search = translator.search(sample=True, seed=1)
    with pytest.warns(DeprecationWarning, match="first, prefixes and record|TranslateOptions") as warned:
        [sampled] = translator.translate([TEXT], first=5, search=search)
    assert len(warned) == 2
    again = translate_requests(translator, make_requests([TEXT], first=5), TranslateOptions(search=search))
    assert sampled.text == again[0].text


def test_former_keywords_are_fields_now() -> None:
    names = {field.name for field in fields(TranslateOptions)}
    assert {RENAMED_KEYWORDS.get(name, name) for name in DEPRECATED_KEYWORDS} == names - {
        "memory",
        "min_similarity",
        "mbr",
    }


def test_unknown_keywords(translator: Translator) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'tot'"):
        translator.translate([TEXT], tot="qtx")
    with pytest.raises(TypeError, match="give TranslateOptions alone, without mend"):
        translator.translate([TEXT], TranslateOptions(), mend=False)


@pytest.mark.parametrize("method", ["__call__", "trace", "score", "align"])
def test_to_is_called_target(translator: Translator, method: str) -> None:
    given: Any = TEXT if method in ("__call__", "trace") else [(TEXT, "Kiu")]
    act = getattr(translator, method)
    with pytest.warns(DeprecationWarning, match=r"the keyword to=… is deprecated: write target=…"):
        old = act(given, to="qtx")
    new = act(given, target="qtx")
    assert old.output == new.output if method == "trace" else old == new


def test_a_call_takes_every_option(translator: Translator) -> None:
    """Those of TranslateOptions and those of the search, in one call."""
    made: list[TranslateOptions] = []
    translate = translator.translate
    translator.translate = lambda lines, options: made.append(options) or translate(lines, options)  # type: ignore
    try:
        for name, value in (
            ("source", "en"), ("target", "qtx"), ("split_sentences", False), ("retry", False), ("protect", ["OK"]),
            ("protect", None), ("glossary", {"dog": "hundo"}), ("glossary", Glossary({"dog": "hundo"})),
            ("memory", TranslationMemory([{"en": "x", "qtx": "y"}])), ("min_similarity", 0.9),
            ("mbr", ""), ("search", Search(beam_size=2)), ("beam_size", 3), ("max_length", 7),
        ):  # fmt: skip
            assert isinstance(translator(TEXT, **{name: value}), str)
            options = made.pop()
            found = getattr(options if hasattr(options, name) else options.search, name)
            assert found == (tuple(value) if isinstance(value, list) else found if name == "glossary" else value)
            assert name != "glossary" or isinstance(found, Glossary)
        assert {field.name for field in fields(TranslateOptions)} <= {
            "source", "target", "split_sentences", "retry", "align", "protect", "glossary", "min_confidence", "search",
            "memory", "min_similarity", "mbr",
        }, "try the new ones here"  # fmt: skip
    finally:
        del translator.translate  # type: ignore[method-assign]
    assert translator(TEXT, beam_size=1, retry=False) == translator(TEXT, search=translator.search(beam_size=1))


def test_calls_that_make_no_sense(translator: Translator) -> None:
    for settings, told in (
        ({"glosary": {}}, 'there is no search setting "glosary". Did you mean "glossary"\\?'),
        ({"beamsize": 2}, 'there is no search setting "beamsize". Did you mean "beam_size"\\?'),
        ({"search": Search(), "beam_size": 2}, "search: give either search=… or beam_size, not both"),
        ({"align": True}, "align: a call gives the best translation only, as text: write translate"),
        ({"n_best": 2}, "n_best: a call gives the best translation only, as text: write translate"),
        ({"glossary": 3}, "glossary: give terms as a dict, or a Glossary"),
        ({"min_confidence": 2}, "min_confidence: 2 is not allowed"),
    ):
        with pytest.raises(ConfigError, match=told):
            translator(TEXT, **settings)


def test_load_translator_of_a_list(translator_dir: Path) -> None:
    with pytest.warns(DeprecationWarning, match=r"is deprecated: write load_translator\(a, b\)"):
        found = load_translator([translator_dir])  # type: ignore[arg-type]
    assert found.engines.paths == [str(translator_dir)]
