"""`headway draw`: masks and positions, before anything is trained."""

import shutil
import sys
from typing import Literal

import click

from headway.cli.app import Verb, option
from headway.cli.terminal import colour_depth, log
from headway.cli.verbs.attend import pictures, show


@click.command(
    "draw",
    cls=Verb,
    examples=[
        ('headway draw mask "causal & local(4)"', "who may look at whom, in the terminal"),
        ('headway draw mask "causal & local(4)" --length 16 --png mask.png', "as a picture"),
        ("headway draw position sinusoidal --d-model 64 --length 50 --png waves.png", "a positional encoding"),
        ("headway draw position alibi --heads 8 --head 2", "what it does to the scores of one head"),
    ],
)
@click.argument("what", type=click.Choice(["mask", "position"]))
@click.argument("value")
@option("--length", type=click.IntRange(1, 4096), default=24, group="What", help="So many positions.")
@option("--d-model", type=click.IntRange(1, 16_384), default=64, group="What", help="Of a position: the channels.")
@option("--heads", type=click.IntRange(1, 1024), default=8, group="What", help="Of one that acts on scores: the heads.")
@option("--head", type=click.IntRange(min=1), default=1, group="What", help="Which of them, counted from 1.")
@option("--png", metavar="FILE", group="Result", help="Draw a picture instead.")
@option("--svg", metavar="FILE", group="Result", help="The same as vectors; both can be given.")
def draw(
    what: Literal["mask", "position"], value: str, length: int, d_model: int, heads: int, head: int,
    png: str | None, svg: str | None,
) -> None:  # fmt: skip
    """Draw a mask or a position, in the terminal or as a picture.

    VALUE is written as in a config. A mask is marked where looking is allowed. A position that is added to the input
    is drawn by position and channel; one that acts on scores by query and key, as the score of two equal vectors; one
    that learns a table of distances by which of its columns a pair meets."""
    files = pictures(png, svg)
    from headway.inspect import terminal_plots
    from headway.inspect.plots import draw_mask, draw_table
    from headway.inspect.positions import position_table
    from headway.nn.masks.masks import dense_mask, make_mask

    width, coloured = shutil.get_terminal_size((80, 24)).columns, bool(colour_depth(sys.stdout))
    if what == "mask":
        mask = make_mask(value)
        for file in files:
            draw_mask(mask, length, file)
        picture = terminal_plots.mask_picture(dense_mask(mask, length).numpy(), width, coloured)
    else:
        table = position_table(value, length, d_model, heads, head)
        for file in files:
            draw_table(table, file)
        picture = terminal_plots.table_picture(table.values, width, table.rows, table.columns, coloured)
        log(table.title)
    for file in files:
        log(f"drawn to {file}")
    if not files:
        show(picture)
