"""ModelSummary: what translating needs to know of a model, read from config.json without torch."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.config.renamed import FORMAT_VERSION, current_config
from headway.config.search import Search
from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.config.config import Config

LIMITED_SLOTS = ("position", "mixer", "cross", "nodes")  # whose parts may have learned something for each position


@dataclass(frozen=True)
class ModelSummary:
    objective: str
    source_languages: tuple[str, ...]
    target_languages: tuple[str, ...]
    search: Search
    max_tokens: int  # of a text in its training
    max_positions: int | None  # the longest text that its learned positions allow, if it has any
    placeholders: bool = False  # whether it was trained to copy placeholders like ⟦0⟧
    frontend: str = "tokens"  # of its encoder: what it reads

    @property
    def tags(self) -> tuple[str, ...]:
        """The target languages of a model with several: each source text begins with the tag of one of them."""
        return self.target_languages if len(self.target_languages) > 1 else ()

    @property
    def languages(self) -> frozenset[str]:
        """Of both sides."""
        return frozenset((*self.source_languages, *self.target_languages))


def summarise(config: "Config") -> ModelSummary:
    stacks = [getattr(config.model, side) for side in config.model.sides]
    parts = [part for stack in stacks for slot in LIMITED_SLOTS for part in getattr(stack, slot) or ()]
    limits = [part.max_positions for part in parts if hasattr(part, "max_positions")]
    return ModelSummary(
        config.train.objective.kind,
        config.source_languages,
        config.target_languages,
        config.search,
        config.train.max_tokens,
        min(limits, default=None),
        config.train.placeholder_share > 0,
        "tokens" if config.model.encoder.frontend is None else config.model.encoder.frontend.kind,
    )


def read_summary(folder: Path) -> tuple[ModelSummary, dict[str, Any]] | None:
    """The summary and all of config.json, with today's names of settings. None where Headway did not write it so;
    Config.load then says why."""
    try:
        table = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if table["format_version"] not in range(1, FORMAT_VERSION + 1):
            return None
        table = current_config(table)
        sides = [table["model"][side] for side in ("encoder", "decoder") if table["model"][side]["layers"]]
        parts = [part for side in sides for slot in LIMITED_SLOTS for part in side.get(slot) or ()]
        limits = [part["max_positions"] for part in parts if "max_positions" in part]
        train = table["train"]
        languages = [table[f"{side}_languages"] for side in ("source", "target")]
        if type(train["max_tokens"]) is not int or not all(isinstance(tag, str) for side in languages for tag in side):
            return None
        summary = ModelSummary(
            str(train["objective"]["kind"]),
            tuple(languages[0]),
            tuple(languages[1]),
            Search(**table["search"]),
            train["max_tokens"],
            min(limits, default=None),
            train.get("placeholder_share", 0) > 0,
            str((table["model"]["encoder"].get("frontend") or {}).get("kind", "tokens")),
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, HeadwayError):
        return None
    return summary, table
