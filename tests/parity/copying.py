"""Weights of other people's models poured into ours. Each function builds the config that equals the given model and
loads its weights under our names, strictly: nothing of ours may be left unset, nothing of theirs left over."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from headway.config.schema import from_dict
from headway.nn.transformer import Transformer

Weights = dict[str, Tensor]
NORM = {"weight": "gain", "bias": "bias"}
LINEAR = {"weight": "weight", "bias": "bias"}


class Pouring:
    """Their weights, taken one module at a time and put under our names."""

    def __init__(self, theirs: nn.Module, ignored: Iterable[str] = ()) -> None:
        self.left: Weights = {
            name: value.detach().clone() for name, value in theirs.state_dict().items() if name not in ignored
        }
        self.ours: Weights = {}

    def take(self, name: str) -> Tensor:
        return self.left.pop(name)

    def linear(self, ours: str, theirs: str, change: Callable[[Tensor], Tensor] = lambda x: x) -> None:
        for end in LINEAR:
            if f"{theirs}.{end}" in self.left:
                self.ours[f"{ours}.{end}"] = change(self.take(f"{theirs}.{end}"))

    def norm(self, ours: str, theirs: str) -> None:
        for end, name in NORM.items():
            if f"{theirs}.{end}" in self.left:
                self.ours[f"{ours}.{name}"] = self.take(f"{theirs}.{end}")

    def linears(self, ours: str, theirs: str, names: dict[str, str]) -> None:
        for our, their in names.items():
            self.linear(f"{ours}.{our}", f"{theirs}.{their}")

    def thirds(self, ours: str, theirs: str, change: Callable[[Tensor], Tensor] = lambda x: x) -> None:
        """Queries, keys and values that lie in one matrix, one after the other."""
        for end in LINEAR:
            if f"{theirs}.{end}" in self.left:
                for name, part in zip(("query", "key", "value"), change(self.take(f"{theirs}.{end}")).chunk(3)):
                    self.ours[f"{ours}.{name}.{end}"] = part

    def into(self, config: dict[str, Any]) -> Transformer:
        assert not self.left, f"not copied: {sorted(self.left)}"
        model = Transformer(from_dict(Transformer.Config, config))
        model.to(next(iter(self.ours.values())).dtype).load_state_dict(self.ours)
        return model.eval()


def block(side: str, index: int, name: str) -> str:
    return f"stacks.{side}.blocks.{index}.sublayers.{name}"


def around(side: str, index: int, name: str) -> str:
    return f"stacks.{side}.blocks.{index}.residuals.{name}.norm"


def from_torch(theirs: nn.Transformer, vocabulary: int) -> Transformer:
    """torch.nn.Transformer starts from vectors: ours gets random words, neither scaled nor marked by positions."""
    pouring = Pouring(theirs)
    first = theirs.encoder.layers[0]
    for side, norms in {"encoder": ("self", "feedforward"), "decoder": ("self", "cross", "feedforward")}.items():
        for i in range(getattr(theirs, side).num_layers):
            layer = f"{side}.layers.{i}"
            for name, place in (("self", "self_attn"), ("cross", "multihead_attn")):
                if name in norms:
                    for end in ("weight", "bias"):
                        pouring.left[f"{layer}.{place}.in_proj.{end}"] = pouring.take(f"{layer}.{place}.in_proj_{end}")
                    pouring.thirds(block(side, i, name), f"{layer}.{place}.in_proj")
                    pouring.linear(f"{block(side, i, name)}.output", f"{layer}.{place}.out_proj")
            pouring.linears(block(side, i, "feedforward"), layer, {"inner": "linear1", "outer": "linear2"})
            for number, name in enumerate(norms, 1):
                pouring.norm(around(side, i, name), f"{layer}.norm{number}")
        pouring.norm(f"stacks.{side}.ends.norm", f"{side}.norm")
    pouring.ours["embeddings.decoder.words.weight"] = torch.randn(vocabulary, theirs.d_model, dtype=torch.float64)
    both = {
        "position": "none",
        "mixer": f"attention({theirs.nhead})",
        "feedforward": f"relu({first.linear1.out_features})",
        "residual": "pre" if first.norm_first else "post",
    }
    return pouring.into(
        {
            "d_model": theirs.d_model,
            "vocabulary": vocabulary,
            "norm": f"layernorm({first.norm1.eps})",
            "embedding": {"scale": False},
            "encoder": both | {"layers": theirs.encoder.num_layers},
            "decoder": both | {"layers": theirs.decoder.num_layers},
        }
    )


def from_marian(theirs: Any) -> Transformer:
    """transformers.MarianMTModel: post-norm, sines before cosines; one matrix for source, target and output,
    or three."""
    c, tied = theirs.config, theirs.config.tie_word_embeddings
    again = ["model.encoder.embed_tokens.weight", "lm_head.weight"] if tied else []
    sines = ["model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"]
    pouring = Pouring(theirs, ignored=["model.shared.weight", *again, *sines])
    names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
    for side, layers in (("encoder", c.encoder_layers), ("decoder", c.decoder_layers)):
        for i in range(layers):
            layer = f"model.{side}.layers.{i}"
            pouring.linears(block(side, i, "self"), f"{layer}.self_attn", names)
            pouring.norm(around(side, i, "self"), f"{layer}.self_attn_layer_norm")
            if side == "decoder":
                pouring.linears(block(side, i, "cross"), f"{layer}.encoder_attn", names)
                pouring.norm(around(side, i, "cross"), f"{layer}.encoder_attn_layer_norm")
            pouring.linears(block(side, i, "feedforward"), layer, {"inner": "fc1", "outer": "fc2"})
            pouring.norm(around(side, i, "feedforward"), f"{layer}.final_layer_norm")
    pouring.ours["embeddings.decoder.words.weight"] = pouring.take("model.decoder.embed_tokens.weight")
    if not tied:
        pouring.ours["embeddings.encoder.words.weight"] = pouring.take("model.encoder.embed_tokens.weight")
        pouring.ours["head.weight"] = pouring.take("lm_head.weight")
    pouring.ours["head.bias"] = pouring.take("final_logits_bias")[0]
    both = {"position": "sinusoidal(layout='halves')"}
    activation = {"swish": "silu", "relu": "relu", "gelu": "gelu"}[c.activation_function]
    return pouring.into(
        {
            "d_model": c.d_model,
            "vocabulary": c.vocab_size,
            "embedding": {"scale": c.scale_embedding, "tied": "all" if tied else "none"},
            "encoder": both
            | {
                "layers": c.encoder_layers,
                "mixer": f"attention({c.encoder_attention_heads})",
                "feedforward": f"{activation}({c.encoder_ffn_dim})",
            },
            "decoder": both
            | {
                "layers": c.decoder_layers,
                "mixer": f"attention({c.decoder_attention_heads})",
                "feedforward": f"{activation}({c.decoder_ffn_dim})",
            },
            "head": "logits(true)",
        }
    )


def standing(x: Tensor) -> Tensor:
    """Conv1D keeps its matrix as (inputs, outputs)."""
    return x.T if x.dim() == 2 else x


def from_gpt2(theirs: Any) -> Transformer:
    """transformers.GPT2LMHeadModel: a decoder alone, pre-norm; its linear layers lie on their sides."""
    c = theirs.config
    pouring = Pouring(theirs, ignored=("lm_head.weight",))
    for i in range(c.n_layer):
        layer = f"transformer.h.{i}"
        pouring.norm(around("decoder", i, "self"), f"{layer}.ln_1")
        pouring.thirds(block("decoder", i, "self"), f"{layer}.attn.c_attn", standing)
        pouring.linear(f"{block('decoder', i, 'self')}.output", f"{layer}.attn.c_proj", standing)
        pouring.norm(around("decoder", i, "feedforward"), f"{layer}.ln_2")
        pouring.linear(f"{block('decoder', i, 'feedforward')}.inner", f"{layer}.mlp.c_fc", standing)
        pouring.linear(f"{block('decoder', i, 'feedforward')}.outer", f"{layer}.mlp.c_proj", standing)
    pouring.norm("stacks.decoder.ends.norm", "transformer.ln_f")
    pouring.ours["embeddings.decoder.words.weight"] = pouring.take("transformer.wte.weight")
    pouring.ours["stacks.decoder.positions.0.table.weight"] = pouring.take("transformer.wpe.weight")
    return pouring.into(
        {
            "d_model": c.n_embd,
            "vocabulary": c.vocab_size,
            "norm": f"layernorm({c.layer_norm_epsilon})",
            "embedding": {"scale": False},
            "encoder": {"layers": 0},
            "decoder": {
                "layers": c.n_layer,
                "position": f"learned({c.n_positions})",
                "mixer": f"attention({c.n_head})",
                "feedforward": f"gelu_tanh({c.n_inner or 4 * c.n_embd})",
                "residual": "pre",
            },
        }
    )


def from_bert(theirs: Any) -> Transformer:
    """transformers.BertForMaskedLM or BertForSequenceClassification: an encoder alone, its embeddings normed."""
    c, pooled = theirs.config, hasattr(theirs, "classifier")
    again = ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "bert.embeddings.position_ids")
    pouring = Pouring(theirs, ignored=again)
    _bert_layers(pouring, "bert", c.num_hidden_layers)
    pouring.ours["stacks.encoder.positions.0.table.weight"] = pouring.take("bert.embeddings.position_embeddings.weight")
    if pooled:
        pouring.linear("head.pool", "bert.pooler.dense")
        pouring.linear("head.classify", "classifier")
    else:
        _masked_head(pouring)
    head = f"pooled({c.num_labels})" if pooled else "masked"
    return pouring.into(_bert_config(c, f"learned({c.max_position_embeddings})", head))


def from_roformer(theirs: Any) -> Transformer:
    """transformers.RoFormerForMaskedLM: BERT whose queries and keys are turned, in neighbouring pairs."""
    c = theirs.config
    again = (
        "cls.predictions.decoder.weight",
        "cls.predictions.decoder.bias",
        "roformer.encoder.embed_positions.weight",
    )
    pouring = Pouring(theirs, ignored=again)
    _bert_layers(pouring, "roformer", c.num_hidden_layers)
    _masked_head(pouring)
    return pouring.into(_bert_config(c, "rope", "masked"))


def _bert_layers(pouring: Pouring, name: str, layers: int) -> None:
    for i in range(layers):
        layer = f"{name}.encoder.layer.{i}"
        names = {"query": "self.query", "key": "self.key", "value": "self.value", "output": "output.dense"}
        pouring.linears(block("encoder", i, "self"), f"{layer}.attention", names)
        pouring.norm(around("encoder", i, "self"), f"{layer}.attention.output.LayerNorm")
        names = {"inner": "intermediate.dense", "outer": "output.dense"}
        pouring.linears(block("encoder", i, "feedforward"), layer, names)
        pouring.norm(around("encoder", i, "feedforward"), f"{layer}.output.LayerNorm")
    pouring.norm("embeddings.encoder.norm", f"{name}.embeddings.LayerNorm")
    for our, their in {"words": "word_embeddings", "segments": "token_type_embeddings"}.items():
        pouring.ours[f"embeddings.encoder.{our}.weight"] = pouring.take(f"{name}.embeddings.{their}.weight")


def _masked_head(pouring: Pouring) -> None:
    pouring.linear("head.transform", "cls.predictions.transform.dense")
    pouring.norm("head.norm", "cls.predictions.transform.LayerNorm")
    pouring.ours["head.logits.bias"] = pouring.take("cls.predictions.bias")


def _bert_config(c: Any, position: str, head: str) -> dict[str, Any]:
    return {
        "d_model": c.hidden_size,
        "vocabulary": c.vocab_size,
        "norm": f"layernorm({c.layer_norm_eps})",
        "embedding": {"scale": False, "norm": True, "segments": c.type_vocab_size},
        "encoder": {
            "layers": c.num_hidden_layers,
            "position": position,
            "mixer": f"attention({c.num_attention_heads})",
            "feedforward": f"gelu({c.intermediate_size})",
        },
        "decoder": {"layers": 0},
        "head": head,
    }


def pour_swiglu(pouring: Pouring, ours: str, theirs: str) -> None:
    pouring.linears(ours, theirs, {"gate": "gate_proj", "inner": "up_proj", "outer": "down_proj"})


def from_llama(
    theirs: Any, feedforward: Any = None, pour: Callable[[Pouring, str, str], None] = pour_swiglu
) -> Transformer:
    """transformers.LlamaForCausalLM: pre-norm without biases, keys shared by groups of heads, turned by halves. Its
    relatives have another feed-forward, and pour that themselves."""
    c = theirs.config
    pouring = Pouring(theirs)
    for i in range(c.num_hidden_layers):
        layer = f"model.layers.{i}"
        names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "o_proj"}
        pouring.linears(block("decoder", i, "self"), f"{layer}.self_attn", names)
        pour(pouring, block("decoder", i, "feedforward"), f"{layer}.mlp")
        pouring.norm(around("decoder", i, "self"), f"{layer}.input_layernorm")
        pouring.norm(around("decoder", i, "feedforward"), f"{layer}.post_attention_layernorm")
    pouring.norm("stacks.decoder.ends.norm", "model.norm")
    pouring.ours["embeddings.decoder.words.weight"] = pouring.take("model.embed_tokens.weight")
    pouring.ours["head.weight"] = pouring.take("lm_head.weight")
    heads = {"heads": c.num_attention_heads, "groups": c.num_key_value_heads, "d_k": c.head_dim}
    return pouring.into(
        {
            "d_model": c.hidden_size,
            "vocabulary": c.vocab_size,
            "dropout": 0.0,
            "norm": f"rmsnorm({c.rms_norm_eps})",
            "embedding": {"scale": False, "tied": "none"},
            "encoder": {"layers": 0},
            "decoder": {
                "layers": c.num_hidden_layers,
                "position": f"rope({c.rope_parameters['rope_theta']}, 'halves')",
                "mixer": {"kind": "attention", "bias": False} | heads,
                "feedforward": feedforward or f"swiglu({c.intermediate_size})",
                "residual": "pre",
            },
        }
    )


def from_bloom(theirs: Any) -> Transformer:
    """transformers.BloomForCausalLM: pre-norm with ALiBi; its queries, keys and values lie in one matrix, by heads."""
    c = theirs.config
    pouring = Pouring(theirs, ignored=("lm_head.weight",))

    def by_kind(x: Tensor) -> Tensor:  # (heads · 3 · D, …) -> (3 · heads · D, …)
        turned: Tensor = x.unflatten(0, (c.n_head, 3, -1)).transpose(0, 1).flatten(0, 2)
        return turned

    for i in range(c.n_layer):
        layer = f"transformer.h.{i}"
        pouring.norm(around("decoder", i, "self"), f"{layer}.input_layernorm")
        pouring.thirds(block("decoder", i, "self"), f"{layer}.self_attention.query_key_value", by_kind)
        pouring.linear(f"{block('decoder', i, 'self')}.output", f"{layer}.self_attention.dense")
        pouring.norm(around("decoder", i, "feedforward"), f"{layer}.post_attention_layernorm")
        names = {"inner": "dense_h_to_4h", "outer": "dense_4h_to_h"}
        pouring.linears(block("decoder", i, "feedforward"), f"{layer}.mlp", names)
    pouring.norm("stacks.decoder.ends.norm", "transformer.ln_f")
    pouring.norm("embeddings.decoder.norm", "transformer.word_embeddings_layernorm")
    pouring.ours["embeddings.decoder.words.weight"] = pouring.take("transformer.word_embeddings.weight")
    return pouring.into(
        {
            "d_model": c.hidden_size,
            "vocabulary": c.vocab_size,
            "norm": f"layernorm({c.layer_norm_epsilon})",
            "embedding": {"scale": False, "norm": True},
            "encoder": {"layers": 0},
            "decoder": {
                "layers": c.n_layer,
                "position": "alibi",
                "mixer": f"attention({c.n_head})",
                "feedforward": "gelu_tanh",
                "residual": "pre",
            },
        }
    )
