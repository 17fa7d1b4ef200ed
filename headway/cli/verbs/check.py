"""`headway check`: find faults in a parallel corpus before training."""

import json
import sys
from pathlib import Path
from typing import Any

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.check_report import LiveCount, format_count, print_findings, print_findings_table, suggest_next_command
from headway.cli.terminal import log


@click.command(
    "check",
    cls=Verb,
    examples=[
        ("headway check --source train.en --target train.de", "report faults, with line numbers and examples"),
        ("headway check --pairs train.en-de.tsv.xz --clean clean.en-de.tsv", "and write the pairs without faults"),
        (
            "headway check --source train.en --target train.de --valid-source val.en --valid-target val.de "
            "--test-source test.en --test-target test.de",
            "also check for overlap with validation and test text",
        ),
        ("headway check --pairs train.en-de.tsv --json", "for programs: every finding with all its lines"),
    ],
)
@option("--source", "-s", multiple=True, metavar="FILE", group="Text", help="Source text; repeat for more corpora.")
@option("--target", "-t", multiple=True, metavar="FILE", group="Text", help="Its translation, line by line.")
@option("--pairs", multiple=True, metavar="FILE", group="Text", help=f"Both sides in one file: {options.PAIR_FORMATS}.")
@options.columns
@option(
    "--from",
    "source_language",
    default="",
    show_default=False,
    metavar="LANG",
    group="Text",
    help="Source language. Default: from the file name, otherwise detected.",
)
@option(
    "--to",
    "target_language",
    default="",
    show_default=False,
    metavar="LANG",
    group="Text",
    help="Target language, likewise.",
)
@option(
    "--valid-source",
    multiple=True,
    metavar="FILE",
    group="Held out",
    help="Validation text that must not be in the corpus.",
)
@option("--valid-target", multiple=True, metavar="FILE", group="Held out", help="Its translation.")
@option("--valid-pairs", multiple=True, metavar="FILE", group="Held out", help="Both in one file.")
@option(
    "--test-source", multiple=True, metavar="FILE", group="Held out", help="Test text that must not be in the corpus."
)
@option("--test-target", multiple=True, metavar="FILE", group="Held out", help="Its translation.")
@option("--test-pairs", multiple=True, metavar="FILE", group="Held out", help="Both in one file.")
@option(
    "--max-ratio",
    type=float,
    default=3.0,
    group="Limits",
    help="Largest factor between a pair's length ratio and the corpus's typical one.",
)
@option("--max-words", type=int, default=250, group="Limits", help="Longest side in words.")
@option(
    "--max-doubt",
    "doubt",
    aliases=["--doubt"],
    type=float,
    default=0.5,
    group="Limits",
    help="Probability of not being a translation from which a pair is a fault.",
)
@option(
    "--clean",
    type=click.Path(path_type=Path),
    metavar="FILE",
    group="Result",
    help="Write the pairs without faults: .tsv, also .gz, .bz2, .xz, .zst.",
)
@option(
    "--keep",
    multiple=True,
    metavar="NAME",
    group="Result",
    help="Keep pairs with this fault, named as in --json; may be repeated.",
)
@option(
    "--examples", "example_count", type=click.IntRange(min=0), default=2, group="Result", help="Examples per finding."
)
@option("--json", "as_json", is_flag=True, group="Result", help="Print one JSON object.")
@option("--strict", is_flag=True, group="Result", help="Exit with 1 if any fault is found that is not in --keep.")
@option("--workers", type=click.IntRange(0, 1024), default=0, group="Result", help="Processes; 0: one per core.")
def check(
    columns: tuple[str, str] | None, source_language: str, target_language: str, clean: Path | None, example_count: int,
    as_json: bool, strict: bool, **given: Any,
) -> None:  # fmt: skip
    """Check a parallel corpus for faults before training.

    Reports, with line numbers and examples: lines that are not UTF-8 or contain NULs, empty sides, copies, swapped
    sides, wrong scripts and languages, implausible lengths, pairs that are not translations, duplicates, and overlap
    with validation and test text. Files of unequal length are refused, with the line where they drift apart."""
    from headway.data.check import CheckSettings
    from headway.data.check import check as check_corpora
    from headway.data.check.examples import find_examples
    from headway.data.check.inputs import InputFiles, find_languages
    from headway.data.check.report import report_to_json
    from headway.data.check.write_clean import check_output, write_clean

    named = (source_language, target_language)
    if columns and not any(given[name] for name in ("pairs", "valid_pairs", "test_pairs")):
        raise click.UsageError("--columns needs --pairs.", click.get_current_context())
    corpora, valid, test = (
        InputFiles(
            given.pop(f"{part}source"), given.pop(f"{part}target"), given.pop(f"{part}pairs"), part.replace("_", "-")
        ).corpora(columns, named)
        for part in ("", "valid_", "test_")
    )
    languages = find_languages(corpora)
    settings = CheckSettings(source_language=languages[0], target_language=languages[1], **given)
    if clean:
        check_output(clean, [*corpora, *valid, *test])
    with LiveCount() as progress:
        report = check_corpora(corpora, settings, valid=valid, test=test, progress=progress.show)
        progress.show("reading again", 0, 0)
        examples = find_examples(report, example_count)
        if clean:
            write_clean(report, clean, settings.keep)
    if as_json:
        click.echo(json.dumps(report_to_json(report, examples, settings.keep, str(clean or "")), ensure_ascii=False))
    else:
        names = " and ".join(report.languages) if all(report.languages) else "of unknown languages"
        title = str(corpora[0]) if len(corpora) == 1 else f"{len(corpora)} corpora"
        log(f"{title}: {format_count(report.pairs, 'pair')}, {names}")
        print_findings_table(report, settings.keep)
        print_findings(report, examples, clean, int((~report.clean(settings.keep)).sum()))
        for note in report.notes:
            log(note)
        next_command = suggest_next_command(report, clean, settings.keep, ["headway", *sys.argv[1:]])
        log(f"next: {next_command}" if next_command else "no pair remains to train on: see the examples above")
    if strict and not report.clean(settings.keep).all():
        sys.exit(1)
