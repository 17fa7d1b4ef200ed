"""Accuracy of `headway.text.line_language`, the language identification of `translate --from auto`.

English and German come from the corpora of HEADWAY_DATA. Other languages come from --pages, a folder of Debian's manual
pages (`apt-get download manpages-fi manpages-pl …`), stripped of roff, and package descriptions
(dists/…/i18n/Translation-fi.bz2). Both are only partly translated, so English is left out: lines of which more than two
thirds of the words occur in the English corpora, and lines that occur in several languages. Lines that are mostly
commands are left out everywhere. Correct is English as en, German as de, and any other language as neither. Nothing is
written unless --results names a file.
"""

import argparse
import bz2
import gzip
import io
import lzma
import os
import random
import re
import subprocess
import sys
import tarfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import Path

from report import Table, append_section

from headway.text.line_language import LineLanguageDetector

INSTALLED = ("en", "de")
LENGTHS = {"7 words or more": (7, 10**9), "4 to 6": (4, 6), "3": (3, 3), "2": (2, 2), "1": (1, 1)}
PAIRS = ("europarl.test", "tatoeba.valid", "newstest2013", "manpages", "ddtp")
SPECIAL = {r"\-": "-", r"\(en": "–", r"\(em": "—", r"\(aq": "'", r"\(dq": '"', r"\(cq": "’", r"\(oq": "‘", r"\e": "\\"}
WORD = re.compile(r"[\"'“„«»‘’(]*[^\W\d_]+(?:[-'’/][^\W\d_]+)*[.,;:!?)\"'”“«»’…]*")


def read_corpora(folder: Path, max_lines: int, seed: int) -> Iterator[tuple[str, str, list[str]]]:
    """Corpus, language, lines."""
    for name in PAIRS:
        with lzma.open(folder / "en-de" / f"{name}.tsv.xz", "rt", encoding="utf-8", newline="\n") as file:
            pairs = [line.rstrip("\n").split("\t") for line in file]
        for side, language in enumerate(INSTALLED):
            yield name, language, sample_lines([pair[side] for pair in pairs], max_lines, seed)
    for language in INSTALLED:
        text = (folder / "multi30k" / f"test_2016_flickr.{language}").read_text(encoding="utf-8")
        yield "multi30k", language, sample_lines(text.rstrip("\n").split("\n"), max_lines, seed)


def read_manual_pages(
    folder: Path, english: Container[str], max_lines: int, seed: int
) -> Iterator[tuple[str, str, list[str]]]:
    """The paragraphs of each language that no other language has."""
    by_language: dict[str, set[str]] = defaultdict(set)
    for package in sorted(folder.glob("manpages-*.deb")):
        for language, paragraph in read_package(package):
            by_language[language].add(paragraph)
    holders = Counter(letters_only(text) for texts in by_language.values() for text in {*texts})
    for language, texts in sorted(by_language.items()):
        own = [text for text in sorted(texts) if holders[letters_only(text)] == 1 and not is_english(text, english)]
        yield "manual pages", language, sample_lines(own, max_lines, seed)


def read_descriptions(
    folder: Path, english: Container[str], max_lines: int, seed: int
) -> Iterator[tuple[str, str, list[str]]]:
    for path in sorted(folder.glob("Translation-*.bz2")):
        found = set()
        for block in bz2.decompress(path.read_bytes()).decode("utf-8", "ignore").split("\n\n"):
            if entry := re.search(r"Description-(?!md5)\w+: (.*)\n((?: .*\n?)*)", block):
                found |= {
                    entry[1],
                    *(" ".join(text.split()) for text in re.split(r"\n \.\n", entry[2]) if " * " not in text),
                }
        lines = [line for line in sorted(found) if not is_english(line, english)]
        if len(lines) >= 100:
            yield "descriptions", path.stem.partition("-")[2], sample_lines(lines, max_lines, seed)


def is_english(text: str, english: Container[str]) -> bool:
    """Whether more than two thirds of its words occur in the English corpora."""
    words = re.findall(r"[^\W\d_]+", text.casefold())
    return sum(word in english for word in words) > len(words) * 2 / 3


def frequent_words(texts: Iterable[list[str]]) -> set[str]:
    counts = Counter(word for lines in texts for line in lines for word in re.findall(r"[^\W\d_]+", line.casefold()))
    return {word for word, count in counts.items() if count >= 5}


def is_code(text: str) -> bool:
    words = text.split()
    return text.startswith("-") or sum(not WORD.fullmatch(word) for word in words) > len(words) / 3


def read_package(package: Path) -> Iterator[tuple[str, str]]:
    data = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as files:
        for file in files:
            found = re.fullmatch(r"\./usr/share/man/(?:([a-z]{2})(?:_\w+)?[^/]*/)?man\d/[^/]+\.gz", file.name)
            if found and file.isfile():
                content = files.extractfile(file)
                assert content is not None
                text = gzip.decompress(content.read()).decode("utf-8", "ignore")
                yield from ((found[1] or "en", paragraph) for paragraph in split_paragraphs(text))


