"""`headway pack`: a model in a fraction of its bytes."""

from pathlib import Path

import click

from headway.cli.app import Verb, option
from headway.cli.terminal import log


@click.command(
    "pack",
    cls=Verb,
    examples=[
        ("headway pack my-model --out packed", "a BitNet model, four weights a byte"),
        ("headway pack my-model --out small --int8", "any other, a weight a byte"),
        ('headway translate --model packed "The dog sees a red house."', "used like any model"),
    ],
)
@click.argument("model")
@option("--out", "-o", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Where the new model goes.")
@option("--int8", is_flag=True, help="Store a dense model in eight bits, and compute with them on a CPU.")
@option("--overwrite", is_flag=True, help="Write over the model that --out holds.")
def pack(model: str, out: Path, int8: bool, overwrite: bool) -> None:
    """Store a model in fewer bytes: ternary weights four to a byte, others in eight bits.

    Without --int8, MODEL is a model directory, or name, that was trained with model.linear = "bitnet": what is packed computes
    the same and cannot be trained on: keep MODEL for that. With --int8 each row of a matrix is rounded to whole numbers
    up to 127, a quarter of the size: translations may differ a little."""
    from headway.errors import HeadwayError
    from headway.storage.model_dir import WEIGHTS, load_model, save_model
    from headway.storage.packing import in_eight_bits, packed
    from headway.storage.registry import directory
    from headway.text.shortlist import keep_shortlist
    from headway.train.checkpoints import refuse_taken
    from headway.train.history import History
    from headway.train.model_card import measuring
    from headway.translate.confidence import keep_calibration

    model = directory(model)
    if out.resolve() == Path(model).resolve():
        raise click.UsageError(f"--out is {out}, the model itself: name another.", click.get_current_context())
    refuse_taken(out, overwrite, "packed weights")
    loaded = load_model(model)
    try:
        config, weights = (loaded.config, in_eight_bits(loaded)) if int8 else packed(loaded)
    except HeadwayError as error:
        raise HeadwayError(f"{model} cannot be packed: {error}") from None
    card = Path(model) / "README.md"
    about = card.read_text(encoding="utf-8") if card.exists() else "# A model\n"
    how = "stored in eight bits" if int8 else "packed, four to a byte: it cannot be trained on"
    about += f"\nIts linear weights are {how}. Made from {model}.\n"
    save_model(out, config, weights, loaded.tokenizers, about)
    keep_shortlist(model, out)
    keep_calibration(model, out)
    history = History(out)
    history.add("pack", 0, model=model)
    history.close()
    before, after = ((Path(folder) / WEIGHTS).stat().st_size for folder in (model, out))
    log(f"packed {WEIGHTS}: {_size(before)} -> {_size(after)}, {before / after:.1f} times smaller")
    log(f"next: {measuring(config, out)}")


def _size(count: int) -> str:
    return f"{count / 1e6:.2f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
