"""Which models translate a direction that none has alone."""

from pathlib import Path

import pytest
from installing_models import Shelf

from headway.errors import ConfigError, HeadwayError
from headway.storage.pivots import PivotChoice, choose_route, find_pivot_sources
from headway.storage.registry import ModelChoice, list_installed, set_default


def names(route: object) -> list[str]:
    assert isinstance(route, PivotChoice)
    return [Path(leg.paths[0]).name for leg in route]


def test_two_in_a_row_where_none_is_direct(shelf: Shelf) -> None:
    shelf.add("de-en", "de", "en")
    shelf.add("en-zh", "en", "zh")
    for given, source, target in ([], "de", "zh"), (["de-zh"], "", ""), (["de-zh"], "de", "zh"):
        route = choose_route(given, source, target)
        assert names(route) == ["de-en", "en-zh"]
        assert isinstance(route, PivotChoice)
        assert (route.source, route.pivot, route.target) == ("de", "en", "zh")
        assert route.first.direction == ("de", "en") and route.second.direction == ("en", "zh")
    direct = shelf.add("all", "de fr", "zh")
    for given, source, target in ([], "de", "zh"), (["de-zh"], "", ""):
        assert choose_route(given, source, target) == ModelChoice((str(direct),), "de", "zh")


def test_english_before_others_and_the_default_on_each_leg(shelf: Shelf) -> None:
    shelf.add("de-fr", "de", "fr")
    shelf.add("fr-zh", "fr", "zh")
    assert names(choose_route([], "de", "zh")) == ["de-fr", "fr-zh"]
    shelf.add("de-en", "de", "en")
    shelf.add("en-zh", "en-US", "zh")  # another spelling
    assert names(choose_route([], "de", "zh")) == ["de-en", "en-zh"]
    shelf.add("mine", "de", "en")
    set_default("mine")
    assert names(choose_route([], "de", "zh")) == ["mine", "en-zh"]


def test_what_is_not_pivoted(shelf: Shelf) -> None:
    """One language, three legs, a model that was named, and directions of which only one side is known."""
    model = shelf.add("de-en", "de", "en")
    shelf.add("en-de", "en", "de")
    shelf.add("fr-es", "fr", "es")
    with pytest.raises(HeadwayError, match="no installed model translates from de to de"):
        choose_route([], "de", "de")
    with pytest.raises(HeadwayError, match="no installed model translates from de to es"):
        choose_route([], "de", "es")
    shelf.add("en-zh", "en", "zh")
    named = choose_route([str(model)], "de", "zh")
    assert named == ModelChoice((str(model),), "de", "zh"), "whoever names a model wants that one: loading it refuses"
    assert choose_route([], "", "zh") == choose_route(["en-zh"])
    shelf.add("de-zh", "de", "fr")  # a model whose name says something else
    assert choose_route(["de-zh"]) == ModelChoice((str(shelf.own / "de-zh"),))


def test_a_target_that_may_be_two(shelf: Shelf) -> None:
    shelf.add("de-en", "de", "en")
    shelf.add("en-zh", "en", "zh-Hans zh-Hant")
    with pytest.raises(ConfigError, match=r"en → zh-Hans, en → zh-Hant: choose one with --to\."):
        choose_route([], "de", "zh")
    assert names(choose_route([], "de", "zh-Hant")) == ["de-en", "en-zh"]


def test_the_languages_that_reach_a_target(shelf: Shelf) -> None:
    shelf.add("en-de", "en de", "de en")
    shelf.add("fr-en", "fr", "en")
    shelf.add("it-fr", "it", "fr")
    found = find_pivot_sources(list_installed().values(), "de")
    assert {source: names(pivot) for source, pivot in found.items()} == {"fr": ["fr-en", "en-de"]}
