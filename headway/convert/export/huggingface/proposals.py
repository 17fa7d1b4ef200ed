"""Proposals: the config.json of a family that is nearest to a config of ours.

A proposal need not be right: `match` reads it with the family's own reader, and takes it only where that gives the
architecture that we have."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headway.convert.architecture import Json
from headway.convert.export.huggingface.sentence_modules import describe_sentence
from headway.convert.export.stored_model import MAX_POSITIONS
from headway.nn.positions.positions import sinusoids

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu", "swiglu": "silu"}
T5_FEEDFORWARDS = {
    "relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu", "geglu_tanh": "gated-gelu",
    "swiglu": "gated-silu",
}  # fmt: skip

SEQ2SEQ, CAUSAL, MASKED = "AutoModelForSeq2SeqLM", "AutoModelForCausalLM", "AutoModelForMaskedLM"


ENDINGS = {"masked": "ForMaskedLM", "pooled": "ForSequenceClassification", "tags": "ForTokenClassification"}


class Family(NamedTuple):
    model_type: str
    name: str  # as its users call it
    auto_class: str  # of transformers, that loads it
    propose: Callable[[Json], Json]
    tokenizer_class: str = "AutoTokenizer"  # that loads a tokenizer of ours
    two_vocabularies: bool = False  # one for the source and one for the target
    make_tables: Callable[[Json], dict[str, Tensor]] = lambda config: {}  # tensors that follow from its config.json


def first_part(side: Json, slot: str) -> Json:
    """The part of the first layer; of the others, only equal ones can be expressed."""
    parts = side.get(slot) or [{"kind": "none"}]
    part: Json = parts[0]
    return part


def propose_gpt2(model: Json) -> Json:
    decoder = model["decoder"]
    mixer, feedforward = first_part(decoder, "mixer"), first_part(decoder, "feedforward")
    return {
        "architectures": ["GPT2LMHeadModel"],
        "n_embd": model["d_model"],
        "n_layer": decoder["layers"],
        "n_head": mixer.get("heads", 1),
        "n_positions": first_part(decoder, "position").get("max_positions", MAX_POSITIONS),
        "n_inner": feedforward.get("hidden", 4 * model["d_model"]),
        "activation_function": ACTIVATIONS.get(feedforward["kind"], "gelu_new"),
        "resid_pdrop": model["dropout"],
        "embd_pdrop": model["dropout"],
        "attn_pdrop": mixer.get("dropout", 0.0),
        "layer_norm_epsilon": model["norm"].get("eps", 1e-5),
        "tie_word_embeddings": model["embedding"]["tied"] != "none",
    }


def propose_rope(position: Json) -> Json:
    """rope_parameters, of a position that may be another."""
    parameters: Json = {"rope_type": "default", "rope_theta": position.get("base", 10000.0)}
    scaling = position.get("scaling")
    if not scaling:
        return parameters
    names = {
        "factor": "factor", "length": "original_max_position_embeddings", "low": "low_freq_factor",
        "high": "high_freq_factor", "fast": "beta_fast", "slow": "beta_slow", "truncate": "truncate",
        "attention_factor": "attention_factor",
    }  # fmt: skip
    settings = {names[name]: value for name, value in scaling.items() if name in names and value is not None}
    return {**parameters, "rope_type": scaling["kind"], **settings}


def propose_gpt_neox(model: Json) -> Json:
    decoder = model["decoder"]
    mixer, feedforward = first_part(decoder, "mixer"), first_part(decoder, "feedforward")
    return {
        "architectures": ["GPTNeoXForCausalLM"],
        "hidden_size": model["d_model"],
        "num_hidden_layers": decoder["layers"],
        "num_attention_heads": mixer.get("heads", 1),
        "intermediate_size": feedforward.get("hidden", 4 * model["d_model"]),
        "hidden_act": ACTIVATIONS.get(feedforward["kind"], "gelu"),
        "hidden_dropout": model["dropout"],
        "attention_dropout": mixer.get("dropout", 0.0),
        "layer_norm_eps": model["norm"].get("eps", 1e-5),
        "max_position_embeddings": model["max_positions"],
        "rope_parameters": {**propose_rope(first_part(decoder, "position")), "partial_rotary_factor": 1.0},
        "use_parallel_residual": False,
        "attention_bias": mixer.get("bias", True),
        "tie_word_embeddings": model["embedding"]["tied"] != "none",
    }


def propose_llama(model: Json) -> Json:
    decoder = model["decoder"]
    mixer, feedforward = first_part(decoder, "mixer"), first_part(decoder, "feedforward")
    return {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": model["d_model"],
        "num_hidden_layers": decoder["layers"],
        "num_attention_heads": mixer.get("heads", 1),
        "num_key_value_heads": mixer.get("groups", mixer.get("heads", 1)),
        "head_dim": mixer.get("d_k", model["d_model"] // mixer.get("heads", 1)),
        "intermediate_size": feedforward.get("hidden", 4 * model["d_model"]),
        "hidden_act": "silu",
        "attention_dropout": mixer.get("dropout", 0.0),
        "attention_bias": mixer.get("bias", False),
        "mlp_bias": feedforward.get("bias", False),
        "rms_norm_eps": model["norm"].get("eps", 1e-6),
        "max_position_embeddings": model["max_positions"],
        "rope_parameters": propose_rope(first_part(decoder, "position")),
        "tie_word_embeddings": model["embedding"]["tied"] != "none",
    }


def find_windows(decoder: Json) -> list[int | None]:
    """The sliding window of each layer."""

    def window(mask: Any) -> int | None:
        inner = mask.values() if isinstance(mask, dict) else mask if isinstance(mask, list) else ()
        own = mask.get("window") if isinstance(mask, dict) else None
        return own if isinstance(own, int) else next((found for part in inner if (found := window(part))), None)

    return [window(mask) for mask in decoder.get("mask") or [None]]


def propose_mistral(model: Json) -> Json:
    window = find_windows(model["decoder"])[0]
    return {**propose_llama(model), "architectures": ["MistralForCausalLM"], "sliding_window": window}


def propose_qwen2(model: Json) -> Json:
    decoder = model["decoder"]
    windows = find_windows(decoder)
    kinds = ["full_attention" if window is None else "sliding_attention" for window in windows]
    return {
        **propose_llama(model),
        "architectures": ["Qwen2ForCausalLM"],
        "sliding_window": next((window for window in windows if window is not None), None),
        "use_sliding_window": any(window is not None for window in windows),
        "layer_types": kinds * (decoder["layers"] // len(kinds)),
    }


def propose_qwen3(model: Json) -> Json:
    return {**propose_qwen2(model), "architectures": ["Qwen3ForCausalLM"]}


def propose_marian(model: Json) -> Json:
    sides: Json = {}
    for side in ("encoder", "decoder"):
        mixer, feedforward = first_part(model[side], "mixer"), first_part(model[side], "feedforward")
        sides |= {
            f"{side}_layers": model[side]["layers"],
            f"{side}_attention_heads": mixer.get("heads", 1),
            f"{side}_ffn_dim": feedforward.get("hidden", 4 * model["d_model"]),
        }
    mixer, feedforward = first_part(model["encoder"], "mixer"), first_part(model["encoder"], "feedforward")
    tied = model["embedding"]["tied"]
    return {
        "architectures": ["MarianMTModel"],
        "d_model": model["d_model"],
        **sides,
        "activation_function": ACTIVATIONS.get(feedforward["kind"], "relu"),
        "dropout": model["dropout"],
        "attention_dropout": mixer.get("dropout", 0.0),
        "activation_dropout": feedforward.get("dropout", 0.0),
        "scale_embedding": model["embedding"]["scale"],
        "max_position_embeddings": model["max_positions"],
        "share_encoder_decoder_embeddings": tied in ("all", "inputs"),
        "tie_word_embeddings": tied in ("all", "target"),
        "decoder_vocab_size": model["vocabulary"],
    }


def make_sinusoids(config: Json) -> dict[str, Tensor]:
    """The position tables of Marian and Pegasus, which would make them again, with a warning."""
    table = sinusoids(torch.arange(config["max_position_embeddings"]), config["d_model"], layout="halves")
    return {f"model.{side}.embed_positions.weight": table for side in ("encoder", "decoder")}


def propose_pegasus(model: Json) -> Json:
    only_marian = ("share_encoder_decoder_embeddings", "decoder_vocab_size")
    config = {name: value for name, value in propose_marian(model).items() if name not in only_marian}
    return {**config, "architectures": ["PegasusForConditionalGeneration"]}


def propose_m2m100(model: Json) -> Json:
    return {**propose_pegasus(model), "architectures": ["M2M100ForConditionalGeneration"]}


def propose_bart(model: Json) -> Json:
    positions = first_part(model["encoder"], "position").get("max_positions", MAX_POSITIONS)
    sizes = {"max_position_embeddings": positions}
    return {**propose_pegasus(model), "architectures": ["BartForConditionalGeneration"], **sizes}


def propose_mbart(model: Json) -> Json:
    return {**propose_bart(model), "architectures": ["MBartForConditionalGeneration"]}


def propose_t5(model: Json) -> Json:
    encoder, position = model["encoder"], first_part(model["encoder"], "position")
    mixer, feedforward = first_part(encoder, "mixer"), first_part(encoder, "feedforward")
    tied = model["embedding"]["tied"] == "all"
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "d_model": model["d_model"],
        "d_kv": mixer.get("d_k", 1),
        "d_ff": feedforward.get("hidden", 4 * model["d_model"]),
        "num_heads": mixer.get("heads", 1),
        "num_layers": encoder["layers"],
        "num_decoder_layers": model["decoder"]["layers"],
        "feed_forward_proj": T5_FEEDFORWARDS.get(feedforward["kind"], "relu"),
        "relative_attention_num_buckets": position.get("buckets", 32),
        "relative_attention_max_distance": position.get("max_distance", 128),
        "layer_norm_epsilon": model["norm"].get("eps", 1e-6),
        "dropout_rate": model["dropout"],
        "tie_word_embeddings": tied,
        "scale_decoder_outputs": bool(model["head"].get("scale") or (tied and model["embedding"]["scale"])),
    }


def propose_mt5(model: Json) -> Json:
    config = {name: value for name, value in propose_t5(model).items() if name != "scale_decoder_outputs"}
    return {**config, "architectures": ["MT5ForConditionalGeneration"]}


def propose_mixtral(model: Json) -> Json:
    feedforward = first_part(model["decoder"], "feedforward")
    return {
        **propose_mistral(model),
        "architectures": ["MixtralForCausalLM"],
        "intermediate_size": (feedforward.get("expert") or {}).get("hidden", model["d_model"]),
        "num_local_experts": feedforward.get("experts", 8),
        "num_experts_per_tok": feedforward.get("top_k", 2),
        "router_aux_loss_coef": feedforward.get("balance_loss", 0.001),
    }


def propose_bitnet(model: Json) -> Json:
    quantization = {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "online"}
    config = {**propose_llama(model), "hidden_act": "relu2", "quantization_config": quantization}
    return {**config, "architectures": ["BitNetForCausalLM"]}


def propose_bert(model: Json) -> Json:
    encoder = model["encoder"]
    mixer, feedforward = first_part(encoder, "mixer"), first_part(encoder, "feedforward")
    ending = ENDINGS.get(model["head"]["kind"], "Model")
    masked = "BertForPreTraining" if model["head"].get("next_sentence") else "BertForMaskedLM"
    return {
        "architectures": [masked if model["head"]["kind"] == "masked" else f"Bert{ending}"],
        **({"num_labels": model["head"]["classes"]} if "classes" in model["head"] else {}),
        "hidden_size": model["d_model"],
        "num_hidden_layers": encoder["layers"],
        "num_attention_heads": mixer.get("heads", 1),
        "intermediate_size": feedforward.get("hidden", 4 * model["d_model"]),
        "hidden_act": ACTIVATIONS.get(feedforward["kind"], "gelu"),
        "layer_norm_eps": model["norm"].get("eps", 1e-12),
        "type_vocab_size": model["embedding"]["segments"] or 2,
        "max_position_embeddings": first_part(encoder, "position").get("max_positions", MAX_POSITIONS),
        "hidden_dropout_prob": model["dropout"],
        "attention_probs_dropout_prob": mixer.get("dropout", 0.0),
        "tie_word_embeddings": model["embedding"]["tied"] != "none",
        **describe_sentence(model),
    }


def propose_roberta(model: Json) -> Json:
    config = propose_bert(model)
    first = model["pad_token_id"] + 1  # its positions are counted from there
    return {
        **config,
        "architectures": [str(config["architectures"][0]).replace("Bert", "Roberta")],
        "type_vocab_size": 1,
        "max_position_embeddings": config["max_position_embeddings"] + first,
    }


def propose_xlm_roberta(model: Json) -> Json:
    config = propose_roberta(model)
    return {**config, "architectures": [str(config["architectures"][0]).replace("Roberta", "XLMRoberta")]}


def propose_distilbert(model: Json) -> Json:
    bert = propose_bert(model)
    return {
        "architectures": [str(bert["architectures"][0]).replace("Bert", "DistilBert")],
        **({"num_labels": bert["num_labels"]} if "num_labels" in bert else {}),
        "dim": bert["hidden_size"],
        "n_layers": bert["num_hidden_layers"],
        "n_heads": bert["num_attention_heads"],
        "hidden_dim": bert["intermediate_size"],
        "activation": bert["hidden_act"],
        "max_position_embeddings": bert["max_position_embeddings"],
        "dropout": bert["hidden_dropout_prob"],
        "attention_dropout": bert["attention_probs_dropout_prob"],
        "tie_word_embeddings": bert["tie_word_embeddings"],
        **describe_sentence(model),
    }


def propose_xlnet(model: Json) -> Json:
    decoder = model["decoder"]
    mixer, feedforward = first_part(decoder, "mixer"), first_part(decoder, "feedforward")
    return {
        "architectures": ["XLNetLMHeadModel"],
        "d_model": model["d_model"],
        "n_layer": decoder["layers"],
        "n_head": mixer.get("heads", 1),
        "d_inner": feedforward.get("hidden", 4 * model["d_model"]),
        "ff_activation": ACTIVATIONS.get(feedforward["kind"], "gelu"),
        "attn_type": "bi" if decoder.get("content") == "mutual" else "uni",
        "dropout": model["dropout"],
        "layer_norm_eps": model["norm"].get("eps", 1e-12),
        "mem_len": None,
        "use_mems_eval": False,
        "tie_word_embeddings": model["embedding"]["tied"] != "none",
    }


def make_segments(config: Json) -> dict[str, Tensor]:
    """XLNet's segment embeddings, which change nothing."""
    heads, width = config["n_head"], config["d_model"] // config["n_head"]
    shapes = {"seg_embed": (2, heads, width), "r_s_bias": (heads, width)}
    return {
        f"transformer.layer.{layer}.rel_attn.{name}": torch.zeros(shape)
        for layer in range(config["n_layer"])
        for name, shape in shapes.items()
    }


