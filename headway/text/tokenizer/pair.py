"""The tokenizers of a model, one for each side or one shared by both, and their file, tokenizer.json."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.errors import HeadwayError
from headway.files.atomic import write_text_atomically
from headway.text.tokenizer.imported import make_tokenizer
from headway.text.tokenizer.tokenizer import Tokenizer

FORMAT_VERSION = 1


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise HeadwayError(f"{path} does not exist. A model directory holds its tokenizer in this file.") from None
    except OSError as error:
        raise HeadwayError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise HeadwayError(f"{path} is truncated or damaged: {error}. Copy it again.") from None


@dataclass(frozen=True)
class Tokenizers:
    """The source and target tokenizers: the same object if the vocabulary is shared."""

    source: Tokenizer
    target: Tokenizer

    @property
    def shared(self) -> bool:
        return self.source is self.target

    @property
    def fingerprints(self) -> tuple[str, str]:
        """Of source and target. Tokenizers with equal fingerprints give an id the same meaning."""
        return self.source.fingerprint(), self.target.fingerprint()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file atomically: in the library's format if shared, else with both inside."""
        data = self.source.to_json()
        if not self.shared:
            data = {"format_version": FORMAT_VERSION, "source": data, "target": self.target.to_json()}
        write_text_atomically(Path(path), json.dumps(data, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Tokenizers":
        data = read_json(Path(path))
        separate = isinstance(data, dict) and "format_version" in data
        if separate and data["format_version"] != FORMAT_VERSION:
            raise HeadwayError(
                f"{path} has format_version {data['format_version']}; this Headway reads {FORMAT_VERSION}. "
                "Update Headway to read it."
            )
        try:
            if separate:
                return cls(make_tokenizer(data.get("source")), make_tokenizer(data.get("target")))
            tokenizer = make_tokenizer(data)
            return cls(tokenizer, tokenizer)
        except HeadwayError as error:
            raise HeadwayError(f"{path}: {error}") from None
