"""What a directory says of its tokenizer besides ids: its class, its spellings of special tokens, its chat template,
and which files hold it. An imported tokenizer keeps it under the key "original", for an export to write it again.

    {"config": what tokenizer_config.json says, "files": ["spiece.model"]}"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.convert.architecture import Json
from headway.convert.huggingface.model_folder import ModelFolder, ModelText, read_optional
from headway.convert.huggingface.tokenizer_files import SENTENCEPIECE_FILES, read_limited
from headway.text.tokenizer.imported import ImportedTokenizer
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Tokenizer

TEMPLATE_FILE = "chat_template.jinja"
# Code that loaders would run, and where the files lay on the machine of their author.
DROPPED = ("auto_map", "name_or_path", "special_tokens_map_file", "tokenizer_file", "vocab_file", "spm_file")


def keep_original(text: ModelText, folder: ModelFolder) -> ModelText:
    """The same, whose imported tokenizers say where they come from."""
    if text.tokenizers.target.kind != "imported":
        return text  # the model reads no text
    original = {"config": read_tokenizer_config(folder.path), "files": list_tokenizer_files(folder)}
    source, target = text.tokenizers.source, text.tokenizers.target
    writer = _with_original(target, original)
    reader = writer if text.tokenizers.shared else _with_original(source, original)
    return replace(text, tokenizers=Tokenizers(reader, writer))


def _with_original(tokenizer: Tokenizer, original: Json) -> ImportedTokenizer:
    return ImportedTokenizer({**tokenizer.to_json(), "original": original})


def read_tokenizer_config(path: Path) -> Json:
    """tokenizer_config.json, completed by the files beside it where older and newer versions of transformers put a part
    of it."""
    config = read_optional(path / "tokenizer_config.json")
    for name, value in read_optional(path / "special_tokens_map.json").items():
        config.setdefault(name, _spell(value))
    if (path / TEMPLATE_FILE).exists():
        config["chat_template"] = read_limited(path / TEMPLATE_FILE).decode("utf-8", "replace")
    kept = {name: value for name, value in config.items() if name not in DROPPED}
    text = json.dumps(kept, ensure_ascii=False).encode("utf-8", "replace")  # JSON can spell characters that are none
    return dict(json.loads(text))


def _spell(value: Any) -> Any:
    if isinstance(value, list):
        return [_spell(token) for token in value]
    return value.get("content") if isinstance(value, Mapping) else value


def list_tokenizer_files(folder: ModelFolder) -> list[str]:
    """Those that are read where there is no tokenizer.json."""
    if folder.has("tokenizer.json"):
        return []
    pieces = next((name for name in SENTENCEPIECE_FILES if folder.has(name)), None)
    return [] if pieces is None else [pieces, *(["vocab.json"] if folder.has("vocab.json") else [])]
