"""`headway import`: a model of another toolkit as a model directory."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.app import Verb, option
from headway.cli.terminal import log, shows_progress

if TYPE_CHECKING:
    from headway.convert.importer import ImportReport

USES = {
    "translation": 'headway translate --model {} "…"',
    "causal": 'headway generate --model {} "…"',
    "permutation": 'headway generate --model {} "…"',
    "masked": "headway evaluate --model {} --text FILE",
    "embedding": "headway embed --model {} lines.txt --out vectors.npy",
    "classify": 'headway predict --model {} "…"',
    "tag": 'headway predict --model {} "…"',
    "match": 'headway predict --model {} "…" "…"',
    "classify pictures": "headway predict --model {} picture.png",
    "embed pictures": "headway attend --model {} --image picture.png --png where.png",
}
KINDS = {
    "translation": "translator",
    "causal": "language model",
    "permutation": "permutation language model",
    "masked": "masked language model",
    "embedding": "encoder of texts",
    "classify": "classifier of texts",
    "tag": "tagger of words",
    "match": "classifier of pairs of texts",
    "classify pictures": "classifier of pictures",
    "embed pictures": "encoder of pictures",
}


@click.command(
    "import",
    cls=Verb,
    examples=[
        ("headway import ./gpt2 --out gpt2-headway", "a directory in the format of Hugging Face"),
        ("headway import openai-community/gpt2 --out gpt2-headway", "a name on the Hugging Face hub"),
        ("headway import model-q8_0.gguf --out my-llama", "a GGUF file, as llama.cpp reads it"),
        ("headway import opus-mt-fr-en/ --from fr --to en --out fr-en", "a model of Marian, as OPUS-MT packs it"),
        ("headway import ./nllb-ct2 --tokenizer ./nllb --out nllb", "a model of CTranslate2, its tokenizer"),
        ("headway import ./my-marian --from fr --to en --out fr-en", "where the model does not say its languages"),
    ],
)
@click.argument("source", metavar="SOURCE")
@option(
    "--out",
    "-o",
    aliases=["--output"],
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Directory for the new model.",
)
@option(
    "--from",
    "source_language",
    metavar="LANG",
    default="",
    show_default=False,
    help="Source language, if the model does not say.",
)
@option(
    "--to",
    "target_language",
    metavar="LANG",
    default="",
    show_default=False,
    help="Target language, if the model does not say.",
)
@option(
    "--revision", default="", show_default=False, metavar="NAME", help="Branch, tag or commit of a name on the hub."
)
@option(
    "--allow-pickle",
    is_flag=True,
    help="Read weights from a .bin file, which is a pickle: nothing but its tensors is read.",
)
@option(
    "--mapping",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="TOML file that names the tensors of a model that no family knows.",
)
@option(
    "--tokenizer",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Directory with the tokenizer files of the original, where that of CTranslate2 has none.",
)
@option("--overwrite", is_flag=True, help="Replace the model in --out.")
def import_model(source: str, out: Path, overwrite: bool, **given: Any) -> None:
    """Import a model of another toolkit.

    SOURCE is a directory in the format of Hugging Face, a name on its hub (ORG/NAME), which is downloaded into its own
    cache, a GGUF file, a model of Marian (.npz), a directory of CTranslate2, or safetensors with a --mapping. The
    imported model computes what the original does, and is used like any model of Headway. What Headway cannot compute
    exactly is refused; what is lost, it says."""
    from headway.convert.options import ImportOptions
    from headway.convert.source import plan_import
    from headway.train.checkpoints import refuse_nonempty

    if out.exists() and Path(source).exists() and out.samefile(source):
        raise click.UsageError(f"--out is {out}, the model itself: choose another directory.")
    if not shows_progress():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    refuse_nonempty(out, overwrite, "imported weights")
    report = plan_import(source, ImportOptions(**given)).write(out, overwrite)
    for line in format_report(report):
        log(line)
    name = shlex.quote(str(out))
    log(f"next: {USES[report.objective].format(name + format_direction(report))}")


def format_direction(report: "ImportReport") -> str:
    """The languages that a translator of several must be told."""
    from headway.text.language_codes import count_directions, usual_direction

    sides = report.source_languages, report.target_languages
    source, target = usual_direction(*sides)
    return f" --from {source} --to {target}" if count_directions(*sides) > 2 else ""


def format_report(report: "ImportReport") -> list[str]:
    """What was found, checked and lost, a line each."""
    from headway.text.language_codes import describe_languages, format_languages

    languages = ""
    if report.objective == "translation":
        sides = [format_languages(side) or "?" for side in (report.source_languages, report.target_languages)]
        known = "?" not in sides and describe_languages(report.source_languages, report.target_languages)
        languages = f", {known or ' → '.join(sides)}"
    found = (
        f"found: {report.family} {KINDS[report.objective]}{languages}, {report.parameters:,} parameters in "
        f"{report.dtype}"
    )
    if not report.objective.endswith("pictures"):
        found += f", a vocabulary of {report.vocabulary:,}"
    return [found, *(f"checked: {what}" for what in report.checked), *(f"lost: {what}" for what in report.lost)]
