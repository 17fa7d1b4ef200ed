"""What a document asks of whoever translates: a list of segments in, what each says in the other language out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.config.search import Search
    from headway.text.glossary import Glossary
    from headway.translate.translator import Translator

AT_ONCE = 4096  # segments asked for together
SHOWN = 40  # characters of a segment in a warning
NO_LINKS = "this model cannot say which word says which, so formatting and tags inside sentences are placed by guess"


class Asked(NamedTuple):
    """One segment: a paragraph, a heading, a cell, without its markup and on one line."""

    text: str
    align: bool = False  # whether it has markup inside, which must find its words again


class Said(NamedTuple):
    """Its translation."""

    text: str
    links: Sequence[Sequence[int]] | None = None  # (source word, target word), words between spaces, counted from 0
    warnings: Sequence[str] = ()


Translate = Callable[[Sequence[Asked]], Sequence[Said]]


@dataclass(frozen=True)
class Counts:
    """What became of a document."""

    segments: int  # that have something to translate
    translated: int
    warnings: list[str] = field(default_factory=list)


class Work:
    """The segments of a document. All are gathered first, so that they can be translated together."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.said: list[Said] = []
        self.warnings: list[str] = []
        self.refused: set[int] = set()

    def ask(self, text: str, align: bool = False) -> int:
        """The number under which its translation can be found."""
        self.asked.append(Asked(text, align))
        return len(self.asked) - 1

    def run(self, translate: Translate) -> None:
        for start in range(0, len(self.asked), AT_ONCE):
            group = self.asked[start : start + AT_ONCE]
            said = list(translate(group))
            if len(said) != len(group):
                raise HeadwayError(f"{len(group)} segments were given to be translated, and {len(said)} came back.")
            self.said += said
        for asked, said_of_it in zip(self.asked, self.said):
            for warning in said_of_it.warnings:
                self.warn(asked.text, warning)

    def refuse(self, number: int, why: str) -> None:
        """A translation is not used, and the segment stays as it was."""
        self.refused.add(number)
        self.warn(self.asked[number].text, f"{why}: it was left as it is")

    def warn(self, text: str, warning: str) -> None:
        shown = text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
        self.warnings.append(f'"{shown}": {warning}')

    def counts(self) -> Counts:
        return Counts(len(self.asked), len(self.asked) - len(self.refused), list(dict.fromkeys(self.warnings)))


def through(
    translator: "Translator", search: "Search | None" = None, *, to: str = "", split: bool = True,
    protect: Sequence[str] | None = (), glossary: "Glossary | None" = None, min_score: float = 0.0,
) -> Translate:  # fmt: skip
    """A model as what documents ask. Links are looked for only where there is markup to place."""
    more: dict[str, Any] = {"to": to, "split": split, "protect": protect, "glossary": glossary, "min_score": min_score}

    def translate(asked: Sequence[Asked]) -> list[Said]:
        can = any(one.align for one in asked) and can_align(translator)
        said: dict[int, Said] = {}
        for align in (False, True):
            rows = [row for row, one in enumerate(asked) if one.align is align]
            lines = [asked[row].text for row in rows]
            results = translator.translate(lines, search, align=align and can, **more) if rows else []
            for row, result in zip(rows, results):
                warnings = result.warnings if can or not align else [*result.warnings, NO_LINKS]
                said[row] = Said(result.text, result.guesses[0].alignment, warnings)
        return [said[row] for row in range(len(asked))]

    return translate


def can_align(translator: "Translator") -> bool:
    """Whether links can be read from a model's attention, with words that can be found again."""
    from headway.text.align.words import word_roles
    from headway.translate.alignment import place_of

    try:
        for tokenizer in (translator.tokenizers.source, translator.tokenizers.target):
            word_roles(tokenizer)
        for config in translator.configs:
            place_of(config)
    except HeadwayError:
        return False
    return True
