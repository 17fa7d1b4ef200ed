"""Text in, text out, end to end: what `headway translate` does with a file, and how busy it keeps the GPU.

    python benchmarks/translate_gpu.py --pairs 'europarl.part*.tsv.xz' [--lines 100000] [--model DIR]
    python benchmarks/translate_gpu.py --pairs FILE --groups 512 4096 16384    # lines translated together
    python benchmarks/translate_gpu.py --smoke                                 # a tiny model on the CPU

Reads, splits, tokenises, searches and writes lines, as the command does; loading the model is not timed. Without
--model it has base size, random weights and a vocabulary trained on the text: its output is nonsense and hardly ever
ends by itself, so every output is as long as its source (max_ratio 1, max_extra 0), and no output is retried. Busy:
the time of all kernels divided by the elapsed time, in a second, profiled run over a tenth of the lines.
"""

import argparse
import io
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch
from report import Table, append_section, versions, wrap_text

from headway.cli.input_lines import fill_groups, number_groups
from headway.cli.pipelined import map_pipelined
from headway.cli.result_lines import format_result
from headway.config.config import Config, read_config
from headway.decode import Search
from headway.nn.transformer import Transformer
from headway.storage.model_dir import load_model, save_model
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.translate.options import TranslateOptions
from headway.translate.results import RoutedLine, Translation
from headway.translate.search import make_requests, translate_requests
from headway.translate.translator import Translator

SAMPLE = 100_000  # lines from which a vocabulary is learned


class Measured(NamedTuple):
    seconds: float
    lines: int
    tokens: int  # written, without ends


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", help="TSV files of sentence pairs, a glob pattern; their first column is translated")
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--model", type=Path, help="a model directory; default: random weights")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"], help="of weights and computation")
    parser.add_argument("--groups", nargs="+", type=int, default=[512, 4096, 16_384], help="lines translated together")
    parser.add_argument("--workers", type=int, default=2, help="groups processed at a time")
    parser.add_argument("--vocabulary", type=int, default=32_000)
    parser.add_argument("--smoke", action="store_true", help="a tiny model and synthetic text, on the CPU")
    parser.add_argument("--results", type=Path, help="a Markdown file to append to")
    given = parser.parse_args()
    if given.smoke:
        given.lines, given.vocabulary, given.dtypes, given.groups = min(given.lines, 60), 400, ["float32"], [16, 512]
    elif not torch.cuda.is_available():
        parser.error("no CUDA device: add --smoke")
    if not given.smoke and not given.pairs:
        parser.error("--pairs is needed")
    lines = list(islice(read_sources(given.pairs), given.lines))
    with tempfile.TemporaryDirectory() as folder:
        model = given.model or random_model(Path(folder) / "model", lines, given.vocabulary, given.smoke)
        report(given, model, lines)


def read_sources(pairs: str | None) -> Iterator[str]:
    import glob

    from headway.data.parallel_files import ParallelFiles, read_parallel
    from headway.data.toy import write_toy

    if pairs is None:
        with tempfile.TemporaryDirectory() as folder:
            write_toy(Path(folder) / "toy", 200)
            yield from (Path(folder) / "toy" / "train.en").read_text(encoding="utf-8").splitlines()
        return
    for path in sorted(glob.glob(pairs)):
        yield from (source for source, _ in read_parallel(ParallelFiles(path)))


def random_model(folder: Path, lines: Sequence[str], vocabulary: int, smoke: bool) -> Path:
    from headway.config.presets import find_preset

    torch.manual_seed(0)
    tokenizer = Tokenizer.train(lines[:SAMPLE], f"bpe({vocabulary})")
    table = find_preset("tiny" if smoke else "base")
    table["model"] = {**table["model"], "vocabulary": tokenizer.size}
    config: Config = read_config(table)
    save_model(folder, config, Transformer(config.model).state_dict(), Tokenizers(tokenizer, tokenizer), "")
    return folder


def report(given: argparse.Namespace, folder: Path, lines: Sequence[str]) -> None:
    device = torch.device("cpu" if given.smoke else "cuda")
    bound = {} if given.model else {"max_ratio": 1.0, "max_extra": 0}
    columns = ["lines/s", "tokens/s", "seconds", "busy"]
    table = Table(f"beam {given.beam}, {given.workers} groups at a time", columns)
    for dtype in given.dtypes:
        loaded = load_model(folder, device)
        translator = Translator([loaded._replace(model=loaded.model.to(getattr(torch, dtype)))])
        search = translator.search(beam_size=given.beam, **bound)
        for group in given.groups:
            part = lines[: max(len(lines) // 10, 1)]
            translate(translator, part, search, group, given)  # kernels are chosen and steps recorded
            found = translate(translator, lines, search, group, given)
            busy = f"{busy_share(translator, part, search, group, given):.0%}" if device.type == "cuda" else "?"
            speeds = [f"{found.lines / found.seconds:,.0f}", f"{found.tokens / found.seconds:,.0f}"]
            table.add(f"{dtype}, groups of {group:,}", [*speeds, f"{found.seconds:.1f}", busy])
    where = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    kind = given.model.name if given.model else "random weights, outputs as long as their sources"
    facts = f"{where}, {versions()}. {len(lines):,} lines; {kind}."
    print(wrap_text(facts), table.format_text(), sep="\n")
    if given.results:
        append_section(given.results, "Translating a file on a GPU", facts, [table])


def translate(
    translator: Translator, lines: Sequence[str], search: Search, group: int, given: argparse.Namespace
) -> Measured:
    """As the command does, into memory."""
    sink, tokens, number = io.StringIO(), 0, 0

    def found(numbered: tuple[int, list[str]]) -> list[Translation]:
        first, some = numbered
        options = TranslateOptions(search=search, retry=given.model is not None)
        return translate_requests(translator, make_requests(some, first), options)

    wait(translator)
    began = time.perf_counter()
    for results in map_pipelined(number_groups(fill_groups(lines, group)), found, given.workers):
        for result in results:
            sink.write(format_result(RoutedLine(result, translator), number, None, False, False, False))
            tokens += len(result.guesses[0].tokens)
            number += 1
    wait(translator)
    took = time.perf_counter() - began
    assert number == len(lines), f"{number} lines out for {len(lines)} in"
    return Measured(took, number, tokens)


def busy_share(
    translator: Translator, lines: Sequence[str], search: Search, group: int, given: argparse.Namespace
) -> float:
    """Kernels of one stream run one after another, so their times add up. Profiling costs a little elapsed time."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        took = translate(translator, lines, search, group, given).seconds
    computed = sum(float(event.self_device_time_total) for event in seen.key_averages())  # µs
    return computed / 1e6 / took


def wait(translator: Translator) -> None:
    if translator.stepper.device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
