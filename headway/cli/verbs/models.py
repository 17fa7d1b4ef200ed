"""`headway models`: the models that can be used by name."""

import json
import os
import shlex
import sys
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from headway.cli.app import Verb, option
from headway.cli.terminal import is_interactive, log, print_table, shows_progress, stdout_columns, wants_colour

if TYPE_CHECKING:
    from headway.storage.registry import InstalledModel


@click.command(
    "models",
    cls=Verb,
    examples=[
        ("headway models", "list installed models"),
        ("headway models --json", "the same for programs, one JSON object per line"),
        ("headway models install --from fr --to en", "a translator of OPUS-MT, from the Hugging Face hub"),
        ("headway models install facebook/nllb-200-distilled-600M", "any model there that can be imported"),
        ("headway models add my-model --name medical", "install a copy of a model directory under a name"),
        ("headway models default medical", "use it wherever no model is named, as in headway translate"),
        ("headway models remove medical", "delete that copy"),
    ],
)
@click.argument(
    "action", required=False, type=click.Choice(["add", "install", "default", "remove"]), metavar="[ACTION]"
)
@click.argument("what", required=False, metavar="[NAME]")
@option("--name", default="", show_default=False, metavar="NAME", help="With add and install: the name to give it.")
@option("--default", "default", is_flag=True, help="With add and install: use it wherever no model is named.")
@option("--from", "source_language", default="", show_default=False, metavar="LANG", help="With install: from this.")
@option(
    "--to", "target_language", default="", show_default=False, metavar="LANG", help="With install: to this language."
)
@option("--revision", default="", show_default=False, metavar="NAME", help="With install: branch, tag or commit.")
@option("--allow-pickle", is_flag=True, help="With install: read weights from a .bin file; see headway import.")
@option("--json", "as_json", is_flag=True, help="Print one JSON object per model.")
def models(action: str | None, what: str | None, name: str, default: bool, as_json: bool, **hub: Any) -> None:
    """List, add, install or remove installed models.

    ACTION is add DIR, install NAME, default NAME or remove NAME. A model that was added is used where it is named, and
    in place of others only if it is the default.

    Install downloads and imports a model of the Hugging Face hub: ORG/NAME, or with --from and --to a translator of
    OPUS-MT for these languages, or for a group of them.

    Models of the package come first; yours are in $HEADWAY_MODELS, or ~/.local/share/headway/models. Licence and
    scores come from the head of a model's README.md. Every --model accepts the name of an installed model."""
    is_new = action in ("add", "install")
    by_direction = action == "install" and bool(hub["source_language"] and hub["target_language"])
    is_named = what is not None or by_direction
    misplaced = (bool(name or default) and not is_new) or (any(hub.values()) and action != "install")
    if (action is None) == is_named or misplaced or (as_json and action):
        usage = (
            "use headway models, headway models add DIR [--name NAME] [--default], headway models install ORG/NAME or "
            "--from LANG --to LANG [--name NAME] [--default], headway models default NAME, or headway models remove "
            "NAME."
        )
        raise click.UsageError(usage, click.get_current_context())
    if action is None:
        list_models(as_json)
        return
    if action == "install":
        install_from_hub(what or "", name, default, hub)
        return
    assert what is not None
    from headway.storage.registry import install_model, remove_model, set_default

    if action == "remove":
        log(f"removed {remove_model(what)}")
        return
    if action == "default":
        tell_default(set_default(what))
        return
    added = install_model(what, name, default)
    log(f"copied to {added.folder}")
    tell_use(added)


def install_from_hub(what: str, name: str, default: bool, hub: dict[str, Any]) -> None:
    from headway.cli.verbs.import_model import format_report
    from headway.convert.hub_install import HubRequest, install_from_hub
    from headway.convert.options import ImportOptions

    if not shows_progress():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    options = ImportOptions(revision=hub["revision"], allow_pickle=hub["allow_pickle"])
    request = HubRequest(what, hub["source_language"], hub["target_language"], options)
    added, report = install_from_hub(request, name, default)
    for line in format_report(report):
        log(line)
    log(f"installed in {added.folder}")
    tell_use(added)


