"""Import a model of Marian: model.npz with its options inside, and sentencepiece vocabularies beside it.

    model.npz  decoder.yml  vocab.yml  source.spm  target.spm     OPUS-MT
    model.npz  config.yml   vocab.spm                             students of bergamot, in float32: marian_student.py

Its tensors get the names of Hugging Face's Marian, whose rules do the rest. The first input of Marian's decoder is no
word but zeros: here it is one more entry of the vocabulary, which is never an output."""

import re
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.convert.architecture import ConversionError, Json, find_family, read_size
from headway.convert.card import format_import_card
from headway.convert.huggingface.directory import choose_languages
from headway.convert.huggingface.model_folder import ModelText
from headway.convert.huggingface.tokenizer_files import (
    describe_sentencepiece,
    find_unknown,
    list_pieces,
    read_limited,
)
from headway.convert.importer import ImportPlan
from headway.convert.marian_student import (
    AUTOREG,
    check_recurrent_tensors,
    find_browser_file,
    is_student,
    read_tied_layers,
    refuse_browser_file,
    replace_self_attention,
)
from headway.convert.marian_student import FIXED as FIXED_IN_STUDENTS
from headway.convert.options import ImportOptions
from headway.convert.rule_source import RuleSource
from headway.convert.tensor_rules import AppendRow, Reshape, TensorChange, TensorRule, Transpose
from headway.errors import HeadwayError
from headway.text.tokenizer.imported import ImportedTokenizer
from headway.text.tokenizer.pair import Tokenizers

OPTIONS = "special:model.yml"
QUANTISATION = "_QuantMultA"  # ends the names of numbers by which int8 scales activations: unused in float32
START = "⟨start⟩"  # zeros
NEVER = -1e4  # the bias of an entry that is never an output: its probability is 0 in every float type
# Options that have one value in the models that Headway can compute, and what they are where they are missing.
FIXED: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    "transformer-postprocess-emb": ("d",),
    AUTOREG: ("self-attention", "rnn", None),
    "transformer-train-position-embeddings": (False, None),
    "transformer-no-projection": (False, None),
    "transformer-no-bias": (False, None),
    "transformer-no-affine": (False, None),
    "transformer-rnn-projection": (False, None),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2, None),
    "transformer-pool": (False, None),
    "transformer-depth-scaling": (False, None),
    "factors-combine": ("sum", None),
}
# transformer-preprocess, -postprocess and -postprocess-top -> the family of Hugging Face
NORMS = {("", "dan", ""): "marian", ("n", "da", "n"): "pegasus"}
NORM_NAMES = {
    "self": "self_attn_layer_norm", "rnn": "self_attn_layer_norm", "context": "encoder_attn_layer_norm",
    "ffn": "final_layer_norm",
}  # fmt: skip
SSRU = {"W": "candidate.weight", "Wf": "gate.weight", "bf": "gate.bias"}
ATTENTION = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj"}


