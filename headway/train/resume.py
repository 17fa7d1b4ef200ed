"""A run that goes on must be the run that was begun: what may differ, what must be asked for, what cannot."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headway.config.config import Config, leaves
from headway.errors import HeadwayError
from headway.train.sources import Texts

# What the tensors of a checkpoint depend on: nothing else fits them.
FIXED = ("tokenizer", "vocabularies", "source_languages", "target_languages", "model", "train.objective", "train.optimiser")  # fmt: skip
# What changes no step but their number, how they are measured, and what is kept of them.
FREE = (
    "search", "train.steps", "train.epochs", "train.seconds", "train.validate_every", "train.patience", "train.metric",
    "train.decode_lines", "train.keep_last", "train.keep_best", "train.average", "train.log_every", "train.compile",
    "train.micro_batch_tokens", "train.graphs", "train.shortlist",
)  # fmt: skip
# What makes other batches of the same epoch, so that it cannot be gone on with in its middle.
MOVING = ("text", "train.batch_tokens", "train.longest", "train.seed", "train.compile", "train.batches")


class Change(NamedTuple):
    path: str  # dotted; "text" is the training text, "validation text" the other
    told: str


def changes(before: Config, now: Config) -> Iterator[Change]:
    old, new = (dict(leaves(_numbered(config.to_dict()))) for config in (before, now))
    for path in dict.fromkeys([*old, *new]):
        if old.get(path) != new.get(path):
            yield Change(path, f"{path} was {old.get(path)} and is {new.get(path)} now")


def refuse_changes(out: Path, config: Config, texts: Texts, state: dict[str, Any], allowed: bool) -> list[Change]:
    """What differs from the run in `out`; refused where it cannot be, or was not asked for."""
    found = []
    for change in changes(Config.load(out / "config.json"), config):
        if _within(change.path, FIXED) and not change.path.endswith("dropout"):  # no tensor has its size
            raise HeadwayError(
                f"{out} holds a run with other settings: {change.told}. Give the same settings, or choose another --out."
            )
        if not _within(change.path, FREE) and not allowed:
            raise HeadwayError(
                f"{out} holds a run with other settings: {change.told}. Give the same settings, choose another --out, or "
                "go on with the new ones: --allow-changes"
            )
        found.append(change)
    if state.get("text") != texts.identity:
        if not allowed:
            raise HeadwayError(
                f"the training text is not the one that the run in {out} was begun with. Give the same files with the "
                "same weights, choose another --out, or go on with the new text: --allow-changes"
            )
        found.append(Change("text", "the training text has changed"))
    if state.get("valid_text", texts.valid_identity) != texts.valid_identity:
        found.append(Change("validation text", "the validation text has changed"))
    return found


def measured_otherwise(changed: Sequence[Change], metric: str) -> bool:
    """Whether scores of before are no measure for those to come."""
    affecting = {"validation text", "train.metric", "train.longest" if metric == "loss" else "train.decode_lines"}
    return any(change.path in affecting for change in changed)


def _numbered(value: Any) -> Any:
    """Lists of parts as tables, so that a change inside one has a path."""
    if isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
        value = {str(number): entry for number, entry in enumerate(value)}
    return {key: _numbered(entry) for key, entry in value.items()} if isinstance(value, dict) else value


def _within(path: str, sections: tuple[str, ...]) -> bool:
    return any(path == section or path.startswith(f"{section}.") for section in sections)
