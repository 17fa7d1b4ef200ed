"""A model of CTranslate2 as an Architecture. Its variables say everything: the tensors that are there, whose names are
aliases of which, and settings as single numbers. What is not known is refused."""

import math
from typing import Literal

from headway.convert.architecture import Architecture, ConversionError, Json
from headway.convert.ctranslate2.model_file import ModelFile
from headway.convert.ctranslate2.stacks import TABLE, StackDescription, read_stack
from headway.convert.huggingface.llama import MAX_WINDOW
from headway.convert.tensor_rules import AppendRow, TensorChange, TensorRule
from headway.errors import HeadwayError

KINDS: dict[str, tuple[Literal["translation", "causal", "masked"], tuple[str, ...]]] = {
    "TransformerSpec": ("translation", ("encoder", "decoder")),
    "TransformerDecoderSpec": ("causal", ("decoder",)),
    "TransformerEncoderSpec": ("masked", ("encoder",)),
}
EPSILON = {False: 1e-5, True: 1e-6}  # of norms, where config.json does not say: layer norm, RMS norm
MAX_SENTENCE = 512  # tokens, where positions have no end
NEVER = -1e4  # the bias of an entry that is never an output: its probability is 0 in every float type
ADDED, TANH = 1, 5  # CTranslate2's numbers
SETTINGS_ELSEWHERE = {"pooler_activation", "encoder/embeddings_merge"}
UNSUPPORTED_CONFIG = {"add_source_bos", "quantization_type"}  # unless false, null or 0


def read_architecture(file: ModelFile, settings: Json, sentence: Json | None = None) -> Architecture:
    """settings: its config.json. sentence: how sentence-transformers make vectors of texts with it."""
    if file.specification not in KINDS:
        raise ConversionError(
            f"{file.path} holds a {file.specification}. Of CTranslate2's models, Headway imports {', '.join(KINDS)}."
        )
    objective, sides = KINDS[file.specification]
    check_config(file, settings)
    width = read_width(file, sides)
    stacks = {side: read_stack(file, side, width) for side in sides}
    check_kind(file, sides, stacks)
    words, tied = read_words(file, sides)
    has_rms_norm = stacks[sides[0]].has_rms_norm
    epsilon = read_epsilon(file, settings, has_rms_norm)
    tables = {side: fill_epsilon(stack.table, epsilon) for side, stack in stacks.items()}
    head, head_rules = read_head(file, width) if objective != "masked" else read_pooler(file, sentence)
    if tied in ("none", "inputs") and objective != "masked":
        head_rules = [*head_rules, TensorRule("head.weight", "decoder/projection/weight", added_row(file, 0.0))]
    embedding: Json = {"scale": read_scale(file, sides, width), "tied": tied}
    norm_names = [f"{side}/layernorm_embedding" for side in sides if file.has(f"{side}/layernorm_embedding/gamma")]
    if norm_names:
        embedding["norm"] = True
    segments = "encoder/embeddings_1/weight"
    if file.has(segments):
        embedding["segments"] = read_segments(file, segments)
        words.append(TensorRule("embeddings.encoder.segments.weight", segments))
    rules = [*words, *head_rules]
    for side in sides:
        if norm_names:
            rules += embedding_norm_rules(file, side)
        rules += stacks[side].rules
    limits = [stack.positions for stack in stacks.values() if stack.positions is not None]
    usual = MAX_WINDOW if objective == "causal" else MAX_SENTENCE
    return Architecture(
        family="CTranslate2",
        objective=objective,
        model={
            "d_model": width,
            "dropout": 0.0,
            "norm": {"kind": "rmsnorm" if has_rms_norm else "layernorm", "eps": epsilon},
            "embedding": embedding,
            **{side: tables.get(side, {"layers": 0}) for side in ("encoder", "decoder")},
            "head": head,
        },
        rules=tuple(rules),
        max_tokens=min([*limits, usual] if objective != "masked" else limits or [usual]),
        unused=list_unused(file, stacks, tied, sentence is not None),
        lost=list_losses(file, stacks),
    )


