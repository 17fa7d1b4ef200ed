"""Tokenizers of other toolkits, with the ids of the original: an ImportedTokenizer has the interface of a Tokenizer.

Text is encoded by the library that the original was made for: `sentencepiece` by its own package, everything else by
`tokenizers`. What such a tokenizer does to text (lower-casing, Unicode normal forms) it does here, too, so that its ids
are those that the model was trained with; text that it normalises is not restored.

In tokenizer.json it is an object with the key "imported":

    {"imported": "sentencepiece", "model": base64, "vocabulary": ["<pad>", …] by id, "special": {…}, "tags": {…}, …}
    {"imported": "tokenizers", "model": the library's JSON, …}

Its key "original" is of no use here: it says what the files of the original said besides, for exports.
"""

import base64
import binascii
import functools
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.errors import HeadwayError
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.text.tokenizer.training import Json
from headway.text.tokenizer.vocabulary import byte_alphabet, encode_utf8

SPACE = "▁"  # how sentencepiece writes a space
BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")
MAX_VOCABULARY = 2_000_000

Encode = Callable[[Sequence[str]], list[list[int]]]


@dataclass(frozen=True)
class ImportedVocabulary:
    """What an encoder knows of its ids."""

    encode: Encode
    spellings: list[str]  # by id
    contents: list[bytes]  # the bytes of each; none for control tokens
    starts_with_space: bool  # whether a text is encoded as if a space stood before it


class ImportedTokenizer(Tokenizer):
    """A tokenizer of another toolkit. `special` has the ids of pad, start, end, and of mask and unknown if there are
    such; `tags` those that name a target language at the start of a source. `source_prefix`, `source_suffix` and
    `target_prefix` have those around texts in a language: see headway.text.tokenizer.direction_tokens. `suppress` has
    those that a search never produces; without it, all control tokens but the end are. `other_ends` has those that end
    a text, too, as chat models have several."""

    def __init__(self, data: Json) -> None:
        self._data = data
        try:
            found = _open_encoder(data)
            special = {name: int(n) for name, n in data["special"].items() if n is not None}
            size = int(data.get("size") or len(found.spellings))
            self.pad, self.start, self.end = special["pad"], special["start"], special["end"]
            self.mask = special.get("mask", -1)  # -1: it has none
            self.unknown = special.get("unknown", -1)
            self.tags = {str(tag): int(n) for tag, n in data.get("tags", {}).items()}
            self.adds_start = bool(data.get("adds_start", True))  # whether the start token stands before a prompt
            self.source_prefix = _read_prefixes(data.get("source_prefix", {}))
            self.source_suffix = _read_prefixes(data.get("source_suffix", {}))
            self.target_prefix = _read_prefixes(data.get("target_prefix", {}))
            self.other_ends = tuple(int(n) for n in data.get("other_ends", ()))
            suppress = data.get("suppress")
            self._suppress = None if suppress is None else frozenset(int(n) for n in suppress)
        except HeadwayError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise HeadwayError(f"this imported tokenizer cannot be read: {error!r}. Import the model again.") from None
        if not len(found.spellings) <= size <= MAX_VOCABULARY:
            raise HeadwayError(f"this imported tokenizer has {len(found.spellings)} entries and claims {size}.")
        self.kind = "imported"
        self.size = size
        filler = size - len(found.spellings)
        self._spellings = found.spellings + [f"⟨unused:{n}⟩" for n in range(filler)]
        self._bytes = found.contents + [b""] * filler
        named = {self.pad, self.start, self.end, *self.tags.values()} - {self.unknown}
        tables = (self.source_prefix, self.source_suffix, self.target_prefix)
        for n in {
            *named,
            *self.other_ends,
            *(self._suppress or ()),
            *(n for table in tables for ids in table.values() for n in ids),
        }:
            if not 0 <= n < size:
                raise HeadwayError(f"this imported tokenizer names the id {n}, and has {size} entries.")
        for n in named:
            self._bytes[n] = b""
        self._encode = found.encode
        self._starts_with_space = found.starts_with_space
        self.control_ids = frozenset(n for n, content in enumerate(self._bytes) if not content)

    @property
    def suppressed_ids(self) -> frozenset[int]:
        return super().suppressed_ids if self._suppress is None else self._suppress

    @property
    def listed_suppressed(self) -> frozenset[int]:
        """Those that the original's own generation config names: a language model may write all others."""
        return self._suppress or frozenset()

    def encode_batch(self, texts: Sequence[str], *, dropout: float = 0.0) -> list[list[int]]:
        """The ids of each text, as the original gives them, without control tokens."""
        if dropout:
            raise HeadwayError("an imported tokenizer has no dropout. Set tokenizer.dropout = 0.")
        for n, text in enumerate(texts):
            encode_utf8(text, f"text {n}: " if len(texts) > 1 else "")
        return self._encode(list(texts))

    def encode_special(self, text: str) -> list[int] | None:
        """The ids of a text in which the spellings of control tokens stand for these tokens. None for sentencepiece,
        which knows no such spellings."""
        encode_utf8(text)
        ids: list[int] | None = (
            self._special_library and self._special_library.encode(text, add_special_tokens=False).ids
        )
        return ids

    @functools.cached_property
    def _special_library(self) -> Any:
        """The library's tokenizer, with control tokens in text. None for sentencepiece."""
        if self._data["imported"] != "tokenizers":
            return None
        import tokenizers

        library = tokenizers.Tokenizer.from_str(json.dumps(self._data["model"]))
        library.no_truncation()
        library.no_padding()
        return library

    @functools.cached_property
    def pair_separators(self) -> int:
        """How many end tokens stand between two texts that are read together: one as in BERT, two as in RoBERTa."""
        library = self._special_library
        return 1 if library is None else max(len(library.encode("", "").ids) - 2, 1)

    def _join(self, contents: bytes) -> bytes:
        return contents.removeprefix(b" ") if self._starts_with_space else contents

    def to_json(self) -> Json:
        return self._data

    @property
    def original_config(self) -> Json:
        """What the original's tokenizer_config.json says; empty where that is not known."""
        found: Json = self._read_original("config", dict)
        return found

    @property
    def original_files(self) -> list[str]:
        """The names of its files, if a sentencepiece model is among them."""
        return [str(name) for name in self._read_original("files", list)]

    def _read_original(self, name: str, kind: Any) -> Any:
        original = self._data.get("original")
        found = original.get(name) if isinstance(original, dict) else None
        return kind(found) if isinstance(found, kind) else kind()

    def fingerprint(self) -> str:
        meaning = {name: value for name, value in self._data.items() if name != "original"}
        return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()

    def __repr__(self) -> str:
        return f"ImportedTokenizer({self._data['imported']}, {self.size} entries)"


