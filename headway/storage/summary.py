"""What a translator must know of its model, read from config.json without torch, which the whole config needs."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.config.search import Search
from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.config.config import Config

FORMAT_VERSION = 1  # of config.json; see headway.config.config


@dataclass(frozen=True)
class Outline:
    objective: str
    source_languages: tuple[str, ...]
    target_languages: tuple[str, ...]
    search: Search
    longest: int  # tokens of a text that it has learned to read
    positions: int | None  # where its learned positions end, if they do
    placeholders: bool = False  # whether it has learned to carry them over

    @property
    def tags(self) -> tuple[str, ...]:
        """Target languages that the source must name, because there is more than one."""
        return self.target_languages if len(self.target_languages) > 1 else ()

    @property
    def languages(self) -> frozenset[str]:
        """Of both sides."""
        return frozenset((*self.source_languages, *self.target_languages))


def outline_of(config: "Config") -> Outline:
    parts = [part for side in config.model.sides for part in getattr(config.model, side).position]
    return Outline(
        config.train.objective.kind,
        config.source_languages,
        config.target_languages,
        config.search,
        config.train.longest,
        min((part.longest for part in parts if part.kind == "learned"), default=None),
        config.train.placeholders > 0,
    )


def read_outline(folder: Path) -> tuple[Outline, dict[str, Any]] | None:
    """The outline and all of config.json; None where it is not as Headway writes it: Config.load says why."""
    try:
        table = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if table["format_version"] != FORMAT_VERSION:
            return None
        sides = [table["model"][side] for side in ("encoder", "decoder") if table["model"][side]["layers"]]
        ends = [part["longest"] for side in sides for part in side["position"] if part["kind"] == "learned"]
        train, languages = table["train"], [table[f"{side}_languages"] for side in ("source", "target")]
        if type(train["longest"]) is not int or not all(isinstance(one, str) for side in languages for one in side):
            return None
        found = Outline(
            str(train["objective"]["kind"]),
            tuple(languages[0]),
            tuple(languages[1]),
            Search(**table["search"]),
            train["longest"],
            min(ends, default=None),
            train.get("placeholders", 0) > 0,
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, HeadwayError):
        return None
    return found, table
