"""`headway score`: how likely a model finds given translations."""

import json
import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.terminal import log, opened

if TYPE_CHECKING:
    from headway.translate.translator import Scored, Translator

AT_ONCE = 1024  # pairs in memory


@click.command(
    "score",
    cls=Verb,
    examples=[
        ("headway score --model my-model --source test.en --target test.de > scores", "one number a pair"),
        ('headway score --model my-model "A dog runs." "Ein Hund rennt."', "one pair"),
        ("headway score --model my-model --pairs test.tsv --normalised", "as the search ranks: by length penalty"),
        ("headway score --model my-model --pairs test.tsv --json", "with tokens and their log-probabilities"),
    ],
)
@click.argument("text", nargs=-1, metavar="[SOURCE TARGET]")
@options.models
@options.direction
@options.device
@options.given_pairs
@option("--normalised", is_flag=True, group="Result", help="Divide by the model's length penalty.")
@option("--per-token", is_flag=True, group="Result", help="Divide by the number of tokens.")
@option("--json", "as_json", is_flag=True, group="Result", help="One JSON object a pair.")
@option(
    "--batch-tokens", type=click.IntRange(min=1), group="Result", help="Tokens read at once. Default: by the device."
)
def score(
    text: tuple[str, ...], models: tuple[str, ...], source_language: str, to: str, device: str, source: str | None,
    target: str | None, pairs: str | None, columns: tuple[str, str] | None, output: str | None, normalised: bool, per_token: bool, as_json: bool, batch_tokens: int | None,
) -> None:  # fmt: skip
    """Say how likely a model finds given translations.

    One line a pair, in order: the natural logarithm of the probability of the target and its end, given the source.
    Each side is one sentence. Two blank sides give 0; what is too long to read gives nan, and a warning."""
    from headway.storage.registry import choose
    from headway.translate.translator import load_translator

    refuse(text, source, target, pairs, output)
    if normalised and per_token:
        raise click.UsageError("--normalised and --per-token are two ways: choose one.", click.get_current_context())
    if columns and not pairs:
        raise click.UsageError("--columns is for the file of --pairs: leave it out.", click.get_current_context())
    choice = choose(models, source_language, to)
    translator, to = load_translator(choice.paths, device, direction=choice.direction), choice.target
    translator.batch_tokens = batch_tokens or translator.batch_tokens
    translator.tag(to)  # a wrong language is said before anything is read
    config, number = translator.config, 0
    languages = choice.source or (config.source_languages or ("",))[0], to or (config.target_languages or ("",))[0]
    given = iter([(text[0], text[1])]) if text else read(source, target, pairs, languages, columns)
    with opened(output) as sink:
        while group := list(islice(given, AT_ONCE)):
            for found in translator.score(group, to=to):
                number += 1
                for warning in found.warnings:
                    log(f"line {number}: {warning}", "warning")
                value = found.score if normalised else found.logp / (max(len(found.tokens), 1) if per_token else 1)
                line = json.dumps(as_object(translator, found), ensure_ascii=False) if as_json else f"{value:.6f}"
                sink.write(f"{line}\n")
            sink.flush()


def refuse(
    text: tuple[str, ...], source: str | None, target: str | None, pairs: str | None, output: str | None
) -> None:
    """What cannot be meant, and files that are not there, before a model is loaded."""
    from headway.files.text_files import check_readable

    ways = [bool(text), bool(source or target), bool(pairs)]
    if sum(ways) != 1 or bool(source) != bool(target) or (text and len(text) != 2):
        told = "give one source and its target as text, or --source and --target, or --pairs."
        raise click.UsageError(told, click.get_current_context())
    files = [path for path in (source, target, pairs) if path]
    for path in files:
        check_readable(path)
    if output and Path(output).resolve() in [Path(path).resolve() for path in files]:
        raise click.UsageError("--output is a file that is read: name another.", click.get_current_context())


def read(
    source: str | None, target: str | None, pairs: str | None, languages: tuple[str, str],
    columns: tuple[str, str] | None,
) -> Iterator[tuple[str, str]]:  # fmt: skip
    from headway.data.parallel_files import ParallelFiles, read_parallel

    return read_parallel(ParallelFiles(pairs or source or "", target or "", *languages, columns=columns))


def as_object(translator: "Translator", found: "Scored") -> dict[str, Any]:
    """Not-a-number is no JSON: null stands for it."""
    known = math.isfinite(found.logp)
    return {
        "source": found.source,
        "target": found.target,
        "logp": round(found.logp, 6) if known else None,
        "score": round(found.score, 6) if known else None,
        "tokens": translator.tokenizers.target.pieces(found.tokens),
        "token_logps": [round(value, 6) for value in found.token_logps],
        "warnings": found.warnings,
    }
