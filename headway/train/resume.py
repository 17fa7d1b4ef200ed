"""Resuming a run: which settings may have changed since, which need --allow-changes, and which cannot change."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from headway.config.config import Config, flatten
from headway.errors import HeadwayError
from headway.nn.layers.lora import LoraConfig
from headway.train.sources import TrainingTexts

# The tensors of a checkpoint depend on these: they can never change.
FIXED_SETTINGS = (
    "tokenizer", "vocabularies", "source_languages", "target_languages", "labels", "model", "train.objective",
    "train.optimiser",
)  # fmt: skip
# These do not affect the steps themselves, only their number, how they are measured and which checkpoints are kept.
FREE_SETTINGS = (
    "search", "train.steps", "train.epochs", "train.seconds", "train.validate_every", "train.patience", "train.metric",
    "train.decode_lines", "train.keep_last", "train.keep_best", "train.average", "train.log_every", "train.compile",
    "train.micro_batch_tokens", "train.cuda_graphs", "train.shortlist", "train.index",
)  # fmt: skip
# These change the batches of an epoch, so that training resumes with the next one.
REBATCHING_SETTINGS = ("text", "train.batch_tokens", "train.max_tokens", "train.seed", "train.compile", "train.batches")


class ConfigChange(NamedTuple):
    path: str  # dotted; or "text", the training text, or "validation text"
    message: str


def find_changes(before: Config, now: Config) -> Iterator[ConfigChange]:
    old, new = (dict(flatten(_lists_to_tables(config.to_dict()))) for config in (before, now))
    for path in dict.fromkeys([*old, *new]):
        if old.get(path) != new.get(path):
            yield ConfigChange(path, f"{path} was {old.get(path)} and is {new.get(path)} now")


def check_changes(
    out: Path, config: Config, texts: TrainingTexts, state: dict[str, Any], allowed: bool
) -> list[ConfigChange]:
    """What differs from the run in `out`. Raises if a change is impossible, or needs --allow-changes and was not
    `allowed`."""
    found = []
    for change in find_changes(Config.load(out / "config.json"), config):
        if _is_within(change.path, FIXED_SETTINGS) and not change.path.endswith("dropout"):  # no tensor depends on it
            raise HeadwayError(
                f"{out} holds a run with other settings: {change.message}. Give the same settings, or choose another "
                "--out."
            )
        if not _is_within(change.path, FREE_SETTINGS) and not allowed:
            raise HeadwayError(
                f"{out} holds a run with other settings: {change.message}. Give the same settings, choose another "
                "--out, or resume with the new ones: --allow-changes"
            )
        found.append(change)
    if state.get("text") != texts.identity:
        if not allowed:
            raise HeadwayError(
                f"the run in {out} was started with other training text. Give the same files with the same weights, "
                "choose another --out, or resume with the new text: --allow-changes"
            )
        found.append(ConfigChange("text", "the training text has changed"))
    if state.get("valid_text", texts.valid_identity) != texts.valid_identity:
        found.append(ConfigChange("validation text", "the validation text has changed"))
    return found


def scores_incomparable(changed: Sequence[ConfigChange], metric: str) -> bool:
    """Whether earlier validation scores cannot be compared with those to come."""
    affecting = {"validation text", "train.metric", "train.max_tokens" if metric == "loss" else "train.decode_lines"}
    return any(change.path in affecting for change in changed)


def _lists_to_tables(value: Any) -> Any:
    """Turn lists of parts into tables, so that a change inside one has a path."""
    if isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
        value = {str(number): entry for number, entry in enumerate(value)}
    return {key: _lists_to_tables(entry) for key, entry in value.items()} if isinstance(value, dict) else value


def _is_within(path: str, sections: tuple[str, ...]) -> bool:
    return any(path == section or path.startswith(f"{section}.") for section in sections)


def adapter_facts(lora: LoraConfig | None) -> dict[str, Any]:
    """What a checkpoint says of an adapter."""
    return {} if lora is None else {"lora": asdict(lora)}


def check_adapter(state: Mapping[str, Any], lora: LoraConfig | None) -> None:
    """Raise if the run had another adapter, or none."""
    before, now = state.get("lora"), adapter_facts(lora).get("lora")
    if before != now:
        shown = [f"lora {table}" if table else "no adapter" for table in (before, now)]
        raise HeadwayError(f"the run was started with {shown[0]}, and this is {shown[1]}. Choose another --out.")
