"""From the options of `headway train` to a call of `headway.train`, and what is printed around it."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.terminal import log

if TYPE_CHECKING:
    from headway.train.sources import TrainingFiles


def read_assignments(texts: tuple[str, ...]) -> dict[str, Any]:
    """--set options as one table; of two for the same setting, the later counts."""
    from headway.config.sources import split_assignment

    table: dict[str, Any] = {}
    for path, value in map(split_assignment, texts):
        table.pop(path, None)
        table[path] = value
    return table


def print_settings(files: "TrainingFiles", options: dict[str, Any]) -> None:
    """--print-config"""
    from headway.config.sources import format_config
    from headway.train.options import TrainOptions
    from headway.train.training import compose_config

    config, origins, notes = compose_config(files, TrainOptions(**options))
    for note in notes:
        log(note)
    click.echo(format_config(config, origins), nl=False)


def run_training(files: "TrainingFiles", out: Path, options: dict[str, Any]) -> None:
    from headway.cli.progress import TrainingProgress, log_summary
    from headway.train.training import train

    progress = TrainingProgress()
    try:
        result = train(files, out, progress=progress, **options)
    except (KeyboardInterrupt, SystemExit):
        progress.clear()
        if progress.config is not None:  # the run had begun
            log(f"resume with: {shlex.join(['headway', *sys.argv[1:]])}")
        raise
    progress.clear()
    if progress.config is not None:  # of several processes, only the main one shows progress
        log_summary(result, progress.config)
