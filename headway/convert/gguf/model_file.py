"""Import a GGUF file: Llama, Mistral, Mixtral, Qwen2 and Qwen3, by the rules of their Hugging Face families.

Metadata become the config.json that the model had, and tensors get their Hugging Face names. Files of the architecture
"llama" have the rows of queries and keys in another order, for rotations of neighbours: it is undone."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.convert.architecture import Architecture, ConversionError, Json, find_family, read_size
from headway.convert.card import format_import_card
from headway.convert.gguf.container import MAGIC, GgufFile
from headway.convert.gguf.vocabulary import read_vocabulary
from headway.convert.importer import ImportPlan
from headway.convert.options import ImportOptions
from headway.text.tokenizer.pair import Tokenizers

FAMILIES = {"llama": "llama", "mistral": "mistral", "qwen2": "qwen2", "qwen3": "qwen3"}  # architecture -> model_type
REORDERED = {"llama", "mistral"}
TENSORS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
LAYER_TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
# Of Mixtral: the router, and each expert's three matrices, in one tensor for all experts or in one each.
ROUTER = ("ffn_gate_inp", "block_sparse_moe.gate")
EXPERT_TENSORS = {"ffn_gate": "w1", "ffn_down": "w2", "ffn_up": "w3"}
STACKED = "_exps"
MAX_EXPERTS = 1024
ROPE_FACTORS = "rope_freqs.weight"
LLAMA3_SCALING = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


def detect(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == MAGIC


def plan_import(path: Path, options: ImportOptions) -> ImportPlan:
    file = split_experts(GgufFile.open(path))
    config = translate_metadata(file)
    architecture = find_family(str(config["model_type"]))(config)
    architecture = replace(architecture, lost=(*architecture.lost, *list_losses(file)))
    tokenizer = read_vocabulary(file.metadata, path, read_size(config, "vocab_size"))
    return ImportPlan(
        architecture=architecture,
        weights=open_tensors(file, config, architecture),
        tokenizers=Tokenizers(tokenizer, tokenizer),
        card=format_import_card(architecture, path, options),
    )


def translate_metadata(file: GgufFile) -> Json:
    """The config.json of this model."""
    architecture = file.metadata.get("general.architecture")
    if architecture not in FAMILIES:
        raise ConversionError(
            f"{file.path} is a model of the architecture {architecture!r}. Of GGUF files, Headway imports "
            f"{', '.join(FAMILIES)}."
        )

    def get(name: str, default: Any = None) -> Any:
        return file.metadata.get(f"{architecture}.{name}", default)

    heads = get("attention.head_count")
    config: Json = {
        "model_type": FAMILIES[architecture],
        "hidden_size": get("embedding_length"),
        "num_hidden_layers": get("block_count"),
        "intermediate_size": get("feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": get("attention.head_count_kv", heads),
        "rms_norm_eps": get("attention.layer_norm_rms_epsilon", 1e-5),
        "max_position_embeddings": get("context_length", 2048),
        "rope_theta": get("rope.freq_base", 10000.0),
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "attention_bias": "blk.0.attn_q.bias" in file.tensors,
        "vocab_size": get("vocab_size", _count_embeddings(file)),
        "sliding_window": get("attention.sliding_window") or None,
    }
    if get("expert_count"):
        if FAMILIES[architecture] != "llama":
            raise ConversionError(
                f"{file.path} is a mixture of experts of the architecture {architecture}, not Mixtral."
            )
        chosen = {"num_local_experts": get("expert_count"), "num_experts_per_tok": get("expert_used_count")}
        config |= {"model_type": "mixtral", **chosen}
    if get("attention.key_length"):
        config["head_dim"] = get("attention.key_length")
    if get("rope.dimension_count", config.get("head_dim")) not in (None, _head_width(config)):
        raise ConversionError(f"{file.path} rotates only part of each head, and Headway rotates whole heads.")
    scaling = read_scaling(file, get("rope.scaling.type"), get)
    return config | ({"rope_scaling": scaling} if scaling else {})


def _count_embeddings(file: GgufFile) -> int | None:
    place = file.tensors.get("token_embd.weight")
    return place.shape[0] if place else None


def _head_width(config: Json) -> int:
    return int(config.get("head_dim") or read_size(config, "hidden_size") // read_size(config, "num_attention_heads"))


def read_scaling(file: GgufFile, kind: str | None, get: Any) -> Json | None:
    """rope_scaling: by name, or by the factors of Llama 3, which stand in a tensor of their own."""
    if ROPE_FACTORS in file.tensors:
        factors = file.read(ROPE_FACTORS).double()
        scaling: Json = {"rope_type": "llama3", "factor": float(factors.max()), **LLAMA3_SCALING}
        expected = llama3_factors(float(get("rope.freq_base", 10000.0)), scaling, len(factors))
        if not torch.allclose(factors, expected, rtol=1e-5, atol=0):
            raise ConversionError(f"{file.path}: the factors in {ROPE_FACTORS} are not those of Llama 3.")
        return scaling
    if kind in (None, "none"):
        return None
    return {
        "rope_type": kind,
        "factor": get("rope.scaling.factor"),
        "original_max_position_embeddings": get("rope.scaling.original_context_length"),
        "attention_factor": get("rope.scaling.attn_factor"),
    }


def llama3_factors(theta: float, scaling: Json, pairs: int) -> Tensor:
    """By how much each pair's rotation is slowed down: long waves by `factor`, short ones not at all."""
    waves = 2 * torch.pi * theta ** (torch.arange(pairs, dtype=torch.float64) / pairs)
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    turns = scaling["original_max_position_embeddings"] / waves
    share = ((turns - low) / (high - low)).clamp(0, 1)
    slowed: Tensor = 1 / ((1 - share) / scaling["factor"] + share)
    return slowed


