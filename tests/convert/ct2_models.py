"""Directories of CTranslate2, as its converters make them from directories of Hugging Face."""

import contextlib
import io
import json
import shutil
import struct
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import transformers

import headway.convert.ctranslate2.model_file as ct2
from convert.language_models import byte_tokenizer, stir
from convert.test_llama import SIZES

TOKENIZER_FILES = (
    "tokenizer.json", "spiece.model", "sentencepiece.bpe.model", "source.spm", "target.spm", "vocab.json", "merges.txt",
    "vocab.txt", "tokenizer_config.json", "special_tokens_map.json", "modules.json",
)  # fmt: skip


GPT2 = {"vocab_size": 257, "n_embd": 16, "n_layer": 3, "n_head": 4, "n_positions": 64, "n_inner": 24}
WHOLE = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}
PARTIAL = {**WHOLE, "partial_rotary_factor": 0.5}
NEOX = {**SIZES, "rope_parameters": WHOLE, "use_parallel_residual": False, "layer_norm_eps": 1e-5, "hidden_act": "relu"}
LINEAR = {"rope_parameters": {"rope_type": "linear", "rope_theta": 100.0, "factor": 3.0}}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama": ("LlamaForCausalLM", {**SIZES, **LINEAR}),
    "Llama, tied, with biases": (
        "LlamaForCausalLM",
        {**SIZES, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True, "num_key_value_heads": 4},
    ),
    "Mistral": ("MistralForCausalLM", {**SIZES, "sliding_window": 48, "head_dim": 6}),
    "Qwen2": ("Qwen2ForCausalLM", {**SIZES, "tie_word_embeddings": True}),
    "Qwen3": ("Qwen3ForCausalLM", {**SIZES, "head_dim": 8}),
    "GPT-2": ("GPT2LMHeadModel", GPT2),
    "GPT-NeoX": ("GPTNeoXForCausalLM", NEOX),
}


def save_model(folder: Path, name: str) -> Any:
    kind, settings = MODELS[name]
    theirs = stir(getattr(transformers, kind)(getattr(transformers, kind).config_class(**settings)))
    return save(theirs, folder)


def save(theirs: Any, folder: Path) -> Any:
    theirs.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(json.dumps(byte_tokenizer().to_json()["model"]))
    token = dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>")
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **token}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return theirs


class Converter(ctranslate2.converters.TransformersConverter):
    """With what it looks for where transformers has it no more: the language tokens of M2M100, and whether T5 divides
    its logits by √d_model."""

    def load_model(self, *given: Any, **settings: Any) -> Any:
        model = super().load_model(*given, **settings)
        if hasattr(model.config, "scale_decoder_outputs"):
            model.config.tie_word_embeddings = model.config.scale_decoder_outputs
        return model

    def load_tokenizer(self, *given: Any, **settings: Any) -> Any:
        tokenizer = super().load_tokenizer(*given, **settings)
        languages = getattr(tokenizer, "lang_token_to_id", {})
        vocabulary = {**tokenizer.get_vocab(), **languages}
        tokenizer.get_vocab = lambda: vocabulary
        return tokenizer


def convert(folder: Path, out: Path, quantisation: str | None = None, copy: tuple[str, ...] = TOKENIZER_FILES) -> Path:
    """copy: the tokenizer files that come along, where they exist."""
    with contextlib.redirect_stderr(io.StringIO()):
        Converter(str(folder)).convert(str(out), quantization=quantisation)
    copy_files(folder, out, copy)
    return out


def copy_files(folder: Path, out: Path, names: tuple[str, ...] = TOKENIZER_FILES) -> None:
    for name in names:
        if (folder / name).exists():
            shutil.copy(folder / name, out)


def open_generator(folder: Path) -> Any:
    return ctranslate2.Generator(str(folder), compute_type="float32", intra_threads=1)


def open_translator(folder: Path) -> Any:
    return ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)


def write_ct2(
    path: Path, variables: dict[str, np.ndarray], aliases: tuple[tuple[str, str], ...] = (), **more: Any
) -> None:
    """model.bin with these variables."""

    def text(content: str) -> bytes:
        return struct.pack("<H", len(content) + 1) + content.encode() + b"\0"

    kinds = {np.dtype(kind): number for number, kind in ct2.TYPES.items()}
    with path.open("wb") as file:
        file.write(struct.pack("<I", more.get("version", 6)) + text(more.get("name", "TransformerSpec")))
        file.write(struct.pack("<II", 7, len(variables)))
        for name, array in variables.items():
            file.write(text(name) + struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape))
            file.write(struct.pack("<BI", kinds[array.dtype], array.nbytes) + array.tobytes())
        file.write(struct.pack("<I", len(aliases)) + b"".join(text(one) + text(other) for one, other in aliases))


def read_variables(path: Path) -> dict[str, np.ndarray]:
    file = ct2.ModelFile(path)
    return {name: file.read_array(name) for name in file.variables}


def change_model(folder: Path, changes: dict[str, Any], without: tuple[str, ...] = (), **more: Any) -> None:
    """Write its model.bin again: with these variables, without those."""
    path = folder / "model.bin"
    variables = {name: array for name, array in read_variables(path).items() if name not in without}
    aliases = tuple(pair for pair in ct2.ModelFile(path).aliases.items() if pair[0] not in {*without, *changes})
    write_ct2(path, {**variables, **changes}, tuple(pair for pair in aliases if pair[1] not in without), **more)
