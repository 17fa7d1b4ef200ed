"""`headway serve`: the HTTP API."""

import os
import re
from typing import TYPE_CHECKING, Any

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.terminal import log, settings
from headway.errors import HeadwayError

if TYPE_CHECKING:
    from fastapi import FastAPI

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
VERBOSITY = "HEADWAY_SERVE_LOG"


class Size(click.ParamType[int]):
    """500M, 4G, or plain bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?)(?:i?B)?", str(value).strip(), re.IGNORECASE)
        if not found or not float(found[1]):
            self.fail(f"{value!r} is not a size. Write 500M or 4G.", param, ctx)
        return int(float(found[1]) * UNITS[found[2].upper()])


@click.command(
    "serve",
    cls=Verb,
    examples=[
        ("headway serve", "all installed models, by LibreTranslate's API on http://127.0.0.1:5000"),
        ("headway serve --model my-model", "one's own"),
        ("headway serve --model en-de --model de-en --memory 2G", "several, loaded when they are asked for"),
        ("headway serve --model my-model --host 0.0.0.0 --api-keys keys.txt", "for others, with keys"),
        ("headway serve --model my-lm --port 8000", "a language model: OpenAI's /v1/completions"),
    ],
)
@option(
    "--model",
    "-m",
    "models",
    multiple=True,
    metavar="MODEL",
    group="Model",
    help="Model directory, or name; may be repeated. Each is loaded when first used. Default: all installed.",
)
@options.device
@options.engines
@option("--memory", type=Size(), metavar="SIZE", group="Model", help="For the weights of all; 500M, 4G. Default: any.")
@option("--workers", type=click.IntRange(1, 256), default=1, group="Model", help="Processes that share the port.")
@option("--host", default="127.0.0.1", metavar="ADDRESS", group="Network", help="Where to listen; 0.0.0.0: everywhere.")
@option("--port", type=click.IntRange(0, 65535), default=5000, group="Network", help="0: any that is free.")
@option("--api-keys", metavar="FILE", group="Network", help="Only who knows a line of this file may ask.")
@option(
    "--cors", multiple=True, metavar="ORIGIN", group="Network", help="Pages that may ask; * for all. Default: none."
)
@option("--char-limit", type=click.IntRange(1), default=50_000, group="Limits", help="Characters a request.")
@option("--batch-limit", type=click.IntRange(1), default=1000, group="Limits", help="Texts a request.")
@option("--file-limit", type=Size(), default="10M", metavar="SIZE", group="Limits", help="Of an uploaded file.")
@option("--queue", type=click.IntRange(1), default=200_000, group="Limits", help="Tokens that may wait; more hear 429.")
@option("--streams", type=click.IntRange(1, 1000), default=8, group="Limits", help="Streams at a time.")
@option("--timeout", type=options.Duration(), default="120s", metavar="TIME", group="Limits", help="For a request.")
@option(
    "--patience",
    type=click.FloatRange(0, 1000),
    default=5,
    group="Limits",
    help="Milliseconds that a text waits for company.",
)
@option("--log-text", is_flag=True, help="Write the texts into the log, too.")
def serve(
    models: tuple[str, ...], workers: int, char_limit: int, batch_limit: int, file_limit: int, queue: int,
    streams: int, timeout: float, patience: float, cors: tuple[str, ...], **rest: Any,
) -> None:  # fmt: skip
    """Serve models over HTTP: LibreTranslate's API, OpenAI's for language models.

    Texts of different connections are translated together. /docs tells what can be asked, /metrics how it goes. One
    line a request goes to stderr, without the text. SIGTERM or Ctrl-C lets what is running end first."""
    try:
        from headway.serve.server import serve as run
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("headway"):
            raise
        raise HeadwayError(
            f"{error.name} is missing, which a server needs. Type: pip install 'headway[serve]'"
        ) from None
    from headway.serve.settings import Limits, Settings

    limits = Limits(
        body=max(2**20, 8 * char_limit),
        file=file_limit,
        characters=char_limit,
        texts=batch_limit,
        waiting=queue,
        seconds=timeout,
        streams=streams,
    )
    made = Settings(models=directories(models), patience=patience / 1000, cors=cors, limits=limits, **rest)
    os.environ[VERBOSITY] = f"{settings.verbosity} {settings.log_format} {settings.color}"
    try:
        run(made, log, workers, "headway.cli.verbs.serve:worker")
    except (KeyboardInterrupt, SystemExit) as end:  # the server has stopped as it was told to: that is no failure
        if isinstance(end, SystemExit) and end.code not in (None, 0, 143):
            raise HeadwayError("the server could not be started: see above.") from None
    log("stopped")


def directories(given: tuple[str, ...]) -> tuple[str, ...]:
    from headway.storage.registry import directory, installed

    if given:
        return tuple(map(directory, given))
    found = tuple(str(model.folder) for model in installed().values())
    if not found:
        raise HeadwayError("no model is installed. Name a model directory with --model, or see headway models --help.")
    return found


def worker() -> "FastAPI":
    """The application of one of several processes."""
    from headway.serve.app import create_app
    from headway.serve.server import SETTINGS
    from headway.serve.settings import Settings

    verbosity, settings.log_format, settings.color = os.environ[VERBOSITY].split()
    settings.verbosity = int(verbosity)
    return create_app(Settings.from_json(os.environ[SETTINGS]), log)
