"""`headway search`: the texts whose vectors are nearest to that of a query."""

import json
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.input_lines import read_line_groups

if TYPE_CHECKING:
    from headway.decode.types import Compute


@click.command(
    "search",
    cls=Verb,
    examples=[
        ('headway search "how do I delete a file" --index vectors.npy', "the nearest lines of the text"),
        ("headway search --index vectors.npy --input questions.txt -k 10 --json", "for each line of a file"),
    ],
)
@click.argument("query", nargs=-1)
@option(
    "--index", required=True, type=click.Path(path_type=Path), metavar="FILE", group="Text",
    help="Vectors, of headway embed.",
)  # fmt: skip
@option("--texts", metavar="FILE", group="Text", help="The lines they are of. Default: those that were embedded.")
@option("--input", "-i", "input_file", metavar="FILE", group="Text", help="Read queries from this file, one a line.")
@option("--model", "-m", metavar="MODEL", group="Model", help="The model that made them. Default: as the index says.")
@options.device
@options.compute
@option("--top-k", "-k", "top_k", type=click.IntRange(min=1), default=5, group="Result", help="Texts for each query.")
@option("--json", "as_json", is_flag=True, group="Result", help="Print a JSON object for each query.")
def search(
    query: tuple[str, ...], index: Path, texts: str | None, input_file: str | None, model: str | None, device: str,
    compute: "Compute", top_k: int, as_json: bool,
) -> None:  # fmt: skip
    """Find the texts nearest to a query, by their vectors.

    Nearness is the cosine; the search is exact, in a file that stays on disk. Prints score, line number and text,
    separated by tabs."""
    from headway.errors import HeadwayError
    from headway.retrieval.vector_search import open_index, search_vectors
    from headway.translate.text_vectors import load_embedder

    opened = open_index(index)
    model = model or str(opened.about.get("model", ""))
    texts = texts or opened.about.get("texts")
    if not model:
        raise click.UsageError(f"{index} does not say which model made it: give --model.", click.get_current_context())
    if not texts:
        raise click.UsageError(f"{index} does not say which lines it is of: give --texts.", click.get_current_context())
    vectors_of = load_embedder(model, device, compute)
    for group in read_line_groups(query, input_file):
        found = search_vectors(vectors_of(group), opened.vectors, top_k)
        lines = read_chosen_lines(texts, {near.row for nearest in found for near in nearest})
        if len(lines) < len({near.row for nearest in found for near in nearest}):
            raise HeadwayError(
                f"{texts} has fewer lines than {index} has vectors ({len(opened.vectors):,}). Embed it again."
            )
        for asked, nearest in zip(group, found):
            rows = [{"score": round(n.score, 4), "line": n.row + 1, "text": lines[n.row]} for n in nearest]
            if as_json:
                click.echo(json.dumps({"query": asked, "found": rows}, ensure_ascii=False))
            else:
                click.echo("\n".join(f"{row['score']:.4f}\t{row['line']}\t{row['text']}" for row in rows))


def read_chosen_lines(path: str, rows: set[int]) -> dict[int, str]:
    """These lines of a file, by number from 0; no other is kept."""
    from headway.files.text_files import read_lines

    last = max(rows, default=-1) + 1
    return {number: line for number, line in enumerate(islice(read_lines(path), last)) if number in rows}
