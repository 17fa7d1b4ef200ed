"""Decoding: ids in, ids out. Greedy, beam and sampling over any model that can name the next token."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.config.search import Marks, Search
    from headway.decode.dispatch import decode, stream
    from headway.decode.reference.model import Remembered, Stepper
    from headway.decode.types import Choice, Hypothesis, Recorder

__all__ = ["Choice", "Hypothesis", "Marks", "Recorder", "Remembered", "Search", "Stepper", "decode", "stream"]

_HOME = {
    "Choice": "headway.decode.types",
    "Hypothesis": "headway.decode.types",
    "Marks": "headway.config.search",
    "Recorder": "headway.decode.types",
    "Remembered": "headway.decode.reference.model",
    "Search": "headway.config.search",
    "Stepper": "headway.decode.reference.model",
    "decode": "headway.decode.dispatch",
    "stream": "headway.decode.dispatch",
}


def __getattr__(name: str) -> Any:
    """Settings and results are wanted without torch, so that each name is imported when it is first used."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
