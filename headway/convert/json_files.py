"""JSON files that came from elsewhere, one object of a bounded size each; and those that exports write."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.errors import HeadwayError
from headway.files.atomic import write_text_atomically

MAX_JSON_BYTES = 256 * 2**20  # the largest tokenizer.json that is in use has 35 MB


def read_json_object(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise HeadwayError(f"{path} has {path.stat().st_size:,} bytes, too many for a file of this kind.")
        table: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise HeadwayError(f"{path} is missing. Download the whole model again.") from None
    except (OSError, ValueError, RecursionError):
        raise HeadwayError(f"{path} is damaged: it is not JSON. Download it again.") from None
    if not isinstance(table, Mapping):
        raise HeadwayError(f"{path} is damaged: it must hold one JSON object.")
    return dict(table)


def write_json(path: Path, table: object) -> None:
    write_text_atomically(path, json.dumps(table, ensure_ascii=False, indent=2) + "\n")
