"""`headway align`: which word says which, in pairs that are there already."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.terminal import log, opened
from headway.cli.verbs.score import read, refuse
from headway.cli.verbs.translate import warn_if_rough

if TYPE_CHECKING:
    from headway.translate.translator import Translator

AT_ONCE = 1024  # pairs in memory
FEW = 1000  # pairs from which little can be learned

Pairs = Iterator[tuple[str, str]]


@click.command(
    "align",
    cls=Verb,
    examples=[
        ("headway align --source train.en --target train.de > train.align", "by counting in the text itself"),
        ("headway align --model my-model --source test.en --target test.de", "by a model's attention"),
        ('headway align --model my-model "A dog runs." "Ein Hund rennt."', "one pair"),
    ],
)
@click.argument("text", nargs=-1, metavar="[SOURCE TARGET]")
@option(
    "--model",
    "-m",
    "models",
    multiple=True,
    metavar="MODEL",
    group="Model",
    help="Model directory or name; several vote. Default: by --from and --to; without them a statistical aligner, learned from these pairs.",
)
@options.direction
@options.device
@options.given_pairs
def align(
    text: tuple[str, ...], models: tuple[str, ...], source_language: str, to: str, device: str, source: str | None,
    target: str | None, pairs: str | None, columns: tuple[str, str] | None, output: str | None,
) -> None:  # fmt: skip
    """Say which word says which in given pairs.

    One line a pair, in order: i-j i-j, source word i with target word j. Words are what stands between spaces, counted
    from 0. Each side is one sentence; a pair with a blank side gets a blank line."""
    refuse(text, source, target, pairs, output)
    by_a_model = bool(models or source_language or to)
    if text and not by_a_model:
        told = "one pair is too little to learn from: give --model, or files."
        raise click.UsageError(told, click.get_current_context())
    if by_a_model:
        from headway.storage.registry import choose
        from headway.translate.translator import load_translator

        choice = choose(models, source_language, to)
        translator, to = load_translator(choice.paths, device, direction=choice.direction), choice.target
        translator.tag(to)  # a wrong language is said before anything is read
        known = translator.config
        languages = choice.source or (known.source_languages or ("",))[0], to or (known.target_languages or ("",))[0]
        given = iter([(text[0], text[1])]) if text else read(source, target, pairs, languages, columns)
        found = by_model(translator, given, to)
    else:
        from headway.data.corpora import regular

        source, target, pairs = (path and regular(path) for path in (source, target, pairs))  # read more than once
        found = by_counting(lambda: read(source, target, pairs, ("", ""), columns))
    with opened(output) as sink:
        for line in found:
            sink.write(f"{line}\n")


def by_counting(given: Callable[[], Pairs]) -> Iterator[str]:
    from headway.text.align.aligner import learn_aligner
    from headway.text.align.words import moses

    count = sum(1 for _ in islice(given(), FEW))
    if count < FEW:
        log(f"learned from {count:,} pairs only: the links are rough. Give more pairs, or a --model", "warning")
    aligner, pairs = learn_aligner(given()), given()
    while group := list(islice(pairs, AT_ONCE)):
        yield from map(moses, aligner.align(group))


def by_model(translator: "Translator", pairs: Pairs, to: str) -> Iterator[str]:
    from headway.text.align.words import moses
    from headway.translate.alignment import align_pairs

    warn_if_rough(translator)
    number = 0
    while group := list(islice(pairs, AT_ONCE)):
        for found in align_pairs(translator, group, to):
            number += 1
            for warning in found.warnings:
                log(f"line {number}: {warning}", "warning")
            yield moses(found.links)
