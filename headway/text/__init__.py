"""Text processing, without tensors: nothing here imports torch.

a line ─► segment/ (sentences) ─► spans/ (masked) ─► tokenizer/ (ids) ─► a model
                                                                            │
checks on its output: degenerate (loops, copies), numbers and negation (lost ones), metrics (BLEU, chrF)

tokenizer/       train tokenizers; text to ids and back
segment/         split text into sentences, and long sentences into pieces
spans/           protect what must not be translated, and restore it
align/           statistical word alignment; token lexicons
glossary         required translations of terms
shortlist        the target tokens that a source can need
bleu_tokenization                what is a token for BLEU in each language
metrics, metric_scores, comet    BLEU, chrF, chrF++, TER by sacreBLEU; COMET by its own package
utilities        how well candidate translations agree, for minimum Bayes risk decoding
lm_text          running text as ids for a language model
search_terms     the terms of a text that a search engine indexes
unspaced         text written without spaces: its words, its characters
language_id, line_language, short_text, language_codes, scripts    which language, which script
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.text.degenerate import is_copy, is_repetitive
    from headway.text.segment.long_sentences import split_long_sentence
    from headway.text.segment.sentences import Segment, split_sentences
    from headway.text.tokenizer.pair import Tokenizers
    from headway.text.tokenizer.tokenizer import StreamDecoder, Tokenizer

__all__ = [
    "Segment",
    "StreamDecoder",
    "Tokenizer",
    "Tokenizers",
    "is_copy",
    "is_repetitive",
    "split_long_sentence",
    "split_sentences",
]

_HOME = {
    "Segment": "headway.text.segment.sentences",
    "StreamDecoder": "headway.text.tokenizer.tokenizer",
    "Tokenizer": "headway.text.tokenizer.tokenizer",
    "Tokenizers": "headway.text.tokenizer.pair",
    "is_copy": "headway.text.degenerate",
    "is_repetitive": "headway.text.degenerate",
    "split_long_sentence": "headway.text.segment.long_sentences",
    "split_sentences": "headway.text.segment.sentences",
}


def __getattr__(name: str) -> Any:
    """Import each name when it is first used: choosing a model needs language codes, but no tokenizer."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
