"""Each line to the translator of its language; nothing is translated from a language that it is not in."""

from collections.abc import Sequence
from typing import Any

import pytest
from installing_models import Shelf

from headway.errors import ConfigError, HeadwayError
from headway.storage.registry import ModelChoice
from headway.translate.results import Guess, Translation
from headway.translate.routing import Router, find_routes

EN = "The weather is nice today, so we went for a walk."
DE = "Das Wetter ist heute schön, also gingen wir spazieren."
FR = "Les bateaux qui ont quitté le port ce matin seront de retour."
FI = "Aamulla satamasta lähteneet laivat palaavat ennen pimeää."


def act(translator: Any, lines: Sequence[str], source: str) -> list[Translation]:
    return [Translation(line, [Guess(f"{translator}:{source}:{line}", 0.0, 0.0, [], [])]) for line in lines]


def loader(loaded: list[ModelChoice]) -> Any:
    def load(choice: ModelChoice) -> Any:
        loaded.append(choice)
        return choice.paths[0].rpartition("/")[2]

    return load


def test_lines_of_several_languages(shelf: Shelf) -> None:
    shelf.add("en-de", "en de", "de en", bundled=True)
    shelf.add("fr-de", "fr", "de")
    found, target = find_routes([], "de")
    assert {source: choice.paths[0].rpartition("/")[2] for source, choice in found.items()} == {
        "en": "en-de",
        "fr": "fr-de",
    }
    assert target == "de"
    loaded: list[ModelChoice] = []
    router = Router(found, target, loader(loaded))
    results = router.translate([DE, EN, FI, "", "12:30", FR, EN], act)
    assert [routed.result.text for routed in results] == [
        DE, f"en-de:en:{EN}", FI, "", "12:30", f"fr-de:fr:{FR}", f"en-de:en:{EN}",
    ]  # fmt: skip
    assert [routed.source for routed in results] == ["de", "en", "fi", "", "", "fr", "en"]
    assert [routed.note for routed in results] == ["already in de: left as it is", *[""] * 6]
    warnings = [routed.result.warnings for routed in results]
    assert warnings == [[], [], ["seems to be in fi, which no model here translates: left as it is"], *[[]] * 4]
    assert sorted(choice.source for choice in loaded) == ["en", "fr"]
    assert sorted(map(str, router.loaded)) == ["en-de", "fr-de"]


def test_links_of_what_stays_as_it_is(shelf: Shelf) -> None:
    router = Router({"en": ModelChoice(("x",), "en", "de")}, "de", loader([]), align=True)
    (routed,) = router.translate(["Guten Tag, liebe alte Freunde"], act)
    assert routed.result.guesses[0].alignment == [(n, n) for n in range(5)]


def test_where_to(shelf: Shelf) -> None:
    """Without --to: as when nobody says anything at all."""
    with pytest.raises(HeadwayError, match="no installed model translates from any language to de. No model"):
        find_routes([])
    both = shelf.add("en-de", "en de", "de en", bundled=True)
    assert find_routes([]) == ({"en": ModelChoice((str(both),), "en", "de")}, "de")
    assert find_routes([], "en") == ({"de": ModelChoice((str(both),), "de", "en")}, "en")
    assert find_routes(["de-en"]) == find_routes([str(both)], "en") == find_routes([], "en")
    assert find_routes([str(both)]) == find_routes([]), "a copy of it elsewhere is no different"
    with pytest.raises(ConfigError, match=r"this model translates to de, en, fr: say which with --to\."):
        find_routes([str(shelf.add("three", "en de fr", "de en fr"))])
    with pytest.raises(HeadwayError, match=r'does not translate to "fr"\. It knows: de, en\.'):
        find_routes([str(both)], "fr")
    one = str(shelf.add("one", "en", "de"))
    assert find_routes([one]) == ({"en": ModelChoice((one,), "en", "de")}, "de")


def test_models_that_cannot_be_chosen_for_a_line(shelf: Shelf) -> None:
    nameless = str(shelf.add("nameless", "", ""))
    with pytest.raises(HeadwayError, match=r"does not say between which languages it translates\. Leave out --from"):
        find_routes([nameless])
    toy = str(shelf.add("toy", "qtx", "en"))
    with pytest.raises(HeadwayError, match='the language "qtx" cannot be detected from text. Name it: --from'):
        Router(*find_routes([toy]), loader([]))


def test_an_installed_model_that_nobody_asked_for_is_left_out(shelf: Shelf) -> None:
    shelf.add("gsw-de", "gsw", "de")
    with pytest.raises(HeadwayError, match='the language "gsw" cannot be detected from text'):
        Router(*find_routes([]), loader([]), strict=False)
    shelf.add("en-de", "en", "de")
    router = Router(*find_routes([]), loader([]), strict=False)
    assert router.warnings == ['the language "gsw" cannot be detected from text. Name it: --from gsw']
    assert [routed.result.text for routed in router.translate([EN], act)] == [f"en-de:en:{EN}"]
