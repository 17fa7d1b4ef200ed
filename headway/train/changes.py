"""A run that goes on must be the run that was begun: what may differ, what must be asked for, what cannot."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headway.config import Config, leaves
from headway.errors import HeadwayError

# What the tensors of a checkpoint depend on: nothing else fits them.
FIXED = ("tokenizer", "vocabularies", "source_languages", "target_languages", "model", "train.objective", "train.optimiser")  # fmt: skip
# What changes no step but their number, how they are measured, and what is kept of them.
FREE = (
    "search", "train.steps", "train.epochs", "train.seconds", "train.validate_every", "train.patience", "train.metric",
    "train.decode_lines", "train.keep_last", "train.keep_best", "train.average", "train.log_every", "train.compile",
    "train.micro_batch_tokens",
)  # fmt: skip
# Where a dropout may change though the tensors stay as they are.
SOFT = "dropout"


def changes(before: Config, now: Config) -> Iterator[tuple[str, Any, Any]]:
    """Dotted path, old value, new value."""
    old, new = (dict(leaves(_numbered(config.to_dict()))) for config in (before, now))
    for path in dict.fromkeys([*old, *new]):
        if old.get(path) != new.get(path):
            yield path, old.get(path), new.get(path)


def refuse_changes(out: Path, config: Config, text: str, state: dict[str, Any], allowed: bool) -> list[str]:
    """What differs from the run in `out`, in words; refused where it cannot be, or was not asked for."""
    told = []
    for path, old, new in changes(Config.load(out / "config.json"), config):
        difference = f"{path} was {old} and is {new} now"
        if _within(path, FIXED) and not path.endswith(SOFT):
            raise HeadwayError(
                f"{out} holds a run with other settings: {difference}. Give the same settings, or choose another --out."
            )
        if not _within(path, FREE) and not allowed:
            raise HeadwayError(
                f"{out} holds a run with other settings: {difference}. Give the same settings, choose another --out, or "
                "go on with the new ones: --allow-changes"
            )
        told.append(difference)
    if state.get("text") != text:
        if not allowed:
            raise HeadwayError(
                f"the training text is not the one that the run in {out} was begun with. Give the same files with the "
                "same weights, choose another --out, or go on with the new text: --allow-changes"
            )
        told.append("the training text has changed")
    return told


def moves_batches(told: list[str]) -> bool:
    """Whether the batches of an epoch are other ones now, so that it cannot be gone on with in its middle."""
    moving = ("the training text", "train.batch_tokens", "train.longest", "train.seed", "train.compile")
    return any(difference.startswith(moving) for difference in told)


def _numbered(value: Any) -> Any:
    """Lists of parts as tables, so that a change inside one has a path."""
    if isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
        value = {str(number): entry for number, entry in enumerate(value)}
    return {key: _numbered(entry) for key, entry in value.items()} if isinstance(value, dict) else value


def _within(path: str, sections: tuple[str, ...]) -> bool:
    return any(path == section or path.startswith(f"{section}.") for section in sections)
