"""What pre-training on monolingual text brings a translator of little text: BLEU on Multi30k with and without it.

    python benchmarks/pretraining.py --data ../shared/data --work WORK                    # a GPU: minutes
    python benchmarks/pretraining.py --data ../shared/data --work WORK --edition cpu      # two cores: about an hour

Every model has the same architecture and the same vocabulary, which is learned from the monolingual text: both sides of
Tatoeba, line by line, so that no pair is seen. Those with pre-training begin with weights that have learned to remove
noise from that text (`--objective`), all others with random ones; then both take the same number of steps on the same
pairs, each at a learning rate of its own. The best checkpoint on the validation text counts. Runs that are done are not
repeated, and WORK/results.json has the BLEU of each."""

import argparse
import json
import lzma
import statistics
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import headway
from headway import Search, TranslateOptions, load_translator
from headway.files.text_files import read_lines
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.workflows.evaluation import evaluate

SENTINELS = 16  # lines of Tatoeba are short
OBJECTIVES = ("none", "span_corruption", "denoising")


class Edition(NamedTuple):
    """How large models and runs are."""

    settings: dict[str, Any]  # of all models
    sizes: tuple[int, ...]  # pairs to translate with
    seeds: tuple[int, ...]
    pretraining: dict[str, Any]
    scratch: dict[str, Any]
    fine_tuning: dict[str, Any]
    steps: dict[int, int]  # by the number of pairs
    pretraining_steps: int
    preset: str
    vocabulary: int


EDITIONS = {
    "gpu": Edition(
        {"train.log_every": 500, "train.average": 1, "train.decode_lines": 0},
        (2_000, 10_000, 29_000),
        (1, 2, 3),
        {"train.batch_tokens": 16_384, "train.schedule": "cosine(0.002, warmup=500)", "train.validate_every": 2000},
        {"train.batch_tokens": 8192, "train.schedule": "cosine(0.003, warmup=300)", "train.validate_every": 150},
        {"train.batch_tokens": 8192, "train.schedule": "cosine(0.001, warmup=100)", "train.validate_every": 150},
        {2_000: 900, 10_000: 1500, 29_000: 3000},
        10_000,
        "small",
        8000,
    ),
    "cpu": Edition(
        {"train.log_every": 100, "train.average": 1, "train.decode_lines": 0},
        (2_000, 10_000),
        (1, 2, 3),
        {"train.batch_tokens": 1536, "train.schedule": "cosine(0.004, warmup=200)", "train.validate_every": 600},
        {"train.batch_tokens": 1024, "train.schedule": "cosine(0.005, warmup=200)", "train.validate_every": 100},
        {"train.batch_tokens": 1024, "train.schedule": "cosine(0.002, warmup=50)", "train.validate_every": 100},
        {2_000: 800, 10_000: 1200},
        1200,
        "tiny",
        4000,
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--edition", choices=EDITIONS, default="gpu")
    parser.add_argument("--objective", choices=OBJECTIVES, nargs="+", default=list(OBJECTIVES))
    parser.add_argument("--pairs", type=int, nargs="+", help="of Multi30k; default: by edition")
    parser.add_argument("--seeds", type=int, nargs="+", help="default: 1 2 3")
    given = parser.parse_args()
    edition = EDITIONS[given.edition]
    given.work.mkdir(parents=True, exist_ok=True)
    text = write_monolingual_text(given.data, given.work)
    tokenizer = learn_vocabulary(text, edition, given.work)
    bases = {name: pretrain(name, text, tokenizer, edition, given.work) for name in given.objective if name != "none"}
    for seed in given.seeds or edition.seeds:
        for size in given.pairs or edition.sizes:
            for objective in given.objective:
                base = bases.get(objective)
                translate(objective, base, tokenizer, size, seed, edition, given.data, given.work)
    print(format_results(given.work))


def write_monolingual_text(data: Path, work: Path) -> Path:
    """All English lines of Tatoeba, then all German ones. The last 1,000 lines are to validate on."""
    path = work / "tatoeba.txt"
    if not path.exists():
        with lzma.open(data / "en-de/tatoeba.tsv.xz", "rt", encoding="utf-8", newline="\n") as file:
            pairs = [line.rstrip("\n").split("\t")[:2] for line in file]
        path.write_text("".join(f"{pair[side]}\n" for side in (0, 1) for pair in pairs), encoding="utf-8")
    return path


def learn_vocabulary(text: Path, edition: Edition, work: Path) -> Path:
    path = work / "tokenizer.json"
    if not path.exists():
        lines = text.read_text(encoding="utf-8").split("\n")
        tokenizer = Tokenizer.train(lines, f"bpe({edition.vocabulary})", sentinels=SENTINELS)
        Tokenizers(tokenizer, tokenizer).save(path)
    return path


def pretrain(objective: str, text: Path, tokenizer: Path, edition: Edition, work: Path) -> Path:
    out = work / f"base-{objective}"
    if not (out / "done").exists():
        headway.train(
            text,
            out,
            preset=edition.preset,
            objective=objective,  # type: ignore[arg-type]
            steps=edition.pretraining_steps,
            tokenizer=tokenizer,
            set={**edition.settings, **edition.pretraining},
        )
        (out / "done").touch()
    return out


def translate(
    objective: str, base: Path | None, tokenizer: Path, size: int, seed: int, edition: Edition, data: Path, work: Path
) -> None:
    results = read_results(work)
    name = f"{objective}-{size}-{seed}"
    if name in results:
        return
    pairs = list(islice(zip(*(read_side(data, "train", side) for side in ("en", "de"))), size))
    valid = list(zip(*(read_side(data, "val", side) for side in ("en", "de"))))
    chosen: dict[str, Any] = {"from_model": base} if base else {"preset": edition.preset, "tokenizer": tokenizer}
    headway.train(
        pairs,
        work / name,
        valid=valid,
        languages=("en", "de"),
        steps=edition.steps[size],
        seed=seed,
        set={**edition.settings, **(edition.fine_tuning if base else edition.scratch)},
        **chosen,
    )
    translator = load_translator(work / name)
    sides = [read_side(data, "test_2016_flickr", side) for side in ("en", "de")]
    options = TranslateOptions(search=Search(beam_size=5, alpha=1.0), split_sentences=False)
    found = evaluate(translator, sides[0], sides[1], options)
    results = read_results(work) | {name: round(found.scores.bleu, 2)}
    (work / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(f"{name}: BLEU {found.scores.bleu:.2f}", flush=True)


def read_side(data: Path, name: str, side: str) -> list[str]:
    path = data / f"multi30k/{name}.{side}"
    return list(read_lines(str(path if path.exists() else path.with_name(f"{path.name}.xz"))))


def read_results(work: Path) -> dict[str, float]:
    path = work / "results.json"
    found: dict[str, float] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def format_results(work: Path) -> str:
    """A table: pairs, and the BLEU of each objective, mean and range over the seeds that ran."""
    runs: dict[tuple[int, str], list[float]] = {}
    for name, bleu in read_results(work).items():
        objective, pairs, _ = name.rsplit("-", 2)
        runs.setdefault((int(pairs), objective), []).append(bleu)
    lines = ["| pairs | pre-training | BLEU | seeds |", "|---|---|---|---|"]
    for (size, objective), scores in sorted(runs.items()):
        spread = f" ({min(scores):.2f} to {max(scores):.2f})" if len(scores) > 1 else ""
        lines.append(f"| {size:,} | {objective} | {statistics.mean(scores):.2f}{spread} | {len(scores)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
