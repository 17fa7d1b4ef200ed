"""Tiny models with random weights whose tokenizer has language tokens, as those of NLLB and mBART."""

import json
from typing import Any

import torch
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers

from headway.config.config import read_config
from headway.nn.transformer import Transformer
from headway.storage.model_dir import LoadedModel
from headway.text.tokenizer.imported import ImportedTokenizer
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.vocabulary import byte_alphabet

END, PAD, EN, DE = 256, 257, 258, 259
LANGUAGES = {"en": [EN], "de": [DE]}


def make_language_tokenizers(**tables: Any) -> Tokenizers:
    """One token a byte; then end, which is also the start, pad and two languages."""
    controls = {"</s>": END, "<pad>": PAD, "en": EN, "de": DE}
    library = Library(models.BPE(vocab={letter: n for n, letter in enumerate(byte_alphabet())} | controls, merges=[]))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens(list(controls))
    special = {"pad": PAD, "start": END, "end": END}
    data = {"imported": "tokenizers", "model": json.loads(library.to_str()), "special": special, **tables}
    tokenizer = ImportedTokenizer(data)
    return Tokenizers(tokenizer, tokenizer)


def make_language_model(seed: int = 0, **tables: Any) -> LoadedModel:
    """A translator between English and German, from and to both."""
    tokenizers = make_language_tokenizers(**(tables or {"source_prefix": LANGUAGES, "target_prefix": LANGUAGES}))
    stack = {"layers": 1, "mixer": "attention(2)", "feedforward": "relu(32)"}
    config = read_config(
        {
            "source_languages": ["en", "de"],
            "target_languages": ["en", "de"],
            "tokenizer": "imported",
            "model": {
                "d_model": 16, "vocabulary": 260, "source_vocabulary": 260, "encoder": stack, "decoder": stack,
            },
            "search": {"beam_size": 3, "max_ratio": 0.0, "max_extra": 12, "penalty": "power", "alpha": 1.0},
        }
    )  # fmt: skip
    torch.manual_seed(seed)
    return LoadedModel(config, Transformer(config.model).eval(), tokenizers)
