"""Making traces: search first, then read the result once more in the open, with everything kept.

The search runs on the fast path; the second reading takes the naive form of attention, which returns what it
computes. Both give the same numbers, to 1e-4 in float32, and so the same choices."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headway.decode import Choice, Hypothesis, Search, decode
from headway.errors import ConfigError, HeadwayError
from headway.inspect.beam_tree import search_that_found
from headway.inspect.events import TOP
from headway.inspect.trace import Tokens, Trace
from headway.nn.context import Report
from headway.nn.transformer import Transformer
from headway.text import Tokenizer, split_sentences
from headway.text.segment.wrapped_lines import layout_of
from headway.text.spans.uppercase import calmed

if TYPE_CHECKING:
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import Translator

MOST = 1024  # tokens of a language model's text, unless it was trained on longer ones


@torch.no_grad()
def read_openly(model: Transformer, source: Sequence[int], target: Sequence[int]) -> dict[str, Tensor]:
    """Everything that the model computes for one row of ids, by name. A side without ids is not read."""
    report = Report(trace={})
    tensors = report.trace
    assert tensors is not None
    memory = model.encode(torch.tensor([source], device=model.device), report=report) if source else None
    if target:
        hidden = model.decode(torch.tensor([target], device=model.device), memory=memory, report=report)
    else:
        assert memory is not None
        hidden = memory.values
    for name in [name for name in tensors if name.endswith((".stream", ".embedded"))]:
        tensors[f"{name.removesuffix('.stream')}.norm"] = tensors[name].norm(dim=-1)
    tensors["output.hidden"] = hidden
    tensors["output.logps"] = model.logits(hidden).float().log_softmax(-1)
    return {name: tensor[0].to("cpu", torch.float32, copy=True).contiguous() for name, tensor in tensors.items()}


def trace_translation(translator: "Translator", text: str, search: Search, *, to: str = "", prefix: str = "") -> Trace:
    """Of one sentence; several are read as one, and a warning says so."""
    if len(translator.steppers) > 1:
        raise HeadwayError(f"a trace is of one model, and {len(translator.steppers)} vote here. Load one of them.")
    if not isinstance(text, str) or not text.strip():
        raise HeadwayError("there is nothing to look at: give a sentence.")
    layout = layout_of(text)
    text = text if layout is None else layout.text
    reader, writer, config = translator.tokenizers.source, translator.tokenizers.target, translator.config
    source = [*translator.tag(to), *reader.encode(calmed(text.strip(), reader)), reader.end]
    if len(source) > config.train.longest:
        raise HeadwayError(
            f"this text has {len(source)} tokens, and this model reads {config.train.longest} at once. Trace a "
            "shorter one."
        )
    told: list[Choice] = []
    made = translator.translate(
        [text], search, to=to, split=False, prefixes=[prefix], record=told.append, protect=None
    )[0]  # fmt: skip
    forced = len(writer.encode(prefix)) if prefix else 0
    found = []
    for guess in made.guesses:
        finished = len(guess.token_logps) == len(guess.tokens) - forced + 1
        found.append(Hypothesis(guess.tokens, guess.logp, guess.score, guess.token_logps, finished, forced))
    sentences = split_sentences(text, config.source_languages[0] if config.source_languages else None)
    count = sum(bool(sentence.text) for sentence in sentences)
    several = [f"{count} sentences were read as one; a call translates them one by one"] * (count > 1)
    tensors = read_openly(translator.steppers[0].model, source, [writer.start, *found[0].ids])
    return Trace(
        kind="translation",
        text=text,
        output=made.text,
        source=_tokens(reader, source),
        search=search.to_dict(),
        model=config.model.to_dict(),
        tensors=tensors,
        warnings=[*several, *made.warnings],
        **_written(writer, writer.start, found, told, tensors),
    )


def trace_text(model: "LanguageModel", text: str, settings: Mapping[str, Any]) -> Trace:
    """Of a language model that goes on from the text, or only reads it (length=0); or of one that guesses words."""
    if not isinstance(text, str):
        raise HeadwayError(f"give a text: this is {text!r}.")
    prefix, most = model.read(text), max(MOST, model.config.train.longest)
    if len(prefix) >= most:
        raise HeadwayError(
            f"this text has {len(prefix)} tokens, and a trace, which keeps every pair of them, at most {most}. Trace a "
            "shorter one."
        )
    if model.config.train.objective.kind != "causal":
        return _trace_encoder(model, text, settings)
    tokenizer, told = model.tokenizer, list[Choice]()
    if settings.get("length") == 0:
        search, found = None, [Hypothesis(prefix, 0.0, 0.0, [], False, len(prefix))]
    else:
        search = model.search(prefix, **settings)
        found = decode(
            model.stepper, None, marks=model.marks, search=search, prefixes=[prefix], record=told.append
        )[0]  # fmt: skip
    tensors = read_openly(model.model, [], [model.marks.start, *found[0].ids])
    return Trace(
        kind="causal",
        text=text,
        output=model.said(found[0].ids),
        source=_tokens(tokenizer, []),
        search=search.to_dict() if search else {},
        model=model.config.model.to_dict(),
        tensors=tensors,
        **_written(tokenizer, model.marks.start, found, told, tensors),
    )


def _trace_encoder(model: "LanguageModel", text: str, settings: Mapping[str, Any]) -> Trace:
    if any(value is not None for name, value in settings.items() if name != "length"):
        raise ConfigError("this model guesses hidden words and does not write on, so there is no search to set.")
    if not text.strip():
        raise HeadwayError("there is nothing to look at: give a sentence.")
    nothing = _tokens(model.tokenizer, [])
    source = [model.marks.start, *model.read(text)]
    return Trace(
        kind="masked",
        text=text,
        output="",
        source=_tokens(model.tokenizer, source),
        target=nothing,
        written=nothing,
        forced=0,
        found=[],
        beam=[],
        pieces={},
        search={},
        model=model.config.model.to_dict(),
        tensors=read_openly(model.model, source, []),
    )


def _written(
    tokenizer: Tokenizer, start: int, found: list[Hypothesis], told: list[Choice], tensors: dict[str, Tensor]
) -> dict[str, Any]:
    """The fields of a Trace that say what was written, and how it was found."""
    best = found[0]
    written = [*best.ids, *[tokenizer.end] * best.finished]
    beam = search_that_found(told, written[best.prefix :])
    logps = tensors["output.logps"]
    likely = logps.topk(min(TOP, logps.shape[-1])).indices.flatten().tolist()
    tried = sorted({token for choice in beam for token in choice.ids}.union(likely))
    return {
        "target": _tokens(tokenizer, [start, *best.ids]),
        "written": _tokens(tokenizer, written),
        "forced": best.prefix,
        "found": found,
        "beam": beam,
        "pieces": dict(zip(tried, tokenizer.pieces(tried))),
    }


def _tokens(tokenizer: Tokenizer, ids: list[int]) -> Tokens:
    return Tokens(ids, tokenizer.pieces(ids))
