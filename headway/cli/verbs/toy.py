"""`headway toy`: a corpus out of nothing."""

import shlex
from pathlib import Path

import click

from headway.cli.app import Verb, option
from headway.cli.terminal import log


@click.command(
    "toy",
    cls=Verb,
    examples=[
        ("headway toy --out toy", "8,000 pairs to train on, 500 to validate, 500 to test"),
        ("headway toy --out more --pairs 20000 --seed 1", "more of it, and other sentences"),
    ],
)
@option("--out", type=click.Path(path_type=Path), required=True, help="Folder to write into.")
@option("--pairs", type=click.IntRange(min=1), default=8000, help="Sentence pairs to train on.")
@option("--seed", type=int, default=0, help="Another seed, other sentences.")
def toy(out: Path, pairs: int, seed: int) -> None:
    """Write a small made-up corpus to try things on.

    English (.en) beside an invented language (.qtx) with its own word order, case endings and numbers: the files
    train, valid and test, which share no sentence, and test.align with the true word alignments."""
    from headway.data.toy import write_toy

    files = write_toy(out, pairs, seed)
    log(f"wrote {', '.join(file.name for file in files)} to {out}")
    flags = {name: shlex.quote(str(out / file)) for name, file in NEXT.items()}
    log("next: headway train " + " ".join(f"--{name} {file}" for name, file in flags.items()) + " --out my-model")


NEXT = {
    "source": "train.en",
    "target": "train.qtx",
    "valid-source": "valid.en",
    "valid-target": "valid.qtx",
}
