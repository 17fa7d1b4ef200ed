"""`headway serve`: the HTTP server."""

import os
import re
import sys
from typing import TYPE_CHECKING, Any

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.terminal import log, settings
from headway.errors import HeadwayError

if TYPE_CHECKING:
    from fastapi import FastAPI

BYTES_PER_UNIT = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
CLIENT_LIMITS = ("requests", "characters", "quota", "concurrent")  # options that are fields of ClientLimits
CONNECTION_LIMITS = (  # options that are fields of Limits
    "connections", "address_connections", "header_seconds", "transfer_seconds", "keep_alive_seconds",
)  # fmt: skip
LOG_SETTINGS_VARIABLE = "HEADWAY_SERVE_LOG"


class ByteSize(click.ParamType[int]):
    """500M, 4G, or plain bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?)(?:i?B)?", str(value).strip(), re.IGNORECASE)
        if not match or not float(match[1]):
            self.fail(f"{value!r} is not a size. Write 500M or 4G.", param, ctx)
        return int(float(match[1]) * BYTES_PER_UNIT[match[2].upper()])


@click.command(
    "serve",
    cls=Verb,
    examples=[
        ("headway serve", "all installed models, LibreTranslate API on http://127.0.0.1:5000"),
        ("headway serve --model my-model", "your own model"),
        ("headway serve --model en-de --model de-en --memory 2G", "several, loaded on demand"),
        ("headway serve --model my-model --host 0.0.0.0 --api-keys keys.txt", "for other machines, with API keys"),
        ("headway serve --model my-lm --port 8000", "a language model: OpenAI's /v1/completions"),
        ("headway serve --index docs-index", "answers from documents, with quotes"),
        ("headway serve --study mixers", "what headway compare --out mixers found, with its models, on the page"),
    ],
)
@option(
    "--model",
    "-m",
    "models",
    multiple=True,
    metavar="MODEL",
    group="Model",
    help="Model directory or name; may be repeated. The first is loaded at the start, the others on first use. "
    "Default: all installed.",
)
@option(
    "--study",
    "studies",
    multiple=True,
    metavar="DIR",
    group="Model",
    help="Folder of headway compare, for the page, with its models; may be repeated. Without --model: these alone.",
)
@option(
    "--index",
    metavar="DIR",
    group="Model",
    help="Folder of headway index --kind passages: questions about its documents are answered at /api/answer.",
)
@option("--lazy", is_flag=True, group="Model", help="Load the first model on its first use, too.")
@options.device
@options.engine_options
@option(
    "--memory",
    type=ByteSize(),
    metavar="SIZE",
    group="Model",
    help="Memory limit of the process, e.g. 4G. Default: 90% of what there is.",
)
@option(
    "--workers", type=click.IntRange(1, 256), default=1, group="Model", help="Worker processes that share the port."
)
@option(
    "--host",
    default="127.0.0.1",
    metavar="ADDRESS",
    group="Network",
    help="Address to listen on; 0.0.0.0: all interfaces.",
)
@option("--port", type=click.IntRange(0, 65535), default=5000, group="Network", help="Port; 0: any free port.")
@option(
    "--api-keys",
    metavar="FILE",
    group="Network",
    help="Require an API key; FILE holds one per line, as KEY or as NAME KEY [requests=60 …].",
)
@option(
    "--cors", multiple=True, metavar="ORIGIN", group="Network", help="Allowed CORS origin; * for all. Default: none."
)
@option(
    "--suggestions", metavar="FILE", group="Network", help="Let clients suggest translations; FILE gets one per line."
)
@option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    group="Network",
    help="Host name to answer for; *.example.org and * work. Default: loopback names, or with --host all.",
)
@option(
    "--trusted-proxy",
    "trusted_proxies",
    multiple=True,
    metavar="ADDRESS",
    group="Network",
    help="Proxy, or network of proxies, whose X-Forwarded-For, -Proto and -Prefix are believed.",
)
@option(
    "--url-prefix", default="", metavar="PATH", group="Network", help="Path to serve under, e.g. /translate-service."
)
@option("--metrics-port", type=click.IntRange(0, 65535), group="Network", help="Serve /metrics on this port alone.")
@option("--metrics-host", default="127.0.0.1", metavar="ADDRESS", group="Network", help="Address for --metrics-port.")
@option("--metrics-keys", metavar="FILE", group="Network", help="Require a key for /metrics.")
@option(
    "--connection-limit",
    "connections",
    type=click.IntRange(1),
    default=1000,
    group="Connections",
    help="Open connections.",
)
@option(
    "--address-connection-limit",
    "address_connections",
    type=click.IntRange(0),
    default=64,
    group="Connections",
    help="Open connections of one address, but for this machine and trusted proxies; 0: any number.",
)
@option(
    "--header-timeout",
    "header_seconds",
    type=options.Duration(),
    default="10s",
    metavar="TIME",
    group="Connections",
    help="Time for the headers of a request to arrive.",
)
@option(
    "--transfer-timeout",
    "transfer_seconds",
    type=options.Duration(),
    default="30s",
    metavar="TIME",
    group="Connections",
    help="Time for a body to arrive (more for 50 kB/s), and for a part of the answer to be read.",
)
@option(
    "--keep-alive",
    "keep_alive_seconds",
    type=options.Duration(),
    default="15s",
    metavar="TIME",
    group="Connections",
    help="Time that a connection may be idle.",
)
@option(
    "--request-rate",
    "requests",
    type=click.IntRange(1),
    group="Limits of a client, by key or address",
    help="Requests per minute.",
)
@option(
    "--char-rate",
    "characters",
    type=click.IntRange(1),
    group="Limits of a client, by key or address",
    help="Characters per minute.",
)
@option(
    "--char-quota",
    "quota",
    type=click.IntRange(1),
    group="Limits of a client, by key or address",
    help="Characters per day (UTC).",
)
@option(
    "--concurrent-limit",
    "concurrent",
    type=click.IntRange(1),
    group="Limits of a client, by key or address",
    help="Requests at a time.",
)
@option("--char-limit", type=click.IntRange(1), default=50_000, group="Limits", help="Characters per text.")
@option("--batch-limit", type=click.IntRange(1), default=1000, group="Limits", help="Texts per request.")
@option(
    "--file-limit", type=ByteSize(), default="10M", metavar="SIZE", group="Limits", help="Size of an uploaded file."
)
@option(
    "--file-char-limit",
    "file_characters",
    type=click.IntRange(1),
    metavar="INTEGER",
    group="Limits",
    help="Characters of an uploaded file's text. Default: as --char-limit.",
)
@option(
    "--queue-limit",
    aliases=["--queue"],
    type=click.IntRange(1),
    default=200_000,
    group="Limits",
    help="Queue limit in tokens; beyond it requests get 429.",
)
@option(
    "--stream-limit",
    aliases=["--streams"],
    type=click.IntRange(1, 1000),
    default=8,
    group="Limits",
    help="Concurrent streams.",
)
@option("--timeout", type=options.Duration(), default="120s", metavar="TIME", group="Limits", help="Time per request.")
@option(
    "--max-batch-delay",
    aliases=["--patience"],
    type=click.FloatRange(0, 1000),
    default=5,
    group="Limits",
    help="Milliseconds that a text may wait for others to fill its batch.",
)
@option("--log-text", is_flag=True, help="Include texts in the log.")
def serve(
    models: tuple[str, ...], studies: tuple[str, ...], workers: int, char_limit: int, batch_limit: int, file_limit: int,
    queue_limit: int, file_characters: int | None, stream_limit: int, timeout: float, max_batch_delay: float,
    lazy: bool, **rest: Any,
) -> None:  # fmt: skip
    """Serve models over HTTP, with the LibreTranslate and OpenAI APIs.

    Translators get LibreTranslate's API, language models OpenAI's. Texts of concurrent requests are batched. /docs
    documents the API, /metrics has statistics. Each request is logged to stderr, without its text. SIGTERM or Ctrl-C
    finishes running requests first."""
    try:
        from headway.serve.server import serve as run
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("headway"):
            raise
        raise HeadwayError(
            f"{error.name}, which the server needs, is not installed. Run: pip install 'headway[serve]'"
        ) from None
    from headway.serve.settings import ClientLimits, Limits, ServerSettings

    client_limits = ClientLimits(**{name: rest.pop(name) for name in CLIENT_LIMITS})
    limits = Limits(
        **{name: rest.pop(name) for name in CONNECTION_LIMITS},
        body_bytes=max(2**20, 8 * char_limit),
        file_bytes=file_limit,
        characters=char_limit,
        file_characters=file_characters,
        texts=batch_limit,
        queue_tokens=queue_limit,
        request_seconds=timeout,
        streams=stream_limit,
    )
    server_settings = ServerSettings(
        models=() if (studies or rest["index"]) and not models else model_directories(models),
        studies=studies,
        max_batch_delay=max_batch_delay / 1000,
        preload=not lazy,
        limits=limits,
        client_limits=client_limits,
        **rest,
    )
    settings.timestamps = True
    os.environ[LOG_SETTINGS_VARIABLE] = f"{settings.verbosity} {settings.log_format} {settings.color}"
    try:
        run(server_settings, log, workers, "headway.cli.verbs.serve:create_worker_app")
    except (KeyboardInterrupt, SystemExit) as end:  # a requested stop, not a failure
        if isinstance(end, SystemExit) and end.code not in (None, 0, 143):
            raise HeadwayError("the server could not be started: see above.") from None
    log("stopped")


def model_directories(given: tuple[str, ...]) -> tuple[str, ...]:
    from headway.storage.registry import list_installed, model_directory

    if given:
        return tuple(map(model_directory, given))
    installed = tuple(str(model.folder) for model in list_installed().values())
    if not installed:
        raise HeadwayError("no models installed. Give a model directory with --model, or see headway models --help.")
    return installed


def create_worker_app() -> "FastAPI":
    """The application of one worker process."""
    from headway.serve.app import create_app
    from headway.serve.server import SETTINGS_VARIABLE
    from headway.serve.settings import ServerSettings

    verbosity, settings.log_format, settings.color = os.environ[LOG_SETTINGS_VARIABLE].split()
    settings.verbosity = int(verbosity)
    settings.timestamps = True
    try:
        return create_app(ServerSettings.from_json(os.environ[SETTINGS_VARIABLE]), log)
    except HeadwayError as error:  # what was checked at the start may have changed since, such as the file of keys
        log(str(error), "error")
        sys.exit(1)