class NpzSource:
    """The arrays of an .npz file. Sizes are read from the headers of the arrays, and checked against the archive."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._headers: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
        try:
            with zipfile.ZipFile(path) as archive:
                for entry in archive.infolist():
                    name = entry.filename.removesuffix(".npy")
                    with archive.open(entry) as file:
                        version = np.lib.format.read_magic(file)
                        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else _read_header_2
                        shape, fortran, dtype = read(file)
                    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
                    if dtype.hasobject or fortran or not 0 <= entry.file_size - size < 2**16:
                        raise ValueError(name)
                    self._headers[name] = (shape, dtype)
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, EOFError, NotImplementedError):
            raise HeadwayError(f"{path} is damaged, or not an .npz file of arrays. Download it again.") from None

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {name: shape for name, (shape, _) in self._headers.items()}

    def dtype(self, name: str) -> torch.dtype:
        dtype = self._headers[name][1]
        if dtype not in (np.float32, np.float16):
            raise ConversionError(
                f"{self.path}: the tensor {name} is of the type {dtype}. Headway imports Marian's models in float32; "
                "the int8 files of students are for Marian alone. Import the float32 model that they were made from."
            )
        return torch.float32 if dtype == np.float32 else torch.float16

    def read(self, name: str) -> Tensor:
        return torch.from_numpy(self.read_array(name))

    def read_array(self, name: str) -> np.ndarray:
        try:
            with np.load(self.path, allow_pickle=False) as file:
                array: np.ndarray = file[name]
                return array
        except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError):
            raise HeadwayError(f"{self.path} is damaged: {name} cannot be read. Download it again.") from None


def _read_header_2(file: Any) -> Any:
    return np.lib.format.read_array_header_2_0(file)


def detect(path: Path) -> bool:
    found = list_npz(path)
    several = len(found) > 1 and not (path / "config.json").exists()  # which a directory of another toolkit has
    return len(found) == 1 or several or find_browser_file(path) is not None


def list_npz(path: Path) -> list[Path]:
    """This file, or the .npz files in this directory."""
    if path.is_dir():
        return sorted(path.glob("*.npz"))
    return [path] if path.suffix == ".npz" and path.is_file() else []


def find_npz(path: Path) -> Path:
    """The model. Raises HeadwayError unless there is exactly one."""
    found = list_npz(path)
    if not found:
        file = find_browser_file(path)
        assert file is not None
        raise refuse_browser_file(file)
    if len(found) > 1:
        names = ", ".join(file.name for file in found[:5])
        raise HeadwayError(f"{path} has {len(found)} models ({names} …). Name the one to import: {found[0]}")
    return found[0]


def plan_import(path: Path, options: ImportOptions) -> ImportPlan:
    model = find_npz(path)
    source = NpzSource(model)
    if OPTIONS not in source.shapes():
        raise HeadwayError(f"{model} is not a model of Marian: it does not hold its options ({OPTIONS}).")
    settings = parse_yaml(source.read_array(OPTIONS).tobytes().rstrip(b"\0"), model)
    shapes = source.shapes()
    decoding = next((parse_yaml(read_limited(f), f) for f in _list_yaml(model.parent) if _is_decoding(f)), {})
    tokenizers = read_tokenizers(model.parent, read_vocabulary_sizes(settings, shapes), decoding)
    config = translate_options(settings, shapes, tokenizers)
    architecture = find_family(find_norms(settings))(config)
    if is_student(settings):
        check_recurrent_tensors(settings, shapes)
        architecture = replace_self_attention(architecture)
    lost = [f"word-penalty = {decoding['word-penalty']} of its decoder.yml"] if decoding.get("word-penalty") else []
    architecture = replace(architecture, search=read_search(decoding), lost=(*architecture.lost, *lost))
    sources, targets = choose_languages(architecture, ModelText(tokenizers=tokenizers), options)
    return ImportPlan(
        architecture=architecture,
        weights=RuleSource(
            source,
            name_tensors(shapes, read_tied_layers(settings)),
            unused=[OPTIONS, *(name for name in shapes if name.endswith(QUANTISATION))],
        ),
        tokenizers=tokenizers,
        source_languages=sources,
        target_languages=targets,
        card=format_import_card(architecture, model, options, [*sources, *targets]),
    )


def _list_yaml(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.yml")) if "vocab" not in path.name]


def _is_decoding(path: Path) -> bool:
    return re.search(rb"(?m)^(vocabs|beam-size):", read_limited(path)) is not None


def parse_yaml(text: bytes, path: Path) -> Json:
    """One table of YAML, in which values cannot be programs."""
    try:
        import yaml
    except ImportError:
        raise HeadwayError("Marian's files need the package PyYAML. Install it: pip install headway[convert]") from None
    try:
        found = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError):
        raise HeadwayError(f"{path} is damaged: it is not YAML. Download it again.") from None
    if not isinstance(found, dict):
        raise HeadwayError(f"{path} is damaged: it must hold one table.")
    return found


def translate_options(settings: Json, shapes: Mapping[str, tuple[int, ...]], tokenizers: Tokenizers) -> Json:
    """The config.json of Hugging Face's Marian."""
    fixed = FIXED | FIXED_IN_STUDENTS if is_student(settings) else FIXED
    for name, allowed in fixed.items():
        require_option(settings, name, allowed)
    heads, hidden = (read_size(settings, f"transformer-{name}") for name in ("heads", "dim-ffn"))
    config: Json = {
        "d_model": read_size(settings, "dim-emb"),
        "scale_embedding": True,
        "activation_function": settings.get("transformer-ffn-activation", "swish"),
        "max_position_embeddings": 512,
        "vocab_size": tokenizers.source.size,
        "decoder_vocab_size": tokenizers.target.size,
        "share_encoder_decoder_embeddings": "Wemb" in shapes,
        "tie_word_embeddings": not {"decoder_ff_logit_out_W", "decoder_ff_logit_out_Wt"} & shapes.keys(),
        "dropout": float(settings.get("transformer-dropout") or 0.0),
    }
    for side, short in (("encoder", "enc"), ("decoder", "dec")):
        config[f"{side}_layers"] = depth = read_size(settings, f"{short}-depth")
        if depth > len(shapes):
            raise ConversionError(f"{short}-depth = {depth}, and its file has only {len(shapes)} tensors.")
        config[f"{side}_attention_heads"] = heads
        config[f"{side}_ffn_dim"] = hidden
    if other := settings.get("transformer-decoder-dim-ffn"):
        config["decoder_ffn_dim"] = other
    return config


