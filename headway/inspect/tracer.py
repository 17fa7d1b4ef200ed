"""Make traces: search first, then one forward pass over the result that records every tensor.

The search takes the fast path; the forward pass takes the naive form of attention, which returns what it computes. Both
give the same numbers, to 1e-4 in float32, and so the same choices."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from headway.config.objective_kinds import continues_text, is_denoising, shown_kind
from headway.decode import BeamStep, Hypothesis, Search, decode
from headway.errors import ConfigError, HeadwayError
from headway.inspect.beam_tree import find_search
from headway.inspect.encoder_input import describe_encoder_output, read_encoder_text
from headway.inspect.events import TOP_TOKENS
from headway.inspect.iteration_tracer import choose_traced, trace_iterations, writes_at_once
from headway.inspect.output_scores import scores_tokens
from headway.inspect.trace import Tokens, Trace, TraceKind
from headway.nn.context import ForwardReport
from headway.nn.graphs import Graphs
from headway.nn.sequence import Neighbours
from headway.nn.transformer import Transformer
from headway.text.segment.sentences import split_sentences
from headway.text.segment.wrapped_lines import unwrap_text
from headway.text.spans.uppercase import lowercased
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.translate.graph_batches import collate_graphs
from headway.translate.options import TranslateOptions
from headway.translate.search import Request, TranslationStages, translate_requests

if TYPE_CHECKING:
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import Translator

MAX_TRACED_TOKENS = 1024  # of a language model's text, unless it was trained on longer ones


@torch.no_grad()
def trace_forward(
    model: Transformer,
    source: Sequence[int],
    target: Sequence[int],
    second: int = 0,
    neighbours: Neighbours | None = None,
    graphs: Graphs | None = None,
) -> dict[str, Tensor]:
    """All tensors of a forward pass over one row of ids, by name (see Trace). A side without ids is not run. second:
    where the second of two texts begins in the source; 0: there is one. graphs: one, for a model with a reasoner."""
    report = ForwardReport(trace={})
    tensors = report.trace
    assert tensors is not None
    nodes = None
    if graphs is not None and model.reasoner is not None:
        nodes = model.reasoner(graphs.to(model.device), report).memory
        tensors["reasoner.output"] = nodes.values
    segments: Tensor | None = None
    if second and model.config.embedding.segments > 1:
        segments = (torch.arange(len(source), device=model.device) >= second).long()[None]
        tensors["encoder.segments"] = segments
    read = torch.tensor([source], device=model.device)
    memory = model.encode(read, segments=segments, report=report) if source else None
    if target:
        ids = torch.tensor([target], device=model.device)
        hidden = model.decode(ids, memory=memory, nodes=nodes, report=report, neighbours=neighbours)
    else:
        assert memory is not None
        hidden = memory.values
    if memory is not None:
        tensors["encoder.output"] = memory.values
    for name in [name for name in tensors if name.endswith((".stream", ".embedded"))]:
        tensors[f"{name.removesuffix('.stream')}.norm"] = tensors[name].norm(dim=-1)
    tensors["output.hidden"] = hidden
    if scores_tokens(model):
        tensors["output.logps"] = model.logits(hidden).float().log_softmax(-1)
    elif model.config.head.kind in ("pooled", "tags"):
        tensors["output.scores"] = model.logits(hidden).float()
    return {name: tensor[0].to("cpu", torch.float32, copy=True).contiguous() for name, tensor in tensors.items()}


def trace_translation(
    translator: "Translator",
    text: str,
    options: TranslateOptions,
    *,
    prefix: str | Sequence[int] = "",
    iteration: int | None = None,
) -> Trace:
    """Trace one sentence; several are translated as one, and a warning says so. Of the options, languages and search
    count. iteration: of mask-predict, whose pass is traced; by default the last that predicted something."""
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
    search = options.search or config.search
    options = replace(options, split_sentences=False, protect=None, search=search)
    source = _read_source(translator, text, options)
    if len(source) > config.train.max_tokens:
        raise HeadwayError(
            f"this text has {len(source)} tokens, and this model reads at most {config.train.max_tokens}. Trace a "
            "shorter one."
        )
    steps: list[BeamStep] = []
    at_once = writes_at_once(translator)
    recorder = None if at_once else steps.append
    translation = translate_requests(translator, [Request(text, prefix=prefix)], options, recorder)[0]
    forced = len(translator.encode_prefix(prefix))
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
    iterations = trace_iterations(translator, source, search, hypotheses[0].ids) if at_once else []
    target = [target_tokenizer.start, *hypotheses[0].ids]
    if at_once:
        target = choose_traced(iterations, target_tokenizer.mask, iteration).read
    tensors = trace_forward(translator.steppers[0].model, source, target)
    fields = _output_fields(target_tokenizer, target, hypotheses, steps, tensors)
    shown = sorted({token for one in iterations for token in (*one.read, *one.ids)})
    fields["pieces"] |= dict(zip(shown, target_tokenizer.pieces(shown)))
    return Trace(
        kind=cast(TraceKind, shown_kind(config.train.objective.kind)),
        text=text,
        output=translation.text,
        source=_make_tokens(source_tokenizer, source),
        search=search.to_dict(),
        model=config.model.to_dict(),
        tensors=tensors,
        warnings=warnings,
        iterations=iterations,
        **fields,
    )


def _read_source(translator: "Translator", text: str, options: TranslateOptions) -> list[int]:
    """What the encoder reads of a sentence; of a denoising model, with its gaps."""
    if is_denoising(translator.summary.objective):
        stages = TranslationStages(translator, [], options)
        return [token for sentence in stages.read(Request(text)).sentences for token in sentence.ids]
    tokenizer = translator.tokenizers.source
    direction = translator.direction_tokens(options.source, options.target)
    return direction.wrap_source(tokenizer.encode(lowercased(text.strip(), tokenizer)))


def trace_text(model: "LanguageModel", text: str, settings: Mapping[str, Any]) -> Trace:
    """Trace a language model that continues the text, or only reads it (length=0); or an encoder, which reads it.

    prefix, in settings: ids to go on from in place of those of the text, which they may begin with and lead on.
    hidden: of a masked language model: tokens of the text, counted from 0, that it is to guess."""
    if not isinstance(text, str):
        raise HeadwayError(f"the text must be a string, not {text!r}.")
    if model.config.train.objective.kind == "solve":
        return _trace_problem(model, text, settings)
    if not continues_text(model.config.train.objective.kind):
        return _trace_encoder(model, text, settings)
    tokenizer = model.tokenizer
    steps: list[BeamStep] = []
    search: Search | None = None
    special, prompt = model.make_prompt(text)
    settings = dict(settings)
    prefix = list(settings.pop("prefix", None) or prompt)
    tokenizer.pieces(prefix)  # raises for an id that the vocabulary does not have
    _check_length(model, len(prefix))
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
    ids = [special.start, *found[0].ids]
    tensors = trace_forward(model.model, [], ids, neighbours=model.neighbours_of(ids))
    return Trace(
        kind="causal",
        text=text,
        output=model.decode(found[0].ids, special.start),
        source=_make_tokens(tokenizer, []),
        search=search.to_dict() if search else {},
        model=model.config.model.to_dict(),
        tensors=tensors,
        **_output_fields(tokenizer, [special.start, *found[0].ids], found, steps, tensors),
    )


def _check_length(model: "LanguageModel", count: int) -> None:
    max_tokens = max(MAX_TRACED_TOKENS, model.config.train.max_tokens)
    if count >= max_tokens:
        raise HeadwayError(
            f"this text has {count} tokens, and a trace, which has weights for every pair of them, at most "
            f"{max_tokens - 1}. Trace a shorter one."
        )


def _trace_problem(model: Any, text: str, settings: Mapping[str, Any]) -> Trace:
    """A Solver: what it read are the names of the nodes of the problem's graph, if it has one."""
    given = {name: value for name, value in settings.items() if value is not None and name != "length"}
    if more := sorted(given.keys() - {"beam_size", "sample"}):
        raise ConfigError(f"a problem has one answer, which is searched for: leave out {more[0]}.")
    if not text.strip():
        raise HeadwayError("there is nothing to trace: give a problem.")
    posed = model.pose(text)
    steps: list[BeamStep] = []
    prefix = posed.ids[1:]
    found = [Hypothesis(prefix, 0.0, 0.0, [], False, len(prefix))]
    if settings.get("length") != 0:
        found = model.search_answers([posed], given.get("beam_size") or 1, steps.append)[0]
    tokenizer, start = model.tokenizer, model.special_tokens.start
    graphs = collate_graphs([posed.graph])
    tensors = trace_forward(model.model, [], [start, *found[0].ids], graphs=graphs)
    has_nodes = "reasoner.output" in tensors
    return Trace(
        kind="causal",
        text=text,
        output=model.decode(found[0].ids, start),
        source=Tokens([-1] * len(posed.names) * has_nodes, list(posed.names) * has_nodes),
        search={},
        model=model.config.model.to_dict(),
        tensors=tensors,
        **_output_fields(tokenizer, [start, *found[0].ids], found, steps, tensors),
    )


