"""`headway models`: those that can be called by name."""

import json
import shlex
import sys
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from headway.cli.app import Verb, option
from headway.cli.terminal import is_watched, log, table, wants_colour

if TYPE_CHECKING:
    from headway.storage.registry import Installed


@click.command(
    "models",
    cls=Verb,
    examples=[
        ("headway models", "what is installed"),
        ("headway models --json", "the same for programs, one JSON object a line"),
        ("headway models add my-model --name en-de", "a copy of a model directory, to be called by its name"),
        ("headway models remove en-de", "delete that copy"),
    ],
)
@click.argument("action", required=False, type=click.Choice(["add", "remove"]), metavar="[add DIR|remove NAME]")
@click.argument("what", required=False, metavar="")
@option("--name", default="", show_default=False, metavar="NAME", help="With add: what to call it. Default: as DIR.")
@option("--json", "as_json", is_flag=True, help="One JSON object a model.")
def models(action: str | None, what: str | None, name: str, as_json: bool) -> None:
    """List installed models, or add and remove your own.

    Those of the package come first; yours lie in $HEADWAY_MODELS, or ~/.local/share/headway/models. Direction and size
    are read from the model, licence and scores from the head of its README.md. Every --model takes their names."""
    if (action is None) != (what is None) or (name and action != "add") or (as_json and action):
        told = "say headway models, headway models add DIR [--name NAME], or headway models remove NAME."
        raise click.UsageError(told, click.get_current_context())
    if action is None:
        show(as_json)
        return
    assert what is not None
    from headway.storage.registry import add, remove

    if action == "remove":
        log(f"removed {remove(what)}")
        return
    added = add(what, name)
    verb = "translate" if added.directions else "generate"
    log(f"copied to {added.folder}")
    log(f'next: headway {verb} --model {shlex.quote(added.name)} "…"')


def show(as_json: bool) -> None:
    from headway.storage.registry import BUNDLED, installed, model_folders, own_folder

    found = sorted(installed().values(), key=lambda one: (not one.bundled, one.name))
    known = {one.folder for one in found} | {BUNDLED / one.name for one in found}
    for folder in [*model_folders(BUNDLED), *model_folders(own_folder())]:
        if folder not in known:
            log(f"{folder} holds no model that this Headway can read", "warning")
    rows = [about(one) for one in found]
    if as_json:
        for row in rows:
            click.echo(json.dumps(row, ensure_ascii=False))
    elif is_watched(sys.stdout):
        listed(rows)
    else:
        header = ["name", "directions", "size", "licence", "scores", "where"]
        table(header, [(*facts(row)[:4], scores(row), row["folder"]) for row in rows])
    if not rows:
        log("no model is installed. Train one, then: headway models add DIR")


def about(model: "Installed") -> dict[str, Any]:
    from headway.storage.card import read_card

    card = read_card(model.folder)
    files = [file for file in model.folder.iterdir() if file.is_file()]
    return {
        "name": model.name,
        "objective": model.outline.objective,
        "directions": model.directions,
        "bytes": sum(file.stat().st_size for file in files),
        "licence": card.licence,
        "scores": card.scores,
        "bundled": model.bundled,
        "folder": str(model.folder),
    }


def facts(row: dict[str, Any]) -> tuple[str, str, str, str]:
    from headway.text.language_codes import shown

    what = shown(row["directions"]) or ("languages unknown" if row["objective"] == "translation" else "language model")
    return row["name"], what, f"{row['bytes'] / 1e6:.1f} MB", row["licence"] or "licence unknown"


def scores(row: dict[str, Any]) -> str:
    return "; ".join(f"{name}: {told}" for name, told in row["scores"].items())


def listed(rows: list[dict[str, Any]]) -> None:
    """A paragraph each, as wide as the terminal."""
    from headway.cli.markdown import columns

    for row in rows:
        name, *rest = facts(row)
        told = [", ".join([*rest, "part of the package" if row["bundled"] else row["folder"]]), scores(row)]
        click.echo(click.style(name, bold=True) if wants_colour(sys.stdout) else name)
        for text in filter(None, told):
            for line in wrap(text, max(columns() - 2, 20), break_on_hyphens=False):
                click.echo(f"  {line}")
