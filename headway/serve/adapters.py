"""LoRA adapters that are served: each is a model with a name of its own, and shares the weights of its base.

    --model en-de --model law --model medicine      one base in memory, and three models

The base is the served model with the weights that an adapter was trained on, wherever it lies; where none is served,
the model that the adapter names is loaded beside them, without a name for clients."""

from collections.abc import Sequence
from pathlib import Path

from headway.errors import HeadwayError
from headway.serve.names import free_name
from headway.serve.served_model import ServedModel, read_served_model, read_served_summary


def read_served_adapter(path: Path, names: Sequence[str]) -> ServedModel:
    """The adapter in this directory, not loaded, whose base is yet to be found."""
    from headway.storage.adapter import load_adapter

    adapter = load_adapter(path)  # a damaged one ends the server at its start
    summary = read_served_summary(path)
    size = sum(tensor.nbytes for tensor in adapter.weights.values())
    return ServedModel(free_name(path.resolve().name, names), path, summary, size)


def find_bases(adapters: Sequence[ServedModel], models: Sequence[ServedModel]) -> None:
    """Give each adapter its base."""
    from headway.storage.adapter import fingerprint_model, load_adapter
    from headway.storage.registry import model_directory

    prints = {fingerprint_model(model.path): model for model in models}
    for adapter in adapters:
        read = load_adapter(adapter.path)
        if read.base_fingerprint not in prints:
            try:
                base = read_served_model(Path(model_directory(read.base)), ())
                found = fingerprint_model(base.path)
            except HeadwayError:
                found = ""
            if found != read.base_fingerprint:
                raise HeadwayError(
                    f"{adapter.path} is an adapter of {read.base}, which is not there with the same weights. Serve the "
                    "model that it was trained on, too: another --model."
                )
            prints[found] = base
        adapter.base = prints[read.base_fingerprint]