def list_losses(file: GgufFile) -> list[str]:
    kinds = sorted({place.kind.name for place in file.tensors.values() if place.kind.read})
    lost = [f"the small size: tensors in {', '.join(kinds)} are float32 here, with the same values"] if kinds else []
    if "tokenizer.chat_template" in file.metadata:
        lost.append("its chat template, which is kept for exports alone: prompts are continued as they are")
    return lost


def split_experts(file: GgufFile) -> GgufFile:
    """The same, in which tensors of all experts of a layer are one for each, under the names of older files."""
    tensors = {}
    for name, place in file.tensors.items():
        stem, found, end = name.partition(STACKED)
        if not found or len(place.shape) != 3:
            tensors[name] = place
            continue
        count = place.shape[0]
        if not 0 < count <= MAX_EXPERTS:
            raise ConversionError(f"{file.path}: the tensor {name} holds {count:,} experts, more than {MAX_EXPERTS:,}.")
        size = place.bytes // count
        for n in range(count):
            first = place.offset + n * size
            tensors[f"{stem}.{n}{end}"] = place._replace(shape=place.shape[1:], offset=first, bytes=size)
    return replace(file, tensors=tensors)


def open_tensors(file: GgufFile, config: Json, architecture: Architecture) -> "GgufSource":
    """The tensors by their Hugging Face names."""
    names = {}
    for name in file.tensors:
        if name == ROPE_FACTORS:
            continue
        stem, _, end = name.rpartition(".")
        parts = stem.split(".")
        if stem in TENSORS:
            names[f"{TENSORS[stem]}.{end}"] = name
        elif len(parts) == 3 and parts[0] == "blk" and parts[2] in LAYER_TENSORS:
            names[f"model.layers.{parts[1]}.{LAYER_TENSORS[parts[2]]}.{end}"] = name
        elif len(parts) == 3 and parts[0] == "blk" and parts[2] == ROUTER[0]:
            names[f"model.layers.{parts[1]}.{ROUTER[1]}.{end}"] = name
        elif len(parts) == 4 and parts[0] == "blk" and parts[2] in EXPERT_TENSORS:
            expert = f"block_sparse_moe.experts.{parts[3]}.{EXPERT_TENSORS[parts[2]]}"
            names[f"model.layers.{parts[1]}.{expert}.{end}"] = name
        else:
            names[name] = name  # the importer says that it has no place for it
    heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}
    reordered = {
        name: read_size(config, heads[part])
        for name in names
        for part in heads
        if f".{part}." in name and file.metadata["general.architecture"] in REORDERED
    }
    return GgufSource(file, names, reordered)


@dataclass(frozen=True)
class GgufSource:
    file: GgufFile
    names: Mapping[str, str]  # in the file
    reordered: Mapping[str, int]  # heads of the tensors whose rows stand pair by pair

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {name: self.file.tensors[original].shape for name, original in self.names.items()}

    def dtype(self, name: str) -> torch.dtype:
        return self.file.dtype(self.names[name])

    def read(self, name: str) -> Tensor:
        tensor = self.file.read(self.names[name])
        if name not in self.reordered:
            return tensor
        paired = tensor.reshape(self.reordered[name], -1, 2, *tensor.shape[1:])  # (heads, pairs, 2, …)
        return paired.transpose(1, 2).reshape(tensor.shape)
