"""TranslateOptions: how to translate, as one frozen and hashable value.

The same value serves Python, the command line, documents, workflows and the server, where it is the batching key."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headway.config.search import Search
from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.text.glossary import Glossary
    from headway.text.translation_memory import TranslationMemory
    from headway.translate.translator import Translator


@dataclass(frozen=True, kw_only=True)
class TranslateOptions:
    """How to translate: languages, search, and what must hold of the output.

    source: language of the text, where the model reads several
    target: language to translate to, where the model writes several
    split_sentences: translate a line of several sentences one by one, and join them again
    retry: search again where an output is a loop, a copy or empty, or lacks a number or a negation
    align: give word alignments too; see headway.translate.alignment
    protect: regular expressions for text that must stay as it is, besides the built-in ones (URLs, tags, placeholders,
        code; see headway.text.spans.protect); None: protect nothing
    glossary: terms whose translations are given, as a dict or a Glossary
    memory: a TranslationMemory: texts that it has are not translated again, and may differ in numbers
    min_similarity: use its translations of texts that are at least so similar, from 0 to 1; 1: of the same text
    min_confidence: leave lines below this confidence, from 0 to 1, untranslated; needs a calibrated model
    mbr: minimum Bayes risk decoding by this metric (chrf, bleu, chrf++, ter, comet, comet-kiwi): of the n_best samples,
        or of the n-best list of a beam, the one that agrees best with all; "": off
    search: beam search or sampling settings; None: those of the model. Translator.search(…) changes some of them
    """

    source: str = ""
    target: str = ""
    split_sentences: bool = True
    retry: bool = True
    align: bool = False
    protect: tuple[str, ...] | None = ()
    glossary: "Glossary | None" = None
    memory: "TranslationMemory | None" = None
    min_similarity: float = 1.0
    min_confidence: float = 0.0
    mbr: str = ""
    search: Search | None = None

    def __post_init__(self) -> None:
        if isinstance(self.protect, str):
            raise ConfigError(f"give a tuple of patterns: ({self.protect!r},) instead of {self.protect!r}.", "protect")
        if self.protect is not None:
            object.__setattr__(self, "protect", tuple(self.protect))  # a list would not be hashable
        given: Any = self.glossary
        if given is not None:
            from headway.text.glossary import Glossary

            if isinstance(given, Mapping):
                object.__setattr__(self, "glossary", Glossary(given))
            elif not isinstance(given, Glossary):
                kind = type(given).__name__
                raise ConfigError(f"give terms as a dict, or a Glossary: Glossary(terms), not {kind}.", "glossary")
        for name in ("min_confidence", "min_similarity"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{getattr(self, name)} is not allowed: give a number from 0 to 1.", name)

    def check(self, translator: "Translator") -> None:
        """Raise HeadwayError if this translator cannot translate so: before any text is read or waited for."""
        from headway.text.spans.protect import make_protector
        from headway.translate.confidence import check_min_confidence

        search = self.search or translator.summary.search
        if self.glossary is not None and search.sample:
            raise ConfigError("a glossary needs beam search: leave out the glossary or sampling.", "sample")
        if self.mbr:
            from headway.text.utilities import check_candidates

            check_candidates(self.mbr, search.n_best)
        check_min_confidence(self.min_confidence, translator, self.target)
        if self.protect:
            make_protector(self.protect, None)
        translator.direction_tokens(self.source, self.target)


RENAMED_KEYWORDS = {"to": "target", "split": "split_sentences", "mend": "retry", "min_score": "min_confidence"}
DEPRECATED_KEYWORDS = ("search", "to", "source", "split", "mend", "align", "protect", "glossary", "min_score")


def options_from_keywords(given: Mapping[str, Any]) -> TranslateOptions:
    """From the deprecated keywords of Translator.translate, with a warning that says what to write instead."""
    for name in given:
        if name not in DEPRECATED_KEYWORDS:
            raise TypeError(f"Translator.translate() got an unexpected keyword argument {name!r}")
    values = {RENAMED_KEYWORDS.get(name, name): value for name, value in given.items()}
    new = ", ".join(f"{name}=…" for name in values)
    warnings.warn(
        f"translate(lines, {', '.join(f'{name}=…' for name in given)}) is deprecated: write "
        f"translate(lines, TranslateOptions({new})).",
        DeprecationWarning,
        stacklevel=3,
    )
    return TranslateOptions(**values)


def resolve_target(target: str, to: str | None) -> str:
    """The target language, also where it is given by the deprecated keyword `to`."""
    if to is None:
        return target
    warnings.warn("the keyword to=… is deprecated: write target=….", DeprecationWarning, stacklevel=3)
    return to
