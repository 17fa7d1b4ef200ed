"""The tokens of a request as a model reads them: what its encoder reads, what its decoder reads and has generated."""

from typing import Any

from headway.serve.errors import ApiError
from headway.serve.served_model import ServedModel
from headway.translate.translator import Translator

EXTRA_TOKENS = 64  # that an output may have beyond the longest text of the training


def tokenize_given(model: ServedModel, body: Any) -> Any:
    """The same with the tokens of its texts."""
    loaded: Any = model.loaded
    if isinstance(loaded, Translator):
        direction = loaded.direction_tokens(body.source, body.target)
        read = direction.wrap_source(loaded.tokenizers.source.encode(body.q.strip()))
        written = [*direction.target_lead, *loaded.tokenizers.target.encode(body.output.strip())]
    elif model.is_causal:
        read, written = [], list(loaded.make_prompt(body.q + body.output)[1])
    else:
        from headway.inspect.encoder_input import read_encoder_text

        own = read_encoder_text(loaded, body.q)
        return body.model_copy(update={"read": own.ids, "written": [], "second": own.second})
    return body.model_copy(update={"read": list(read), "written": written})


def leave_out_parts(model: ServedModel, body: Any) -> Any:
    """The translator or language model, without what is to be switched off."""
    from headway.inspect.ablation import ablate

    loaded: Any = model.loaded
    return ablate(loaded, body.ablate) if body.ablate else loaded


def trace_tokens(model: ServedModel, body: Any) -> dict[str, Any]:
    """All tensors of a forward pass over these tokens. A side that the model does not have is ignored."""
    from headway.inspect.ablation import ablate_network
    from headway.inspect.tracer import trace_forward
    from headway.translate.solver import Solver

    read = check_tokens(model, body)
    network = ablate_network(find_network(model), body.ablate) if body.ablate else find_network(model)
    graphs = model.loaded.graphs_of(body.written) if isinstance(model.loaded, Solver) else None
    return trace_forward(network, read, list_decoder_input(model, body), body.second, graphs=graphs)


def check_tokens(model: ServedModel, body: Any) -> list[int]:
    """What the encoder reads, if there is one. Raises if the model cannot read these tokens."""
    from headway.inspect.tracer import MAX_TRACED_TOKENS

    config = find_network(model).config
    sides = (("encoder", body.read, config.source_vocabulary), ("decoder", body.written, config.vocabulary))
    expected = getattr(body, "expected", ())
    if max(expected, default=0) >= config.vocabulary:
        raise ApiError(400, f"Invalid request: token {max(expected)} is not in this model's vocabulary")
    max_tokens = max(model.summary.max_tokens, MAX_TRACED_TOKENS if model.is_causal else 0) + EXTRA_TOKENS
    for side, ids, vocabulary in sides:
        if max(ids, default=0) >= (vocabulary or config.vocabulary):
            raise ApiError(400, f"Invalid request: token {max(ids)} is not in this model's vocabulary")
        if side in config.sides and len(ids) >= max_tokens:
            raise ApiError(
                400, f"Invalid request: {len(ids)} tokens are too many: this model reads fewer than {max_tokens}"
            ).because("too_many_tokens", count=len(ids), limit=max_tokens)
    if "encoder" in config.sides and not body.read:
        raise ApiError(400, "Invalid request: read is empty: send the token ids of the source")
    positions = model.summary.max_positions
    if positions is not None and max(len(body.read), len(body.written) + 1) > positions:
        refused = ApiError(400, f"Invalid request: this model has positions for at most {positions} tokens")
        raise refused.because("too_many_positions", limit=positions)
    return list(body.read) if "encoder" in config.sides else []


def list_decoder_input(model: ServedModel, body: Any) -> list[int]:
    """What the decoder reads: the start token, then what it has generated; of mask-predict, all of that at once."""
    if "decoder" not in find_network(model).config.sides:
        return []
    if find_network(model).length_predictor is not None:
        if not body.written:
            raise ApiError(400, "Invalid request: written is empty: send the token ids that the decoder reads")
        return list(body.written)
    if isinstance(model.loaded, Translator):
        return [model.loaded.tokenizers.target.start, *body.written]
    return [model.language_model.special_tokens.start, *body.written]


def list_output(model: ServedModel, body: Any) -> list[int]:
    """What was generated, with the end token, if there was one."""
    has_end = body.finished and find_network(model).length_predictor is None
    return [*body.written, *[find_target_tokenizer(model).end] * has_end]


def refuse_at_once(model: ServedModel) -> None:
    if find_network(model).length_predictor is not None:
        raise ApiError(
            400, "Invalid request: this model writes all tokens at once: no token has a probability given those before"
        )


def find_config(model: ServedModel) -> Any:
    assert model.loaded is not None
    return model.loaded.config


def find_network(model: ServedModel) -> Any:
    return model.loaded.steppers[0].model if isinstance(model.loaded, Translator) else model.language_model.model


def find_source_tokenizer(model: ServedModel) -> Any:
    return model.loaded.tokenizers.source if isinstance(model.loaded, Translator) else model.language_model.tokenizer


def find_target_tokenizer(model: ServedModel) -> Any:
    return model.loaded.tokenizers.target if isinstance(model.loaded, Translator) else model.language_model.tokenizer
