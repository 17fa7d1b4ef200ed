"""Import a translator of CTranslate2: model.bin, config.json, vocabularies, and the sentencepiece models beside them.

Its tensors get the names of Hugging Face's Marian or Pegasus, whose rules do the rest. Integers of 8 or 16 bits are
multiplied by their scales. It splits no text itself: source.spm and target.spm, or one model for both, must lie in its
directory, as converters copy them with --copy_files."""

import json
import math
import re
import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import torch
from torch import Tensor

from headway.convert.architecture import Architecture, ConversionError, Json, find_family
from headway.convert.card import format_import_card
from headway.convert.huggingface.directory import choose_languages
from headway.convert.huggingface.model_folder import ModelText
from headway.convert.huggingface.tokenizer_files import describe_sentencepiece, find_unknown, read_limited
from headway.convert.importer import ImportPlan
from headway.convert.json_files import read_json_object
from headway.convert.marian_npz import NEVER, START
from headway.convert.options import ImportOptions
from headway.convert.rule_source import RuleSource
from headway.convert.tensor_rules import AppendRow, Reshape, RowSlice, TensorRule
from headway.errors import HeadwayError
from headway.text.tokenizer.imported import ImportedTokenizer
from headway.text.tokenizer.pair import Tokenizers

VERSION = 6
MAX_VARIABLES = 100_000
MAX_RANK = 8
TYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16, 5: np.uint16}  # 5: the bits of a bfloat16
ACTIVATIONS = {0: "relu", 1: "gelu_new", 2: "swish", 3: "gelu"}
WORDS = {
    "encoder/embeddings_0/weight": "model.encoder.embed_tokens.weight",
    "encoder/embeddings/weight": "model.encoder.embed_tokens.weight",
    "decoder/embeddings/weight": "model.decoder.embed_tokens.weight",
    "decoder/projection/weight": "lm_head.weight",
}
ENDS = {"gamma": "weight", "beta": "bias", "weight": "weight", "bias": "bias"}
# Settings that must have one value, and the value.
FIXED = {"decoder/alibi": 0, "encoder/multi_query_attention": 0, "encoder/embeddings_merge": 0}


class Variable(NamedTuple):
    shape: tuple[int, ...]
    kind: int
    offset: int
    bytes: int


