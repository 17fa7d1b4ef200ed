"""The text to train on: the files that were given, their languages, and the part held out for validation.

TrainingFiles (what the user named) ─► read_texts() ─► TrainingTexts (corpora) ─► headway.train.setup
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from headway.config.presets import CorpusStatistics
from headway.data.corpora import ParallelCorpus, TextCorpus, open_parallel, open_text
from headway.data.labelled_files import LabelledData
from headway.data.noise import add_noise
from headway.data.parallel_files import Pair, ParallelFiles, language_from_filename, languages_from_filename
from headway.errors import ConfigError, HeadwayError
from headway.files.cache import fingerprint
from headway.retrieval.indexed_text import find_document_rule
from headway.train.overlap import describe_pair_overlap, describe_text_overlap

MAX_HELD_OUT_LINES = 1000  # of a corpus, for validation, if no validation text is given
MAX_HELD_OUT_IN_ALL = 3000  # of all corpora together


@dataclass(frozen=True, kw_only=True)
class TrainingFiles:
    """File names and flags. The corpora are those of source and target, then those of pairs."""

    source: Sequence[str] = ()
    target: Sequence[str] = ()
    pairs: Sequence[str] = ()  # files that hold both sides
    valid_source: Sequence[str] = ()
    valid_target: Sequence[str] = ()
    valid_pairs: Sequence[str] = ()
    text: Sequence[str] = ()
    valid_text: Sequence[str] = ()
    source_languages: Sequence[str] = ()
    target_languages: Sequence[str] = ()
    weights: Sequence[float] = ()
    prefixes: Sequence[str] = ()  # the task of each corpus, as text before its sources
    columns: tuple[str, str] | None = None  # of pairs
    both_ways: bool = False  # use every corpus in the opposite direction too
    task: str = ""  # on top of an encoder: classify, tag, match, embed; by a decoder: solve
    data: Sequence[str] = ()  # labelled text, for a task
    valid_data: Sequence[str] = ()
    images: Sequence[str] = ()  # labelled pictures: folders and TSV files
    valid_images: Sequence[str] = ()
    vary: float = 0.0  # share of the pairs that is added once more with noise, as people type

    def check(self) -> None:
        """Raise ConfigError for impossible combinations, before anything is read."""
        if self.task or self.data or self.valid_data or self.images or self.valid_images:
            return self._check_task()
        parallel = self.source or self.target or self.pairs
        valid_parallel = self.valid_source or self.valid_target or self.valid_pairs
        if bool(self.text) == bool(parallel):
            raise ConfigError(
                "give --source and --target, or --pairs, for a translator, or --text for a language model."
            )
        if self.text and valid_parallel:
            raise ConfigError("a language model is validated on --valid-text, not on pairs.")
        if parallel and self.valid_text:
            raise ConfigError("a translator is validated on --valid-source and --valid-target, not on --valid-text.")
        for left, right, one, other in (
            ("--source", "--target", self.source, self.target),
            ("--valid-source", "--valid-target", self.valid_source, self.valid_target),
        ):
            if len(one) != len(other):
                raise ConfigError(
                    f"{left} was given {_format_times(one)} and {right} {_format_times(other)}: give as many of one as "
                    "of the other."
                )
        if self.columns and not self.pairs and not self.valid_pairs:
            raise ConfigError(
                "--columns applies to the files of --pairs and --valid-pairs, and there are none: leave it out."
            )
        corpora = len(self.source) + len(self.pairs)
        for name, given in (
            ("--from", self.source_languages),
            ("--to", self.target_languages),
            ("--weight", self.weights),
            ("--prefix", self.prefixes),
        ):
            if len(given) not in (0, 1, corpora):
                what = "1 corpus" if corpora == 1 else f"{corpora} corpora"
                raise ConfigError(
                    f"{name} was given {_format_times(given)} for {what}: give it once for all, or once for each."
                )
        valid_corpora = len(self.valid_source) + len(self.valid_pairs)
        if len(self.prefixes) > 1 and valid_corpora not in (0, corpora):
            raise ConfigError(
                f"--prefix was given once for each of {corpora} corpora, and there are {valid_corpora} to validate on: "
                "give one of these for each corpus, in the same order, or none."
            )
        if self.prefixes and self.both_ways:
            raise ConfigError(
                "--prefix names one task for a corpus, and --both-ways uses it for two: give the corpus twice, each "
                "time with its prefix."
            )
        for name, value in (
            ("--weight", self.weights), ("--both-ways", self.both_ways), ("--noise", self.vary),
            ("--prefix", self.prefixes),
        ):  # fmt: skip
            if self.text and value:
                raise ConfigError(f"{name} is for corpora of pairs, not for --text.")

    def _check_task(self) -> None:
        if self.images or self.valid_images:
            if not self.images:
                raise ConfigError("--valid-images are pictures to validate on: give those to learn from, --images.")
            if self.data or self.valid_data:
                raise ConfigError("--images holds pictures and --data text: give one of them.")
            if self.task not in ("", "classify"):
                raise ConfigError(
                    f"pictures are labelled (--task classify), and {self.task} reads text. Leave out --task, or give "
                    "--data."
                )
        elif not self.task:
            raise ConfigError("--data holds labelled text: say what to learn from it, with --task.")
        if not self.data and not self.images:
            raise ConfigError(f"--task {self.task} needs labelled text: give --data FILE.")
        others = (self.source, self.target, self.pairs, self.text, self.valid_source, self.valid_target)
        if any((*others, self.valid_pairs, self.valid_text, self.weights, self.both_ways, self.vary, self.columns)):
            raise ConfigError(
                "--task learns from --data, validated on --valid-data, or --images from --valid-images: leave out "
                "--source, --target, --pairs, --text and what belongs to them."
            )


@dataclass
class TrainingTexts:
    """The corpora to train and validate on: pairs, or running text, or labelled text of a task."""

    pairs: list[ParallelCorpus] = field(default_factory=list)
    valid_pairs: list[ParallelCorpus] = field(default_factory=list)
    text: TextCorpus | None = None
    valid_text: TextCorpus | None = None
    task: LabelledData | None = None
    valid_task: LabelledData | None = None
    notes: list[str] = field(default_factory=list)  # what the user should know about them
    warnings: list[str] = field(default_factory=list)

    def statistics(self) -> CorpusStatistics:
        if self.task is not None:
            return CorpusStatistics(self.task.lines, self.task.count_words(), self.task.count_characters())
        counts = [p.counts for p in self.pairs] + ([self.text.counts] if self.text else [])
        return CorpusStatistics(*(sum(getattr(c, name) for c in counts) for name in CorpusStatistics._fields))

    @property
    def identity(self) -> str:
        """A fingerprint of the training text, independent of where its files are."""
        if self.task is not None:
            return self.task.identity
        parts = [f"{part.identity} {part.weight}" for part in self.pairs]
        return fingerprint([*parts, self.text.identity if self.text else ""])

    @property
    def valid_identity(self) -> str:
        """A fingerprint of the validation text."""
        if self.valid_task is not None:
            return self.valid_task.identity
        parts = [part.identity for part in self.valid_pairs]
        return fingerprint([*parts, self.valid_text.identity if self.valid_text else ""])


def read_texts(files: TrainingFiles, by_documents: bool = False) -> TrainingTexts:
    """Find and count the corpora; hold some pairs or lines out if no validation text was given: with `by_documents`,
    no part of a document."""
    files.check()
    if files.text:
        valid_text = _refuse_empty(open_text(files.valid_text), files.valid_text) if files.valid_text else None
        text = _refuse_empty(open_text(files.text), files.text)
        return read_running_text(text, valid_text, files.text[0], by_documents)
    pairs = _read_corpora(files, files.source, files.target, files.pairs)
    valid = _read_corpora(files, files.valid_source, files.valid_target, files.valid_pairs)
    return complete_texts(pairs, valid, files)


def complete_texts(
    pairs: Sequence[ParallelCorpus], valid: Sequence[ParallelCorpus], files: TrainingFiles
) -> TrainingTexts:
    """Corpora with their other directions, validation text, weights and noise."""
    _refuse_unknown_languages(pairs)
    texts = TrainingTexts(_add_swapped(pairs, files.both_ways), _add_swapped(valid, files.both_ways))
    if valid:
        texts.warnings += filter(None, [describe_pair_overlap(texts.pairs, texts.valid_pairs)])
    texts.notes += unique_values(corpus.note for corpus in (*texts.pairs, *texts.valid_pairs))
    if not valid:
        before = _count_lines(texts.pairs)
        texts.pairs, texts.valid_pairs = _hold_out(texts.pairs)
        count = _count_lines(texts.valid_pairs)
        copies = before - count - _count_lines(texts.pairs)
        removed = f"; {copies:,} copies of them were removed from the training text" if copies else ""
        texts.notes.append(f"no validation text was given: {_format_count(count, 'pair')} held out for it{removed}")
    texts.pairs = _set_weights(texts.pairs, files.weights)
    if files.vary:  # only now: noisy copies of pairs that were held out must not be trained on
        texts.pairs += [noisy for p in texts.pairs if (noisy := add_noise(p, files.vary)).counts.nonempty]
    return texts


def read_corpora(files: TrainingFiles) -> list[ParallelCorpus]:
    """The parallel corpora to train on."""
    pairs = _read_corpora(files, files.source, files.target, files.pairs)
    _refuse_unknown_languages(pairs)
    return _add_swapped(pairs, files.both_ways)


def unique_values(values: Iterable[str]) -> list[str]:
    return [value for value in dict.fromkeys(values) if value]


def _format_times(given: Sequence[object]) -> str:
    return "once" if len(given) == 1 else f"{len(given)} times"


def _format_count(count: int, what: str) -> str:
    """ "1 pair is", "1,000 pairs are" """
    return f"1 {what} is" if count == 1 else f"{count:,} {what}s are"


def _count_lines(corpora: Sequence[ParallelCorpus]) -> int:
    return sum(p.counts.lines for p in corpora)


def read_running_text(
    text: TextCorpus, valid_text: TextCorpus | None, name: str, by_documents: bool = False
) -> TrainingTexts:
    """Running text, and that to validate on, or some of it held out. `name` is what errors call it."""
    if valid_text is not None:
        warnings = [warning] if (warning := describe_text_overlap(text, valid_text)) else []
        return TrainingTexts(text=text, valid_text=valid_text, warnings=warnings)
    held = min(MAX_HELD_OUT_LINES, text.counts.lines // 20) or 1
    held = hold_out_documents(text, held) if by_documents else held
    training, valid = text.split(held)
    if not training.counts.nonempty or not valid.counts.nonempty:
        raise HeadwayError(
            f"{name} is too short to hold some of it out. Give validation text, too: --valid-text, in Python valid=…"
        )
    note = f"no validation text was given: the last {_format_count(held, 'line').removeprefix('1 ')} held out for it"
    return TrainingTexts(text=training, valid_text=valid, notes=[note])


def hold_out_documents(text: TextCorpus, held: int) -> int:
    """So many lines, and those before them that belong to the same document."""
    if find_document_rule(text.read()) == "lines":
        return held
    start, after_gap = 0, True
    for number, line in enumerate(islice(text.read(), text.counts.lines - held + 1)):
        if after_gap and line.strip():
            start = number
        after_gap = not line.strip()
    return text.counts.lines - start if start else held


def _refuse_empty(text: TextCorpus, paths: Sequence[str]) -> TextCorpus:
    if not text.counts.nonempty:
        raise HeadwayError(f"{' and '.join(paths)}: there is no text in {'it' if len(paths) == 1 else 'them'}.")
    return text


def _read_corpora(
    files: TrainingFiles, source: Sequence[str], target: Sequence[str], pairs: Sequence[str]
) -> list[ParallelCorpus]:
    all_files = [
        ParallelFiles(one, other, language_from_filename(one), language_from_filename(other))
        for one, other in zip(source, target)
    ]
    all_files += [ParallelFiles(path, "", *languages_from_filename(path), columns=files.columns) for path in pairs]
    count = len(all_files)
    found = []
    for number, one in enumerate(all_files):
        named = one._replace(
            source_language=_value_at(files.source_languages, number, count) or one.source_language,
            target_language=_value_at(files.target_languages, number, count) or one.target_language,
        )
        corpus = open_corpus(named)
        prefix = _value_at(files.prefixes, number, count).strip()
        found.append(corpus.add_prefix(prefix) if prefix else corpus)
    return found


def open_corpus(files: ParallelFiles, weight: float = 1.0) -> ParallelCorpus:
    corpus = open_parallel(files, weight)
    if not corpus.counts.nonempty:
        raise HeadwayError(f"{files} hold{'s' * (not files.target)} no sentence pair.")
    return corpus


def _add_swapped(corpora: Sequence[ParallelCorpus], both_ways: bool) -> list[ParallelCorpus]:
    return [*corpora, *map(_swap_sides, corpora)] if both_ways else list(corpora)


def _set_weights(corpora: Sequence[ParallelCorpus], weights: Sequence[float]) -> list[ParallelCorpus]:
    """Of training corpora, not of validation. With --both-ways, both directions of a corpus have its weight."""
    weights = weights or [1.0]
    return [replace(corpus, weight=weights[number % len(weights)]) for number, corpus in enumerate(corpora)]


def _swap_sides(corpus: ParallelCorpus) -> ParallelCorpus:
    if not corpus.source_language or not corpus.target_language:
        raise ConfigError("--both-ways needs the languages of both sides, and one is not known: give --from and --to.")
    return corpus.swap_sides()


def _value_at(values: Sequence[str], number: int, count: int) -> str:
    """The language or the prefix of one of `count` corpora; a single value applies to all of them."""
    if len(values) == 1:
        return values[0]
    return values[number] if len(values) == count else ""


def _refuse_unknown_languages(pairs: Sequence[ParallelCorpus]) -> None:
    """A model with several target languages must know the language of each target."""
    known = dict.fromkeys(p.target_language for p in pairs)
    if len(known) > 1 and "" in known:
        names = ", ".join(unique_values(known))
        raise ConfigError(f"some targets are {names}, and the language of others is not known: give --to for each.")


def _hold_out(corpora: list[ParallelCorpus]) -> tuple[list[ParallelCorpus], list[ParallelCorpus]]:
    """Split a small random part, always the same, off each corpus for validation."""
    training: list[ParallelCorpus] = []
    valid: list[ParallelCorpus] = []
    wanted = [min(MAX_HELD_OUT_LINES, max(1, p.counts.lines // 20)) for p in corpora]
    share = min(1.0, MAX_HELD_OUT_IN_ALL / sum(wanted))
    for p, most in zip(corpora, wanted):
        count = max(1, int(share * most))
        if count >= p.counts.lines:
            raise HeadwayError(
                "a corpus of one pair cannot be split: give validation text, too (--valid-source and --valid-target, "
                "in Python valid=…)."
            )
        rest, held_out = p.split(count)
        training.append(rest)
        valid.append(held_out)
    pairs_held_out = [pair for p in valid for pair in p.read() if all(pair)]
    both_ways = frozenset(way for source, target in pairs_held_out for way in ((source, target), (target, source)))
    return [_remove_copies(p, both_ways) for p in training], valid


def _remove_copies(corpus: ParallelCorpus, held_out: frozenset[Pair]) -> ParallelCorpus:
    """Without validation pairs: these must not be trained on, in any line, corpus or direction."""
    rest = corpus.exclude(held_out)
    if not rest.counts.nonempty:
        raise HeadwayError(
            "no training text is left after pairs were held out for validation: all others are copies of them. Give "
            "more text, or validation text (--valid-source and --valid-target, in Python valid=…)."
        )
    return rest
