"""`headway attend`: where each head looks."""

import shutil
import sys
from typing import TYPE_CHECKING, Any, Literal

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.terminal import colour_depth, console, is_watched, log, opened

if TYPE_CHECKING:
    from rich.text import Text

    from headway.inspect.attention import Attended


@click.command(
    "attend",
    cls=Verb,
    examples=[
        ('headway attend --model my-model "A dog runs." --png dog.png', "a picture of all heads"),
        ('headway attend --model my-model "A dog runs." --kind cross --layer 2 --head 1', "one head in the terminal"),
        ('headway attend --model my-model "A dog runs." --numbers > weights.tsv', "the weights themselves"),
        ("headway attend --trace traced --svg dog.svg", "of a trace that was saved"),
    ],
)
@click.argument("text", required=False)
@options.model
@options.direction
@options.device
@option("--trace", "traced", metavar="DIR", group="Model", help="What headway trace has saved, instead of a model.")
@option(
    "--kind",
    type=click.Choice(["encoder", "decoder", "cross"]),
    group="What",
    help="Source on itself, target on itself, or target on source. Default: cross, or what the model has.",
)
@option("--layer", type=click.IntRange(min=1), group="What", help="Counted from 1. Default: the last.")
@option(
    "--head",
    type=click.IntRange(min=1),
    group="What",
    help="Counted from 1. Default: their mean, and all in a picture.",
)
@option("--numbers", is_flag=True, group="Result", help="Write every weight; as TSV into a file or pipe.")
@option("--png", metavar="FILE", group="Result", help="Draw a picture instead.")
@option("--svg", metavar="FILE", group="Result", help="The same as vectors; both can be given.")
def attend(
    text: str | None, model: str | None, source_language: str, to: str, device: str, traced: str | None,
    kind: Literal["encoder", "decoder", "cross"] | None, layer: int | None, head: int | None, numbers: bool,
    png: str | None, svg: str | None,
) -> None:  # fmt: skip
    """Show where each head looks, in the terminal or as a picture.

    Rows are what listens, columns what is heard. A row of the decoder is named by the token that it is about to
    write. A translator translates the text first; a language model only reads it."""
    files = pictures(png, svg)
    found = looked(text, model, (source_language, to), device, traced, kind, layer or 0)
    if head and head > len(found.weights):
        from headway.errors import HeadwayError

        raise HeadwayError(f"there is no head {head}: this layer has 1 to {len(found.weights)}.")
    log(found.text)
    if files:
        from headway.inspect.plots import draw_attention

        for file in files:
            draw_attention(found, file, head or 0)
            log(f"drawn to {file}")
        return
    from headway.inspect import terminal_plots

    weights = found.weights[head - 1] if head else found.weights.mean(0)
    width = shutil.get_terminal_size((80, 24)).columns
    if not numbers:
        show(terminal_plots.heatmap(found, weights, width, coloured=bool(colour_depth(sys.stdout))))
        return
    with opened(None) as sink:
        print(terminal_plots.numbers(found, weights, width) if is_watched(sink) else tsv(found, weights), file=sink)


def looked(
    text: str | None, model: str | None, direction: tuple[str, str], device: str, traced: str | None,
    kind: Literal["encoder", "decoder", "cross"] | None, layer: int,
) -> "Attended":  # fmt: skip
    """By a model that is run, or out of a trace."""
    if (traced and (model or any(direction))) or bool(traced) == (text is not None):
        raise click.UsageError("give a text for a model, or --trace alone.", click.get_current_context())
    from headway.inspect.attention import attended, attention

    if traced:
        from headway.inspect.trace import load_trace

        return attended(load_trace(traced), kind, layer)
    from headway.storage.registry import choose
    from headway.translate.translator import load

    assert text is not None
    choice = choose([model] if model else [], *direction)
    return attention(load(choice.paths[0], device), text, kind, layer, choice.target)


def pictures(png: str | None, svg: str | None) -> list[str]:
    """The files to draw, each with the ending that its option promises."""
    for name, file in (("png", png), ("svg", svg)):
        if file and not file.lower().endswith(f".{name}"):
            raise click.UsageError(f"--{name}: {file} does not end in .{name}.", click.get_current_context())
    return [file for file in (png, svg) if file]


def show(picture: "Text") -> None:
    """In as many colours as standard output has, or in characters alone."""
    with opened(None) as sink:
        if colour_depth(sink):
            console(sink).print(picture, soft_wrap=True)
        else:
            print(picture.plain, file=sink)


def tsv(found: "Attended", weights: Any) -> str:
    """Everything, in a form for programs."""
    from headway.inspect.attention import label

    rows = [["", *map(label, found.keys)]]
    rows += [[label(query), *(f"{weight:.6f}" for weight in row)] for query, row in zip(found.queries, weights)]
    return "\n".join("\t".join(row) for row in rows)
