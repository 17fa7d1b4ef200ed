"""Headway is the Transformer as a tool: two text files in, a translator out.

The public names are looked up when they are first used, so that `import headway` imports no torch."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import headway.config.presets as presets
    from headway.config.config import Config as Config
    from headway.errors import HeadwayError as HeadwayError
    from headway.text import Tokenizer as Tokenizer
    from headway.translate.translator import Translator as Translator
    from headway.translate.translator import load as load

__version__ = "0.1.0"

_HOMES = {
    "Config": "headway.config.config:Config",
    "HeadwayError": "headway.errors:HeadwayError",
    "Tokenizer": "headway.text:Tokenizer",
    "Translator": "headway.translate.translator:Translator",
    "load": "headway.translate.translator:load",
    "presets": "headway.config.presets",
}

__all__ = ["Config", "HeadwayError", "Tokenizer", "Translator", "__version__", "load", "presets"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'headway' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    value: Any = import_module(module)
    if attribute:
        value = getattr(value, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
