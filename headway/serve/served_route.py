"""The way from one language to another among a server's models: one model, or two in a row through another language.

A model that translates directly always wins; English is the first choice in between. Never more than two."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from headway.serve.served_model import ServedModel
from headway.storage.pivots import PivotChoice
from headway.storage.registry import ModelChoice
from headway.text.language_codes import MAX_LISTED, languages_match, order_pivots


class ServedLeg(NamedTuple):
    model: ServedModel
    source: str
    target: str


class ServedRoute(NamedTuple):
    legs: tuple[ServedLeg, ...]

    @property
    def model(self) -> ServedModel:
        """That writes the translation."""
        return self.legs[-1].model

    @property
    def pivot(self) -> str:
        """The language in between; "" if it is translated directly."""
        return self.legs[0].target if len(self.legs) > 1 else ""

    @property
    def choice(self) -> PivotChoice:
        """Its directions, of two legs."""
        first, second = self.legs
        return PivotChoice(ModelChoice((), first.source, first.target), ModelChoice((), second.source, second.target))


def find_pivot_route(
    models: Sequence[ServedModel], source: str, target: str, last: Sequence[ServedModel]
) -> ServedRoute | None:
    """Two of the models in a row, the second among `last`, where none of `models` is direct."""
    if source == target or any(model.translates(source, target) for model in models):
        return None
    firsts = [model for model in models if source in model.sources]
    seconds = [model for model in last if target in model.targets]
    for written in order_pivots(language for model in firsts for language in model.targets if language != source):
        for second in seconds:
            if (read := _spelling(written, second.sources)) not in ("", target):
                first = next(model for model in firsts if model.translates(source, written))
                return ServedRoute((ServedLeg(first, source, written), ServedLeg(second, read, target)))
    return None


class Reachable:
    """Which languages each language reaches directly, and which through another: computed once for a server."""

    def __init__(self, models: Sequence[ServedModel]) -> None:
        self.direct: dict[str, set[str]] = {}
        for model in models:
            for source in model.sources:
                self.direct.setdefault(source, set()).update(target for target in model.targets if target != source)
        self.pivoted = {source: self._find_pivoted(source) for source in self.direct}

    def _find_pivoted(self, source: str) -> set[str]:
        own = self.direct[source]
        found: set[str] = set()
        for written in own:
            read = _spelling(written, self.direct)
            if read and not self.direct[read] <= own | found:
                found |= self.direct[read] - own - {source, written, read}
        return found

    def from_source(self, source: str) -> set[str]:
        return self.direct.get(source, set()) | self.pivoted.get(source, set())

    def to_target(self, target: str) -> list[str]:
        """Those that reach it directly first."""
        tables: tuple[Mapping[str, set[str]], ...] = (self.direct, self.pivoted)
        return list(dict.fromkeys(source for table in tables for source, reached in table.items() if target in reached))


def list_pivots(models: Sequence[ServedModel], last: ServedModel) -> list[tuple[str, str, str]]:
    """(source, pivot, target) of the ways that end with this model, the first of many."""
    sources = dict.fromkeys(language for model in models for language in model.sources)
    found: list[tuple[str, str, str]] = []
    for source in sources:
        for target in last.targets[:MAX_LISTED]:
            route = find_pivot_route(models, source, target, [last])
            if route is not None:
                found.append((source, route.pivot, target))
            if len(found) == MAX_LISTED:
                return found
    return found


def _spelling(language: str, known: Iterable[str]) -> str:
    """How this language is spelled among the known ones; "" if it is not there."""
    codes = list(known)
    if language in codes:
        return language
    return next((code for code in codes if languages_match(language, code)), "")
