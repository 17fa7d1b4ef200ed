"""The text that a user gives to train on: found, paired, its languages known, some of it held out for validation."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from headway.config.presets import Statistics
from headway.data.corpora import Parallel, Running, parallel, running
from headway.data.noise import varied
from headway.data.parallel_files import Pair, ParallelFiles, language_of, languages_of
from headway.errors import ConfigError, HeadwayError
from headway.files.cache import fingerprint

HELD_OUT = 1000  # lines for validation at most, where none are given


@dataclass(frozen=True, kw_only=True)
class Files:
    """What the user gave. The corpora are those of source and target, then those of pairs."""

    source: Sequence[str] = ()
    target: Sequence[str] = ()
    pairs: Sequence[str] = ()  # files with both sides
    valid_source: Sequence[str] = ()
    valid_target: Sequence[str] = ()
    valid_pairs: Sequence[str] = ()
    text: Sequence[str] = ()
    valid_text: Sequence[str] = ()
    source_languages: Sequence[str] = ()
    target_languages: Sequence[str] = ()
    weights: Sequence[float] = ()
    columns: tuple[str, str] | None = None  # of pairs
    both_ways: bool = False  # every corpus also with its sides exchanged
    vary: float = 0.0  # the share of the pairs that is learned from once more, as people type

    def refuse(self) -> None:
        """Say what does not go together before anything is read."""
        parallel = self.source or self.target or self.pairs
        validated = self.valid_source or self.valid_target or self.valid_pairs
        if bool(self.text) == bool(parallel):
            raise ConfigError(
                "give --source and --target, or --pairs, for a translator, or --text for a language model."
            )
        if self.text and validated:
            raise ConfigError("a language model is validated on --valid-text, not on pairs.")
        if parallel and self.valid_text:
            raise ConfigError("a translator is validated on --valid-source and --valid-target, not on --valid-text.")
        for left, right, one, other in (
            ("--source", "--target", self.source, self.target),
            ("--valid-source", "--valid-target", self.valid_source, self.valid_target),
        ):
            if len(one) != len(other):
                raise ConfigError(f"{left} was given {_times(one)} and {right} {_times(other)}: they go in pairs.")
        if self.columns and not self.pairs and not self.valid_pairs:
            raise ConfigError(
                "--columns is for the files of --pairs and --valid-pairs, and there are none: leave it out."
            )
        corpora = len(self.source) + len(self.pairs)
        for name, given in (
            ("--from", self.source_languages),
            ("--to", self.target_languages),
            ("--weight", self.weights),
        ):
            if len(given) not in (0, 1, corpora):
                what = "1 corpus" if corpora == 1 else f"{corpora} corpora"
                raise ConfigError(
                    f"{name} was given {_times(given)} for {what}: give it once for all, or once for each."
                )
        for name, asked in (("--weight", self.weights), ("--both-ways", self.both_ways), ("--vary", self.vary)):
            if self.text and asked:
                raise ConfigError(f"{name} is for corpora of pairs, not for --text.")


@dataclass
class Texts:
    """What was in it."""

    pairs: list[Parallel] = field(default_factory=list)
    valid_pairs: list[Parallel] = field(default_factory=list)
    text: Running | None = None
    valid_text: Running | None = None
    notes: list[str] = field(default_factory=list)

    def statistics(self) -> Statistics:
        counts = [p.counts for p in self.pairs] + ([self.text.counts] if self.text else [])
        return Statistics(*(sum(getattr(c, name) for c in counts) for name in Statistics._fields))

    @property
    def identity(self) -> str:
        """The same for the same training text, wherever it lies."""
        parts = [f"{part.identity} {part.weight}" for part in self.pairs]
        return fingerprint([*parts, self.text.identity if self.text else ""])

    @property
    def valid_identity(self) -> str:
        """Likewise of what is measured on."""
        parts = [part.identity for part in self.valid_pairs]
        return fingerprint([*parts, self.valid_text.identity if self.valid_text else ""])


def read_texts(files: Files) -> Texts:
    """Find everything, or say what does not fit together."""
    files.refuse()
    if files.text:
        return _running_text(files)
    texts = Texts(read_corpora(files))
    if files.valid_source or files.valid_pairs:
        texts.valid_pairs = _corpora(files, files.valid_source, files.valid_target, files.valid_pairs)
    else:
        before = _lines(texts.pairs)
        texts.pairs, texts.valid_pairs = _split_off(texts.pairs)
        count = _lines(texts.valid_pairs)
        copies = before - count - _lines(texts.pairs)
        also = f", and {copies:,} more that say the same" if copies else ""
        texts.notes.append(f"no validation text was given: {_counted(count, 'pair')} held out for it{also}")
    texts.pairs = _weighted(texts.pairs, files.weights)
    if files.vary:  # after some were held out, which must not come back in small letters
        texts.pairs += [more for p in texts.pairs if (more := varied(p, files.vary)).counts.said]
    return texts


def read_corpora(files: Files) -> list[Parallel]:
    """The parallel text to learn from."""
    pairs = _corpora(files, files.source, files.target, files.pairs)
    _refuse_unknown_languages(pairs)
    return pairs


def distinct(values: Iterable[str]) -> list[str]:
    return [value for value in dict.fromkeys(values) if value]


def _times(given: Sequence[object]) -> str:
    return "once" if len(given) == 1 else f"{len(given)} times"


def _counted(count: int, what: str) -> str:
    """1 pair is, 1,000 pairs are"""
    return f"1 {what} is" if count == 1 else f"{count:,} {what}s are"


def _lines(corpora: Sequence[Parallel]) -> int:
    return sum(p.counts.lines for p in corpora)


def _running_text(files: Files) -> Texts:
    text = _said(running(files.text), files.text)
    if files.valid_text:
        return Texts(text=text, valid_text=_said(running(files.valid_text), files.valid_text))
    held = min(HELD_OUT, text.counts.lines // 20) or 1
    kept, last = text.split(held)
    if not kept.counts.said or not last.counts.said:
        raise HeadwayError(f"{files.text[0]} is too short to hold some of it out. Give --valid-text as well.")
    note = f"no validation text was given: the last {_counted(held, 'line').removeprefix('1 ')} held out for it"
    return Texts(text=kept, valid_text=last, notes=[note])


def _said(text: Running, paths: Sequence[str]) -> Running:
    if not text.counts.said:
        raise HeadwayError(f"{' and '.join(paths)}: there is no text in it.")
    return text


def _corpora(files: Files, source: Sequence[str], target: Sequence[str], pairs: Sequence[str]) -> list[Parallel]:
    where = [ParallelFiles(one, other, language_of(one), language_of(other)) for one, other in zip(source, target)]
    where += [ParallelFiles(path, "", *languages_of(path), columns=files.columns) for path in pairs]
    found = []
    for number, one in enumerate(where):
        named = one._replace(
            source_language=_at(files.source_languages, number, len(where)) or one.source_language,
            target_language=_at(files.target_languages, number, len(where)) or one.target_language,
        )
        corpus = parallel(named)
        if not corpus.counts.said:
            raise HeadwayError(f"{named} hold{'s' * (not named.target)} no sentence pair.")
        found.append(corpus)
    return [*found, *map(_other_way, found)] if files.both_ways else found


def _weighted(corpora: Sequence[Parallel], weights: Sequence[float]) -> list[Parallel]:
    """What is learned from, never what is measured on. Both ways of a corpus have its weight."""
    each = weights or [1.0]
    return [replace(corpus, weight=each[number % len(each)]) for number, corpus in enumerate(corpora)]


def _other_way(corpus: Parallel) -> Parallel:
    if not corpus.source_language or not corpus.target_language:
        raise ConfigError("--both-ways is told which way by the languages, and one is not known: give --from and --to.")
    return corpus.turned()


def _at(values: Sequence[str], number: int, count: int) -> str:
    """The language of the n-th of `count` corpora: one stands for all."""
    if len(values) == 1:
        return values[0]
    return values[number] if len(values) == count else ""


def _refuse_unknown_languages(pairs: Sequence[Parallel]) -> None:
    """Several target languages are told apart by their names, so each must have one."""
    known = dict.fromkeys(p.target_language for p in pairs)
    if len(known) > 1 and "" in known:
        names = ", ".join(distinct(known))
        raise ConfigError(f"some targets are {names}, and the language of others is not known: give --to for each.")


def _split_off(pairs: list[Parallel]) -> tuple[list[Parallel], list[Parallel]]:
    """A small part of each corpus for validation, chosen by a fixed chance."""
    training: list[Parallel] = []
    valid: list[Parallel] = []
    for p in pairs:
        count = min(HELD_OUT, max(1, p.counts.lines // 20))
        if count >= p.counts.lines:
            raise HeadwayError("a corpus of one pair cannot be split. Give --valid-source and --valid-target.")
        kept, held = p.split(count)
        training.append(kept)
        valid.append(held)
    measured = [pair for p in valid for pair in p.read() if all(pair)]
    ways = frozenset(way for source, target in measured for way in ((source, target), (target, source)))
    return [_without_copies(p, ways) for p in training], valid


def _without_copies(corpus: Parallel, measured: frozenset[Pair]) -> Parallel:
    """What is measured must not be learned: not from another line or corpus, nor the other way."""
    kept = corpus.without(measured)
    if not kept.counts.said:
        raise HeadwayError(
            "nothing is left to learn from when some pairs are held out: all others are copies of them. Give more text, "
            "or --valid-source and --valid-target."
        )
    return kept
