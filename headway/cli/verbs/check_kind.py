"""`headway check-kind`: the contracts of a slot, over a class of one's own."""

import click

from headway.cli.app import Verb, option


@click.command(
    "check-kind",
    cls=Verb,
    examples=[
        ("headway check-kind my_package.module:MyMixer", "all checks of its slot"),
        ('headway check-kind "my_package.module:MyMixer(heads=4)"', "with settings that fit a small model"),
        ("headway check-kind my_mixer", "a kind that an installed package declares"),
        ("headway check-kind --slot mixer retention", "one of Headway's own"),
    ],
)
@click.argument("kind")
@option("--slot", metavar="NAME", group="Selection", help="Its slot: mixer, mask, position … Default: by what it is.")
def check_kind(kind: str, slot: str | None) -> None:
    """Check a mixer, mask, position or other kind of your own.

    Decoding in chunks, beam search, padding, gradients, costs and learning are checked on models of width 16 and 32, as
    Headway's own kinds are. One line a check: passed, failed with what was expected and found, or not applicable. The
    exit code is 1 if one has failed."""
    from headway.contracts.check_kind import check_kind as run_checks
    from headway.contracts.check_kind import find_subject

    subject = find_subject(kind, slot or "")
    counts = {"passed": 0, "failed": 0, "not applicable": 0}
    colours = {"passed": "green", "failed": "red", "not applicable": "yellow"}
    for result in run_checks(subject):
        counts[result.outcome] += 1
        details = " ".join(result.details.split())
        outcome = click.style(f"{result.outcome:14}", fg=colours[result.outcome])
        click.echo(f"{outcome}  {result.name}{f': {details}' if details else ''}")
    told = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
    click.echo(f"{subject.slot} {subject.form}: {told}")
    if counts["failed"]:
        click.get_current_context().exit(1)
