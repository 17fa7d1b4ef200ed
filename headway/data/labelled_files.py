"""Labelled text for tasks: texts with labels, words with tags, two texts with a label or a score, texts that belong
together, problems with answers.

TSV, CSV, JSON lines or CoNLL ─► read_labelled() ─► LabelledData ─► hold_out(): training and validation, no text in both
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from headway.data.graphs import Graph, read_graph
from headway.data.parallel_files import strip_compression
from headway.data.quoted_tables import find_delimiter, is_quoted_table, read_quoted_rows
from headway.data.toy.algorithms import parse_problem
from headway.errors import HeadwayError
from headway.files.cache import fingerprint
from headway.files.text_files import format_path, read_lines
from headway.text.unspaced import count_words

CONLL_TAG_COLUMNS = {".conll": -1, ".conllu": 3}  # of the tag; the word is in the first, of .conllu in the second
MAX_HELD_OUT_EXAMPLES = 2000  # for validation, if no validation data is given
HELD_OUT_SHARE = 0.1
SAMPLED_LINES = 1000  # of a table, to see how it is quoted


class PictureFile(NamedTuple):
    """A picture that can be read: see headway.data.pictures."""

    source: str | np.ndarray  # a path, or pixels
    digest: str  # the same for the same bytes
    size: tuple[int, int]  # width and height
    is_grey: bool


class LabelledExample(NamedTuple):
    # of classify one, of match two, of embed anchor, positive, negatives; of tag the words; of solve text and answer
    texts: tuple[str, ...]
    labels: tuple[str, ...] = ()  # of tag one for each word; of embed none; of solve the kind of problem, or none
    graph: Graph | None = None  # of a problem
    picture: PictureFile | None = None  # in place of a text, which is then its name


class TaskColumns(NamedTuple):
    """What the columns of a task are called. The first name is the one that messages use."""

    texts: tuple[tuple[str, ...], ...]
    label: tuple[str, ...] = ()
    more: tuple[str, ...] = ()  # a text that may follow

    @property
    def names(self) -> str:
        optional = [f"[{self.more[0]}]"] if self.more else []
        return ", ".join([*(names[0] for names in self.texts), *self.label[:1], *optional])


COLUMNS = {
    "classify": TaskColumns((("text", "sentence"),), ("label", "class")),
    "tag": TaskColumns((("words", "tokens"),), ("tags", "labels")),
    "match": TaskColumns((("text1", "sentence1", "premise"), ("text2", "sentence2", "hypothesis")), ("label", "score")),
    "embed": TaskColumns((("anchor", "query", "text1"), ("positive", "text2")), more=("negative",)),
    "solve": TaskColumns((("text", "problem", "prompt"), ("answer",))),
}


@dataclass(frozen=True)
class LabelledData:
    """Examples of one task, in memory: labelled text is small beside the text that models are pre-trained on."""

    task: str
    examples: Sequence[LabelledExample]
    empty_count: int = 0  # left out: without text

    @property
    def lines(self) -> int:
        return len(self.examples)

    @property
    def pictures(self) -> list[PictureFile]:
        """Of labelled pictures; empty of text."""
        return [example.picture for example in self.examples if example.picture is not None]

    def label_counts(self) -> dict[str, int]:
        """How often each label occurs, by name."""
        counts: dict[str, int] = {}
        for example in self.examples:
            for label in example.labels:
                counts[label] = counts.get(label, 0) + 1
        return dict(sorted(counts.items()))

    @property
    def valid_option(self) -> str:
        """How data of this kind is given to validate on."""
        return "--valid-images" if self.pictures else "--valid-data"

    def texts(self) -> Iterator[str]:
        """Every text, the words of a tagged one joined by spaces."""
        for example in self.examples:
            if self.task == "tag":
                yield " ".join(example.texts)
            else:
                yield from example.texts

    def count_words(self) -> int:
        return 0 if self.pictures else int(sum(count_words(text) for text in self.texts()))

    def count_characters(self) -> int:
        return 0 if self.pictures else sum(map(len, self.texts()))

    @property
    def identity(self) -> str:
        contents = ((e.texts if e.picture is None else e.picture.digest, e.labels) for e in self.examples)
        parts = ((*own, e.graph) if e.graph else own for own, e in zip(contents, self.examples))
        return fingerprint([self.task, *map(json.dumps, parts)])


@dataclass
class _Collector:
    """Examples as they are read, checked one by one."""

    task: str
    examples: list[LabelledExample] = field(default_factory=list)
    empty_count: int = 0

    def add(self, texts: Sequence[str], labels: Sequence[str], where: str, graph: Graph | None = None) -> None:
        if self.task == "tag" and len(texts) != len(labels):
            raise HeadwayError(
                f"{where}: {len(texts)} words and {len(labels)} tags. Give one tag for each word, both separated by "
                "spaces."
            )
        texts = tuple(text.strip() for text in texts)
        if not texts or "" in texts:
            self.empty_count += 1
            return
        if "" in labels:
            raise HeadwayError(f"{where}: the label is empty. Give every text a label, or leave the line out.")
        if self.task == "solve" and graph is None and (known := parse_problem(texts[0])):
            labels, graph = labels or known[:1], known[1]
        self.examples.append(LabelledExample(texts, tuple(labels), graph))


def read_labelled(paths: Sequence[str], task: str) -> LabelledData:
    """The examples of these files, in order. Lines without text are left out and counted."""
    collector = _Collector(task)
    for path in paths:
        name = strip_compression(path).lower()
        suffix = name[name.rfind(".") :]
        if suffix in (".jsonl", ".json", ".ndjson"):
            _read_json_lines(path, collector)
        elif suffix in CONLL_TAG_COLUMNS:
            _read_conll(path, collector, CONLL_TAG_COLUMNS[suffix])
        else:
            _read_table(path, collector, is_csv=suffix == ".csv")
    if not collector.examples:
        files = " and ".join(map(format_path, paths))
        raise HeadwayError(f"{files}: there is no example with text. Give the columns {COLUMNS[task].names}.")
    return LabelledData(task, collector.examples, collector.empty_count)


def collect_rows(rows: Iterable[Any], task: str, name: str = "data") -> LabelledData:
    """The same of rows in memory: tuples in the order of the columns, or tables with their names."""
    collector = _Collector(task)
    for number, row in enumerate(rows):
        where = f"{name}[{number}]"
        if isinstance(row, dict):
            _add_table(row, collector, where)
        elif isinstance(row, list | tuple):
            _add_cells([*row], collector, where)
        else:
            raise HeadwayError(f"{where} is {row!r:.60}: give tuples of {COLUMNS[task].names}, or tables with these.")
    if not collector.examples:
        raise HeadwayError(f"{name} holds no example with text. Give tuples of {COLUMNS[task].names}.")
    return LabelledData(task, collector.examples, collector.empty_count)


def _read_table(path: str, collector: _Collector, is_csv: bool) -> None:
    lines = read_lines(path)
    sample = list(islice(lines, SAMPLED_LINES))
    delimiter = find_delimiter(sample) if is_csv else "\t"
    everything = chain(sample, lines)
    if is_csv or is_quoted_table(sample, delimiter):
        rows: Iterable[tuple[int, list[str]]] = read_quoted_rows(format_path(path), everything, delimiter)
    else:
        rows = ((number, line.split("\t")) for number, line in enumerate(everything, 1))
    order: list[int] | None = None  # of the columns that the task needs, if a header names them
    width = 0
    for index, (number, cells) in enumerate(rows):
        if index == 0 and (order := _find_columns(cells, collector.task)) is not None:
            width = len(cells)
        elif any(cells):
            where = f"{format_path(path)}, line {number}"
            if order is not None and len(cells) != width:
                raise HeadwayError(f"{where}: {_count_columns(cells)}, and the first line names {width}.")
            _add_cells(cells if order is None else [cells[n] for n in order], collector, where)


def _find_columns(header: Sequence[str], task: str) -> list[int] | None:
    """Where the columns of the task are, by the names in a first line; None if it does not name all of them."""
    columns = COLUMNS[task]
    given = [cell.strip().lower() for cell in header]
    wanted = [*columns.texts, *([columns.label] if columns.label else [])]
    found = [next((given.index(name) for name in names if name in given), -1) for names in wanted]
    if -1 in found or len(set(found)) < len(found):
        return None
    return found + [
        n for n, name in enumerate(given) if columns.more and name.startswith(columns.more) and n not in found
    ]


def _count_columns(cells: Sequence[Any]) -> str:
    return f"{len(cells)} column{'s' * (len(cells) != 1)}"


def _add_cells(cells: list[Any], collector: _Collector, where: str) -> None:
    columns = COLUMNS[collector.task]
    wanted = len(columns.texts) + bool(columns.label)
    if len(cells) != wanted and not (columns.more and len(cells) > wanted):
        raise HeadwayError(
            f"{where}: {_count_columns(cells)}, and the task {collector.task} needs {wanted}: {columns.names}"
            f"{', and perhaps more negatives' * bool(columns.more)}. Separate them by tabs, of .csv by commas; of a "
            "table with others, name the columns in the first line."
        )
    if collector.task == "tag":
        words, tags = (_read_words(cell, where) for cell in cells)
        collector.add(words, tags, where)
    elif columns.label:
        *texts, label = (_read_cell(cell, where) for cell in cells)
        collector.add(texts, [label.strip()], where)
    else:
        texts = [_read_cell(cell, where) for cell in cells]
        negatives = [text for text in texts[wanted:] if text.strip()]  # a table has columns for the longest row
        collector.add(texts[:wanted] + negatives, [], where)


def _read_cell(cell: Any, where: str) -> str:
    if cell is None or isinstance(cell, list | tuple | dict | set | bytes):
        raise HeadwayError(f"{where}: {cell!r:.60} is no text and no label. Give each as a string or a number.")
    return str(cell)


def _read_words(cell: Any, where: str) -> list[str]:
    """The words or tags of a text, which are separated by spaces or a list."""
    return (
        [_read_cell(part, where) for part in cell]
        if isinstance(cell, list | tuple)
        else _read_cell(cell, where).split()
    )


def _read_json_lines(path: str, collector: _Collector) -> None:
    for number, line in enumerate(read_lines(path), 1):
        where = f"{format_path(path)}, line {number}"
        if not line.strip():
            continue
        try:
            table = json.loads(line)
        except (ValueError, RecursionError):
            table = None
        if not isinstance(table, dict):
            raise HeadwayError(f"{where} is not a JSON object. Write one a line, with {COLUMNS[collector.task].names}.")
        _add_table(table, collector, where)


def _add_table(table: dict[str, Any], collector: _Collector, where: str) -> None:
    columns = COLUMNS[collector.task]
    cells = [_find_cell(table, names, where) for names in columns.texts]
    if collector.task == "solve":
        graph = None if table.get("graph") is None else read_graph(table["graph"], where)
        kind = str(table.get("task") or "").strip()
        collector.add([str(cell) for cell in cells], [kind] if kind else [], where, graph)
        return
    if columns.label:
        cells.append(_find_cell(table, columns.label, where))
    for name in columns.more:
        given = table.get(name) or []
        cells += given if isinstance(given, list) else [given]
    _add_cells(cells, collector, where)


def _find_cell(table: dict[str, Any], names: Sequence[str], where: str) -> Any:
    for name in names:
        if table.get(name) is not None:
            return table[name]
    raise HeadwayError(f"{where} has no {' or '.join(names)}; it has {', '.join(map(str, table)) or 'nothing'}.")


def _read_conll(path: str, collector: _Collector, tag_column: int) -> None:
    """A word a line, an empty line after each sentence. Comments (#) and, in CoNLL-U, words that are not of the text
    (1-2, 1.1) are skipped."""
    universal = tag_column >= 0
    words: list[str] = []
    tags: list[str] = []
    first_line = 1
    for number, line in enumerate([*read_lines(path), ""], 1):
        cells = line.split("\t") if universal or "\t" in line else line.split()
        if not line.strip():
            if words:
                collector.add(words, tags, f"{format_path(path)}, line {first_line}")
            words, tags, first_line = [], [], number + 1
        elif (line.startswith("#") and (universal or len(cells) < 2)) or line.startswith("-DOCSTART-"):
            continue
        elif len(cells) < (4 if universal else 2):
            raise HeadwayError(
                f"{format_path(path)}, line {number}: {len(cells)} column{'s' * (len(cells) != 1)}. Give a word and "
                "its tag, the tag last; .conllu has its word in column 2 and its tag in column 4."
            )
        elif not universal or cells[0].isdigit():
            words.append(cells[1] if universal else cells[0])
            tags.append(cells[tag_column])


def is_scored(data: LabelledData) -> bool:
    """Whether two texts have a score and no label: every label is a number, and not all are whole numbers that occur
    again and again."""
    if data.task != "match":
        return False
    values = {example.labels[0] for example in data.examples}
    return all(map(is_number, values)) and (
        len(values) > 10 or not all(value.lstrip("-").isdigit() for value in values)
    )


def is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def hold_out(data: LabelledData, seed: int = 1) -> tuple[LabelledData, LabelledData, int]:
    """Training and validation examples, and how many copies of validation texts were removed from training. A label
    that occurs once stays in the training examples."""
    wanted = max(1, min(MAX_HELD_OUT_EXAMPLES, round(HELD_OUT_SHARE * len(data.examples))))
    left = data.label_counts()
    chosen: list[int] = []
    scored = is_scored(data)
    for number in np.random.default_rng(seed).permutation(len(data.examples)).tolist():
        own = data.examples[number].labels
        if len(chosen) == wanted:
            break
        needed = {} if scored else {label: own.count(label) for label in own}
        if all(left[label] > count for label, count in needed.items()):
            chosen.append(number)
            for label, count in needed.items():
                left[label] -= count
    if not chosen or len(chosen) == len(data.examples):
        few = f"{len(data.examples):,} example{'s' * (len(data.examples) != 1)} cannot be split"
        why = ", since none can be spared: each has a label that occurs nowhere else" if len(data.examples) > 2 else ""
        raise HeadwayError(f"{few}{why}. Give validation data, too: {data.valid_option}, in Python valid=…")
    held = set(chosen)
    key = _leak_key(data.task)
    known = {part for number in chosen for part in key(data.examples[number])}
    rest = [example for number, example in enumerate(data.examples) if number not in held]
    training = [example for example in rest if not known.intersection(key(example))]
    if not training:
        raise HeadwayError(
            "no training example is left after some were held out for validation: all others are copies of them. Give "
            f"more, or validation data: {data.valid_option}, in Python valid=…"
        )
    valid = [data.examples[number] for number in sorted(chosen)]
    return (
        LabelledData(data.task, training, data.empty_count),
        LabelledData(data.task, valid),
        len(rest) - len(training),
    )


def _leak_key(task: str) -> Callable[[LabelledExample], tuple[Any, ...]]:
    """What two examples must not have in common if one is for training and the other for validation: a whole text or
    pair; of texts that belong together, any."""
    if task == "embed":
        return lambda example: example.texts
    if task == "match":
        return lambda example: (tuple(sorted(example.texts)),)
    return lambda example: (example.texts if example.picture is None else example.picture.digest,)


def count_shared(training: LabelledData, valid: LabelledData) -> int:
    """Validation examples that are in the training data, too."""
    key = _leak_key(training.task)
    known = {part for example in training.examples for part in key(example)}
    return sum(bool(known.intersection(key(example))) for example in valid.examples)
