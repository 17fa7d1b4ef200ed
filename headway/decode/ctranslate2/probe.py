"""Probe whether CTranslate2 can run a model, from its config.json and weights alone and without torch."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headway.device import is_cpu_only
from headway.errors import HeadwayError
from headway.storage.summary import ModelSummary, read_summary

if TYPE_CHECKING:
    from headway.decode.ctranslate2.model import Ct2Model


@dataclass(frozen=True)
class Ct2Probe:
    """A model that CTranslate2 can run, as far as is known without its tokenizer; or the reason why it cannot."""

    reason: str = ""
    summary: ModelSummary | None = None
    model: "Ct2Model | None" = None


def probe_ctranslate2(
    paths: Sequence[str | Path],
    device: str = "auto",
    engine: str = "auto",
    compute: str = "auto",
    threads: int | None = None,
    start: bool = False,
) -> Ct2Probe:
    """The arguments are those of translate.backends.Engines. start: begin to load the weights in the background."""
    if engine == "torch":
        return Ct2Probe()
    if compute == "bfloat16":
        return Ct2Probe("it computes in float32 or int8")
    if len(paths) > 1:
        return Ct2Probe("it does not support ensembles")
    if not is_cpu_only(device):
        why = "there may be a GPU: use --device cpu" if device == "auto" else f"the device is {device}"
        return Ct2Probe(f"it runs on the CPU only, and {why}")
    if engine == "auto" and "torch" in sys.modules:
        return Ct2Probe("torch is loaded already")
    folder = Path(paths[0])
    read = read_summary(folder)
    if read is None or read[0].objective != "translation":
        return Ct2Probe("its config.json is not that of a translator")
    from headway.decode.ctranslate2.model import Ct2Model
    from headway.decode.ctranslate2.weights import UnsupportedModelError
    from headway.storage.tensor_file import TensorFile

    try:
        stored = TensorFile(folder / "model.safetensors")
        use_int8 = stored.is_int8 if compute == "auto" else compute == "int8"
        model = Ct2Model(read[1]["model"], stored, "int8" if use_int8 else "float32", threads)
    except (HeadwayError, UnsupportedModelError) as error:
        return Ct2Probe(str(error).rstrip("."))
    if engine == "auto":  # packing the weights takes longer than it saves for little text
        os.environ.setdefault("CT2_PACKED_GEMM", "0")
    if start:
        model.start()
    return Ct2Probe("", read[0], model)
