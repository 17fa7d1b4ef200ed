"""Text: tokenizers, sentences, and signs that a translation went wrong. No tensors here."""

from headway.text.degenerate import copied, repeated
from headway.text.segment.long_sentences import split_long
from headway.text.segment.sentences import Segment, split_sentences
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Stream, Tokenizer

__all__ = [
    "Segment",
    "Stream",
    "Tokenizer",
    "Tokenizers",
    "copied",
    "repeated",
    "split_long",
    "split_sentences",
]
