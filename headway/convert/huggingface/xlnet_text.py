"""XLNet's tokenizer from its sentencepiece model, where there is no tokenizer.json: a unigram model over text without
accents, split at white space. Pieces that the user of sentencepiece defined are never parts of others."""

import base64
import struct
from pathlib import Path

from headway.convert.architecture import ConversionError, Json
from headway.convert.huggingface.model_folder import ModelFolder
from headway.convert.sentencepiece_file import CONTROL, USER_DEFINED, read_pieces, read_settings
from headway.errors import HeadwayError

TOKENS = {
    "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "sep_token": "<sep>", "pad_token": "<pad>",
    "cls_token": "<cls>", "mask_token": "<mask>",
}  # fmt: skip
MORE_TOKENS = ("<eop>", "<eod>")  # ends of a paragraph, and of a document
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
QUOTES = ("``", "''")


def make_xlnet_library(folder: ModelFolder, path: Path, model: bytes) -> Json:
    """The JSON of the `tokenizers` library. model: the content of the file at `path`."""
    if folder.tokenizer_config.get("keep_accents"):
        raise ConversionError(f"{path}: a tokenizer with keep_accents is not supported without its tokenizer.json.")
    try:
        settings, pieces = read_settings(model), read_pieces(model)
    except (ValueError, IndexError, KeyError, struct.error, AttributeError):
        raise HeadwayError(f"{path} is damaged: it is not a sentencepiece model. Download it again.") from None
    ids = {piece.spelling: n for n, piece in enumerate(pieces)}
    named = {role: folder.token(role) or token for role, token in TOKENS.items()}
    if missing := [token for token in (*named.values(), *MORE_TOKENS) if token not in ids]:
        raise ConversionError(f"{path} has no piece {missing[0]}, which XLNet needs. Download the model again.")
    normalisers: list[Json] = [{"type": "Replace", "pattern": {"String": sign}, "content": '"'} for sign in QUOTES]
    normalisers += [{"type": "NFKD"}, {"type": "StripAccents"}]
    normalisers += [{"type": "Lowercase"}] if folder.tokenizer_config.get("do_lower_case") else []
    if settings.charsmap:
        charsmap = base64.b64encode(settings.charsmap).decode()
        normalisers.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
    special = {ids[token] for token in (*named.values(), *MORE_TOKENS)}
    special |= {n for n, piece in enumerate(pieces) if piece.kind == CONTROL}
    added = special | {n for n, piece in enumerate(pieces) if piece.kind == USER_DEFINED}
    return {
        "version": "1.0",
        "added_tokens": [
            {
                "id": n, "content": pieces[n].spelling, "single_word": False, "rstrip": False, "normalized": False,
                "lstrip": pieces[n].spelling == named["mask_token"], "special": n in special,
            }
            for n in sorted(added)
        ],
        "normalizer": {"type": "Sequence", "normalizers": normalisers},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, METASPACE]},
        "post_processor": None,
        "decoder": METASPACE,
        "model": {
            "type": "Unigram",
            "unk_id": settings.unknown,
            "vocab": [[piece.spelling, piece.score] for piece in pieces],
            "byte_fallback": False,
        },
    }  # fmt: skip
