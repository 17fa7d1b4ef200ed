"""`headway variants`: the variants that each slot of the config accepts."""

import sys
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

import click

from headway.cli.app import Verb, option

if TYPE_CHECKING:
    from headway.config.catalogue import Entry

DOCS = Path(__file__).parents[3] / "docs"
SLOT_PAGES = {
    "position": "positions.md",
    "rope_scaling": "positions.md",
    "mask": "masks.md",
    "mixer": "attention.md",
    "feedforward": "feedforward.md",
    "residual": "residuals.md",
    "norm": "residuals.md",
    "memory_tokens": "memory_tokens.md",
    "frontend": "frontends.md",
    "retrieval": "retro.md",
    "reasoner": "transnar.md",
    "linear": "feedforward.md",
    "head": "heads.md",
    "objective": "training.md",
    "search": "mask_predict.md",
    "alignment": "alignments.md",
    "shortlist": "shortlist.md",
    "augmentation": "vit.md",
    "optimiser": "training.md",
    "schedule": "training.md",
    "tokenizer": "tokenizers.md",
}
KIND_PAGES = {"span_corruption": "denoising.md", "masked_target": "mask_predict.md"}  # of kinds that share a page
MAX_SUGGESTIONS = 4


@click.command(
    "variants",
    cls=Verb,
    examples=[
        ("headway variants", "all variants, by slot"),
        ("headway variants mask", "those of one slot"),
        ("headway variants rope", "one variant: its settings and its documentation"),
        ("headway variants rwkv", "by another name: all that have it"),
        ("headway variants my_package.module:MyMixer", "a class of your own: its settings"),
        ('headway variants --search "sliding window"', "find one by its name, its paper or its authors"),
    ],
)
@click.argument("kind", required=False)
@option("--slot", metavar="NAME", group="Selection", help="Only this slot: position, mask, mixer, residual, …")
@option(
    "--search",
    metavar="TEXT",
    group="Selection",
    help="Only what has these words in its name, nicknames, paper, author or description.",
)
def variants(kind: str | None, slot: str | None, search: str | None) -> None:
    """List the variants of each part of a model and its training.

    With a name: its settings, their defaults and allowed values, and its documentation page if available."""
    from headway.cli.markdown import print_markdown
    from headway.cli.terminal import log
    from headway.config.catalogue import CATALOGUE, find_by_name, slots
    from headway.config.own_kinds import is_target, list_installed
    from headway.errors import ConfigError, did_you_mean

    if kind is not None and search is not None:
        raise click.UsageError(f'give a name or --search, not both. Try: headway variants --search "{kind} {search}"')
    if slot is not None and slot not in slots():
        raise ConfigError(f'there is no slot "{slot}".{did_you_mean(slot, slots())} Known: {", ".join(slots())}.')
    if kind in slots() and slot is None and all(entry.kind != kind for entry in CATALOGUE):
        kind, slot = None, kind
    if kind is not None and is_target(kind):
        click.echo(describe_variant(find_own_variant(kind)))
        return
    installed, problems = list_installed()
    for problem in problems:
        log(problem, "warning")
    if search is not None:
        print_list(find_variants(search, slot, installed))
        return
    known = [*CATALOGUE, *installed]
    known.sort(key=lambda entry: slots().index(entry.slot))
    found = [entry for entry in known if slot in (None, entry.slot) and kind in (None, entry.kind)]
    found = found or [entry for entry in find_by_name(str(kind)) if slot in (None, entry.slot)]
    if not found:
        names = list(dict.fromkeys(entry.kind for entry in known if slot in (None, entry.slot)))
        names += [] if slot else slots()
        elsewhere = [entry.slot for entry in known if entry.kind == kind]
        hint = f" It is a kind of {elsewhere[0]}." if elsewhere else did_you_mean(str(kind), names)
        hint = hint or suggest_search(str(kind))
        raise ConfigError(
            f'nothing is called "{kind}"{f" in the slot {slot}" if slot else ""}.{hint} See: headway variants'
        )
    if kind is None:
        print_list(found)
        return
    for entry in found:
        click.echo(describe_variant(entry))
    for page in dict.fromkeys(docs_page(entry) for entry in found if entry not in installed):
        if (DOCS / page).exists():
            print_markdown((DOCS / page).read_text(encoding="utf-8"))