def check_config(file: ModelFile, settings: Json) -> None:
    for name in UNSUPPORTED_CONFIG & settings.keys():
        if settings[name]:
            raise ConversionError(f"{file.path.parent / 'config.json'}: {name} = {settings[name]!r} is not supported.")
    for name, value in file.settings().items():
        if "/" not in name and name not in SETTINGS_ELSEWHERE:
            raise ConversionError(f"{file.path}: {name} = {value:g} is not supported.")
    scale = next((name for name in file.names() if name.endswith("/multiply_by_sqrt_depth")), "")
    if scale and file.scalar(scale):
        raise ConversionError(f"{file.path}: {scale} = {file.scalar(scale):g} is not supported, only 0.")


def read_width(file: ModelFile, sides: tuple[str, ...]) -> int:
    """d_model."""
    name = find_words(file, sides[-1])
    shape = file.shape(name)
    if len(shape) != 2 or not all(shape):
        raise HeadwayError(f"{file.path}: {name} has the shape {shape}, not words by width. Download it again.")
    return shape[1]


def find_words(file: ModelFile, side: str) -> str:
    """The name of the embedding of a side."""
    for name in (f"{side}/embeddings_0/weight", f"{side}/embeddings/weight"):
        if file.has(name):
            return name
    raise HeadwayError(f"{file.path} has no {side}/embeddings/weight. Download the model again.")


def check_kind(file: ModelFile, sides: tuple[str, ...], stacks: dict[str, StackDescription]) -> None:
    """Raise ConversionError unless both sides have the same norms, and nothing comes between them and the words."""
    if len({stack.has_rms_norm for stack in stacks.values()}) > 1:
        raise ConversionError(f"{file.path} has layer norm in one side and RMS norm in the other.")
    if len({file.has(f"{side}/layernorm_embedding/gamma") for side in sides}) > 1:
        raise ConversionError(f"{file.path} has a norm of the embeddings in one side alone.")
    if file.has("encoder/embeddings_1/weight") and sides != ("encoder",):
        raise ConversionError(f"{file.path} has source factors (encoder/embeddings_1), which Headway does not have.")


def read_segments(file: ModelFile, name: str) -> int:
    if file.scalar("encoder/embeddings_merge") != ADDED or file.has("encoder/embeddings_2/weight"):
        raise ConversionError(f"{file.path}: embeddings that are not two, added to each other, are not supported.")
    return file.shape(name)[0] if file.shape(name) else 0


def read_epsilon(file: ModelFile, settings: Json, has_rms_norm: bool) -> float:
    """Of all norms."""
    epsilon = settings.get("layer_norm_epsilon")
    if epsilon is None:
        return EPSILON[has_rms_norm]
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon < 1:
        raise HeadwayError(
            f"{file.path.parent / 'config.json'}: layer_norm_epsilon = {epsilon!r} is not a small number."
        )
    return float(epsilon)


def fill_epsilon(table: Json, epsilon: float) -> Json:
    """The same, with the epsilon in the norms of queries and keys."""
    filled = dict(table)
    for name in ("mixer", "cross"):
        if "qk_norm" in table.get(name, {}):
            filled[name] = {**table[name], "qk_norm": {**table[name]["qk_norm"], "eps": epsilon}}
    return filled


def read_scale(file: ModelFile, sides: tuple[str, ...], width: int) -> bool:
    """Whether embeddings are multiplied by √width. An integer says yes or no, a float by what."""
    found = set()
    for side in sides:
        name = f"{side}/scale_embeddings"
        scale = file.scalar(name, 1.0)
        if file.has(name) and not file.is_integer(name):
            if not math.isclose(scale, math.sqrt(width), rel_tol=1e-5) and scale != 1.0:
                raise ConversionError(f"{file.path} multiplies embeddings by {scale}, neither by √{width} nor by 1.")
            found.add(scale != 1.0)
        else:
            found.add(bool(scale))
    if len(found) > 1:
        raise ConversionError(f"{file.path} multiplies the embeddings of one side alone by √{width}.")
    return found.pop()


def starts_with_zeros(file: ModelFile) -> bool:
    """Whether the first input of the decoder is no word but zeros: here it is one more entry of both vocabularies."""
    return bool(file.scalar("decoder/start_from_zero_embedding"))


