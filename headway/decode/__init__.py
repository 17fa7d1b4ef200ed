"""Decoding: ids in, ids out. Greedy, beam and sampling over any model that can name the next token."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.decode.hypothesis import Choice, Hypothesis, Recorder
    from headway.decode.search import decode, stream
    from headway.decode.settings import Marks, Search
    from headway.decode.stepper import Remembered, Stepper

__all__ = ["Choice", "Hypothesis", "Marks", "Recorder", "Remembered", "Search", "Stepper", "decode", "stream"]

_HOME = {
    "Choice": "hypothesis",
    "Hypothesis": "hypothesis",
    "Marks": "settings",
    "Recorder": "hypothesis",
    "Remembered": "stepper",
    "Search": "settings",
    "Stepper": "stepper",
    "decode": "search",
    "stream": "search",
}


def __getattr__(name: str) -> Any:
    """Settings and results are wanted without torch, so that each name is imported when it is first used."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
