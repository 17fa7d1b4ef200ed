"""Examples of each fault, read from the files once more, with what is wrong in each."""

import itertools
import re
from typing import NamedTuple

import numpy as np

from headway.data.check.char_features import extract_words, to_code_points
from headway.data.check.faults import FAULT_BITS
from headway.data.check.raw_lines import GARBLED, read_pairs_at
from headway.data.check.report import CheckReport, PairLocation
from headway.text.language_id import find_other_language, known_languages, primary_language
from headway.text.scripts import count_scripts, scripts_of

CONTROL_CHARACTER = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


class FaultExample(NamedTuple):
    location: PairLocation
    source: str
    target: str
    detail: str  # "" if the text speaks for itself


def find_examples(report: CheckReport, max_examples: int) -> dict[str, list[FaultExample]]:
    """The first pairs of every finding, preferably those without a fault of an earlier kind."""
    wanted = {}
    for finding in report.findings():
        numbers = report.numbers(finding.kind.name)
        earlier = report.faults[numbers] & (FAULT_BITS[finding.kind.name] - 1) != 0
        wanted[finding.kind.name] = sorted(numbers[np.argsort(earlier, kind="stable")[:max_examples]].tolist())
    texts = dict(read_pairs_at(report.corpora, sorted(set(itertools.chain.from_iterable(wanted.values())))))
    return {
        kind: [
            FaultExample(report.locate(number), *texts[number], describe_fault(report, kind, number, *texts[number]))
            for number in numbers
        ]
        for kind, numbers in wanted.items()
    }


def describe_fault(report: CheckReport, kind: str, number: int, source: str, target: str) -> str:
    """What exactly is wrong, if a reader would have to search for it."""
    if kind == "duplicate":
        return f"same as {report.format_location(report.locate(report.original(number)))}"
    if kind == "ratio":
        return f"{len(source):,} and {len(target):,} characters"
    if kind not in SIDE_DETAILS:
        return ""
    sides = zip(("source", "target"), (source, target), report.languages)
    found = [(name, SIDE_DETAILS[kind](text, primary_language(language))) for name, text, language in sides]
    return ", ".join(f"{name}: {what}" for name, what in found if what)


def _describe_garbled(text: str, language: str) -> str:
    match = GARBLED.search(text)
    return f"{match[0]} at character {match.start() + 1:,}" if match else ""


def _describe_control(text: str, language: str) -> str:
    match = CONTROL_CHARACTER.search(text)
    return f"U+{ord(match[0]):04X} at character {match.start() + 1:,}" if match else ""


def _describe_length(text: str, language: str) -> str:
    return f"{extract_words(to_code_points([text])).counts()[0]:,} words"


def _describe_empty(text: str, language: str) -> str:
    return "" if len(extract_words(to_code_points([text])).hash) else "no letter or digit"


def _describe_script(text: str, language: str) -> str:
    main = next(iter(count_scripts(text)), "")
    return "" if language in known_languages() and main in scripts_of(language) else main


SIDE_DETAILS = {
    "encoding": _describe_garbled,
    "control": _describe_control,
    "empty": _describe_empty,
    "long": _describe_length,
    "script": _describe_script,
    "language": find_other_language,
}
