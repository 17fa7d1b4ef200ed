"""`headway score`: log-probabilities of given translations (forced decoding)."""

import json
import math
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.pair_input import read_given_pairs
from headway.cli.terminal import log, open_output

if TYPE_CHECKING:
    from headway.translate.translator import ScoredPair, Translator

PAIRS_PER_GROUP = 1024  # held in memory


@click.command(
    "score",
    cls=Verb,
    examples=[
        ("headway score --model my-model --source test.en --target test.de > scores", "one number per pair"),
        ('headway score --model my-model "A dog runs." "Ein Hund rennt."', "one pair"),
        (
            "headway score --model my-model --pairs test.tsv --normalised",
            "with the length penalty, as beam search ranks",
        ),
        ("headway score --model my-model --pairs test.tsv --json", "with tokens and their log-probabilities"),
    ],
)
@click.argument("text", nargs=-1, metavar="[SOURCE TARGET]")
@options.models
@options.direction
@options.device
@options.pair_files
@option("--normalised", is_flag=True, group="Result", help="Apply the model's length penalty.")
@option("--per-token", is_flag=True, group="Result", help="Divide by the number of tokens.")
@option("--json", "as_json", is_flag=True, group="Result", help="Print one JSON object per pair.")
@options.batch_tokens
def score(
    text: tuple[str, ...], models: tuple[str, ...], source_language: str, to: str, device: str, source: str | None,
    target: str | None, pairs: str | None, columns: tuple[str, str] | None, output: str | None, normalised: bool,
    per_token: bool, as_json: bool, batch_tokens: int | None,
) -> None:  # fmt: skip
    """Score given translations by their log-probability.

    One line per pair, in order: the natural logarithm of the probability of the target, including its end, given the
    source. Each side is one sentence. Two blank sides give 0; a side that is too long gives nan and a warning."""
    from headway.storage.registry import choose_models
    from headway.translate.translator import load_choice

    check_inputs(text, source, target, pairs, output)
    if normalised and per_token:
        raise click.UsageError(
            "--normalised and --per-token exclude each other: choose one.", click.get_current_context()
        )
    if columns and not pairs:
        raise click.UsageError("--columns needs --pairs.", click.get_current_context())
    choice = choose_models(models, source_language, to)
    translator = load_choice(choice, device)
    to = choice.target
    translator.batch_tokens = batch_tokens or translator.batch_tokens
    translator.direction_tokens(choice.source, to)  # refuse an unknown language before reading anything
    config = translator.config
    number = 0
    languages = choice.source or (config.source_languages or ("",))[0], to or (config.target_languages or ("",))[0]
    given = iter([(text[0], text[1])]) if text else read_given_pairs(source, target, pairs, languages, columns)
    with open_output(output) as sink:
        while group := list(islice(given, PAIRS_PER_GROUP)):
            for scored in translator.score(group, target=to, source=choice.source):
                number += 1
                for warning in scored.warnings:
                    log(f"line {number}: {warning}", "warning")
                if as_json:
                    line = json.dumps(to_json_object(translator, scored), ensure_ascii=False)
                else:
                    divisor = max(len(scored.tokens), 1) if per_token else 1
                    line = f"{scored.score if normalised else scored.logp / divisor:.6f}"
                sink.write(f"{line}\n")
            sink.flush()


def check_inputs(
    text: tuple[str, ...], source: str | None, target: str | None, pairs: str | None, output: str | None
) -> None:
    """Refuse contradictory options and missing files, before a model is loaded."""
    from headway.files.text_files import check_readable

    inputs = [bool(text), bool(source or target), bool(pairs)]
    if sum(inputs) != 1 or bool(source) != bool(target) or (text and len(text) != 2):
        message = "give one source and its target as text, or --source and --target, or --pairs."
        raise click.UsageError(message, click.get_current_context())
    files = [path for path in (source, target, pairs) if path]
    for path in files:
        check_readable(path)
    if output and Path(output).resolve() in [Path(path).resolve() for path in files]:
        raise click.UsageError("--out is one of the input files: choose another file.", click.get_current_context())


def to_json_object(translator: "Translator", scored: "ScoredPair") -> dict[str, Any]:
    """One pair as JSON, with null for NaN, which JSON does not have."""
    finite = math.isfinite(scored.logp)
    return {
        "source": scored.source,
        "target": scored.target,
        "logp": round(scored.logp, 6) if finite else None,
        "score": round(scored.score, 6) if finite else None,
        "tokens": translator.tokenizers.target.pieces(scored.tokens),
        "token_logps": [round(value, 6) for value in scored.token_logps],
        "warnings": scored.warnings,
    }
