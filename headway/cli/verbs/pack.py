"""`headway pack`: quantised storage, ternary weights in 2 bits or dense weights in int8."""

from pathlib import Path

import click

from headway.cli.app import Verb, option
from headway.cli.terminal import log


@click.command(
    "pack",
    cls=Verb,
    examples=[
        ("headway pack --model my-model --out packed", "a BitNet model, four weights per byte"),
        ("headway pack --model my-model --out small --int8", "any other model, one byte per weight"),
        ('headway translate --model packed "The dog sees a red house."', "used like any model"),
    ],
)
@click.argument("directory", required=False, metavar="")  # the model, as it was given before --model
@option("--model", "-m", metavar="MODEL", help="Model directory or name (see headway models).")
@option(
    "--out",
    "-o",
    aliases=["--output"],
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Directory for the new model.",
)
@option("--int8", is_flag=True, help="Quantise a dense model to int8, also for computing on a CPU.")
@option("--overwrite", is_flag=True, help="Replace the model in --out.")
def pack(directory: str | None, model: str | None, out: Path, int8: bool, overwrite: bool) -> None:
    """Store a model's weights in 2 bits (BitNet) or 8 bits (any model).

    Without --int8, MODEL is the directory or name of a model trained with model.linear = "bitnet". The packed model
    computes the same results but cannot be trained further: keep MODEL for that. With --int8, each row of a matrix is
    rounded to integers up to 127, a quarter of the size: translations may differ slightly."""
    from headway.errors import HeadwayError
    from headway.storage.calibration import copy_calibrations
    from headway.storage.model_dir import WEIGHTS_FILE, load_model, save_model
    from headway.storage.packing import int8_state_dict, pack_bitnet_model
    from headway.storage.registry import model_directory
    from headway.storage.tensor_file import TensorFile
    from headway.text.shortlist import copy_shortlist
    from headway.train.checkpoints import refuse_nonempty
    from headway.train.history import History
    from headway.train.model_card import format_evaluate_command

    if (model is None) == (directory is None):
        problem = (
            "--model is missing." if model is None else f"two models were given, {model} and {directory}: give one."
        )
        raise click.UsageError(problem, click.get_current_context())
    model = model_directory(model or directory or "")
    if out.resolve() == Path(model).resolve():
        raise click.UsageError(
            f"--out is {out}, the model itself: choose another directory.", click.get_current_context()
        )
    refuse_nonempty(out, overwrite, "packed weights")
    loaded = load_model(model)
    if int8 and TensorFile(Path(model) / WEIGHTS_FILE).is_int8:
        raise HeadwayError(f"{model} cannot be packed: its matrices are in int8 already. Copy its directory.")
    try:
        config, weights = (loaded.config, int8_state_dict(loaded)) if int8 else pack_bitnet_model(loaded)
    except HeadwayError as error:
        raise HeadwayError(f"{model} cannot be packed: {error}") from None
    card = Path(model) / "README.md"
    about = card.read_text(encoding="utf-8") if card.exists() else "# A model\n"
    how = "stored in eight bits" if int8 else "packed, four to a byte: it cannot be trained on"
    about += f"\nIts linear weights are {how}. Made from {model}.\n"
    save_model(out, config, weights, loaded.tokenizers, about)
    copy_shortlist(model, out)
    copy_calibrations(model, out)
    history = History(out)
    history.add("pack", 0, model=model)
    history.close()
    before, after = ((Path(folder) / WEIGHTS_FILE).stat().st_size for folder in (model, out))
    ratio = f"{before / after:.1f} times smaller" if before / after >= 1.05 else "not smaller: it has few matrices"
    log(f"packed {WEIGHTS_FILE}: {_format_size(before)} -> {_format_size(after)}, {ratio}")
    log(f"next: {format_evaluate_command(config, out)}")


def _format_size(count: int) -> str:
    return f"{count / 1e6:.2f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
