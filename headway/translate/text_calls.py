"""What a translator is called with: a text or a list of texts, and settings by name."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, overload

from headway.config.search import Search
from headway.errors import ConfigError, HeadwayError
from headway.translate.options import TranslateOptions, resolve_target
from headway.translate.results import Translations


class TextCalls(ABC):
    """translator("text") and translator(["one", "two"]), by `translate`."""

    @abstractmethod
    def translate(self, lines: Sequence[str], options: TranslateOptions | None = None) -> Translations: ...

    @abstractmethod
    def search(self, **changes: Any) -> Search: ...

    @overload
    def __call__(self, text: str, **settings: Any) -> str: ...
    @overload
    def __call__(self, text: Sequence[str], **settings: Any) -> list[str]: ...
    def __call__(
        self, text: str | Sequence[str], *, return_scores: bool = False, to: str | None = None, **settings: Any
    ) -> Any:
        """The best translation of a text, or of each text of a list.

        return_scores: give (text, score) in place of text
        settings: those of TranslateOptions: source, target, glossary, protect, retry …; and of the search: beam_size,
            alpha, penalty, max_length …"""
        if not isinstance(text, str | Sequence):
            raise HeadwayError(f"give a text or a list of texts, not {text!r}.")
        lines = [text] if isinstance(text, str) else list(text)
        options = self.make_options(**settings)
        if to is not None:
            options = replace(options, target=resolve_target(options.target, to))
        several = (settings.get("n_best") or 1) > 1 and not options.mbr  # which chooses one of them
        for name, gives_more in (("n_best", several), ("align", options.align)):
            if gives_more:
                raise ConfigError(
                    "a call gives the best translation only, as text: write translate(lines, TranslateOptions(…)).",
                    name,
                )
        results = self.translate(lines, options)
        answers = [(result.text, result.score) if return_scores else result.text for result in results]
        return answers[0] if isinstance(text, str) else answers

    def make_options(self, **settings: Any) -> TranslateOptions:
        """TranslateOptions from its own fields and those of Search, mixed."""
        own = {name: settings.pop(name) for name in list(settings) if name in TranslateOptions.__dataclass_fields__}
        if own.get("search") is not None and settings:
            raise ConfigError(f"give either search=… or {', '.join(settings)}, not both.", "search")
        return TranslateOptions(**{**own, "search": own.get("search") or self.search(**settings)})
