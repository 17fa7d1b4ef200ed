"""BERT, RoBERTa and DistilBERT: encoders alone, post-norm, with learned positions and a norm of the embeddings.

What a directory holds, says `architectures` in its config.json: a model that guesses masked words; one that labels
texts or words; or one that gives vectors: BERT's pooled output, or those of sentence-transformers, if modules.json is
there (sentence_transformers.py).

              segments     positions                  pooler
BERT          yes          from 0                     yes
RoBERTa       one          from pad_token_id + 1      yes
DistilBERT    no           from 0                     no"""

from dataclasses import dataclass, replace
from typing import Any

from headway.convert.architecture import (
    Architecture,
    ConversionError,
    Json,
    linear_rules,
    norm_rules,
    read_size,
    require,
    sublayer,
    sublayer_norm,
)
from headway.convert.tensor_rules import SkipRows, TensorRule

ACTIVATIONS = {
    "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu", "silu": "silu",
    "swish": "silu",
}  # fmt: skip

PAIR_LABELS = {"entailment", "contradiction", "equivalent", "not_equivalent", "duplicate", "paraphrase"}  # of two texts


@dataclass(frozen=True, kw_only=True)
class EncoderNames:
    """The names of a family's tensors, by ours."""

    family: str
    prefix: str  # of the encoder, in models with a head
    layers: str
    layer: dict[str, str]  # linear layers
    attention_norm: str
    feedforward_norm: str
    transform: str  # of the head for masked words
    transform_norm: str
    output: str  # of the same, over the vocabulary: weight and bias
    tied_bias: str  # the bias, where the weight is that of the embedding
    pooler: str = ""
    classifier: str = "classifier"  # of labels, after a dense layer where texts have labels
    classifier_dense: str = ""
    classifier_activation: str = "tanh"  # of that layer
    pairs: str = ""  # scores of next sentences, from the pooled output
    settings: tuple[str, ...] = ()  # names of sizes in config.json: width, layers, heads, hidden width


