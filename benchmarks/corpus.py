"""How fast a corpus is encoded to ids on disk, relative to the bare `tokenizers` library, and how fast batches are
read.

    python benchmarks/corpus.py --pairs 'europarl.part*.tsv.xz' [--work FOLDER]

Each part runs in its own process, so that its peak memory is its own. MB are millions of bytes of UTF-8 text, both
sides. The library is timed on lines that are already in memory, by its fastest call on all cores, alternating with
Headway, which also reads, decompresses, decodes and writes to disk.
"""

import argparse
import glob
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from headway.train.dataset import ParallelDataset

VOCABULARY = 16_000
SAMPLE_PAIRS = 200_000  # pairs, for the comparison
BATCH_TOKENS = 25_000  # tokens a batch and side


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", required=True, help="TSV files, a glob pattern")
    parser.add_argument("--work", type=Path, help="where ids are written; default: a temporary folder")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        print(json.dumps({**PARTS[options.part](sorted(glob.glob(options.pairs)), options.work), **peak_memory()}))
        return
    with tempfile.TemporaryDirectory() as folder:
        work = options.work or Path(folder)
        rows = {name: run(name, options.pairs, work) for name in PARTS}
    print_report(rows)


def run(part: str, pairs: str, work: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--pairs", pairs, "--work", str(work), "--part", part]
    environment = {
        **os.environ,
        "HEADWAY_CACHE": str(work / ("one" if part == "encode_one" else "cache")),
        "TOKENIZERS_PARALLELISM": "true",
    }
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    print(part, done.stdout.strip(), file=sys.stderr)
    return dict(json.loads(done.stdout))


def peak_memory() -> dict[str, float]:
    own, others = (resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {"peak_mb": round(own), "largest_worker_mb": round(others)}


def prepare(files: list[str], work: Path) -> dict[str, Any]:
    """A shared vocabulary."""
    from headway.data.parallel_files import ParallelFiles, read_parallel
    from headway.text.tokenizer.pair import Tokenizers
    from headway.text.tokenizer.tokenizer import Tokenizer

    pairs = list(islice(read_parallel(ParallelFiles(files[0])), SAMPLE_PAIRS))
    tokenizer = Tokenizer.train([side for pair in pairs for side in pair], f"bpe({VOCABULARY})")
    Tokenizers(tokenizer, tokenizer).save(work / "tokenizer.json")
    return {"vocabulary": tokenizer.size}


def compare(files: list[str], work: Path) -> dict[str, Any]:
    """The same pairs by the library alone and by Headway, alternating; medians."""
    import tokenizers

    from headway.data.encoding import EncodedSide, encode_to_folder
    from headway.data.parallel_files import ParallelFiles, read_parallel
    from headway.text.tokenizer.pair import Tokenizers

    library = tokenizers.Tokenizer.from_file(str(work / "tokenizer.json"))
    tokenizer = Tokenizers.load(work / "tokenizer.json").source
    pairs = list(islice(read_parallel(ParallelFiles(files[0])), SAMPLE_PAIRS))
    size = sum(len(side.encode()) for pair in pairs for side in pair) / 1e6
    sides = [EncodedSide("source", tokenizer, tail=[tokenizer.end]), EncodedSide("target", tokenizer)]
    rates: dict[str, list[float]] = {"bare": [], "bare_with_offsets": [], "headway": []}
    for _ in range(3):
        lines = [[pair[side] for pair in pairs] for side in (0, 1)]
        for name, encode in (("bare", library.encode_batch_fast), ("bare_with_offsets", library.encode_batch)):
            began = time.perf_counter()
            for side in lines:
                encode(side, add_special_tokens=False)
            rates[name].append(size / (time.perf_counter() - began))
        with tempfile.TemporaryDirectory(dir=work) as folder:
            began = time.perf_counter()
            encode_to_folder(Path(folder), islice(read_parallel(ParallelFiles(files[0])), SAMPLE_PAIRS), sides)
            rates["headway"].append(size / (time.perf_counter() - began))
    return {"mb": round(size, 1), **{name: round(float(np.median(found)), 2) for name, found in rates.items()}}


def encode(files: list[str], work: Path) -> dict[str, Any]:
    """Encode everything, with an empty cache and then with a filled one."""
    from headway.data.corpora import open_parallel
    from headway.data.parallel_files import ParallelFiles, read_parallel

    began = time.perf_counter()
    for file in files:
        open_parallel(ParallelFiles(file))
    counted = time.perf_counter() - began
    times = []
    for _ in range(2):
        began = time.perf_counter()
        corpus, counts = open_dataset(files, work)
        times.append(time.perf_counter() - began)
    size = sum(len(f"{a}{b}".encode()) for file in files for a, b in read_parallel(ParallelFiles(file))) / 1e6
    stored = sum(path.stat().st_size for path in (work / "cache").rglob("*.ids")) / 1e6
    return {
        "pairs": counts,
        "usable": corpus.size,
        "mb": round(size),
        "counted_seconds": round(counted, 1),
        "minutes": round((counted + times[0]) / 60, 2),
        "mb_per_second": round(size / times[0], 2),
        "again_seconds": round(times[1], 2),
        "stored_mb": round(stored),
    }


def encode_one(files: list[str], work: Path) -> dict[str, Any]:
    """Encode only the first file: a fifth of the text should take as much memory as all of it."""
    corpus, counts = open_dataset(files[:1], work)
    return {"pairs": counts, "usable": corpus.size}


def open_dataset(files: list[str], work: Path) -> "tuple[ParallelDataset, int]":
    from headway.data.corpora import open_parallel
    from headway.data.parallel_files import ParallelFiles
    from headway.text.tokenizer.pair import Tokenizers
    from headway.train.dataset import ParallelDataset

    texts = [open_parallel(ParallelFiles(file)) for file in files]
    corpus = ParallelDataset(texts, Tokenizers.load(work / "tokenizer.json"), (), 256)
    return corpus, sum(text.counts.lines for text in texts)


def batches(files: list[str], work: Path) -> dict[str, Any]:
    """One epoch, collated as for training, without training."""
    from headway.data.batches import make_padded_batches, measure_padding
    from headway.text.tokenizer.pair import Tokenizers
    from headway.text.tokenizer.special_tokens import special_tokens
    from headway.train.objectives import TranslationObjective

    corpus, _ = open_dataset(files, work)
    special = special_tokens(Tokenizers.load(work / "tokenizer.json").target)
    objective, random = TranslationObjective.Config(), np.random.default_rng(0)
    began, count, tokens, shares = time.perf_counter(), 0, 0, []
    for part, shard in enumerate(corpus.epoch(0)):
        examples, lengths = shard.examples, shard.lengths
        found = make_padded_batches(lengths, BATCH_TOKENS, [1, 0, part])
        for batch in found:
            tokens += objective.collate([examples[i] for i in batch], special, random).token_count
            count += 1
        shares.append(measure_padding(found, lengths))
    seconds = time.perf_counter() - began
    share = float(np.mean(shares))
    return {
        "batches": count,
        "batches_per_second": round(count / seconds, 1),
        "million_tokens_per_second": round(tokens / seconds / 1e6, 2),
        "padding_percent": round(100 * share, 2),
        **measure_memory(),
    }


def measure_memory() -> dict[str, int]:
    """Memory of the process itself, and of mapped files, which the system can reclaim."""
    lines = Path("/proc/self/status").read_text().splitlines()
    found = {line.split(":")[0]: int(line.split()[1]) // 1024 for line in lines if line.startswith("Rss")}
    return {"own_mb": found["RssAnon"], "mapped_mb": found["RssFile"]}


def print_report(rows: dict[str, dict[str, Any]]) -> None:
    c, e, b = rows["compare"], rows["encode"], rows["batches"]
    print("| what | value |\n|---|---|")
    print(f"| pairs, of which usable | {e['pairs']:,}, {e['usable']:,} |")
    print(f"| text on both sides, ids stored | {e['mb']} MB, {e['stored_mb']} MB |")
    print(f"| text to ids on disk, empty cache | {e['minutes']} min, of which {e['counted_seconds']} s to count |")
    print(f"| the second time | {e['again_seconds']} s |")
    print(f"| `encode_batch_fast` alone, all cores | {c['bare']} MB/s (`encode_batch` {c['bare_with_offsets']}) |")
    print(
        f"| Headway: read, decompress, encode, write | {e['mb_per_second']} MB/s "
        f"= {e['mb_per_second'] / c['bare']:.2f} of it |"
    )
    print(
        f"| the same pairs as the library, processes started | {c['headway']} MB/s = {c['headway'] / c['bare']:.2f} |"
    )
    print(f"| peak memory, main process and largest worker | {e['peak_mb']} and {e['largest_worker_mb']} MB |")
    print(f"| the same for the first file alone | {rows['encode_one']['peak_mb']} MB |")
    print(f"| batches of {BATCH_TOKENS:,} tokens a side, without training | {b['batches_per_second']}/s |")
    print(f"| that is | {b['million_tokens_per_second']} M tokens/s |")
    print(f"| padding | {b['padding_percent']} % |")
    print(f"| memory after an epoch: own, mapped files | {b['own_mb']} and {b['mapped_mb']} MB |")


PARTS = {
    "prepare": prepare,
    "compare": compare,
    "encode_one": encode_one,
    "encode": encode,
    "batches": batches,
}

if __name__ == "__main__":
    main()
