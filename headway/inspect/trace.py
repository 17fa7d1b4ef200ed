"""A trace: all tensors that a model computed for one text, and its two files. docs/looking-inside.md has the format."""

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from torch import Tensor

from headway.decode.types import BeamStep, Fate, Hypothesis
from headway.errors import HeadwayError
from headway.files.atomic import write_text_atomically
from headway.inspect.beam_tree import BeamNode, build_tree
from headway.inspect.iteration_tracer import Iteration
from headway.storage.model_dir import read_tensors, write_tensors

FORMAT_VERSION = 1
TENSORS_FILE = "trace.safetensors"
FACTS_FILE = "trace.json"
TYPE_NAMES = {
    int: "an integer", float: "a number", str: "a string", bool: "true or false", list: "a list", dict: "an object",
}  # fmt: skip

TraceKind = Literal["translation", "denoising", "causal", "masked", "classify", "tag", "match", "embed"]


class Tokens(NamedTuple):
    ids: list[int]
    pieces: list[str]  # their texts


@dataclass(frozen=True)
class Trace:
    """One text in one model. Position t of the decoder has read target[0 … t] and predicts written[t].

    Tensors have no batch axis and are float32 on the CPU: T queries, S keys, H heads, G key groups, D head width,
    d model width, V vocabulary. SIDE is encoder or decoder, LAYER counts from 0, SUB is self, cross, nodes or
    feedforward. Of a model with a graph reasoner `source` has the names of the nodes.

        SIDE.embedded                              (T, d)     token embeddings and positions, before the first layer
        encoder.output                             (S, d)     what cross-attention attends to
        reasoner.states, reasoner.heard            (R + 1, N, w)  (R, N, N)  of N nodes before and after R rounds; of
                                                   the channels that a node heard, the share of each sender
        reasoner.pointers, reasoner.marks          (N, N)  (N,)  probabilities
        reasoner.output                            (N, d)     what decoder layers listen to
        SIDE.LAYER.SUB.q, k, v                     (H, T, D)  (G, S, D)  (G, S, D)
        SIDE.LAYER.SUB.scores, weights             (H, T, S)  before the mask and the softmax, and after
        SIDE.LAYER.feedforward.router              (T, E)     router scores of E experts, where there are some
        SIDE.LAYER.feedforward.chosen, shares      (T, k)     the k experts of each token, and their weights
        SIDE.LAYER.SUB.input                       (T, d)     what the sub-layer reads: the stream, or its norm
        SIDE.LAYER.SUB.output                      (T, d)     what the sub-layer adds to the stream
        SIDE.LAYER.SUB.stream, norm                (T, d)  (T,)  the residual stream after it, and its norm
        output.hidden, output.logps                (T, d)  (T, V)  input of the head; log-probabilities of next tokens
        output.scores                              (C,) or (T, C)  in place of output.logps where labels are scored
    """

    kind: TraceKind
    text: str
    output: str  # the translation, or the text and its continuation; "" where nothing was generated
    source: Tokens  # what the encoder read
    target: Tokens  # what the decoder read: the start token, then a forced prefix, then what was generated
    written: Tokens  # the token that followed each of these; the end token last, unless the output was cut
    forced: int  # length of the forced prefix, which is part of `written`
    found: list[Hypothesis]  # best first; the first is the output
    beam: list[BeamStep]  # every step of the search, with the candidates that it pruned
    pieces: dict[int, str]  # the texts of the beam's tokens, and of the likeliest tokens at each position
    search: dict[str, Any]  # the search settings
    model: dict[str, Any]  # the model's config
    tensors: dict[str, Tensor]
    warnings: list[str] = field(default_factory=list)
    expected: Tokens = Tokens([], [])  # of a masked language model: the source before tokens of it were hidden, if any
    second: int = 0  # where the second of two texts begins in the source; 0: there is one
    prediction: dict[str, Any] = field(default_factory=dict)  # of an encoder: see headway.inspect.encoder_input
    iterations: list[Iteration] = field(default_factory=list)  # of mask-predict, whose decoder reads no start token

    def __repr__(self) -> str:
        size = f"{len(self.source.ids)} + {len(self.written.ids)} tokens, {len(self.tensors)} tensors"
        return f"<Trace of a {self.kind}: {self.text!r} → {self.output!r}; {size}>"

    def tree(self) -> list[BeamNode]:
        """Every hypothesis that the search considered."""
        return build_tree(self.beam)

    def _repr_html_(self) -> str:
        """Notebooks show the page in a frame."""
        from headway.inspect.html_page import render_frame

        return render_frame(self)

    def save(self, folder: str | Path) -> Path:
        """Two files in this folder: trace.safetensors with the tensors, trace.json with the rest."""
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_tensors(folder / TENSORS_FILE, self.tensors)
            write_text_atomically(folder / FACTS_FILE, json.dumps(self._facts(), ensure_ascii=False, indent=1) + "\n")
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
            "expected": self.expected._asdict(),
            "second": self.second,
            "prediction": self.prediction,
            "iterations": [asdict(iteration) for iteration in self.iterations],
        }


