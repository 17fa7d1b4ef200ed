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
        ("headway variants", "all variants, by slot"),
        ("headway variants mask", "those of one slot"),
        ("headway variants rope", "one variant: its settings and its documentation"),
    ],
)
@click.argument("kind", required=False)
@option("--slot", metavar="NAME", group="Selection", help="Only this slot: position, mask, mixer, residual, …")
def variants(kind: str | None, slot: str | None) -> None:
    """List the variants of each part of a model and its training.

    With a name: its settings and their defaults, and its documentation page if available."""
    from headway.cli.markdown import print_markdown
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
        print_list(found)
        return
    for entry in found:
        click.echo(describe_variant(entry))
    for page in dict.fromkeys(map(docs_page, found)):
        if (DOCS / page).exists():
            print_markdown((DOCS / page).read_text(encoding="utf-8"))


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
    """A variant with its settings and their defaults."""
    import dataclasses

    from headway.cli.terminal import stdout_columns
    from headway.config.schema import config_class

    fields = [spec for spec in dataclasses.fields(config_class(entry.slot, entry.kind)) if spec.name != "kind"]
    settings = [f"  {spec.name} = {_default(spec)}" for spec in fields]
    details = [part for part in (entry.cost and f"cost {entry.cost}", entry.reference) if part]
    head = f"{entry.slot} {entry.kind}: {entry.line}" + (f" ({'; '.join(details)})" if details else "")
    return "\n".join([*wrap(head, stdout_columns(), subsequent_indent="    ", break_on_hyphens=False), *settings])


def _default(spec: "object") -> str:
    import dataclasses

    assert isinstance(spec, dataclasses.Field)
    if spec.default is dataclasses.MISSING:
        return "required"
    return "derived" if spec.default is None else repr(spec.default)


def docs_page(entry: "Entry") -> str:
    """Its own page docs/<kind>.md if there is one, otherwise that of its slot."""
    own = f"{entry.kind}.md"
    return own if (DOCS / own).exists() else SLOT_PAGES[entry.slot]
