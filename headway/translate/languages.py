"""Which languages a sentence is translated from and to, where the model or its tag leaves no doubt."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.translate.translator import Translator


def find_languages(translator: "Translator", prefix_ids: Sequence[int]) -> tuple[str, str]:
    """(source, target) of a sentence whose ids begin with these; "" for both if they are not certain."""
    summary = translator.summary
    tagged = [language for language in summary.tags if translator.tag_ids(language) == list(prefix_ids)]
    targets = tagged or list(summary.target_languages)
    sources = [language for language in summary.source_languages if language not in targets]
    return (sources[0], targets[0]) if len(sources) == len(targets) == 1 else ("", "")
