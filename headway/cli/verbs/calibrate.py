"""`headway calibrate`: calibrated confidence, a probability between 0 and 1 that a translation is good."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.pair_input import check_pair_files, model_languages, read_given_pairs
from headway.cli.terminal import log, print_table

if TYPE_CHECKING:
    from headway.decode.types import Compute, EngineName


@click.command(
    "calibrate",
    cls=Verb,
    examples=[
        (
            "headway calibrate --model my-model --source valid.en --target valid.de",
            "on text that it was not trained on",
        ),
        (
            "headway calibrate --model my-model -s valid.en -t valid.de --png curve.png",
            "and draw the reliability curve",
        ),
        ("headway translate --model my-model --min-confidence 0.4 < text.en", "leave doubtful lines untranslated"),
    ],
)
@option(
    "--model",
    "-m",
    required=True,
    metavar="DIR",
    group="Model",
    help="Model directory; the calibration is saved there.",
)
@options.direction
@options.device
@options.engine_options
@option("--source", "-s", metavar="FILE", group="Text", help="Validation text in the source language.")
@option("--target", "-t", metavar="FILE", group="Text", help="Its translation, line by line.")
@options.one_pair_file
@options.columns
@option(
    "--max-lines",
    aliases=["--at-most"],
    type=click.IntRange(min=1),
    default=5000,
    metavar="N",
    group="Text",
    help="Use at most N lines.",
)
@option(
    "--threshold",
    type=click.FloatRange(0, 100),
    default=50.0,
    group="Calibration",
    help="chrF from which a translation counts as good.",
)
@option(
    "--png", type=click.Path(path_type=Path), metavar="FILE", group="Calibration", help="Draw the reliability curve."
)
def calibrate(
    model: str, source_language: str, to: str, device: str, engine: "EngineName", compute: "Compute",
    threads: int | None, source: str | None, target: str | None, pairs: str | None, columns: tuple[str, str] | None,
    max_lines: int, threshold: float, png: Path | None,
) -> None:  # fmt: skip
    """Calibrate a model's confidence on validation text.

    Translates validation text and learns to predict, from the scores of the search, the probability that a line's chrF
    against the reference reaches the threshold. One line in three is held out to measure the calibration. Afterwards
    `confidence` in translate --json is that probability, and translate --min-confidence uses it."""
    from itertools import islice

    from headway.files.text_files import read_pairs
    from headway.storage.registry import ModelChoice, writable_directory
    from headway.translate.translator import load_choice
    from headway.workflows.calibration import calibrate as fit

    check_pair_files(source, target, pairs, columns)
    model = writable_directory(model)
    languages = model_languages(model, (source_language, to))
    stream = (
        read_pairs(source, target) if source and target else read_given_pairs(None, None, pairs, languages, columns)
    )
    lines = list(islice(stream, min(max_lines, sys.maxsize)))
    choice = ModelChoice((model,), source_language)
    translator = load_choice(choice, device, engine, compute, threads, lambda message: log(message, "detail"))
    to = translator.direction_tokens(source_language, to).target
    sources, references = [pair[0] for pair in lines], [pair[1] for pair in lines]
    calibration, reliability = fit(translator, sources, references, threshold=threshold, target=to)
    path = calibration.save(Path(model), (to or translator.target) if translator.summary.tags else "")
    rows = [
        (
            f"{n / len(reliability.bins):.1f} to {(n + 1) / len(reliability.bins):.1f}",
            str(b.lines),
            f"{b.score:.3f}",
            f"{b.good:.3f}",
        )
        for n, b in enumerate(reliability.bins)
        if b.lines
    ]
    print_table(("score", "lines", "mean score", "share good"), rows)
    click.echo(
        f"expected calibration error {reliability.error:.3f} on {reliability.lines:,} held-out lines, "
        f"{reliability.good:.0%} of them good; "
        f"of a good and a bad line, the good one has the higher score in {reliability.ranked:.0%}"
    )
    if png:
        from headway.inspect.plots import draw_reliability

        draw_reliability(reliability, png)
        log(f"wrote the reliability curve to {png}")
    log(f"wrote {path}")
    log(f"next: headway translate --model {shlex.quote(model)} --min-confidence 0.4")
