"""`headway augment`: back-translation of monolingual text."""

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import options
from headway.cli.app import Verb, option
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
    from headway.config.config import Config

CHANGEABLE_ON_RESUME = ("out", "resume", "overwrite", "device", "batch_tokens")


@click.command(
    "augment",
    cls=Verb,
    examples=[
        ("headway augment --model de-en --text mono.de --out mono.en-de.tsv", "pairs to train en-de on"),
        (
            "headway augment --model de-en --text mono.de --out mono.en-de.tsv --resume",
            "continue after an interruption",
        ),
        (
            "headway augment --model de-en --text a.de --text b.de.xz --out mono.en-de.tsv.zst --sample --seed 1",
            "several files, compressed; sampled for diversity",
        ),
    ],
)
@option(
    "--model",
    "-m",
    "models",
    multiple=True,
    metavar="MODEL",
    group="Model",
    help="Model of the reverse direction, a directory or name; repeat for an ensemble. Default: chosen by --from and "
    "--to.",
)
@options.direction
@options.device
@option(
    "--text",
    "texts",
    multiple=True,
    required=True,
    metavar="FILE",
    group="Text",
    help="Text in the target language of the future model; - is standard input.",
)
@options.no_split
@option(
    "--out",
    "-o",
    aliases=["--output"],
    metavar="FILE",
    group="Result",
    help="Output file: .tsv or .jsonl, also .gz, .bz2, .xz, .zst. Default: TSV to standard output.",
)
@option("--tag", default="<BT>", metavar="TEXT", group="Result", help='Prefix of each synthetic source; "" for none.')
@options.resume_options
@options.filter_options
@option("--beam-size", "-b", type=int, group="Search", help="Beam size. Default: 1, greedy search.")
@options.sampling_options
def augment(
    models: tuple[str, ...], source_language: str, to: str, device: str, texts: tuple[str, ...], no_split: bool,
    out: str | None, tag: str, resume: bool, overwrite: bool, min_score: float | None, length_ratio: float,
    max_tokens: int | None, batch_tokens: int | None, **search: Any,
) -> None:  # fmt: skip
    """Back-translate monolingual text into training pairs.

    To train en-de on more German text, translate it with a de-en model: the source of each pair is the machine's
    English after a tag, the target is your German line. Blank lines, overlong lines and failed translations give no
    pair; the summary at the end says how many and why."""
    from headway.files.text_files import read_lines

    check_options(texts, out, tag, resume, overwrite)
    if not (models or source_language or to):
        raise click.UsageError("name the model: --model, or --from and --to.", click.get_current_context())
    streams = [read_lines(text) for text in texts]  # report a missing file before loading a model
    if resume and is_complete(out):
        return
    from headway.storage.registry import choose_models
    from headway.translate.options import TranslateOptions
    from headway.translate.translator import load_choice
    from headway.workflows.back_translation import BackTranslation, format_pairs

    choice = choose_models(models, source_language, to)
    translator = load_choice(choice, device)
    to = choice.target
    translator.batch_tokens = batch_tokens or translator.batch_tokens
    settings = translator.search(**{**search, "beam_size": 1 if search["beam_size"] is None else search["beam_size"]})
    refuse_reversed_name(out, translator.config, to)
    back_translation = BackTranslation(
        translator=translator,
        options=TranslateOptions(target=to, split_sentences=not no_split, search=settings),
        tag=tag,
        pair_filter=make_pair_filter(translator, to, min_score, length_ratio, max_tokens),
    )  # fmt: skip
    file_options = PairFileOptions(resume, overwrite, options_fixed_on_resume(CHANGEABLE_ON_RESUME))
    group_size = max(1, translator.batch_tokens // TOKENS_PER_LINE)
    write_pairs(chain.from_iterable(streams), back_translation, out, file_options, group_size, format_pairs)


def check_options(texts: tuple[str, ...], out: str | None, tag: str, resume: bool, overwrite: bool) -> None:
    """Refuse options that contradict each other, before a model is loaded."""
    from headway.data.parallel_files import JSONL_SUFFIXES, TSV_SUFFIXES, strip_compression

    context = click.get_current_context()
    if (resume or overwrite) and not out:
        raise click.UsageError("--resume and --overwrite need --out.", context)
    if out and Path(strip_compression(out)).suffix.lower() not in (*TSV_SUFFIXES, *JSONL_SUFFIXES):
        raise click.UsageError(
            f"--out is {out}: it must end in .tsv or .jsonl, optionally followed by .gz, .bz2, .xz or .zst.", context
        )
    check_files(texts, out, resume, overwrite)
    if set(tag) & set("\t\r\n"):
        raise click.UsageError("--tag must not contain tabs or line breaks.", context)


def refuse_reversed_name(out: str | None, config: "Config", to: str) -> None:
    """Training reads the languages of the columns from a name like x.en-de.tsv, so the name must be right."""
    from headway.data.parallel_files import languages_from_filename

    if not out:
        return
    first, second = languages_from_filename(out)
    targets = [to] if to else config.target_languages
    if first in config.source_languages and first not in targets and second in targets:
        raise click.UsageError(
            f"the name {Path(out).name} says that {first} comes first, but {second} does: the machine writes the "
            f"source. Name it {second}-{first}.",
            click.get_current_context(),
        )
