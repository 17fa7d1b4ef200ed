"""`headway translate`: a line in, a line out."""

import json
import os
import queue
import stat
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import options
from headway.cli.ahead import ahead
from headway.cli.document import refuse as refuse_for_document
from headway.cli.document import translate_document
from headway.cli.root import Verb, option
from headway.cli.terminal import is_watched, log, opened

if TYPE_CHECKING:
    from headway.decode.engine import Compute, EngineName
    from headway.translator import Guess, Translation, Translator

AT_ONCE = 512  # lines taken together where they wait
OF_A_FILE = {"cuda": 16_384, "cpu": 4096}  # likewise, of a file: many lines have others of their length


@click.command(
    "translate",
    cls=Verb,
    examples=[
        ('headway translate --model my-model "A dog runs through the snow."', "one sentence"),
        ("headway translate --model my-model < text.en > text.de", "a file, line by line"),
        ("headway translate --model my-model --file report.docx", "a document, with its formatting: report.de.docx"),
        ('headway translate --model my-model --n-best 3 "A dog runs."', "the three best, as i ||| text ||| score"),
        ('headway translate --model my-model --align "A dog runs."', "which word says which: text ||| i-j i-j"),
        ('headway translate --model my-model --json "A dog runs."', "everything that is known, one JSON object a line"),
    ],
)
@click.argument("text", nargs=-1)
@options.models
@options.target_language
@options.device
@options.engines
@option("--input", "-i", "input_file", metavar="FILE", group="Text", help="Read from a file; - is standard input.")
@option("--file", metavar="FILE", group="Text", help="A document: .txt, .html, .srt, .po, .docx or .odt.")
@options.output
@option("--no-split", is_flag=True, group="Text", help="Take each line as one sentence.")
@option("--beam-size", "-b", type=int, group="Search", help="Hypotheses followed; 1 is greedy. Default: the model's.")
@option(
    "--length-penalty", "alpha", type=float, group="Search", help="Above 0 prefers longer output. Default: the model's."
)
@option(
    "--penalty",
    type=click.Choice(["paper", "power", "none"]),
    group="Search",
    help="Its formula. Default: the model's.",
)
@option("--max-length", type=int, group="Search", help="Tokens of output at most. Default: input + 50.")
@option("--max-ratio", type=float, group="Search", help="The same as a multiple of the input, + 50.")
@option("--no-repeat-ngram", "no_repeat_ngram", type=int, group="Search", help="Never repeat so many tokens in a row.")
@options.shortlist
@option("--prefix", metavar="TEXT", group="Search", help="Every output starts with this.")
@options.drawing
@option("--n-best", type=click.IntRange(min=1), group="Result", help="So many translations: i ||| text ||| score.")
@option("--align", is_flag=True, group="Result", help="Source word - target word, from 0: text ||| i-j i-j.")
@option("--scores", is_flag=True, group="Result", help="Score, a tab, and the translation.")
@option("--json", "as_json", is_flag=True, group="Result", help="One JSON object a line.")
def translate(
    text: tuple[str, ...], models: tuple[str, ...], to: str, device: str, engine: "EngineName", compute: "Compute",
    threads: int | None, input_file: str | None, file: str | None, output: str | None, no_split: bool, prefix: str | None, batch_tokens: int | None, align: bool, scores: bool, as_json: bool, **search: Any,
) -> None:  # fmt: skip
    """Translate text, a file or standard input.

    One line out for each line in, in order; a blank line stays blank. A line of several sentences is translated
    sentence by sentence and keeps its spacing. Warnings go to stderr.

    A document keeps everything but its text, and lies beside the old one unless --output names it."""
    from headway.quick import quick_model

    if file:
        refuse_for_document(click.get_current_context().params, file, output)
    if text and input_file:
        raise click.UsageError("text and --input were both given: choose one.", click.get_current_context())
    if input_file and output and Path(input_file).resolve() == Path(output).resolve():
        raise click.UsageError("--output is the file of --input: name another.", click.get_current_context())
    if sys.stdin is None and not file and (text or (input_file or "-",)) == ("-",):
        raise click.UsageError("standard input is closed: give text or --input FILE.", click.get_current_context())
    quick = quick_model(models, device, engine, compute, threads, start=bool(text) and text != ("-",))
    from headway.translator import load_translator  # now: what that imports it imports while weights are being loaded

    translator = load_translator(models, device, engine, compute, threads, lambda told: log(told, "detail"), quick)
    translator.batch_tokens = batch_tokens or translator.batch_tokens
    settings = translator.search(**search)
    translator.tag(to)  # a wrong language is said before anything is waited for
    if file:
        return translate_document(translator, settings, to, not no_split, file, output)
    if align:
        warn_if_rough(translator)
    if not text and not input_file and sys.stdin.isatty():
        log("type text to translate, a line at a time; Ctrl-D ends")

    def found(numbered: tuple[int, list[str]]) -> "list[Translation]":
        first, group = numbered
        forced = None if prefix is None else [prefix] * len(group)
        return translator.translate(
            group, settings, to=to, split=not no_split, prefixes=forced, first=first, align=align
        )  # fmt: skip

    kind = translator.device
    number = 0
    of_a_file = not text and is_file(input_file or "-")
    workers = 2 if kind == "cuda" or of_a_file else 1  # one group is read or written while another is searched
    lines = waiting_lines(text, input_file, OF_A_FILE.get(kind, AT_ONCE))
    with opened(output) as sink, stopping(translator):
        for results in ahead(counted(lines), found, workers):
            for result in results:
                for warning in result.warnings:
                    log(f"line {number + 1}: {warning}", "warning")
                sink.write(shown(translator, result, number, search["n_best"], scores, as_json))
                number += 1
            sink.flush()


