"""Options that several verbs share, and the types of their values."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import click

from headway.cli.help import FunctionT, option
from headway.config.durations import parse_duration
from headway.errors import ConfigError

PAIR_FORMATS = ".tsv, .csv, .jsonl, .json or .parquet"
AUTO_DETECT = "auto"  # --from: detect the language of each line


class Duration(click.ParamType[float]):
    """20m, 90s, 1.5h, 2d, or plain seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return parse_duration(value)
        except ConfigError as error:
            self.fail(str(error), param, ctx)


class Columns(click.ParamType[tuple[str, str]]):
    """Two column names or numbers, separated by a comma."""

    name = "columns"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        source, comma, target = str(value).partition(",")
        if not (source and comma and target):
            self.fail(f"{value!r} does not name two columns. Write 1,2 or source,target.", param, ctx)
        return source.strip(), target.strip()


def combine_options(*options: Callable[[Any], Any]) -> Callable[[FunctionT], FunctionT]:
    """Several options as one decorator, in the order of the help."""
    return lambda function: reduce(lambda inner, add: add(inner), reversed(options), function)


models = option(
    "--model",
    "-m",
    "models",
    multiple=True,
    metavar="MODEL",
    group="Model",
    help="Model directory or name (see headway models); repeat for an ensemble. Default: chosen by --from and --to, "
    "otherwise en-de.",
)
model = option(
    "--model",
    "-m",
    metavar="MODEL",
    group="Model",
    help="Model directory or name (see headway models). Default: chosen by --from and --to, otherwise en-de.",
)


adapter = option(
    "--adapter",
    metavar="DIR",
    group="Model",
    help="Use this adapter, made by headway train --lora, over the model.",
)


index = option(
    "--index",
    metavar="DIR",
    group="Model",
    help="Of a model that retrieves: from this index, or from none. Default: that of its training.",
)


def refuse_auto(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if value == AUTO_DETECT:
        raise click.BadParameter(f"{AUTO_DETECT} is only for headway translate: name the language.", context, parameter)
    return value


source_language = option(
    "--from",
    "source_language",
    default="",
    show_default=False,
    metavar="LANG",
    group="Model",
    callback=refuse_auto,
    help="Source language, to choose a model or if it has several.",
)
target_language = option(
    "--to",
    default="",
    show_default=False,
    metavar="LANG",
    group="Model",
    help="Target language, to choose a model or if it has several.",
)
direction = combine_options(source_language, target_language)
device = option("--device", default="auto", metavar="NAME", group="Model", help="Device: auto, cpu, cuda, …")
compute = option(
    "--compute",
    type=click.Choice(["auto", "float32", "bfloat16", "int8"]),
    default="auto",
    group="Model",
    help="Precision; int8: CPU only, bfloat16: GPU only, auto: as stored.",
)
engine_options = combine_options(
    option(
        "--engine",
        type=click.Choice(["auto", "native", "ctranslate2", "torch"]),
        default="auto",
        group="Model",
        help="Inference engine; auto: native for int8 models on a CPU, else the first that can.",
    ),
    compute,
    option("--threads", type=click.IntRange(1, 1024), group="Model", help="CPU threads. Default: all cores."),
)
columns = option(
    "--columns",
    type=Columns(),
    metavar="A,B",
    group="Text",
    help="Source and target column of --pairs, by number or name.",
)
output = option(
    "--out",
    "-o",
    "output",
    aliases=["--output"],
    metavar="FILE",
    group="Text",
    help="Write to FILE instead of standard output.",
)
one_pair_file = option("--pairs", metavar="FILE", group="Text", help=f"Both sides in one file: {PAIR_FORMATS}.")
pair_files = combine_options(
    option("--source", "-s", metavar="FILE", group="Text", help="Source sentences, one per line; - is standard input."),
    option("--target", "-t", metavar="FILE", group="Text", help="Their translations, line by line."),
    one_pair_file,
    columns,
    output,
)
no_split = option("--no-split", is_flag=True, group="Text", help="Treat each line as one sentence.")
pictures = combine_options(
    option("--png", metavar="FILE", group="Result", help="Write a PNG picture instead."),
    option("--svg", metavar="FILE", group="Result", help="Write an SVG picture instead, or as well."),
)
beam_size = option(
    "--beam-size", "-b", type=int, group="Search", help="Beam size; 1 is greedy search. Default: the model's."
)
search_method = option(
    "--search",
    "method",
    metavar="METHOD",
    group="Search",
    help='Method of search: beam, or "mask_predict(10, 5)" with its iterations and lengths. Default: the model\'s.',
)
length_penalty = option(
    "--length-penalty",
    "alpha",
    type=float,
    group="Search",
    help="Length penalty; above 0 favours longer output. Default: the model's.",
)
penalty = option(
    "--penalty",
    type=click.Choice(["paper", "power", "none"]),
    group="Search",
    help="Formula of the length penalty. Default: the model's.",
)
no_repeat_ngram = option(
    "--no-repeat-ngram", metavar="N", type=int, group="Search", help="Never repeat an n-gram of N tokens."
)
shortlist = option(
    "--shortlist/--no-shortlist",
    default=None,
    group="Search",
    help="Restrict the output vocabulary to the model's shortlist. Default: the model's setting.",
)
batch_tokens = option(
    "--batch-tokens",
    type=click.IntRange(min=1),
    group="Search",
    help="Batch size in tokens. Default: depends on the device.",
)
sampling_options = combine_options(
    option("--sample", is_flag=True, default=None, group="Search", help="Sample instead of beam search."),
    option("--temperature", type=float, group="Search", help="With --sample: sampling temperature."),
    option("--top-k", type=int, group="Search", help="With --sample: only the K most likely tokens."),
    option("--top-p", type=float, group="Search", help="With --sample: nucleus sampling with this probability mass."),
    option("--seed", type=int, group="Search", help="With --sample: random seed."),
    batch_tokens,
)
resume_options = combine_options(
    option("--resume", is_flag=True, group="Result", help="Continue an interrupted run."),
    option("--overwrite", is_flag=True, group="Result", help="Start over, replacing existing output."),
)
filter_options = combine_options(
    option(
        "--min-score",
        type=float,
        metavar="X",
        group="Filter",
        help="Drop translations with a lower mean log-probability per token, e.g. -1.5.",
    ),
    option(
        "--length-ratio",
        type=click.FloatRange(min=1),
        default=3.0,
        metavar="X",
        group="Filter",
        help="Drop pairs with one side more than X times as long in tokens.",
    ),
    option(
        "--max-tokens",
        aliases=["--longest"],
        type=click.IntRange(min=1),
        metavar="N",
        group="Filter",
        help="Drop longer lines. Default: the longest that the model was trained on.",
    ),
)
