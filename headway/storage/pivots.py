"""Pivoting: two installed models in a row, where none translates a direction directly.

    choose_route(--model, --from de, --to zh) ──► ModelChoice                  a model for this direction
                                              └─► PivotChoice: de → en, en → zh   where there is none

A model that translates directly always wins. English is the first choice of a language in between, then any that one
model writes and another reads. There are never more than two legs."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from headway.errors import HeadwayError
from headway.storage.registry import (
    InstalledModel,
    ModelChoice,
    choose_models,
    find_serving,
    list_installed,
    pick_serving,
    split_direction,
)
from headway.text.language_codes import languages_match, order_pivots


class PivotChoice(NamedTuple):
    """The models of both legs. They may spell the language in between differently: en, en-US."""

    first: ModelChoice
    second: ModelChoice

    @property
    def source(self) -> str:
        return self.first.source

    @property
    def pivot(self) -> str:
        return self.first.target

    @property
    def target(self) -> str:
        return self.second.target


Route = ModelChoice | PivotChoice


def choose_route(given: Sequence[str | Path], source: str = "", target: str = "") -> Route:
    """As choose_models; where no model is named, or only a direction that none has, two models in a row."""
    directions = [(source, target)] if not given and source and target else []
    if len(given) == 1 and not Path(given[0]).exists():
        named = split_direction(str(given[0]))
        directions = [(from_, to) for from_, to in named if source in ("", from_) and target in ("", to)]
    models = list_installed() if directions else {}
    by_name = bool(given) and str(given[0]) in models
    if not by_name and not any(find_serving(models.values(), *direction) for direction in directions):
        pivots = (find_pivot(models.values(), *direction) for direction in directions)
        if found := next((pivot for pivot in pivots if pivot is not None), None):
            return found
    return choose_models(given, source, target)


def find_pivot(models: Iterable[InstalledModel], source: str, target: str) -> PivotChoice | None:
    """Two of the models in a row. None: there are no two that meet in a language."""
    if languages_match(source, target):
        return None
    models = list(models)
    written = [to for _, (_, to) in find_serving(models, source, "")]
    for language in order_pivots(written):
        if onward := find_serving(models, language, target):
            return PivotChoice(pick_serving(find_serving(models, source, language)), pick_serving(onward))
    return None


def find_pivot_sources(models: Iterable[InstalledModel], target: str) -> dict[str, PivotChoice]:
    """The languages that no model translates to this one directly, each with two models that do it in a row."""
    models = list(models)
    found: dict[str, PivotChoice] = {}
    for source in dict.fromkeys(language for model in models for language in model.sources):
        if find_serving(models, source, target):
            continue
        try:
            pivot = find_pivot(models, source, target)
        except HeadwayError:  # which of two it means, nobody has said
            continue
        if pivot is not None:
            found[source] = pivot
    return found
