"""mBART, mBART-50 and BART: learned positions, of which the first two are not used, and a norm of the embeddings. mBART
is pre-norm and has languages as tokens; BART is post-norm and reads and writes one language."""

from dataclasses import replace

from headway.convert.architecture import Architecture, Json, norm_rules, read_size, require
from headway.convert.huggingface.language_tokens import read_multilingual_text
from headway.convert.huggingface.marian import list_readings
from headway.convert.huggingface.model_folder import ModelFolder, ModelText
from headway.convert.huggingface.tokenizer_files import describe_tokenizer
from headway.convert.readings import change_readings
from headway.convert.tensor_rules import SkipRows, TensorRule
from headway.text.tokenizer.imported import ImportedTokenizer
from headway.text.tokenizer.pair import Tokenizers

UNUSED_POSITIONS = 2


def read_mbart(config: Json) -> Architecture:
    return _read(config, "mBART", pre_norm=True)


def read_bart(config: Json) -> Architecture:
    return _read(config, "BART", pre_norm=False)


def _read(config: Json, family: str, pre_norm: bool) -> Architecture:
    # Of files that were written before transformers 4.20, where one class was BART, mBART, Marian and Pegasus.
    old = {"static_position_embeddings": False, "normalize_before": pre_norm, "normalize_embedding": True}
    for name, value in {**old, "add_final_layer_norm": pre_norm}.items():
        require(config, name, (value,), value)
    positions = read_size(config, "max_position_embeddings", 1024)
    tied = require(config, "tie_word_embeddings", (True, False), True)
    rules = []
    for side in ("encoder", "decoder"):
        theirs = f"model.{side}.embed_positions.weight"
        rules.append(TensorRule(f"stacks.{side}.positions.0.table.weight", theirs, (SkipRows(UNUSED_POSITIONS),)))
        rules += norm_rules(f"embeddings.{side}.norm", f"model.{side}.layernorm_embedding")
    read_text = read_multilingual_text if pre_norm else read_bart_text

    def change(reading: Architecture) -> Architecture:
        sides = {side: {**reading.model[side], "position": f"learned({positions})"} for side in ("encoder", "decoder")}
        model = {**reading.model, **sides, "embedding": {**reading.model["embedding"], "norm": True}}
        used = {rule.theirs for rule in rules}
        unused = tuple(name for name in reading.unused if name not in used)
        return replace(reading, model=model, rules=(*reading.rules, *rules), unused=unused, read_text=read_text)

    settings = {"activation_function": "gelu", **config, "max_position_embeddings": positions}
    size = read_size(config, "vocab_size")
    return change_readings(
        list_readings(family, settings, shared=True, tied=tied, target=size, pre_norm=pre_norm), change
    )


def read_bart_text(folder: ModelFolder) -> ModelText:
    """A source begins with <s>, and so does an output where the generation config says so."""
    data = describe_tokenizer(folder, "translation")
    forced = folder.generation.get("forced_bos_token_id")
    start = folder.generation.get("bos_token_id", 0)
    tables: Json = {"source_prefix": {"": [start]}}
    if forced is not None:
        tables["target_prefix"] = {"": [forced]}
    tokenizer = ImportedTokenizer({**data, **tables})
    return ModelText(tokenizers=Tokenizers(tokenizer, tokenizer))
