"""Outputs with U+FFFD, which stands for bytes that are no character: no translation has it unless its source does.

A vocabulary spells rare characters in bytes, and a model may get them wrong. The n-best list is cleared of such
outputs; where no other is left, words with rare characters are protected in a second search, else the source is
kept."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from headway.text.spans.protect import MaskedText, format_placeholder
from headway.text.spans.restore import remove_spans
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.translate.protected_spans import SpanKeeper
from headway.translate.search_calls import Plan
from headway.translate.source import Sentence

if TYPE_CHECKING:
    from headway.translate.translator import Translator

REPLACEMENT_CHARACTER = "\ufffd"


def mend_garbled(
    translator: "Translator", sentences: Sequence[Sentence], keeper: SpanKeeper, sample: bool = False
) -> Plan[None]:
    """Leave no garbled output in any sentence. sample: the outputs are draws, and stay what they are otherwise."""
    tokenizer = translator.tokenizers.target
    if sample:
        for sentence in sentences:
            remove_replacements(sentence, tokenizer)
        return
    garbled = [sentence for sentence in sentences if not drop_garbled(sentence, tokenizer)]
    if not garbled:
        return
    masked = [sentence for sentence in garbled if mask_rare_words(sentence, translator.tokenizers.source.characters)]
    if masked:
        yield from keeper.insert_spans(masked)
    for sentence in garbled:
        if (sentence not in masked or not drop_garbled(sentence, tokenizer)) and not drop_unknown(sentence, tokenizer):
            sentence.hypotheses = sentence.hypotheses[:1]
            sentence.outputs = [sentence.spans.original if sentence.spans else sentence.model_text]
            sentence.warnings.append("left untranslated: the model could not spell its characters")


def drop_unknown(sentence: Sentence, tokenizer: Tokenizer) -> bool:
    """Remove the unknown tokens of an imported tokenizer from the outputs, as the original does; False where that
    leaves nothing, or more than these is garbled."""
    texts = sentence.outputs or [tokenizer.decode(each.ids) for each in sentence.hypotheses]
    unknown = [each.ids.count(tokenizer.unknown) for each in sentence.hypotheses]
    if [text.count(REPLACEMENT_CHARACTER) for text in texts] != unknown:
        return False
    cleared = [" ".join(text.replace(REPLACEMENT_CHARACTER, "").split()) for text in texts]
    if not all(any(map(str.isalnum, text)) for text in cleared[:1]):
        return False
    sentence.outputs = [sentence.restore_case(text) for text in cleared]
    sentence.warnings.append("the model wrote unknown tokens, which were removed")
    return True


def remove_replacements(sentence: Sentence, tokenizer: Tokenizer) -> None:
    """Remove every U+FFFD from the outputs of a sentence whose source has none."""
    fragments = tokenizer.fragment_ids
    if REPLACEMENT_CHARACTER in sentence.text or all(fragments.isdisjoint(each.ids) for each in sentence.hypotheses):
        return
    texts = sentence.outputs or [
        sentence.restore_case(tokenizer.decode(each.ids).strip()) for each in sentence.hypotheses
    ]
    sentence.outputs = [text.replace(REPLACEMENT_CHARACTER, "") for text in texts]


def drop_garbled(sentence: Sentence, tokenizer: Tokenizer) -> bool:
    """Drop a sentence's garbled hypotheses; False if there are no others, and then all stay."""
    fragments = tokenizer.fragment_ids
    if REPLACEMENT_CHARACTER in sentence.text or all(fragments.isdisjoint(each.ids) for each in sentence.hypotheses):
        return True
    texts = sentence.outputs or [tokenizer.decode(hypothesis.ids) for hypothesis in sentence.hypotheses]
    kept = [index for index, text in enumerate(texts) if REPLACEMENT_CHARACTER not in text]
    if not kept:
        return False
    if len(kept) < len(texts):
        sentence.hypotheses = [sentence.hypotheses[index] for index in kept]
        sentence.outputs = [sentence.outputs[index] for index in kept] if sentence.outputs else []
    return True


def mask_rare_words(sentence: Sentence, known: frozenset[str]) -> bool:
    """Protect the words with characters that a vocabulary lacks; False if there are none, or no others."""
    spans = list(sentence.spans.spans) if sentence.spans else []
    parts = []
    end = 0
    for match in _rare_word(known).finditer(sentence.model_text):
        parts += [sentence.model_text[end : match.start()], format_placeholder(len(spans))]
        spans.append(match[0])
        end = match.end()
    if not parts:
        return False
    text = "".join(parts) + sentence.model_text[end:]
    masked = MaskedText(text, spans).extract(text)  # numbers all placeholders anew, in their order
    if not any(character.isalpha() for character in remove_spans(masked)[0]):
        return False
    sentence.spans = masked
    return True


@lru_cache(maxsize=16)
def _rare_word(known: frozenset[str]) -> re.Pattern[str]:
    rare = rf"[^\x00-\x7f⟦⟧{''.join(map(re.escape, sorted(known)))}]"
    return re.compile(rf"(?:(?<!\w)\w*?)?{rare}(?:\w|{rare})*+")
