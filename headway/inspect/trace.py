"""A trace: everything that was computed for one text, and its two files. docs/looking-inside.md has the format."""

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from torch import Tensor

from headway.config.config import write_atomically
from headway.decode.types import Choice, Fate, Hypothesis
from headway.errors import HeadwayError
from headway.inspect.beam_tree import Node, tree
from headway.storage.model_dir import read_tensors, write_tensors

FORMAT_VERSION = 1
TENSORS, FACTS = "trace.safetensors", "trace.json"
KINDS = {
    int: "a whole number", float: "a number", str: "a text", bool: "true or false", list: "a list", dict: "a table",
}  # fmt: skip

Kind = Literal["translation", "causal", "masked"]


class Tokens(NamedTuple):
    ids: list[int]
    pieces: list[str]  # each as one can read it


@dataclass(frozen=True)
class Trace:
    """One text in one model. Place t of the decoder has read target[0 … t], and then came written[t].

    Tensors have no batch axis and are float32 on the CPU: T queries, S keys, H heads, G key groups, D head width,
    d model width, V vocabulary. SIDE is encoder or decoder, LAYER counts from 0, SUB is self, cross or feedforward.

        SIDE.embedded                              (T, d)     words and positions, before the first layer
        SIDE.LAYER.SUB.q, k, v                     (H, T, D)  (G, S, D)  (G, S, D)
        SIDE.LAYER.SUB.scores, weights             (H, T, S)  before the mask and the softmax, and after
        SIDE.LAYER.feedforward.router              (T, E)     a score for each of E experts, where there are some
        SIDE.LAYER.feedforward.chosen, shares      (T, k)     those that a place visits, and how much each counts
        SIDE.LAYER.SUB.output                      (T, d)     what the sub-layer says
        SIDE.LAYER.SUB.stream, norm                (T, d)  (T,)  the residual stream behind it, and its length
        output.hidden, output.logps                (T, d)  (T, V)  what the head reads; log-probabilities of what follows
    """

    kind: Kind
    text: str
    output: str  # the translation, or all that a language model has written; "" where nothing was written
    source: Tokens  # what an encoder read
    target: Tokens  # what a decoder read: the start, then what was forced, then what was produced
    written: Tokens  # what followed each of these; the end last, unless the output was cut
    forced: int  # so many of the written tokens were given
    found: list[Hypothesis]  # best first; the first is the output
    beam: list[Choice]  # every step of the search, with what it pruned
    pieces: dict[int, str]  # how the tokens of the beam read, and the likeliest of each place
    search: dict[str, Any]  # its settings
    model: dict[str, Any]  # the model's config
    tensors: dict[str, Tensor]
    warnings: list[str] = field(default_factory=list)

    def tree(self) -> list[Node]:
        """Every hypothesis that the search looked at."""
        return tree(self.beam)

    def _repr_html_(self) -> str:
        """A notebook shows the page, in a frame of its own."""
        from headway.inspect.html_page import framed

        return framed(self)

    def save(self, folder: str | Path) -> Path:
        """Two files in this folder: trace.safetensors with the tensors, trace.json with the rest."""
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_tensors(folder / TENSORS, self.tensors)
            write_atomically(folder / FACTS, json.dumps(self._facts(), ensure_ascii=False, indent=1) + "\n")
        except OSError as error:
            raise HeadwayError(f"{folder} cannot be written: {error.strerror or error}.") from None
        return folder

    def _facts(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in ("kind", "text", "output", "forced", "search", "model")}
        sides = {name: getattr(self, name)._asdict() for name in ("source", "target", "written")}
        beam = [asdict(choice) for choice in self.beam]
        for step in beam:
            del step["row"]  # there is one row
        return {
            "format_version": FORMAT_VERSION,
            **plain,
            **sides,
            "found": [asdict(hypothesis) for hypothesis in self.found],
            "beam": beam,
            "pieces": {str(token): piece for token, piece in self.pieces.items()},
            "tensors": {name: list(tensor.shape) for name, tensor in self.tensors.items()},
            "warnings": self.warnings,
        }


