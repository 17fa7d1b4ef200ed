"""`headway attend`: attention weights of each head, as a heat map, numbers or a picture."""

import sys
from typing import TYPE_CHECKING, Any, Literal

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.terminal import colour_depth, is_interactive, log, make_console, open_output, stdout_columns

if TYPE_CHECKING:
    from rich.text import Text

    from headway.inspect.attention import AttentionMap


@click.command(
    "attend",
    cls=Verb,
    examples=[
        ('headway attend --model my-model "A dog runs." --png dog.png', "a picture of all heads"),
        ('headway attend --model my-model "A dog runs." --kind cross --layer 2 --head 1', "one head in the terminal"),
        ('headway attend --model my-model "A dog runs." --numbers > weights.tsv', "the weights themselves"),
        ("headway attend --trace traced --svg dog.svg", "from a saved trace"),
        ("headway attend --model my-vit --image cat.png --png where.png", "which patches of a picture are looked at"),
    ],
)
@click.argument("text", required=False)
@options.model
@options.direction
@options.device
@option(
    "--trace", "traced", metavar="DIR", group="Model", help="Read a trace saved by headway trace, instead of a model."
)
@option("--image", metavar="FILE", group="Model", help="Look at this picture, with a model of pictures.")
@option(
    "--kind",
    type=click.Choice(["encoder", "decoder", "cross", "nodes"]),
    group="Selection",
    help="Encoder or decoder self-attention, cross-attention, or that to the nodes of a graph. Default: one of the "
    "last two, or what the model has.",
)
@option("--layer", type=click.IntRange(min=1), group="Selection", help="Layer, counted from 1. Default: the last.")
@option(
    "--head",
    type=click.IntRange(min=1),
    group="Selection",
    help="Head, counted from 1. Default: the mean of all; each head in a picture.",
)
@option("--numbers", is_flag=True, group="Result", help="Print the weights as numbers; as TSV to a file or pipe.")
@options.pictures
def attend(
    text: str | None, model: str | None, source_language: str, to: str, device: str, traced: str | None,
    image: str | None, kind: Literal["encoder", "decoder", "cross", "nodes"] | None, layer: int | None,
    head: int | None, numbers: bool, png: str | None, svg: str | None,
) -> None:  # fmt: skip
    """Show attention weights, in the terminal or as a picture.

    Rows are queries, columns are keys. A row of the decoder is labelled with the token that it is about to write. A
    translator translates the text first; a language model only reads it. Of a picture: how much the class token attends
    to each patch."""
    files = picture_files(png, svg)
    if image:
        if text or traced or kind not in (None, "encoder") or not model:
            raise click.UsageError("--image needs --model, and no text or trace.", click.get_current_context())
        return show_patches(model, image, device, layer or 0, head, numbers, files)
    attention = load_attention(text, model, (source_language, to), device, traced, kind, layer or 0)
    if head and head > len(attention.weights):
        from headway.errors import HeadwayError

        raise HeadwayError(f"there is no head {head}: this layer has heads 1 to {len(attention.weights)}.")
    log(attention.text)
    if files:
        from headway.inspect.plots import draw_attention

        for file in files:
            draw_attention(attention, file, head or 0)
            log(f"wrote {file}")
        return
    from headway.inspect import terminal_plots

    weights = attention.weights[head - 1] if head else attention.weights.mean(0)
    width = stdout_columns()
    if not numbers:
        print_picture(terminal_plots.render_heatmap(attention, weights, width, coloured=bool(colour_depth(sys.stdout))))
        return
    with open_output(None) as sink:
        if is_interactive(sink):
            print(terminal_plots.render_numbers(attention, weights, width), file=sink)
        else:
            print(format_tsv(attention, weights), file=sink)


def show_patches(
    model: str, image: str, device: str, layer: int, head: int | None, numbers: bool, files: list[str]
) -> None:
    """Where a model of pictures looks."""
    from headway.errors import HeadwayError
    from headway.inspect.patch_plots import draw_patches, render_patches
    from headway.translate.picture_model import PictureModel
    from headway.translate.translator import load

    loaded = load(model, device)
    if not isinstance(loaded, PictureModel):
        raise HeadwayError(f"{model} reads no pictures. Train one that does: headway train --images FOLDER")
    attention = loaded.attention(image, layer)
    if head and head > len(attention.weights):
        raise HeadwayError(f"there is no head {head}: this layer has heads 1 to {len(attention.weights)}.")
    log("\t".join(f"{label} {probability:.4f}" for label, probability in loaded.predict([image], 3)[0].labels))
    for file in files:
        draw_patches(attention, file, head or 0)
        log(f"wrote {file}")
    if files:
        return
    weights = attention.weights[head - 1] if head else attention.weights.mean(0)
    with open_output(None) as sink:
        if numbers:
            print("\n".join("\t".join(f"{weight:.6f}" for weight in row) for row in weights), file=sink)
        else:
            print(render_patches(weights), file=sink)


def load_attention(
    text: str | None, model: str | None, direction: tuple[str, str], device: str, traced: str | None,
    kind: Literal["encoder", "decoder", "cross", "nodes"] | None, layer: int,
) -> "AttentionMap":  # fmt: skip
    """Run a model on the text, or read a saved trace."""
    if (traced and (model or any(direction))) or bool(traced) == (text is not None):
        raise click.UsageError("give TEXT for a model, or --trace alone.", click.get_current_context())
    from headway.inspect.attention import compute_attention, read_attention

    if traced:
        from headway.inspect.trace import load_trace

        return read_attention(load_trace(traced), kind, layer)
    from headway.storage.registry import choose_models
    from headway.translate.translator import load_single

    assert text is not None
    choice = choose_models([model] if model else [], *direction)
    return compute_attention(load_single(choice.paths[0], device), text, kind, layer, *choice.direction)


def picture_files(png: str | None, svg: str | None) -> list[str]:
    """The picture files to write; each must have the suffix of its option."""
    for name, file in (("png", png), ("svg", svg)):
        if file and not file.lower().endswith(f".{name}"):
            raise click.UsageError(f"--{name}: {file} does not end in .{name}.", click.get_current_context())
    return [file for file in (png, svg) if file]


def print_picture(picture: "Text") -> None:
    """Print in as many colours as standard output supports, or as plain characters."""
    with open_output(None) as sink:
        if colour_depth(sink):
            make_console(sink).print(picture, soft_wrap=True)
        else:
            print(picture.plain, file=sink)


def format_tsv(attention: "AttentionMap", weights: Any) -> str:
    """All weights as TSV, with a header row."""
    from headway.inspect.attention import format_token

    rows = [["", *map(format_token, attention.keys)]]
    rows += [
        [format_token(query), *(f"{weight:.6f}" for weight in row)] for query, row in zip(attention.queries, weights)
    ]
    return "\n".join("\t".join(row) for row in rows)
