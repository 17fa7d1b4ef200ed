"""What a page without a server answers its panels from: one list, for the pages that Python writes and for those that
the page saves. A panel that asks the server about the tokens of a text has its answers here."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from headway.config.own_kinds import reading_stored
from headway.config.schema import from_dict
from headway.errors import HeadwayError
from headway.inspect.attribution import MAX_ATTRIBUTED_TOKENS, attribute_text, attribute_translation
from headway.inspect.embeddings import PieceTexts, describe_vectors
from headway.inspect.events import describe_penalty, trace_predictions
from headway.inspect.influence import describe_influence
from headway.inspect.layer_answers import LayerQuestion, describe_layer_parts, expected_tokens
from headway.inspect.model_summary import summarise_blocks
from headway.inspect.output_scores import output_side
from headway.inspect.scored_output import count_lead, describe_scored
from headway.inspect.sublayers import Parts, describe_column, describe_sublayer
from headway.inspect.telling_head import find_telling_head
from headway.inspect.trace import Trace
from headway.nn.transformer import Transformer

if TYPE_CHECKING:
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import Translator


class TracedText(NamedTuple):
    """One text in one model. A trace that was read from a file comes without its model."""

    trace: Trace
    model: Transformer | None = None
    pieces: PieceTexts | None = None
    loaded: "Translator | LanguageModel | None" = None  # what the network is of


def attach_model(trace: Trace, model: "Translator | LanguageModel") -> TracedText:
    """A trace with the model that it is of."""
    from headway.translate.translator import Translator

    if isinstance(model, Translator):
        readers = {"encoder": model.tokenizers.source, "decoder": model.tokenizers.target}
        return TracedText(trace, model.steppers[0].model, lambda side, ids: readers[side].pieces(ids), model)
    tokenizer = model.tokenizer
    return TracedText(trace, model.model, lambda side, ids: tokenizer.pieces(ids), model)


@dataclass(frozen=True)
class RecordedAnswer:
    name: str  # under which the page looks it up, after the number of the sentence
    path: str  # of the route that answers it
    body: Mapping[str, Any]  # what is posted beside the model and the tokens
    compute: Callable[[TracedText], Any]  # the same answer, from a trace; None: it cannot be given


def list_answers(config: Transformer.Config) -> list[RecordedAnswer]:
    """All that the panels ask about one sentence, unless somebody changes a setting that only a server can follow."""
    answers = [RecordedAnswer("vectors", "api/vectors", {}, _describe_vectors)]
    if config.decoder.layers or config.head.kind == "masked":
        answers.append(RecordedAnswer("places 1", "api/places", {"temperature": 1.0}, _predict))
    if config.decoder.layers and config.predicted_length is None:
        answers.append(RecordedAnswer("score", "api/score", {}, _score))
        answers.append(RecordedAnswer("attribution words", "api/attribution", {"units": "words"}, _attribute))
    for path in list_attention_sublayers(config):
        describe = partial(_describe_sublayer, path, config)
        answers.append(RecordedAnswer(f"inside {path}", "api/inside", {"place": path}, describe))
        answers += list_columns(config, path, head=0)
    return answers + list_layer_answers(config)


def list_columns(config: Transformer.Config, path: str, head: int) -> list[RecordedAnswer]:
    """The weights that lead to the first number of each kind, in one head; others are asked of a server."""
    parts = Parts.of(config, path)
    answers = []
    for matrix in parts.matrices if head < getattr(parts.mixer, "heads", 1) else ():
        body = {"place": path, "matrix": matrix, "head": head, "channel": 0}
        describe = partial(_describe_column, path, matrix, head)
        answers.append(RecordedAnswer(f"column {path} {matrix} {head} 0", "api/column", body, describe))
    return answers


def list_layer_answers(config: Transformer.Config) -> list[RecordedAnswer]:
    """Of the first token of each side; what others do is asked of a server."""
    answers = []
    for side in config.sides:
        asked: dict[str, dict[str, Any]] = {
            f"layer flow {side} 0": {"parts": ["flow"]},
            f"layer table {side} 0": {"parts": ["stream", "lens"]},
            f"layer token {side} 0": {"parts": ["embedding", "end", "output"]},
        }
        for layer in range(getattr(config, side).layers):
            asked[f"layer {side} {layer} 0"] = {"parts": ["layer"], "layer": layer}
        for name, body in asked.items():
            described = partial(_describe_layer_parts, side, body)
            answers.append(RecordedAnswer(name, "api/layer", {"side": side, "position": 0, **body}, described))
    return answers


def list_attention_sublayers(config: Transformer.Config) -> list[str]:
    """encoder.0.self, …, decoder.0.self, decoder.0.cross, …"""
    found = []
    for side in config.sides:
        subs = ["self", "cross"] if side == "decoder" and config.encoder.layers else ["self"]
        subs += ["query.self"] if getattr(config, side).streams == 2 else []
        found += [f"{side}.{layer}.{sub}" for layer in range(getattr(config, side).layers) for sub in subs]
    return found


def record_answers(traced: TracedText, name: str) -> dict[str, Any]:
    """What the server would answer, under the keys by which the page looks it up."""
    trace = traced.trace
    with reading_stored():  # a trace may be anybody's file
        config = from_dict(Transformer.Config, trace.model)
    description = describe_model(config, trace.search, len(trace.source.ids) or 1, len(trace.target.ids) or 1)
    info = {"name": name, "kind": trace.kind, "pairs": [], "loaded": True, **description, "longest": 0}
    answers = {"model": info, "0 costs": info}
    more = [*_list_first_columns(trace, config), *_list_influences(trace, config)]
    for answer in [*list_answers(config), *more]:
        computed = answer.compute(traced)
        if computed is not None:
            answers[f"0 {answer.name}"] = computed
    return answers


def _list_first_columns(trace: Trace, config: Transformer.Config) -> list[RecordedAnswer]:
    """Those of the head on which the page opens, beside those of the first head."""
    _, head = find_telling_head(trace) or (0, 0)
    paths = list_attention_sublayers(config) if head else []
    return [answer for path in paths for answer in list_columns(config, path, head)]


def _list_influences(trace: Trace, config: Transformer.Config) -> list[RecordedAnswer]:
    """Of mixers without weights, in place of them."""
    without = [
        path
        for path in list_attention_sublayers(config)
        if path.count(".") == 2 and path.endswith(".self") and f"{path}.weights" not in trace.tensors
    ]
    return [
        RecordedAnswer(f"influence {path}", "api/influence", {"place": path}, partial(_measure_influence, path))
        for path in without
    ]


def describe_model(config: Transformer.Config, search: Mapping[str, Any], source: int, target: int) -> dict[str, Any]:
    """A model's config, parameters and blocks, its FLOPs for so many source and target tokens, and what a page that is
    saved has to record of it."""
    return {
        "config": config.resolved().to_dict(),
        "parameters": config.parameter_count(),
        "flops": config.forward_flops(source, target),
        "lengths": [source, target],
        "blocks": [asdict(block) for block in summarise_blocks(config, source, target)],
        "beam_size": search.get("beam_size", 1),
        "penalty": describe_penalty(search),
        "recorded": [[answer.name, answer.path, dict(answer.body)] for answer in list_answers(config)],
    }


def _describe_vectors(traced: TracedText) -> dict[str, Any]:
    trace = traced.trace
    ids = {"encoder": trace.source.ids, "decoder": trace.target.ids}
    sides = {side: ids[side] for side in ids if f"{side}.embedded" in trace.tensors}
    return describe_vectors(trace.tensors, sides, traced.model, traced.pieces)


def _describe_sublayer(path: str, config: Transformer.Config, traced: TracedText) -> dict[str, Any]:
    return describe_sublayer(traced.trace.tensors, path, config, traced.model)


def _describe_column(path: str, matrix: str, head: int, traced: TracedText) -> dict[str, Any] | None:
    return None if traced.model is None else describe_column(traced.model, path, matrix, head, channel=0)


def _describe_layer_parts(side: Any, body: Mapping[str, Any], traced: TracedText) -> dict[str, Any] | None:
    """None without the model, whose norms and output matrix are needed."""
    trace, model, pieces = traced[:3]
    if model is None or pieces is None or f"{side}.embedded" not in trace.tensors:
        return None
    ids = (trace.source if side == "encoder" else trace.target).ids
    expected = expected_tokens(model, side, trace.expected.ids or trace.source.ids, trace.written.ids, len(ids))
    asked = LayerQuestion(side=side, position=0, ids=ids, expected=expected, **body)
    texts = partial(pieces, output_side(model))
    return describe_layer_parts(model, trace.tensors, asked, texts)


def _measure_influence(path: str, traced: TracedText) -> dict[str, Any] | None:
    trace, model = traced.trace, traced.model
    if model is None:
        return None
    try:
        return describe_influence(model, trace.source.ids, trace.target.ids, path, trace.second)
    except HeadwayError:  # of a text that is too long: the page says that it was not recorded
        return None


def _predict(traced: TracedText) -> dict[str, Any] | None:
    """None where labels are scored, and no tokens."""
    return trace_predictions(traced.trace) if "output.logps" in traced.trace.tensors else None


def _score(traced: TracedText) -> dict[str, Any] | None:
    """None without the model: a trace does not say which tokens name the language."""
    from headway.translate.translator import Translator

    trace, loaded = traced.trace, traced.loaded
    if loaded is None:
        return None
    tokenizer = loaded.tokenizers.target if isinstance(loaded, Translator) else loaded.tokenizer
    lead, search = 0, None
    if isinstance(loaded, Translator):
        lead, search = count_lead(trace.written.ids, tokenizer), loaded.config.search
    return {
        "read": trace.source._asdict(),
        "written": {name: values[1:] for name, values in trace.target._asdict().items()},
        "finished": len(trace.written.ids) == len(trace.target.ids),
        "tensors": {},
        **describe_scored(trace.tensors["output.logps"], trace.written.ids, tokenizer.pieces, lead=lead, search=search),
    }


def _attribute(traced: TracedText) -> dict[str, Any] | None:
    """None without the model, and for texts of which there is none, such as very long ones."""
    from headway.translate.translator import Translator

    trace, loaded = traced.trace, traced.loaded
    if loaded is None or max(len(trace.source.ids), len(trace.written.ids)) > MAX_ATTRIBUTED_TOKENS:
        return None
    finished = len(trace.written.ids) == len(trace.target.ids)
    try:
        if isinstance(loaded, Translator):
            return attribute_translation(loaded, trace.source.ids, trace.written.ids).to_dict()
        return attribute_text(loaded, [*trace.target.ids, *trace.written.ids[-1:] * finished]).to_dict()
    except HeadwayError:  # such as of an output that is empty: the page says that it was not recorded
        return None
