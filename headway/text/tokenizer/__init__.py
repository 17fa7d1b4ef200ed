"""Tokenizers: text to ids and back.

training_text ─► training ─► tokenizer ─► pair (tokenizer.json)
                                 │
                 word_cache ─────┘  a faster encoder for words seen before

tokenizer       Tokenizer (encode, decode) and StreamDecoder
training        learn a vocabulary: BPE, Unigram, bytes, characters, WordPiece
training_text   the lines to learn from, and how large a vocabulary they support
character_coverage  entries for the characters of scripts without spaces
vocabulary      the byte alphabet and the control tokens
imported        tokenizers of other toolkits, with the ids of the original
special_tokens  the ids of start, end, padding, …
direction_tokens  the control tokens around texts of one direction
pair            the tokenizers of a model's two sides, and their file
"""
