"""Make traces: search first, then one forward pass over the result that records every tensor.

The search takes the fast path; the forward pass takes the naive form of attention, which returns what it computes. Both
give the same numbers, to 1e-4 in float32, and so the same choices."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headway.decode import BeamStep, Hypothesis, Search, decode
from headway.errors import ConfigError, HeadwayError
from headway.inspect.beam_tree import find_search
from headway.inspect.events import TOP_TOKENS
from headway.inspect.trace import Tokens, Trace
from headway.nn.context import ForwardReport
from headway.nn.transformer import Transformer
from headway.text.segment.sentences import split_sentences
from headway.text.segment.wrapped_lines import unwrap_text
from headway.text.spans.uppercase import lowercased
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.translate.options import TranslateOptions
from headway.translate.search import Request, translate_requests

if TYPE_CHECKING:
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import Translator

MAX_TRACED_TOKENS = 1024  # of a language model's text, unless it was trained on longer ones


@torch.no_grad()
def trace_forward(model: Transformer, source: Sequence[int], target: Sequence[int]) -> dict[str, Tensor]:
    """All tensors of a forward pass over one row of ids, by name (see Trace). A side without ids is not run."""
    report = ForwardReport(trace={})
    tensors = report.trace
    assert tensors is not None
    memory = model.encode(torch.tensor([source], device=model.device), report=report) if source else None
    if target:
        hidden = model.decode(torch.tensor([target], device=model.device), memory=memory, report=report)
    else:
        assert memory is not None
        hidden = memory.values
    if memory is not None:
        tensors["encoder.output"] = memory.values
    for name in [name for name in tensors if name.endswith((".stream", ".embedded"))]:
        tensors[f"{name.removesuffix('.stream')}.norm"] = tensors[name].norm(dim=-1)
    tensors["output.hidden"] = hidden
    tensors["output.logps"] = model.logits(hidden).float().log_softmax(-1)
    return {name: tensor[0].to("cpu", torch.float32, copy=True).contiguous() for name, tensor in tensors.items()}


def trace_translation(translator: "Translator", text: str, options: TranslateOptions, *, prefix: str = "") -> Trace:
    """Trace one sentence; several are translated as one, and a warning says so. Of the options, languages and search
    count."""
    if len(translator.steppers) > 1:
        raise HeadwayError(
            f"a trace needs a single model, not an ensemble of {len(translator.steppers)}: load one of them."
        )
    if not isinstance(text, str) or not text.strip():
        raise HeadwayError("there is nothing to trace: give a sentence.")
    layout = unwrap_text(text)
    text = text if layout is None else layout.text
    config = translator.config
    source_tokenizer = translator.tokenizers.source
    target_tokenizer = translator.tokenizers.target
    direction = translator.direction_tokens(options.source, options.target)
    source = direction.wrap_source(source_tokenizer.encode(lowercased(text.strip(), source_tokenizer)))
    if len(source) > config.train.max_tokens:
        raise HeadwayError(
            f"this text has {len(source)} tokens, and this model reads at most {config.train.max_tokens}. Trace a "
            "shorter one."
        )
    steps: list[BeamStep] = []
    search = options.search or config.search
    options = replace(options, split_sentences=False, protect=None, search=search)
    translation = translate_requests(translator, [Request(text, prefix=prefix)], options, steps.append)[0]
    forced = len(target_tokenizer.encode(prefix)) if prefix else 0
    hypotheses = []
    for guess in translation.guesses:
        finished = len(guess.token_logps) == len(guess.tokens) - forced + 1
        ids = [*direction.target_lead, *guess.tokens]  # a trace shows all that the decoder reads
        lead = len(direction.target_lead)
        hypotheses.append(Hypothesis(ids, guess.logp, guess.score, guess.token_logps, finished, lead + forced))
    sentences = split_sentences(text, config.source_languages[0] if config.source_languages else None)
    count = sum(bool(sentence.text) for sentence in sentences)
    warnings = list(translation.warnings)
    if count > 1:
        warnings.insert(0, f"{count} sentences were translated as one; without a trace they are translated one by one")
    tensors = trace_forward(translator.steppers[0].model, source, [target_tokenizer.start, *hypotheses[0].ids])
    return Trace(
        kind="translation",
        text=text,
        output=translation.text,
        source=_make_tokens(source_tokenizer, source),
        search=search.to_dict(),
        model=config.model.to_dict(),
        tensors=tensors,
        warnings=warnings,
        **_output_fields(target_tokenizer, target_tokenizer.start, hypotheses, steps, tensors),
    )


def trace_text(model: "LanguageModel", text: str, settings: Mapping[str, Any]) -> Trace:
    """Trace a language model that continues the text, or only reads it (length=0); or a masked one, which reads it."""
    if not isinstance(text, str):
        raise HeadwayError(f"the text must be a string, not {text!r}.")
    prefix = model.encode(text)
    max_tokens = max(MAX_TRACED_TOKENS, model.config.train.max_tokens)
    if len(prefix) >= max_tokens:
        raise HeadwayError(
            f"this text has {len(prefix)} tokens, and a trace, which has weights for every pair of them, at most "
            f"{max_tokens - 1}. Trace a shorter one."
        )
    if model.config.train.objective.kind != "causal":
        return _trace_encoder(model, text, settings)
    tokenizer = model.tokenizer
    steps: list[BeamStep] = []
    search: Search | None = None
    special, prefix = model.make_prompt(text)
    if settings.get("length") == 0:
        found = [Hypothesis(prefix, 0.0, 0.0, [], False, len(prefix))]
    else:
        search = model.search(prefix, **settings)
        (found,) = decode(
            model.stepper,
            None,
            special_tokens=special,
            search=search,
            prefixes=[prefix],
            record=steps.append,
        )
    tensors = trace_forward(model.model, [], [special.start, *found[0].ids])
    return Trace(
        kind="causal",
        text=text,
        output=model.decode(found[0].ids, special.start),
        source=_make_tokens(tokenizer, []),
        search=search.to_dict() if search else {},
        model=model.config.model.to_dict(),
        tensors=tensors,
        **_output_fields(tokenizer, special.start, found, steps, tensors),
    )


def _trace_encoder(model: "LanguageModel", text: str, settings: Mapping[str, Any]) -> Trace:
    if any(value is not None for name, value in settings.items() if name != "length"):
        raise ConfigError("this is a masked language model, which generates nothing: it takes no search settings.")
    if not text.strip():
        raise HeadwayError("there is nothing to trace: give a sentence.")
    nothing = _make_tokens(model.tokenizer, [])
    source = model.frame(model.encode(text))
    return Trace(
        kind="masked",
        text=text,
        output="",
        source=_make_tokens(model.tokenizer, source),
        target=nothing,
        written=nothing,
        forced=0,
        found=[],
        beam=[],
        pieces={},
        search={},
        model=model.config.model.to_dict(),
        tensors=trace_forward(model.model, source, []),
    )


def _output_fields(
    tokenizer: Tokenizer, start: int, found: list[Hypothesis], steps: list[BeamStep], tensors: dict[str, Tensor]
) -> dict[str, Any]:
    """The fields of a Trace that describe the output and its search."""
    best = found[0]
    written = [*best.ids, *[tokenizer.end] * best.finished]
    beam = find_search(steps, written[best.prefix :])
    logps = tensors["output.logps"]
    likely = logps.topk(min(TOP_TOKENS, logps.shape[-1])).indices.flatten().tolist()
    tried = sorted({token for choice in beam for token in choice.ids}.union(likely))
    return {
        "target": _make_tokens(tokenizer, [start, *best.ids]),
        "written": _make_tokens(tokenizer, written),
        "forced": best.prefix,
        "found": found,
        "beam": beam,
        "pieces": dict(zip(tried, tokenizer.pieces(tried))),
    }


def _make_tokens(tokenizer: Tokenizer, ids: list[int]) -> Tokens:
    return Tokens(ids, tokenizer.pieces(ids))
