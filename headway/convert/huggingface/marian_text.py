"""The text of Marian: a sentencepiece model for each side, over one vocabulary with ids of its own, or over two.

    source.spm  target.spm  vocab.json                          ids that both sides share (OPUS-MT)
    source.spm  target.spm  vocab.json  target_vocab.json       separate_vocabs in tokenizer_config.json

A model with several target languages has an entry >>fra<< for each, which stands before the source."""

import re

from headway.convert.architecture import ConversionError, read_size
from headway.convert.huggingface.model_folder import ModelFolder, ModelText
from headway.convert.huggingface.tokenizer_files import describe_sentencepiece, read_limited, read_vocabulary
from headway.text.tokenizer.imported import ImportedTokenizer
from headway.text.tokenizer.pair import Tokenizers

TAG = re.compile(r">>(\w+(?:[-_]\w+)*)<<")
LANGUAGE = re.compile(r"[a-z]{2,3}(?:[-_]\w+)*")
TOKENS = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def read_marian_text(folder: ModelFolder) -> ModelText:
    for name, token in TOKENS.items():
        folder.tokenizer_config.setdefault(name, token)
    settings = folder.tokenizer_config
    source = read_vocabulary(folder.path / "vocab.json")
    separate = settings.get("separate_vocabs") is True
    target = read_vocabulary(folder.path / "target_vocab.json") if separate else source
    tags = {} if separate else {match[1]: n for n, entry in enumerate(source) if (match := TAG.fullmatch(entry))}
    sizes = {"vocab_size": read_size(folder.config, "vocab_size"), **folder.config}
    shared = folder.config.get("share_encoder_decoder_embeddings", True) is True
    tokenizers = Tokenizers(
        make_tokenizer(folder, "source.spm", source, sizes["vocab_size"], tags),
        make_tokenizer(
            folder, "target.spm", target, sizes["vocab_size" if shared else "decoder_vocab_size"] or sizes["vocab_size"]
        ),
    )
    languages = [str(settings.get(name) or "") for name in ("source_lang", "target_lang")]
    own, other = ((language,) if LANGUAGE.fullmatch(language) else () for language in languages)
    return ModelText(tokenizers=tokenizers, source_languages=own, target_languages=tuple(tags) or other)


def make_tokenizer(
    folder: ModelFolder, name: str, vocabulary: list[str], size: int, tags: dict[str, int] | None = None
) -> ImportedTokenizer:
    """Of one side. An entry that only the other side's model has stands for its text, too."""
    if size < len(vocabulary):
        raise ConversionError(f"{folder.path}: the vocabulary has {len(vocabulary):,} entries, and the model {size:,}.")
    ids = {spelling: n for n, spelling in enumerate(vocabulary)}
    special = folder.special_ids("translation", ids)
    if "unknown" not in special:
        raise ConversionError(f"{folder.path}: the vocabulary of {name} has no {folder.token('unk_token')}.")
    model = read_limited(folder.path / name)
    more = {"size": size, "tags": tags or {}, "text_entries": True}
    return ImportedTokenizer(describe_sentencepiece(model, vocabulary, special, **more))