def find_norms(settings: Json) -> str:
    """The family with norms in these places."""
    names = ("preprocess", "postprocess", "postprocess-top")
    found = tuple(settings.get(f"transformer-{name}") or "" for name in names)
    if found not in NORMS:
        raise ConversionError(
            f"norms in these places are not supported: transformer-preprocess, -postprocess and -postprocess-top are "
            f"{found}, and must be one of {', '.join(map(str, NORMS))}."
        )
    return NORMS[found]


def require_option(settings: Json, name: str, allowed: tuple[Any, ...]) -> None:
    if settings.get(name) not in allowed:
        known = ", ".join(str(value) for value in allowed if value is not None)
        raise ConversionError(f"{name} = {settings.get(name)!r} in its options is not supported, only {known}.")


def read_search(decoding: Json) -> Json:
    """Settings of Search, from decoder.yml."""
    search: Json = {"penalty": "none"}
    if type(decoding.get("beam-size")) is int and 0 < decoding["beam-size"] <= 1000:
        search["beam_size"] = decoding["beam-size"]
    alpha = decoding.get("normalize")
    if isinstance(alpha, int | float) and 0 < alpha <= 10:  # length ** alpha; True: alpha = 1
        search |= {"penalty": "power", "alpha": float(alpha)}
    return search


def read_vocabulary_sizes(settings: Json, shapes: Mapping[str, tuple[int, ...]]) -> list[Any]:
    """Of source and target: dim-vocabs, or the rows of the embeddings where Marian left that empty."""
    sizes = settings.get("dim-vocabs")
    if not sizes:
        words = [shapes.get("Wemb") or shapes.get(f"{side}_Wemb") for side in ("encoder", "decoder")]
        sizes = [shape[0] for shape in words if shape]
    if not isinstance(sizes, list) or len(sizes) != 2:
        raise ConversionError(f"dim-vocabs = {sizes!r}: Headway imports models with one source and one target.")
    return sizes


def find_vocabularies(folder: Path, decoding: Json) -> list[Path]:
    """Of source and target: those that decoder.yml names, wherever they were when it was written, or those that are
    called so."""
    found = sorted(path.name for path in folder.glob("*vocab*") if path.suffix in (".spm", ".yml"))
    names = decoding.get("vocabs") or found
    if isinstance(names, str):
        names = [names]
    if not isinstance(names, list) or not 1 <= len(names) <= 2:
        raise ConversionError(f"{folder} must have one or two vocabularies (vocab.yml, vocab.spm), and has {names!r}.")
    paths = [folder / Path(str(name)).name for name in names]
    if missing := [path for path in paths if not path.is_file()]:
        raise ConversionError(
            f"{folder} must have one or two vocabularies (vocab.yml, vocab.spm): decoder.yml names {names!r}, and "
            f"{missing[0].name} is not there."
        )
    if not decoding.get("vocabs") and len(paths) == 2 and not re.search(r"src|source", paths[0].name):
        raise ConversionError(
            f"{folder} has two vocabularies, {names[0]} and {names[1]}, and nothing says which is that of the source. "
            "Write a file decoder.yml beside them with the line: vocabs: [SOURCE.spm, TARGET.spm]"
        )
    return [paths[0], paths[-1]]


def read_tokenizers(folder: Path, sizes: list[Any], decoding: Json) -> Tokenizers:
    """From vocab.yml and two sentencepiece models, or from sentencepiece models that are the vocabulary themselves."""
    paths = find_vocabularies(folder, decoding)
    result = []
    for path, side, size in zip(paths, ("source", "target"), sizes):
        if path.suffix == ".spm":
            result.append(make_tokenizer(path, list_pieces(read_limited(path), path), size))
            continue
        model = folder / f"{side}.spm"
        result.append(make_tokenizer(model, read_yaml_vocabulary(path), size))
    source, target = result
    return Tokenizers(source, source if source.fingerprint() == target.fingerprint() else target)


