"""Config: every setting of a model, its training and its search; frozen and strict; reads and writes TOML and JSON."""

import json
import tomllib
import warnings
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headway.config.own_kinds import distribution_of, reading_stored
from headway.config.renamed import FORMAT_VERSION
from headway.config.schema import Node, Part, find_object_parts, find_own_parts, from_dict, slot, subtree
from headway.errors import ConfigError, HeadwayError
from headway.files.atomic import write_text_atomically

if TYPE_CHECKING:
    from headway.config.search import Search
    from headway.nn.transformer import Transformer
    from headway.train.config import TrainConfig

PACKAGES = "packages"  # in config.json: the package of each kind that is not Headway's, for whoever has to install it

UNSET = object()


@dataclass(frozen=True, kw_only=True)
class Config(Node):
    """Everything about a model: languages, tokenizer, architecture, training and search; written to config.json."""

    format_version: int = FORMAT_VERSION
    source_languages: tuple[str, ...] = ()
    target_languages: tuple[str, ...] = ()
    labels: tuple[str, ...] | None = None  # of a task, in the order of its scores
    tokenizer: Part = slot("tokenizer", "bpe")
    vocabularies: Literal["shared", "separate"] = "shared"
    model: "Transformer.Config" = subtree("headway.nn.transformer:Transformer")
    train: "TrainConfig" = subtree("headway.train.config:TrainConfig")
    search: "Search" = subtree("headway.config.search:Search")

    def __repr__(self) -> str:
        """What differs from the defaults, by path."""
        defaults = dict(flatten(Config().to_dict()))
        changed = [(path, value) for path, value in flatten(self.to_dict()) if defaults.get(path, UNSET) != value]
        return f"Config({', '.join(f'{path}={value!r}' for path, value in changed)})"

    def resolved(self) -> "Config":
        """With derived values filled in. Raises ConfigError if the settings do not fit together."""
        try:
            model = self.model.resolved()
        except ConfigError as error:
            raise error.inside("model") from None
        self.train.check(model)
        return replace(self, model=model)

    @property
    def tags(self) -> tuple[str, ...]:
        """The target languages of a model with several: each source text begins with the tag of one of them."""
        return self.target_languages if len(self.target_languages) > 1 else ()

    def save(self, path: Path) -> None:
        """Write config.json."""
        for where in find_object_parts(self):
            raise ConfigError(
                "this is a Python object, which cannot be written to config.json. Use a kind of the catalogue, or a "
                "class of your own: see docs/own-kinds.md.",
                where,
            )
        table = self.to_dict()
        own = {part.kind: distribution_of(part) for part in find_own_parts(self)}
        if own:
            table[PACKAGES] = own
        write_text_atomically(path, json.dumps(table, indent=2, ensure_ascii=False) + "\n")

    @staticmethod
    def load(path: str | Path) -> "Config":
        """Read a .toml file, or the config.json of a model directory."""
        path = Path(path)
        stored = path.suffix == ".json"
        table = read_json(path) if stored else read_toml(path)
        try:
            with reading_stored(table.get(PACKAGES)) if stored else nullcontext():
                config = read_config(table)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
        except HeadwayError as error:
            raise HeadwayError(f"{path}: {error}") from None
        if not stored:
            from headway.config.sources import Layer, find_old_names  # which needs this module

            for note in find_old_names([Layer(f"file {path}", table)]):
                warnings.warn(note, FutureWarning, stacklevel=2)
        return config


def read_config(table: dict[str, Any]) -> Config:
    """The config of a table, as TOML or JSON gives it, with old names replaced and derived values filled in."""
    version = table.get("format_version", FORMAT_VERSION)
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise HeadwayError(
            f"this model was written in format {version}, and this Headway reads up to {FORMAT_VERSION}. "
            "Install a newer Headway."
        )
    config = from_dict(Config, {name: value for name, value in table.items() if name != PACKAGES}).resolved()
    return config if config.format_version == FORMAT_VERSION else replace(config, format_version=FORMAT_VERSION)


def read_json(path: Path) -> dict[str, Any]:
    try:
        table = json.loads(_read_text(path))
    except json.JSONDecodeError as error:
        raise HeadwayError(f"{path} is damaged: line {error.lineno} is not JSON. Copy it again.") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, or lists nested too deeply
        raise HeadwayError(f"{path} is damaged: it is not valid JSON. Copy it again.") from None
    if not isinstance(table, dict):
        raise HeadwayError(f"{path} is not a config: it must hold one JSON object.")
    return table


def read_toml(path: Path) -> dict[str, Any]:
    text = _read_text(path)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        position = str(error).rpartition("(")[2].rstrip(")").removeprefix("at ")
        raise ConfigError(
            f'{path} is not valid TOML: {position}. Each line is [section] or key = value; strings are in "quotes", '
            "true and false in lower case, and no key is given twice."
        ) from None
    except (ValueError, RecursionError):
        raise ConfigError(
            f"{path} cannot be read: a number has thousands of digits, or lists are nested too deeply."
        ) from None


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")  # some editors write a byte order mark
    except (FileNotFoundError, IsADirectoryError):
        raise HeadwayError(f"there is no config file {path}.") from None
    except (UnicodeDecodeError, PermissionError):
        raise HeadwayError(f"{path} cannot be read: a config must be UTF-8 text.") from None


def to_toml(values: dict[str, Any], comments: dict[str, str] | None = None) -> str:
    """Valid TOML with one dotted key a line, each with its comment if there are comments."""
    lines = [f"{path} = {format_toml_value(value)}" for path, value in flatten(values)]
    if comments:
        width = max((len(line) for line in lines if len(line) < 60), default=0)
        paths = [path for path, _ in flatten(values)]
        lines = [f"{line:{width}}  # {_to_printable(comments[path])}" for line, path in zip(lines, paths)]
    return "\n".join(lines) + "\n"


def _to_printable(text: str) -> str:
    """A comment must stay on its line, and a file name may contain any character."""
    return "".join(character if character.isprintable() else "?" for character in text)


def format_toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(format_toml_value(entry) for entry in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {format_toml_value(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML escapes DEL, JSON does not
    return repr(value)


def flatten(values: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Dotted paths with their values. Lists are not split."""
    found: list[tuple[str, Any]] = []
    for name, value in values.items():
        if isinstance(value, dict) and value:
            found += flatten(value, f"{prefix}{name}.")
        else:
            found.append((prefix + name, value))
    return found
