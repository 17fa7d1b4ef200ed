"""Makes headway/text/tables/short_text.tsv, by which languages of short texts are told apart (headway.text.short_text).

    python recipes/short_text_table.py ../shared/data headway/text/tables/short_text.tsv

DATA holds tatoeba.tsv.xz and msdocs.tsv.xz in en-de and fr-en (English<TAB>other language), and
mono/commonvoice.{de,en}.xz: everyday sentences, documentation, and speech; CC-BY 2.0 FR, CC-BY 4.0 and CC0. The table
has counts of words and of parts of words, as log-probabilities, and no sentence. Every tenth line is left out of it,
to measure with.
"""

import argparse
import lzma
import math
import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from headway.text.short_text import UNIT, iter_ngrams

EVERYDAY = {
    "en": [("en-de/tatoeba.tsv.xz", 0), ("fr-en/tatoeba.tsv.xz", 0), ("mono/commonvoice.en.xz", 0)],
    "de": [("en-de/tatoeba.tsv.xz", 1), ("mono/commonvoice.de.xz", 0)],
    "fr": [("fr-en/tatoeba.tsv.xz", 1)],
}
TECHNICAL = {  # for n-grams alone: its words are less often sent by themselves
    "en": [("en-de/msdocs.tsv.xz", 0)],
    "de": [("en-de/msdocs.tsv.xz", 1)],
    "fr": [("fr-en/msdocs.tsv.xz", 1)],
}
TABLE_WORDS = 2500
TABLE_NGRAMS = 3000
WORD = re.compile(r"[^\W\d_]+")
HELD_OUT = 10  # one line in so many
NGRAM_COUNT_POWER = (
    0.3  # of a word's count: what is new in a short text is more like rare words than like frequent ones
)


def is_held_out(line: str) -> bool:
    return zlib.crc32(line.encode()) % HELD_OUT == 0


def read_lines(folder: Path, corpora: list[tuple[str, int]]) -> Iterator[str]:
    for name, column in corpora:
        with lzma.open(folder / name, "rt", encoding="utf-8", newline="\n") as file:
            lines = {line.rstrip("\n").split("\t")[column] for line in file}
        yield from (line for line in sorted(lines) if not is_held_out(line))


def count_words(lines: Iterator[str]) -> Counter[str]:
    return Counter(word for line in lines for word in WORD.findall(line.casefold()))


def count_ngrams(words: Mapping[str, int]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for ngram in iter_ngrams(word):
            counts[ngram] += count**NGRAM_COUNT_POWER  # type: ignore[assignment]
    return counts


def choose_entries(by_language: Mapping[str, Counter[str]], size: int) -> dict[str, list[int]]:
    """The entries that tell most about the language, with their log-probabilities in units of UNIT."""
    totals = {language: sum(counts.values()) for language, counts in by_language.items()}

    def tells(entry: str) -> float:
        shares = [counts[entry] / totals[language] + 1e-7 for language, counts in by_language.items()]
        mean = sum(shares) / len(shares)
        return sum(share * math.log(share / mean) for share in shares)

    entries = sorted(set().union(*by_language.values()), key=lambda entry: (-tells(entry), entry))[:size]
    return {
        entry: [
            round(math.log((counts[entry] + 0.5) / totals[language]) / UNIT) for language, counts in by_language.items()
        ]
        for entry in sorted(entries)
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    words = {language: count_words(read_lines(given.data, corpora)) for language, corpora in EVERYDAY.items()}
    technical = {language: count_words(read_lines(given.data, corpora)) for language, corpora in TECHNICAL.items()}
    ngrams = {language: count_ngrams(words[language] + technical[language]) for language in words}
    rows = [["kind", "entry", *words]]
    for kind, table in (("word", choose_entries(words, TABLE_WORDS)), ("ngram", choose_entries(ngrams, TABLE_NGRAMS))):
        rows += [[kind, entry, *map(str, values)] for entry, values in table.items()]
    given.out.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
