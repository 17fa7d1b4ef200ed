"""Attribution: on which words of its input each token of an output depends, by four measures beside one another.

    gradient    gradient × input: how log p of the token changes, per unit, as the vector of the word grows or shrinks;
                Σ ∂ log p / ∂x · x over the tokens of the word, x the vector that enters the first layer
    left_out    leaving out: log p of the token minus log p once the word is not in the input, and the output is forced
                to stay the same. What stands behind the word moves forward
    attention   where the model looked: cross-attention as alignments read it, or, of a language model, the mean of all
                heads of the last layer
    aligned     the word alignment that follows from it

The first two may be negative: without the word, the token would be likelier. Where their largest entries lie apart,
the measures disagree, and none of them alone is an explanation.

    source, output ──► one graph, a backward pass for each target token ──► gradient ─┐
                  └──► batches of sources, each without a word ──► left_out ──────────┴─► (T, U): Attribution

A language model's words are those that it has read so far: what is not yet there is NaN."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from headway.config.objective_kinds import continues_text
from headway.decode.padding import pad_rows
from headway.decode.stop import check_stop
from headway.errors import ConfigError, HeadwayError
from headway.inspect.attention import format_token
from headway.inspect.tracer import trace_forward
from headway.nn.layers.lora import share_weights
from headway.nn.transformer import Transformer
from headway.text.align.words import token_roles, word_indices
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.translate.alignment import link_words, read_source_attention

if TYPE_CHECKING:
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import Translator

Units = Literal["words", "tokens"]
MEASURES = ("gradient", "left_out", "attention")
MAX_ATTRIBUTED_TOKENS = 100  # a side, for the page: each takes a pass of its own
BATCH_TOKENS = 2048  # of both sides, in one forward pass
LOGIT_ROWS = 256  # whose logits over the whole vocabulary are in memory at the same time


@dataclass(frozen=True)
class Attribution:
    """T tokens of an output, and U words (or tokens) of its input."""

    rows: list[str]  # the tokens; the end token last, unless the output was cut
    columns: list[str]
    units: Units  # of the columns. A tokenizer that loses spaces has no words
    logps: np.ndarray  # (T,) log p of each token
    gradient: np.ndarray  # (T, U)
    left_out: np.ndarray  # (T, U)
    attention: np.ndarray | None  # (T, U) None: the model reads its input by something else
    aligned: np.ndarray | None  # (T, U) bool; None without attention or without words, and of a language model

    def strongest(self, measure: str) -> list[int | None]:
        """For each token the column with the largest value of this measure, whatever its sign; None without any."""
        values: np.ndarray | None = getattr(self, measure)
        if values is None:
            return [None] * len(self.rows)
        size = np.nan_to_num(np.abs(values), nan=-1.0)
        return [int(row.argmax()) if row.size and row.max() > 0 else None for row in size]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: NaN is None."""
        values = {name: getattr(self, name) for name in MEASURES}
        return {
            "rows": self.rows,
            "columns": self.columns,
            "units": self.units,
            "logps": self.logps.round(5).tolist(),
            **{name: None if array is None else _to_lists(array) for name, array in values.items()},
            "aligned": None if self.aligned is None else self.aligned.tolist(),
            "strongest": {name: self.strongest(name) for name in MEASURES},
            "disagreements": self.disagreements(),
        }

    def disagreements(self) -> list[int]:
        """The rows whose strongest columns are not the same by all measures."""
        found = zip(*(self.strongest(measure) for measure in MEASURES))
        return [
            row for row, columns in enumerate(found) if len({column for column in columns if column is not None}) > 1
        ]


def _to_lists(values: np.ndarray) -> list[list[float | None]]:
    return [[None if np.isnan(value) else round(value, 5) for value in row] for row in values.tolist()]


class _Pass(NamedTuple):
    """What a model reads and is asked for. source: [] of a language model; target: start, output."""

    network: Transformer
    source: list[int]
    target: list[int]
    pad: int

    @property
    def side(self) -> str:
        """Whose input the output is traced to."""
        return "encoder" if self.source else "decoder"

    @property
    def read(self) -> list[int]:
        return self.source or self.target[:-1]


