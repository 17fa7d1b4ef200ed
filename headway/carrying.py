"""Numbers that every search loses, carried over by placeholders where a model has learned to read these."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headway.text.numbers import NUMBER, lost_numbers, rewritten
from headway.text.protect import Hidden, placeholder, spaced
from headway.translation import Sentence

if TYPE_CHECKING:
    from headway.decode.hypothesis import Hypothesis
    from headway.translator import Translator

Find = Callable[[list[Sentence]], None]
IsSound = Callable[[Sentence, "Hypothesis"], bool]


def carry(translator: "Translator", sentences: Sequence[Sentence], find: Find, is_sound: IsSound) -> list[Sentence]:
    """Those of the sentences, all of which have lost numbers, for which a search with placeholders found something sound.
    They say it from then on."""
    trials = [(s, trial) for s in sentences if (trial := _trial(translator, s)) is not None]
    find([trial for _, trial in trials])
    carried = []
    for sentence, trial in trials:
        assert trial.hidden is not None
        told = Hidden(trial.hidden.text, _as_written(translator, sentence, trial.hidden.spans))
        said = [(h, translator.tokenizers.target.decode(h.ids).strip()) for h in trial.found]
        sound = [(h, text) for h, text in said if not trial.hidden.missing(text) and is_sound(trial, h)]
        if sound:
            sentence.found, sentence.said = [h for h, _ in sound], [told.said(text) for _, text in sound]
            carried.append(sentence)
    return carried


def _trial(translator: "Translator", sentence: Sentence) -> Sentence | None:
    """The same with placeholders for the numbers that its best output lacks; None where that cannot be."""
    if sentence.hidden or sentence.terms or sentence.prefix or sentence.capitals:
        return None
    target, reader = translator.tokenizers.target, translator.tokenizers.source
    hidden = hide(sentence.read, lost_numbers(sentence.read, target.decode(sentence.found[0].ids)))
    if hidden is None:
        return None
    ids = [*sentence.lead, *reader.encode(spaced(hidden.text)), reader.end]
    if len(ids) > translator.outline.longest:
        return None
    return Sentence("", hidden.text, ids, sentence.number, hidden=hidden, lead=sentence.lead)


def hide(text: str, lost: Sequence[str]) -> Hidden | None:
    """Placeholders for these numbers wherever they stand; None where one is a part of a word: 20th, A4."""
    spans: list[str] = []
    parts, end = [], 0
    for found in NUMBER.finditer(text):
        if found[0] not in lost:
            continue
        before, behind = text[: found.start()][-1:], text[found.end() :][:1]
        if any(character.isalnum() or character == "_" for character in before + behind):
            return None
        parts += [text[end : found.start()], placeholder(len(spans))]
        spans.append(found[0])
        end = found.end()
    return Hidden("".join(parts) + text[end:], spans) if spans else None


def _as_written(translator: "Translator", sentence: Sentence, numbers: Sequence[str]) -> list[str]:
    """As the target language writes them, where it is known and only one other is read."""
    outline = translator.outline
    tagged = [one for one in outline.tags if translator.tag(one) == list(sentence.lead)]
    targets = tagged or list(outline.target_languages)
    sources = [one for one in outline.source_languages if one not in targets]
    if len(targets) != 1 or len(sources) != 1:
        return list(numbers)
    return [rewritten(number, sources[0], targets[0]) for number in numbers]
