"""`headway index`: make text searchable, for models that retrieve."""

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.terminal import LiveLine, log

KINDS = ["chunks", "passages"]
CHUNK_OPTIONS = ("documents", "chunk_tokens", "width", "tokenizer", "vocabulary")


@click.command(
    "index",
    cls=Verb,
    examples=[
        ("headway index corpus.txt --out corpus-index", "chunks of 64 tokens, for a model that retrieves"),
        ("headway index corpus.txt --out corpus-index --model my-encoder", "their vectors by an encoder"),
        ("headway index corpus.txt --out corpus-index --tokenizer my-model", "to be read by a model that is there"),
        ("headway index --kind passages docs --out docs-index", "documents in a folder, for headway answer"),
    ],
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@option(
    "--out", "-o", "out", aliases=["--output"], type=click.Path(path_type=Path), required=True, metavar="DIR",
    group="Result", help="The folder of the index. Run the same command again to go on.",
)  # fmt: skip
@option("--overwrite", is_flag=True, group="Result", help="Start over, replacing the index in DIR.")
@option(
    "--kind", type=click.Choice(KINDS), default="chunks", group="Text",
    help="What to index. chunks: pieces of equal length, for headway train --index; passages: documents of any format, "
    "for headway answer.",
)  # fmt: skip
@option(
    "--documents", type=click.Choice(["auto", "blank", "lines"]), default="auto", group="Text",
    help="Documents end at empty lines, or each line is one. auto: lines, if there are no empty ones.",
)  # fmt: skip
@option(
    "--model", "-m", metavar="MODEL", default="", show_default=False, group="Model",
    help="The encoder that makes vectors. Default: a hashed bag of n-grams, which needs no model; of passages none, so "
    "that they are found by words alone.",
)  # fmt: skip
@options.device
@option(
    "--approximate", is_flag=True, group="Chunks",
    help="Search by faiss, which finds nearly all of the nearest chunks, and large indexes in much less time.",
)  # fmt: skip
@option("--chunk-tokens", type=click.IntRange(2, 4096), default=64, group="Chunks", help="Tokens of a chunk.")
@option(
    "--width", type=click.IntRange(8, 65536), default=512, group="Chunks", help="Width of vectors without a model.",
)  # fmt: skip
@option(
    "--tokenizer", type=click.Path(path_type=Path), metavar="PATH", group="Chunks",
    help="That of a model (directory or name), or a tokenizer.json. Default: learned from the text.",
)  # fmt: skip
@option("--vocabulary", type=click.IntRange(min=1), metavar="N", group="Chunks", help="Entries of one that is learned.")
def index(files: tuple[str, ...], kind: str, **given: Any) -> None:
    """Make text searchable, for models that retrieve.

    The folder holds the text as tokens, cut into chunks, and a vector for each. An interrupted run goes on where it
    stopped. Of --kind passages, FILEs are documents (.txt, .md, .html, .docx, .pdf …) or folders of them; they are cut
    into passages of a few sentences, to be found by their words, and with --model also by meaning."""
    if kind == "passages":
        index_passages(files, given)
    else:
        index_chunks(files, given)


def index_chunks(files: tuple[str, ...], given: dict[str, Any]) -> None:
    from headway.workflows.indexing import ChunkIndexRequest
    from headway.workflows.indexing import index_chunks as build

    if given["tokenizer"] and given["vocabulary"]:
        context = click.get_current_context()
        raise click.UsageError("--vocabulary is for a tokenizer that is learned: leave it out.", context)
    live = LiveLine()

    def show(done: int, total: int) -> None:
        live.draw(f"{done:,} of {total:,} chunks")

    try:
        counts = build(ChunkIndexRequest(files=files, **given), log, show)
    finally:
        live.clear()
    out = given["out"]
    log(f"{out}: {counts['chunks']:,} chunks of {counts['documents']:,} documents, {counts['tokens']:,} tokens")


def index_passages(files: tuple[str, ...], given: dict[str, Any]) -> None:
    from headway.answering.passage_index import build_passage_index

    context = click.get_current_context()
    for name in CHUNK_OPTIONS:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option_name = name.replace("_", "-")
            raise click.UsageError(f"--{option_name} is for --kind chunks: leave it out.", context)
    live = LiveLine()
    try:
        built = build_passage_index(
            files, given["out"], given["model"], given["device"], overwrite=given["overwrite"], report=live.draw
        )
    finally:
        live.clear()
    for reason in built.skipped.values():
        log(f"left out: {reason}", "warning")
    log(f"{given['out']}: {built.passages:,} passages of {built.documents:,} documents")
    log(f'next: headway answer "…" --index {given["out"]}')
