"""Rate two models blind on 200 everyday sentences: a sheet without names, and what its ratings say.

    python recipes/en-de/blind.py sheet --model one=en-de --model other=WORK/student-int8 --out rating
    python recipes/en-de/blind.py sheet --output one=one.txt --output other=other.txt --out rating
    python recipes/en-de/blind.py score --out rating

`sheet` writes rating.tsv: the sentence, its two translations in random order, and an empty column, into which a reader
writes A, B or = for the better one. rating.key.json says which is whose: do not look before. Sentences that both
translate alike are left out, and count as equal. `score` says how often each was preferred, by language and register,
and how likely such a difference is by chance (sign test). An --output has a line for each sentence of everyday.tsv."""

import argparse
import csv
import json
import math
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))  # Headway is found where it was not installed
SENTENCES = HERE / "everyday.tsv"
OTHER = {"en": "de", "de": "en"}
COLUMNS = ("number", "language", "register", "sentence", "A", "B", "better")
CHOICES = ("A", "B", "=")


class Sentence(NamedTuple):
    language: str
    register: str
    text: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("sheet", "score"))
    parser.add_argument("--model", action="append", default=[], metavar="NAME=MODEL", help="that translates now")
    parser.add_argument(
        "--output", action="append", default=[], metavar="NAME=FILE", help="translations that are there"
    )
    parser.add_argument("--out", required=True, help="the sheet, without .tsv")
    parser.add_argument("--sentences", type=Path, default=SENTENCES)
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    given = parser.parse_args()
    if given.step == "score":
        for line in score(Path(f"{given.out}.tsv"), Path(f"{given.out}.key.json")):
            print(line)
        return
    sentences = read_sentences(given.sentences)
    outputs = {name: read_output(Path(file), len(sentences)) for name, file in map(split_name, given.output)}
    outputs |= {name: translate(model, sentences) for name, model in map(split_name, given.model)}
    if len(outputs) != 2:
        parser.error(f"two models are compared, and these are {len(outputs)}: give --model or --output twice")
    print(write_sheet(given.out, sentences, outputs, given.seed))


def split_name(given: str) -> tuple[str, str]:
    name, _, value = given.partition("=")
    if not name or not value:
        sys.exit(f"{given!r} must be NAME=VALUE")
    return name, value


def read_sentences(path: Path) -> list[Sentence]:
    return [Sentence(*line.split("\t")) for line in path.read_text(encoding="utf-8").splitlines()]


def read_output(path: Path, count: int) -> list[str]:
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    if len(lines) != count:
        sys.exit(f"{path} has {len(lines)} lines for {count} sentences")
    return lines


def translate(model: str, sentences: Sequence[Sentence]) -> list[str]:
    from headway import load_translator

    translated: dict[Sentence, str] = {}
    for language, other in OTHER.items():
        own = [one for one in sentences if one.language == language]
        if own:
            translator = load_translator(model, source=language, target=other)
            outputs = translator([one.text for one in own], source=language, target=other)
            translated |= dict(zip(own, outputs))
    return [translated[one] for one in sentences]


def write_sheet(out: str, sentences: Sequence[Sentence], outputs: dict[str, list[str]], seed: int) -> str:
    """Returns what to tell."""
    chance = random.Random(seed)
    names = list(outputs)
    rows: list[list[Any]] = []
    key: dict[str, Any] = {"models": names, "equal": 0, "A": {}}
    for number, sentence in enumerate(sentences, 1):
        first, second = (outputs[name][number - 1].strip() for name in names)
        if first == second:
            key["equal"] += 1
            continue
        order = chance.sample([(names[0], first), (names[1], second)], 2)
        key["A"][str(number)] = order[0][0]
        rows.append([number, *sentence, order[0][1], order[1][1], ""])
    chance.shuffle(rows)
    with open(f"{out}.tsv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="\t", lineterminator="\n").writerows([COLUMNS, *rows])
    Path(f"{out}.key.json").write_text(json.dumps(key, indent=1) + "\n", encoding="utf-8")
    return f"{out}.tsv: {len(rows)} sentences to rate; {key['equal']} are translated alike"


def score(sheet: Path, key_file: Path) -> list[str]:
    """What the ratings say, line by line."""
    key = json.loads(key_file.read_text(encoding="utf-8"))
    one, other = key["models"]
    wins: dict[str, Counter[str]] = defaultdict(Counter)
    open_rows = 0
    with sheet.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            choice = (row["better"] or "").strip().upper()
            if not choice:
                open_rows += 1
                continue
            if choice not in CHOICES:
                sys.exit(f'{sheet}: sentence {row["number"]} is rated "{choice}": write A, B or =')
            first = key["A"][row["number"]]
            winner = "=" if choice == "=" else first if choice == "A" else other if first == one else one
            for group in ("all", f"from {row['language']}", row["register"]):
                wins[group][winner] += 1
    lines = [f"group\t{one}\t{other}\tequal\tby chance"]
    for group, counts in wins.items():
        chance = sign_test(counts[one], counts[other])
        lines.append(f"{group}\t{counts[one]}\t{counts[other]}\t{counts['=']}\t{chance:.3f}")
    lines.append(f"translated alike: {key['equal']}; not rated: {open_rows}")
    return lines


def sign_test(wins: int, losses: int) -> float:
    """The probability of a difference as large or larger, either way, if both were equally good."""
    total = wins + losses
    tail = sum(math.comb(total, n) for n in range(max(wins, losses), total + 1))
    return float(min(2 * tail / 2**total, 1.0))


if __name__ == "__main__":
    main()
