"""The model card: what a model is, what it was trained on, how good it is, how to use it."""

from headway import __version__
from headway.cards import written_head
from headway.config import Config
from headway.train.texts import Texts
from headway.train.validation import Validation


def model_card(config: Config, texts: Texts, result: Validation | None, step: int) -> str:
    corpus = texts.statistics()
    translates = config.train.objective.kind == "translation"
    sides = f"{', '.join(config.source_languages) or '?'} → {', '.join(config.target_languages) or '?'}"
    title = f"A translator, {sides}" if translates else f"A language model ({config.train.objective.kind})"
    use = 'headway translate --model . "…"' if translates else 'headway generate --model . "…"'
    rows = [
        ("trained by", f"Headway {__version__}, {step:,} steps, seed {config.train.seed}"),
        ("parameters", f"{config.model.parameter_count():,}"),
        ("training text", f"{corpus.lines:,} {'pairs' if translates else 'lines'}, {corpus.words:,} words"),
        ("tokenizer", f"{config.tokenizer.kind}, {config.model.vocabulary:,} entries, {config.vocabularies}"),
    ]
    if result is None:
        rows.append(("validation", "not yet: the training was interrupted before"))
    else:
        rows.append(("validation loss", f"{result.loss:.4f} nats a token (perplexity {result.perplexity:.2f})"))
    scores = {}
    if result is not None and result.bleu is not None and result.chrf is not None:
        rows.append(("validation BLEU, chrF", f"{result.bleu:.2f}, {result.chrf:.2f} (greedy)"))
        scores["validation"] = f"{result.bleu:.2f} BLEU, {result.chrf:.2f} chrF (greedy)"
    head = written_head([*dict.fromkeys((*config.source_languages, *config.target_languages))], scores)
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return f"{head}# {title}\n\n| | |\n|---|---|\n{table}\n\nUse it: `{use}`\n"