class Ct2File:
    """The variables of model.bin. Every size is checked against the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.variables: dict[str, Variable] = {}
        self.aliases: dict[str, str] = {}
        try:
            with path.open("rb") as file:
                self._read(file, path.stat().st_size)
        except (EOFError, struct.error, UnicodeDecodeError):
            raise HeadwayError(f"{path} is damaged or incomplete. Download it again.") from None
        except OSError as error:
            raise HeadwayError(f"{path} cannot be read: {error.strerror}.") from None

    def _read(self, file: BinaryIO, size: int) -> None:
        version = _number(file, "I")
        if version != VERSION:
            raise ConversionError(
                f"{self.path} is of version {version}, and Headway reads {VERSION}. Convert it again."
            )
        self.specification = _text(file)
        _number(file, "I")  # revision
        count = _number(file, "I")
        if count > MAX_VARIABLES:
            raise EOFError
        for _ in range(count):
            name, rank = _text(file), _number(file, "B")
            shape = tuple(_number(file, "I") for _ in range(min(rank, MAX_RANK)))
            kind, length = _number(file, "B"), _number(file, "I")
            if rank > MAX_RANK or kind not in TYPES or math.prod(shape) * np.dtype(TYPES[kind]).itemsize != length:
                raise EOFError
            self.variables[name] = Variable(shape, kind, file.tell(), length)
            if file.tell() + length > size:
                raise EOFError
            file.seek(length, 1)
        aliases = _number(file, "I")
        if aliases > MAX_VARIABLES:
            raise EOFError
        for _ in range(aliases):
            alias, name = _text(file), _text(file)
            if name not in self.variables:
                raise EOFError
            self.aliases[alias] = name

    def find(self, name: str) -> str:
        return self.aliases.get(name, name)

    def has(self, name: str) -> bool:
        return self.find(name) in self.variables

    def names(self) -> list[str]:
        return [*self.variables, *self.aliases]

    def read_array(self, name: str) -> np.ndarray:
        variable = self.variables[self.find(name)]
        count = variable.bytes // np.dtype(TYPES[variable.kind]).itemsize
        with self.path.open("rb") as file:
            array = np.fromfile(file, TYPES[variable.kind], count, offset=variable.offset)
        if len(array) != count:
            raise HeadwayError(f"{self.path} is damaged or incomplete. Download it again.")
        return array.reshape(variable.shape)

    def scalar(self, name: str, default: float = 0) -> float:
        """A setting."""
        return self.read_array(name).item() if self.has(name) and not self.shape(name) else default

    def shape(self, name: str) -> tuple[int, ...]:
        return self.variables[self.find(name)].shape

    # As a WeightSource: every tensor under each of its names, dequantised.
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        names = [name for name in self.names() if not name.endswith("_scale")]
        return {name: self.shape(name) for name in names if self.shape(name)}

    def dtype(self, name: str) -> torch.dtype:
        kinds = {4: torch.float16, 5: torch.bfloat16}
        return kinds.get(self.variables[self.find(name)].kind, torch.float32)

    def read(self, name: str) -> Tensor:
        array, kind = self.read_array(name), self.variables[self.find(name)].kind
        if kind == 5:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        if kind in (0, 4):
            return torch.from_numpy(array)
        scale = f"{self.find(name)}_scale"
        if not self.has(scale) or self.shape(scale) not in ((), self.shape(name)[:1]):
            raise ConversionError(f"{self.path}: the integers of {name} have no scales.")
        scales = torch.from_numpy(self.read_array(scale)).float()
        values = torch.from_numpy(array).float()
        return values / (scales[:, None] if scales.dim() else scales)


def _number(file: BinaryIO, code: str) -> int:
    found = file.read(struct.calcsize(code))
    return int(struct.unpack(f"<{code}", found)[0])


def _text(file: BinaryIO) -> str:
    length = _number(file, "H")
    found = file.read(length)
    if len(found) < length:
        raise EOFError
    return found.rstrip(b"\0").decode("utf-8")


def detect(path: Path) -> bool:
    others = ("model.safetensors", "pytorch_model.bin")
    return path.is_dir() and (path / "model.bin").exists() and not any((path / name).exists() for name in others)


def plan_import(path: Path, options: ImportOptions) -> ImportPlan:
    file = Ct2File(path / "model.bin")
    if file.specification != "TransformerSpec":
        raise ConversionError(
            f"{path} holds a {file.specification}. Of CTranslate2's models, Headway imports translators "
            "(TransformerSpec)."
        )
    settings = read_json_object(path / "config.json") if (path / "config.json").exists() else {}
    pre_norm = bool(file.scalar("encoder/pre_norm"))
    starts_with_zeros = bool(file.scalar("decoder/start_from_zero_embedding"))
    tokenizers = read_tokenizers(path, settings, starts_with_zeros)
    config = translate_settings(file, tokenizers, settings)
    architecture = find_family("pegasus" if pre_norm else "marian")(config)
    architecture = rename_family(architecture, file)
    sources, targets = choose_languages(architecture, ModelText(tokenizers=tokenizers), options)
    rules = name_tensors(file, starts_with_zeros)
    unused = [name for name in file.shapes() if name.endswith("position_encodings/encodings")]
    return ImportPlan(
        architecture=architecture,
        weights=RuleSource(file, rules, unused),
        tokenizers=tokenizers,
        source_languages=sources,
        target_languages=targets,
        card=format_import_card(architecture, path, options, [*sources, *targets]),
    )


def rename_family(architecture: Architecture, file: Ct2File) -> Architecture:
    """Of CTranslate2, with what is lost; the same for all readings."""
    integers = any(variable.kind in (1, 2) and variable.shape for variable in file.variables.values())
    lost = ("the small size: integers are float32 here, with the same values",) if integers else ()
    otherwise = rename_family(architecture.otherwise, file) if architecture.otherwise else None
    return replace(architecture, family="CTranslate2", lost=(*architecture.lost, *lost), otherwise=otherwise)


def translate_settings(file: Ct2File, tokenizers: Tokenizers, settings: Json) -> Json:
    """The config.json of Hugging Face's Marian or Pegasus."""
    for name, value in FIXED.items():
        if file.scalar(name, value) != value:
            raise ConversionError(f"{file.path}: {name} = {file.scalar(name)} is not supported, only {value}.")
    for name in file.names():
        if re.search(r"relative|rotary|layernorm_embedding|scale_outputs|external|/gate|linear_0_noact", name):
            raise ConversionError(f"{file.path} has {name}, which neither Marian's nor Pegasus' architecture has.")
    if any(settings.get(name) for name in ("add_source_bos",)) or settings.get("layer_norm_epsilon") not in (
        None,
        1e-5,
    ):
        raise ConversionError(
            f"{file.path.parent}: add_source_bos and layer_norm_epsilon other than 1e-5 are not supported."
        )
    width = file.shape("decoder/embeddings/weight")[-1] if file.has("decoder/embeddings/weight") else 0
    scaled = is_scaled(file, width)
    check_positions(file, width)
    output = "decoder/projection/weight"
    tied = file.find(output) == file.find("decoder/embeddings/weight")
    words = next((name for name in ("encoder/embeddings_0/weight", "encoder/embeddings/weight") if file.has(name)), "")
    config: Json = {
        "d_model": width,
        "scale_embedding": scaled,
        "activation_function": ACTIVATIONS.get(int(file.scalar("encoder/activation"))),
        "max_position_embeddings": 512,
        "vocab_size": tokenizers.source.size,
        "decoder_vocab_size": tokenizers.target.size,
        "share_encoder_decoder_embeddings": file.find(words) == file.find("decoder/embeddings/weight"),
        "tie_word_embeddings": tied,
        "dropout": 0.0,
    }
    for side in ("encoder", "decoder"):
        found = [re.match(rf"{side}/layer_(\d+)/", name) for name in file.names()]
        config[f"{side}_layers"] = max((int(match[1]) for match in found if match), default=-1) + 1
        config[f"{side}_attention_heads"] = int(file.scalar(f"{side}/num_heads", 8))
        inner = f"{side}/layer_0/ffn/linear_0/weight"
        config[f"{side}_ffn_dim"] = file.shape(inner)[0] if file.has(inner) else 0
    return config


