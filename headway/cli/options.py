"""Options that several verbs have, written once, and the kinds of values that they take."""

import re
from collections.abc import Callable
from functools import reduce
from typing import Any

import click

from headway.cli.help import FunctionT, option

AUTO = "auto"  # --from: tell each line's language by its text
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Duration(click.ParamType[float]):
    """20m, 90s, 1.5h, 2d, or plain seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", str(value).strip())
        if not found or not float(found[1]):
            self.fail(f"{value!r} is not a duration. Write 90s, 20m, 1.5h or 2d.", param, ctx)
        return float(found[1]) * UNITS[found[2] or "s"]


class Columns(click.ParamType[tuple[str, str]]):
    """Two names with a comma between them."""

    name = "columns"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        one, comma, other = str(value).partition(",")
        if not (one and comma and other):
            self.fail(f"{value!r} does not name two columns. Write 1,2 or source,target.", param, ctx)
        return one.strip(), other.strip()


def together(*options: Callable[[Any], Any]) -> Callable[[FunctionT], FunctionT]:
    """Several options as one decorator, in the order in which the help shows them."""
    return lambda function: reduce(lambda inner, add: add(inner), reversed(options), function)


models = option(
    "--model",
    "-m",
    "models",
    multiple=True,
    metavar="MODEL",
    group="Model",
    help="Model directory, or name (headway models); several make an ensemble. Default: by --from and --to, else en-de.",
)
model = option(
    "--model",
    "-m",
    metavar="MODEL",
    group="Model",
    help="Model directory, or name (headway models). Default: by --from and --to, else en-de.",
)


def not_auto(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if value == AUTO:
        raise click.BadParameter(f"only headway translate takes {AUTO}: name the language.", context, parameter)
    return value


source_language = option(
    "--from",
    "source_language",
    default="",
    show_default=False,
    metavar="LANG",
    group="Model",
    callback=not_auto,
    help="Source language, to choose a model or where it has several.",
)
target_language = option(
    "--to",
    default="",
    show_default=False,
    metavar="LANG",
    group="Model",
    help="Target language, to choose a model or where it has several.",
)
direction = together(source_language, target_language)
device = option("--device", default="auto", metavar="NAME", group="Model", help="auto, cpu, cuda …")
compute = option(
    "--compute",
    type=click.Choice(["auto", "float32", "bfloat16", "int8"]),
    default="auto",
    group="Model",
    help="Precision: int8 on a CPU, bfloat16 on a GPU; auto: as stored.",
)
engines = together(
    option(
        "--engine",
        type=click.Choice(["auto", "torch", "ctranslate2"]),
        default="auto",
        group="Model",
        help="What searches; auto: ctranslate2 for little text.",
    ),
    compute,
    option("--threads", type=click.IntRange(1, 1024), group="Model", help="Threads on a CPU. Default: all cores."),
)
columns = option(
    "--columns", type=Columns(), metavar="A,B", group="Text", help="Where source and target stand in --pairs."
)
output = option("--output", "-o", metavar="FILE", group="Text", help="Write to a file instead of standard output.")
given_pairs = together(
    option("--source", "-s", metavar="FILE", group="Text", help="Sources, a line each; - is standard input."),
    option("--target", "-t", metavar="FILE", group="Text", help="Their translations, line by line."),
    option("--pairs", metavar="FILE", group="Text", help="Both in one file: .tsv or .jsonl."),
    columns,
    output,
)
shortlist = option(
    "--shortlist/--no-shortlist",
    default=None,
    group="Search",
    help="Only words that the model's shortlist names. Default: the model's.",
)
batch_tokens = option(
    "--batch-tokens",
    type=click.IntRange(min=1),
    group="Search",
    help="Tokens translated at once. Default: by the device.",
)
drawing = together(
    option("--sample", is_flag=True, default=None, group="Search", help="Draw at random instead of searching."),
    option("--temperature", type=float, group="Search", help="With --sample: below 1 plays safe."),
    option("--top-k", type=int, group="Search", help="With --sample: only the k likeliest."),
    option("--top-p", type=float, group="Search", help="With --sample: only the likeliest with this share."),
    option("--seed", type=int, group="Search", help="With --sample: the same seed, the same output."),
    batch_tokens,
)
going_on = together(
    option("--resume", is_flag=True, group="Result", help="Go on where a stopped run left off."),
    option("--overwrite", is_flag=True, group="Result", help="Start anew, whatever is there."),
)
dropping = together(
    option(
        "--min-score",
        type=float,
        metavar="X",
        group="Drop",
        help="Translations below this mean log-probability of a token, as in -1.5.",
    ),
    option(
        "--length-ratio",
        type=click.FloatRange(min=1),
        default=3.0,
        metavar="X",
        group="Drop",
        help="Pairs with one side so many times longer in tokens.",
    ),
    option(
        "--longest",
        type=click.IntRange(min=1),
        metavar="N",
        group="Drop",
        help="Lines of more tokens. Default: the longest that the model has learned.",
    ),
)
