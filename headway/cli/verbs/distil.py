"""`headway distil`: a teacher's translations, for a student to learn from."""

import math
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.pair_writer import (
    TOKENS_A_LINE,
    Growing,
    given_options,
    grow,
    is_complete,
    refuse_for_file,
    standards_for,
)

if TYPE_CHECKING:
    from headway.decode.types import Compute
    from headway.translate.translator import Translator

MAY_DIFFER = ("out", "resume", "overwrite", "device", "batch_tokens", "seconds")


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
            "of its translations the most like the true one; none far from it",
        ),
        ("headway distil --model teacher --text mono.en --out taught.en-de.tsv.xz", "text that nobody has translated"),
        (
            "headway distil --model teacher --text mono.en --out mono.de.xz --for 20m --resume",
            "translations alone, line by line; twenty minutes more of it",
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
    help="The teacher, a directory or a name; several make an ensemble.",
)
@options.target_language
@options.device
@options.compute
@option(
    "--pairs",
    multiple=True,
    metavar="FILE",
    group="Text",
    help="Sources with their true translations, .tsv or .jsonl; a name like x.en-de.tsv serves both directions.",
)
@option("--text", "texts", multiple=True, metavar="FILE", group="Text", help="Sources alone.")
@options.columns
@option("--no-split", is_flag=True, group="Text", help="Take each line as one sentence.")
@option(
    "--out",
    "-o",
    metavar="FILE",
    group="Result",
    help="Pairs to .tsv or .jsonl; by another name translations alone, blank where there is none; also .gz, .xz, .zst. "
    "Default: standard output, as TSV.",
)
@option("--for", "seconds", type=options.Duration(), group="Result", help="Stop after this time: 90s, 20m, 1.5h.")
@options.going_on
@option(
    "--closest",
    is_flag=True,
    group="Choose",
    help="Of all that the beam found, what is most like the true translation, by sentence BLEU.",
)
@option(
    "--min-chrf",
    type=click.FloatRange(0, 100),
    default=0.0,
    metavar="X",
    group="Drop",
    help="Translations with a lower chrF against the true one.",
)
@options.dropping
@option("--beam-size", "-b", type=int, group="Search", help="Hypotheses followed. Default: the model's.")
@option(
    "--length-penalty", "alpha", type=float, group="Search", help="Above 0 prefers longer output. Default: the model's."
)
@options.shortlist
@options.batch_tokens
def distil(
    models: tuple[str, ...], to: str, device: str, compute: "Compute", pairs: tuple[str, ...], texts: tuple[str, ...],
    columns: tuple[str, str] | None, no_split: bool, out: str | None, seconds: float | None, resume: bool,
    overwrite: bool, closest: bool, min_chrf: float, min_score: float | None, length_ratio: float, longest: int | None,
    batch_tokens: int | None, **search: Any,
) -> None:  # fmt: skip
    """Translate the sources of a corpus, for a smaller model to learn from.

    What a large model writes is simpler and more regular than what people write: a small one learns more from it than
    from the true translations, which are only needed to choose and to drop."""
    refuse((*pairs, *texts), pairs, out, seconds, resume, overwrite, closest or bool(min_chrf))
    from headway.files.text_files import check_readable

    for path in (*pairs, *texts):
        check_readable(path)  # a missing file is told before a model is loaded
    if resume and is_complete(out):
        return
    from headway.storage.registry import choose
    from headway.translate.translator import load_translator
    from headway.workflows.distillation import Distillation, written_out

    choice = choose(models, "", to)
    translator, to = load_translator(choice.paths, device, "torch", compute, direction=choice.direction), choice.target
    translator.batch_tokens = batch_tokens or translator.batch_tokens
    settings = translator.search(**search)
    target = target_of(translator, to)
    refuse_reversed_name(out, target)
    way = Distillation(
        translator=translator,
        search=translator.search(**search, n_best=settings.beam_size) if closest else settings,
        standards=standards_for(translator, to, min_score, length_ratio, longest),
        to=to,
        split=not no_split,
        least_chrf=min_chrf,
        closest=closest,
    )
    how = Growing(resume, overwrite, given_options(MAY_DIFFER), math.inf if seconds is None else seconds)
    lines = read(pairs, texts, columns, target)
    grow(lines, way, out, how, max(1, translator.batch_tokens // TOKENS_A_LINE), written_out)


def target_of(translator: "Translator", to: str) -> str:
    """The language that is written, if it is known."""
    known = translator.outline.target_languages
    return to or (known[0] if len(known) == 1 else "")


def read(
    pairs: tuple[str, ...], texts: tuple[str, ...], columns: tuple[str, str] | None, target: str
) -> Iterator[str]:  # fmt: skip
    """Sources, each with its reference behind a tab where there is one."""
    from headway.data.parallel_files import ParallelFiles, languages_of, read_parallel
    from headway.files.text_files import read_lines

    for path in pairs:
        named = languages_of(path)
        languages = named[::-1] if target and target == named[0] else named
        for source, reference in read_parallel(ParallelFiles(path, "", *languages, columns=columns)):
            yield f"{source}\t{reference}".replace("\t", " ", source.count("\t"))
    yield from (line.replace("\t", " ") for line in chain.from_iterable(map(read_lines, texts)))


def refuse(
    given: tuple[str, ...], pairs: tuple[str, ...], out: str | None, seconds: float | None, resume: bool,
    overwrite: bool, compares: bool,
) -> None:  # fmt: skip
    """Options that do not go together."""
    context = click.get_current_context()
    if not given:
        raise click.UsageError("give --pairs or --text: what should be translated?", context)
    if compares and not pairs:
        raise click.UsageError("--closest and --min-chrf compare with true translations: give --pairs.", context)
    if (resume or overwrite or seconds) and not out:
        raise click.UsageError("--resume, --overwrite and --for are about a file: name it with --out.", context)
    refuse_for_file(given, out, resume, overwrite)


def refuse_reversed_name(out: str | None, target: str) -> None:
    """Training takes the languages of the columns from a name like x.en-de.tsv: it must not say the contrary."""
    from headway.data.parallel_files import languages_of
    from headway.workflows.distillation import has_both_sides

    first, second = languages_of(out) if out and has_both_sides(out) else ("", "")
    if target and first == target:
        raise click.UsageError(
            f"the name {Path(str(out)).name} says that {first} stands first, but it is what is written. Write "
            f"{second}-{first} there.",
            click.get_current_context(),
        )
