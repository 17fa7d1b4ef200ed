"""Which engine without torch can run a stored model here: native or ctranslate2. Nothing here imports torch."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.config.objective_kinds import has_source
from headway.decode.stored_config import JsonObject, UnsupportedModelError, check_config
from headway.device import is_cpu_only
from headway.errors import HeadwayError
from headway.storage.summary import ModelSummary, read_summary
from headway.storage.tensor_file import TensorFile

if TYPE_CHECKING:
    from headway.decode.ctranslate2.model import Ct2Model
    from headway.decode.native.model import NativeModel

TORCH_FREE_ENGINES = ("native", "ctranslate2")  # in the order in which `auto` prefers them


@dataclass(frozen=True)
class EngineProbe:
    """A model that an engine without torch can run, as far as is known without its tokenizer; or why none can."""

    reasons: tuple[tuple[str, str], ...] = ()  # engines that were asked for and cannot run it, and why
    summary: ModelSummary | None = None
    model: "NativeModel | Ct2Model | None" = None


def probe_engines(
    paths: Sequence[str | Path],
    device: str = "auto",
    engine: str = "auto",
    compute: str = "auto",
    threads: int | None = None,
    start: bool = False,
) -> EngineProbe:
    """The arguments are those of translate.backends.Engines. start: begin to load the weights in the background."""
    names = [name for name in TORCH_FREE_ENGINES if engine in ("auto", name)]
    if not names:
        return EngineProbe()
    read = None
    try:
        read = _read_model(paths, device)
    except UnsupportedModelError as error:
        return EngineProbe(tuple((name, str(error)) for name in names))
    summary, table, stored = read
    config = table["model"]
    is_imported = table["tokenizer"]["kind"] == "imported"  # then its special tokens are not known yet
    reasons = []
    for name in names:
        try:
            make_model: Any = _make_native if name == "native" else _make_ct2
            model = make_model(config, stored, compute, threads, engine)
        except UnsupportedModelError as error:
            reasons.append((name, str(error)))
            continue
        if start and not is_imported:
            model.start()
        return EngineProbe(tuple(reasons), summary, model)
    return EngineProbe(tuple(reasons))


def _read_model(paths: Sequence[str | Path], device: str) -> tuple[ModelSummary, JsonObject, TensorFile]:
    """Its config.json and weights. UnsupportedModelError where no engine but torch could run it."""
    if len(paths) > 1:
        raise UnsupportedModelError("it does not support ensembles")
    if not is_cpu_only(device):
        why = "there may be a GPU: use --device cpu" if device == "auto" else f"the device is {device}"
        raise UnsupportedModelError(f"it runs on the CPU only, and {why}")
    folder = Path(paths[0])
    read = read_summary(folder)
    if read is None or not has_source(read[0].objective):
        raise UnsupportedModelError("its config.json is not that of a translator")
    check_config(read[1])
    try:
        return read[0], read[1], TensorFile(folder / "model.safetensors")
    except HeadwayError as error:
        raise UnsupportedModelError(str(error).rstrip(".")) from None


def _make_native(config: JsonObject, stored: TensorFile, compute: str, *_: Any) -> "NativeModel":
    if compute not in ("auto", "int8"):
        raise UnsupportedModelError("it computes in int8")
    if compute == "auto" and not stored.is_int8:
        raise UnsupportedModelError("it computes in int8, and the weights are in float32: use --compute int8")
    from headway.decode.native.model import NativeModel
    from headway.nn.ops import native

    model = NativeModel(config, stored)
    if native.load_library() is None:
        is_off = os.environ.get("HEADWAY_NATIVE") == "0"
        why = "turned off by HEADWAY_NATIVE=0" if is_off else "not compiled: install a C compiler, such as gcc"
        raise UnsupportedModelError(f"its kernels are {why}")
    return model


def _make_ct2(config: JsonObject, stored: TensorFile, compute: str, threads: int | None, engine: str) -> "Ct2Model":
    if compute == "bfloat16":
        raise UnsupportedModelError("it computes in float32 or int8")
    from headway.decode.ctranslate2.model import Ct2Model

    use_int8 = stored.is_int8 if compute == "auto" else compute == "int8"
    model = Ct2Model(config, stored, "int8" if use_int8 else "float32", threads)
    if engine == "auto":  # packing the weights takes longer than it saves for little text
        os.environ.setdefault("CT2_PACKED_GEMM", "0")
    return model
