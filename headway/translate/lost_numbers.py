"""Numbers that every search loses, carried over by placeholders where a model has learned to read these."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headway.text.numbers import NUMBER, lost_numbers, rewritten
from headway.text.spans.protect import Hidden, placeholder, spaced
from headway.translate.source import Sentence

if TYPE_CHECKING:
    from headway.decode.types import Hypothesis
    from headway.translate.translator import Translator

Find = Callable[[list[Sentence]], None]
IsSound = Callable[[Sentence, "Hypothesis"], bool]


class Trial(NamedTuple):
    """A sentence with placeholders for the numbers that it lost."""

    sentence: Sentence
    again: Sentence
    told: Hidden  # what its placeholders stand for, as the target language writes it


def carry(translator: "Translator", sentences: Sequence[Sentence], find: Find, is_sound: IsSound) -> list[Sentence]:
    """Those of the sentences, all of which have lost numbers, for which a search with placeholders found something sound.
    They say it from then on."""
    trials = [trial for s in sentences if (trial := _trial(translator, s)) is not None]
    find([again for _, again, _ in trials])
    carried = []
    for sentence, again, told in trials:
        said = [(h, translator.tokenizers.target.decode(h.ids).strip()) for h in again.found]
        sound = [(h, text) for h, text in said if not told.missing(text) and is_sound(again, h)]
        if sound:
            sentence.found, sentence.said = [h for h, _ in sound], [told.said(text) for _, text in sound]
            carried.append(sentence)
    return carried


def _trial(translator: "Translator", sentence: Sentence) -> Trial | None:
    """None where it cannot be."""
    if sentence.terms or sentence.prefix or sentence.capitals:
        return None
    target, reader = translator.tokenizers.target, translator.tokenizers.source
    known = sentence.hidden.spans if sentence.hidden else []
    said = target.decode(sentence.found[0].ids)
    lost = lost_numbers(sentence.read, said, translator.outline.target_languages)
    text, numbers = hide(sentence.read, lost, len(known))
    if not numbers:
        return None
    hidden = Hidden(text, [*known, *numbers]).part(text)  # all are counted anew, in their order
    ids = [*sentence.lead, *reader.encode(spaced(hidden.text)), reader.end]
    if len(ids) > translator.outline.longest:
        return None
    again = Sentence("", hidden.text, ids, sentence.number, hidden=hidden, lead=sentence.lead)
    return Trial(sentence, again, Hidden(text, [*known, *_as_written(translator, sentence, numbers)]).part(text))


def hide(text: str, lost: Sequence[str], first: int = 0) -> tuple[str, list[str]]:
    """Placeholders for these numbers wherever they stand, counted from `first`, and the numbers; none where one of them is
    a part of a word: 20th, A4."""
    numbers: list[str] = []
    parts, end = [], 0
    for found in NUMBER.finditer(text):
        before, behind = text[: found.start()][-1:], text[found.end() :][:1]
        if found[0] not in lost or (before, behind) == ("⟦", "⟧"):
            continue
        if any(character.isalnum() or character == "_" for character in before + behind):
            return text, []
        parts += [text[end : found.start()], placeholder(first + len(numbers))]
        numbers.append(found[0])
        end = found.end()
    return "".join(parts) + text[end:], numbers


def _as_written(translator: "Translator", sentence: Sentence, numbers: Sequence[str]) -> list[str]:
    """As the target language writes them, where it is known and only one other is read."""
    outline = translator.outline
    tagged = [one for one in outline.tags if translator.tag(one) == list(sentence.lead)]
    targets = tagged or list(outline.target_languages)
    sources = [one for one in outline.source_languages if one not in targets]
    if len(targets) != 1 or len(sources) != 1:
        return list(numbers)
    return [rewritten(number, sources[0], targets[0]) for number in numbers]
