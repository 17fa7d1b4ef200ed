"""`headway toy`: a synthetic corpus."""

import shlex
from pathlib import Path

import click

from headway.cli.app import Verb, option
from headway.cli.terminal import log

TRAIN_FILES = {
    "source": "train.en",
    "target": "train.qtx",
    "valid-source": "valid.en",
    "valid-target": "valid.qtx",
}


@click.command(
    "toy",
    cls=Verb,
    examples=[
        ("headway toy --out toy", "8,000 training pairs, 500 for validation, 500 for test"),
        ("headway toy --out more --pairs 20000 --seed 1", "more pairs, and other sentences"),
    ],
)
@option("--out", "-o", aliases=["--output"], type=click.Path(path_type=Path), required=True, help="Output directory.")
@option("--pairs", type=click.IntRange(min=1), default=8000, help="Number of training pairs.")
@option("--seed", type=int, default=0, help="Random seed.")
def toy(out: Path, pairs: int, seed: int) -> None:
    """Write a small synthetic corpus to experiment with.

    English (.en) and an invented language (.qtx) with its own word order, case endings and numbers. Writes train, valid
    and test, which share no sentence, and test.align with the true word alignments."""
    from headway.data.toy import write_toy

    files = write_toy(out, pairs, seed)
    log(f"wrote {', '.join(file.name for file in files)} to {out}")
    flags = {name: shlex.quote(str(out / file)) for name, file in TRAIN_FILES.items()}
    log("next: headway train " + " ".join(f"--{name} {file}" for name, file in flags.items()) + " --out my-model")