def is_scaled(file: Ct2File, width: int) -> bool:
    """Whether embeddings are multiplied by √width. An integer says yes or no, a float by what."""
    name = "encoder/scale_embeddings"
    if not file.has(name):
        return True
    scale = file.scalar(name)
    if file.variables[file.find(name)].kind:
        return bool(scale)
    if not math.isclose(scale, math.sqrt(width), rel_tol=1e-5) and scale != 1.0:
        raise ConversionError(f"{file.path} multiplies embeddings by {scale}, neither by √{width} nor by 1.")
    return scale != 1.0


def check_positions(file: Ct2File, width: int) -> None:
    """Raise ConversionError unless positions are Marian's sinusoids: first all sines, then all cosines."""
    name = "decoder/position_encodings/encodings"
    if not file.has(name):
        return
    table = file.read(name).double()
    angles = torch.arange(len(table))[:, None] / 10000 ** (2 * torch.arange(width // 2) / width).double()
    if not torch.allclose(table, torch.cat([angles.sin(), angles.cos()], dim=1), rtol=0, atol=2e-3):
        raise ConversionError(f"{file.path}: its positions are not Marian's sinusoids.")


def read_tokenizers(folder: Path, settings: Json, starts_with_zeros: bool) -> Tokenizers:
    """The vocabularies in the directory, split by the sentencepiece models beside them."""
    shared = read_ct2_vocabulary(folder, "shared_vocabulary")
    found = [shared or read_ct2_vocabulary(folder, f"{side}_vocabulary") for side in ("source", "target")]
    if not all(found):
        raise HeadwayError(f"{folder} has no shared_vocabulary.json, nor one for each side. Download it again.")
    tokenizers = [
        make_tokenizer(folder, side, vocabulary, settings, starts_with_zeros)
        for side, vocabulary in zip(("source", "target"), found)
    ]
    same = tokenizers[0].fingerprint() == tokenizers[1].fingerprint()
    return Tokenizers(tokenizers[0], tokenizers[0] if same else tokenizers[1])


def read_ct2_vocabulary(folder: Path, name: str) -> list[str]:
    """One spelling a line, or a list in JSON; empty where there is none."""
    for path in (folder / f"{name}.json", folder / f"{name}.txt"):
        if not path.exists():
            continue
        try:
            text = read_limited(path).decode("utf-8")
            entries = json.loads(text) if path.suffix == ".json" else text.removesuffix("\n").split("\n")
        except (ValueError, RecursionError):
            raise HeadwayError(f"{path} is damaged. Download it again.") from None
        if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
            raise HeadwayError(f"{path} is damaged: it must be a list of texts.")
        return entries
    return []


def make_tokenizer(
    folder: Path, side: str, vocabulary: list[str], settings: Json, starts_with_zeros: bool
) -> ImportedTokenizer:
    names = (f"{side}.spm", "sentencepiece.model", "spiece.model", "sentencepiece.bpe.model")
    path = next((folder / name for name in names if (folder / name).exists()), None)
    if path is None:
        raise ConversionError(
            f"{folder} has no {side}.spm: CTranslate2 splits no text itself. Copy the sentencepiece models of the "
            "original into it."
        )
    model = read_limited(path)
    ids = {piece: n for n, piece in enumerate(vocabulary)}
    end, start = settings.get("eos_token", "</s>"), settings.get("decoder_start_token", "<s>")
    if end not in ids or not (starts_with_zeros or start in ids):
        raise ConversionError(f"{folder}: its vocabulary lacks {end} or {start}, which its config.json names.")
    first = len(vocabulary) if starts_with_zeros else ids[start]
    special = {"pad": first, "start": first, "end": ids[end], "unknown": find_unknown(model, ids, path)}
    spellings = [*vocabulary, START] if starts_with_zeros else vocabulary
    return ImportedTokenizer(describe_sentencepiece(model, spellings, special, text_entries=True))


def name_tensors(file: Ct2File, starts_with_zeros: bool) -> list[TensorRule]:
    """Hugging Face's names for CTranslate2's tensors. Queries, keys and values are rows of one matrix there."""
    rules = []
    row = (AppendRow(0.0),) if starts_with_zeros else ()
    shared = file.find("decoder/embeddings/weight") in {file.find(n) for n in WORDS if n.startswith("encoder")}
    for name, shape in file.shapes().items():
        if name in WORDS:
            own = "model.shared.weight" if shared and "embeddings" in name else WORDS[name]
            if name == "decoder/projection/weight" and file.find(name) == file.find("decoder/embeddings/weight"):
                own = "model.shared.weight" if shared else WORDS["decoder/embeddings/weight"]
            rules.append(TensorRule(own, name, row))
        elif name == "decoder/projection/bias":
            size = shape[0] + len(row)
            never = (AppendRow(NEVER),) if row else ()
            rules.append(TensorRule("final_logits_bias", name, (*never, Reshape((size,), (1, size)))))
        else:
            rules += name_layer_tensor(name, shape)
    return rules


def name_layer_tensor(name: str, shape: tuple[int, ...]) -> list[TensorRule]:
    if top := re.fullmatch(r"(encoder|decoder)/layer_norm/(gamma|beta)", name):
        return [TensorRule(f"model.{top[1]}.layer_norm.{ENDS[top[2]]}", name)]
    match = re.fullmatch(r"(encoder|decoder)/layer_(\d+)/(self_attention|attention|ffn)/(\w+)/(\w+)", name)
    if match is None or match[5] not in ENDS:
        return []
    side, number, part, unit, end = match.groups()
    attention = {"self_attention": "self_attn", "attention": "encoder_attn"}.get(part, "")
    layer = f"model.{side}.layers.{number}"
    if unit == "layer_norm":
        return [
            TensorRule(f"{layer}.{f'{attention}_layer_norm' if attention else 'final_layer_norm'}.{ENDS[end]}", name)
        ]
    if not attention:
        linear = {"linear_0": "fc1", "linear_1": "fc2"}.get(unit)
        return [TensorRule(f"{layer}.{linear}.{end}", name)] if linear else []
    parts = {
        ("self_attention", "linear_0"): ("q_proj", "k_proj", "v_proj"),
        ("self_attention", "linear_1"): ("out_proj",),
        ("attention", "linear_0"): ("q_proj",),
        ("attention", "linear_1"): ("k_proj", "v_proj"),
        ("attention", "linear_2"): ("out_proj",),
    }.get((part, unit), ())
    if len(parts) == 1:
        return [TensorRule(f"{layer}.{attention}.{parts[0]}.{end}", name)]
    width = shape[0] // len(parts) if parts else 0
    return [
        TensorRule(f"{layer}.{attention}.{own}.{end}", name, (RowSlice(n * width, width),))
        for n, own in enumerate(parts)
    ]
