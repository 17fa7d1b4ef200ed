"""Which reading of a config the weights fit. A config.json does not always tell: files hold a tied output matrix or
not, under one of several names, and some say that it is tied and hold another. As `transformers` does, the weights
decide.

Architecture ── otherwise ──► Architecture ── …        choose_reading: the first that the weights fit
"""

import fnmatch
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch

from headway.convert.architecture import Architecture
from headway.convert.layer_stacks import StackedSource
from headway.convert.weight_files import RenamedSource, WeightSource, complete_names


def choose_reading(architecture: Architecture, weights: WeightSource) -> tuple[Architecture, WeightSource]:
    """The first reading that the weights fit, and the weights under the names of its rules. Where none fits it is the
    first: the importer will say what is missing, or left over."""
    for reading in list_readings(architecture):
        named = _name_tensors(reading, weights)
        copies = _list_copies(reading, named)
        if _fits(reading, named, copies):
            break
    else:
        reading, named = architecture, _name_tensors(architecture, weights)
        copies = _list_copies(reading, named)
    fitting = replace(architecture, model=reading.model, rules=reading.rules, otherwise=None)
    return replace(fitting, unused=(*reading.unused, *copies)), named


def change_readings(architecture: Architecture, change: Callable[[Architecture], Architecture]) -> Architecture:
    """All readings, each changed."""
    other = None if architecture.otherwise is None else change_readings(architecture.otherwise, change)
    return replace(change(architecture), otherwise=other)


def list_readings(architecture: Architecture) -> Iterator[Architecture]:
    reading: Architecture | None = architecture
    while reading is not None:
        yield reading
        reading = reading.otherwise


def _name_tensors(reading: Architecture, weights: WeightSource) -> WeightSource:
    """The tensors under the names of the rules. One that is missing is read from the first of its copies that is
    there."""
    wanted = {name for rule in reading.rules for name in reading.stacks.get(rule.theirs, (rule.theirs,))}
    weights = complete_names(weights, wanted, reading.prefix)
    weights = StackedSource(weights, reading.stacks) if reading.stacks else weights
    names = weights.shapes().keys()
    found = {}
    for name, copies in reading.copies.items():
        present = [copy for copy in copies if copy in names]
        if name not in names and present:
            found[name] = present[0]
    taken = set(found.values())
    return RenamedSource(weights, {name: name for name in names if name not in taken} | found) if found else weights


def _list_copies(reading: Architecture, weights: WeightSource) -> list[str]:
    """Those of its copies that are there, and are copies. One tensor is in memory at a time."""
    shapes = weights.shapes()
    return [
        copy
        for name, copies in reading.copies.items()
        for copy in copies
        if name in shapes and shapes.get(copy) == shapes[name] and _digest(weights, name) == _digest(weights, copy)
    ]


def _digest(weights: WeightSource, name: str) -> tuple[torch.dtype, bytes]:
    """What two tensors have in common if they are equal, bit for bit."""
    content = weights.read(name).detach().contiguous().flatten().view(torch.uint8)
    return weights.dtype(name), hashlib.blake2b(content.numpy()).digest()  # type: ignore[arg-type]


def _fits(reading: Architecture, weights: WeightSource, copies: Sequence[str]) -> bool:
    names = set(weights.shapes())
    wanted = {rule.theirs for rule in reading.rules}
    known = {name for pattern in reading.unused for name in fnmatch.filter(names, pattern)}
    return wanted <= names and names - wanted <= known.union(copies)
