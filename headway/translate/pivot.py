"""Translate through another language, where no model translates directly: German to English, English to Chinese.

    line ── read_line: ⟦0⟧ for terms and for what the user protects ──► first leg ──► its best translation
         ──► second leg ──► n-best ── restore the marks, compose the alignments ──► Translation(pivot=…)

What is asked of a translation holds for both legs or for their result:

    protected spans   both legs find those of the built-in patterns; the user's own patterns apply to the source alone
    glossary          terms stay as marks through both legs; their translations are put in place at the end
    search            beam, penalty and so on for both legs; n-best, sampling, lengths, a prefix and MBR for the second
    score, logp       the sums of both legs
    confidence        the product of both legs; none unless both models are calibrated
    alignment         source word i to target word k, where a word of the pivot is linked to both
    memory            whole lines: those that it has are not translated
    warnings          those of both legs, each with its direction"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headway.config.search import Search
from headway.errors import ConfigError, HeadwayError
from headway.text.language_codes import languages_match
from headway.text.segment.wrapped_lines import WrappedText, unwrap_text
from headway.text.spans.marks import MarkedText, mark_text
from headway.text.spans.protect import make_protector
from headway.text.tokenizer.pair import Tokenizers
from headway.translate.confidence import check_min_confidence
from headway.translate.memory_matches import look_up
from headway.translate.options import TranslateOptions
from headway.translate.results import Guess, PivotText, Translation, Translations
from headway.translate.retry_budget import RetryBudget
from headway.translate.search import Request, make_requests, translate_requests
from headway.translate.text_calls import TextCalls

if TYPE_CHECKING:
    from headway.storage.pivots import PivotChoice
    from headway.translate.translator import Translator

BudgetOf = Callable[["Translator"], RetryBudget]
# Settings of a search that its first leg has, too: the others are about the output.
SHARED_SETTINGS = ("beam_size", "penalty", "alpha", "no_repeat_ngram", "stopping", "renormalise")


class PivotTranslator(TextCalls):
    """Two translators in a row, called like one: pivot("text"), pivot.translate(lines, TranslateOptions(…))."""

    def __init__(self, first: "Translator", second: "Translator", choice: "PivotChoice") -> None:
        self.legs = (first, second)
        self.choice = choice

    def __repr__(self) -> str:
        return f"<PivotTranslator {self.source} → {self.pivot} → {self.target}: {self.legs[0]!r}, {self.legs[1]!r}>"

    @property
    def source(self) -> str:
        return self.choice.source

    @property
    def pivot(self) -> str:
        """The language in between."""
        return self.choice.pivot

    @property
    def target(self) -> str:
        return self.choice.target

    @property
    def tokenizers(self) -> Tokenizers:
        """Of what is read, and of what is written."""
        first, second = self.legs
        return Tokenizers(first.tokenizers.source, second.tokenizers.target)

    @property
    def device(self) -> str:
        return self.legs[1].device

    def search(self, **changes: Any) -> Search:
        """The search settings of the second leg with some of them changed; None changes nothing."""
        return self.legs[1].search(**changes)

    def stop(self) -> None:
        """End translations that run in other threads."""
        for leg in self.legs:
            leg.stop()

    def check(self, options: TranslateOptions) -> None:
        """Raise HeadwayError if this direction cannot be translated so: before any text is read."""
        for given, own, side in ((options.source, self.source, "from"), (options.target, self.target, "to")):
            if given and not languages_match(given, own):
                way = f"from {self.source} through {self.pivot} to {self.target}"
                raise HeadwayError(f'this translator goes {way}, not {side} "{given}".')
        check_marks(options)
        for leg, own_options in zip(self.legs, self._leg_options(options)):
            check_min_confidence(options.min_confidence, leg, own_options.target)
            own_options.check(leg)

    def translate(self, lines: Sequence[str], options: TranslateOptions | None = None) -> Translations:
        """Translate lines: one Translation a line, in order."""
        return Translations(self.translate_requests(make_requests(lines), options or TranslateOptions()))

    def translate_requests(
        self, requests: Sequence[Request], options: TranslateOptions, budget_of: BudgetOf | None = None
    ) -> list[Translation]:
        """One Translation a request, in order. budget_of: the retries of the run that these requests are part of."""
        self.check(options)
        results = self._look_up(requests, options)
        rest = [n for n in range(len(requests)) if n not in results]
        lines = [read_line(requests[n].text, options) for n in rest]
        first_options, second_options = self._leg_options(options)
        firsts = self._translate_leg(
            0, [Request(one.text, requests[n].number) for n, one in zip(rest, lines)], first_options, budget_of
        )
        seconds = self._translate_leg(
            1,
            [Request(one.text, requests[n].number, requests[n].prefix) for n, one in zip(rest, firsts)],
            second_options,
            budget_of,
        )
        for n, line, first, second in zip(rest, lines, firsts, seconds):
            joined = join_legs(line, first, second, self.choice)
            results[n] = joined.keep_source_below(options.min_confidence)
        return [results[n] for n in range(len(requests))]

    def _look_up(self, requests: Sequence[Request], options: TranslateOptions) -> dict[int, Translation]:
        """The lines that a translation memory has, by their position."""
        if options.memory is None:
            return {}
        index = options.memory.for_direction(self.source, self.target)
        found: dict[int, Translation] = {}
        for n, request in enumerate(requests):
            text = request.text.strip()
            if not text or request.prefix:
                continue
            target, warnings = look_up(index, text, options.min_similarity)
            if target is not None:
                ids = self.tokenizers.target.encode(target)
                links: list[tuple[int, int]] | None = [] if options.align else None
                guess = Guess(request.text.replace(text, target, 1), 0.0, 0.0, ids, [0.0] * len(ids), links)
                found[n] = Translation(request.text, [guess], warnings)
        return found

    def _translate_leg(
        self, number: int, requests: Sequence[Request], options: TranslateOptions, budget_of: BudgetOf | None
    ) -> list[Translation]:
        leg = self.legs[number]
        return translate_requests(leg, requests, options, retries=budget_of(leg) if budget_of else None)

    def _leg_options(self, options: TranslateOptions) -> tuple[TranslateOptions, TranslateOptions]:
        first, second = self.choice
        search = options.search or self.legs[1].summary.search
        defaults = [leg.summary.search for leg in self.legs]
        return (
            leg_options(options, first.source, first.target, False, share_search(search, *reversed(defaults))),
            leg_options(options, second.source, second.target, True, search),
        )


def translate_route(
    translator: "Translator | PivotTranslator",
    requests: Sequence[Request],
    options: TranslateOptions,
    budget_of: BudgetOf,
) -> list[Translation]:
    """One Translation a request, directly or through another language."""
    if isinstance(translator, PivotTranslator):
        return translator.translate_requests(requests, options, budget_of)
    return translate_requests(translator, requests, options, retries=budget_of(translator))


def share_search(search: Search, default: Search, other_default: Search) -> Search:
    """Another model's default search, with the changes that a search has made to its own default, as far as they are
    not about the output."""
    if search.sample:  # its beam is one wide
        return other_default
    changed = {
        name: getattr(search, name) for name in SHARED_SETTINGS if getattr(search, name) != getattr(default, name)
    }
    return replace(other_default, n_best=1, **changed)


def leg_options(
    options: TranslateOptions, source: str, target: str, is_last: bool, search: Search | None
) -> TranslateOptions:
    """The options of one leg: without what `read_line` and `join_legs` do for both."""
    return replace(
        options,
        source=source,
        target=target,
        protect=None if options.protect is None else (),
        glossary=None,
        memory=None,
        min_confidence=0.0,
        mbr=options.mbr if is_last else "",
        search=search,
    )


def check_marks(options: TranslateOptions) -> None:
    """Raise HeadwayError for a glossary that has no way through two legs."""
    if options.glossary is not None and options.protect is None:
        raise ConfigError(
            "a glossary needs protected spans where a translation goes through another language: leave out the "
            "glossary, or --no-protect (protect=None).",
            "glossary",
        )


@dataclass(frozen=True)
class PivotLine:
    """A line as the first leg reads it: with marks, and paragraphs on one line each."""

    source: str
    marked: MarkedText
    layout: WrappedText | None = None

    @property
    def text(self) -> str:
        return self.marked.text

    def restore(self, output: str) -> str:
        text = self.marked.restore(output)
        return text if self.layout is None else self.layout.restore(text)


def read_line(line: str, options: TranslateOptions) -> PivotLine:
    layout = unwrap_text(line) if options.split_sentences else None
    text = line if layout is None else layout.text
    if options.protect is None:
        return PivotLine(line, MarkedText(text), layout)
    return PivotLine(line, mark_text(text, make_protector(options.protect, None), options.glossary), layout)


def join_legs(line: PivotLine, first: Translation, second: Translation, choice: "PivotChoice") -> Translation:
    """The translation of a line, from those of its two legs."""
    before = first.guesses[0]
    guesses: list[Guess] = []
    for guess in second.guesses:
        links = compose_links(before.alignment, guess.alignment)
        if links is not None:
            links = line.marked.restore_links(links, guess.text)
        guesses.append(PivotGuess(line.restore(guess.text), before, guess, links))
    directions = (f"{choice.source} → {choice.pivot}", f"{choice.second.source} → {choice.target}")
    warnings = [
        f"{direction}: {warning}" for direction, leg in zip(directions, (first, second)) for warning in leg.warnings
    ]
    warnings = [*line.marked.warnings, *warnings, *line.marked.find_missing(second.text)]
    pivot = PivotText(choice.pivot, line.restore(first.text)) if line.source.strip() else None
    return Translation(line.source, guesses, list(dict.fromkeys(warnings)), pivot)


def compose_links(
    first: list[tuple[int, int]] | None, second: list[tuple[int, int]] | None
) -> list[tuple[int, int]] | None:
    """Links from source to target, by the words in between; None if either leg has none."""
    if first is None or second is None:
        return None
    onward: dict[int, list[int]] = {}
    for middle, target in second:
        onward.setdefault(middle, []).append(target)
    return sorted({(source, target) for source, middle in first for target in onward.get(middle, ())})


class PivotGuess(Guess):
    """A guess of the second leg, with the scores of both, which are computed when they are first read."""

    def __init__(self, text: str, first: Guess, second: Guess, alignment: list[tuple[int, int]] | None) -> None:
        values = {"text": text, "first": first, "second": second, "tokens": second.tokens, "alignment": alignment}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    first: Guess
    second: Guess

    def __repr__(self) -> str:
        return f"Guess(text={self.text!r}, score={self.score:.4f}, {len(self.tokens)} tokens)"

    @property
    def score(self) -> float:
        return self.first.score + self.second.score

    @property
    def logp(self) -> float:
        return self.first.logp + self.second.logp

    @property
    def token_logps(self) -> list[float]:
        """Of the tokens of the second leg."""
        return self.second.token_logps

    @property
    def confidence(self) -> float | None:
        first, second = self.first.confidence, self.second.confidence
        return None if first is None or second is None else first * second
