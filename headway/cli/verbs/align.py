"""`headway align`: word alignment of given sentence pairs."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.pair_input import read_given_pairs
from headway.cli.terminal import log, open_output
from headway.cli.verbs.score import check_inputs
from headway.cli.verbs.translate import warn_if_unguided

if TYPE_CHECKING:
    from headway.translate.translator import Translator

PAIRS_PER_GROUP = 1024  # held in memory
MIN_PAIRS_TO_LEARN = 1000  # below this, the statistical aligner is unreliable

Pairs = Iterator[tuple[str, str]]


@click.command(
    "align",
    cls=Verb,
    examples=[
        (
            "headway align --source train.en --target train.de > train.align",
            "with a statistical aligner, learned from these pairs",
        ),
        ("headway align --model my-model --source test.en --target test.de", "with a model's attention"),
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
    help="Model directory or name; several vote. Default: chosen by --from and --to; without them a statistical "
    "aligner, learned from these pairs.",
)
@options.direction
@options.device
@options.pair_files
def align(
    text: tuple[str, ...], models: tuple[str, ...], source_language: str, to: str, device: str, source: str | None,
    target: str | None, pairs: str | None, columns: tuple[str, str] | None, output: str | None,
) -> None:  # fmt: skip
    """Align the words of given sentence pairs.

    One line per pair, in order: i-j i-j, source word i with target word j. Words are separated by spaces and counted
    from 0. Each side is one sentence; a pair with a blank side gets a blank line."""
    check_inputs(text, source, target, pairs, output)
    use_model = bool(models or source_language or to)
    if text and not use_model:
        message = "one pair is too little to learn an aligner from: give --model, or files."
        raise click.UsageError(message, click.get_current_context())
    if use_model:
        from headway.storage.registry import choose_models
        from headway.translate.translator import load_choice

        choice = choose_models(models, source_language, to)
        translator = load_choice(choice, device)
        to = choice.target
        translator.direction_tokens(choice.source, to)  # refuse an unknown language before reading anything
        config = translator.config
        languages = choice.source or (config.source_languages or ("",))[0], to or (config.target_languages or ("",))[0]
        given = iter([(text[0], text[1])]) if text else read_given_pairs(source, target, pairs, languages, columns)
        alignments = align_with_model(translator, given, to, choice.source)
    else:
        from headway.data.corpora import ensure_rereadable

        source, target, pairs = (path and ensure_rereadable(path) for path in (source, target, pairs))  # read twice
        alignments = align_statistically(lambda: read_given_pairs(source, target, pairs, ("", ""), columns))
    with open_output(output) as sink:
        for line in alignments:
            sink.write(f"{line}\n")


def align_statistically(given: Callable[[], Pairs]) -> Iterator[str]:
    from headway.text.align.aligner import train_aligner
    from headway.text.align.words import format_moses_links

    count = sum(1 for _ in islice(given(), MIN_PAIRS_TO_LEARN))
    if count < MIN_PAIRS_TO_LEARN:
        log(f"learned from only {count:,} pairs: alignments are unreliable. Give more pairs, or --model", "warning")
    aligner = train_aligner(given())
    pairs = given()
    while group := list(islice(pairs, PAIRS_PER_GROUP)):
        yield from map(format_moses_links, aligner.align(group))


def align_with_model(translator: "Translator", pairs: Pairs, to: str, source: str) -> Iterator[str]:
    from headway.text.align.words import format_moses_links
    from headway.translate.alignment import align_pairs

    warn_if_unguided(translator)
    number = 0
    while group := list(islice(pairs, PAIRS_PER_GROUP)):
        for result in align_pairs(translator, group, to, source):
            number += 1
            for warning in result.warnings:
                log(f"line {number}: {warning}", "warning")
            yield format_moses_links(result.links)
