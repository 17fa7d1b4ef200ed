"""Translate text as people write it: prints every output, and checks what can be checked.

    python recipes/en-de/real_input.py MODEL [--list real_input.tsv] [--out page.md]

The list has a line for each text: target language, kind, text (\\n is a line break), and what must be copied, separated
by |. Always checked: the output is not empty and does not stutter; it has the numbers, addresses and emoji of the text.
CAPITALS must stay capitals, and text that is already in the target language must not change. With --strict, a failed
check gives exit code 1.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import NamedTuple

from recipe import HERE, rows

ADDRESS = re.compile(r"(?:https?://|www\.)[^\s,;]*[^\s,;.!?]|[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
EMOJI = re.compile("[\U0001f300-\U0001faff\u2600-\u27bf]")


class Text(NamedTuple):
    to: str
    kind: str
    text: str
    copied: list[str]


def read_texts(path: Path) -> list[Text]:
    return [
        Text(to, kind, text.replace("\\n", "\n"), [part for part in copied.split("|") if part])
        for to, kind, text, copied in rows(path)
    ]


def find_faults(given: Text, output: str) -> list[str]:
    """What is wrong with an output."""
    from headway.text.degenerate import is_stuttering
    from headway.text.numbers import find_missing_numbers

    found = [] if output.strip() else ["nothing was said"]
    if is_stuttering(given.text, output):
        found.append("it stutters")
    things = [*given.copied, *ADDRESS.findall(given.text), *EMOJI.findall(given.text)]
    found += [f"{thing} is missing" for thing in dict.fromkeys(things) if thing not in output]
    plain = ADDRESS.sub("", given.text)
    found += [
        f"the number {number} is missing" for number in find_missing_numbers(plain, output) if number not in things
    ]
    if given.kind == "capitals" and output != output.upper():
        found.append("not in capitals")
    if given.kind == "already there" and output.split() != given.text.split():
        found.append("it was changed")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a folder")
    parser.add_argument("--list", type=Path, default=HERE / "real_input.tsv")
    parser.add_argument("--out", type=Path, help="a Markdown file; default: standard output")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--strict", action="store_true")
    given = parser.parse_args()
    from headway.translate.translator import load_translator

    translator = load_translator(given.model, device=given.device)
    known = translator.summary.target_languages
    texts = [text for text in read_texts(given.list) if text.to in known]
    outputs = [translator(text.text, target=text.to if translator.summary.tags else "") for text in texts]
    wrong = [find_faults(text, output) for text, output in zip(texts, outputs)]
    lines = ["| to | kind | text | output | faults |", "|---|---|---|---|---|"]
    for text, output, found in zip(texts, outputs, wrong):
        cells = [text.to, text.kind, text.text, output, "; ".join(found)]
        lines.append("| " + " | ".join(cell.replace("\n", "<br>").replace("|", "\\|") for cell in cells) + " |")
    failed = sum(map(bool, wrong))
    page = "\n".join(lines) + f"\n\n{len(texts) - failed} of {len(texts)} without a fault that a program can see.\n"
    if given.out:
        given.out.write_text(page, encoding="utf-8")
    print(page)
    sys.exit(1 if given.strict and failed else 0)


if __name__ == "__main__":
    main()
