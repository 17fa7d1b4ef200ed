"""Which languages a sentence is translated from and to, where the model or its tag leaves no doubt."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.storage.summary import ModelSummary
    from headway.text.tokenizer.direction_tokens import DirectionTokens


def find_languages(summary: "ModelSummary", direction: "DirectionTokens") -> tuple[str, str]:
    """(source, target) of a sentence in this direction; "" for both if they are not certain."""
    targets = [direction.target] if direction.target else list(summary.target_languages)
    sources = [language for language in summary.source_languages if language not in targets]
    if len(sources) > 1 and direction.source in sources:
        sources = [direction.source]
    return (sources[0], targets[0]) if len(sources) == len(targets) == 1 else ("", "")
