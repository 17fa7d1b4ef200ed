"""`headway attend`: where each head looks."""

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
@option("--to", default="", metavar="LANG", group="Model", help="Target language, where the model has several.")
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
    click.echo(heatmap(found, found.weights[head - 1] if head else found.weights.mean(0)))


def heatmap(found: "Attended", weights: Any) -> str:
    """One row a query, darker where it looks; keys are numbered and listed below."""
    names = [query.strip() or "␣" for query in found.queries]
    width = min(max(map(len, names)), 20)
    lines = [f"{'':{width}} " + "".join(f"{number:>3}" for number in range(len(found.keys)))]
    for name, row in zip(names, weights):
        cells = "".join(f"  {SHADES[min(int(weight * len(SHADES)), len(SHADES) - 1)]}" for weight in row)
        lines.append(f"{name[:width]:{width}} {cells}")
    lines.append("keys: " + " ".join(f"{number}:{key.strip() or '␣'}" for number, key in enumerate(found.keys)))
    return "\n".join(lines)
