"""What int8 costs: BLEU of both engines in float32 and int8, and how many lines stay the same.

    python benchmarks/int8_bleu.py --model DIR --source test.en --target test.de [--results FILE]
    python benchmarks/int8_bleu.py --model DIR --source test.en --target test.de --lines 100 --only 'torch int8'

The model's own search, as `headway translate` uses it. "same": lines as torch in float32 writes them; "loss": its BLEU
less that of the row, at most 0.2 wanted for int8."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from report import Table, append, fill, versions

if TYPE_CHECKING:
    from headway import Translator
    from headway.decode.types import Compute, EngineName

MOST = 0.2  # BLEU that int8 may cost
FIRST = "torch float32"
NAMES: "dict[str, tuple[EngineName, Compute]]" = {
    FIRST: ("torch", "float32"),
    "torch int8": ("torch", "int8"),
    "ctranslate2 float32": ("ctranslate2", "float32"),
    "ctranslate2 int8": ("ctranslate2", "int8"),
}
COLUMNS = ["BLEU", "loss", "same", "chrF"]


def loaded(folder: Path, name: str) -> "Translator":
    import headway

    engine, compute = NAMES[name]
    model = headway.load(folder, device="cpu", engine=engine, compute=compute)
    if not isinstance(model, headway.Translator):
        raise SystemExit(f"{folder} does not translate")
    return model


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a trained model directory")
    parser.add_argument("--source", type=Path, required=True, help="sentences to translate, one a line")
    parser.add_argument("--target", type=Path, required=True, help="their translations")
    parser.add_argument("--lines", type=int, help="only the first ones")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--only", help=f"of {', '.join(NAMES)}; with commas. {FIRST} always runs")
    parser.add_argument("--results", type=Path, help="a Markdown file to append to")
    given = parser.parse_args()
    names = [FIRST, *(name for name in (given.only or ",".join(NAMES)).split(",") if name != FIRST)]
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"there is no {unknown[0]}: one of {', '.join(NAMES)}")
    sides = [path.read_text(encoding="utf-8").splitlines()[: given.lines] for path in (given.source, given.target)]
    if len(sides[0]) != len(sides[1]):
        parser.error(f"{len(sides[0])} lines and {len(sides[1])} translations")
    models = {name: loaded(given.model, name) for name in names}
    tables, worst = [], 0.0
    for beam in given.beams:
        table, loss = compared(models, beam, *sides)
        tables.append(table)
        worst = max(worst, loss)
    facts = f"{versions()}. Lines: {len(sides[0]):,}. {signature()}"
    print(fill(facts), *(table.told() for table in tables), sep="\n")
    if given.results:
        append(given.results, "What int8 costs", facts, tables)
    return 1 if worst > MOST else 0


def compared(models: "dict[str, Translator]", beam: int, sources: list[str], targets: list[str]) -> tuple[Table, float]:
    """The table of one beam size, and the most that an int8 engine lost."""
    from sacrebleu import corpus_bleu, corpus_chrf

    from headway.translate.options import TranslateOptions

    table, lost = Table(f"beam {beam}", COLUMNS), 0.0
    right, best = list[str](), 0.0
    for name, model in models.items():
        options = TranslateOptions(search=model.search(beam_size=beam))
        texts = [one.text for one in model.translate(sources, options)]
        bleu, chrf = corpus_bleu(texts, [targets]).score, corpus_chrf(texts, [targets]).score
        if name == FIRST:
            right, best = texts, bleu
        same = sum(a == b for a, b in zip(texts, right)) / len(texts)
        table.add(name, [f"{bleu:.2f}", f"{best - bleu:+.2f}", f"{same:.1%}", f"{chrf:.2f}"])
        lost = max(lost, best - bleu if name.endswith("int8") else 0.0)
    return table, lost


def signature() -> str:
    from sacrebleu.metrics.bleu import BLEU

    measure = BLEU()
    measure.corpus_score(["a b c d"], [["a b c d"]])  # it knows how many references there are only then
    return str(measure.get_signature())


if __name__ == "__main__":
    sys.exit(main())