def attribute(
    model: "Translator | LanguageModel",
    text: str,
    output: str | None = None,
    *,
    units: Units = "words",
    source: str = "",
    target: str = "",
) -> Attribution:
    """On which words of the text each token of the output depends.

    output: of a translator, by default its translation; of a language model, what follows the text, by default nothing
    units: what a column is and what is left out as a whole: "words" between spaces, or "tokens"
    source, target: languages, where the model has several"""
    from headway.translate.translator import Translator

    if not isinstance(text, str) or not text.strip():
        raise HeadwayError("there is nothing to attribute: give a text.")
    if not isinstance(model, Translator):
        if source or target:
            raise HeadwayError("a language model does not translate: leave out source and target.")
        special, prefix = model.make_prompt(text + (output or ""))
        return attribute_text(model, [special.start, *prefix], units)
    direction = model.direction_tokens(source, target)
    read = direction.wrap_source(model.tokenizers.source.encode(text.strip()))
    writer = model.tokenizers.target
    if output is None:
        trace = model.trace(text, source=source, target=target)
        return attribute_translation(model, trace.source.ids, trace.written.ids, units)
    return attribute_translation(
        model, read, [*direction.target_lead, *writer.encode(output.strip()), writer.end], units
    )


def attribute_translation(
    translator: "Translator", source: Sequence[int], written: Sequence[int], units: Units = "words"
) -> Attribution:
    """The same by ids: the source as the encoder reads it, and the output with its end token, unless it was cut."""
    if len(translator.steppers) > 1:
        raise HeadwayError(
            f"an attribution needs a single model, not an ensemble of {len(translator.steppers)}: load one of them."
        )
    if not source or not written:
        raise HeadwayError("there is nothing to attribute: the source or the output is empty.")
    reader = translator.tokenizers.source
    writer = translator.tokenizers.target
    columns = _group(source, reader, units)
    task = _Pass(translator.steppers[0].model, list(source), [writer.start, *written], reader.pad)
    try:
        weights = read_source_attention(translator, [source], [written])[0]  # (T, S)
    except HeadwayError:  # it reads its source by a mixer without weights
        weights = None
    aligned = None
    if weights is not None and columns.words is not None:
        aligned = _aligned(weights, columns, np.asarray(_word_of(written, writer)))
    return _measure(task, columns, writer.pieces(list(written)), weights, aligned)


def attribute_text(model: "LanguageModel", ids: Sequence[int], units: Units = "words") -> Attribution:
    """Of a causal language model, by ids: its start token and a text. Each token of the text is a row."""
    if not continues_text(model.config.train.objective.kind):
        raise HeadwayError("this is a masked language model: it generates no tokens whose causes could be asked for.")
    if len(ids) < 2:
        raise HeadwayError("there is nothing to attribute: give a text.")
    columns = _group_read(ids, model.tokenizer, units)
    task = _Pass(model.model, [], list(ids), model.tokenizer.pad)
    tensors = trace_forward(model.model, [], list(ids[:-1]))
    layers = range(model.config.model.decoder.layers)
    names = [name for layer in layers if (name := f"decoder.{layer}.self.weights") in tensors]
    weights = tensors[names[-1]].mean(0).numpy() if names else None  # (T, T)
    return _measure(task, columns, model.tokenizer.pieces(list(ids[1:])), weights, None)


def _measure(
    task: _Pass, columns: "_Columns", rows: list[str], weights: np.ndarray | None, aligned: np.ndarray | None
) -> Attribution:
    logps, left_out = measure_left_out(task.network, task.source, task.target, columns.members, task.pad)
    gradient = measure_gradient(task.network, task.source, task.target)
    by_unit = [values if values is None else _sum_units(values, columns.members) for values in (gradient, weights)]
    unseen = np.isnan(left_out)
    for values in by_unit:
        if values is not None:
            values[unseen] = np.nan
    assert by_unit[0] is not None
    return Attribution(
        rows=[format_token(piece) for piece in rows],
        columns=columns.names,
        units=columns.units,
        logps=logps,
        gradient=by_unit[0],
        left_out=left_out,
        attention=by_unit[1],
        aligned=aligned,
    )


