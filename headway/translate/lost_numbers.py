"""Retry a sentence that lost a number with a placeholder in the number's place, for models trained with placeholders.

The last resort of `SentenceSearch`, when a wider beam has not found the number either."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headway.text.numbers import NUMBER, find_lost_numbers, localise_number
from headway.text.spans.protect import MaskedText, format_placeholder, space_placeholders
from headway.translate.languages import find_languages
from headway.translate.search_calls import Plan
from headway.translate.source import Sentence

if TYPE_CHECKING:
    from headway.decode.types import Hypothesis
    from headway.translate.translator import Translator

SearchSentences = Callable[[list[Sentence]], Plan[None]]
IsSound = Callable[[Sentence, "Hypothesis"], bool]


class PlaceholderTrial(NamedTuple):
    """A sentence that lost numbers, and the same sentence with placeholders for them."""

    sentence: Sentence
    retried: Sentence
    target_spans: MaskedText  # what the placeholders stand for, as the target language writes it


def retry_with_placeholders(
    translator: "Translator", sentences: Sequence[Sentence], search: SearchSentences, is_sound: IsSound
) -> Plan[list[Sentence]]:
    """Search again with placeholders for lost numbers; returns the sentences for which that worked.

    These have new hypotheses and outputs afterwards; the others are as before."""
    trials = [trial for s in sentences if (trial := _make_trial(translator, s)) is not None]
    yield from search([trial.retried for trial in trials])
    target = translator.tokenizers.target
    restored = []
    for sentence, retried, spans in trials:
        decoded = [(h, target.decode(h.ids).strip()) for h in retried.hypotheses]
        sound = [(h, text) for h, text in decoded if not spans.find_missing(text) and is_sound(retried, h)]
        if sound:
            sentence.hypotheses = [h for h, _ in sound]
            sentence.outputs = [spans.restore(text) for _, text in sound]
            restored.append(sentence)
    return restored


def _make_trial(translator: "Translator", sentence: Sentence) -> PlaceholderTrial | None:
    """None where placeholders cannot help: terms, a prefix, capitals, or too many tokens."""
    if sentence.terms or sentence.prefix or sentence.all_caps:
        return None
    source = translator.tokenizers.source
    target = translator.tokenizers.target
    spans = sentence.spans.spans if sentence.spans else []
    output = target.decode(sentence.hypotheses[0].ids)
    lost = find_lost_numbers(sentence.model_text, output, translator.summary.target_languages)
    text, numbers = mask_numbers(sentence.model_text, lost, len(spans))
    if not numbers:
        return None
    masked = MaskedText(text, [*spans, *numbers]).extract(text)  # numbers all placeholders anew, in their order
    ids = sentence.direction.wrap_source(source.encode(space_placeholders(masked.text)))
    if len(ids) > translator.summary.max_tokens:
        return None
    retried = Sentence("", masked.text, ids, sentence.number, spans=masked, direction=sentence.direction)
    target_spans = MaskedText(text, [*spans, *_localise_numbers(translator, sentence, numbers)]).extract(text)
    return PlaceholderTrial(sentence, retried, target_spans)


def mask_numbers(text: str, lost: Sequence[str], first: int = 0) -> tuple[str, list[str]]:
    """The text with placeholders, counted from `first`, for all occurrences of these numbers; and the numbers.

    None are masked where one is part of a word: 20th, A4."""
    numbers: list[str] = []
    parts = []
    end = 0
    for match in NUMBER.finditer(text):
        before = text[: match.start()][-1:]
        after = text[match.end() :][:1]
        if match[0] not in lost or (before, after) == ("⟦", "⟧"):
            continue
        if any(character.isalnum() or character == "_" for character in before + after):
            return text, []
        parts += [text[end : match.start()], format_placeholder(first + len(numbers))]
        numbers.append(match[0])
        end = match.end()
    return "".join(parts) + text[end:], numbers


def _localise_numbers(translator: "Translator", sentence: Sentence, numbers: Sequence[str]) -> list[str]:
    """As the target language writes them (1,250,000 and 1.250.000), where both languages are known for sure."""
    source, target = find_languages(translator.summary, sentence.direction)
    return [localise_number(number, source, target) if target else number for number in numbers]