def tell_use(added: "InstalledModel") -> None:
    verb = "translate" if added.direction_count else "generate"
    log(f'next: headway {verb} --model {shlex.quote(added.name)} "…"')
    tell_default(added)


def tell_default(model: "InstalledModel") -> None:
    """Which model is used for its directions where none is named."""
    from headway.storage.registry import find_serving, list_installed
    from headway.text.language_codes import MAX_LISTED, format_directions

    installed = list_installed().values()
    if model.direction_count > MAX_LISTED:  # only those that another model has, too
        others = [other for other in installed if other.direction_count <= MAX_LISTED]
        directions = sorted({pair for other in others for pair in other.directions if model.find_directions(*pair)})
        log(f"it has {model.direction_count:,} directions, and translates those of no other model without --model")
    else:
        directions = model.directions
    served = [(find_serving(installed, *direction)[0][0].name, direction) for direction in directions]
    for name in dict.fromkeys(name for name, _ in served):
        listed = format_directions([direction for used, direction in served if used == name])
        change = f", as before; to change that: headway models default {shlex.quote(model.name)}"
        log(f"{listed} without --model is translated by {name}{'' if name == model.name else change}")


def list_models(as_json: bool) -> None:
    from headway.storage.registry import BUNDLED_MODELS, find_model_folders, list_installed, user_models_folder

    installed = sorted(list_installed().values(), key=lambda model: (not model.bundled, model.name))
    known = {model.folder for model in installed} | {BUNDLED_MODELS / model.name for model in installed}
    for folder in [*find_model_folders(BUNDLED_MODELS), *find_model_folders(user_models_folder())]:
        if folder not in known:
            log(f"{folder} is not a model that this version can read", "warning")
    rows = [describe_model(model) for model in installed]
    if as_json:
        for row in rows:
            click.echo(json.dumps(row, ensure_ascii=False))
    elif is_interactive(sys.stdout):
        print_paragraphs(rows)
    else:
        header = ["name", "directions", "size", "licence", "scores", "where"]
        print_table(header, [(*format_facts(row)[:4], format_scores(row), row["folder"]) for row in rows])
    if not rows:
        log("no models installed. Train one, then: headway models add DIR")


def describe_model(model: "InstalledModel") -> dict[str, Any]:
    from headway.storage.card import read_card
    from headway.text.language_codes import MAX_LISTED

    card = read_card(model.folder)
    files = [file for file in model.folder.iterdir() if file.is_file()]
    return {
        "name": model.name,
        "objective": model.summary.objective,
        "directions": model.directions if model.direction_count <= MAX_LISTED else None,
        "source_languages": model.sources,
        "target_languages": model.targets,
        "bytes": sum(file.stat().st_size for file in files),
        "licence": card.licence,
        "scores": card.scores,
        "bundled": model.bundled,
        "folder": str(model.folder),
    }


def format_facts(row: dict[str, Any]) -> tuple[str, str, str, str]:
    from headway.config.objective_kinds import reads_pairs
    from headway.text.language_codes import describe_languages

    unknown = "languages unknown" if reads_pairs(row["objective"]) else "language model"
    directions = describe_languages(row["source_languages"], row["target_languages"]) or unknown
    return row["name"], directions, f"{row['bytes'] / 1e6:.1f} MB", row["licence"] or "licence unknown"


def format_scores(row: dict[str, Any]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in row["scores"].items())


def print_paragraphs(rows: list[dict[str, Any]]) -> None:
    """One paragraph per model, as wide as the terminal."""
    for row in rows:
        name, *rest = format_facts(row)
        paragraphs = [
            ", ".join([*rest, "part of the package" if row["bundled"] else row["folder"]]),
            format_scores(row),
        ]
        click.echo(click.style(name, bold=True) if wants_colour(sys.stdout) else name)
        for text in filter(None, paragraphs):
            for line in wrap(text, max(stdout_columns() - 2, 20), break_on_hyphens=False):
                click.echo(f"  {line}")
