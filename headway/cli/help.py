"""How a verb explains itself: a summary, usage, examples first, options under headings, exit codes."""

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from headway.cli.terminal import settings

Examples = Sequence[tuple[str, str]]
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

EXIT_CODES = "0 done, 1 failed, 2 wrong usage or config, 130 interrupted, 143 terminated"
EVERYWHERE = "-q, -v, --color, --log-format and --debug work here too: see headway --help"
CONTEXT: dict[str, Any] = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 80,
    "show_default": True,
}


def option(*names: str, group: str = "Options", **attributes: Any) -> Callable[[FunctionT], FunctionT]:
    """`click.option` with the heading that it stands under in the help."""
    return click.option(*names, cls=GroupedOption, group=group, **attributes)


def options_for_every_verb(hidden: bool) -> list[click.Parameter]:
    """The global options. Verbs take them too, unseen, because people write them at the end of the line."""

    def remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if parameter.name in ("quiet", "verbose") and value:
            settings.verbosity = -1 if parameter.name == "quiet" else 1
        elif parameter.name and value:
            setattr(settings, parameter.name, value)

    def make(*names: str, **attributes: Any) -> click.Option:
        # Eager: they also decide how an error in the rest of the line is shown.
        return click.Option(names, callback=remember, expose_value=False, is_eager=True, hidden=hidden, **attributes)

    return [
        make("-q", "--quiet", is_flag=True, help="Print only results, warnings and errors."),
        make("-v", "--verbose", is_flag=True, help="Print more details on stderr."),
        make("--color", type=click.Choice(["auto", "always", "never"]), help="Colours; auto: on a terminal."),
        make("--log-format", type=click.Choice(["text", "json"]), help="How messages on stderr look."),
        make("--debug", is_flag=True, envvar="HEADWAY_DEBUG", help="Show tracebacks. Also HEADWAY_DEBUG=1."),
    ]


def write_examples(formatter: click.HelpFormatter, examples: Examples) -> None:
    if not examples:
        return
    with formatter.section("Examples"):
        for command, what in examples:
            formatter.write(f"{'':{formatter.current_indent}}# {what}\n")
            formatter.write(f"{'':{formatter.current_indent}}{fold(command, formatter.width - 4)}\n")


def fold(command: str, width: int) -> str:
    """A long command over several lines, broken before an option as one would type it."""
    lines = [""]
    for piece in re.split(r" (?=--?\w)", command):
        if lines[-1] and len(lines[-1]) + len(piece) + 3 > width:
            lines.append("    " + piece)
        else:
            lines[-1] = f"{lines[-1]} {piece}" if lines[-1] else piece
    return " \\\n  ".join(lines)


def write_options(context: click.Context, command: click.Command, formatter: click.HelpFormatter) -> None:
    groups: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record:
            group = parameter.group if isinstance(parameter, GroupedOption) else "Options"
            groups.setdefault(group, []).append(record)
    last = groups.pop("Options", [])
    for heading, records in [*groups.items(), ("Options", last)]:
        with formatter.section(heading):
            formatter.write_dl(records)


def write_head(context: click.Context, command: click.Command, formatter: click.HelpFormatter) -> str:
    """Summary and usage; returns what else the help has to say."""
    summary, _, rest = inspect.cleandoc(command.help or "").partition("\n\n")
    formatter.write_text(summary)
    formatter.write_paragraph()
    command.format_usage(context, formatter)
    return rest


class GroupedOption(click.Option):
    """An option that knows the heading it stands under in the help."""

    def __init__(self, *args: Any, group: str = "Options", **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.group = group


class Verb(click.Command):
    """A command whose help starts with examples, as (command line, what it does): the tests parse each."""

    def __init__(self, *args: Any, examples: Examples = (), **attributes: Any) -> None:
        attributes["context_settings"] = {**CONTEXT, **(attributes.get("context_settings") or {})}
        super().__init__(*args, **attributes)
        self.examples = list(examples)
        taken = {name for parameter in self.params for name in parameter.opts}
        self.params += [new for new in options_for_every_verb(hidden=True) if not taken & set(new.opts)]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rest = write_head(ctx, self, formatter)
        write_examples(formatter, self.examples)
        if rest:
            formatter.write_paragraph()
            formatter.write_text(rest)
        write_options(ctx, self, formatter)
        with formatter.section("Exit codes"):
            formatter.write_text(EXIT_CODES)
        formatter.write_paragraph()
        formatter.write(EVERYWHERE)
