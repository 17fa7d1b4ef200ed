"""What int8 costs in quality: BLEU of both engines in float32 and int8, and the share of identical lines.

    python benchmarks/int8_bleu.py --model DIR --source test.en --target test.de [--results FILE]
    python benchmarks/int8_bleu.py --model DIR --source test.en --target test.de --lines 100 --only 'torch int8'

With the model's own search settings, as in `headway translate`. "same": lines identical to those of torch in float32;
"loss": BLEU of torch in float32 minus that of the row, at most 0.2 for int8.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from report import Table, append_section, versions, wrap_text

if TYPE_CHECKING:
    from headway import Translator
    from headway.decode.types import Compute, EngineName

MAX_BLEU_LOSS = 0.2  # of int8
BASELINE = "torch float32"
ENGINES: "dict[str, tuple[EngineName, Compute]]" = {
    BASELINE: ("torch", "float32"),
    "torch int8": ("torch", "int8"),
    "native int8": ("native", "int8"),
    "ctranslate2 float32": ("ctranslate2", "float32"),
    "ctranslate2 int8": ("ctranslate2", "int8"),
}
COLUMNS = ["BLEU", "loss", "same", "chrF"]


def load_engine(folder: Path, name: str) -> "Translator":
    import headway

    engine, compute = ENGINES[name]
    model = headway.load(folder, device="cpu", engine=engine, compute=compute)
    if not isinstance(model, headway.Translator):
        raise SystemExit(f"{folder} does not translate")
    return model


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a trained model directory")
    parser.add_argument("--source", type=Path, required=True, help="sentences to translate, one per line")
    parser.add_argument("--target", type=Path, required=True, help="their translations")
    parser.add_argument("--lines", type=int, help="only the first ones")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--only", help=f"of {', '.join(ENGINES)}; comma-separated. {BASELINE} always runs")
    parser.add_argument("--results", type=Path, help="a Markdown file to append to")
    given = parser.parse_args()
    names = [BASELINE, *(name for name in (given.only or ",".join(ENGINES)).split(",") if name != BASELINE)]
    if unknown := [name for name in names if name not in ENGINES]:
        parser.error(f"there is no {unknown[0]}: one of {', '.join(ENGINES)}")
    sides = [path.read_text(encoding="utf-8").splitlines()[: given.lines] for path in (given.source, given.target)]
    if len(sides[0]) != len(sides[1]):
        parser.error(f"{len(sides[0])} lines and {len(sides[1])} translations")
    models = {name: load_engine(given.model, name) for name in names}
    tables, max_loss = [], 0.0
    for beam in given.beams:
        table, loss = compare_engines(models, beam, *sides)
        tables.append(table)
        max_loss = max(max_loss, loss)
    facts = f"{versions()}. Lines: {len(sides[0]):,}. {signature()}"
    print(wrap_text(facts), *(table.format_text() for table in tables), sep="\n")
    if given.results:
        append_section(given.results, "What int8 costs", facts, tables)
    return 1 if max_loss > MAX_BLEU_LOSS else 0


def compare_engines(
    models: "dict[str, Translator]", beam: int, sources: list[str], targets: list[str]
) -> tuple[Table, float]:
    """The table of one beam size, and the largest BLEU loss of an int8 engine."""
    from sacrebleu import corpus_bleu, corpus_chrf

    from headway.translate.options import TranslateOptions

    table, max_loss = Table(f"beam {beam}", COLUMNS), 0.0
    baseline_texts, baseline_bleu = list[str](), 0.0
    for name, model in models.items():
        options = TranslateOptions(search=model.search(beam_size=beam))
        texts = [one.text for one in model.translate(sources, options)]
        bleu, chrf = corpus_bleu(texts, [targets]).score, corpus_chrf(texts, [targets]).score
        if name == BASELINE:
            baseline_texts, baseline_bleu = texts, bleu
        same = sum(a == b for a, b in zip(texts, baseline_texts)) / len(texts)
        table.add(name, [f"{bleu:.2f}", f"{baseline_bleu - bleu:+.2f}", f"{same:.1%}", f"{chrf:.2f}"])
        max_loss = max(max_loss, baseline_bleu - bleu if name.endswith("int8") else 0.0)
    return table, max_loss


def signature() -> str:
    from sacrebleu.metrics.bleu import BLEU

    measure = BLEU()
    measure.corpus_score(["a b c d"], [["a b c d"]])  # it knows how many references there are only then
    return str(measure.get_signature())


if __name__ == "__main__":
    sys.exit(main())
