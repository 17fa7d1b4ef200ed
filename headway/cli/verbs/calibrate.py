"""`headway calibrate`: a score between 0 and 1 for a model's translations."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.terminal import log, table

if TYPE_CHECKING:
    from headway.decode.types import Compute, EngineName


@click.command(
    "calibrate",
    cls=Verb,
    examples=[
        ("headway calibrate --model my-model --source valid.en --target valid.de", "with text it was not trained on"),
        ("headway calibrate --model my-model -s valid.en -t valid.de --png curve.png", "and the reliability curve"),
        ("headway translate --model my-model --min-score 0.4 < text.en", "leave out what is probably wrong"),
    ],
)
@option(
    "--model", "-m", required=True, metavar="DIR", group="Model", help="Model directory; the calibration goes there."
)
@options.target_language
@options.device
@options.engines
@option("--source", "-s", required=True, metavar="FILE", group="Text", help="Validation text.")
@option("--target", "-t", required=True, metavar="FILE", group="Text", help="Its translation, line by line.")
@option("--at-most", type=click.IntRange(min=1), default=5000, metavar="N", group="Text", help="Lines to translate.")
@option(
    "--threshold",
    type=click.FloatRange(0, 100),
    default=50.0,
    group="Score",
    help="The chrF from which on a translation is good.",
)
@option("--png", type=click.Path(path_type=Path), metavar="FILE", group="Score", help="Draw the reliability curve.")
def calibrate(
    model: str, to: str, device: str, engine: "EngineName", compute: "Compute", threads: int | None, source: str,
    target: str, at_most: int, threshold: float, png: Path | None,
) -> None:  # fmt: skip
    """Learn how likely a model's translations are good.

    Translates validation text and learns, from what the search says of each line, how likely its chrF against the
    reference reaches the threshold. One line in three is held out to measure that. The score is `confidence` in
    translate --json, and what --min-score asks for."""
    from itertools import islice

    from headway.files.text_files import read_pairs
    from headway.storage.registry import own_directory
    from headway.translate.translator import load_translator
    from headway.workflows.calibration import calibrate as learn

    pairs = list(islice(read_pairs(source, target), min(at_most, sys.maxsize)))
    model = own_directory(model)
    translator = load_translator([model], device, engine, compute, threads, lambda told: log(told, "detail"))
    learned, found = learn(translator, [a for a, _ in pairs], [b for _, b in pairs], threshold=threshold, to=to)
    path = learned.save(Path(model), (to or translator.target) if translator.outline.tags else "")
    rows = [
        (
            f"{n / len(found.bins):.1f} to {(n + 1) / len(found.bins):.1f}",
            str(b.lines),
            f"{b.score:.3f}",
            f"{b.good:.3f}",
        )
        for n, b in enumerate(found.bins)
        if b.lines
    ]
    table(("score", "lines", "mean score", "share good"), rows)
    click.echo(
        f"expected calibration error {found.error:.3f} on {found.lines:,} held-out lines, {found.good:.0%} of them good; "
        f"of a good and a bad line, the good one has the higher score in {found.ranked:.0%}"
    )
    if png:
        from headway.inspect.plots import draw_reliability

        draw_reliability(found, png)
        log(f"the curve is in {png}")
    log(f"{path} is written")
    log(f"next: headway translate --model {shlex.quote(model)} --min-score 0.4")
