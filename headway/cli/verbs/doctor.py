"""`headway doctor`: check the installation."""

import json
import sys
import textwrap
from typing import TYPE_CHECKING

import click

from headway.cli.app import Verb, option
from headway.cli.terminal import open_output, wants_colour

if TYPE_CHECKING:
    from headway.workflows.doctor import DoctorFinding

STATE_COLOURS = {"ok": "green", "note": "yellow", "broken": "red"}


@click.command(
    "doctor",
    cls=Verb,
    examples=[
        ("headway doctor", "versions, devices, memory, what is missing and how to fix it"),
        ("headway doctor --json", "the same for a program, or for a bug report"),
    ],
)
@option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(as_json: bool) -> None:
    """Check the installation, and say how to fix problems.

    Exits with 1 if a required part is broken."""
    from headway.workflows.doctor import is_usable, run_checks

    findings = run_checks()
    with open_output(None) as sink:
        if as_json:
            report = {"usable": is_usable(findings), "findings": [finding.to_dict() for finding in findings]}
            print(json.dumps(report, ensure_ascii=False, indent=1), file=sink)
        else:
            for finding in findings:
                print(format_finding(finding), file=sink)
            broken = sum(finding.state == "broken" for finding in findings)
            end = f"{broken} broken: try what stands below it" if broken else "everything that is needed is here"
            print(end, file=sink)
    if not is_usable(findings):
        click.get_current_context().exit(1)


def format_finding(finding: "DoctorFinding") -> str:
    """State, subject and advice in 80 columns. Commands are not wrapped."""
    state = f"{finding.state:<7}"
    if wants_colour(sys.stdout):
        state = click.style(state, fg=STATE_COLOURS[finding.state])
    text = f"\n{'':24}".join(textwrap.wrap(finding.message, 56, break_on_hyphens=False))
    indent = 24 if len(finding.advice) <= 51 else 7
    advice = f"\n{'':{indent}}try: {finding.advice}" if finding.advice else ""
    return f"{state}{finding.about:<16} {text}{advice}"
