"""The spelling of each id, and the special tokens, as CTranslate2 has them: it knows no text, only tokens.

    shared_vocabulary.json, or source_vocabulary.json and target_vocabulary.json      translators
    vocabulary.json                                                                   language models, encoders
    config.json                                                                       eos_token, decoder_start_token …

Older files are lists of lines (.txt)."""

import json
from pathlib import Path

from headway.convert.architecture import ConversionError, Json
from headway.convert.huggingface.tokenizer_files import read_limited
from headway.errors import HeadwayError

# The special ids of a config of Hugging Face, their tokens in config.json, and those that CTranslate2 takes without it.
SPECIAL_TOKENS = {
    "translation": {"eos_token_id": ("eos_token", "</s>"), "decoder_start_token_id": ("decoder_start_token", "<s>")},
    "causal": {"eos_token_id": ("eos_token", "</s>"), "bos_token_id": ("bos_token", "<s>")},
    "masked": {},
}
REQUIRED = {"eos_token_id"}


def read_vocabularies(folder: Path, objective: str) -> tuple[list[str], list[str]]:
    """That of the source and that of the target: the same list where they share one."""
    if objective != "translation":
        found = read_vocabulary(folder, "vocabulary")
        if not found:
            raise HeadwayError(f"{folder} has no vocabulary.json. Download the whole model again.")
        return found, found
    shared = read_vocabulary(folder, "shared_vocabulary")
    if shared:
        return shared, shared
    source, target = (read_vocabulary(folder, f"{side}_vocabulary") for side in ("source", "target"))
    if not source or not target:
        raise HeadwayError(f"{folder} has no shared_vocabulary.json, nor one for each side. Download it again.")
    return source, target


def read_vocabulary(folder: Path, name: str) -> list[str]:
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


def read_special_ids(folder: Path, settings: Json, objective: str, vocabulary: list[str]) -> dict[str, int]:
    """The special ids that its config.json names, in the words of a config of Hugging Face."""
    ids = {spelling: n for n, spelling in enumerate(vocabulary)}
    found = {}
    for name, (key, default) in SPECIAL_TOKENS[objective].items():
        token = settings.get(key, default)
        if token in ids:
            found[name] = ids[token]
        elif name in REQUIRED:
            raise ConversionError(f"{folder}: its vocabulary lacks {token}, the {key} of its config.json.")
    return found
