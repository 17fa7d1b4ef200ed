"""Sets up the training of a task: its data, its labels, the encoder that it begins with, and the settings of both.

TrainingFiles(task=…) ─► read_task_texts() ─► TrainingTexts ─► collect_task_layers() ─► Config with labels and head
                                                    PretrainedModel ─► take_encoder()
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.config.config import Config
from headway.config.presets import choose_picture_preset, choose_task_preset, find_preset
from headway.config.sources import Layer
from headway.data.labelled_files import LabelledData, PictureFile, count_shared, hold_out, is_number, is_scored
from headway.errors import ConfigError, HeadwayError
from headway.text.tokenizer.pair import Tokenizers
from headway.train.problem_setup import collect_problem_layers, describe_problems
from headway.train.sources import TrainingTexts
from headway.train.task_dataset import find_labels

IMPORTED_SCHEDULE = "linear(0.00005, warmup=50)"  # for Adam: usual for BERT and its like
OWN_SCHEDULE = "linear(0.0005, warmup=50)"
PASSES = 10  # over the data at most, when an encoder is fine-tuned
MIN_STEPS, MAX_STEPS = 100, 5000


def complete_task_texts(data: LabelledData, valid: LabelledData | None, seed: int = 1) -> TrainingTexts:
    """Training and validation examples; some are held out if none were given to validate on."""
    texts = TrainingTexts()
    if valid is None:
        data, valid, copies = hold_out(data, seed)
        removed = f"; {copies:,} copies of their texts were removed from the training data" if copies else ""
        texts.notes.append(f"no validation data was given: {valid.lines:,} of the examples held out for it{removed}")
    elif shared := count_shared(data, valid):
        texts.warnings.append(
            f"{shared:,} of {valid.lines:,} validation examples are in the training data, too: scores on them say "
            "little about new text"
        )
    if data.task == "solve":
        texts.task, texts.valid_task = data, valid
        texts.notes += filter(None, [describe_problems(data)])
        return texts
    labels = find_labels(data)
    unknown = set(valid.label_counts()) - set(labels) if labels else set()
    if unknown:
        texts.warnings.append(
            f'the validation data has labels that the training data has not, as "{min(unknown)}" '
            f"({len(unknown):,} in all): these count as wrong"
        )
    if labels:
        counts = data.label_counts()
        once = [label for label in labels if counts[label] == 1]
        if once:
            texts.warnings.append(
                f'{len(once):,} label{"s occur" if len(once) > 1 else " occurs"} only once, as "{once[0]}": too rarely '
                "to be learned"
            )
        most = max(counts, key=lambda label: counts[label])
        share = counts[most] / sum(counts.values())
        texts.notes.append(f'{len(labels):,} labels; the most frequent is "{most}", {share:.1%} of them')
    texts.task, texts.valid_task = data, valid
    check_scores(data, valid)
    return texts


def collect_task_layers(
    texts: TrainingTexts, base: str | Config, upper: Sequence[Layer], pretrained: Any = None
) -> tuple[list[Layer], str]:
    """What headway.train.setup.collect_layers does, for a task. `upper`: the layers of file, environment and flags."""
    data = texts.task
    assert data is not None
    if data.task == "solve":
        return collect_problem_layers(data, base, upper, pretrained)
    if pretrained is not None:
        layers = [
            Layer(f"encoder of {pretrained.folder}", pretrained.config.to_dict()),
            Layer("fine-tuning", {"train": _fine_tuning_settings(data, pretrained.config)}),
        ]
        reason = f"the encoder of {pretrained.folder}, as a starting point"
    elif isinstance(base, Config):
        layers, reason = [Layer("config", base.to_dict())], "the config given"
    elif base == "auto":
        pictures = data.pictures
        name, table, why = (
            choose_picture_preset(len(pictures), usual_side(pictures), all(picture.is_grey for picture in pictures))
            if pictures
            else choose_task_preset(texts.statistics())
        )
        layers, reason = [Layer(f"preset {name} (auto)", table)], f"preset {name}: {why}"
    else:
        layers, reason = [Layer(f"preset {base}", find_preset(base))], f"preset {base}, as requested"
    labels = find_labels(data)
    head, objective = describe_task(data, labels, layers, upper, pretrained)
    model: dict[str, Any] = {"head": head, "decoder": {"layers": 0}}
    train: dict[str, Any] = {"objective": objective, "metric": "task"}
    if data.task == "embed":  # every text in a step is a negative of all others: they must not be split
        train["micro_batch_tokens"] = 1 << 20
    origin = f"task {data.task}"
    own: dict[str, Any] = {"labels": list(labels) or None, "source_languages": [], "target_languages": []}
    own["vocabularies"] = "shared"
    if data.pictures:
        own["tokenizer"] = "bytes"  # which needs no text; it is not used
    task_layers = [Layer(origin, {**own, "model": model, "train": train}), *upper]
    if "classes" in head:
        task_layers.append(Layer("the labels given", {"model": {"head": {"classes": head["classes"]}}}))
    return [*layers, *task_layers], reason


def describe_task(
    data: LabelledData, labels: tuple[str, ...], layers: Sequence[Layer], upper: Sequence[Layer], pretrained: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The head and the objective of a task, as tables."""
    objective: dict[str, Any] = {"kind": data.task}
    own = pretrained.config.model.head if pretrained is not None else None
    if data.task == "embed":
        return (own.to_dict() if own is not None and own.kind == "embedding" else {"kind": "embedding"}), objective
    if data.task == "match" and not labels:
        objective |= score_range(data)
    if labels and _wants_balance(upper):
        counts = data.label_counts()
        total = sum(counts.values())
        objective["weights"] = [round(total / (len(labels) * counts[label]), 6) for label in labels]
    classes = max(len(labels), 1)
    if data.task == "tag":
        return {"kind": "tags", "classes": classes}, objective
    head: dict[str, Any] = {"kind": "pooled", "classes": classes, "dense": False}
    head["pooling"] = "first" if data.pictures else "mean"  # the class token
    if own is not None and own.kind == "pooled":
        head |= {name: getattr(own, name) for name in ("pooling", "dense", "activation")}
    elif own is not None and own.kind == "embedding":
        head |= {"pooling": own.pooling, "dense": own.dense}
    return head, objective


