"""`headway check`: look through a corpus before a training does."""

import json
import sys
from pathlib import Path
from typing import Any

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.check_report import Live, as_table, as_text, counted, next_command
from headway.cli.terminal import log


@click.command(
    "check",
    cls=Verb,
    examples=[
        ("headway check --source train.en --target train.de", "what is wrong with a corpus, with lines and examples"),
        ("headway check --pairs train.en-de.tsv.xz --clean clean.en-de.tsv", "and what remains without it"),
        (
            "headway check --source train.en --target train.de --valid-source val.en --valid-target val.de "
            "--test-source test.en --test-target test.de",
            "whether training would see what it is measured on",
        ),
        ("headway check --pairs train.en-de.tsv --json", "for programs: every finding with all its lines"),
    ],
)
@option("--source", "-s", multiple=True, metavar="FILE", group="Text", help="Text; more than once for more corpora.")
@option("--target", "-t", multiple=True, metavar="FILE", group="Text", help="Its translation, line by line.")
@option("--pairs", multiple=True, metavar="FILE", group="Text", help="Both sides in one file, .tsv or .jsonl.")
@options.columns
@option(
    "--from",
    "source_language",
    default="",
    show_default=False,
    metavar="LANG",
    group="Text",
    help="Language of the source; else from the file's name, else from the text.",
)
@option(
    "--to",
    "target_language",
    default="",
    show_default=False,
    metavar="LANG",
    group="Text",
    help="Language of the target, likewise.",
)
@option("--valid-source", multiple=True, metavar="FILE", group="Held out", help="Validation text: not to be in it.")
@option("--valid-target", multiple=True, metavar="FILE", group="Held out", help="Its translation.")
@option("--valid-pairs", multiple=True, metavar="FILE", group="Held out", help="Both in one file.")
@option("--test-source", multiple=True, metavar="FILE", group="Held out", help="Test text: not to be in it.")
@option("--test-target", multiple=True, metavar="FILE", group="Held out", help="Its translation.")
@option("--test-pairs", multiple=True, metavar="FILE", group="Held out", help="Both in one file.")
@option(
    "--max-ratio",
    type=float,
    default=3.0,
    group="Limits",
    help="Times by which the ratio of lengths may differ from what is usual in this corpus.",
)
@option("--max-words", type=int, default=250, group="Limits", help="Words on a side.")
@option(
    "--doubt",
    type=float,
    default=0.5,
    group="Limits",
    help="Probability from which on a pair counts as no translation.",
)
@option(
    "--clean",
    type=click.Path(path_type=Path),
    metavar="FILE",
    group="Result",
    help="Write the pairs without faults: .tsv, also .gz, .xz, .zst.",
)
@option("--keep", multiple=True, metavar="NAME", group="Result", help="A finding to leave in, by its name in --json.")
@option("--examples", "shown", type=click.IntRange(min=0), default=2, group="Result", help="Examples of each finding.")
@option("--json", "as_json", is_flag=True, group="Result", help="Print one JSON object.")
@option("--strict", is_flag=True, group="Result", help="Exit 1 when anything is found that is not to be kept.")
@option("--workers", type=click.IntRange(0, 1024), default=0, group="Result", help="Processes; 0: one a core.")
def check(
    columns: tuple[str, str] | None, source_language: str, target_language: str, clean: Path | None, shown: int,
    as_json: bool, strict: bool, **given: Any,
) -> None:  # fmt: skip
    """Look through a corpus for what would spoil a training.

    Reports, with line numbers and examples: lines that are not UTF-8 or hold NULs, empty sides, copies, swapped sides,
    wrong scripts and languages, lengths that do not fit, pairs that are no translations, duplicates, and what the
    validation and test text has too. Files of unequal length are refused, with the line where they come apart."""
    from headway.data.check import Settings
    from headway.data.check import check as look_through
    from headway.data.check.examples import find_examples
    from headway.data.check.inputs import Given, languages_in
    from headway.data.check.report import as_object
    from headway.data.check.write_clean import refuse_output, write_clean

    named = (source_language, target_language)
    if columns and not any(given[name] for name in ("pairs", "valid_pairs", "test_pairs")):
        raise click.UsageError("--columns is for files of --pairs: leave it out.", click.get_current_context())
    corpora, valid, test = (
        Given(
            given.pop(f"{part}source"), given.pop(f"{part}target"), given.pop(f"{part}pairs"), part.replace("_", "-")
        ).corpora(columns, named)
        for part in ("", "valid_", "test_")
    )
    languages = languages_in(corpora)
    settings = Settings(source_language=languages[0], target_language=languages[1], **given)
    if clean:
        refuse_output(clean, [*corpora, *valid, *test])
    with Live() as progress:
        report = look_through(corpora, settings, valid=valid, test=test, progress=progress.show)
        progress.show("reading again", 0, 0)
        examples = find_examples(report, shown)
        if clean:
            write_clean(report, clean, settings.keep)
    if as_json:
        click.echo(json.dumps(as_object(report, examples, settings.keep, str(clean or "")), ensure_ascii=False))
    else:
        names = " and ".join(report.languages) if all(report.languages) else "of unknown languages"
        what = str(corpora[0]) if len(corpora) == 1 else f"{len(corpora)} corpora"
        log(f"{what}: {counted(report.pairs, 'pair')}, {names}")
        as_table(report, settings.keep)
        as_text(report, examples, clean, int((~report.clean(settings.keep)).sum()))
        for note in report.notes:
            log(note)
        after = next_command(report, clean, settings.keep, ["headway", *sys.argv[1:]])
        log(
            f"next: {after}"
            if after
            else "no pair remains, so there is nothing to train on: look at the examples above"
        )
    if strict and not report.clean(settings.keep).all():
        sys.exit(1)
