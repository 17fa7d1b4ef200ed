"""How well `headway answer` finds and supports what it says. Each part prints a table for RESULTS.md.

    python benchmarks/answering.py docs [--encoder minilm] [--model smollm2]    questions about Headway's own docs
    python benchmarks/answering.py known FILE… [--encoder minilm]               words of a passage, to find it by
    python benchmarks/answering.py support                                      the threshold of support, calibrated
    python benchmarks/answering.py size FILE…                                   time and memory of a large index

Questions about docs/ were written by hand, in other words than the docs where there are any:
answering_questions.tsv has a question, the file that answers it, and words that the answering passage has. Every second
one was used while the weights of quotes were chosen ("tuning"); the others were not ("held out")."""

import argparse
import functools
import random
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headway.answering.answerer import AnswerOptions, answer_steps
from headway.answering.passage_index import PassageIndex, build_passage_index, open_passage_index
from headway.answering.question import content_words, read_question
from headway.answering.results import CitedAnswer
from headway.answering.search import METHODS, FoundPassage, Method, search_passages
from headway.answering.support import SUPPORT_THRESHOLD, calibrate_threshold, measure_support
from headway.files.text_files import read_lines
from headway.text.search_terms import split_words
from headway.text.segment.sentences import split_sentences

HERE = Path(__file__).parent
CUTS = (1, 5, 10)
QUERY_WORDS = 6
MARKUP = str.maketrans("", "", "`*")


class Asked(NamedTuple):
    question: str
    file: str
    phrase: str  # "": any passage of the file answers

    def is_answered_by(self, candidate: FoundPassage) -> bool:
        text = candidate.source.passage.indexed_text.lower()
        return candidate.source.file == self.file and self.phrase.translate(MARKUP).lower() in text


def read_questions(path: Path) -> list[Asked]:
    return [Asked(*line.split("\t")) for line in path.read_text(encoding="utf-8").splitlines()]


def rank_of_hit(candidates: Sequence[FoundPassage], hits: Callable[[FoundPassage], bool]) -> int:
    return next((rank for rank, candidate in enumerate(candidates, start=1) if hits(candidate)), 0)


def format_row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in cells) + " |"


def measure_retrieval(index: PassageIndex, asked: Sequence[Asked], embed: Any, by_file: bool) -> None:
    for method in METHODS if embed is not None else METHODS[:1]:
        ranks = []
        started = time.perf_counter()
        for one in asked:
            found = search_passages(index, read_question(one.question), max(CUTS), method, embed)
            whole = one._replace(phrase="") if by_file else one
            ranks.append(rank_of_hit(found, whole.is_answered_by))
        seconds = (time.perf_counter() - started) / len(asked)
        shares = [sum(0 < rank <= cut for rank in ranks) / len(ranks) for cut in CUTS]
        reciprocal = sum(1 / rank for rank in ranks if rank) / len(ranks)
        print(format_row([method, "file" if by_file else "passage", *shares, reciprocal, f"{1000 * seconds:.0f} ms"]))


def measure_docs(arguments: argparse.Namespace) -> None:
    asked = read_questions(HERE / "answering_questions.tsv")
    off_topic = (HERE / "answering_off_topic.txt").read_text(encoding="utf-8").splitlines()
    embed = load_encoder(arguments.encoder)
    model = load_writer(arguments.model)
    with tempfile.TemporaryDirectory() as folder:
        built = build_passage_index([HERE.parent / "docs"], Path(folder, "index"), arguments.encoder)
        index = open_passage_index(Path(folder, "index"))
        print(f"{built.documents} documents, {built.passages} passages, {len(asked)} questions\n")
        for name, part in (("tuning", asked[::2]), ("held out", asked[1::2])):
            print(f"{name}\n| method | hit is | @1 | @5 | @10 | MRR | a question |\n|---|---|---|---|---|---|---|")
            for by_file in (True, False):
                measure_retrieval(index, part, embed, by_file)
            for method in METHODS if embed is not None else METHODS[:1]:
                measure_answers(index, part, off_topic, method, embed, None)
            print()
        if model is not None:
            measure_answers(index, asked[: arguments.questions], off_topic[:5], None, embed, model)


def measure_answers(
    index: PassageIndex, asked: Sequence[Asked], off_topic: Sequence[str], method: Method | None, embed: Any, model: Any
) -> None:
    options = AnswerOptions(method=method)
    right = answered = sentences = supported = cited = 0
    for one in asked:
        given = find_answer(index, one.question, options, embed, model)
        answered += bool(given.sentences)
        said = " ".join(sentence.text for sentence in given.sentences).lower()
        right += one.phrase.translate(MARKUP).lower() in said
        sentences += len(given.sentences)
        supported += sum(sentence.supported for sentence in given.sentences)
        cited += sum(bool(sentence.cited) and not sentence.given for sentence in given.sentences)
    refused = sum(not find_answer(index, text, options, embed, model).sentences for text in off_topic)
    name = f"{method or 'default'}{', written' if model else ''}"
    print(
        f"{name}: answered {answered}/{len(asked)}, with the expected words {right}/{len(asked)}; "
        f"sentences {sentences}, supported {supported}, citing by themselves {cited}; "
        f"off-topic refused {refused}/{len(off_topic)}"
    )


def find_answer(index: PassageIndex, question: str, options: AnswerOptions, embed: Any, model: Any) -> CitedAnswer:
    last = list(answer_steps(index, question, options, embed, model))[-1]
    assert isinstance(last, CitedAnswer)
    return last


