"""A model with an adapter over it: a translator or language model of its own, which shares the weights of its base."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headway.errors import HeadwayError
from headway.storage.registry import is_adapter, model_directory

if TYPE_CHECKING:
    from headway.decode.types import EngineName
    from headway.storage.model_dir import LoadedModel
    from headway.translate.backends import Engines


def find_base(paths: Sequence[str], engine: "EngineName") -> tuple[tuple[str, ...], "EngineName", str]:
    """Where the one directory is an adapter: its base, an engine that runs it, and the adapter. Otherwise what was
    given, and no adapter."""
    if len(paths) != 1 or not is_adapter(paths[0]):
        return tuple(paths), engine, ""
    if engine not in ("auto", "torch"):
        raise HeadwayError(
            f"{paths[0]} is an adapter, which runs in torch, not in {engine}. For other engines: headway merge."
        )
    from headway.storage.adapter import load_adapter

    return (model_directory(load_adapter(paths[0]).base),), "torch", str(paths[0])


def adapt_model(engines: "Engines | None", folder: str | Path) -> "LoadedModel":
    """The loaded model with the adapter of this directory. Nothing of the base is copied or changed."""
    from headway.storage.adapter import fingerprint_model, load_adapter

    if engines is None or len(engines.paths) != 1:
        raise HeadwayError(
            "an adapter belongs to one model in a directory: load that, not an ensemble or one in memory."
        )
    adapter = load_adapter(folder)
    loaded = engines.loaded[0]
    return loaded._replace(model=adapter.add_to(loaded.model, fingerprint_model(engines.paths[0])))
