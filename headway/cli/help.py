"""Help output: summary, usage, examples, options grouped under headings, exit codes. Also hidden option aliases."""

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from headway.cli.terminal import settings

Examples = Sequence[tuple[str, str]]
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

EXIT_CODES = "0 done, 1 failed, 2 wrong usage or config, 130 interrupted, 143 terminated"
GLOBAL_OPTIONS_NOTE = "-q, -v, --color, --debug, --allow-code … work here too: see headway --help"
CONTEXT_SETTINGS: dict[str, Any] = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 80,
    "show_default": True,
}


def option(
    *names: str, group: str = "Options", aliases: Sequence[str] = (), **attributes: Any
) -> Callable[[FunctionT], FunctionT]:
    """`click.option` with a heading for the help. `aliases`: earlier names, still accepted but not shown."""
    return click.option(*names, cls=GroupedOption, group=group, aliases=aliases, **attributes)


def global_options(hidden: bool) -> list[click.Parameter]:
    """The global options. Every verb accepts them as well, hidden, because people add them at the end of the line."""

    def store(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if parameter.name == "allow_code":
            if value:
                from headway.config.own_kinds import allow_code

                allow_code([name for given in value for name in given.split(",")])
        elif parameter.name in ("quiet", "verbose") and value:
            settings.verbosity = -1 if parameter.name == "quiet" else 1
        elif parameter.name and value:
            setattr(settings, parameter.name, value)

    def make(*names: str, **attributes: Any) -> click.Option:
        # Eager: they also decide how an error in the rest of the line is reported.
        return click.Option(names, callback=store, expose_value=False, is_eager=True, hidden=hidden, **attributes)

    return [
        make("-q", "--quiet", is_flag=True, help="Print only results, warnings and errors."),
        make("-v", "--verbose", is_flag=True, help="Print more detail on stderr."),
        make("--color", type=click.Choice(["auto", "always", "never"]), help="Use colour; auto: on a terminal."),
        make("--log-format", type=click.Choice(["text", "json"]), help="Format of messages on stderr."),
        make(
            "--allow-code",
            multiple=True,
            metavar="PACKAGE",
            help="Let models run kinds of this package, see docs/own-kinds.md. Also HEADWAY_ALLOW_CODE.",
        ),
        make("--debug", is_flag=True, envvar="HEADWAY_DEBUG", help="Show tracebacks. Also HEADWAY_DEBUG=1."),
    ]


def write_examples(formatter: click.HelpFormatter, examples: Examples) -> None:
    if not examples:
        return
    with formatter.section("Examples"):
        for command, comment in examples:
            formatter.write(f"{'':{formatter.current_indent}}# {comment}\n")
            formatter.write(f"{'':{formatter.current_indent}}{fold_command(command, formatter.width - 4)}\n")


def fold_command(command: str, width: int) -> str:
    """Break a long command over several lines, before an option, with a backslash at each line end."""
    lines = [""]
    for part in re.split(r" (?=--?\w)", command):
        if lines[-1] and len(lines[-1]) + len(part) + 3 > width:
            lines.append("    " + part)
        else:
            lines[-1] = f"{lines[-1]} {part}" if lines[-1] else part
    return " \\\n  ".join(lines)


def write_options(context: click.Context, command: click.Command, formatter: click.HelpFormatter) -> None:
    groups: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record:
            group = parameter.group if isinstance(parameter, GroupedOption) else "Options"
            groups.setdefault(group, []).append(record)
    ungrouped = groups.pop("Options", [])
    for heading, records in [*groups.items(), ("Options", ungrouped)]:
        with formatter.section(heading):
            formatter.write_dl(records)


def write_head(context: click.Context, command: click.Command, formatter: click.HelpFormatter) -> str:
    """Write summary and usage; return the rest of the help text."""
    summary, _, rest = inspect.cleandoc(command.help or "").partition("\n\n")
    formatter.write_text(summary)
    formatter.write_paragraph()
    command.format_usage(context, formatter)
    return rest


def visible_names(parameter: click.Parameter) -> list[str]:
    """The names of an option that help, completion and error messages show: no hidden aliases."""
    aliases = parameter.aliases if isinstance(parameter, GroupedOption) else ()
    return [name for name in parameter.opts if name not in aliases]


class GroupedOption(click.Option):
    """An option with a heading for the help, and with aliases that are accepted but not shown."""

    def __init__(
        self, names: Sequence[str], *, group: str = "Options", aliases: Sequence[str] = (), **attributes: Any
    ) -> None:
        super().__init__([*names, *aliases], **attributes)
        self.group = group
        self.aliases = tuple(aliases)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        accepted = self.opts
        self.opts = visible_names(self)
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = accepted


class Verb(click.Command):
    """A subcommand whose help starts with examples, pairs of (command line, comment): the tests parse each."""

    def __init__(self, *args: Any, examples: Examples = (), **attributes: Any) -> None:
        attributes["context_settings"] = {**CONTEXT_SETTINGS, **(attributes.get("context_settings") or {})}
        super().__init__(*args, **attributes)
        self.examples = list(examples)
        taken = {name for parameter in self.params for name in parameter.opts}
        self.params += [new for new in global_options(hidden=True) if not taken & set(new.opts)]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        aliases = {
            name for parameter in self.params if isinstance(parameter, GroupedOption) for name in parameter.aliases
        }
        return [item for item in super().shell_complete(ctx, incomplete) if item.value not in aliases]

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
        formatter.write(GLOBAL_OPTIONS_NOTE)
