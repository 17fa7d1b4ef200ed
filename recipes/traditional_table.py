"""Make headway/text/tables/traditional.tsv from Unihan_Variants.txt of the Unicode Character Database.

    python recipes/traditional_table.py Unihan_Variants.txt.bz2

Debian has the file in the package `unicode-data`. Of each character with a simplified form (kSimplifiedVariant), both
in the block CJK Unified Ideographs, the first form that is another character is taken. Left out are characters that are
simplified forms themselves and have kept their old meaning, such as 干 and 后. Those of OWN_FORMS are ours."""

import bz2
import sys
from collections.abc import Iterable
from pathlib import Path

TABLE = Path(__file__).parents[1] / "headway/text/tables/traditional.tsv"
CHARACTERS_PER_ROW = 40
# Where Unihan has none, or several of which the first is the rarer one.
OWN_FORMS = dict(zip("裡裏臺餘鍾乾瞭徵藉麼", "里里台余钟干了征借么", strict=True))
# Written alike in simplified text in some words: 著名.
KEPT = {"著", "夥", "彷", "妳"}
NOTICE = """\
# Derived from Unihan_Variants.txt of the Unicode Character Database, and changed: a selection, see
# recipes/traditional_table.py. Copyright © 1991-2022 Unicode, Inc. All rights reserved. Distributed under the Terms of
# Use in https://www.unicode.org/copyright.html: free to use, copy, modify and distribute, with this notice.
"""


def read_variants(lines: Iterable[str]) -> dict[str, list[str]]:
    """The simplified forms of each character."""
    found = {}
    for line in lines:
        fields = line.rstrip("\n").split("\t")
        if len(fields) == 3 and fields[1] == "kSimplifiedVariant":
            forms = [parse_code(value.partition("<")[0]) for value in fields[2].split()]
            found[parse_code(fields[0])] = forms
    return found


def parse_code(code: str) -> str:
    return chr(int(code.removeprefix("U+"), 16))


def is_common(character: str) -> bool:
    return "\u4e00" <= character <= "\u9fff"


def choose_forms(variants: dict[str, list[str]]) -> dict[str, str]:
    simplified = {form for forms in variants.values() for form in forms}
    chosen = {}
    for character, forms in variants.items():
        others = [form for form in forms if form != character and is_common(form)]
        if others and is_common(character) and character not in simplified | KEPT:
            chosen[character] = others[0]
    return dict(sorted({**chosen, **OWN_FORMS}.items()))


def main(path: str) -> None:
    with bz2.open(path, "rt", encoding="utf-8") if path.endswith(".bz2") else open(path, encoding="utf-8") as lines:
        forms = list(choose_forms(read_variants(lines)).items())
    rows = [forms[start : start + CHARACTERS_PER_ROW] for start in range(0, len(forms), CHARACTERS_PER_ROW)]
    text = "".join("{}\t{}\n".format(*("".join(side) for side in zip(*row))) for row in rows)
    TABLE.write_text(NOTICE + text, encoding="utf-8")
    print(f"{TABLE}: {len(forms):,} characters")


if __name__ == "__main__":
    main(sys.argv[1])
