"""Searches end when nobody waits for them: in every engine, within a step."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.decode.stop import SearchStopped, check_stop, stop_when
from headway.decode.types import EngineName
from headway.translate.options import TranslateOptions
from headway.translate.translator import Translator, load_translator


def test_a_check_outside_of_a_search_does_nothing() -> None:
    check_stop()
    with stop_when(lambda: False):
        check_stop()
    with pytest.raises(SearchStopped), stop_when(lambda: True):
        check_stop()
    check_stop()


def count_checks(limit: int) -> tuple[Callable[[], bool], list[int]]:
    """True after so many checks; how many there were."""
    checks: list[int] = []

    def should_stop() -> bool:
        checks.append(0)
        return len(checks) > limit

    return should_stop, checks


@pytest.mark.parametrize("engine", ["torch", "native"])
@pytest.mark.parametrize("changes", [{}, {"beam_size": 1}, {"sample": True, "seed": 1}, {"no_repeat_ngram": 3}])
def test_a_search_that_would_go_on_is_stopped(
    translator_dir: Path, engine: EngineName, changes: dict[str, Any]
) -> None:
    model = "en-de" if engine == "native" else translator_dir
    translator = load_translator(model, target="de" if engine == "native" else "", device="cpu", engine=engine)
    options = TranslateOptions(search=translator.search(min_length=3000, max_length=3000, **changes), retry=False)
    should_stop, checks = count_checks(2)
    with pytest.raises(SearchStopped), stop_when(should_stop):
        translator.translate(["The dog sleeps.", "A cat sees the old man."], options)
    assert 2 < len(checks) < 10


def test_threads_of_an_engine_are_stopped_too(translator_dir: Path) -> None:
    translator = load_translator(translator_dir, device="cpu", engine="torch", threads=2)
    assert isinstance(translator, Translator)
    translator.batch_tokens = 16
    should_stop, checks = count_checks(5)
    with pytest.raises(SearchStopped), stop_when(should_stop):
        translator.translate([f"The dog sees {n} cats." for n in range(40)], TranslateOptions(retry=False))
    assert len(checks) < 60
