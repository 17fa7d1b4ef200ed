"""Route lines by their language: detect the language of each line, and give it to the model that translates it.

A line that no model translates, or that is in the target language already, stays as it is, with a note or warning."""

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headway.errors import ConfigError, HeadwayError
from headway.storage.pivots import PivotChoice, Route, find_pivot_sources
from headway.storage.registry import (
    DEFAULT_DIRECTION,
    ModelChoice,
    choose_models,
    find_serving,
    list_installed,
    no_model_message,
)
from headway.storage.summary import read_summary
from headway.text.language_codes import format_languages, primary_language
from headway.text.line_language import LineLanguageDetector
from headway.translate.results import Guess, RoutedLine, Translation

if TYPE_CHECKING:
    from headway.translate.pivot import PivotTranslator
    from headway.translate.translator import Translator

MAX_STRICT_LANGUAGES = 4  # more than these are those of a model for many languages
TranslateLines = Callable[..., list[Translation]]  # (translator, lines, source=language)


def find_routes(given: Sequence[str], target: str = "") -> tuple[dict[str, Route], str]:
    """The model for each source language, or two models in a row, and the target language of them all.

    given: model names or directories; none: all installed models for this target"""
    if given:
        return _routes_of_model(given, target)
    wanted = target or DEFAULT_DIRECTION[1]
    models = list_installed()
    routes: dict[str, Route] = {}
    for model, (source, own_target) in find_serving(models.values(), "", wanted):
        routes.setdefault(source, ModelChoice((str(model.folder),), source, own_target))
    if not routes:
        raise HeadwayError(no_model_message(models, "", wanted))
    own_target = next(iter(routes.values())).target
    known = {primary_language(language) for language in (*routes, own_target)}
    for source, pivot in find_pivot_sources(models.values(), own_target).items():
        if primary_language(source) not in known:
            routes[source] = pivot
    return routes, own_target


def _routes_of_model(given: Sequence[str], target: str) -> tuple[dict[str, Route], str]:
    choice = choose_models(given, "", target)
    read = read_summary(Path(choice.paths[0]))
    sources = read[0].source_languages if read else ()
    targets = read[0].target_languages if read else ()
    if not sources or not targets:
        raise HeadwayError(f"{given[0]} does not say between which languages it translates. Leave out --from auto.")
    if choice.target and choice.target not in targets:
        raise HeadwayError(f'{given[0]} does not translate to "{choice.target}". It knows: {", ".join(targets)}.')
    if len(targets) > 1 and not choice.target:
        raise ConfigError(f"this model translates to {', '.join(targets)}: say which with --to.")
    only_target = choice.target or targets[0]
    routes: dict[str, Route] = {
        source: ModelChoice(choice.paths, source, only_target) for source in sources if source != only_target
    }
    return routes, only_target


class Router:
    """Translates lines in several languages, each by the model of its own language."""

    def __init__(
        self,
        routes: Mapping[str, Route],
        target: str,
        load: Callable[[ModelChoice], "Translator"],
        align: bool = False,
        strict: bool = True,
    ) -> None:
        """load: called once for each model, when its first line comes
        align: word alignments are wanted
        strict: every language must be detectable, if there are few; else those that are not are left out, with a
            warning"""
        self.target = target
        self.detector = LineLanguageDetector([*routes, target], target)
        self.routes = {source: choice for source, choice in routes.items() if source in self.detector.languages}
        self._load = load
        self._align = align
        undetectable = [source for source in routes if source not in self.routes]
        self.warnings = [
            f'the language "{source}" cannot be detected from text. Name it: --from {source}' for source in undetectable
        ]
        if undetectable and (not self.routes or (strict and len(routes) <= MAX_STRICT_LANGUAGES)):
            raise HeadwayError(self.warnings[0])
        if len(undetectable) > MAX_STRICT_LANGUAGES:
            listed = format_languages(undetectable)
            self.warnings = [f"these languages cannot be detected from text: {listed}. Name one of them with --from"]
        self._loaded: dict[tuple[str, ...], Translator] = {}
        self._load_lock = threading.Lock()

    def translator_for(self, source: str) -> "Translator | PivotTranslator":
        """The translator from this language, loaded now if it is not yet; two of them where it is pivoted."""
        route = self.routes[source]
        with self._load_lock:
            if isinstance(route, PivotChoice):
                from headway.translate.pivot import PivotTranslator

                return PivotTranslator(self._load_once(route.first), self._load_once(route.second), route)
            return self._load_once(route)

    def _load_once(self, choice: ModelChoice) -> "Translator":
        if choice.paths not in self._loaded:
            self._loaded[choice.paths] = self._load(choice)
        return self._loaded[choice.paths]

    @property
    def loaded(self) -> "list[Translator]":
        return list(self._loaded.values())

    def translate(self, lines: Sequence[str], translate: TranslateLines) -> list[RoutedLine]:
        """Calls translate(translator, lines, source=language) for each language; all in the order of the lines.

        Lines of other languages are blank in it, so that all keep their numbers: sampling depends on these."""
        languages = [self.detector.detect(line) for line in lines]
        routed: dict[int, RoutedLine] = {}
        for source in self.routes:
            if source in languages:
                translator = self.translator_for(source)
                own = [line if language == source else "" for line, language in zip(lines, languages)]
                results = translate(translator, own, source=source)
                routed |= {n: RoutedLine(results[n], translator, source) for n, line in enumerate(own) if line}
        return [routed.get(n) or self._leave(line, languages[n]) for n, line in enumerate(lines)]

    def _leave(self, line: str, language: str) -> RoutedLine:
        """A line that stays as it is."""
        links = [(number, number) for number in range(len(line.split()))] if self._align else None
        guess = Guess(line, 0.0, 0.0, [], [], links)
        if language == self.target:
            return RoutedLine(Translation(line, [guess]), None, language, f"already in {language}: left as it is")
        warning = f"seems to be in {language}, which no model here translates: left as it is"
        return RoutedLine(Translation(line, [guess], [warning] if language else []), None, language)
