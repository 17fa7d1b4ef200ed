"""Config: everything that defines a model and its training; frozen, keyword-only, strict; to and from TOML and JSON."""

import json
import os
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headway.config.schema import Node, Part, from_dict, slot, subtree
from headway.errors import ConfigError, HeadwayError

if TYPE_CHECKING:
    from headway.config.search import Search
    from headway.nn.transformer import Transformer
    from headway.train.config import Training

FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Config(Node):
    format_version: int = FORMAT_VERSION
    source_languages: tuple[str, ...] = ()
    target_languages: tuple[str, ...] = ()
    tokenizer: Part = slot("tokenizer", "bpe")
    vocabularies: Literal["shared", "separate"] = "shared"
    model: "Transformer.Config" = subtree("headway.nn.transformer:Transformer")
    train: "Training" = subtree("headway.train.config:Training")
    search: "Search" = subtree("headway.config.search:Search")

    def resolved(self) -> "Config":
        """Derived values filled in, impossible combinations refused."""
        try:
            model = self.model.resolved()
        except ConfigError as error:
            raise error.inside("model") from None
        self.train.refuse(model)
        return replace(self, model=model)

    @property
    def tags(self) -> tuple[str, ...]:
        """Target languages that the source must name, because there is more than one."""
        return self.target_languages if len(self.target_languages) > 1 else ()

    def save(self, path: Path) -> None:
        write_atomically(path, json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n")

    @staticmethod
    def load(path: str | Path) -> "Config":
        """From .toml, or from the .json of a model directory."""
        path = Path(path)
        table = read_json(path) if path.suffix == ".json" else read_toml(path)
        try:
            return from_table(table)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
        except HeadwayError as error:
            raise HeadwayError(f"{path}: {error}") from None


def from_table(table: dict[str, Any]) -> Config:
    version = table.get("format_version", FORMAT_VERSION)
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise HeadwayError(
            f"this model was written in format {version}, and this Headway reads up to {FORMAT_VERSION}. "
            "Install a newer Headway."
        )
    return from_dict(Config, table).resolved()


def read_json(path: Path) -> dict[str, Any]:
    try:
        table = json.loads(_text(path))
    except json.JSONDecodeError as error:
        raise HeadwayError(f"{path} is damaged: line {error.lineno} is not JSON. Copy it anew.") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, lists in lists in lists
        raise HeadwayError(f"{path} is damaged: what it holds cannot be read. Copy it anew.") from None
    if not isinstance(table, dict):
        raise HeadwayError(f"{path} does not hold a config: it should be one JSON object.")
    return table


def read_toml(path: Path) -> dict[str, Any]:
    text = _text(path)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = str(error).rpartition("(")[2].rstrip(")").removeprefix("at ")
        raise ConfigError(
            f'{path} cannot be read: {place}. Each line is [section] or key = value; strings stand in "quotes", '
            "true and false in lower case, and no key comes twice."
        ) from None
    except (ValueError, RecursionError):
        raise ConfigError(
            f"{path} cannot be read: a number in it has thousands of digits, or lists stand in lists without end."
        ) from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")  # some editors put a mark in front
    except (FileNotFoundError, IsADirectoryError):
        raise HeadwayError(f"there is no config file {path}.") from None
    except (UnicodeDecodeError, PermissionError):
        raise HeadwayError(f"{path} cannot be read as text. A config is UTF-8 text.") from None


def to_toml(values: dict[str, Any], remarks: dict[str, str] | None = None) -> str:
    """One dotted key a line, with a remark behind it where there is one. Reads back as TOML."""
    lines = [f"{path} = {toml_value(value)}" for path, value in leaves(values)]
    width = max((len(line) for line in lines if len(line) < 60), default=0)
    told = [
        f"{line:{width}}  # {_printable(remarks[path])}" if remarks else line
        for line, (path, _) in zip(lines, leaves(values))
    ]
    return "\n".join(told) + "\n"


def _printable(text: str) -> str:
    """A comment ends with its line, and a file's name may hold anything."""
    return "".join(character if character.isprintable() else "?" for character in text)


def toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(toml_value(entry) for entry in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml_value(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML escapes one more than JSON
    return repr(value)


def leaves(values: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Dotted paths and what stands there; lists are whole."""
    found: list[tuple[str, Any]] = []
    for name, value in values.items():
        if isinstance(value, dict) and value:
            found += leaves(value, f"{prefix}{name}.")
        else:
            found.append((prefix + name, value))
    return found


def write_atomically(path: Path, text: str) -> None:
    """All of it or nothing, whatever happens in between."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)