def measure_known_items(arguments: argparse.Namespace) -> None:
    """Six content words of one sentence are the question; its passage is the answer."""
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        paths = write_texts(arguments.files, Path(folder, "texts"), arguments.lines)
        build_passage_index(paths, Path(folder, "index"), arguments.encoder)
        index = open_passage_index(Path(folder, "index"))
        embed = load_encoder(arguments.encoder)
        asked: list[tuple[str, int]] = []
        while len(asked) < arguments.questions:
            number = draw.randrange(len(index))
            sentence = draw.choice(split_sentences(index.read_source(number).passage.text)).text
            words = list(content_words(split_words(sentence)).values())
            if len(words) >= 2 * QUERY_WORDS:
                asked.append((" ".join(draw.sample(words, QUERY_WORDS)), number))
        print(f"{len(index):,} passages, {len(asked)} questions of {QUERY_WORDS} words")
        for method in METHODS if embed is not None else METHODS[:1]:
            ranks = []
            for question, number in asked:
                found = search_passages(index, read_question(question), max(CUTS), method, embed)
                ranks.append(next((rank for rank, one in enumerate(found, 1) if one.number == number), 0))
            print(format_row([method, *(sum(0 < rank <= cut for rank in ranks) / len(ranks) for cut in CUTS)]))


def write_texts(files: Sequence[str], folder: Path, lines_per_file: int) -> list[Path]:
    """The first column of files, as text files of so many lines."""
    folder.mkdir()
    paths: list[Path] = []
    lines = (line.split("\t")[0] for file in files for line in read_lines(file))
    while group := list(islice(lines, lines_per_file)):
        paths.append(folder / f"{len(paths):05}.txt")
        paths[-1].write_text("\n".join(group) + "\n", encoding="utf-8")
    return paths


def measure_support_set(arguments: argparse.Namespace) -> None:
    """The threshold of all examples, and how many are judged rightly by that of all others."""
    rows = [line.split("\t") for line in (HERE / "answering_support.tsv").read_text(encoding="utf-8").splitlines()]
    supported = [label == "1" for label, _, _ in rows]
    with tempfile.TemporaryDirectory() as folder:
        build_passage_index([HERE.parent / "docs"], Path(folder, "index"))
        idf = functools.cache(open_passage_index(Path(folder, "index")).words.idf)
        scores = [measure_support(sentence, source, idf) for _, sentence, source in rows]
    threshold, accuracy = calibrate_threshold(scores, supported)
    right = 0
    for n, score in enumerate(scores):
        cut, _ = calibrate_threshold(scores[:n] + scores[n + 1 :], supported[:n] + supported[n + 1 :])
        right += (score >= cut) == supported[n]
    judged = [score >= SUPPORT_THRESHOLD for score in scores]
    accepted = sum(not right_one and one for right_one, one in zip(supported, judged))
    rejected = sum(right_one and not one for right_one, one in zip(supported, judged))
    print(
        f"{len(rows)} examples; threshold {threshold:.2f}, accuracy {accuracy:.3f}, leaving one out "
        f"{right / len(rows):.3f}"
    )
    print(f"at {SUPPORT_THRESHOLD}: {accepted} unsupported ones accepted, {rejected} supported ones rejected")


def measure_size(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = write_texts(arguments.files, Path(folder, "texts"), arguments.lines)
        started, cpu = time.perf_counter(), time.process_time()
        built = build_passage_index(paths, Path(folder, "index"))
        print(
            f"{built.passages:,} passages of {built.documents:,} documents, "
            f"{sum(path.stat().st_size for path in paths):,} bytes"
        )
        print(f"built in {time.perf_counter() - started:.0f} s ({time.process_time() - cpu:.0f} s of one core)")
        print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
        index_bytes = sum(path.stat().st_size for path in Path(folder, "index").rglob("*") if path.is_file())
        print(f"index {index_bytes:,} bytes")
        started = time.perf_counter()
        index = open_passage_index(Path(folder, "index"))
        print(f"opened in {1000 * (time.perf_counter() - started):.1f} ms")
        seconds = []
        for one in read_questions(HERE / "answering_questions.tsv"):
            started = time.process_time()
            find_answer(index, one.question, AnswerOptions(), None, None)
            seconds.append(time.process_time() - started)
        seconds.sort()
        print(
            f"a question: median {1000 * seconds[len(seconds) // 2]:.0f} ms of one core, "
            f"slowest {1000 * seconds[-1]:.0f} ms"
        )


def load_encoder(name: str) -> Any:
    """Each text is encoded once, whatever the methods that are compared."""
    from headway.translate.text_vectors import load_embedder

    if not name:
        return None
    encode = load_embedder(name)
    known: dict[str, np.ndarray] = {}

    def embed(texts: Sequence[str]) -> np.ndarray:
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            known.update(zip(new, encode(new)))
        return np.stack([known[text] for text in texts])

    return embed


def load_writer(name: str) -> Any:
    from headway.translate.translator import load

    return load(name) if name else None


PARTS = {"docs": measure_docs, "known": measure_known_items, "support": measure_support_set, "size": measure_size}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--encoder", default="")
    parser.add_argument("--model", default="")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--lines", type=int, default=2000, help="of each document that FILEs are cut into")
    given = parser.parse_args()
    PARTS[given.part](given)
