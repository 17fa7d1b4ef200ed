"""Step 5: one table of all models on all test texts, both directions.

    python recipes/en-de/measure.py --data DIR --work WORK --out table.md \\
        teacher=WORK/teacher student=WORK/student "student, int8=WORK/student-int8@cpu" control=WORK/control

BLEU is sacreBLEU's, cased, 13a; beside it chrF; beam 4. A model is NAME=FOLDER or NAME=FOLDER@DEVICE; a model of one
direction is measured in that one only. Results are stored in WORK/scores.json and not measured again, except with
--anew. --first 1000 takes the first thousand lines of each text. Also counted, on 10,000 lines of newstest2008 to 2012:

- loops: outputs that repeat one to eight words three times in a row or more, and more often than the source
  (headway.text.degenerate.is_stuttering);
- numbers: sources with a number that the output lacks (headway.text.numbers.find_missing_numbers), of all with one.
  True translations write some numbers differently: their rate is in the last row.
"""

import argparse
import json
import sys
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recipe import TARGETS, rows

if TYPE_CHECKING:
    from headway.decode.types import Compute
    from headway.translate.translator import Translator

TESTS = ("newstest2013", "newstest2015", "europarl.test", "tatoeba.valid", "multi30k")
FAULT_TESTS = ("newstest2008", "newstest2009", "newstest2010", "newstest2011", "newstest2012")
FAULT_LINES = 10_000  # lines
Pairs = list[tuple[str, str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="NAME=FOLDER[@DEVICE]")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, help="a Markdown file; default: standard output")
    parser.add_argument("--tests", default=",".join(TESTS), help="of these, or NAME.en-de.tsv in WORK/held")
    parser.add_argument("--first", type=int, help="lines of each text")
    parser.add_argument("--faults", type=int, default=FAULT_LINES, help="lines to count loops and numbers on; 0: none")
    parser.add_argument("--compute", default="auto", help="bfloat16 for a GPU; models with @DEVICE: auto")
    parser.add_argument("--scores", type=Path, action="append", default=[], help="a scores.json from elsewhere")
    parser.add_argument("--anew", action="store_true", help="measure again")
    given = parser.parse_args()
    store = ScoreStore(given.work / "scores.json", given.anew)
    for path in given.scores:
        store.take(json.loads(path.read_text(encoding="utf-8")))
    names = [measure(spec, given, store) for spec in given.models]
    parts = [*(score_table(names, given, store, to) for to in TARGETS), fault_table(names, given, store)]
    page = "\n\n".join(part for part in parts if part) + "\n"
    if given.out:
        given.out.write_text(page, encoding="utf-8")
    print(page)