def find_own_variant(target: str) -> "Entry":
    """A class of another package, which is not installed as a kind."""
    from headway.config.catalogue import Entry
    from headway.config.own_kinds import SLOT_MEMBERS, guess_slot, import_own
    from headway.errors import ConfigError

    owner = import_own(target, target)
    slot = guess_slot(owner)
    if not slot:
        raise ConfigError(f'"{target}" fits no slot: {", ".join(SLOT_MEMBERS)}. See docs/own-kinds.md.')
    return Entry(slot, target, target, (owner.__doc__ or "").strip().split("\n")[0])


def find_variants(text: str, slot: str | None, installed: "list[Entry]") -> "list[Entry]":
    """What matches, with the entries of a slot together. Raises ConfigError if nothing does."""
    from headway.config.catalogue import CATALOGUE, all_names, search, slots
    from headway.errors import ConfigError, did_you_mean

    found = [entry for entry in search(text, installed) if slot in (None, entry.slot)]
    if found:
        order = dict.fromkeys(entry.slot for entry in found)  # the slot of the best match first
        return [entry for name in order for entry in found if entry.slot == name]
    known = list(dict.fromkeys(name for entry in CATALOGUE for name in all_names(entry)))
    hint = (suggest_search(text) if slot else "") or did_you_mean(text, [*known, *slots()])
    where = f" in the slot {slot}" if slot else ""
    raise ConfigError(f'nothing matches "{text}"{where}.{hint} Try fewer words, or see: headway variants')


def suggest_search(text: str) -> str:
    """The variants that are also known by this text, for an error message."""
    from headway.config.catalogue import search

    found = [f"{entry.kind} ({entry.slot})" for entry in search(text)]
    return f" It matches: {', '.join(found[:MAX_SUGGESTIONS])}." if found else ""


def print_list(entries: "list[Entry]") -> None:
    """One line per variant, grouped by slot; TSV unless on a terminal."""
    from headway.cli.terminal import is_interactive, print_table, stdout_columns

    if not is_interactive(sys.stdout):
        print_table(
            ["slot", "kind", "what", "cost", "reference"],
            [(e.slot, e.kind, e.line, e.cost, e.reference) for e in entries],
        )
        return
    name_width = max(len(entry.kind) for entry in entries)
    text_width = max(stdout_columns() - name_width - 4, 20)
    for number, entry in enumerate(entries):
        if not number or entries[number - 1].slot != entry.slot:
            click.secho(f"{'' if not number else chr(10)}{entry.slot}", bold=True)
        details = ", ".join(part for part in (entry.cost, entry.reference) if part)
        bracketed = f"[{details}]" if details else ""
        one_line = f"{entry.line}  {bracketed}".rstrip()
        fits = len(one_line) <= text_width
        lines = [one_line] if fits else [*wrap(entry.line, text_width), *wrap(bracketed, text_width)]
        for index, text in enumerate(lines):
            click.echo(f"  {'' if index else entry.kind:{name_width}}  {text}")


def describe_variant(entry: "Entry") -> str:
    """A variant with its settings: their defaults and what is allowed."""
    from headway.cli.terminal import stdout_columns
    from headway.config.kind_settings import kind_settings

    width = stdout_columns()
    details = [part for part in (entry.cost and f"cost {entry.cost}", entry.reference) if part]
    head = f"{entry.slot} {entry.kind}: {entry.line}" + (f" ({'; '.join(details)})" if details else "")
    lines = wrap(head, width, subsequent_indent="    ", break_on_hyphens=False)
    if entry.names:
        lines += wrap(f"also: {entry.names}", width, initial_indent="    ", subsequent_indent="    ")
    settings = kind_settings(entry.slot, entry.kind)
    written = [f"  {setting.name} = {setting.default}" for setting in settings]
    column = max((len(text) for text in written if len(text) <= width // 3), default=0)
    for text, setting in zip(written, settings):
        one_line = f"{text:{column}}  # {setting.allowed}"
        lines += [one_line] if len(one_line) <= width else [text, *_wrap_comment(setting.allowed, width)]
    return "\n".join(lines)


def _wrap_comment(text: str, width: int) -> list[str]:
    return wrap(text, width, initial_indent="    # ", subsequent_indent="    # ", break_on_hyphens=False)


def docs_page(entry: "Entry") -> str:
    """Its own page docs/<kind>.md if there is one, otherwise that of its slot."""
    own = KIND_PAGES.get(entry.kind, f"{entry.kind}.md")
    return own if (DOCS / own).exists() else SLOT_PAGES[entry.slot]