def load_trace(folder: str | Path) -> Trace:
    """The trace that was saved in this folder."""
    path = Path(folder) / FACTS_FILE
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise HeadwayError(
            f"{folder} holds no trace: there is no {FACTS_FILE}. Make one: headway trace --out {folder}"
        ) from None
    except OSError as error:
        raise HeadwayError(f"{path} cannot be read: {error.strerror or error}.") from None
    except (ValueError, RecursionError):
        raise HeadwayError(f"{path} is damaged: it is not JSON. Copy it again.") from None
    version = facts.get("format_version") if isinstance(facts, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise HeadwayError(f"{path} is not a trace: it has no format_version.")
    if version > FORMAT_VERSION:
        raise HeadwayError(
            f"{path} was written in format {version}, and this Headway reads up to {FORMAT_VERSION}. "
            "Install a newer Headway."
        )
    tensors = read_tensors(Path(folder) / TENSORS_FILE)
    try:
        trace = _parse_trace(facts, tensors)
        shapes = _check_type(facts["tensors"], dict)
        trace.tree()  # fails if a parent is missing
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise HeadwayError(f"{path} is damaged: {_explain_error(error)}. Copy it again.") from None
    shapes_in_file = {name: list(tensor.shape) for name, tensor in tensors.items()}
    for name in [*shapes, *shapes_in_file]:
        if shapes.get(name) != shapes_in_file.get(name):
            raise HeadwayError(
                f"{folder} is inconsistent: {name} is {shapes.get(name, 'missing')} in {FACTS_FILE} and "
                f"{shapes_in_file.get(name, 'missing')} in {TENSORS_FILE}. Copy both from the same trace."
            )
    return trace


def _parse_trace(facts: dict[str, Any], tensors: dict[str, Tensor]) -> Trace:
    if facts["kind"] not in get_args(TraceKind):
        raise ValueError(f'"{facts["kind"]}" is not a kind of trace')
    return Trace(
        kind=facts["kind"],
        text=_check_type(facts["text"], str),
        output=_check_type(facts["output"], str),
        source=_parse_tokens(facts["source"]),
        target=_parse_tokens(facts["target"]),
        written=_parse_tokens(facts["written"]),
        forced=_check_type(facts["forced"], int),
        found=[_parse_hypothesis(entry) for entry in _check_type(facts["found"], list)],
        beam=[_parse_step(entry) for entry in _check_type(facts["beam"], list)],
        pieces={
            _parse_id(token): _check_type(piece, str) for token, piece in _check_type(facts["pieces"], dict).items()
        },
        search=_check_type(facts["search"], dict),
        model=_check_type(facts["model"], dict),
        tensors=tensors,
        warnings=_check_list(facts["warnings"], str),
        # Traces that were saved earlier have none of these.
        expected=_parse_tokens(facts.get("expected", {"ids": [], "pieces": []})),
        second=_check_type(facts.get("second", 0), int),
        prediction=_check_type(facts.get("prediction", {}), dict),
        iterations=[_parse_iteration(entry) for entry in _check_type(facts.get("iterations", []), list)],
    )


def _parse_tokens(value: Any) -> Tokens:
    tokens = Tokens(_check_list(value["ids"], int), _check_list(value["pieces"], str))
    if len(tokens.ids) != len(tokens.pieces):
        raise ValueError(f"{len(tokens.ids)} ids have {len(tokens.pieces)} pieces")
    return tokens


def _parse_hypothesis(entry: Any) -> Hypothesis:
    return Hypothesis(
        ids=_check_list(entry["ids"], int),
        logp=_check_type(entry["logp"], float),
        score=_check_type(entry["score"], float),
        token_logps=_check_list(entry["token_logps"], float),
        finished=_check_type(entry["finished"], bool),
        prefix=_check_type(entry["prefix"], int),
    )


def _parse_iteration(entry: Any) -> Iteration:
    read, ids, logps = (
        _check_list(entry["read"], int),
        _check_list(entry["ids"], int),
        _check_list(entry["logps"], float),
    )
    if not len(read) == len(ids) == len(logps):
        raise ValueError("an iteration is inconsistent")
    return Iteration(read, ids, logps)


def _parse_step(entry: Any) -> BeamStep:
    fates: list[Fate] = _check_list(entry["fates"], str)
    parents = _check_list(entry["parents"], int)
    ids = _check_list(entry["ids"], int)
    logps = _check_list(entry["logps"], float)
    if not set(fates) <= set(get_args(Fate)) or not len(parents) == len(ids) == len(logps) == len(fates):
        raise ValueError("a step of the beam is inconsistent")
    return BeamStep(0, _check_type(entry["step"], int), parents, ids, logps, fates, _check_type(entry["copy"], int))


def _check_list(values: Any, kind: type) -> list[Any]:
    return [_check_type(value, kind) for value in _check_type(values, list)]


def _check_type(value: Any, kind: type) -> Any:
    if kind is float and isinstance(value, int):
        value = float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{str(value)[:40]!r} is not {TYPE_NAMES[kind]}")
    return value


def _parse_id(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise ValueError(f"{text[:40]!r} is not a token id")
    return int(text)


def _explain_error(error: Exception) -> str:
    if isinstance(error, TypeError):
        return "a part of it has the wrong type"
    if isinstance(error, IndexError):
        return "a step of the beam extends a hypothesis that does not exist"
    return f"it has no {error}" if isinstance(error, KeyError) else str(error)
