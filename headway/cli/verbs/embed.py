"""`headway embed`: vectors of texts as a .npy file."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.input_lines import read_line_groups
from headway.cli.terminal import log

if TYPE_CHECKING:
    import numpy as np

    from headway.decode.types import Compute

LINES_PER_GROUP = 8192


@click.command(
    "embed",
    cls=Verb,
    examples=[
        ("headway embed --model my-embedder lines.txt --out vectors.npy", "a vector for each line of a file"),
        ("headway embed --model en-de lines.txt --out vectors.npy", "those of a translator's encoder"),
    ],
)
@click.argument("file", default="-", metavar="[FILE]")
@option("--model", "-m", required=True, metavar="MODEL", group="Model", help="Model directory or name.")
@options.device
@options.compute
@option(
    "--out", "-o", "output", aliases=["--output"], type=click.Path(path_type=Path), required=True, metavar="FILE",
    group="Result", help="The .npy file to write: float32, a row for each line.",
)  # fmt: skip
@option("--raw", is_flag=True, group="Result", help="Vectors as the model gives them, not scaled to the length 1.")
def embed(file: str, model: str, device: str, compute: "Compute", output: Path, raw: bool) -> None:
    """Write a vector for each line of a file, to search by meaning.

    Reads FILE, or standard input; headway search finds the lines again. A vector does not depend on other lines. Any
    model with an encoder makes some; those of a model that was trained with --task embed, or imported from
    sentence-transformers, tell which texts are alike. NAME.npy.json beside it says which model and which file they are
    of."""
    from headway.retrieval.vector_search import normalise, write_index
    from headway.translate.text_vectors import load_embedder

    if output.suffix != ".npy":
        raise click.UsageError(f"--out is {output}: name a .npy file.", click.get_current_context())
    if not output.parent.is_dir():
        raise click.UsageError(f"--out: there is no folder {output.parent}.", click.get_current_context())
    vectors_of = load_embedder(model, device, compute)

    def blocks() -> "Iterator[np.ndarray]":
        for group in read_line_groups((), file, LINES_PER_GROUP):
            found = vectors_of(group)
            yield found if raw else normalise(found)

    about = {"model": os.path.abspath(model) if Path(model).is_dir() else model}
    if file != "-":
        about["texts"] = os.path.abspath(file)
    count = write_index(output, blocks(), about)
    log(f"wrote {count:,} vectors to {output}")
