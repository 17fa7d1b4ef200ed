"""The model card: what a model is, what it was trained on, how good it is, how to use it."""

import shlex
from pathlib import Path

from headway import __version__
from headway.config.config import Config
from headway.config.objective_kinds import TASKS, continues_text, is_denoising, reads_pairs
from headway.storage.card import format_front_matter, read_card
from headway.text.language_codes import MAX_LISTED, count_directions, usual_direction
from headway.train.sources import TrainingTexts
from headway.train.validation import ValidationResult

MAX_LISTED_LABELS = 20


def format_usage_command(config: Config, folder: str | Path, adapter: bool = False) -> str:
    """The command that uses a model, or an adapter."""
    model = shlex.quote(str(folder))
    if config.train.objective.kind in TASKS:
        if config.train.objective.kind == "embed":
            return f"headway embed --model {model} lines.txt --out vectors.npy"
        if config.train.objective.kind == "solve":
            return f"headway predict --model {model} --input problems.jsonl"
        if config.model.encoder.frontend is not None:
            return f"headway predict --model {model} picture.png"
        second = ' "…"' if config.train.objective.kind == "match" else ""
        return f'headway predict --model {model} "…"{second}'
    if is_denoising(config.train.objective.kind):
        return f"headway train --from-model {model} --source FILE --target FILE --out DIR"
    if reads_pairs(config.train.objective.kind):
        return f'headway translate --{"adapter" if adapter else "model"} {model}{_format_to_flag(config)} "…"'
    if adapter:
        return f"headway merge --adapter {model} --out DIR"
    if continues_text(config.train.objective.kind):
        return f'headway generate --model {model} "…"'
    if config.model.head.kind == "masked":
        return f'headway fill --model {model} "… [MASK] …"'
    return format_evaluate_command(config, folder)


def format_evaluate_command(config: Config, folder: str | Path) -> str:
    """The command that measures how good a model is."""
    model = shlex.quote(str(folder))
    if config.train.objective.kind in TASKS:
        given = "--data FILE" if config.model.encoder.frontend is None else "--images FOLDER"
        return f"headway evaluate --model {model} {given}"
    if reads_pairs(config.train.objective.kind):
        return f"headway evaluate --model {model}{_format_to_flag(config)} --source FILE --target FILE"
    return f"headway evaluate --model {model} --text FILE"


def _format_to_flag(config: Config) -> str:
    """--to, which a model with several target languages needs, and --from where there are many."""
    if count_directions(config.source_languages, config.target_languages) > MAX_LISTED:
        source, target = usual_direction(config.source_languages, config.target_languages)
        return f" --from {source} --to {target}"
    return f" --to {config.tags[0]}" if config.tags else ""


def model_card(
    config: Config,
    texts: TrainingTexts,
    result: ValidationResult | None,
    step: int,
    base: Path | None = None,
    adapter: bool = False,
) -> str:
    """The text of the card. `base`: the model that was fine-tuned, or for which this is an adapter."""
    corpus = texts.statistics()
    translates = reads_pairs(config.train.objective.kind)
    sides = f"{', '.join(config.source_languages) or '?'} → {', '.join(config.target_languages) or '?'}"
    what = "denoising" if is_denoising(config.train.objective.kind) else "language"
    task = config.train.objective.kind if config.train.objective.kind in TASKS else ""
    unit = "pairs" if translates else "examples" if task else "lines"
    title = f"A translator, {sides}" if translates else f"A {what} model ({config.train.objective.kind})"
    title = f"An encoder with the task {task}" if task else title
    reasoner = " with a graph reasoner" if config.model.reasoner is not None else ""
    title = f"A model that solves problems{reasoner}" if task == "solve" else title
    rows = [
        ("trained by", f"Headway {__version__}, {step:,} steps, seed {config.train.seed}"),
        ("parameters", f"{config.model.parameter_count():,}"),
        ("training text", f"{corpus.lines:,} {unit}, {corpus.words:,} words"),
        ("tokenizer", f"{config.tokenizer.kind}, {config.model.vocabulary:,} entries, {config.vocabularies}"),
    ]
    frontend = config.model.encoder.frontend
    if texts.task is not None and texts.task.pictures and frontend is not None:
        read = f"{frontend.size} x {frontend.size} pixels ({frontend.fit}) in patches of {frontend.patch}"
        rows[-2:] = [("trained on", f"{corpus.lines:,} pictures"), ("reads", f"pictures of {read}")]
    if config.labels:
        shown = ", ".join(config.labels[:MAX_LISTED_LABELS])
        rows.append(("labels", f"{len(config.labels):,}: {shown}{', …' * (len(config.labels) > MAX_LISTED_LABELS)}"))
    name = base.resolve().name if base else ""
    if name:
        rows.insert(1, ("adapter of" if adapter else "fine-tuned from", name))
    if result is None:
        rows.append(("validation", "none: training was interrupted before the first one"))
    elif result.task is not None:
        rows.append(("validation", f"loss {result.loss:.4f}, {result.scores_line}"))
    else:
        rows.append(("validation loss", f"{result.loss:.4f} nats per token (perplexity {result.perplexity:.2f})"))
    scores = {}
    if result is not None and result.bleu is not None and result.chrf is not None:
        rows.append(("validation BLEU, chrF", f"{result.bleu:.2f}, {result.chrf:.2f} ({result.method})"))
        scores["validation"] = f"{result.bleu:.2f} BLEU, {result.chrf:.2f} chrF ({result.method})"
    languages = dict.fromkeys((*config.source_languages, *config.target_languages))
    head = format_front_matter([*languages], scores, read_card(base).licence if base else "", name)
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return f"{head}# {title}\n\n| | |\n|---|---|\n{table}\n\nUse it: `{format_usage_command(config, '.', adapter)}`\n"
