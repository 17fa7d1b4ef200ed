"""`headway draw`: attention masks and positional encodings, without a trained model."""

import sys
from typing import Literal

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.terminal import colour_depth, log, stdout_columns
from headway.cli.verbs.attend import picture_files, print_picture


@click.command(
    "draw",
    cls=Verb,
    examples=[
        ('headway draw mask "causal & local(4)"', "which keys each query may attend to, in the terminal"),
        ('headway draw mask "causal & local(4)" --length 16 --png mask.png', "as a picture"),
        ("headway draw position sinusoidal --d-model 64 --length 50 --png waves.png", "a positional encoding"),
        ("headway draw position alibi --heads 8 --head 2", "what it does to the attention scores of one head"),
    ],
)
@click.argument("what", type=click.Choice(["mask", "position"]))
@click.argument("value")
@option("--length", type=click.IntRange(1, 4096), default=24, group="Drawing", help="Number of positions.")
@option(
    "--d-model", type=click.IntRange(1, 16_384), default=64, group="Drawing", help="Channels of a positional encoding."
)
@option(
    "--heads",
    type=click.IntRange(1, 1024),
    default=8,
    group="Drawing",
    help="Heads, for a position that acts on scores.",
)
@option("--head", type=click.IntRange(min=1), default=1, group="Drawing", help="Head to draw, counted from 1.")
@options.pictures
def draw(
    what: Literal["mask", "position"], value: str, length: int, d_model: int, heads: int, head: int,
    png: str | None, svg: str | None,
) -> None:  # fmt: skip
    """Draw an attention mask or positional encoding, in the terminal or as a picture.

    VALUE is written as in a config. A mask is marked where attention is allowed. A position that is added to the input
    is drawn by position and channel; one that acts on attention scores by query and key, as the score of two equal
    vectors; one that learns a table of distances by the column of the table that each pair uses."""
    files = picture_files(png, svg)
    from headway.inspect import terminal_plots
    from headway.inspect.plots import draw_mask, draw_table
    from headway.inspect.positions import position_table
    from headway.nn.masks.masks import dense_mask, make_mask

    width = stdout_columns()
    coloured = bool(colour_depth(sys.stdout))
    if what == "mask":
        mask = make_mask(value)
        for file in files:
            draw_mask(mask, length, file)
        picture = terminal_plots.render_mask(dense_mask(mask, length).numpy(), width, coloured)
    else:
        table = position_table(value, length, d_model, heads, head)
        for file in files:
            draw_table(table, file)
        picture = terminal_plots.render_table(table.values, width, table.rows, table.columns, coloured)
        log(table.title)
    for file in files:
        log(f"wrote {file}")
    if not files:
        print_picture(picture)
