"""The model card: what a model is, what it was trained on, how good it is, how to use it."""

import shlex
from pathlib import Path

from headway import __version__
from headway.config.config import Config
from headway.storage.card import read_card, written_head
from headway.train.sources import Texts
from headway.train.validation import Validation


def command_for(config: Config, folder: str | Path) -> str:
    """What to type to use a model."""
    model = shlex.quote(str(folder))
    if config.train.objective.kind == "translation":
        return f'headway translate --model {model}{_to(config)} "…"'
    if config.train.objective.kind == "causal":
        return f'headway generate --model {model} "…"'
    return measuring(config, folder)


def measuring(config: Config, folder: str | Path) -> str:
    """What to type to see how good it is."""
    model = shlex.quote(str(folder))
    if config.train.objective.kind == "translation":
        return f"headway evaluate --model {model}{_to(config)} --source FILE --target FILE"
    return f"headway evaluate --model {model} --text FILE"


def _to(config: Config) -> str:
    """One of several target languages must be named."""
    return f" --to {config.tags[0]}" if config.tags else ""


def model_card(config: Config, texts: Texts, result: Validation | None, step: int, base: Path | None = None) -> str:
    """base: the model that was fine-tuned."""
    corpus = texts.statistics()
    translates = config.train.objective.kind == "translation"
    sides = f"{', '.join(config.source_languages) or '?'} → {', '.join(config.target_languages) or '?'}"
    title = f"A translator, {sides}" if translates else f"A language model ({config.train.objective.kind})"
    rows = [
        ("trained by", f"Headway {__version__}, {step:,} steps, seed {config.train.seed}"),
        ("parameters", f"{config.model.parameter_count():,}"),
        ("training text", f"{corpus.lines:,} {'pairs' if translates else 'lines'}, {corpus.words:,} words"),
        ("tokenizer", f"{config.tokenizer.kind}, {config.model.vocabulary:,} entries, {config.vocabularies}"),
    ]
    name = base.resolve().name if base else ""
    if name:
        rows.insert(1, ("fine-tuned from", name))
    if result is None:
        rows.append(("validation", "not yet: the training was interrupted before"))
    else:
        rows.append(("validation loss", f"{result.loss:.4f} nats a token (perplexity {result.perplexity:.2f})"))
    scores = {}
    if result is not None and result.bleu is not None and result.chrf is not None:
        rows.append(("validation BLEU, chrF", f"{result.bleu:.2f}, {result.chrf:.2f} (greedy)"))
        scores["validation"] = f"{result.bleu:.2f} BLEU, {result.chrf:.2f} chrF (greedy)"
    languages = dict.fromkeys((*config.source_languages, *config.target_languages))
    head = written_head([*languages], scores, read_card(base).licence if base else "", name)
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return f"{head}# {title}\n\n| | |\n|---|---|\n{table}\n\nUse it: `{command_for(config, '.')}`\n"
