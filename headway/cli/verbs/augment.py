"""`headway augment`: pairs from text in one language."""

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
    from headway.config.config import Config

MAY_DIFFER = ("out", "resume", "overwrite", "device", "batch_tokens")


@click.command(
    "augment",
    cls=Verb,
    examples=[
        ("headway augment --model de-en --text mono.de --out mono.en-de.tsv", "pairs to train en-de with"),
        ("headway augment --model de-en --text mono.de --out mono.en-de.tsv --resume", "go on after an interruption"),
        (
            "headway augment --model de-en --text a.de --text b.de.xz --out mono.en-de.tsv.zst --sample --seed 1",
            "several files, packed; varied output",
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
    help="Model directory or name, of the other direction; several make an ensemble. Default: by --from and --to.",
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
    help="Text in the language that you want to translate into; - is standard input.",
)
@option("--no-split", is_flag=True, group="Text", help="Take each line as one sentence.")
@option(
    "--out",
    "-o",
    metavar="FILE",
    group="Result",
    help="Where the pairs go: .tsv or .jsonl, also .gz, .xz, .zst. Default: standard output, as TSV.",
)
@option(
    "--tag", default="<BT>", metavar="TEXT", group="Result", help='Put before each machine-made source; "" for none.'
)
@options.going_on
@options.dropping
@option("--beam-size", "-b", type=int, group="Search", help="Hypotheses followed. Default: 1, which is greedy.")
@options.drawing
def augment(
    models: tuple[str, ...], source_language: str, to: str, device: str, texts: tuple[str, ...], no_split: bool,
    out: str | None, tag: str, resume: bool, overwrite: bool, min_score: float | None, length_ratio: float,
    longest: int | None, batch_tokens: int | None, **search: Any,
) -> None:  # fmt: skip
    """Make pairs from text in one language, by back-translation.

    To train en-de with more German text, a de-en model translates it: each pair has the machine's English, behind a
    tag, as its source, and your German line as its target. Blank and overlong lines and translations that went wrong
    give no pair; how many, and why, is told at the end."""
    from headway.files.text_files import read_lines

    refuse(texts, out, tag, resume, overwrite)
    if not (models or source_language or to):
        raise click.UsageError("name the model: --model, or --from and --to.", click.get_current_context())
    streams = [read_lines(text) for text in texts]  # a missing file is told before a model is loaded
    if resume and is_complete(out):
        return
    from headway.storage.registry import choose
    from headway.translate.translator import load_translator
    from headway.workflows.back_translation import BackTranslation, written

    choice = choose(models, source_language, to)
    translator, to = load_translator(choice.paths, device, direction=choice.direction), choice.target
    translator.batch_tokens = batch_tokens or translator.batch_tokens
    settings = translator.search(**{**search, "beam_size": 1 if search["beam_size"] is None else search["beam_size"]})
    refuse_reversed_name(out, translator.config, to)
    way = BackTranslation(
        translator=translator, search=settings, tag=tag, to=to, split=not no_split,
        standards=standards_for(translator, to, min_score, length_ratio, longest),
    )  # fmt: skip
    grow(
        chain.from_iterable(streams), way, out, Growing(resume, overwrite, given_options(MAY_DIFFER)),
        max(1, translator.batch_tokens // TOKENS_A_LINE), written,
    )  # fmt: skip


def refuse(texts: tuple[str, ...], out: str | None, tag: str, resume: bool, overwrite: bool) -> None:
    """Options that do not go together."""
    from headway.data.parallel_files import OBJECTS, TABLES, unpacked

    context = click.get_current_context()
    if (resume or overwrite) and not out:
        raise click.UsageError("--resume and --overwrite are about a file: name it with --out.", context)
    if out and Path(unpacked(out)).suffix.lower() not in (*TABLES, *OBJECTS):
        raise click.UsageError(
            f"--out is {out}, and pairs go to a file whose name ends in .tsv or .jsonl, with or without .gz, .xz, .zst.",
            context,
        )
    refuse_for_file(texts, out, resume, overwrite)
    if set(tag) & set("\t\r\n"):
        raise click.UsageError(
            "--tag holds a tab or a line break, which end a cell of the file: leave them out.", context
        )


def refuse_reversed_name(out: str | None, config: "Config", to: str) -> None:
    """Training takes the languages of the columns from a name like x.en-de.tsv: it must not say the contrary."""
    from headway.data.parallel_files import languages_of

    if not out:
        return
    first, second = languages_of(out)
    targets = [to] if to else config.target_languages
    if first in config.source_languages and first not in targets and second in targets:
        raise click.UsageError(
            f"the name {Path(out).name} says that {first} stands first, but the machine's {second} does. "
            f"Write {second}-{first} there.",
            click.get_current_context(),
        )
