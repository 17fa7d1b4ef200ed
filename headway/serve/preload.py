"""Loads the first model while the server starts, so that the first translation does not wait for it."""

from headway.serve.errors import ApiError
from headway.serve.memory import MemoryBudget
from headway.serve.model_pool import ModelPool

SPARE_BYTES = 2**30  # that must be left beside the model for torch, which the page needs, to be imported as well


def preload_model(pool: ModelPool, memory: MemoryBudget) -> None:
    """The first model, which is that of the page; its network in torch, too, where there is memory for it."""
    from headway.serve.routes.inspect import DEFAULT_COUNTED_LENGTH, describe_served_model
    from headway.translate.translator import Translator

    if not pool.models:
        return
    model = pool.models[0]
    try:
        pool.acquire(model)
    except ApiError:  # the pool has logged why, and whoever asks for the model is told again
        return
    try:
        if memory.limit // pool.settings.processes >= 2 * model.bytes + SPARE_BYTES:
            describe_served_model(pool, model, DEFAULT_COUNTED_LENGTH, DEFAULT_COUNTED_LENGTH)
            if isinstance(model.loaded, Translator):
                _ = model.loaded.steppers
    finally:
        pool.release(model)