class ScoreStore:
    """Scores by model, text, direction and number of lines, in a JSON file."""

    def __init__(self, path: Path, anew: bool) -> None:
        self.path = path
        self.found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        self.old = set(self.found) if anew else set()  # what counts for nothing, but is kept until it is measured again

    def knows(self, key: str) -> bool:
        return key in self.found and key not in self.old

    def take(self, elsewhere: dict[str, Any]) -> None:
        """Scores from elsewhere, where there are none here."""
        self.found |= {key: value for key, value in elsewhere.items() if not self.knows(key)}
        self.old -= elsewhere.keys()

    def add(self, key: str, value: dict[str, Any]) -> None:
        self.found[key] = value
        self.old.discard(key)
        self.path.write_text(json.dumps(self.found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{key}: {value}", file=sys.stderr, flush=True)


def measure(spec: str, given: argparse.Namespace, store: ScoreStore) -> str:
    """Measure what is missing for one model; its name."""
    from headway.translate.options import TranslateOptions
    from headway.translate.translator import load_translator
    from headway.workflows.evaluation import evaluate

    name, _, location = spec.partition("=")
    folder, _, device = location.partition("@")
    translator: Translator | None = None
    for to in TARGETS:
        for test in [*given.tests.split(","), *["faults"] * bool(given.faults)]:
            key = key_of(name, test, to, given)
            if store.knows(key):
                continue
            if translator is None:
                compute: Compute = "auto" if device else given.compute
                translator = load_translator(folder, device=device or "auto", engine="torch", compute=compute)
            if to not in translator.summary.target_languages:
                continue
            pairs = read_pairs(test, to, given)
            source, target = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            if test == "faults":
                store.add(key, count_faults(translator, source, to))
                continue
            options = TranslateOptions(search=translator.search(beam_size=4), target=target_tag(translator, to))
            found = evaluate(translator, source, target, options)
            scores = found.scores
            store.add(key, {"bleu": scores.bleu, "chrf": scores.chrf, "lines": len(pairs), "seconds": found.seconds,
                           "signature": scores.bleu_signature})  # fmt: skip
    return name


def target_tag(translator: "Translator", to: str) -> str:
    return to if translator.summary.tags else ""


def key_of(name: str, test: str, to: str, given: argparse.Namespace) -> str:
    lines = given.faults if test == "faults" else given.first or "all"
    return f"{name} | {test} | {to} | {lines}"


def read_pairs(test: str, to: str, given: argparse.Namespace) -> Pairs:
    """Source and target, in the given direction."""
    if test == "multi30k":
        sides = [(given.data.parent / test / f"test_2016_flickr.{side}") for side in ("en", "de")]
        texts = [path.read_text(encoding="utf-8").split("\n")[:-1] for path in sides]
        pairs = list(zip(*texts, strict=True))
    elif test == "faults":
        share = -(-given.faults // len(FAULT_TESTS))
        pairs = [(a, b) for year in FAULT_TESTS for a, b in islice(rows(given.data / f"{year}.tsv.xz"), share)][
            : given.faults
        ]
    else:
        held = given.work / "held" / f"{test}.en-de.tsv"
        pairs = [(a, b) for a, b in rows(given.data / f"{test}.tsv.xz" if test in TESTS else held)]
    pairs = pairs if test == "faults" else pairs[: given.first]
    return pairs if to == "de" else [(b, a) for a, b in pairs]


def count_faults(translator: "Translator", source: list[str], to: str) -> dict[str, Any]:
    from headway.translate.options import TranslateOptions

    began = time.monotonic()
    search = translator.search(beam_size=4)
    found = translator.translate(source, TranslateOptions(search=search, target=target_tag(translator, to)))
    return {**fault_rates(source, [one.text for one in found]), "seconds": time.monotonic() - began}


def fault_rates(source: list[str], output: list[str]) -> dict[str, Any]:
    """Loops among all lines, and lines with a missing number among those with a number, with how many these are."""
    from headway.text.degenerate import is_stuttering
    from headway.text.numbers import find_missing_numbers, find_numbers

    having = [(a, b) for a, b in zip(source, output) if find_numbers(a)]
    return {
        "lines": len(source),
        "loops": sum(is_stuttering(a, b) for a, b in zip(source, output)),
        "with_numbers": len(having),
        "missing": sum(bool(find_missing_numbers(a, b)) for a, b in having),
    }


def score_table(names: list[str], given: argparse.Namespace, store: ScoreStore, to: str) -> str:
    tests = given.tests.split(",")
    lines = [f"| {TARGETS[to].replace('-', '→')} | {' | '.join(tests)} |", "|---" * (len(tests) + 1) + "|"]
    for name in names:
        cells = [store.found.get(key_of(name, test, to, given)) for test in tests]
        if any(cells):
            told = [f"{cell['bleu']:.1f} / {cell['chrf']:.1f}" if cell else "" for cell in cells]
            lines.append(f"| {name} | {' | '.join(told)} |")
    signatures = {cell["signature"] for key, cell in store.found.items() if "signature" in cell}
    much = f"the first {given.first:,} lines of each text" if given.first else "all lines"
    return "\n".join(lines) + f"\n\nBLEU / chrF, beam 4, {much}. {'; '.join(f'`{one}`' for one in sorted(signatures))}"


def fault_table(names: list[str], given: argparse.Namespace, store: ScoreStore) -> str:
    if not given.faults:
        return ""
    lines = ["| | loops, en→de | numbers lost | loops, de→en | numbers lost |", "|---|---|---|---|---|"]
    for name in names:
        cells = [store.found.get(key_of(name, "faults", to, given)) for to in TARGETS]
        if any(cells):
            lines.append(f"| {name} | {' | '.join(format_shares(cell) for cell in cells)} |")
    true = [fault_rates(*map(list, zip(*read_pairs("faults", to, given)))) for to in TARGETS]
    lines.append(f"| the true translations | {' | '.join(format_shares(cell) for cell in true)} |")
    return (
        "\n".join(lines)
        + f"\n\nOf {true[0]['lines']:,} lines, of which {true[0]['with_numbers']:,} and "
        + (f"{true[1]['with_numbers']:,} have numbers.")
    )


def format_shares(cell: dict[str, Any] | None) -> str:
    if cell is None:
        return " | "
    return f"{cell['loops'] / cell['lines']:.2%} | {cell['missing'] / max(cell['with_numbers'], 1):.2%}"


if __name__ == "__main__":
    main()
