"""`headway distil`: sequence-level knowledge distillation, a teacher's translations for a student to learn from."""

import math
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.pair_input import read_given_pairs
from headway.cli.pair_writer import (
    TOKENS_PER_LINE,
    PairFileOptions,
    check_files,
    is_complete,
    make_pair_filter,
    options_fixed_on_resume,
    write_pairs,
)

if TYPE_CHECKING:
    from headway.decode.types import Compute
    from headway.translate.translator import Translator

CHANGEABLE_ON_RESUME = ("out", "resume", "overwrite", "device", "batch_tokens", "seconds")


@click.command(
    "distil",
    cls=Verb,
    examples=[
        (
            "headway distil --model teacher --pairs train.en-de.tsv --out taught.en-de.tsv",
            "pairs to train a student on",
        ),
        (
            "headway distil --model teacher --pairs train.en-de.tsv --out taught.en-de.tsv --closest --min-chrf 20",
            "choose the hypothesis closest to the reference; drop those far from it",
        ),
        ("headway distil --model teacher --text mono.en --out taught.en-de.tsv.xz", "monolingual text"),
        (
            "headway distil --model teacher --text mono.en --out mono.de.xz --for 20m --resume",
            "translations only, line by line; continue for twenty minutes",
        ),
    ],
)
@option(
    "--model",
    "-m",
    "models",
    multiple=True,
    required=True,
    metavar="MODEL",
    group="Model",
    help="Teacher model, a directory or name; repeat for an ensemble.",
)
@options.direction
@options.device
@options.compute
@option(
    "--pairs",
    multiple=True,
    metavar="FILE",
    group="Text",
    help=f"Sources with reference translations, {options.PAIR_FORMATS}; x.en-de.tsv works for both directions.",
)
@option("--text", "texts", multiple=True, metavar="FILE", group="Text", help="Sources without references.")
@options.columns
@options.no_split
@option(
    "--out",
    "-o",
    aliases=["--output"],
    metavar="FILE",
    group="Result",
    help="Output file: pairs if .tsv or .jsonl, otherwise translations only, blank where there is none; also .gz, "
    ".bz2, .xz, .zst. Default: TSV to standard output.",
)
@option("--for", "seconds", type=options.Duration(), group="Result", help="Stop after this time: 90s, 20m, 1.5h.")
@options.resume_options
@option(
    "--closest",
    is_flag=True,
    group="Filter",
    help="Choose the hypothesis of the beam closest to the reference, by sentence BLEU.",
)
@option(
    "--min-chrf",
    type=click.FloatRange(0, 100),
    default=0.0,
    metavar="X",
    group="Filter",
    help="Drop translations with a lower chrF against the reference.",
)
@options.filter_options
@options.beam_size
@options.length_penalty
@options.shortlist
@options.batch_tokens
def distil(
    models: tuple[str, ...], source_language: str, to: str, device: str, compute: "Compute", pairs: tuple[str, ...],
    texts: tuple[str, ...], columns: tuple[str, str] | None, no_split: bool, out: str | None, seconds: float | None,
    resume: bool, overwrite: bool, closest: bool, min_chrf: float, min_score: float | None, length_ratio: float,
    max_tokens: int | None, batch_tokens: int | None, **search: Any,
) -> None:  # fmt: skip
    """Translate a corpus with a teacher, to train a smaller model on.

    A teacher's translations are simpler and more regular than human ones, so a small model learns more from them.
    References are used only to choose among hypotheses and to filter."""
    check_options((*pairs, *texts), pairs, out, seconds, resume, overwrite, closest or bool(min_chrf))
    from headway.files.text_files import check_readable

    for path in (*pairs, *texts):
        check_readable(path)  # report a missing file before loading a model
    if resume and is_complete(out):
        return
    from headway.storage.registry import choose_models
    from headway.translate.options import TranslateOptions
    from headway.translate.translator import load_choice
    from headway.workflows.distillation import Distillation, format_distilled

    choice = choose_models(models, source_language, to)
    translator = load_choice(choice, device, "torch", compute)
    to = choice.target
    translator.batch_tokens = batch_tokens or translator.batch_tokens
    settings = translator.search(**search)
    target = known_target_language(translator, to)
    refuse_reversed_name(out, target)
    distillation = Distillation(
        translator=translator,
        options=TranslateOptions(
            target=to,
            split_sentences=not no_split,
            search=translator.search(**search, n_best=settings.beam_size) if closest else settings,
        ),
        pair_filter=make_pair_filter(translator, to, min_score, length_ratio, max_tokens),
        min_chrf=min_chrf,
        closest=closest,
    )
    time_limit = math.inf if seconds is None else seconds
    file_options = PairFileOptions(resume, overwrite, options_fixed_on_resume(CHANGEABLE_ON_RESUME), time_limit)
    lines = read_sources(pairs, texts, columns, target)
    group_size = max(1, translator.batch_tokens // TOKENS_PER_LINE)
    write_pairs(lines, distillation, out, file_options, group_size, format_distilled)


def known_target_language(translator: "Translator", to: str) -> str:
    """The target language, if it is known."""
    known = translator.summary.target_languages
    return to or (known[0] if len(known) == 1 else "")


def read_sources(
    pairs: tuple[str, ...], texts: tuple[str, ...], columns: tuple[str, str] | None, target: str
) -> Iterator[str]:  # fmt: skip
    """Sources, each followed by a tab and its reference if there is one."""
    from headway.data.parallel_files import languages_from_filename
    from headway.files.text_files import read_lines

    for path in pairs:
        named = languages_from_filename(path)
        languages = named[::-1] if target and target == named[0] else named
        for source, reference in read_given_pairs(None, None, path, languages, columns):
            yield f"{source}\t{reference}".replace("\t", " ", source.count("\t"))
    yield from (line.replace("\t", " ") for line in chain.from_iterable(map(read_lines, texts)))


def check_options(
    given: tuple[str, ...], pairs: tuple[str, ...], out: str | None, seconds: float | None, resume: bool,
    overwrite: bool, needs_references: bool,
) -> None:  # fmt: skip
    """Refuse options that contradict each other, before a model is loaded."""
    context = click.get_current_context()
    if not given:
        raise click.UsageError("give --pairs or --text.", context)
    if needs_references and not pairs:
        raise click.UsageError("--closest and --min-chrf need references: give --pairs.", context)
    if (resume or overwrite or seconds) and not out:
        raise click.UsageError("--resume, --overwrite and --for need --out.", context)
    check_files(given, out, resume, overwrite)


def refuse_reversed_name(out: str | None, target: str) -> None:
    """Training reads the languages of the columns from a name like x.en-de.tsv, so the name must be right."""
    from headway.data.parallel_files import languages_from_filename
    from headway.workflows.distillation import has_both_sides

    first, second = languages_from_filename(out) if out and has_both_sides(out) else ("", "")
    if target and first == target:
        raise click.UsageError(
            f"the name {Path(str(out)).name} says that {first} comes first, but {first} is the target. Name it "
            f"{second}-{first}.",
            click.get_current_context(),
        )
