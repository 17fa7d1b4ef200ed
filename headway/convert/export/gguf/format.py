"""GGUFFormat: one file for llama.cpp and its kin, of models of the families Llama, Qwen2 and Qwen3.

Tensors are written one by one. Queries and keys of Llama are rotated in neighbouring channels there, and by halves in
transformers; Headway has both."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.convert.architecture import Json
from headway.convert.export.formats import ExportReport
from headway.convert.export.gguf.tokenizer import add_tokenizer, describe_lost_tokenizer, unsupported_tokenizer
from headway.convert.export.huggingface.match import FamilyMatch, match_family
from headway.convert.export.huggingface.proposals import FAMILIES
from headway.convert.export.huggingface.tensors import group_rules
from headway.convert.export.stored_model import StoredModel
from headway.convert.tensor_rules import TensorRule, write_tensor
from headway.errors import HeadwayError

ARCHITECTURES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}  # by model_type
TYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "q8_0": "Q8_0"}
BLOCK = 32  # weights of Q8_0 with one scale: rows that are no multiple of it stay in F16


class GGUFFormat:
    dtypes = tuple(TYPES)

    def __init__(self, dtype: str = "") -> None:
        self.dtype = dtype

    def unsupported(self, model: StoredModel) -> str:
        if model.objective != "causal":
            return f'it is for language models that were trained by the objective "causal", not "{model.objective}".'
        match = find_match(model)
        if match.differences:
            return f"the nearest family is {match.family.name}, but {match.differences[0].removesuffix('.')}."
        if match.config.get("mlp_bias"):
            return 'decoder.feedforward is "swiglu" with bias = True, and there it has none.'
        scaling = match.config["rope_parameters"]["rope_type"]
        if scaling not in ("default", "linear"):
            return f'decoder.position is "rope" with the scaling "{scaling}", and there it is none or "linear".'
        if any(kind != "full_attention" for kind in match.config.get("layer_types", ())):
            return 'decoder.mask is "local" in some layers, and there it is "causal" in all.'
        return unsupported_tokenizer(model.tokenizers.target)

    def write(self, model: StoredModel, folder: Path) -> ExportReport:
        gguf = import_gguf()
        match = find_match(model)
        assert match.architecture is not None
        dtype = self.dtype or find_stored_dtype(model)
        path = folder / f"{model.name}.gguf"
        writer = gguf.GGUFWriter(path, ARCHITECTURES[match.family.model_type])
        add_settings(writer, model, match.config)
        add_tokenizer(writer, model.tokenizers.target)
        names = gguf.get_tensor_name_map(
            gguf.MODEL_ARCH[ARCHITECTURES[match.family.model_type].upper()], match.config["num_hidden_layers"]
        )
        groups = group_rules(match.architecture, tied=True)
        types = {}
        for rules in groups:
            name = names.get_name(rules[0].theirs, try_suffixes=(".weight", ".bias"))
            shape = write_tensor(
                rules, [torch.empty(match.weights.shapes()[rule.ours], device="meta") for rule in rules]
            ).shape
            types[name] = choose_type(gguf, tuple(shape), TYPES[dtype])
            size, stored = measure(gguf, tuple(shape), types[name])
            writer.add_tensor_info(name, stored, np.dtype(np.uint8), size, raw_dtype=types[name])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for tensor, kind in zip(convert_tensors(match, groups), types.values()):
            writer.write_tensor_data(encode_tensor(gguf, tensor, kind))
        writer.close()
        return ExportReport(
            format=f"GGUF ({match.family.name})",
            found=model.describe(),
            checked=(
                f"as a {match.family.name} model it is the architecture of this model",
                f"{len(groups)} tensors, matrices in {TYPES[dtype]}",
            ),
            lost=(*model.describe_lost(), *describe_lost_tokenizer(model.tokenizers.target)),
            files=(path.name,),
        )


def import_gguf() -> Any:
    try:
        import gguf
    except ImportError:
        raise HeadwayError("GGUF needs the package gguf. Install it: pip install headway[convert]") from None
    return gguf


def find_match(model: StoredModel) -> FamilyMatch:
    """The nearest of the families that it is for."""
    families = [family for family in FAMILIES["causal"] if family.model_type in ARCHITECTURES]
    return min((match_family(model, family) for family in families), key=lambda match: len(match.differences))


def find_stored_dtype(model: StoredModel) -> str:
    """That of the weights; int8 is nearest to Q8_0."""
    name = next(iter(model.weights.shapes()))
    return "q8_0" if model.is_int8 else str(model.weights.dtype(name)).removeprefix("torch.")


def add_settings(writer: Any, model: StoredModel, config: Json) -> None:
    writer.add_name(model.name)
    if model.card.licence:
        writer.add_license(model.card.licence)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    if config["rope_parameters"]["rope_type"] == "linear":
        writer.add_rope_scaling_type(import_gguf().RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(config["rope_parameters"]["factor"])


def choose_type(gguf: Any, shape: tuple[int, ...], wanted: str) -> Any:
    """Vectors stay in F32, as llama.cpp has them."""
    kinds = gguf.GGMLQuantizationType
    if len(shape) < 2:
        return kinds.F32
    return kinds.F16 if wanted == "Q8_0" and shape[-1] % BLOCK else kinds[wanted]


def measure(gguf: Any, shape: tuple[int, ...], kind: Any) -> tuple[int, tuple[int, ...]]:
    """Bytes of a tensor, and its shape in bytes."""
    stored: tuple[int, ...] = gguf.quants.quant_shape_to_byte_shape(shape, kind)
    return int(np.prod(stored)), stored


def convert_tensors(match: FamilyMatch, groups: list[list[TensorRule]]) -> Iterator[Tensor]:
    """Their tensors, one in memory at a time."""
    for rules in groups:
        tensor = write_tensor(rules, [match.weights.read(rule.ours) for rule in rules])
        heads = find_rotated_heads(match.config, rules[0].theirs)
        if heads and match.family.model_type == "llama":
            tensor = interleave_channels(tensor, heads)
        yield tensor


def find_rotated_heads(config: Json, name: str) -> int:
    """How many heads of queries or keys a tensor holds; 0 for any other."""
    if ".self_attn.q_proj." in name:
        return int(config["num_attention_heads"])
    return int(config["num_key_value_heads"]) if ".self_attn.k_proj." in name else 0


def interleave_channels(tensor: Tensor, heads: int) -> Tensor:
    """Rows of each head from halves to neighbours."""
    halves: Tensor = tensor.unflatten(0, (heads, 2, -1))
    return halves.transpose(1, 2).flatten(0, 2)


def encode_tensor(gguf: Any, tensor: Tensor, kind: Any) -> np.ndarray:
    """The bytes of a tensor in this type."""
    if kind == gguf.GGMLQuantizationType.BF16:
        return tensor.to(torch.bfloat16).contiguous().view(torch.uint8).numpy()
    if kind == gguf.GGMLQuantizationType.Q8_0:
        quantised: np.ndarray = gguf.quants.quantize(tensor.float().contiguous().numpy(), kind)
        return quantised
    plain = tensor.half() if kind == gguf.GGMLQuantizationType.F16 else tensor.float()
    return plain.contiguous().numpy()
