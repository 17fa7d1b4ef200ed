"""What a family of models is to us: Architecture, and the table of families.

A family is one file with one function: `read_FAMILY(config) -> Architecture`, from the model's own config.json. It
refuses, with a ConversionError, what Headway cannot compute exactly."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from headway.convert.tensor_rules import TensorChange, TensorRule
from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.convert.huggingface.model_folder import ModelFolder, ModelText

Json = dict[str, Any]


class ConversionError(HeadwayError):
    """A model that cannot be converted exactly: says which value of which setting stands in the way."""


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A model of another toolkit in our terms."""

    family: str  # as its users call it: "Marian", "GPT-2" …
    objective: Literal["translation", "causal", "permutation", "masked", "classify", "tag", "match", "embed"]
    model: Json  # the table of Transformer.Config, without vocabulary sizes that the rules give
    rules: tuple[TensorRule, ...]
    objective_settings: Json = field(default_factory=dict)  # for further training
    labels: tuple[str, ...] = ()  # of a task
    max_tokens: int = 512  # of a text that it reads: longer sentences are cut
    unused: tuple[str, ...] = ()  # patterns (fnmatch) of tensors that hold nothing of their own: tables, masks
    copies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # other names of a tensor that layers share
    stacks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of layers: see layer_stacks.py
    lost: tuple[str, ...] = ()  # what the imported model does not have, a sentence each
    search: Json = field(default_factory=dict)  # settings of Search, where its generation config has some
    prefix: str = ""  # of the names of most tensors, which some files leave out: "bert.", "transformer."
    # Reads tokenizers and languages, where the family needs more than huggingface/tokenizer_files.py does for all.
    read_text: "Callable[[ModelFolder], ModelText] | None" = None
    otherwise: "Architecture | None" = None  # how to read the weights where they do not fit this: see readings.py

    @property
    def use(self) -> str:
        """The objective, and what it reads where that is no text."""
        frontend = self.model.get("encoder", {}).get("frontend", {})
        return f"{self.objective} pictures" if frontend.get("kind") == "patches" else self.objective


MAX_LAYERS = 10_000
MAX_SIZE = 2**31 - 1

# model_type in config.json -> "module:function". Nothing is imported before it is needed.
FAMILIES: dict[str, str] = {
    "bert": "headway.convert.huggingface.bert:read_bert",
    "bitnet": "headway.convert.huggingface.bitnet:read_bitnet",
    "camembert": "headway.convert.huggingface.bert:read_roberta",
    "distilbert": "headway.convert.huggingface.bert:read_distilbert",
    "bart": "headway.convert.huggingface.mbart:read_bart",
    "gpt2": "headway.convert.huggingface.gpt2:read_gpt2",
    "gpt_neox": "headway.convert.huggingface.gpt_neox:read_gpt_neox",
    "llama": "headway.convert.huggingface.llama:read_llama",
    "mistral": "headway.convert.huggingface.llama:read_mistral",
    "mixtral": "headway.convert.huggingface.mixtral:read_mixtral",
    "qwen2": "headway.convert.huggingface.llama:read_qwen2",
    "qwen3": "headway.convert.huggingface.llama:read_qwen3",
    "m2m_100": "headway.convert.huggingface.m2m100:read_m2m100",
    "mbart": "headway.convert.huggingface.mbart:read_mbart",
    "marian": "headway.convert.huggingface.marian:read_marian",
    "mt5": "headway.convert.huggingface.t5:read_mt5",
    "pegasus": "headway.convert.huggingface.pegasus:read_pegasus",
    "roberta": "headway.convert.huggingface.bert:read_roberta",
    "rwkv": "headway.convert.huggingface.rwkv:read_rwkv",
    "t5": "headway.convert.huggingface.t5:read_t5",
    "vit": "headway.convert.huggingface.vit:read_vit",
    "xlm-roberta": "headway.convert.huggingface.bert:read_roberta",
    "xlnet": "headway.convert.huggingface.xlnet:read_xlnet",
}
# Families that are known and not supported, with the reason.
UNSUPPORTED: dict[str, str] = {
    "clip": "Headway reads no images.",
    "nllb-moe": "its router drops tokens of a batch that is full, which Headway's mixture of experts does not.",
    "umt5": "each of its layers has relative positions of its own, and Headway's t5 shares them.",
    "whisper": "Headway reads no sound.",
}


def find_family(model_type: str) -> Callable[[Json], Architecture]:
    """The reader of a family. Raises ConversionError where there is none."""
    if model_type in UNSUPPORTED:
        raise ConversionError(f"{model_type} models cannot be imported: {UNSUPPORTED[model_type]}")
    if model_type not in FAMILIES:
        raise ConversionError(
            f'models of the type "{model_type}" cannot be imported. Supported: {", ".join(sorted(FAMILIES))}. '
            "If it is one of these under another name, write that name as model_type into its config.json."
        )
    module, _, function = FAMILIES[model_type].partition(":")
    reader: Callable[[Json], Architecture] = getattr(import_module(module), function)
    return reader


def require(config: Mapping[str, Any], name: str, allowed: tuple[Any, ...], default: Any = None) -> Any:
    """A setting that Headway supports with these values only."""
    value = config.get(name, default)
    if value not in allowed:
        known = ", ".join(map(repr, allowed))
        raise ConversionError(f"{name} = {value!r} in its config.json is not supported, only {known}.")
    return value


def read_size(config: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """A size: a positive integer. Of layers there are no more than a config may have: each has rules of its own."""
    value = config.get(name, default)
    limit = MAX_LAYERS if "layer" in name or "depth" in name else MAX_SIZE
    if type(value) is not int or not 0 < value <= limit:
        raise ConversionError(
            f"{name} = {value!r} in its config.json is not a size from 1 to {limit:,}. Download the model again."
        )
    return value


# Names of our tensors.
def sublayer(side: str, layer: int, name: str) -> str:
    """The path of "self", "cross" or "feedforward" in a layer."""
    return f"stacks.{side}.blocks.{layer}.sublayers.{name}"


def sublayer_norm(side: str, layer: int, name: str) -> str:
    return f"stacks.{side}.blocks.{layer}.residuals.{name}.norm"


def final_norm(side: str) -> str:
    return f"stacks.{side}.ends.norm"


# Rules that come in groups.
def linear_rules(ours: str, theirs: str, *changes: TensorChange, bias: bool = True) -> list[TensorRule]:
    """Weight and bias of a linear layer."""
    ends = ("weight", "bias") if bias else ("weight",)
    return [TensorRule(f"{ours}.{end}", f"{theirs}.{end}", changes) for end in ends]


def norm_rules(ours: str, theirs: str, bias: bool = True) -> list[TensorRule]:
    """Gain and bias of a norm."""
    ends = {"gain": "weight", "bias": "bias"} if bias else {"gain": "weight"}
    return [TensorRule(f"{ours}.{own}", f"{theirs}.{their}") for own, their in ends.items()]
