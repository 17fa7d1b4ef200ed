"""`headway export`: write a model in the format of another toolkit."""

from pathlib import Path

import click

from headway.cli.app import Verb, option
from headway.cli.terminal import log


@click.command(
    "export",
    cls=Verb,
    examples=[
        ("headway export my-model --to huggingface --out my-model-hf", "for transformers: AutoModel, AutoTokenizer"),
        ("headway export my-model --to huggingface --dtype bfloat16 --out my-model-hf", "half the size"),
        ("headway export en-de --to ctranslate2 --dtype int8 --out en-de-ct2", "for ctranslate2.Translator"),
        ("headway export my-model --to gguf --dtype q8_0 --out my-model-gguf", "for llama.cpp"),
        ("headway export en-de --to onnx --dtype int8 --out en-de-onnx", "for onnxruntime and transformers.js"),
    ],
)
@click.argument("model", metavar="MODEL")
@option(
    "--to",
    "format_name",
    required=True,
    metavar="FORMAT",
    help="Format to write: huggingface, ctranslate2, gguf, onnx, torch-export.",
)
@option(
    "--out",
    "-o",
    aliases=["--output"],
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="New directory to write.",
)
@option("--dtype", default="", metavar="TYPE", help="Type of the weights: float32, float16, … (default: as stored).")
def export(model: str, format_name: str, out: Path, dtype: str) -> None:
    """Write a model in the format of another toolkit.

    MODEL is the directory or name of a model. A model that the format cannot express exactly is refused, with the part
    that stands in the way; what the format has no place for is listed as lost."""
    from headway.convert.export.formats import export_model
    from headway.convert.export.stored_model import open_model
    from headway.storage.registry import model_directory

    report = export_model(open_model(model_directory(model)), format_name, out, dtype)
    for title, lines in (("found", report.found), ("checked", report.checked), ("lost", report.lost)):
        for line in lines:
            log(f"{title}: {line}")
    log(f"{report.format}: wrote {', '.join(report.files)} to {out}")
