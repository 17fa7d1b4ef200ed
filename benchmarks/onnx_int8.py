"""An exported translator in onnxruntime beside our own int8 engine: speed, and what int8 costs in quality.

    python benchmarks/onnx_int8.py --model en-de --target-language de --source test.en --target test.de
        [--lines N] [--beams 1 4] [--threads 1] [--results FILE]

The model is exported first (`headway export --to onnx`, float32 and int8). Every row translates the same sentences in
batches of the same size, without splitting and retries; the graphs are searched by the reference search, in Python.
Rounds of all rows alternate, and the fastest of each counts. "same": lines identical to onnxruntime's in float32.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from report import Table, append_section, versions, wrap_text
from sacrebleu import corpus_bleu, corpus_chrf

import headway
from headway.config.search import Search
from headway.convert.export.formats import export_model
from headway.convert.export.onnx.sessions import OnnxStepper
from headway.convert.export.stored_model import open_model
from headway.decode.dispatch import decode
from headway.storage.registry import model_directory
from headway.text.tokenizer.special_tokens import special_tokens
from headway.translate.options import TranslateOptions

BATCH = 32
BASELINE, NATIVE = "onnxruntime float32", "native int8"
COLUMNS = ["sentences/s", "of native", "BLEU", "chrF", "same"]

Translate = Callable[[list[str], Search], list[str]]


def onnx_translator(folder: Path, suffix: str, language: str, threads: int, model: str) -> Translate:
    stepper = OnnxStepper(folder / "onnx", suffix, threads)
    tokenizers = open_model(model_directory(model)).tokenizers
    source, target = tokenizers.source, tokenizers.target
    before = [source.tags[language]] if language in source.tags else []

    def translate(lines: list[str], search: Search) -> list[str]:
        rows = [[*before, *ids, source.end] for ids in source.encode_batch(lines)]
        order = sorted(range(len(rows)), key=lambda n: -len(rows[n]))
        texts = [""] * len(rows)
        for first in range(0, len(rows), BATCH):
            chosen = order[first : first + BATCH]
            longest = len(rows[chosen[0]])
            ids = torch.tensor([rows[n] + [source.pad] * (longest - len(rows[n])) for n in chosen])
            valid = torch.arange(longest) < torch.tensor([len(rows[n]) for n in chosen])[:, None]
            found = decode(
                stepper, ids, valid, special_tokens=special_tokens(target), search=search, search_kind="reference"
            )
            for n, hypotheses in zip(chosen, found):
                texts[n] = target.decode(hypotheses[0].ids)
        return texts

    return translate


def native_translator(name: str, language: str, threads: int) -> Translate:
    model = headway.load(name, device="cpu", engine="native", compute="int8", threads=threads)
    assert isinstance(model, headway.Translator)

    def translate(lines: list[str], search: Search) -> list[str]:
        options = TranslateOptions(target=language, search=search, split_sentences=False, retry=False, protect=None)
        return [one.text for one in model.translate(lines, options)]

    return translate


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="en-de", help="a model directory or name")
    parser.add_argument("--target-language", default="de")
    parser.add_argument("--source", type=Path, required=True, help="sentences to translate, one per line")
    parser.add_argument("--target", type=Path, required=True, help="their translations")
    parser.add_argument("--lines", type=int, help="only the first ones")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", type=Path, help="a Markdown file to append to")
    given = parser.parse_args()
    sources, targets = (
        path.read_text(encoding="utf-8").splitlines()[: given.lines] for path in (given.source, given.target)
    )
    torch.set_num_threads(given.threads)
    stored = open_model(model_directory(given.model))
    with tempfile.TemporaryDirectory() as name:
        translators: dict[str, Translate] = {}
        for row, dtype, suffix in ((BASELINE, "float32", ""), ("onnxruntime int8", "int8", "_quantized")):
            folder = Path(name) / dtype
            export_model(stored, "onnx", folder, dtype)
            translators[row] = onnx_translator(folder, suffix, given.target_language, given.threads, given.model)
        translators[NATIVE] = native_translator(given.model, given.target_language, given.threads)
        tables = [measure(translators, beam, sources, targets, given.rounds) for beam in given.beams]
    facts = f"{versions()}. Lines: {len(sources):,}, {given.threads} thread(s), batches of {BATCH}."
    print(wrap_text(facts), *(table.format_text() for table in tables), sep="\n")
    if given.results:
        append_section(given.results, "Exported to ONNX", facts, tables)
    return 0


def measure(translators: dict[str, Translate], beam: int, sources: list[str], targets: list[str], rounds: int) -> Table:
    search = Search(beam_size=beam)
    seconds = dict.fromkeys(translators, float("inf"))
    texts: dict[str, list[str]] = {}
    for _ in range(rounds):
        for name, translate in translators.items():
            start = time.perf_counter()
            texts[name] = translate(sources, search)
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    table = Table(f"beam {beam}", COLUMNS)
    for name, found in texts.items():
        same = sum(a == b for a, b in zip(found, texts[BASELINE])) / len(found)
        table.add(
            name,
            [
                f"{len(sources) / seconds[name]:.1f}",
                f"{seconds[NATIVE] / seconds[name]:.2f}x",
                f"{corpus_bleu(found, [targets]).score:.2f}",
                f"{corpus_chrf(found, [targets]).score:.2f}",
                f"{same:.1%}",
            ],
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
