"""The tokenizer files of an imported sentencepiece model: the model itself, under the name that its family gives it,
and tokenizer_config.json. M2M100 has vocab.json besides.

Which ids the pieces have is the family's rule, and not in the files. So they are read again as an import reads them,
and refused where other ids come out."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from headway.convert.architecture import Architecture, Json
from headway.convert.export.stored_model import StoredModel
from headway.convert.huggingface.directory import read_text
from headway.convert.huggingface.language_tokens import M2M100_TOKEN, PIECES_FILE, find_style_of
from headway.convert.huggingface.model_folder import ModelFolder
from headway.convert.huggingface.tokenizer_files import ADVICE, SENTENCEPIECE_FILES, open_sentencepiece
from headway.errors import HeadwayError
from headway.files.atomic import write_text_atomically
from headway.text.tokenizer.imported import ImportedTokenizer
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Tokenizer

# By model_type: the file, and the class of transformers, for models that do not say which they came with.
FAMILY_FILES = {
    "m2m_100": (PIECES_FILE, "NllbTokenizer"),
    "mbart": (PIECES_FILE, "MBartTokenizer"),
    "xlm-roberta": (PIECES_FILE, "XLMRobertaTokenizer"),
    "t5": ("spiece.model", "T5Tokenizer"),
    "mt5": ("spiece.model", "T5Tokenizer"),
}
OTHER_FILES = ("tokenizer.model", "LlamaTokenizer")
LANGUAGE_CLASSES = {"M2M100": "M2M100Tokenizer", "mBART-50": "MBart50Tokenizer"}  # by the style of their languages
TOKEN_NAMES = {
    "start": "bos_token",
    "end": "eos_token",
    "pad": "pad_token",
    "unknown": "unk_token",
    "mask": "mask_token",
}
MAX_ADDED_TOKENS = 1000  # more would be another vocabulary


def is_sentencepiece(tokenizer: Tokenizer) -> bool:
    return isinstance(tokenizer, ImportedTokenizer) and tokenizer.to_json()["imported"] == "sentencepiece"


def write_sentencepiece(folder: Path, tokenizer: ImportedTokenizer, model_type: str, max_tokens: int) -> list[str]:
    """The files of a tokenizer for both sides; returns their names."""
    data = tokenizer.to_json()
    family_class = FAMILY_FILES.get(model_type, OTHER_FILES)[1]
    name = find_pieces_file(tokenizer, model_type)
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(base64.b64decode(data["model"]))
    files = [name, "tokenizer_config.json"]
    if model_type == "m2m_100" and (entries := list_m2m100_entries(tokenizer)):
        write_vocabulary(folder / "vocab.json", entries)
        files.append("vocab.json")
    if model_type in ("m2m_100", "mbart"):
        family_class = LANGUAGE_CLASSES.get(find_style_of(data.get("vocabulary") or ()).name, family_class)
    config: Json = {"tokenizer_class": family_class, "model_max_length": max_tokens}
    config |= {TOKEN_NAMES[role]: tokenizer.spelling(n) for role, n in data["special"].items() if role in TOKEN_NAMES}
    config |= {"add_bos_token": tokenizer.adds_start} if model_type not in FAMILY_FILES else {}
    config |= {"added_tokens_decoder": added} if (added := list_added_tokens(tokenizer, files)) else {}
    config = complete_config(tokenizer, config)
    write_text_atomically(folder / "tokenizer_config.json", json.dumps(config, ensure_ascii=False, indent=1) + "\n")
    return files


def find_pieces_file(tokenizer: ImportedTokenizer, model_type: str) -> str:
    """The name of the sentencepiece model: the one that it came under, or its family's."""
    known = [name for name in tokenizer.original_files if name in SENTENCEPIECE_FILES]
    return known[0] if known else FAMILY_FILES.get(model_type, OTHER_FILES)[0]


def complete_config(tokenizer: ImportedTokenizer, config: Json) -> Json:
    """The tokenizer_config.json that it came with; where that names no class, completed by this one."""
    original = tokenizer.original_config
    return original if "tokenizer_class" in original else {**config, **original}


def list_m2m100_entries(tokenizer: ImportedTokenizer) -> list[str]:
    """The entries of M2M100's vocab.json: those before its languages; none where languages are written otherwise."""
    spellings: list[str] = tokenizer.to_json().get("vocabulary") or []
    first = next((n for n, spelling in enumerate(spellings) if M2M100_TOKEN.fullmatch(spelling)), 0)
    return spellings[:first]


def list_added_tokens(tokenizer: ImportedTokenizer, files: Sequence[str]) -> dict[str, Json]:
    """Entries that the sentencepiece model does not have under their ids, where these are its own."""
    data = tokenizer.to_json()
    vocabulary: list[str] | None = data.get("vocabulary")
    if vocabulary is None or "vocab.json" in files or files[0] == PIECES_FILE:
        return {}
    processor = open_sentencepiece(base64.b64decode(data["model"]), Path(files[0]))
    own = [processor.IdToPiece(n) for n in range(processor.GetPieceSize())]
    added = [n for n, spelling in enumerate(vocabulary) if n >= len(own) or own[n] != spelling]
    if len(added) > MAX_ADDED_TOKENS:
        return {}
    return {str(n): {"content": vocabulary[n], "special": True} for n in added}


def write_vocabulary(path: Path, spellings: Sequence[str]) -> None:
    ids = {spelling: n for n, spelling in enumerate(spellings)}
    write_text_atomically(path, json.dumps(ids, ensure_ascii=False, indent=1) + "\n")


def describe_difference(folder: Path, architecture: Architecture, tokenizers: Tokenizers) -> str:
    """What an import of these files would read otherwise; "" if nothing."""
    try:
        found = read_text(architecture, ModelFolder.open(folder)).tokenizers
    except HeadwayError as error:
        return str(error).removesuffix(ADVICE).strip()
    for ours, again in ((tokenizers.source, found.source), (tokenizers.target, found.target)):
        before, after = (_meaning(tokenizer.to_json()) for tokenizer in (ours, again))
        if different := sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name)):
            return f"read again, it would have another {' and another '.join(different)}."
    return ""


def _meaning(data: Json) -> Json:
    """What decides over ids. An empty table is none, and a vocabulary that is the model's own need not be said."""
    kept: dict[str, Any] = {
        name: value for name, value in data.items() if name != "original" and value not in ({}, None)
    }
    return kept


def unsupported_sentencepiece(
    model: StoredModel, model_type: str, architecture: Architecture, config: Json, generation: Json
) -> str:
    """Why the files of this family cannot hold the tokenizer; "" if they can."""
    tokenizer = model.tokenizers.target
    assert isinstance(tokenizer, ImportedTokenizer)
    if not model.tokenizers.shared and not _are_alike(model.tokenizers):
        return "its tokenizers are two sentencepiece models, which only Marian has."
    with TemporaryDirectory() as place:
        folder = Path(place)
        write_sentencepiece(folder, tokenizer, model_type, 0)
        for name, table in (("config.json", config), ("generation_config.json", generation)):
            write_text_atomically(folder / name, json.dumps(table, ensure_ascii=False) + "\n")
        difference = describe_difference(folder, architecture, model.tokenizers).replace(f"{place}/", "")
    return difference and f"its tokenizer is a sentencepiece model without tokenizer.json, and {difference}"


def _are_alike(tokenizers: Tokenizers) -> bool:
    source, target = (_meaning(side.to_json()) for side in (tokenizers.source, tokenizers.target))
    return source["model"] == target["model"] and source.get("vocabulary") == target.get("vocabulary")