def added_row(file: ModelFile, value: float) -> tuple[TensorChange, ...]:
    return (AppendRow(value),) if starts_with_zeros(file) else ()


def read_words(file: ModelFile, sides: tuple[str, ...]) -> tuple[list[TensorRule], str]:
    """The embeddings, and which matrices are one, as our embedding.tied says it."""
    row = added_row(file, 0.0)
    names = {side: find_words(file, side) for side in sides}
    rules = [TensorRule(f"embeddings.{sides[-1]}.words.weight", names[sides[-1]], row)]
    if sides == ("encoder",):
        return rules, "none"
    output = "decoder/projection/weight"
    if not file.has(output):
        raise HeadwayError(f"{file.path} has no {output}. Download the model again.")
    own = file.find(names["decoder"])
    shared = len(sides) == 1 or file.find(names["encoder"]) == own
    if len(sides) == 2 and not shared:
        rules.append(TensorRule("embeddings.encoder.words.weight", names["encoder"], row))
    if file.find(output) != own:
        return rules, "inputs" if shared and len(sides) == 2 else "none"
    return rules, "all" if shared else "target"


def read_head(file: ModelFile, width: int) -> tuple[Json, list[TensorRule]]:
    """The scores of the vocabulary; the bias, but not the matrix."""
    head: Json = {"kind": "logits"}
    name = "decoder/scale_outputs"
    scale = file.scalar(name, 1.0)
    if file.has(name) and file.is_integer(name):  # yes or no
        scale = width**-0.5 if scale else 1.0
    if math.isclose(scale, width**-0.5, rel_tol=1e-6):
        scale = width**-0.5  # as it was before it was a float of 32 bits
    if scale != 1.0:
        head["scale"] = scale
    bias = "decoder/projection/bias"
    if not file.has(bias):
        return head, []
    return {**head, "bias": True}, [TensorRule("head.bias", bias, added_row(file, NEVER))]


def read_pooler(file: ModelFile, sentence: Json | None) -> tuple[Json, list[TensorRule]]:
    """An encoder's vector for a text: as its sentence-transformers modules say, else that of the first token, through
    BERT's pooler if there is one."""
    if sentence is not None:
        return {"kind": "embedding", "dense": False, **{n: sentence[n] for n in ("pooling", "normalise")}}, []
    pooled = file.has("pooler_dense/weight")
    if pooled and file.scalar("pooler_activation", TANH) != TANH:
        raise ConversionError(
            f"{file.path}: pooler_activation = {file.scalar('pooler_activation'):g} is not supported."
        )
    head: Json = {"kind": "embedding", "pooling": "first", "dense": pooled, "normalise": False}
    ends = ("weight", "bias") if pooled else ()
    return head, [TensorRule(f"head.pool.{end}", f"pooler_dense/{end}") for end in ends]


def embedding_norm_rules(file: ModelFile, side: str) -> list[TensorRule]:
    theirs = f"{side}/layernorm_embedding"
    ends = {"gain": "gamma"} | ({"bias": "beta"} if file.has(f"{theirs}/beta") else {})
    return [TensorRule(f"embeddings.{side}.norm.{own}", f"{theirs}/{their}") for own, their in ends.items()]


def list_unused(file: ModelFile, stacks: dict[str, StackDescription], tied: str, drops_pooler: bool) -> tuple[str, ...]:
    """Tensors that hold nothing of their own: tables, second names of shared matrices."""
    unused = [name for stack in stacks.values() for name in stack.unused]
    if tied in ("all", "inputs") and "encoder" in stacks:
        unused.append(find_words(file, "encoder"))
    if tied in ("all", "target"):
        unused.append("decoder/projection/weight")
    return (*unused, *(("pooler_dense/*",) if drops_pooler else ()))


def list_losses(file: ModelFile, stacks: dict[str, StackDescription]) -> tuple[str, ...]:
    lost = []
    if file.holds_integers():
        lost.append("the small size: integers are float32 here, with the same values")
    tables = [f"{side}/{TABLE}" for side, stack in stacks.items() if f"{side}/{TABLE}" in stack.unused]
    if any(file.dtype(name).itemsize < 4 for name in tables):
        lost.append("the rounding of its sinusoids, which are exact here")
    return tuple(lost)