def load_trace(folder: str | Path) -> Trace:
    """A trace as it was saved."""
    path = Path(folder) / FACTS
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise HeadwayError(
            f"{folder} holds no trace: there is no {FACTS}. Make one: headway trace --out {folder}"
        ) from None
    except OSError as error:
        raise HeadwayError(f"{path} cannot be read: {error.strerror or error}.") from None
    except (ValueError, RecursionError):
        raise HeadwayError(f"{path} is damaged: it is not JSON. Copy it anew.") from None
    version = facts.get("format_version") if isinstance(facts, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise HeadwayError(f"{path} is not a trace: it has no format_version.")
    if version > FORMAT_VERSION:
        raise HeadwayError(
            f"{path} was written in format {version}, and this Headway reads up to {FORMAT_VERSION}. "
            "Install a newer Headway."
        )
    tensors = read_tensors(Path(folder) / TENSORS)
    try:
        trace, shapes = _trace(facts, tensors), _typed(facts["tensors"], dict)
        trace.tree()  # every parent is there
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise HeadwayError(f"{path} is damaged: {_why(error)}. Copy it anew.") from None
    told = {name: list(tensor.shape) for name, tensor in tensors.items()}
    for name in [*shapes, *told]:
        if shapes.get(name) != told.get(name):
            raise HeadwayError(
                f"{folder} does not fit together: {name} is {shapes.get(name, 'missing')} in {FACTS} and "
                f"{told.get(name, 'missing')} in {TENSORS}. Copy both from the same trace."
            )
    return trace


def _trace(facts: dict[str, Any], tensors: dict[str, Tensor]) -> Trace:
    if facts["kind"] not in get_args(Kind):
        raise ValueError(f'"{facts["kind"]}" is no kind of trace')
    return Trace(
        kind=facts["kind"],
        text=_typed(facts["text"], str),
        output=_typed(facts["output"], str),
        source=_tokens(facts["source"]),
        target=_tokens(facts["target"]),
        written=_tokens(facts["written"]),
        forced=_typed(facts["forced"], int),
        found=[_hypothesis(entry) for entry in _typed(facts["found"], list)],
        beam=[_choice(entry) for entry in _typed(facts["beam"], list)],
        pieces={_id(token): _typed(piece, str) for token, piece in _typed(facts["pieces"], dict).items()},
        search=_typed(facts["search"], dict),
        model=_typed(facts["model"], dict),
        tensors=tensors,
        warnings=_all(facts["warnings"], str),
    )


def _tokens(value: Any) -> Tokens:
    tokens = Tokens(_all(value["ids"], int), _all(value["pieces"], str))
    if len(tokens.ids) != len(tokens.pieces):
        raise ValueError(f"{len(tokens.ids)} ids have {len(tokens.pieces)} pieces")
    return tokens


def _hypothesis(entry: Any) -> Hypothesis:
    numbers = _typed(entry["logp"], float), _typed(entry["score"], float), _all(entry["token_logps"], float)
    return Hypothesis(_all(entry["ids"], int), *numbers, _typed(entry["finished"], bool), _typed(entry["prefix"], int))


def _choice(entry: Any) -> Choice:
    fates: list[Fate] = _all(entry["fates"], str)
    parents, ids, logps = _all(entry["parents"], int), _all(entry["ids"], int), _all(entry["logps"], float)
    if not set(fates) <= set(get_args(Fate)) or not len(parents) == len(ids) == len(logps) == len(fates):
        raise ValueError("a step of the beam does not fit together")
    return Choice(0, _typed(entry["step"], int), parents, ids, logps, fates, _typed(entry["copy"], int))


def _all(values: Any, kind: type) -> list[Any]:
    return [_typed(value, kind) for value in _typed(values, list)]


def _typed(value: Any, kind: type) -> Any:
    if kind is float and isinstance(value, int):
        value = float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{str(value)[:40]!r} stands where {KINDS[kind]} should")
    return value


def _id(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise ValueError(f"{text[:40]!r} is no token")
    return int(text)


def _why(error: Exception) -> str:
    if isinstance(error, TypeError):
        return "a part of it has the wrong form"
    if isinstance(error, IndexError):
        return "a step of the beam goes on from a hypothesis that is not there"
    return f"it has no {error}" if isinstance(error, KeyError) else str(error)
