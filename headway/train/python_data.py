"""The text to train on, as `headway.train` is given it: files, or anything in memory ─► TrainingTexts."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.data.corpora import ParallelCorpus, TextCorpus, open_text
from headway.data.labelled_files import LabelledData, collect_rows, read_labelled
from headway.data.parallel_files import (
    PAIR_SUFFIXES,
    ParallelFiles,
    format_suffix,
    language_from_filename,
    languages_from_filename,
)
from headway.data.pictures.labelled import collect_pictures, is_picture_row, read_labelled_pictures
from headway.data.rows import Corpus, open_rows
from headway.data.spool import spool_pairs, spool_text
from headway.errors import ConfigError, HeadwayError
from headway.train.options import TrainOptions
from headway.train.sources import (
    TrainingFiles,
    TrainingTexts,
    complete_texts,
    open_corpus,
    read_running_text,
    read_texts,
)
from headway.train.task_setup import complete_task_texts

TrainingData = Any  # pairs, texts, a table, a generator, a path, a Corpus or several, TrainingFiles


def read_data(data: TrainingData, options: TrainOptions) -> TrainingTexts:
    """Find or copy the text, count it, and hold some of it out if no validation text is given."""
    if isinstance(data, TrainingFiles) and not (data.task or data.images):
        return read_texts(data, by_documents=bool(options.index))
    if options.task or isinstance(data, TrainingFiles):
        return read_task_texts(data, options)
    training = _open_all(data, options, "data")
    validation = [] if options.valid is None else _open_all(options.valid, options, "valid")
    kinds = {isinstance(text, TextCorpus) for text in (*training, *validation)}
    if len(kinds) > 1:
        raise ConfigError(
            "data holds pairs and running text: give pairs for a translator, or text for a language model."
        )
    texts = [text for text in training if isinstance(text, TextCorpus)]
    if texts:
        if len(texts) > 1 or options.both_ways or options.noise:
            wrong = "several corpora are" if len(texts) > 1 else "both_ways and noise are"
            raise ConfigError(f"{wrong} for pairs. Give one text to a language model.", "data")
        valid = [text for text in validation if isinstance(text, TextCorpus)]
        return read_running_text(texts[0], valid[0] if valid else None, "data", bool(options.index))
    pairs = [corpus for corpus in training if isinstance(corpus, ParallelCorpus)]
    valid_pairs = [corpus for corpus in validation if isinstance(corpus, ParallelCorpus)]
    given = TrainingFiles(both_ways=options.both_ways, vary=options.noise, weights=[p.weight for p in pairs])
    return complete_texts(pairs, valid_pairs, given)


def read_task_texts(data: TrainingData, options: TrainOptions) -> TrainingTexts:
    """Labelled text of a task: files, or rows in memory."""
    if isinstance(data, TrainingFiles):
        data.check()
        if data.images:
            return read_picture_files(data)
        valid = read_labelled(data.valid_data, data.task) if data.valid_data else None
        return complete_task_texts(read_labelled(data.data, data.task), valid)
    task = options.task or ""
    given = [
        None if rows is None else _read_task_rows(rows, task, name)
        for rows, name in ((data, "data"), (options.valid, "valid"))
    ]
    assert given[0] is not None
    return complete_task_texts(given[0], given[1])


def read_picture_files(files: TrainingFiles) -> TrainingTexts:
    """Labelled pictures, with what was left out as warnings."""
    data, report = read_labelled_pictures(files.images)
    messages = report.messages
    valid = None
    if files.valid_images:
        valid, report = read_labelled_pictures(files.valid_images)
        messages += [f"to validate on: {message}" for message in report.messages]
    texts = complete_task_texts(data, valid)
    texts.warnings = [*messages, *texts.warnings]
    return texts


def _read_task_rows(rows: Any, task: str, name: str) -> LabelledData:
    if isinstance(rows, str | Path) and Path(rows).is_dir():
        if task != "classify":
            raise ConfigError(f'{rows} is a folder of pictures, which are labelled: give task="classify".', name)
        return read_labelled_pictures([str(rows)])[0]
    if not isinstance(rows, str | Path):
        rows = rows if isinstance(rows, list | tuple) else list(rows)
        if task == "classify" and rows and is_picture_row(rows[0]):
            return collect_pictures(rows, name)
    if isinstance(rows, str | Path):
        return read_labelled([str(rows)], task)
    return collect_rows(rows, task, name)


def given_languages(data: TrainingData, options: TrainOptions) -> TrainingFiles:
    """The languages that the user named, which win over those that were found."""
    if isinstance(data, TrainingFiles):
        return data
    source, target = options.languages
    return TrainingFiles(source_languages=[source] if source else [], target_languages=[target] if target else [])


def _open_all(data: Any, options: TrainOptions, name: str) -> list[ParallelCorpus | TextCorpus]:
    several = isinstance(data, list | tuple) and data and all(isinstance(part, Corpus) for part in data)
    parts: Sequence[Any] = data if several else [data]
    return [_open(part, options, f"{name}[{number}]" if several else name) for number, part in enumerate(parts)]


def _open(data: Any, options: TrainOptions, name: str) -> ParallelCorpus | TextCorpus:
    corpus = data if isinstance(data, Corpus) else Corpus(data)
    source, target = (own or given for own, given in zip(corpus.languages, options.languages))
    corpus = replace(corpus, languages=(source, target), columns=corpus.columns or options.columns)
    if corpus.paths:
        return _open_files(corpus)
    opened = open_rows(corpus, name)
    text = spool_text(opened.rows) if opened.is_text else spool_pairs(opened.rows, opened.languages, corpus.weight)
    if not text.counts.nonempty:
        what = "text" if opened.is_text else "pair with text on both sides"
        raise HeadwayError(f"{name} holds no {what}.")
    return text


def _open_files(corpus: Corpus) -> ParallelCorpus | TextCorpus:
    """One file of pairs, one of running text, or one for each language: {"en": "train.en", "de": "train.de"}."""
    paths = corpus.paths
    first, *others = paths
    columns = corpus.columns if isinstance(corpus.columns, tuple) else None
    if not others and format_suffix(first) not in PAIR_SUFFIXES:
        text = open_text([first])
        if not text.counts.nonempty:
            raise HeadwayError(f"{first}: there is no text in it.")
        return text
    if not others:
        named_languages = zip(corpus.languages, languages_from_filename(first))
        source, target = (given or own for given, own in named_languages)
        return open_corpus(ParallelFiles(first, "", source, target, columns=columns), corpus.weight)
    if len(others) > 1:
        raise ConfigError(f"{', '.join(corpus.paths)}: give two files, of source and target.", "data")
    named = [str(key) for key in corpus.data]
    found = [language_from_filename(f"x.{key}") or language_from_filename(path) for key, path in zip(named, paths)]
    source, target = (given or own for given, own in zip(corpus.languages, found))
    return open_corpus(ParallelFiles(first, others[0], source, target), corpus.weight)