# ---- The two measures


def measure_gradient(network: Transformer, source: Sequence[int], target: Sequence[int]) -> np.ndarray:
    """(T, N) ∂ log p(token) / ∂x · x for each token of the target but the first, and each of the N that are read."""
    task = _Pass(network, list(source), list(target), 0)
    copied = share_weights(network)  # a hook on the network itself would act on other threads as well
    leaves: list[Tensor] = []

    def begin_here(module: Any, inputs: Any, embedded: Tensor) -> Tensor:
        leaves.append(embedded.detach().requires_grad_())
        return leaves[-1]

    copied.embeddings[task.side].register_forward_hook(begin_here)
    with torch.enable_grad():
        hidden = _decode(copied, [task.source], [task.target[:-1]], 0)[0]  # (T, d)
        logps = _gather_logps(copied, hidden, torch.tensor(task.target[1:], device=hidden.device))
    rows = []
    for logp in logps:  # one graph, and a backward pass for each row: less memory than copies of the text take
        check_stop()
        (gradient,) = torch.autograd.grad(logp, leaves, retain_graph=True)
        rows.append((_widen(gradient[0]) * _widen(leaves[0][0].detach())).sum(-1).cpu())  # (N,)
    return torch.stack(rows).double().numpy()


@torch.no_grad()
def measure_left_out(
    network: Transformer, source: Sequence[int], target: Sequence[int], units: Sequence[Sequence[int]], pad: int
) -> tuple[np.ndarray, np.ndarray]:
    """(T,) log p of each token of the target but the first, and (T, U) what of it is lost without each unit: places of
    the source or, where there is none, of the target. NaN where a token does not depend on the unit at all, since it
    comes before its end, and for a unit without which nothing is left to read."""
    inputs, labels = list(target[:-1]), list(target[1:])
    whole = _score(network, [list(source)], [inputs], [labels], pad)[0]
    lost = np.full((len(labels), len(units)), np.nan)
    shortened = [_without(source or inputs, unit) for unit in units]
    size = len(source) + len(inputs)
    for chunk in _chunks(len(units), size):
        check_stop()
        kept = [unit for unit in chunk if shortened[unit]]
        if not kept:
            continue
        if source:
            logps = _score(network, [shortened[n] for n in kept], [inputs] * len(kept), [labels] * len(kept), pad)
            for unit, own in zip(kept, logps):
                lost[:, unit] = whole - own
            continue
        later = [_without(labels, [place - 1 for place in units[n]]) for n in kept]
        logps = _score(network, [[]] * len(kept), [shortened[n] for n in kept], later, pad)
        for unit, own in zip(kept, logps):
            end = max(units[unit])
            lost[end:, unit] = whole[end:] - own[end - len(units[unit]) :]
    return whole, lost


def _score(
    network: Transformer,
    sources: Sequence[list[int]],
    inputs: Sequence[list[int]],
    labels: Sequence[list[int]],
    pad: int,
) -> list[np.ndarray]:
    """log p of each label, by row; inputs and labels of a row are equally long."""
    hidden = _decode(network, sources, inputs, pad).flatten(0, 1)  # (B · T, d)
    ids, _ = pad_rows(labels, pad, network.device)
    chunks = zip(hidden.split(LOGIT_ROWS), ids.flatten().split(LOGIT_ROWS))
    logps = torch.cat([_gather_logps(network, some, own) for some, own in chunks])
    return [row[: len(own)] for row, own in zip(logps.view_as(ids).double().cpu().numpy(), labels)]