# By objective, in the order in which they are tried.
FAMILIES: dict[str, tuple[Family, ...]] = {
    "translation": (
        Family("marian", "Marian", SEQ2SEQ, propose_marian, two_vocabularies=True, make_tables=make_sinusoids),
        Family("pegasus", "Pegasus", SEQ2SEQ, propose_pegasus, make_tables=make_sinusoids),
        Family("m2m_100", "M2M100", SEQ2SEQ, propose_m2m100),
        Family("mbart", "mBART", SEQ2SEQ, propose_mbart),
        Family("bart", "BART", SEQ2SEQ, propose_bart),
        Family("t5", "T5", SEQ2SEQ, propose_t5),
        Family("mt5", "mT5", SEQ2SEQ, propose_mt5),
    ),
    "causal": (
        Family("gpt2", "GPT-2", CAUSAL, propose_gpt2),
        Family("llama", "Llama", CAUSAL, propose_llama),
        Family("mistral", "Mistral", CAUSAL, propose_mistral),
        # For Qwen2, AutoTokenizer takes no other class than Qwen2's own, which splits text in its own way.
        Family("qwen2", "Qwen2", CAUSAL, propose_qwen2, "PreTrainedTokenizerFast"),
        Family("qwen3", "Qwen3", CAUSAL, propose_qwen3),
        Family("mixtral", "Mixtral", CAUSAL, propose_mixtral),
        Family("bitnet", "BitNet", CAUSAL, propose_bitnet),
        Family("gpt_neox", "GPT-NeoX", CAUSAL, propose_gpt_neox),
    ),
    "permutation": (Family("xlnet", "XLNet", CAUSAL, propose_xlnet, make_tables=make_segments),),
    "masked": (
        Family("roberta", "RoBERTa", MASKED, propose_roberta),
        # Of these two, the first that has a place for the tokenizer.
        Family("xlm-roberta", "XLM-RoBERTa", MASKED, propose_xlm_roberta),
        Family("bert", "BERT", MASKED, propose_bert),
        Family("distilbert", "DistilBERT", MASKED, propose_distilbert),
    ),
}
