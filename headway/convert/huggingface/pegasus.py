"""Pegasus: Marian with pre-norm. It was made for summaries; translators of this shape exist."""

from dataclasses import replace

from headway.convert.architecture import Architecture, ConversionError, Json, read_size, require
from headway.convert.huggingface.marian import list_readings
from headway.convert.huggingface.model_folder import ModelFolder, ModelText
from headway.convert.huggingface.tokenizer_files import read_model_text

# Of files that were written before transformers 4.20, where one class was BART, Marian and Pegasus.
OLD_SETTINGS = {
    "static_position_embeddings": True, "normalize_before": True, "normalize_embedding": False,
    "add_final_layer_norm": True,
}  # fmt: skip


def read_pegasus(config: Json) -> Architecture:
    for name, value in OLD_SETTINGS.items():
        require(config, name, (value,), value)
    tied = require(config, "tie_word_embeddings", (True, False), True)
    size = read_size(config, "vocab_size")
    found = list_readings("Pegasus", config, shared=True, tied=tied, target=size, pre_norm=True)
    return replace(found, read_text=read_pegasus_text)


def read_pegasus_text(folder: ModelFolder) -> ModelText:
    """Its ids are not those of its sentencepiece model, whose pieces come after 103 others."""
    if not folder.has("tokenizer.json"):
        raise ConversionError(
            f"{folder.path} has no tokenizer.json, and Pegasus has ids that no other of its files holds. Write it with "
            "transformers: AutoTokenizer.from_pretrained(…).save_pretrained(…)."
        )
    return read_model_text(folder, "translation")
