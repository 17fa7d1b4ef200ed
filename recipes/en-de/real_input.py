"""What a model makes of text that is no corpus: every output is shown, and what can be checked is checked.

    python recipes/en-de/real_input.py MODEL [--list real_input.tsv] [--out page.md]

The list has a line for each text: target language, kind, text (\\n is a line break), and what must be copied, with | between.
Always checked: something is said; no stutter; numbers, addresses and emoji of the text are in the output. CAPITALS must
come out as capitals, and what is in the target language already must come out as it is. A model that fails some of it
exits with 1 where --strict is given."""

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


def read(path: Path) -> list[Text]:
    return [
        Text(to, kind, text.replace("\\n", "\n"), [part for part in copied.split("|") if part])
        for to, kind, text, copied in rows(path)
    ]


def faults(given: Text, output: str) -> list[str]:
    """What is wrong with an output, in words."""
    from headway.text.degenerate import is_stuttering
    from headway.text.numbers import find_missing_numbers

    found = [] if output.strip() else ["nothing was said"]
    if is_stuttering(given.text, output):
        found.append("it stutters")
    things = [*given.copied, *ADDRESS.findall(given.text), *EMOJI.findall(given.text)]
    found += [f"{thing} is missing" for thing in dict.fromkeys(things) if thing not in output]
    plain = ADDRESS.sub("", given.text)
    found += [f"the number {number} is missing" for number in find_missing_numbers(plain, output) if number not in things]
    if given.kind == "capitals" and output != output.upper():
        found.append("not in capitals")
    if given.kind == "already there" and output.split() != given.text.split():
        found.append("it was changed")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a folder")
    parser.add_argument("--list", type=Path, default=HERE / "real_input.tsv")
    parser.add_argument("--out", type=Path, help="a Markdown file; else standard output")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--strict", action="store_true")
    given = parser.parse_args()
    from headway.translate.translator import load_translator

    translator = load_translator(given.model, device=given.device)
    known = translator.summary.target_languages
    texts = [text for text in read(given.list) if text.to in known]
    outputs = [translator(text.text, target=text.to if translator.summary.tags else "") for text in texts]
    wrong = [faults(text, output) for text, output in zip(texts, outputs)]
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
