"""`headway variants`: everything that a slot of the config can hold."""

import sys
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

import click

from headway.cli.app import Verb, option

if TYPE_CHECKING:
    from headway.config.catalogue import Entry

DOCS = Path(__file__).parents[3] / "docs"
PAGES = {
    "position": "positions.md",
    "mask": "masks.md",
    "mixer": "attention.md",
    "feedforward": "feedforward.md",
    "residual": "residuals.md",
    "norm": "residuals.md",
    "linear": "feedforward.md",
    "head": "heads.md",
    "objective": "training.md",
    "alignment": "alignments.md",
    "shortlist": "shortlist.md",
    "optimiser": "training.md",
    "schedule": "training.md",
    "tokenizer": "tokenizers.md",
}


@click.command(
    "variants",
    cls=Verb,
    examples=[
        ("headway variants", "all of them, by slot"),
        ("headway variants mask", "of one slot"),
        ("headway variants rope", "one of them: its settings, and its page"),
    ],
)
@click.argument("kind", required=False)
@option("--slot", metavar="NAME", group="What", help="Only this slot: position, mask, mixer, residual …")
def variants(kind: str | None, slot: str | None) -> None:
    """Say what can be chosen for each part of a model and its training.

    With a name, its settings with their defaults, and the page about it where the documentation is at hand."""
    from headway.cli.markdown import show_page
    from headway.config.catalogue import CATALOGUE, slots
    from headway.errors import ConfigError, did_you_mean

    if slot is not None and slot not in slots():
        raise ConfigError(f'there is no slot "{slot}".{did_you_mean(slot, slots())} Known: {", ".join(slots())}.')
    if kind in slots() and slot is None and all(entry.kind != kind for entry in CATALOGUE):
        kind, slot = None, kind
    found = [entry for entry in CATALOGUE if slot in (None, entry.slot) and kind in (None, entry.kind)]
    if not found:
        names = list(dict.fromkeys(entry.kind for entry in CATALOGUE if slot in (None, entry.slot)))
        names += [] if slot else slots()
        elsewhere = [entry.slot for entry in CATALOGUE if entry.kind == kind]
        hint = f" It is a kind of {elsewhere[0]}." if elsewhere else did_you_mean(str(kind), names)
        raise ConfigError(
            f'nothing is called "{kind}"{f" in the slot {slot}" if slot else ""}.{hint} See: headway variants'
        )
    if kind is None:
        listed(found)
        return
    for entry in found:
        click.echo(described(entry))
    for page in dict.fromkeys(map(page_of, found)):
        if (DOCS / page).exists():
            show_page((DOCS / page).read_text(encoding="utf-8"))


def listed(entries: "list[Entry]") -> None:
    """One line each, under the name of its slot; a table of tabs where nobody watches."""
    from headway.cli.markdown import columns
    from headway.cli.terminal import is_watched, table

    if not is_watched(sys.stdout):
        table(
            ["slot", "kind", "what", "cost", "reference"],
            [(e.slot, e.kind, e.line, e.cost, e.reference) for e in entries],
        )
        return
    names = max(len(entry.kind) for entry in entries)
    room = max(columns() - names - 4, 20)
    for number, entry in enumerate(entries):
        if not number or entries[number - 1].slot != entry.slot:
            click.secho(f"{'' if not number else chr(10)}{entry.slot}", bold=True)
        told = ", ".join(part for part in (entry.cost, entry.reference) if part)
        line, more = entry.line, f"[{told}]" if told else ""
        joined = f"{line}  {more}".rstrip()
        lines = [joined] if len(joined) <= room else [*wrap(line, room), *wrap(more, room)]
        for place, text in enumerate(lines):
            click.echo(f"  {'' if place else entry.kind:{names}}  {text}")


def described(entry: "Entry") -> str:
    """A kind with its settings, as one writes them."""
    import dataclasses

    from headway.cli.markdown import columns
    from headway.config.schema import config_class

    fields = [spec for spec in dataclasses.fields(config_class(entry.slot, entry.kind)) if spec.name != "kind"]
    settings = [f"  {spec.name} = {_default(spec)}" for spec in fields]
    told = [part for part in (entry.cost and f"cost {entry.cost}", entry.reference) if part]
    head = f"{entry.slot} {entry.kind}: {entry.line}" + (f" ({'; '.join(told)})" if told else "")
    return "\n".join([*wrap(head, columns(), subsequent_indent="    ", break_on_hyphens=False), *settings])


def _default(spec: "object") -> str:
    import dataclasses

    assert isinstance(spec, dataclasses.Field)
    if spec.default is dataclasses.MISSING:
        return "to be given"
    return "derived" if spec.default is None else repr(spec.default)


def page_of(entry: "Entry") -> str:
    """Its own page, where somebody wrote docs/<kind>.md, or that of its slot."""
    own = f"{entry.kind}.md"
    return own if (DOCS / own).exists() else PAGES[entry.slot]
