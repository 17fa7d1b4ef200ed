"""Model cards: the YAML front matter of README.md, between two lines of ---, which programs read.

The part of YAML that front matter uses: `key: value`, `key: [a, b]`, and below a key `- value` or `name: value`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FrontMatterValue = str | list[str] | dict[str, str]
ENTRY_LINE = re.compile(r"([^\s#:-][^:]*):(?:\s+(.*))?")


@dataclass(frozen=True)
class ModelCard:
    licence: str = ""
    scores: dict[str, str] = field(default_factory=dict)  # test set -> scores on it


def read_card(folder: Path) -> ModelCard:
    """The card of a model directory; empty where there is no README.md or it has no front matter."""
    try:
        front_matter = parse_front_matter((folder / "README.md").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return ModelCard()
    licence = front_matter.get("license") or front_matter.get("licence") or ""
    if isinstance(licence, list):
        licence = ", ".join(licence)
    scores = front_matter.get("scores")
    return ModelCard(licence if isinstance(licence, str) else "", scores if isinstance(scores, dict) else {})


def parse_front_matter(text: str) -> dict[str, FrontMatterValue]:
    """The keys and values; lines in other forms are skipped."""
    first, *lines = text.split("\n")
    if first.rstrip() != "---" or "---" not in [line.rstrip() for line in lines]:
        return {}
    table: dict[str, FrontMatterValue] = {}
    key = ""
    for line in lines:
        if line.rstrip() == "---":
            break
        entry = ENTRY_LINE.fullmatch(line.rstrip())
        inner = line.strip()
        value = table.get(key, "")
        if entry:
            key = entry[1]
            table[key] = _parse_value(entry[2] or "")
        elif inner.startswith("- ") and not isinstance(value, dict):
            table[key] = [*(value if isinstance(value, list) else []), _unquote(inner[2:])]
        elif (field_entry := ENTRY_LINE.fullmatch(inner)) and not isinstance(value, list) and line.startswith(" "):
            table[key] = {**(value if isinstance(value, dict) else {}), field_entry[1]: _unquote(field_entry[2] or "")}
    return {name: value for name, value in table.items() if name}


def _parse_value(text: str) -> FrontMatterValue:
    if text.startswith("[") and text.endswith("]"):
        return [_unquote(part) for part in text[1:-1].split(",") if part.strip()]
    return _unquote(text)


def _unquote(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def format_front_matter(languages: Sequence[str], scores: Mapping[str, str], licence: str = "", base: str = "") -> str:
    """As parse_front_matter reads it; "" if there is nothing to write. base: the model that it was fine-tuned from."""
    lines = [f"{name}: {value}" for name, value in (("license", licence), ("base_model", base)) if value]
    lines += ["language:", *(f"- {language}" for language in languages)] if languages else []
    if scores:
        lines += ["scores:", *(f"  {name}: {value}" for name, value in scores.items())]
    return "\n".join(["---", *lines, "---", "", ""]) if lines else ""
