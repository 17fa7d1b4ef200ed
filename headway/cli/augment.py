"""`headway augment`: pairs from text in one language."""

import math
import sys
import time
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import options
from headway.cli.progress import clock, columns
from headway.cli.root import Verb, option
from headway.cli.terminal import log, opened, shows_progress

if TYPE_CHECKING:
    from headway.config import Config
    from headway.data.growing import Begin, Counts

LIVE_EVERY, LOG_EVERY = 0.5, 30.0  # seconds
MAY_DIFFER = ("out", "resume", "overwrite", "device", "batch_tokens")
TOKENS_A_LINE = 8  # low, so that a group fills several batches of like lengths


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
@option("--resume", is_flag=True, group="Result", help="Go on where a stopped run left off.")
@option("--overwrite", is_flag=True, group="Result", help="Start anew, whatever is there.")
@option(
    "--min-score",
    type=float,
    metavar="X",
    group="Drop",
    help="Pairs below this mean log-probability of a token, as in -1.5.",
)
@option(
    "--length-ratio",
    type=click.FloatRange(min=1),
    default=3.0,
    metavar="X",
    group="Drop",
    help="Pairs with one side so many times longer in tokens.",
)
@option(
    "--longest",
    type=click.IntRange(min=1),
    metavar="N",
    group="Drop",
    help="Lines of more tokens. Default: the longest that the model has learned.",
)
@option("--beam-size", "-b", type=int, group="Search", help="Hypotheses followed. Default: 1, which is greedy.")
@options.drawing
def augment(
    models: tuple[str, ...], source_language: str, to: str, device: str, texts: tuple[str, ...], no_split: bool,
    out: str | None, tag: str, resume: bool, overwrite: bool, min_score: float | None, length_ratio: float, longest: int | None,
    batch_tokens: int | None, **search: Any,
) -> None:  # fmt: skip
    """Make pairs from text in one language, by back-translation.

    To train en-de with more German text, a de-en model translates it: each pair has the machine's English, behind a
    tag, as its source, and your German line as its target. Blank and overlong lines and translations that went wrong
    give no pair; how many, and why, is told at the end."""
    from headway.data.files import read_lines

    refuse(texts, out, tag, resume, overwrite)
    if not (models or source_language or to):
        raise click.UsageError("name the model: --model, or --from and --to.", click.get_current_context())
    streams = [read_lines(text) for text in texts]  # a missing file is told before a model is loaded
    if resume and out and Path(out).exists() and not Path(f"{out}.partial").exists():
        log(f"{out} is complete: nothing is left to do")
        return
    from headway.augment import BackTranslation, Standards, no_counts, written
    from headway.augment import augment as groups
    from headway.data.growing import GrowingFile
    from headway.installed import choose
    from headway.translator import load_translator

    choice = choose(models, source_language, to)
    translator, to = load_translator(choice.paths, device, direction=choice.direction), choice.target
    translator.batch_tokens = batch_tokens or translator.batch_tokens
    settings = translator.search(**{**search, "beam_size": 1 if search["beam_size"] is None else search["beam_size"]})
    room = translator.config.train.longest - len(translator.tag(to)) - 1
    refuse_reversed_name(out, translator.config, to)
    standards = Standards(
        longest=min(longest or room, room),
        least_score=-math.inf if min_score is None else min_score,
        most_ratio=length_ratio,
    )
    way = BackTranslation(
        translator=translator, search=settings, standards=standards, tag=tag, to=to, split=not no_split
    )  # fmt: skip
    begin: Begin = "overwrite" if overwrite else "resume" if resume else "new"
    file = GrowingFile(Path(out), begin, given_options(), no_counts()) if out else None
    counts = file.counts if file else no_counts()
    meter = Meter(counts["lines"])
    with file or nullcontext(), opened(None) as stdout:
        try:
            at_once = max(1, translator.batch_tokens // TOKENS_A_LINE)
            for pairs, so_far in groups(chain.from_iterable(streams), way, counts, at_once):
                text = written(pairs, out or "")
                if file:
                    file.add(text, so_far)
                else:
                    stdout.write(text)
                    stdout.flush()
                meter.tell(so_far)
                counts = so_far
        except (KeyboardInterrupt, SystemExit):
            meter.clear()
            if file:
                log(f"the same command with --resume goes on after line {file.counts['lines']:,}")
            raise
        meter.clear()
        if file:
            file.finish()
    tell(counts, out)


def given_options() -> dict[str, Any]:
    """What must be the same for a run to go on, by the names of the options."""
    context = click.get_current_context()
    return {
        max(parameter.opts, key=len): context.params[parameter.name]
        for parameter in context.command.params
        if parameter.name in context.params and parameter.name not in MAY_DIFFER
    }


def refuse(texts: tuple[str, ...], out: str | None, tag: str, resume: bool, overwrite: bool) -> None:
    """Options that do not go together."""
    from headway.data.parallel import OBJECTS, TABLES, unpacked

    context = click.get_current_context()
    if (resume or overwrite) and not out:
        raise click.UsageError("--resume and --overwrite are about a file: name it with --out.", context)
    if resume and overwrite:
        raise click.UsageError("--resume goes on and --overwrite starts anew: choose one.", context)
    if out and Path(unpacked(out)).suffix.lower() not in (*TABLES, *OBJECTS):
        raise click.UsageError(
            f"--out is {out}, and pairs go to a file whose name ends in .tsv or .jsonl, with or without .gz, .xz, .zst.",
            context,
        )
    if out and Path(out).resolve() in [Path(text).resolve() for text in texts]:
        raise click.UsageError("--out is one of the files of --text: name another.", context)
    if "-" in texts and sys.stdin is None:
        raise click.UsageError("standard input is closed: give a file to --text.", context)
    if set(tag) & set("\t\r\n"):
        raise click.UsageError(
            "--tag holds a tab or a line break, which end a cell of the file: leave them out.", context
        )


def refuse_reversed_name(out: str | None, config: "Config", to: str) -> None:
    """Training takes the languages of the columns from a name like x.en-de.tsv: it must not say the contrary."""
    from headway.data.parallel import languages_of

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


class Meter:
    """How far it is: a live line on a terminal, a line now and then elsewhere."""

    def __init__(self, done: int) -> None:
        self.before = done
        self.begun = self.told = time.monotonic()
        self.live = shows_progress()

    def tell(self, counts: "Counts") -> None:
        now = time.monotonic()
        if now - self.told < (LIVE_EVERY if self.live else LOG_EVERY):
            return
        self.told = now
        rate = (counts["lines"] - self.before) / (now - self.begun)
        line = f"{counts['lines']:,} lines  {counts['pairs']:,} pairs  {rate:.1f} lines/s  {clock(now - self.begun)}"
        if self.live:
            sys.stderr.write(f"\r\x1b[2K{line[: columns() - 1]}")
            sys.stderr.flush()
        else:
            log(line)

    def clear(self) -> None:
        if self.live:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()


def tell(counts: "Counts", out: str | None) -> None:
    """What became of the lines."""
    from headway.augment import REASONS

    log(f"{counts['lines']:,} lines, {counts['pairs']:,} pairs{f' in {out}' if out else ''}")
    left_out = [f"{counts[reason]:,} {told}" for reason, told in REASONS.items() if counts[reason]]
    if left_out:
        log("left out: " + ", ".join(left_out))
    if not counts["pairs"]:
        log("there is not one pair: is this the model that translates from the language of the text?", "warning")
