"""Chinese and English, from corpora to a model that can be installed. Each step starts from the files of the last one:

    python recipes/zh-en/zh_en.py prepare --data DATA --work WORK      # clean, simplify, hold out
    python recipes/zh-en/zh_en.py train --work WORK --for 2h           # one model, both directions
    python recipes/zh-en/zh_en.py measure --data DATA --work WORK      # BLEU and chrF of news and of what was held out
    python recipes/zh-en/zh_en.py ship --work WORK --out zh-en         # int8, calibrated, with a card

--corpora FILE uses another list than corpora.toml, such as one with your own text. What follows -- in `train` is passed
to `headway train`: -- --set train.batch_tokens=8192. A step that ended early goes on when it is called again."""

import argparse
import json
import lzma
import shlex
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))  # Headway is found where it was not installed
TESTS = ("newstest2017", "newstest2018", "ntrex128")  # news: for measuring only
MIN_CALIBRATION_LINES = 100
DIRECTIONS = (("en", "zh"), ("zh", "en"))


@dataclass(frozen=True, kw_only=True)
class Corpus:
    name: str
    files: list[str]
    weight: float
    keep: tuple[str, ...] = ()
    held_out: int = 0


def main() -> None:
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=STEPS)
    parser.add_argument("--data", type=Path, help="folder of the corpora, *.tsv.xz")
    parser.add_argument("--work", type=Path, required=True, help="folder for all that is made")
    parser.add_argument("--corpora", type=Path, default=HERE / "corpora.toml")
    parser.add_argument("--config", type=Path, default=HERE / "model.toml")
    parser.add_argument("--lines", type=int, help="at most so many of each file, to try it")
    parser.add_argument("--for", dest="time", default="2h", help="of the training")
    parser.add_argument("--out", type=Path, help="of `ship`: the model directory")
    given = parser.parse_args(sys.argv[1:end])
    missing = "data" if given.step in ("prepare", "measure") else "out" if given.step == "ship" else ""
    if missing and getattr(given, missing) is None:
        parser.error(f"{given.step} needs --{missing}")
    STEPS[given.step](given, sys.argv[end + 1 :])


def prepare(given: argparse.Namespace, more: list[str]) -> None:
    """WORK/clean/NAME.en-zh.tsv and WORK/held/NAME.en-zh.tsv, in simplified characters."""
    for folder in ("raw", "clean", "held"):
        (given.work / folder).mkdir(parents=True, exist_ok=True)
    for corpus in read_corpora(given.corpora):
        out = given.work / "clean" / f"{corpus.name}.en-zh.tsv"
        if out.exists():
            print(f"{corpus.name} is there", file=sys.stderr)
            continue
        words: list[object] = []
        for name in corpus.files:
            raw = given.work / "raw" / f"{name}.en-zh.tsv"
            write(raw, simplify(read_rows(given.data / f"{name}.tsv.xz", given.lines)))
            words += ["--pairs", raw]
        words += [word for name in TESTS for word in ("--test-pairs", given.data / f"{name}.tsv.xz")]
        words += [word for name in corpus.keep for word in ("--keep", name)]
        cleaned = given.work / "raw" / f"{corpus.name}.clean.en-zh.tsv"
        headway("check", *words, "--from", "en", "--to", "zh", "--examples", 1, "--clean", cleaned)
        hold_out(corpus, cleaned, out, given.work / "held" / out.name)


def simplify(rows: Iterator[list[str]]) -> Iterator[str]:
    """Traditional text in simplified characters: the model writes these alone, and reads both."""
    from headway.text.chinese_script import to_simplified

    for english, chinese, *_ in rows:
        yield f"{english}\t{to_simplified(chinese)}\n"


