"""Models that travel between processes: pickled as the path and the settings that they were loaded with.

    pickle.dumps(translator) ──► LoadSettings ──► reload_model, in another process: loaded once there
    copy.deepcopy(translator) ─► LoadSettings ──► load_settings: loaded again, shared with nobody

What was changed of a model in memory does not travel."""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from headway.config import own_kinds
from headway.decode.types import Compute, EngineName
from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.translate.backends import Engines
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import Translator

MAX_RELOADED_MODELS = 2  # that a process keeps: each task of a pool brings the model again


class LoadSettings(NamedTuple):
    """What Engines was made from, and a Translator's own settings."""

    paths: tuple[str, ...]
    device: str
    engine: EngineName
    compute: Compute
    threads: int | None
    direction: tuple[str, str] = ("", "")
    batch_tokens: int | None = None
    adapter: str = ""  # a directory; "": none
    allow_code: tuple[str, ...] = ()  # packages that the process has allowed: see headway.config.own_kinds


def require_load_settings(engines: "Engines | None", what: str, **more: Any) -> LoadSettings:
    settings = None if engines is None else engines.load_settings
    if settings is None:
        raise HeadwayError(
            f"this {what} was made from a model in memory, so it cannot be pickled or copied. Save the model to a "
            "directory, and load it from there: headway.load(directory)."
        )
    return settings._replace(allow_code=tuple(own_kinds.allowed_packages()), **more)


def load_settings(settings: LoadSettings) -> "Translator | LanguageModel":
    """A model of its own."""
    from headway.translate.backends import Engines
    from headway.translate.translator import make_loaded

    own_kinds.allow_code(settings.allow_code)
    engines = Engines(settings.paths, settings.device, settings.engine, settings.compute, settings.threads)
    model = make_loaded(engines, settings.direction, settings.batch_tokens)
    return model.with_adapter(settings.adapter) if settings.adapter else model


@functools.lru_cache(maxsize=MAX_RELOADED_MODELS)
def reload_model(settings: LoadSettings) -> "Translator | LanguageModel":
    """The model with these settings; the same one each time, in a process."""
    return load_settings(settings)


def describe_paths(paths: Sequence[str]) -> str:
    """Model directories for people: installed models by name."""
    from headway.storage.registry import portable_name

    return " + ".join(repr(portable_name(path)) for path in paths)
