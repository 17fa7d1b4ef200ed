"""`headway doctor`: is everything here that is needed?"""

import dataclasses
import json
import sys
import textwrap
from typing import TYPE_CHECKING

import click

from headway.cli.app import Verb, option
from headway.cli.terminal import opened, wants_colour

if TYPE_CHECKING:
    from headway.workflows.doctor import Finding

COLOURS = {"ok": "green", "note": "yellow", "broken": "red"}


@click.command(
    "doctor",
    cls=Verb,
    examples=[
        ("headway doctor", "versions, devices, memory, what is missing and what to type"),
        ("headway doctor --json", "the same for a program, or for a report of a problem"),
    ],
)
@option("--json", "as_json", is_flag=True, help="One JSON object.")
def doctor(as_json: bool) -> None:
    """Say whether everything is here that is needed, and what to type if not.

    Exits 1 if something is broken without which nothing works."""
    from headway.workflows.doctor import examine, usable

    findings = examine()
    with opened(None) as sink:
        if as_json:
            told = {"usable": usable(findings), "findings": [dataclasses.asdict(finding) for finding in findings]}
            print(json.dumps(told, ensure_ascii=False, indent=1), file=sink)
        else:
            for finding in findings:
                print(shown(finding), file=sink)
            broken = sum(finding.state == "broken" for finding in findings)
            end = f"{broken} broken: try what stands below it" if broken else "everything that is needed is here"
            print(end, file=sink)
    if not usable(findings):
        click.get_current_context().exit(1)


def shown(finding: "Finding") -> str:
    """The state, what it is about, and what to type, in 80 columns. A command is not broken up."""
    state = f"{finding.state:<7}"
    if wants_colour(sys.stdout):
        state = click.style(state, fg=COLOURS[finding.state])
    told = f"\n{'':24}".join(textwrap.wrap(finding.told, 56, break_on_hyphens=False))
    indent = 24 if len(finding.advice) <= 51 else 7
    advice = f"\n{'':{indent}}try: {finding.advice}" if finding.advice else ""
    return f"{state}{finding.about:<16} {told}{advice}"
