"""Lines in several languages, each to the translator of its own. What nobody translates stays as it is, and says so."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headway.errors import ConfigError, HeadwayError
from headway.storage.registry import DEFAULT, Choice, choose, installed, none_for, serving
from headway.storage.summary import read_outline
from headway.text.line_language import Detector
from headway.translate.results import Guess, Routed, Translation

if TYPE_CHECKING:
    from headway.translate.translator import Translator


def routes(given: Sequence[str], target: str = "") -> tuple[dict[str, Choice], str]:
    """For each language that can be translated, by what; and the language that all are translated to."""
    if given:
        return _routes_of(given, target)
    wanted = target or DEFAULT[1]
    models = installed()
    found: dict[str, Choice] = {}
    for model, (source, own) in serving(models.values(), "", wanted):
        found.setdefault(source, Choice((str(model.folder),), source, own))
    if not found:
        raise HeadwayError(none_for(models, "", wanted))
    return found, next(iter(found.values())).target


def _routes_of(given: Sequence[str], target: str) -> tuple[dict[str, Choice], str]:
    choice = choose(given, "", target)
    read = read_outline(Path(choice.paths[0]))
    sources, targets = (read[0].source_languages, read[0].target_languages) if read else ((), ())
    if not sources or not targets:
        raise HeadwayError(f"{given[0]} does not say between which languages it translates. Leave out --from auto.")
    if choice.target and choice.target not in targets:
        raise HeadwayError(f'{given[0]} does not translate to "{choice.target}". It knows: {", ".join(targets)}.')
    if len(targets) > 1 and not choice.target:
        raise ConfigError(f"this model translates to {', '.join(targets)}: say which with --to.")
    to = choice.target or targets[0]
    return {one: Choice(choice.paths, one, to) for one in sources if one != to}, to


class Router:
    def __init__(
        self, routes: dict[str, Choice], target: str, load: Callable[[Choice], "Translator"], align: bool = False,
        strict: bool = True,
    ) -> None:  # fmt: skip
        """load: is asked once for each model, when the first of its lines comes; align: links are wanted; strict: no
        language may be left out, as some may that nobody asked for."""
        self.target, self._load, self._align = target, load, align
        self.detector = Detector([*routes, target])
        self.routes = {source: choice for source, choice in routes.items() if source in self.detector.languages}
        unheard = [source for source in routes if source not in self.routes]
        self.warnings = [
            f'the language "{one}" cannot be told from others by its text. Name it: --from {one}' for one in unheard
        ]
        if unheard and (strict or not self.routes):
            raise HeadwayError(self.warnings[0])
        self._loaded: dict[tuple[str, ...], Translator] = {}
        self._loading = threading.Lock()

    def of(self, source: str) -> "Translator":
        with self._loading:
            paths = self.routes[source].paths
            if paths not in self._loaded:
                self._loaded[paths] = self._load(self.routes[source])
            return self._loaded[paths]

    @property
    def loaded(self) -> "list[Translator]":
        return list(self._loaded.values())

    def translate(self, lines: Sequence[str], translate: Callable[..., list[Translation]]) -> list[Routed]:
        """translate(translator, lines, source=language) for each language, with the lines of others blank: what is
        drawn at random depends on a line's number. All in the order of the lines."""
        names = [self.detector.name(line) for line in lines]
        done: dict[int, Routed] = {}
        for source in self.routes:
            if source in names:
                translator = self.of(source)
                own = [line if name == source else "" for line, name in zip(lines, names)]
                results = translate(translator, own, source=source)
                done |= {n: Routed(results[n], translator, source) for n, line in enumerate(own) if line}
        return [done.get(number) or self._kept(line, names[number]) for number, line in enumerate(lines)]

    def _kept(self, line: str, name: str) -> Routed:
        links = [(number, number) for number in range(len(line.split()))] if self._align else None
        guess = Guess(line, 0.0, 0.0, [], [], links)
        if name == self.target:
            return Routed(Translation(line, [guess]), None, name, f"it is in {name} already, and stays as it is")
        told = f"it seems to be in {name}, which is not translated here, and stays as it is"
        return Routed(Translation(line, [guess], [told] if name else []), None, name)
