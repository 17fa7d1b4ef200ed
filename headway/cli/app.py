"""The command `headway`. A verb's module is imported when the verb is used, so that help needs no torch."""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import NoReturn

import click
from click.shell_completion import CompletionItem, shell_complete

from headway import __version__
from headway.cli.help import (
    CONTEXT,
    EXIT_CODES,
    Verb,
    option,
    options_for_every_verb,
    write_examples,
    write_head,
    write_options,
)
from headway.cli.terminal import Level, log, reset, settings
from headway.errors import ConfigError, HeadwayError, did_you_mean

# Where each verb lives, and how its help begins.
VERBS = {
    "check": ("headway.cli.verbs.check:check", "Look through a corpus for what would spoil a training."),
    "train": ("headway.cli.verbs.train:train", "Train a translator from two text files."),
    "translate": ("headway.cli.verbs.translate:translate", "Translate text, a file or standard input."),
    "evaluate": ("headway.cli.verbs.evaluate:evaluate", "Measure a translator on held-out text."),
    "score": ("headway.cli.verbs.score:score", "Say how likely a model finds given translations."),
    "calibrate": ("headway.cli.verbs.calibrate:calibrate", "Learn how likely a model's translations are good."),
    "align": ("headway.cli.verbs.align:align", "Say which word says which in given pairs."),
    "generate": ("headway.cli.verbs.generate:generate", "Continue a text with a language model."),
    "serve": (
        "headway.cli.verbs.serve:serve",
        "Serve models over HTTP: LibreTranslate's API, OpenAI's for language models.",
    ),
    "augment": ("headway.cli.verbs.augment:augment", "Make pairs from text in one language, by back-translation."),
    "distil": (
        "headway.cli.verbs.distil:distil",
        "Translate the sources of a corpus, for a smaller model to learn from.",
    ),
    "average": ("headway.cli.verbs.average:average", "Average the last checkpoints of a run."),
    "shortlist": (
        "headway.cli.verbs.shortlist:shortlist",
        "Make a model's shortlist: the words that a source may need.",
    ),
    "pack": (
        "headway.cli.verbs.pack:pack",
        "Store a model in fewer bytes: ternary weights four to a byte, others in eight bits.",
    ),
    "models": ("headway.cli.verbs.models:models", "List installed models, or add and remove your own."),
    "trace": ("headway.cli.verbs.trace:trace", "Save everything that is computed for one sentence."),
    "attend": ("headway.cli.verbs.attend:attend", "Show where each head looks, in the terminal or as a picture."),
    "inspect": (
        "headway.cli.verbs.inspect:inspect",
        "Look into one sentence: write a page that opens without a server, pictures, and the trace.",
    ),
    "draw": ("headway.cli.verbs.draw:draw", "Draw a mask or a position, in the terminal or as a picture."),
    "variants": (
        "headway.cli.verbs.variants:variants",
        "Say what can be chosen for each part of a model and its training.",
    ),
    "toy": ("headway.cli.verbs.toy:toy", "Write a small made-up corpus to try things on."),
    "doctor": (
        "headway.cli.verbs.doctor:doctor",
        "Say whether everything is here that is needed, and what to type if not.",
    ),
    "completion": ("headway.cli.verbs.completion:completion", "Print the completion script for a shell."),
}

COMPLETE = "_HEADWAY_COMPLETE"
FIRST_STEPS = [
    ("headway toy --out toy", "a small corpus to try things on"),
    ("headway train --source toy/train.en --target toy/train.qtx --out my-model", "train a translator"),
    ('headway translate --model my-model "The dog sees a red house."', "use it"),
]

__all__ = ["VERBS", "Verb", "app", "main", "option"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    instruction = os.environ.get(COMPLETE)
    if instruction:
        return shell_complete(app, {}, "headway", COMPLETE, instruction)
    reset()
    # Threads that wait by spinning take the cores from other programs' threads; benchmarks/RESULTS.md has the trade.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        with sigterm_as_exit():
            code = run(sys.argv[1:]) if arguments is None else run(list(arguments), alone=False)
        for stream in (sys.stdout, sys.stderr):
            if stream:  # None when the shell closed it
                stream.flush()
        return code
    except BrokenPipeError:
        # The reader has gone, as with `| head -1`. Python would flush once more at shutdown, and complain.
        if settings.debug:
            traceback.print_exc()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        return 128 + signal.SIGPIPE


def run(arguments: list[str], alone: bool = True) -> int:
    """Every way in which a command line can end, as an exit code and at most a few lines on stderr.

    alone: nothing else happens in this process."""
    try:
        with app.make_context("headway", arguments) as context:
            app.invoke(context)
        return 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except SystemExit as end:
        if isinstance(end.code, str):
            return fail(end.code, 1)
        return end.code or 0
    except BrokenPipeError:
        raise
    except (KeyboardInterrupt, click.Abort):
        if alone:  # only threads are waited for now: a second Ctrl-C ends them, too
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        return fail("interrupted", 128 + signal.SIGINT)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.message, file=sys.stderr)
        return 2
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "headway"
        return fail(f"{usage_message(error)}\nhelp: {command} --help", 2)
    except click.ClickException as error:
        return fail(error.format_message(), error.exit_code)
    except ConfigError as error:
        return fail(str(error), 2)
    except HeadwayError as error:
        return fail(str(error), 1)
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        return fail(f"{named}{error.strerror or error}", 1)
    except Exception as error:
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        return fail(f"{what} (run again with --debug to see where)", 1, "internal error")


def fail(message: str, code: int, level: Level = "error") -> int:
    if settings.debug:
        traceback.print_exc()
    log(message, level)
    return code


def usage_message(error: click.UsageError) -> str:
    """Click's usage errors in our words, with what was probably meant."""
    if isinstance(error, click.NoSuchOption):
        from headway.cli.foreign_options import called_here

        parameters = error.ctx.command.get_params(error.ctx) if error.ctx else []
        known = [name for parameter in parameters for name in [*parameter.opts, *parameter.secondary_opts]]
        here = called_here(error.option_name, known)
        meant = f" Here it is {here}." if here else did_you_mean(error.option_name, known)
        return f"there is no option {error.option_name}.{meant}"
    if isinstance(error, click.BadParameter) and error.param:
        named_by = (
            error.param.opts if isinstance(error.param, click.Option) else [error.param.human_readable_name.upper()]
        )
        name = "/".join(named_by)
        return f"{name} is missing." if isinstance(error, click.MissingParameter) else f"{name}: {error.message}"
    return error.format_message()


@contextmanager
def sigterm_as_exit() -> Iterator[None]:
    """SIGTERM unwinds the program like an error does, so that files are closed and a run can save itself."""

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        sys.exit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class App(click.Group):
    """The group of verbs, known by the table above until one is used."""

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
        with formatter.section("Verbs (headway VERB --help tells more)"):
            formatter.write_dl([(name, line) for name, (_, line) in VERBS.items()])
        write_options(ctx, self, formatter)
        with formatter.section("Exit codes"):
            formatter.write_text(EXIT_CODES)


app = App(
    "headway",
    help="The Transformer as a tool: two text files in, a translator out.",
    subcommand_metavar="VERB ...",
    no_args_is_help=True,
    context_settings=CONTEXT,
    params=options_for_every_verb(hidden=False),
)
click.version_option(__version__, message="headway %(version)s")(app)