def _read_prefixes(table: Mapping[str, Any]) -> dict[str, list[int]]:
    return {str(language): [int(n) for n in ids] for language, ids in table.items()}


def _open_encoder(data: Json) -> ImportedVocabulary:
    if data["imported"] == "sentencepiece":
        return _open_sentencepiece(data)
    if data["imported"] == "tokenizers":
        return _open_library(data)
    raise HeadwayError(
        f'"{data["imported"]}" is not a kind of imported tokenizer. Update Headway, or import the model again.'
    )


def _open_sentencepiece(data: Json) -> ImportedVocabulary:
    """`vocabulary`: the spelling of each id, where the model has ids of its own; a piece that it lacks is unknown.
    `text_entries`: an entry that the sentencepiece model lacks stands for its spelling, not for a control token."""
    try:
        import sentencepiece
    except ImportError:
        raise HeadwayError(
            "this model's tokenizer needs the package sentencepiece. Install it: pip install headway[convert]"
        ) from None
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(base64.b64decode(data["model"], validate=True))
    except (RuntimeError, binascii.Error, TypeError, ValueError):
        raise HeadwayError("the sentencepiece model of this tokenizer is damaged. Import the model again.") from None
    own = [processor.IdToPiece(n) for n in range(processor.GetPieceSize())]
    spellings = [str(spelling) for spelling in data.get("vocabulary") or own]
    unknown = data["special"]["unknown"]
    ids = {spelling: n for n, spelling in enumerate(spellings)}
    kinds = {
        piece: "control" if processor.IsControl(n) or processor.IsUnused(n) else "byte" if processor.IsByte(n) else ""
        for n, piece in enumerate(own)
    }
    table = [ids.get(piece, unknown) for piece in own]
    missing = "" if data.get("text_entries") is True else None
    contents = [_piece_bytes(piece, kinds.get(piece, missing)) for piece in spellings]
    contents[unknown] = "\N{REPLACEMENT CHARACTER}".encode()  # the space before it is a piece of its own

    def encode(texts: Sequence[str]) -> list[list[int]]:
        encoded: list[list[int]] = processor.EncodeAsIds(texts)
        return [[table[n] for n in line] for line in encoded]

    return ImportedVocabulary(encode, spellings, contents, starts_with_space=True)