def hold_out(corpus: Corpus, cleaned: Path, out: Path, held: Path) -> None:
    """Random lines to validate on, the rest to learn from."""
    with cleaned.open(encoding="utf-8", newline="\n") as file:
        lines = list(file)
    chosen = set(Random(1).sample(range(len(lines)), min(corpus.held_out, len(lines) // 2)))
    if chosen:
        write(held, (line for number, line in enumerate(lines) if number in chosen))
    write(out, (line for number, line in enumerate(lines) if number not in chosen))


def train(given: argparse.Namespace, more: list[str]) -> None:
    """WORK/model: both directions at once, each corpus by its weight."""
    words: list[object] = []
    for corpus in read_corpora(given.corpora):
        words += ["--pairs", given.work / "clean" / f"{corpus.name}.en-zh.tsv", "--weight", corpus.weight]
    for held in sorted((given.work / "held").glob("*.en-zh.tsv")):
        words += ["--valid-pairs", held]
    words += ["--both-ways", "--noise", 0.1, "--config", given.config, "--for", given.time]
    headway("train", *words, "--out", given.work / "model", *more)


def measure(given: argparse.Namespace, more: list[str]) -> None:
    """WORK/scores.json: BLEU and chrF, by text and direction."""
    scores: dict[str, Any] = {}
    texts = {name: given.data / f"{name}.tsv.xz" for name in TESTS}
    texts |= {held.name.removesuffix(".en-zh.tsv"): held for held in sorted((given.work / "held").glob("*.tsv"))}
    for name, path in texts.items():
        pairs = given.work / "raw" / f"{name}.test.en-zh.tsv"
        write(pairs, (f"{english}\t{chinese}\n" for english, chinese, *_ in read_rows(path, given.lines)))
        for source, target in DIRECTIONS:
            scores[f"{name} {source}-{target}"] = evaluate(given.work / "model", pairs, source, target)
            print(f"{name} {source}-{target}: {scores[f'{name} {source}-{target}']}", file=sys.stderr)
    (given.work / "scores.json").write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")


def evaluate(model: Path, pairs: Path, source: str, target: str) -> dict[str, float]:
    """By the tokenizer of BLEU that the target language needs."""
    from headway import TranslateOptions, load_translator
    from headway.text.bleu_tokenization import choose_tokenization
    from headway.text.metric_scores import MetricSettings, compute_metric

    translator = load_translator(model, source=source, target=target)
    rows = list(read_rows(pairs, None))
    sides = {"en": [row[0] for row in rows], "zh": [row[1] for row in rows]}
    outputs = [one.text for one in translator.translate(sides[source], TranslateOptions(source=source, target=target))]
    settings = MetricSettings(tokenize=choose_tokenization(target))
    scores = (compute_metric(name, outputs, sides[target], settings=settings) for name in ("bleu", "chrf"))
    return {one.metric: round(one.score, 2) for one in scores}


def ship(given: argparse.Namespace, more: list[str]) -> None:
    """A model directory for `headway models add`: in eight bits, with a calibration for each direction, and a card."""
    headway("pack", "--model", given.work / "model", "--out", given.out, "--int8", "--overwrite")
    held = [row for path in sorted((given.work / "held").glob("*.en-zh.tsv")) for row in read_rows(path, None)]
    for column, language in enumerate(("en", "zh")):
        write(given.work / f"held.{language}", (f"{row[column]}\n" for row in held))
    if len(held) < MIN_CALIBRATION_LINES:
        print(f"not calibrated: {len(held)} pairs are held out, which are too few", file=sys.stderr)
    for source, target in DIRECTIONS if len(held) >= MIN_CALIBRATION_LINES else ():
        sides = ["--source", given.work / f"held.{source}", "--target", given.work / f"held.{target}"]
        headway("calibrate", "--model", given.out, "--from", source, "--to", target, *sides)
    file = given.work / "scores.json"
    scores = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    lines = [f"| {name} | {one['bleu']} | {one['chrf']} |" for name, one in scores.items()]
    corpora = [f"- {', '.join(one.files)}: weight {one.weight:g}" for one in read_corpora(given.corpora)]
    card = (HERE / "card.md").read_text(encoding="utf-8")
    card = card.replace("{scores}", "\n".join(lines)).replace("{corpora}", "\n".join(corpora))
    (given.out / "README.md").write_text(card, encoding="utf-8")


STEPS: dict[str, Callable[[argparse.Namespace, list[str]], None]] = {
    "prepare": prepare, "train": train, "measure": measure, "ship": ship,
}  # fmt: skip


def read_corpora(path: Path) -> list[Corpus]:
    return [Corpus(name=name, **table) for name, table in tomllib.loads(path.read_text(encoding="utf-8")).items()]


def read_rows(path: Path, most: int | None) -> Iterator[list[str]]:
    """The cells of a table, plain or compressed."""
    with (
        lzma.open(path, "rt", encoding="utf-8", newline="\n")
        if path.suffix == ".xz"
        else path.open(encoding="utf-8", newline="\n") as file
    ):
        for number, line in enumerate(file):
            if most is not None and number == most:
                return
            yield line.rstrip("\n").split("\t")


def write(path: Path, lines: Iterator[str]) -> None:
    """Atomically: a file that is there is complete."""
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(lines)
    partial.replace(path)


def headway(*words: Any) -> None:
    """Run `headway ...` in this process, and exit if it fails."""
    from headway.cli import main

    told = [str(word) for word in words]
    print(f"$ headway {shlex.join(told)}", file=sys.stderr, flush=True)
    if code := main(told):
        sys.exit(code)


if __name__ == "__main__":
    main()
