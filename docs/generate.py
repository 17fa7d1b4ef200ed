"""Generate docs/cli.md, docs/variants.md and the gallery of the page from the code. A test fails when they are stale.

python docs/generate.py
"""

import json
from pathlib import Path

import click

from headway.cli.app import VERBS, app
from headway.cli.verbs.variants import SLOT_PAGES, docs_page
from headway.config.catalogue import CATALOGUE, Entry, slots
from headway.inspect.kind_pictures import describe_kinds

HERE = Path(__file__).parent
GALLERY = HERE.parent / "headway/serve/static/variants.json"


def cli_page() -> str:
    """The help of every verb, in 80 columns."""
    context = _context(app, "headway", None)
    parts = ["# The command line", "Generated from the program's own help by `docs/generate.py`.", _block(app, context)]
    for name in VERBS:
        command = app.get_command(context, name)
        assert command is not None
        parts += [f"## headway {name}", _block(command, _context(command, name, context))]
    return "\n\n".join(parts) + "\n"


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    return click.Context(command, info_name=name, parent=parent, terminal_width=80, **command.context_settings)


def _block(command: click.Command, context: click.Context) -> str:
    lines = [line.rstrip() for line in command.get_help(context).strip().splitlines()]
    return "```text\n" + "\n".join(lines) + "\n```"


def variants_page() -> str:
    """All kinds of every slot."""
    parts = ["# What can be chosen", "Generated from `headway/config/catalogue.py` by `docs/generate.py`."]
    for slot in slots():
        rows = [entry for entry in CATALOGUE if entry.slot == slot]
        table = ["| kind | what | cost | reference |", "|---|---|---|---|"]
        table += [
            f"| {_format_kind(e)} | {e.line.replace('|', chr(92) + '|')} | {e.cost} | {e.reference} |" for e in rows
        ]
        parts += [f"## {slot} ([page]({SLOT_PAGES[slot]}))", "\n".join(table)]
    return "\n\n".join(parts) + "\n"


def _format_kind(entry: Entry) -> str:
    """The kind, with a link if it has its own page."""
    page = docs_page(entry)
    return f"`{entry.kind}`" if page == SLOT_PAGES[entry.slot] else f"[`{entry.kind}`]({page})"


def gallery() -> str:
    """All kinds with their settings and pictures, as the page of headway serve reads them: one a line."""
    kinds = [json.dumps(kind, ensure_ascii=False, separators=(",", ":")) for kind in describe_kinds()]
    return "[\n" + ",\n".join(kinds) + "\n]\n"


def main() -> None:
    (HERE / "cli.md").write_text(cli_page(), encoding="utf-8")
    (HERE / "variants.md").write_text(variants_page(), encoding="utf-8")
    GALLERY.write_text(gallery(), encoding="utf-8")


if __name__ == "__main__":
    main()