def _gather_logps(network: Transformer, hidden: Tensor, ids: Tensor) -> Tensor:
    """log p of each id (N,), from what the output head reads (N, d)."""
    return _widen(network.logits(hidden)).log_softmax(-1).gather(1, ids[:, None])[:, 0]


def _decode(network: Transformer, sources: Sequence[list[int]], inputs: Sequence[list[int]], pad: int) -> Tensor:
    memory = None
    if sources[0]:
        ids, valid = pad_rows(sources, pad, network.device)
        memory = network.encode(ids, valid)
    ids, valid = pad_rows(inputs, pad, network.device)
    return network.decode(ids, valid, memory=memory)


def _chunks(count: int, tokens: int) -> list[list[int]]:
    """Rows of about this many tokens each, in batches of bounded size."""
    rows = max(BATCH_TOKENS // max(tokens, 1), 1)
    return [list(range(first, min(first + rows, count))) for first in range(0, count, rows)]


def _without(ids: Sequence[int], places: Sequence[int]) -> list[int]:
    gone = set(places)
    return [token for place, token in enumerate(ids) if place not in gone]


def _widen(x: Tensor) -> Tensor:
    """16-bit floats as float32."""
    return x.float() if x.dtype.itemsize < 4 else x


# ---- Words


class _Columns(NamedTuple):
    names: list[str]
    members: list[list[int]]  # the places of each unit's tokens
    units: Units
    words: list[int] | None  # the word that each unit belongs to; None: this tokenizer has none


def _group(ids: Sequence[int], tokenizer: Tokenizer, units: Units) -> _Columns:
    """The units of a text. Control tokens, and spaces by themselves, belong to none."""
    if units not in ("words", "tokens"):
        raise ConfigError(f'must be "words" or "tokens", not {units!r}.', "units")
    try:
        words: list[int] | None = _word_of(ids, tokenizer)
    except ConfigError:
        words = None
    if words is None or units == "tokens":
        places = [[n] for n, token in enumerate(ids) if token not in tokenizer.control_ids]
        units = "tokens"
    else:
        places = [[n for n, own in enumerate(words) if own == word] for word in range(max(words, default=-1) + 1)]
    pieces = tokenizer.pieces(list(ids))
    names = [format_token("".join(pieces[n] for n in own)) for own in places]
    return _Columns(names, places, units, None if words is None else [words[own[0]] for own in places])


def _group_read(ids: Sequence[int], tokenizer: Tokenizer, units: Units) -> _Columns:
    """Of a language model's input: all but its start token, and the unit that the last token ends, which nothing that
    is predicted follows."""
    found = _group(ids[1:], tokenizer, units)
    kept = [n for n, own in enumerate(found.members) if own[-1] < len(ids) - 2]
    words = None if found.words is None else [found.words[n] for n in kept]
    members = [[place + 1 for place in found.members[n]] for n in kept]
    return _Columns([found.names[n] for n in kept], members, found.units, words)


def _word_of(ids: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    """The word of each token, -1 for none. Control tokens before the first word do not begin it."""
    first = next((n for n, token in enumerate(ids) if token not in tokenizer.control_ids), len(ids))
    found = word_indices(list(ids[first:]), token_roles(tokenizer)).tolist() if first < len(ids) else []
    return [-1] * first + found


def _aligned(weights: np.ndarray, columns: _Columns, target_words: np.ndarray) -> np.ndarray:
    """(T, U) Which source words the word of each target token is linked to."""
    assert columns.words is not None
    source_words = np.full(weights.shape[1], -1)
    for word, places in zip(columns.words, columns.members):
        source_words[places] = word
    links = set(link_words(weights, target_words, source_words))
    return np.array([[(word, own) in links for word in columns.words] for own in target_words.tolist()], bool).reshape(
        len(target_words), len(columns.words)
    )


def _sum_units(values: np.ndarray, members: Sequence[Sequence[int]]) -> np.ndarray:
    """(T, N) by token -> (T, U)"""
    return np.stack([values[:, own].sum(1) for own in members], 1) if members else np.zeros((len(values), 0))