def _trace_encoder(model: "LanguageModel", text: str, settings: Mapping[str, Any]) -> Trace:
    kind = model.config.train.objective.kind
    if any(value is not None for name, value in settings.items() if name not in ("length", "hidden")):
        what = "is a masked language model" if kind == "masked" else f"model was trained for the task {kind}"
        raise ConfigError(f"this {what}, which generates nothing: it takes no search settings.")
    if not text.strip():
        raise HeadwayError("there is nothing to trace: give a sentence.")
    nothing = _make_tokens(model.tokenizer, [])
    read = read_encoder_text(model, text, settings.get("hidden") or ())
    _check_length(model, len(read.ids))
    tensors = trace_forward(model.model, read.ids, [], read.second)
    return Trace(
        kind=cast(TraceKind, kind),
        text=text,
        output="",
        source=_make_tokens(model.tokenizer, read.ids),
        target=nothing,
        written=nothing,
        forced=0,
        found=[],
        beam=[],
        pieces=_likely_pieces(model.tokenizer, tensors, read.expected),
        search={},
        model=model.config.model.to_dict(),
        tensors=tensors,
        expected=_make_tokens(model.tokenizer, read.expected if read.expected != read.ids else []),
        second=read.second,
        prediction=describe_encoder_output(model, text, read, tensors),
    )