def make_tokenizer(path: Path, vocabulary: list[str], size: Any) -> ImportedTokenizer:
    """Of one side: this vocabulary, and at its end the start."""
    if type(size) is not int or not len(vocabulary) <= size < 2**31:
        raise ConversionError(f"{path.parent}: the vocabulary has {len(vocabulary):,} entries, and the model {size!r}.")
    model = read_limited(path)
    ids = {piece: n for n, piece in enumerate(vocabulary)}
    if "</s>" not in ids:
        raise ConversionError(f"{path.parent}: its vocabulary has no </s>, which ends a text.")
    filler = [f"⟨unused:{n}⟩" for n in range(len(vocabulary), size)]
    special = {"pad": size, "start": size, "end": ids["</s>"], "unknown": find_unknown(model, ids, path)}
    return ImportedTokenizer(describe_sentencepiece(model, [*vocabulary, *filler, START], special, text_entries=True))


def read_yaml_vocabulary(path: Path) -> list[str]:
    """The spelling of each id, from lines `"spelling": id`."""
    table = parse_yaml(read_limited(path), path)
    spellings = {n: str(spelling) for spelling, n in table.items() if type(n) is int}
    if sorted(spellings) != list(range(len(spellings))) or len(spellings) < len(table):
        raise ConversionError(f"{path} is not a vocabulary: it does not give the ids 0, 1, 2, … to one entry each.")
    return [spellings[n] for n in range(len(spellings))]


def name_tensors(shapes: Mapping[str, tuple[int, ...]], tied_layers: list[int]) -> list[TensorRule]:
    """Hugging Face's names for Marian's tensors. Those of a tied layer get the names of all layers that have them."""
    rules = []
    for name, shape in shapes.items():
        if own := re.match(r"decoder_l(\d+)_", name):
            layers = [n for n, layer in enumerate(tied_layers, 1) if layer == int(own[1])]
            rules += [name_tensor(name, shape, layer) for layer in layers]
        else:
            rules.append(name_tensor(name, shape))
    return [rule for rule in rules if rule is not None]


def name_tensor(name: str, shape: tuple[int, ...], layer_number: int | None = None) -> TensorRule | None:
    """layer_number: of the layer that has it, counted from 1, if not that of its name."""
    flat = (Reshape(shape, (shape[-1],)),) if len(shape) == 2 and shape[0] == 1 else ()
    words = {
        "Wemb": "shared.weight",
        "encoder_Wemb": "encoder.embed_tokens.weight",
        "decoder_Wemb": "decoder.embed_tokens.weight",
    }
    if name in words:
        return TensorRule(f"model.{words[name]}", name, (AppendRow(0.0),))
    if name == "decoder_ff_logit_out_b":
        size = shape[-1] + 1
        changes: tuple[TensorChange, ...] = (*flat, AppendRow(NEVER), Reshape((size,), (1, size)))
        return TensorRule("final_logits_bias", name, changes)
    if name in ("decoder_ff_logit_out_W", "decoder_ff_logit_out_Wt"):
        turn = (Transpose(),) if name.endswith("W") else ()
        return TensorRule("lm_head.weight", name, (*turn, AppendRow(0.0)))
    ends = {"scale": "weight", "bias": "bias"}
    if top := re.fullmatch(r"(encoder|decoder)_top_ln_(scale|bias)", name):
        return TensorRule(f"model.{top[1]}.layer_norm.{ends[top[2]]}", name, flat)
    match = re.fullmatch(r"(encoder|decoder)_l(\d+)_(self|rnn|context|ffn)_(\w+)", name)
    if match is None:
        return None
    side, number, part, rest = match.groups()
    layer = f"model.{side}.layers.{(layer_number or int(number)) - 1}"
    if norm := re.fullmatch(r"(?:(?:Wo|ffn)_)?ln_(scale|bias)(?:_pre)?", rest):
        return TensorRule(f"{layer}.{NORM_NAMES[part]}.{ends[norm[1]]}", name, flat)
    if part == "rnn":
        return TensorRule(f"{layer}.rnn.{SSRU[rest]}", name, flat or (Transpose(),)) if rest in SSRU else None
    linear = re.fullmatch(r"([Wb])([qkvo12])", rest)
    if linear is None:
        return None
    attention = {"self": "self_attn.", "context": "encoder_attn."}.get(part)
    own = f"{attention}{ATTENTION[linear[2]]}" if attention and linear[2] in ATTENTION else f"fc{linear[2]}"
    if linear[1] == "W":
        return TensorRule(f"{layer}.{own}.weight", name, (Transpose(),))
    return TensorRule(f"{layer}.{own}.bias", name, flat)
