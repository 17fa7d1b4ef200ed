"""Tasks on real text: accuracy of classifiers that begin with random weights, and with the encoder of a translator.

    python benchmarks/tasks.py --data ../shared/data --work WORK --sentiment vaderSentiment-3.3.2.tar.gz

languages   English, German, French and Chinese sentences of Tatoeba
domains     English lines of the European Parliament, of manuals (manual pages, package descriptions) and of news
sentiment   10,605 snippets of film reviews, positive or negative by the mean of twenty people's ratings: a corpus that
            the source package of vaderSentiment holds (MIT licence):
            pip download --no-deps --no-binary :all: vaderSentiment==3.3.2

No text is in both training and test data. Intervals are 95 % bootstraps over the test texts. Runs that are done are not
repeated, and WORK/results.jsonl has the numbers of each."""

import argparse
import io
import itertools
import json
import lzma
import random
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import headway
from headway.data.labelled_files import read_labelled
from headway.translate.task_evaluation import evaluate_task
from headway.translate.task_model import TaskModel

TRAINING_TEXTS, TEST_TEXTS = 4000, 500  # of each label of languages and domains
SENTIMENT_TEST_TEXTS = 1500
CAREFUL = {"train.batch_tokens": 512, "train.schedule": "linear(0.0003, warmup=10)"}
VADER_FOLDER = "additional_resources/hutto_ICWSM_2014.tar.gz"
VADER_FILE = "hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt"

Rows = list[tuple[str, str]]  # text, label


class Start(NamedTuple):
    """What a classifier begins with."""

    keywords: dict[str, Any]
    settings: dict[str, Any]
    steps: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--sentiment", type=Path, help="the source package of vaderSentiment; default: leave it out")
    parser.add_argument("--tasks", nargs="+", choices=("languages", "domains", "sentiment"))
    parser.add_argument("--from-model", default="en-de")
    parser.add_argument("--starts", nargs="+", choices=("scratch", "model"), default=["scratch", "model"])
    parser.add_argument("--steps", type=int, default=300, help="of models with random weights")
    parser.add_argument("--fine-tuning-steps", type=int, default=60, help="of 512 tokens")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    starts = {
        "scratch": Start(
            {}, {"train.batch_tokens": 2048, "train.validate_every": max(given.steps // 5, 1)}, given.steps
        ),
        "model": Start({"from_model": given.from_model}, CAREFUL, given.fine_tuning_steps),
    }
    makers: dict[str, Callable[[], tuple[Rows, Rows]]] = {
        "languages": lambda: split_by_label(read_languages(given.data)),
        "domains": lambda: split_by_label(read_domains(given.data)),
    }
    if given.sentiment:
        makers["sentiment"] = lambda: split_sentiment(read_sentiment(given.sentiment))
    for name in given.tasks or makers:
        files = [given.work / f"{name}.{part}.tsv" for part in ("train", "test")]
        if not all(file.exists() for file in files):
            for file, rows in zip(files, makers[name]()):
                file.write_text("".join(f"{text}\t{label}\n" for text, label in rows), encoding="utf-8")
        for start in given.starts:
            run_once(given.work, name, start, starts[start], files)
    print(format_results(given.work))


def read_table(path: Path) -> Iterator[list[str]]:
    with lzma.open(path, "rt", encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.rstrip("\n").split("\t")


def read_side(path: Path, side: int) -> Iterator[str]:
    return (row[side] for row in read_table(path))


def read_languages(data: Path) -> dict[str, Iterator[str]]:
    sides = {"en": ("en-de", 0), "de": ("en-de", 1), "fr": ("fr-en", 1), "zh": ("zh-en", 1)}
    return {label: read_side(data / f"{pair}/tatoeba.tsv.xz", side) for label, (pair, side) in sides.items()}


def read_domains(data: Path) -> dict[str, Iterator[str]]:
    files = {
        "parliament": ["europarl.part1"],
        "manual": ["manpages", "ddtp"],
        "news": [f"newstest{year}" for year in (*range(2008, 2014), 2015)],
    }
    return {label: mix([read_table(data / f"en-de/{name}.tsv.xz") for name in names]) for label, names in files.items()}


def mix(tables: list[Iterator[list[str]]]) -> Iterator[str]:
    """The English lines of several tables in turn."""
    for rows in itertools.zip_longest(*tables):
        yield from (row[0] for row in rows if row is not None)


def split_by_label(texts: dict[str, Iterator[str]]) -> tuple[Rows, Rows]:
    """As many texts of each label for training, and behind them in their files those to test on: neighbours are of one
    document. No text occurs twice."""
    training: Rows = []
    test: Rows = []
    known: set[str] = set()
    for label, lines in texts.items():
        own: list[str] = []
        for line in lines:
            text = " ".join(line.split())
            if text and text.lower() not in known:
                known.add(text.lower())
                own.append(text)
            if len(own) == TRAINING_TEXTS + TEST_TEXTS:
                break
        training += [(text, label) for text in own[:-TEST_TEXTS]]
        test += [(text, label) for text in own[-TEST_TEXTS:]]
    return training, test


def read_sentiment(package: Path) -> Rows:
    with tarfile.open(package) as outer:
        member = next(one for one in outer.getmembers() if one.name.endswith(VADER_FOLDER))
        inside = outer.extractfile(member)
        assert inside is not None
        with tarfile.open(fileobj=io.BytesIO(inside.read())) as inner:
            file = inner.extractfile(VADER_FILE)
            assert file is not None
            lines = file.read().decode("utf-8", "replace").split("\n")
    cells = [line.strip().split("\t") for line in lines if line.count("\t") == 2]
    return [(" ".join(text.split()), "positive" if float(score) > 0 else "negative") for _, score, text in cells]


def split_sentiment(rows: Rows) -> tuple[Rows, Rows]:
    own = list({text.lower(): (text, label) for text, label in rows}.values())
    random.Random(1).shuffle(own)
    return own[SENTIMENT_TEST_TEXTS:], own[:SENTIMENT_TEST_TEXTS]


def run_once(work: Path, task: str, start: str, how: Start, files: list[Path]) -> None:
    results = work / "results.jsonl"
    done = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    if any((one["task"], one["start"], one["steps"]) == (task, start, how.steps) for one in done):
        return
    settings = {**how.settings, "train.log_every": 20}
    began = time.process_time()
    headway.train(
        str(files[0]),
        work / f"{task}-{start}-{how.steps}",
        task="classify",
        steps=how.steps,
        set=settings,
        **how.keywords,
    )
    seconds = time.process_time() - began
    model = headway.load(work / f"{task}-{start}-{how.steps}")
    assert isinstance(model, TaskModel)
    scores = evaluate_task(model, read_labelled([str(files[1])], "classify").examples).scores
    table = {score.name: [round(score.value, 4), round(score.low, 4), round(score.high, 4)] for score in scores}
    with results.open("a") as file:
        file.write(
            json.dumps({"task": task, "start": start, "steps": how.steps, **table, "seconds": round(seconds)}) + "\n"
        )


def format_results(work: Path) -> str:
    lines = ["| task | start | steps | accuracy (95 % interval) | CPU seconds |", "|---|---|---|---|---|"]
    for text in (work / "results.jsonl").read_text().splitlines():
        one = json.loads(text)
        value, low, high = one["accuracy"]
        interval = f"{value:.1%} ({low:.1%} to {high:.1%})"
        lines.append(f"| {one['task']} | {one['start']} | {one['steps']:,} | {interval} | {one['seconds']:,} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
