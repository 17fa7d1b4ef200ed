"""Examples of what was found, read from the files once more, with a word on what is wrong with each."""

import itertools
import re
from typing import NamedTuple

import numpy as np

from headway.data.check.char_features import letters_of, words_of
from headway.data.check.faults import BITS
from headway.data.check.raw_lines import GARBLED, pairs_at
from headway.data.check.report import Place, Report
from headway.text.language_id import is_other_language, known_languages, primary
from headway.text.scripts import count_scripts, scripts_of

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


class Example(NamedTuple):
    place: Place
    source: str
    target: str
    detail: str  # "" where the text speaks for itself


def find_examples(report: Report, most: int) -> dict[str, list[Example]]:
    """The first few pairs of every finding; where there are such, those with no fault of an earlier kind."""
    wanted = {}
    for finding in report.findings():
        numbers = report.numbers(finding.kind.name)
        earlier = report.faults[numbers] & (BITS[finding.kind.name] - 1) != 0
        wanted[finding.kind.name] = sorted(numbers[np.argsort(earlier, kind="stable")[:most]].tolist())
    texts = dict(pairs_at(report.corpora, sorted(set(itertools.chain.from_iterable(wanted.values())))))
    return {
        kind: [
            Example(report.place(number), *texts[number], detail(report, kind, number, *texts[number]))
            for number in numbers
        ]
        for kind, numbers in wanted.items()
    }


def detail(report: Report, kind: str, number: int, source: str, target: str) -> str:
    """What exactly is wrong, where a reader would have to search for it."""
    if kind == "duplicate":
        return f"as {report.name(report.place(report.original(number)))}"
    if kind == "ratio":
        return f"{len(source):,} and {len(target):,} characters"
    if kind not in OF_A_SIDE:
        return ""
    sides = zip(("source", "target"), (source, target), report.languages)
    found = [(name, OF_A_SIDE[kind](text, primary(language))) for name, text, language in sides]
    return ", ".join(f"{name}: {what}" for name, what in found if what)


def _garbled(text: str, language: str) -> str:
    match = GARBLED.search(text)
    return f"{match[0]} at character {match.start() + 1:,}" if match else ""


def _control(text: str, language: str) -> str:
    match = CONTROL.search(text)
    return f"U+{ord(match[0]):04X} at character {match.start() + 1:,}" if match else ""


def _words(text: str, language: str) -> str:
    return f"{words_of(letters_of([text])).counts()[0]:,} words"


def _empty(text: str, language: str) -> str:
    return "" if len(words_of(letters_of([text])).hash) else "no letter or digit"


def _script(text: str, language: str) -> str:
    main = next(iter(count_scripts(text)), "")
    return "" if language in known_languages() and main in scripts_of(language) else main


OF_A_SIDE = {
    "encoding": _garbled,
    "control": _control,
    "empty": _empty,
    "long": _words,
    "script": _script,
    "language": is_other_language,
}
