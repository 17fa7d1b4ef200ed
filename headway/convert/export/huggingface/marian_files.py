"""The tokenizer files of an imported Marian model, as OPUS-MT lays them out: source.spm, target.spm, vocab.json."""

import base64
import json
from pathlib import Path

from headway.convert.architecture import Json
from headway.convert.export.huggingface.sentencepiece_files import complete_config, is_sentencepiece, write_vocabulary
from headway.convert.export.stored_model import StoredModel
from headway.files.atomic import write_text_atomically
from headway.text.tokenizer.imported import ImportedTokenizer
from headway.text.tokenizer.pair import Tokenizers


def is_marian_pair(tokenizers: Tokenizers) -> bool:
    """Whether both sides are sentencepiece models over a vocabulary of the model's own."""
    sides = (tokenizers.source, tokenizers.target)
    return all(is_sentencepiece(side) and bool(side.to_json().get("vocabulary")) for side in sides)


def write_marian_tokenizer(folder: Path, model: StoredModel, max_tokens: int) -> None:
    source, target = (side.to_json() for side in (model.tokenizers.source, model.tokenizers.target))
    for name, data in (("source.spm", source), ("target.spm", target)):
        (folder / name).write_bytes(base64.b64decode(data["model"]))
    separate = source["vocabulary"] != target["vocabulary"]
    write_vocabulary(folder / "vocab.json", source["vocabulary"])
    if separate:
        write_vocabulary(folder / "target_vocab.json", target["vocabulary"])
    config: Json = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": (model.config.source_languages or ("",))[0],
        "target_lang": (model.config.target_languages or ("",))[0],
        "separate_vocabs": separate,
        "model_max_length": max_tokens,
    }
    writer = model.tokenizers.target  # with two vocabularies, the ids of the end and of padding are those of its own
    names = {"eos_token": writer.end, "unk_token": writer.unknown, "pad_token": writer.pad}
    config |= {name: writer.spelling(n) for name, n in names.items()}
    assert isinstance(writer, ImportedTokenizer)
    config = complete_config(writer, config)
    write_text_atomically(folder / "tokenizer_config.json", json.dumps(config, ensure_ascii=False, indent=1) + "\n")
