"""Whether CTranslate2 can serve a model, found out without torch."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headway.device import surely_cpu
from headway.errors import HeadwayError
from headway.storage.summary import Outline, read_outline

if TYPE_CHECKING:
    from headway.decode.ctranslate2.model import Ct2Model


@dataclass(frozen=True)
class Quick:
    """A model that can be served, as far as can be told without its tokenizer; or why it cannot."""

    reason: str = ""
    outline: Outline | None = None
    model: "Ct2Model | None" = None


def quick_model(
    paths: Sequence[str | Path], device: str = "auto", engine: str = "auto", compute: str = "auto",
    threads: int | None = None, start: bool = False,
) -> Quick:  # fmt: skip
    """For these requests. start: begin to load it, for a little text that will be asked for at once."""
    if engine == "torch":
        return Quick()
    if compute == "bfloat16":
        return Quick("it computes in float32 or int8")
    if len(paths) > 1:
        return Quick("several models vote, which it does not know")
    if not surely_cpu(device):
        told = "there may be a GPU. Say --device cpu" if device == "auto" else f"the device is {device}"
        return Quick(f"it serves the CPU alone, and {told}")
    if engine == "auto" and "torch" in sys.modules:
        return Quick("torch is there already")
    folder = Path(paths[0])
    read = read_outline(folder)
    if read is None or read[0].objective != "translation":
        return Quick("its config.json is not that of a translator")
    from headway.decode.ctranslate2.model import Ct2Model
    from headway.decode.ctranslate2.weights import Unknown
    from headway.storage.tensor_file import Stored

    try:
        stored = Stored(folder / "model.safetensors")
        eight = stored.eight_bits if compute == "auto" else compute == "int8"
        model = Ct2Model(read[1]["model"], stored, "int8" if eight else "float32", threads)
    except (HeadwayError, Unknown) as error:
        return Quick(str(error).rstrip("."))
    if engine == "auto":  # little text: weights put in another order repay that only in the long run
        os.environ.setdefault("CT2_PACKED_GEMM", "0")
    if start:
        model.start()
    return Quick("", read[0], model)