def _piece_bytes(piece: str, kind: str | None) -> bytes:
    """kind: as the sentencepiece model says; None for an entry that it does not have, which stands for no text."""
    if kind in ("control", None):
        return b""
    if kind == "byte" and (match := BYTE_PIECE.fullmatch(piece)):
        return bytes.fromhex(match[1])
    return piece.replace(SPACE, " ").encode()


def _open_library(data: Json) -> ImportedVocabulary:
    import tokenizers

    try:
        library = tokenizers.Tokenizer.from_str(json.dumps(data["model"]))
        library.no_truncation()
        library.no_padding()
        library.encode_special_tokens = True  # text that is spelled like a control token stays text
    except Exception as error:  # the library raises nothing more precise
        raise HeadwayError(f"this tokenizer cannot be read: {error}") from None
    size = library.get_vocab_size(with_added_tokens=True)
    names = {n: spelling for spelling, n in library.get_vocab(with_added_tokens=True).items()}
    size = max(size, max(names, default=-1) + 1)
    if size > MAX_VOCABULARY:
        raise HeadwayError(f"this tokenizer has {size} entries, more than {MAX_VOCABULARY}.")
    spellings = [names.get(n, f"⟨unused:{n}⟩") for n in range(size)]
    controls = {token["id"] for token in data["model"].get("added_tokens", []) if token.get("special")}
    added = {token["id"] for token in data["model"].get("added_tokens", [])}
    style = detect_spelling_style(data["model"])
    read = functools.partial(STYLES[style], alphabet=byte_alphabet())
    contents = [
        b"" if n in controls or n not in names else spelling.encode() if n in added else read(spelling)
        for n, spelling in enumerate(spellings)
    ]

    def encode(texts: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in library.encode_batch_fast(list(texts), add_special_tokens=False)]

    starts_with_space = style == "wordpiece" or bool(encode(["x"])[0] and encode(["x"]) == encode([" x"]))
    return ImportedVocabulary(encode, spellings, contents, starts_with_space)


def detect_spelling_style(data: Json) -> str:
    """How the entries of a library's JSON spell text: "bytes" (GPT-2), "metaspace" (sentencepiece), "wordpiece"."""
    found = json.dumps([data.get("pre_tokenizer"), data.get("decoder"), data.get("normalizer")], ensure_ascii=False)
    if data.get("model", {}).get("type") == "WordPiece":
        return "wordpiece"
    if '"ByteLevel"' in found:
        return "bytes"
    if '"Metaspace"' in found or SPACE in found:
        return "metaspace"
    raise HeadwayError(
        f"this tokenizer ({data.get('model', {}).get('type')}) spells its entries neither as bytes, nor with {SPACE} "
        "for spaces, nor as WordPiece: its text could not be restored exactly."
    )


def _spelled_bytes(spelling: str, alphabet: dict[str, int]) -> bytes:
    return bytes(alphabet[letter] for letter in spelling) if set(spelling) <= alphabet.keys() else spelling.encode()


def _spelled_metaspace(spelling: str, alphabet: dict[str, int]) -> bytes:
    if match := BYTE_PIECE.fullmatch(spelling):
        return bytes.fromhex(match[1])
    return spelling.replace(SPACE, " ").encode()


def _spelled_wordpiece(spelling: str, alphabet: dict[str, int]) -> bytes:
    return spelling[2:].encode() if spelling.startswith("##") else f" {spelling}".encode()


STYLES: dict[str, Callable[..., bytes]] = {
    "bytes": _spelled_bytes,
    "metaspace": _spelled_metaspace,
    "wordpiece": _spelled_wordpiece,
}


def make_tokenizer(data: Any) -> Tokenizer:
    """A tokenizer from its JSON: one of Headway's own, or an imported one."""
    if isinstance(data, dict) and "imported" in data:
        return ImportedTokenizer(data)
    return Tokenizer(data)
