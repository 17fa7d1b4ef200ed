"""A model with an adapter over it: a translator or language model of its own, which shares the weights of its base."""

from pathlib import Path
from typing import TYPE_CHECKING

from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.storage.model_dir import LoadedModel
    from headway.translate.backends import Engines


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
