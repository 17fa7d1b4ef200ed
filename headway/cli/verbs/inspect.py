"""`headway inspect`: one sentence, looked at from all sides, as files."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.terminal import log

if TYPE_CHECKING:
    from headway.inspect.trace import Trace


@click.command(
    "inspect",
    cls=Verb,
    examples=[
        ('headway inspect my-model "A dog runs." --out looked', "a page, pictures and the trace of one sentence"),
        ('headway inspect my-lm "Once" --out looked', "what a language model does with a text"),
    ],
)
@click.argument("model", metavar="DIR")
@click.argument("text")
@options.target_language
@options.device
@option("--beam-size", "-b", type=int, group="Search", help="Hypotheses followed; 1 is greedy. Default: the model's.")
@option("--out", type=click.Path(path_type=Path), required=True, metavar="DIR", group="Result", help="Folder for it.")
def inspect(model: str, text: str, to: str, device: str, beam_size: int | None, out: Path) -> None:
    """Look into one sentence: write a page that opens without a server, pictures, and the trace.

    The folder gets page.html, which shows what the page of headway serve shows; attention-KIND-LAYER, position-SIDE
    (position-SIDE-1, -2 … where layers have different ones), way-SIDE, and, where something is written, probabilities
    and beam, each as .png and .svg; trace.json and trace.safetensors."""
    from headway.errors import ConfigError
    from headway.translate.translator import Translator, load

    loaded = load(model, device)
    if isinstance(loaded, Translator):
        network, tokenizers = loaded.steppers[0].model, loaded.tokenizers
        made = loaded.trace(text, to=to, beam_size=beam_size)
        readers = {"encoder": tokenizers.source, "decoder": tokenizers.target}
    else:
        if to:
            raise ConfigError(f"{model} is a language model: --to means nothing there. Leave it out.")
        network = loaded.model
        writes = loaded.config.train.objective.kind == "causal"
        made = loaded.trace(text, **({"length": 40, "beam_size": beam_size or 1} if writes else {}))
        readers = {"encoder": loaded.tokenizer, "decoder": loaded.tokenizer}
    made.save(out)
    _write_page(made, Path(model).resolve().name, network, readers, out / "page.html")
    count = _draw(made, network, out)
    for warning in made.warnings:
        log(warning, "warning")
    if made.output:
        click.echo(made.output)
    log(f"wrote a page, {count} pictures and the trace to {out}")
    log(f"next: open {out / 'page.html'} in a browser")


def _write_page(made: "Trace", name: str, network: Any, readers: dict[str, Any], path: Path) -> None:
    from headway.config.config import write_atomically
    from headway.inspect.html_page import page_of

    write_atomically(path, page_of(made, name, network, lambda side, ids: readers[side].pieces(ids)))


def _draw(made: "Trace", network: Any, out: Path) -> int:
    """Every layer that has weights; the positions of each side, and the ways of its tokens; what was likely, and tried."""
    from headway.inspect.attention import KINDS, PLACES, attended
    from headway.inspect.embeddings import positions_of
    from headway.inspect.plots import draw_attention, draw_table
    from headway.inspect.trace_plots import draw_beam, draw_likely, draw_ways

    count = 0
    pictures: dict[str, Callable[[Path], None]] = {
        f"way-{side}": partial(draw_ways, made, side) for side in network.config.sides
    }
    if made.written.ids:
        pictures["probabilities"] = partial(draw_likely, made)
    if made.beam:
        pictures["beam"] = partial(draw_beam, made)
    for name, draw in pictures.items():
        for ending in ("png", "svg"):
            draw(out / f"{name}.{ending}")
            count += 1
    for kind in KINDS[made.kind]:
        for layer in range(max(made.model["encoder"]["layers"], made.model["decoder"]["layers"])):
            if f"{PLACES[kind].format(layer)}.weights" in made.tensors:
                for ending in ("png", "svg"):
                    draw_attention(attended(made, kind, layer + 1), out / f"attention-{kind}-{layer + 1}.{ending}")
                    count += 1
    for side in network.config.sides:
        tables = positions_of(network, side, max(len(made.source.ids), len(made.target.ids), 32))
        for number, table in enumerate(tables, start=1):
            name = f"position-{side}" if len(tables) == 1 else f"position-{side}-{number}"
            for ending in ("png", "svg"):
                draw_table(table, out / f"{name}.{ending}")
                count += 1
    return count