def _likely_pieces(tokenizer: Tokenizer, tensors: Mapping[str, Tensor], more: Sequence[int]) -> dict[int, str]:
    """The texts of the likeliest tokens at each position, and of these."""
    logps = tensors.get("output.logps")
    likely = [] if logps is None else logps.topk(min(TOP_TOKENS, logps.shape[-1])).indices.flatten().tolist()
    ids = sorted({*likely, *more})
    return dict(zip(ids, tokenizer.pieces(ids)))


def _output_fields(
    tokenizer: Tokenizer, target: list[int], found: list[Hypothesis], steps: list[BeamStep], tensors: dict[str, Tensor]
) -> dict[str, Any]:
    """The fields of a Trace that describe the output and its search. target: what the decoder read."""
    best = found[0]
    written = [*best.ids, *[tokenizer.end] * best.finished][: len(target)]
    beam = find_search(steps, written[best.prefix :])
    return {
        "target": _make_tokens(tokenizer, target),
        "written": _make_tokens(tokenizer, written),
        "forced": best.prefix,
        "found": found,
        "beam": beam,
        "pieces": _likely_pieces(tokenizer, tensors, [token for choice in beam for token in choice.ids]),
    }


def _make_tokens(tokenizer: Tokenizer, ids: list[int]) -> Tokens:
    return Tokens(ids, tokenizer.pieces(ids))