@contextmanager
def stopping(translator: "Translator") -> Iterator[None]:
    """Whatever ends this early ends the searches ahead of it."""
    try:
        yield
    except BaseException:
        translator.stop()
        raise


def shown(
    translator: "Translator", result: "Translation", number: int, n_best: int | None, scores: bool, as_json: bool
) -> str:
    """One result as asked for."""
    from headway.translation import one_line

    if as_json:
        return json.dumps(as_object(translator, result, n_best), ensure_ascii=False) + "\n"
    if n_best:
        guesses = result.guesses[:n_best]
        return "".join(
            f"{number} ||| {one_line(guess.text)} ||| {guess.score:.4f}{links_of(guess)}\n" for guess in guesses
        )
    lead = f"{result.score:.4f}\t" if scores else ""
    return f"{lead}{one_line(result.text)}{links_of(result.guesses[0])}\n"


def links_of(guess: "Guess") -> str:
    """A further field, if it was asked for."""
    from headway.text.words import moses

    return "" if guess.alignment is None else f" ||| {moses(guess.alignment)}".rstrip()


def warn_if_rough(translator: "Translator") -> None:
    from headway.alignment import is_guided

    if not all(is_guided(config) for config in translator.configs):
        log("this model has no head for alignments: they are rough. Train it with train.alignment=guided", "warning")


def as_object(translator: "Translator", result: "Translation", n_best: int | None) -> dict[str, Any]:
    pieces = translator.tokenizers.target.pieces
    guesses = [
        {
            "text": guess.text,
            "score": round(guess.score, 6),
            "logp": round(guess.logp, 6),
            "tokens": pieces(guess.tokens),
            "token_logps": [round(value, 6) for value in guess.token_logps],
            **({} if guess.alignment is None else {"alignment": guess.alignment}),
        }
        for guess in result.guesses
    ]
    several = {"n_best": guesses} if n_best else {}
    return {"source": result.source, **guesses[0], **several, "warnings": result.warnings}


def waiting_lines(text: tuple[str, ...], input_file: str | None, most: int = AT_ONCE) -> Iterator[list[str]]:
    """Lines in groups: all that wait, so that a file goes fast and a person or a program gets each answer at once.

    most: of a file, whose lines all wait."""
    if text and text != ("-",):
        yield list(text)
        return
    from headway.data.files import read_lines

    path = input_file or "-"
    if path == "-" and is_watched(sys.stdin):
        yield from ([line] for line in read_lines("-"))
        return
    yield from filled(read_lines(path), most) if is_file(path) else grouped(read_lines(path))


def is_file(path: str) -> bool:
    """Whether all of it is there already: no pipe, no terminal."""
    if path != "-":
        return Path(path).is_file()
    try:
        return stat.S_ISREG(os.fstat(sys.stdin.fileno()).st_mode)
    except (OSError, ValueError):  # it is no stream of the system
        return False


def counted(groups: Iterable[list[str]]) -> Iterator[tuple[int, list[str]]]:
    """Each with the number of its first line."""
    first = 0
    for group in groups:
        yield first, group
        first += len(group)


def filled(lines: Iterable[str], most: int) -> Iterator[list[str]]:
    """Groups that are full. The first are smaller, so that something can begin while the others are being read."""
    source, size = iter(lines), min(AT_ONCE, most)
    error: Exception | None = None
    while error is None:
        group: list[str] = []
        try:
            group.extend(islice(source, size))
        except Exception as broken:  # what came before it is translated first
            error = broken
        if group:
            yield group
        if error is None and len(group) < size:
            return
        size = min(2 * size, most)
    raise error


def grouped(lines: Iterable[str]) -> Iterator[list[str]]:
    """What a reading thread has gathered so far, up to AT_ONCE."""
    gathered: queue.Queue[str | BaseException | None] = queue.Queue(4 * AT_ONCE)

    def read() -> None:
        try:
            for line in lines:
                gathered.put(line)
            gathered.put(None)
        except BaseException as error:
            gathered.put(error)

    threading.Thread(target=read, daemon=True).start()
    while True:
        group: list[str] = []
        item = gathered.get()
        while isinstance(item, str):
            group.append(item)
            if len(group) == AT_ONCE or gathered.empty():
                break
            item = gathered.get()
        if group:
            yield group
        if isinstance(item, BaseException):
            raise item
        if item is None:
            return