def split_paragraphs(page: str) -> Iterator[str]:
    """The running text of a page, roughly; neither its synopsis nor its examples, which are code."""
    lines: list[str] = []
    as_is = False
    for line in [*page.split("\n"), "."]:
        if line.startswith((".nf", ".EX", ".TS", ".SY", ".de")):
            as_is = True
        elif line.startswith((".fi", ".EE", ".TE", ".YS", "..")):
            as_is = False
        if line.startswith((".", "'")) or not line.strip():
            text = strip_roff(" ".join(lines))
            if lines and sum(map(str.isalpha, text)) > len(text) / 2:
                yield text
            lines = []
        elif not as_is:
            lines.append(line)


def strip_roff(text: str) -> str:
    text = re.sub(r"\\f(\[\w*\]|\(..|.)|\\s[+-]?\d|\\[&/,|^%:]|\\m\[\w*\]", "", text)
    text = re.sub(r"\\\*?(\(..|\[[^\]]*\])|\\-|\\e", lambda found: SPECIAL.get(found[0], " "), text)
    return " ".join(re.sub(r"\\(.)", r"\1", text).split())


def letters_only(text: str) -> str:
    return "".join(filter(str.isalpha, text.casefold()))


def sample_lines(lines: list[str], max_lines: int, seed: int) -> list[str]:
    lines = [line for line in lines if any(map(str.isalpha, line)) and not is_code(line)]
    return random.Random(seed).sample(lines, max_lines) if len(lines) > max_lines else lines


def judge_lines(
    lines: list[str], language: str, name: Callable[[str], str]
) -> dict[str, tuple[int, int, Counter[str]]]:
    """By length: lines, correct ones, and the languages found in wrong ones."""
    found = {}
    for length, (low, high) in LENGTHS.items():
        named = [name(line) for line in lines if low <= len(line.split()) <= high]
        right = sum(one == language if language in INSTALLED else one not in INSTALLED for one in named)
        wrong = Counter(one for one in named if one != language and (language in INSTALLED or one in INSTALLED))
        found[length] = len(named), right, wrong
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, default=os.environ.get("HEADWAY_DATA"), required="HEADWAY_DATA" not in os.environ
    )
    parser.add_argument("--pages", type=Path, metavar="FOLDER")
    parser.add_argument("--most", type=int, default=3000, help="maximum number of lines of each text")
    parser.add_argument("--seed", type=int, default=1, help="of the sample; the settings were tuned with 1")
    parser.add_argument("--wrong", type=int, default=0, help="wrong lines to show of each text")
    parser.add_argument("--results", type=Path, metavar="FILE")
    given = parser.parse_args()
    detector = LineLanguageDetector(INSTALLED)
    table = Table("Language of a line: % right (lines)", list(LENGTHS))
    texts = [*read_corpora(given.data, given.most, given.seed)]
    if given.pages:
        english = frequent_words(lines for _, language, lines in read_corpora(given.data, 10**6, 1) if language == "en")
        texts += [
            *read_manual_pages(given.pages, english, given.most, given.seed),
            *read_descriptions(given.pages, english, given.most, given.seed),
        ]
    sums = {length: [0, 0] for length in LENGTHS}
    began = time.perf_counter()
    for where, language, lines in texts:
        found = judge_lines(lines, language, detector.detect)
        table.add(f"{where} {language}", [format_share(right, count) for count, right, _ in found.values()])
        for length, (count, right, _) in found.items():
            sums[length][0] += count
            sums[length][1] += right
        if given.wrong:
            show_wrong(lines, language, detector.detect, given.wrong)
    table.add("all", [format_share(right, count) for count, right in sums.values()])
    spent, lines_read = time.perf_counter() - began, sum(len(lines) for _, _, lines in texts)
    print(table.format_text())
    print(f"{lines_read / spent:,.0f} lines a second")
    if given.results:
        facts = f"Installed: {', '.join(INSTALLED)}. {lines_read / spent:,.0f} lines a second on one core."
        append_section(given.results, "Language identification", facts, [table])
    return 0


def show_wrong(lines: list[str], language: str, name: Callable[[str], str], max_lines: int) -> None:
    for line in lines:
        one = name(line) if len(line.split()) >= 5 else language
        if (one != language) if language in INSTALLED else (one in INSTALLED):
            print(f"    {language} called {one}: {line[:150]}", file=sys.stderr)
            max_lines -= 1
            if not max_lines:
                return


def format_share(right: int, count: int) -> str:
    return f"{100 * right / count:.2f} ({count:,})" if count else "–"


if __name__ == "__main__":
    sys.exit(main())