def usual_side(pictures: Sequence[PictureFile]) -> int:
    """The length of a side that half of the pictures exceed; of those that are not square, of a square as large."""
    return int(np.median([(picture.size[0] * picture.size[1]) ** 0.5 for picture in pictures]))


def _wants_balance(upper: Sequence[Layer]) -> bool:
    for layer in reversed(upper):
        objective = layer.values.get("train", {}).get("objective")
        if isinstance(objective, dict) and "balance" in objective:
            return bool(objective["balance"])
    return False


def score_range(data: LabelledData) -> dict[str, float]:
    """The lowest and the highest score. Raises HeadwayError where all are the same."""
    scores = [float(example.labels[0]) for example in data.examples]
    low, high = min(scores), max(scores)
    if low == high:
        raise HeadwayError(f"all {len(scores):,} pairs have the score {low:g}: give pairs of different scores.")
    return {"low": low, "high": high}


def check_scores(data: LabelledData, valid: LabelledData) -> None:
    """Raise HeadwayError where the training data has scores and the validation data something else."""
    others = [e.labels[0] for e in valid.examples if is_scored(data) and not is_number(e.labels[0])]
    if others:
        raise HeadwayError(
            f'the training data has scores, and the validation data the label "{others[0]}". Give scores in both.'
        )


def _fine_tuning_settings(data: LabelledData, config: Config) -> dict[str, Any]:
    imported = config.tokenizer.kind == "imported"
    batch_tokens = min(config.train.batch_tokens, 4096)
    tokens = 1.5 * data.count_words() + 2 * data.lines
    if data.pictures and config.model.encoder.frontend is not None:
        tokens = data.lines * getattr(config.model.encoder.frontend, "max_patches", 1)
    steps = int(min(max(PASSES * tokens / batch_tokens, MIN_STEPS), MAX_STEPS))
    return {
        "steps": steps,
        "epochs": 0,
        "seconds": 0,
        "batch_tokens": batch_tokens,
        "max_tokens": min(config.train.max_tokens, 256),
        "validate_every": max(20, steps // 10),
        "patience": 4,
        "schedule": IMPORTED_SCHEDULE if imported else OWN_SCHEDULE,
        "optimiser": "adamw(0.01)",
        "label_smoothing": 0.0,
        "clip": 1.0,
        "ema": 0.0,
        "average": 1,
        "precision": "auto",
        "compile": "off",
        "batches": "padded",
        "micro_batch_tokens": 0,
        "alignment": "none",
        "shortlist": "none",
        "placeholder_share": 0.0,
    }


def take_encoder(pretrained: Any, task: LabelledData) -> Any:
    """The encoder of a model as the model to fine-tune: of a translator without its decoder, with the tokenizer of its
    source. The head is kept where the task and its labels are those that it was trained for, or where it pools."""
    config: Config = pretrained.config
    if task.task == "solve":
        return pretrained._replace(new_head=config.model.reasoner is None)
    if "encoder" not in config.model.sides:
        raise ConfigError(
            f"{pretrained.folder} is a language model without an encoder, and --task needs one. Give a translator, a "
            "masked language model, or an encoder that was imported."
        )
    if pretrained.lora is not None:
        raise ConfigError("an adapter has no head of its own: --task trains all weights. Leave out --lora.", "lora")
    head = config.model.head
    same_labels = config.train.objective.kind == task.task and (config.labels or ()) == find_labels(task)
    kept = ["head."] if same_labels or head.kind == "embedding" else ["head.pool."] if head.kind == "pooled" else []
    weights: dict[str, Tensor] = {
        name: tensor
        for name, tensor in pretrained.weights.items()
        if name.startswith(("embeddings.encoder.", "stacks.encoder.", *kept))
    }
    embedding = config.model.embedding
    if len(config.model.sides) == 2:
        if embedding.ties_sides:  # the decoder owns the table
            weights["embeddings.encoder.words.weight"] = pretrained.weights["embeddings.decoder.words.weight"]
        embedding = replace(embedding, tied="all")
    source = pretrained.tokenizers.source
    model = replace(
        config.model,
        encoder=config.model.encoder,
        decoder=replace(config.model.decoder, layers=0, cross=None),
        vocabulary=source.size,
        source_vocabulary=source.size,
        embedding=embedding,
    )
    new = replace(config, model=model, vocabularies="shared", source_languages=(), target_languages=())
    return pretrained._replace(config=new, tokenizers=Tokenizers(source, source), weights=weights, new_head=True)


def add_new_head(weights: dict[str, Tensor], model: torch.nn.Module) -> dict[str, Tensor]:
    """The weights, with those of the model's head where they have none of this shape, and of a reasoner where they have
    none."""
    own = model.state_dict()
    if hasattr(model.head, "factors"):  # over the vocabulary, which stays
        new = {name: x for name, x in own.items() if name.startswith("reasoner.") or ".sublayers.nodes." in name}
        return {**new, **weights}
    kept = {
        name: tensor
        for name, tensor in weights.items()
        if not name.startswith("head.") or (name in own and own[name].shape == tensor.shape)
    }
    return {**{name: tensor for name, tensor in own.items() if name.startswith("head.")}, **kept}
