"""Text: tokenizers, sentences, and signs that a translation went wrong. No tensors here."""

from headway.text.loops import copied, repeated
from headway.text.pair import Tokenizers
from headway.text.sentences import Segment, split_sentences
from headway.text.slicing import split_long
from headway.text.tokenizer import Stream, Tokenizer

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
