"""Decoding: ids in, ids out. Greedy, beam and sampling over any model that can name the next token."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.config.search import Marks, Search
    from headway.decode.hypothesis import Choice, Hypothesis, Recorder
    from headway.decode.search import decode, stream
    from headway.decode.stepper import Remembered, Stepper

__all__ = ["Choice", "Hypothesis", "Marks", "Recorder", "Remembered", "Search", "Stepper", "decode", "stream"]

_HOME = {
    "Choice": "headway.decode.hypothesis",
    "Hypothesis": "headway.decode.hypothesis",
    "Marks": "headway.config.search",
    "Recorder": "headway.decode.hypothesis",
    "Remembered": "headway.decode.stepper",
    "Search": "headway.config.search",
    "Stepper": "headway.decode.stepper",
    "decode": "headway.decode.search",
    "stream": "headway.decode.search",
}


def __getattr__(name: str) -> Any:
    """Settings and results are wanted without torch, so that each name is imported when it is first used."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
