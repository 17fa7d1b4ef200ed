"""Directories of sentence-transformers: modules.json says how the vectors of an encoder become one for a text."""

import json
from pathlib import Path
from typing import Any

from headway.convert.architecture import ConversionError, Json
from headway.convert.json_files import read_json_object
from headway.errors import HeadwayError

MODULES = "modules.json"
POOLING = "pooling_mode_"
POOLINGS = {
    "mean": "mean", "mean_tokens": "mean", "cls": "first", "cls_token": "first", "max": "max", "max_tokens": "max",
}  # fmt: skip


def read_sentence_modules(folder: Path) -> Json | None:
    """How this directory makes vectors of texts, as `sentence_embedding` in the config of its encoder: pooling,
    normalise, max_tokens. None where it is not of sentence-transformers."""
    if not (folder / MODULES).exists():
        return None
    modules = _read_modules(folder / MODULES)
    kinds = [kind for kind, _ in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise ConversionError(
            f"{folder / MODULES}: {', '.join(kinds)} cannot be imported, only Transformer and Pooling, with or "
            "without Normalize."
        )
    path = modules[1][1]
    found: Json = {
        "pooling": _read_pooling(read_json_object(folder / path / "config.json")),
        "normalise": kinds[-1] == "Normalize",
    }
    settings = folder / "sentence_bert_config.json"
    table = read_json_object(settings) if settings.exists() else {}
    if table.get("do_lower_case"):
        raise ConversionError(f"{settings}: do_lower_case is not supported. Lower-case the texts, and set it to false.")
    limit = table.get("max_seq_length")
    if type(limit) is int and limit > 0:
        found["max_tokens"] = limit
    return found


def _read_modules(path: Path) -> list[tuple[str, str]]:
    """The kind and the folder of each module."""
    try:
        entries: Any = json.loads(path.read_text(encoding="utf-8"))
        modules = [(str(entry["type"]).rpartition(".")[2], str(entry["path"])) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise HeadwayError(f"{path} is damaged. Download it again.") from None
    for _, folder in modules:
        if (path.parent / folder).parent not in (path.parent, path.parent.parent):
            raise HeadwayError(f"{path} names the folder {folder!r} outside of its own, which is not read.")
    return modules


def _read_pooling(table: Json) -> str:
    named = table.get("pooling_mode")
    chosen = [named] if named else [n.removeprefix(POOLING) for n, on in table.items() if n.startswith(POOLING) and on]
    if len(chosen) != 1 or chosen[0] not in POOLINGS:
        raise ConversionError(
            f"the pooling {' and '.join(map(str, chosen)) or 'of nothing'} of its Pooling module is not supported, "
            "only one of mean, cls and max."
        )
    return POOLINGS[chosen[0]]
