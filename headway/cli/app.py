"""The command `headway`: verbs, exit codes, error messages. A verb is imported when used, so help needs no torch."""

import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem, shell_complete

from headway import __version__
from headway.cli.help import (
    CONTEXT_SETTINGS,
    EXIT_CODES,
    Verb,
    global_options,
    option,
    visible_names,
    write_examples,
    write_head,
    write_options,
)
from headway.cli.terminal import LogLevel, log, reset_settings, settings
from headway.errors import ConfigError, HeadwayError, HeadwayWarning, did_you_mean

# The function of each verb, and the first line of its help.
VERBS = {
    "check": ("headway.cli.verbs.check:check", "Check a parallel corpus for faults before training."),
    "train": ("headway.cli.verbs.train:train", "Train a translator from two text files."),
    "translate": ("headway.cli.verbs.translate:translate", "Translate text, a file or standard input."),
    "evaluate": ("headway.cli.verbs.evaluate:evaluate", "Evaluate a translator on held-out text."),
    "compare": ("headway.cli.verbs.compare:compare", "Train variants of a model under one budget, and compare them."),
    "score": ("headway.cli.verbs.score:score", "Score given translations by their log-probability."),
    "calibrate": ("headway.cli.verbs.calibrate:calibrate", "Calibrate a model's confidence on validation text."),
    "align": ("headway.cli.verbs.align:align", "Align the words of given sentence pairs."),
    "generate": ("headway.cli.verbs.generate:generate", "Continue a text with a language model."),
    "fill": ("headway.cli.verbs.fill:fill", "Guess the words that stand behind [MASK], the likeliest first."),
    "predict": (
        "headway.cli.verbs.predict:predict",
        "Label texts with a model that was trained with headway train --task.",
    ),
    "embed": ("headway.cli.verbs.embed:embed", "Write a vector for each line of a file, to search by meaning."),
    "search": ("headway.cli.verbs.search:search", "Find the texts nearest to a query, by their vectors."),
    "answer": (
        "headway.cli.verbs.answer:answer",
        "Answer a question from documents, and quote what the answer rests on.",
    ),
    "index": ("headway.cli.verbs.index:index", "Make text searchable, for models that retrieve."),
    "serve": (
        "headway.cli.verbs.serve:serve",
        "Serve models over HTTP, with the LibreTranslate and OpenAI APIs.",
    ),
    "augment": ("headway.cli.verbs.augment:augment", "Back-translate monolingual text into training pairs."),
    "distil": (
        "headway.cli.verbs.distil:distil",
        "Translate a corpus with a teacher, to train a smaller model on.",
    ),
    "average": ("headway.cli.verbs.average:average", "Average the last checkpoints of a run."),
    "merge": ("headway.cli.verbs.merge:merge", "Merge a LoRA adapter into its model."),
    "shortlist": (
        "headway.cli.verbs.shortlist:shortlist",
        "Build a lexical shortlist, to restrict the output vocabulary.",
    ),
    "pack": (
        "headway.cli.verbs.pack:pack",
        "Store a model's weights in 2 bits (BitNet) or 8 bits (any model).",
    ),
    "export": ("headway.cli.verbs.export:export", "Write a model in the format of another toolkit."),
    "import": (
        "headway.cli.verbs.import_model:import_model",
        "Import a model of another toolkit.",
    ),
    "models": ("headway.cli.verbs.models:models", "List, add, install or remove installed models."),
    "trace": ("headway.cli.verbs.trace:trace", "Save every intermediate result of one translation."),
    "attend": ("headway.cli.verbs.attend:attend", "Show attention weights, in the terminal or as a picture."),
    "inspect": (
        "headway.cli.verbs.inspect:inspect",
        "Inspect one translation: write an HTML page, pictures and the trace.",
    ),
    "page": ("headway.cli.verbs.page:page", "Write the page with recorded texts as a site that needs no server."),
    "draw": ("headway.cli.verbs.draw:draw", "Draw an attention mask or positional encoding."),
    "variants": (
        "headway.cli.verbs.variants:variants",
        "List the variants of each part of a model and its training.",
    ),
    "check-kind": (
        "headway.cli.verbs.check_kind:check_kind",
        "Check a mixer, mask, position or other kind of your own.",
    ),
    "toy": ("headway.cli.verbs.toy:toy", "Write a small synthetic corpus to experiment with."),
    "doctor": (
        "headway.cli.verbs.doctor:doctor",
        "Check the installation, and say how to fix problems.",
    ),
    "completion": ("headway.cli.verbs.completion:completion", "Print the completion script for a shell."),
}

COMPLETE_VARIABLE = "_HEADWAY_COMPLETE"
FIRST_STEPS = [
    ("headway toy --out toy", "a small corpus to experiment with"),
    ("headway train --source toy/train.en --target toy/train.qtx --out my-model", "train a translator"),
    ('headway translate --model my-model "The dog sees a red house."', "use it"),
]

