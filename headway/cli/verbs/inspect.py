"""`headway inspect`: an HTML page, pictures and a trace of one translation."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.terminal import log

if TYPE_CHECKING:
    from headway.inspect.recorded_answers import TracedText
    from headway.inspect.trace import Trace
    from headway.storage.registry import ModelChoice
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import Translator


@click.command(
    "inspect",
    cls=Verb,
    examples=[
        (
            'headway inspect --model my-model "A dog runs." --out looked',
            "a page, pictures and the trace of one translation",
        ),
        ('headway inspect --model my-lm "Once" --out looked', "the same for a language model"),
    ],
)
@click.argument("words", nargs=-1, metavar="TEXT")
@options.model
@options.direction
@options.device
@options.beam_size
@option(
    "--out",
    "-o",
    aliases=["--output"],
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    group="Result",
    help="Output directory.",
)
def inspect(
    words: tuple[str, ...],
    model: str | None,
    source_language: str,
    to: str,
    device: str,
    beam_size: int | None,
    out: Path,
) -> None:
    """Inspect one translation: write an HTML page, pictures and the trace.

    Writes page.html, the page of headway serve, which opens without a server; attention-KIND-LAYER, position-SIDE
    (position-SIDE-1, -2 … where layers differ), way-SIDE and, if there is output, probabilities and beam, each as .png
    and .svg; trace.json and trace.safetensors."""
    from headway.storage.registry import choose_models
    from headway.translate.translator import load_single

    model, text = split_words(words, model)
    choice = choose_models([model] if model else [], source_language, to)
    folder = choice.paths[0]
    traced = trace_model(load_single(folder, device), text, choice, beam_size)
    trace = traced.trace
    trace.save(out)
    _write_page(traced, Path(folder).resolve().name, out / "page.html")
    count = _draw(trace, traced.model, out)
    for warning in trace.warnings:
        log(warning, "warning")
    if trace.output:
        click.echo(trace.output)
    log(f"wrote page.html, {count} pictures and the trace to {out}")
    log(f"next: open {out / 'page.html'} in a browser")


def split_words(words: tuple[str, ...], model: str | None) -> tuple[str | None, str]:
    """The model and the text. The model may also be the first of two words, as it was before --model."""
    context = click.get_current_context()
    if len(words) == 2 and model is None:
        return words[0], words[1]
    if len(words) == 1 and (model or not (Path(words[0]) / "config.json").exists()):
        return model, words[0]
    if len(words) < 2:
        raise click.UsageError(
            'TEXT is missing: give what to translate, as in headway inspect --model DIR "…"', context
        )
    raise click.UsageError(f'{len(words)} texts were given: put one between quotes, as in "A dog runs."', context)


def trace_model(
    loaded: "Translator | LanguageModel", text: str, choice: "ModelChoice", beam_size: int | None
) -> "TracedText":
    """What a translator or a language model does with a text."""
    from headway.config.objective_kinds import continues_text
    from headway.errors import ConfigError
    from headway.inspect.recorded_answers import attach_model
    from headway.translate.translator import Translator

    if isinstance(loaded, Translator):
        trace = loaded.trace(text, source=choice.source, target=choice.target, beam_size=beam_size)
        return attach_model(trace, loaded)
    if choice.target:
        raise ConfigError(f"{Path(choice.paths[0]).name} is a language model: leave out --to.")
    generates = continues_text(loaded.config.train.objective.kind)
    return attach_model(
        loaded.trace(text, **({"length": 40, "beam_size": beam_size or 1} if generates else {})), loaded
    )


def _write_page(traced: "TracedText", name: str, path: Path) -> None:
    from headway.files.atomic import write_text_atomically
    from headway.inspect.html_page import render_page

    write_text_atomically(path, render_page(traced, name))


def _draw(trace: "Trace", network: Any, out: Path) -> int:
    """Draw attention weights, positions, token trajectories, probabilities and the beam; return how many files."""
    from headway.inspect.attention import ATTENTION_KINDS, ATTENTION_PATHS, read_attention
    from headway.inspect.embeddings import position_tables
    from headway.inspect.plots import draw_attention, draw_table
    from headway.inspect.trace_plots import draw_beam, draw_predictions, draw_token_paths

    count = 0
    pictures: dict[str, Callable[[Path], None]] = {
        f"way-{side}": partial(draw_token_paths, trace, side) for side in network.config.sides
    }
    if trace.written.ids:
        pictures["probabilities"] = partial(draw_predictions, trace)
    if trace.beam:
        pictures["beam"] = partial(draw_beam, trace)
    for name, draw in pictures.items():
        for ending in ("png", "svg"):
            draw(out / f"{name}.{ending}")
            count += 1
    for kind in ATTENTION_KINDS[trace.kind]:
        for layer in range(max(trace.model["encoder"]["layers"], trace.model["decoder"]["layers"])):
            if f"{ATTENTION_PATHS[kind].format(layer)}.weights" in trace.tensors:
                for ending in ("png", "svg"):
                    draw_attention(
                        read_attention(trace, kind, layer + 1), out / f"attention-{kind}-{layer + 1}.{ending}"
                    )
                    count += 1
    for side in network.config.sides:
        tables = position_tables(network, side, max(len(trace.source.ids), len(trace.target.ids), 32))
        for number, table in enumerate(tables, start=1):
            name = f"position-{side}" if len(tables) == 1 else f"position-{side}-{number}"
            for ending in ("png", "svg"):
                draw_table(table, out / f"{name}.{ending}")
                count += 1
    return count
