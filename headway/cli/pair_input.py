"""Sentence pairs from the files that a verb was given: --source and --target, or --pairs."""

from collections.abc import Iterator
from pathlib import Path

import click

from headway.cli.terminal import log


def check_pair_files(
    source: str | None,
    target: str | None,
    pairs: str | None,
    columns: tuple[str, str] | None,
    output: str | Path | None = None,
) -> None:
    """Refuse contradictory options and missing files, before a model is loaded."""
    from headway.files.text_files import check_readable

    context = click.get_current_context()
    if bool(source) != bool(target) or bool(source) == bool(pairs):
        raise click.UsageError("give --source and --target, or --pairs.", context)
    if columns and not pairs:
        raise click.UsageError("--columns needs --pairs.", context)
    files = [path for path in (source, target, pairs) if path]
    for path in files:
        check_readable(path)
    if output and Path(output).resolve() in [Path(path).resolve() for path in files]:
        raise click.UsageError("--out is one of the input files: choose another file.", context)


def read_given_pairs(
    source: str | None, target: str | None, pairs: str | None, languages: tuple[str, str],
    columns: tuple[str, str] | None,
) -> Iterator[tuple[str, str]]:  # fmt: skip
    """The pairs, stripped. What was found out about the layout of a table is logged."""
    from headway.data.parallel_files import ParallelFiles, read_parallel, resolve_layout

    files = resolve_layout(ParallelFiles(pairs or source or "", target or "", *languages, columns=columns))
    if files.layout and files.layout.note:
        log(files.layout.note)
    return read_parallel(files)


def model_languages(path: str, direction: tuple[str, str]) -> tuple[str, str]:
    """The languages of both sides of a model: those asked for, or the only ones it has."""
    from headway.storage.summary import read_summary

    read = read_summary(Path(path))
    known = (read[0].source_languages, read[0].target_languages) if read else ((), ())
    source, target = (given or (names[0] if len(names) == 1 else "") for given, names in zip(direction, known))
    return source, target