BERT = EncoderNames(
    family="BERT",
    prefix="bert.",
    layers="encoder.layer",
    layer={
        "self.query": "attention.self.query", "self.key": "attention.self.key", "self.value": "attention.self.value",
        "self.output": "attention.output.dense", "feedforward.inner": "intermediate.dense",
        "feedforward.outer": "output.dense",
    },
    attention_norm="attention.output.LayerNorm",
    feedforward_norm="output.LayerNorm",
    transform="cls.predictions.transform.dense",
    transform_norm="cls.predictions.transform.LayerNorm",
    output="cls.predictions.decoder",
    tied_bias="cls.predictions.bias",
    pooler="pooler.dense",
    classifier_dense="bert.pooler.dense",
    pairs="cls.seq_relationship",
    settings=("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
)  # fmt: skip
ROBERTA = EncoderNames(
    **{
        **vars(BERT),
        "family": "RoBERTa",
        "prefix": "roberta.",
        "pairs": "",
        "transform": "lm_head.dense",
        "transform_norm": "lm_head.layer_norm",
        "output": "lm_head.decoder",
        "tied_bias": "lm_head.bias",
        "classifier_dense": "classifier.dense",
    }
)
DISTILBERT = EncoderNames(
    family="DistilBERT",
    prefix="distilbert.",
    layers="transformer.layer",
    layer={
        "self.query": "attention.q_lin", "self.key": "attention.k_lin", "self.value": "attention.v_lin",
        "self.output": "attention.out_lin", "feedforward.inner": "ffn.lin1", "feedforward.outer": "ffn.lin2",
    },
    attention_norm="sa_layer_norm",
    feedforward_norm="output_layer_norm",
    transform="vocab_transform",
    transform_norm="vocab_layer_norm",
    output="vocab_projector",
    tied_bias="vocab_projector.bias",
    classifier_dense="pre_classifier",
    classifier_activation="relu",
    settings=("dim", "n_layers", "n_heads", "hidden_dim"),
)  # fmt: skip


def read_bert(config: Json) -> Architecture:
    segments = read_size(config, "type_vocab_size", 2)
    activation = _read_activation(config, "hidden_act")
    return _encoder(BERT, config, activation, segments=segments, eps=float(config.get("layer_norm_eps", 1e-12)))


def read_roberta(config: Json) -> Architecture:
    first = config.get("pad_token_id", 1)
    if type(first) is not int or first < 0:
        raise ConversionError(f"pad_token_id = {first!r} in its config.json: RoBERTa counts positions from it.")
    segments, eps = read_size(config, "type_vocab_size", 1), float(config.get("layer_norm_eps", 1e-12))
    activation = _read_activation(config, "hidden_act")
    return _encoder(ROBERTA, config, activation, segments=segments, eps=eps, first=first + 1, head_activation="gelu")


def read_distilbert(config: Json) -> Architecture:
    return _encoder(DISTILBERT, config, _read_activation(config, "activation"), eps=1e-12)


def _read_activation(config: Json, name: str) -> str:
    return ACTIVATIONS[require(config, name, tuple(ACTIVATIONS), "gelu")]


def _encoder(
    names: EncoderNames, config: Json, activation: str, *, eps: float, segments: int = 0, first: int = 0,
    head_activation: str = "",
) -> Architecture:  # fmt: skip
    """first: the row of the first position. head_activation: of the head for masked words, = activation."""
    require(config, "position_embedding_type", ("absolute", None), "absolute")
    require(config, "is_decoder", (False,), False)
    d_model, layers, heads, hidden = (read_size(config, name) for name in names.settings)
    positions = read_size(config, "max_position_embeddings", 512) - first
    tied = require(config, "tie_word_embeddings", (True, False), True)
    use = _find_use(names, config)
    masked = use == "words"
    pairs = masked and bool(names.pairs)  # whether it may tell next sentences
    sentence: Json = config.get("sentence_embedding") or {}
    pooler = bool(names.pooler) and use == "vectors" and not sentence
    rules = _encoder_rules(names, layers, segments, first)
    head: Json = {"kind": "embedding", "pooling": "first", "dense": pooler, "normalise": False}
    head |= {name: sentence[name] for name in ("pooling", "normalise") if name in sentence}
    if masked:
        head = {"kind": "masked", "activation": head_activation or activation}
        rules += linear_rules("head.transform", names.transform)
        rules += norm_rules("head.norm", names.transform_norm)
        rules += (
            [TensorRule("head.logits.bias", names.tied_bias)] if tied else linear_rules("head.logits", names.output)
        )
    if pooler:
        rules += linear_rules("head.pool", f"{names.prefix}{names.pooler}")
    objective: Any = "masked"
    labels: tuple[str, ...] = ()
    if use in ("texts", "words of texts"):
        labels = read_labels(config)
        head, objective, labels, more = _describe_labels(names, use, labels)
        rules += more
    lost = []
    if names.pooler and not pooler and not pairs and use in ("words", "vectors"):
        lost.append("its pooler, if it has one, which this use does not need")
    alone = Architecture(
        family=names.family,
        objective=objective,
        labels=labels,
        model={
            "d_model": d_model,
            "dropout": float(config.get("hidden_dropout_prob") or config.get("dropout") or 0.0),
            "norm": {"kind": "layernorm", "eps": eps},
            "embedding": {
                "scale": False, "norm": True, "segments": segments, "tied": "all" if tied or not masked else "none",
            },
            "encoder": {
                "layers": layers,
                "position": f"learned({positions})",
                "mixer": f"attention({heads})",
                "feedforward": f"{activation}({hidden})",
                "residual": "post",
            },
            "decoder": {"layers": 0},
            "head": head,
        },
        rules=tuple(rules),
        max_tokens=min(positions, int(sentence.get("max_tokens", positions))),
        unused=(*_list_unused(names, masked, pooler or use == "texts"), "*position_ids"),
        lost=tuple(lost),
        prefix=names.prefix,
    )  # fmt: skip
    return _with_pairs(alone, names) if pairs else alone


def _with_pairs(alone: Architecture, names: EncoderNames) -> Architecture:
    """With the head for next sentences, where the weights have it: the name of the class does not always tell."""
    rules = linear_rules("head.pool", f"{names.prefix}{names.pooler}") + linear_rules("head.follows", names.pairs)
    head = {**alone.model["head"], "next_sentence": True}
    return replace(
        alone,
        model={**alone.model, "head": head},
        rules=(*alone.rules, *rules),
        unused=tuple(name for name in alone.unused if name not in (f"{names.pairs}.*", f"*{names.pooler}.*")),
        otherwise=alone,
    )


def _find_use(names: EncoderNames, config: Json) -> str:
    """What the model in the directory gives, by the name of its class: "words" that are masked, "vectors", or labels of
    "texts" or of "words of texts"."""
    if config.get("sentence_embedding"):
        return "vectors"
    classes: Any = config.get("architectures") or [""]
    name = str(classes[0]) if isinstance(classes, list) else str(classes)
    if name.endswith(("ForMaskedLM", "ForPreTraining")):
        return "words"
    if name.endswith("ForSequenceClassification"):
        return "texts"
    if name.endswith("ForTokenClassification"):
        return "words of texts"
    if name.endswith("Model") or not name:
        return "vectors"
    raise ConversionError(
        f"architectures = {classes!r} in its config.json: a {names.family} model can be imported if it guesses masked "
        "words (ForMaskedLM), gives vectors (Model), or labels texts or words (ForSequenceClassification, "
        "ForTokenClassification), not with another head."
    )


def read_labels(config: Json) -> tuple[str, ...]:
    """The names of the labels, in the order of their scores."""
    if config.get("problem_type") == "multi_label_classification":
        raise ConversionError(
            "its labels do not exclude each other (problem_type = multi_label_classification), and those of Headway do."
        )
    table = config.get("id2label")
    if not isinstance(table, dict):
        return tuple(f"LABEL_{n}" for n in range(read_size(config, "num_labels", 2)))
    labels = tuple(str(table.get(str(n))) for n in range(len(table)))
    if len(set(labels)) < len(table) or not labels or any(table.get(str(n)) is None for n in range(len(table))):
        raise ConversionError("id2label in its config.json does not name each label once. Correct it there.")
    return labels


def _describe_labels(
    names: EncoderNames, use: str, labels: tuple[str, ...]
) -> tuple[Json, str, tuple[str, ...], list[TensorRule]]:
    """Head, objective, labels and rules. A single label is a score of two texts."""
    if use == "words of texts":
        rules = linear_rules("head.classify", names.classifier)
        return {"kind": "tags", "classes": len(labels)}, "tag", labels, rules
    out = f"{names.classifier}.out_proj" if names.classifier_dense.startswith(names.classifier) else names.classifier
    rules = [*linear_rules("head.pool", names.classifier_dense), *linear_rules("head.classify", out)]
    head = {"kind": "pooled", "classes": len(labels), "pooling": "first", "activation": names.classifier_activation}
    compares = len(labels) == 1 or PAIR_LABELS & {label.lower() for label in labels}
    return head, "match" if compares else "classify", labels if len(labels) > 1 else (), rules


def _encoder_rules(names: EncoderNames, layers: int, segments: int, first: int) -> list[TensorRule]:
    embeddings = f"{names.prefix}embeddings"
    skip = (SkipRows(first),) if first else ()
    rules = [
        TensorRule("embeddings.encoder.words.weight", f"{embeddings}.word_embeddings.weight"),
        TensorRule("stacks.encoder.positions.0.table.weight", f"{embeddings}.position_embeddings.weight", skip),
        *norm_rules("embeddings.encoder.norm", f"{embeddings}.LayerNorm"),
    ]
    if segments:
        rules.append(TensorRule("embeddings.encoder.segments.weight", f"{embeddings}.token_type_embeddings.weight"))
    for layer in range(layers):
        theirs = f"{names.prefix}{names.layers}.{layer}"
        for own, their in names.layer.items():
            part, _, name = own.partition(".")
            rules += linear_rules(f"{sublayer('encoder', layer, part)}.{name}", f"{theirs}.{their}")
        rules += norm_rules(sublayer_norm("encoder", layer, "self"), f"{theirs}.{names.attention_norm}")
        rules += norm_rules(sublayer_norm("encoder", layer, "feedforward"), f"{theirs}.{names.feedforward_norm}")
    return rules


def _list_unused(names: EncoderNames, masked: bool, pooler: bool) -> list[str]:
    """What no rule reads: a pattern may name what one does."""
    unused = [f"{names.output}.*", names.tied_bias]  # copies of each other, if tied
    unused += [f"{names.pairs or BERT.pairs}.*"]
    if names.pooler and not pooler:
        unused.append(f"*{names.pooler}.*")
    if not masked:  # a head that is there although the class has none
        unused += [f"{names.transform}.*", f"{names.transform_norm}.*"]
    return unused