__all__ = ["VERBS", "Verb", "app", "main", "option"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    completion = os.environ.get(COMPLETE_VARIABLE)
    if completion:
        return shell_complete(app, {}, "headway", COMPLETE_VARIABLE, completion)
    reset_settings()
    # Spinning OpenMP threads take cores from other programs; benchmarks/RESULTS.md has the trade-off.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        with exit_on_sigterm(), log_warnings():
            code = (
                run_command_line(sys.argv[1:])
                if arguments is None
                else run_command_line(list(arguments), owns_process=False)
            )
        for stream in (sys.stdout, sys.stderr):
            if stream:  # None when the shell closed it
                stream.flush()
        return code
    except BrokenPipeError:
        # The reader is gone, as with `| head -1`. Python would flush again at shutdown and complain.
        if settings.debug:
            traceback.print_exc()
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, 1)
        os.dup2(devnull, 2)
        return 128 + signal.SIGPIPE


def run_command_line(arguments: list[str], owns_process: bool = True) -> int:
    """Run a command line and turn every way it can end into an exit code and at most a few lines on stderr.

    owns_process: nothing else runs in this process."""
    try:
        with app.make_context("headway", arguments) as context:
            app.invoke(context)
        return 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except SystemExit as end:
        if isinstance(end.code, str):
            return report_failure(end.code, 1)
        return end.code or 0
    except BrokenPipeError:
        raise
    except (KeyboardInterrupt, click.Abort):
        if owns_process:  # only threads are still running: let a second Ctrl-C kill them
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        return report_failure("interrupted", 128 + signal.SIGINT)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.message, file=sys.stderr)
        return 2
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "headway"
        return report_failure(f"{format_usage_error(error)}\nhelp: {command} --help", 2)
    except click.ClickException as error:
        return report_failure(error.format_message(), error.exit_code)
    except ConfigError as error:
        return report_failure(str(error), 2)
    except HeadwayError as error:
        return report_failure(str(error), 1)
    except OSError as error:
        file = f"{error.filename}: " if error.filename else ""
        return report_failure(f"{file}{error.strerror or error}", 1)
    except Exception as error:
        summary = f"{type(error).__name__}: {error}".splitlines()[0]
        return report_failure(f"{summary} (run again with --debug to see where)", 1, "internal error")


def report_failure(message: str, code: int, level: LogLevel = "error") -> int:
    if settings.debug:
        traceback.print_exc()
    log(message, level)
    return code


def format_usage_error(error: click.UsageError) -> str:
    """Click's usage errors in our words, with a guess at what was meant."""
    if isinstance(error, click.NoSuchOption):
        from headway.cli.foreign_options import find_equivalent

        parameters = error.ctx.command.get_params(error.ctx) if error.ctx else []
        known = [name for parameter in parameters for name in [*visible_names(parameter), *parameter.secondary_opts]]
        equivalent = find_equivalent(error.option_name, known)
        hint = f" Here it is {equivalent}." if equivalent else did_you_mean(error.option_name, known)
        return f"there is no option {error.option_name}.{hint}"
    if isinstance(error, click.BadParameter) and error.param:
        is_option = isinstance(error.param, click.Option)
        names = visible_names(error.param) if is_option else [error.param.human_readable_name.upper()]
        name = "/".join(names)
        return f"{name} is missing." if isinstance(error, click.MissingParameter) else f"{name}: {error.message}"
    return error.format_message()


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Turn SIGTERM into SystemExit, so that files are closed and a training run can save its state."""

    def exit_by_signal(number: int, frame: FrameType | None) -> NoReturn:
        sys.exit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return
    previous = signal.signal(signal.SIGTERM, exit_by_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextmanager
def log_warnings() -> Iterator[None]:
    """Print Headway's own warnings as messages, not as Python does."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", HeadwayWarning)
        show = warnings.showwarning

        def show_warning(message: Warning | str, category: type[Warning], *rest: Any) -> None:
            if issubclass(category, HeadwayWarning):
                log(str(message), "warning")
            else:
                show(message, category, *rest)

        warnings.showwarning = show_warning  # type: ignore[assignment]
        yield


class App(click.Group):
    """The group of verbs: known from VERBS, imported when used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, _, function = VERBS[cmd_name][0].partition(":")
        try:
            command = getattr(import_module(module), function)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
            raise click.UsageError(f"headway {cmd_name} is not part of this version.", ctx) from None
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in VERBS:
            raise click.UsageError(f"there is no verb {args[0]}.{did_you_mean(args[0], list(VERBS))}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        verbs = [CompletionItem(name, help=line) for name, (_, line) in VERBS.items()]
        return [verb for verb in verbs if verb.value.startswith(incomplete)] + click.Command.shell_complete(
            self, ctx, incomplete
        )

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_head(ctx, self, formatter)
        write_examples(formatter, FIRST_STEPS)
        with formatter.section("Verbs (for details: headway VERB --help)"):
            formatter.write_dl([(name, line) for name, (_, line) in VERBS.items()])
        write_options(ctx, self, formatter)
        with formatter.section("Exit codes"):
            formatter.write_text(EXIT_CODES)


app = App(
    "headway",
    help="The Transformer as a tool: two text files in, a translator out.",
    subcommand_metavar="VERB ...",
    no_args_is_help=True,
    context_settings=CONTEXT_SETTINGS,
    params=global_options(hidden=False),
)
click.version_option(__version__, message="headway %(version)s")(app)
