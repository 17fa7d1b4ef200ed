"""The head of a model card: what README.md says about a model in a form for programs, between two lines of ---.

It is that part of YAML which such heads use: `key: value`, `key: [a, b]`, and below a key `- value` or `name: value`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Value = str | list[str] | dict[str, str]
ENTRY = re.compile(r"([^\s#:-][^:]*):(?:\s+(.*))?")


@dataclass(frozen=True)
class Card:
    licence: str = ""
    scores: dict[str, str] = field(default_factory=dict)  # test set -> what was measured there


def read_card(folder: Path) -> Card:
    """Nothing, where there is no card or it has no head."""
    try:
        head = read_head((folder / "README.md").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return Card()
    licence, scores = head.get("license") or head.get("licence") or "", head.get("scores")
    told = ", ".join(licence) if isinstance(licence, list) else licence if isinstance(licence, str) else ""
    return Card(told, scores if isinstance(scores, dict) else {})


def read_head(text: str) -> dict[str, Value]:
    """What is not understood is left out."""
    first, *lines = text.split("\n")
    if first.rstrip() != "---" or "---" not in [line.rstrip() for line in lines]:
        return {}
    found: dict[str, Value] = {}
    key = ""
    for line in lines:
        if line.rstrip() == "---":
            break
        entry, inner = ENTRY.fullmatch(line.rstrip()), line.strip()
        under = found.get(key, "")
        if entry:
            key = entry[1]
            found[key] = _value(entry[2] or "")
        elif inner.startswith("- ") and not isinstance(under, dict):
            found[key] = [*(under if isinstance(under, list) else []), _plain(inner[2:])]
        elif (named := ENTRY.fullmatch(inner)) and not isinstance(under, list) and line.startswith(" "):
            found[key] = {**(under if isinstance(under, dict) else {}), named[1]: _plain(named[2] or "")}
    return {name: value for name, value in found.items() if name}


def _value(text: str) -> Value:
    if text.startswith("[") and text.endswith("]"):
        return [_plain(part) for part in text[1:-1].split(",") if part.strip()]
    return _plain(text)


def _plain(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def written_head(languages: Sequence[str], scores: Mapping[str, str], licence: str = "", base: str = "") -> str:
    """As read_head reads it; "" where there is nothing to say. base: the model that it was made from."""
    lines = [f"{name}: {told}" for name, told in (("license", licence), ("base_model", base)) if told]
    lines += ["language:", *(f"- {language}" for language in languages)] if languages else []
    if scores:
        lines += ["scores:", *(f"  {name}: {told}" for name, told in scores.items())]
    return "\n".join(["---", *lines, "---", "", ""]) if lines else ""
