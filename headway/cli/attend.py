"""`headway attend`: where each head looks."""

import shutil
from typing import TYPE_CHECKING, Any, Literal

import click

from headway.cli.root import Verb, option
from headway.cli.terminal import log

if TYPE_CHECKING:
    from headway.inspect.attention import Attended

SHADES = " .:-=+*#%@"


@click.command(
    "attend",
    cls=Verb,
    examples=[
        ('headway attend --model my-model "A dog runs." --png dog.png', "a picture of all heads"),
        ('headway attend --model my-model "A dog runs." --kind cross --layer 2 --head 1', "one head in the terminal"),
    ],
)
@click.argument("text")
@option("--model", "-m", required=True, metavar="DIR", group="Model", help="Model directory.")
@option(
    "--to",
    default="",
    show_default=False,
    metavar="LANG",
    group="Model",
    help="Target language, where the model has several.",
)
@option(
    "--kind",
    type=click.Choice(["encoder", "decoder", "cross"]),
    default="cross",
    group="What",
    help="Source on itself, target on itself, or target on source.",
)
@option("--layer", type=click.IntRange(min=1), group="What", help="Counted from 1. Default: the last.")
@option(
    "--head",
    type=click.IntRange(min=1),
    group="What",
    help="Counted from 1. Default: their mean, and all in a picture.",
)
@option("--png", "picture", metavar="FILE", group="Result", help="Draw a picture (.png, .svg or .pdf) instead.")
def attend(
    text: str, model: str, to: str, kind: Literal["encoder", "decoder", "cross"], layer: int | None, head: int | None,
    picture: str | None,
) -> None:  # fmt: skip
    """Show where each head looks, in the terminal or as a picture."""
    from headway.errors import HeadwayError
    from headway.inspect.attention import attention
    from headway.translator import load_translator

    found = attention(load_translator([model]), text, kind, layer or 0, to)
    if head and head > len(found.weights):
        raise HeadwayError(f"there is no head {head}: this layer has 1 to {len(found.weights)}.")
    log(found.text)
    if picture:
        from headway.inspect.pictures import draw_attention

        draw_attention(found, picture, head or 0)
        log(f"drawn to {picture}")
        return
    width = shutil.get_terminal_size((80, 24)).columns
    click.echo(heatmap(found, found.weights[head - 1] if head else found.weights.mean(0), width))


def heatmap(found: "Attended", weights: Any, width: int) -> str:
    """One row a query, darker where it looks; keys are numbered and listed below. At most `width` columns."""
    from rich.cells import cell_len, set_cell_size

    from headway.inspect.attention import label

    names = [label(query) for query in found.queries]
    margin = min(max(map(cell_len, names)), 20, width // 3)
    shown = max(1, min(len(found.keys), (width - margin - 1) // 3))
    lines = [" " * (margin + 1) + "".join(f"{number:>3}" for number in range(shown))]
    for name, row in zip(names, weights):
        cells = "".join(f"  {SHADES[min(int(weight * len(SHADES)), len(SHADES) - 1)]}" for weight in row[:shown])
        lines.append(f"{set_cell_size(name, margin)} {cells}")
    if shown < len(found.keys):
        lines.append(f"{len(found.keys) - shown} of {len(found.keys)} columns are not shown: draw all with --png FILE")
    line = "keys:"
    for number, key in enumerate(found.keys[:shown]):
        entry = f" {number}:{label(key)}"
        if cell_len(line + entry) > width:
            lines.append(line)
            line = "     "
        line += entry
    return "\n".join([*lines, line])
