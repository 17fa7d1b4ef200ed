"""The JSON files of a Hugging Face directory, and what they say about text: special ids, settings of generation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.convert.architecture import ConversionError, Json
from headway.convert.json_files import read_json_object
from headway.text.tokenizer.pair import Tokenizers

# The token of each special id, by its name in tokenizer_config.json, and by its name in config.json.
TOKEN_NAMES: dict[str, dict[str, tuple[str, ...]]] = {
    "translation": {"start": (), "end": ("eos_token",)},
    "causal": {"start": ("bos_token",), "end": ("eos_token",)},
    "masked": {"start": ("cls_token", "bos_token"), "end": ("sep_token", "eos_token")},
}
ID_NAMES: dict[str, dict[str, tuple[str, ...]]] = {
    "translation": {"start": ("decoder_start_token_id", "bos_token_id"), "end": ("eos_token_id",)},
    "causal": {"start": ("bos_token_id",), "end": ("eos_token_id",)},
    "masked": {"start": (), "end": ()},
}


@dataclass(frozen=True, kw_only=True)
class ModelText:
    """What a model reads and writes."""

    tokenizers: Tokenizers
    source_languages: tuple[str, ...] = ()  # empty: the model does not say, and --from and --to do
    target_languages: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    path: Path
    config: Json
    generation: Json = field(default_factory=dict)  # generation_config.json over what config.json says
    tokenizer_config: Json = field(default_factory=dict)
    vocabulary: tuple[
        str, ...
    ] = ()  # the spelling of each id, where another toolkit says it beside the original's files
    target_language: str = ""  # that the user says

    @classmethod
    def open(cls, path: Path) -> "ModelFolder":
        config = read_json_object(path / "config.json")
        special = read_optional(path / "special_tokens_map.json")
        return cls(
            path=path,
            config=config,
            generation={**config, **read_optional(path / "generation_config.json")},
            tokenizer_config={**special, **read_optional(path / "tokenizer_config.json")},
        )

    def has(self, *names: str) -> bool:
        return all((self.path / name).exists() for name in names)

    def token(self, name: str) -> str:
        """The spelling of a special token; "" where the directory does not say."""
        value = self.tokenizer_config.get(name)
        content = value.get("content") if isinstance(value, Mapping) else value
        return content if isinstance(content, str) else ""

    def added_tokens(self) -> dict[int, Json]:
        """Tokens that were added to a vocabulary, by id, as tokenizer_config.json (or added_tokens.json) has them."""
        tokens: Any = self.tokenizer_config.get("added_tokens_decoder")
        if tokens is None:
            added = read_optional(self.path / "added_tokens.json")
            tokens = {n: {"content": spelling, "special": True} for spelling, n in added.items()}
        try:
            return {int(n): dict(token) for n, token in tokens.items() if isinstance(token["content"], str)}
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ConversionError(f"{self.path}: its added tokens cannot be read. Download the model again.") from None

    def special_ids(self, objective: str, ids: Mapping[str, int], **more: int) -> dict[str, int]:
        """The ids of pad, start, end, and of mask and unknown if there are such. `ids`: of each spelling; `more`: ids
        that the caller knows better."""
        found: dict[str, int | None] = {
            name: self._id(ID_NAMES[objective][name], TOKEN_NAMES[objective][name], ids) for name in ("start", "end")
        }
        found["pad"] = self._id(("pad_token_id",), ("pad_token",), ids)
        found["mask"] = self._id((), ("mask_token",), ids)
        found["unknown"] = self._id((), ("unk_token",), ids)
        found |= more
        if found["end"] is None:
            raise ConversionError(f"{self.path} does not say which token ends a text (eos_token_id in config.json).")
        for name in ("start", "pad"):
            found[name] = found["end"] if found[name] is None else found[name]
        return {name: n for name, n in found.items() if n is not None}

    def _id(self, numbers: tuple[str, ...], tokens: tuple[str, ...], ids: Mapping[str, int]) -> int | None:
        """By the number in the config, else by the spelling of a token."""
        spelled = [ids[self.token(name)] for name in tokens if self.token(name) in ids]
        for name in numbers:
            value = self.generation.get(name)
            if isinstance(value, list):  # several ends
                value = next((n for n in spelled if n in value), value[0] if value else None)
            if type(value) is int and value >= 0:
                return value
        return spelled[0] if spelled else None


def read_optional(path: Path) -> Json:
    return read_json_object(path) if path.exists() else {}
