"""Tokenizer: text to ids and back. Every kind but WordPiece is lossless: decoding gives back exactly the text."""

import codecs
import functools
import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tokenizers

from headway.config import catalogue
from headway.config.own_kinds import import_target
from headway.config.schema import Part, make_part
from headway.errors import HeadwayError
from headway.text.tokenizer.training import Bpe, Bytes, Characters, Imported, Json, Unigram, WordPiece, detect_kind
from headway.text.tokenizer.vocabulary import (
    FIXED_CONTROL_TOKENS,
    SENTINELS,
    SIZE_MULTIPLE,
    UNKNOWN,
    byte_alphabet,
    encode_utf8,
    is_control_token,
    list_control_tokens,
    parse_tag,
)
from headway.text.tokenizer.word_cache import CachedEncoder
from headway.text.unspaced import is_unspaced

__all__ = ["Bpe", "Bytes", "Characters", "Imported", "StreamDecoder", "Tokenizer", "Unigram", "WordPiece"]

MIN_CACHED_TEXTS = 64  # building the word cache takes longer than the library takes to encode fewer
NO_SPACE_BEFORE = tuple(".,;:!?)]}…")  # WordPiece drops spaces; this much can be guessed


def entry_bytes(spelling: str, kind: str, alphabet: dict[str, int]) -> bytes:
    """The bytes that a vocabulary entry stands for in a text that starts with a space; none for control tokens."""
    if is_control_token(spelling):
        return b""
    if kind != "wordpiece":
        return bytes(alphabet[letter] for letter in spelling)
    if spelling == UNKNOWN:
        return " \ufffd".encode()
    if spelling.startswith("##"):
        return spelling[2:].encode()
    return spelling.encode() if spelling.startswith(NO_SPACE_BEFORE) else f" {spelling}".encode()


def find_format_error(data: Any) -> str:
    """Why this JSON is not a tokenizer that Headway wrote; "" if it is one."""
    if not isinstance(data, dict) or not isinstance(data.get("model"), dict):
        return "it has no model"
    model, vocabulary = data["model"].get("type"), data["model"].get("vocab")
    if model not in ("BPE", "Unigram", "WordPiece") or not isinstance(vocabulary, dict | list):
        return f'its model "{model}" is none of BPE, Unigram, WordPiece'
    pairs = vocabulary.items() if isinstance(vocabulary, dict) else vocabulary
    names = [pair[0] for pair in pairs if isinstance(pair, list | tuple) and pair]
    if names[: len(FIXED_CONTROL_TOKENS)] != FIXED_CONTROL_TOKENS:
        return f"its vocabulary does not start with {' '.join(FIXED_CONTROL_TOKENS)}"
    if isinstance(vocabulary, dict) and list(vocabulary.values()) != list(range(len(vocabulary))):
        return "its ids are not 0, 1, 2, … in order"
    if len(names) % SIZE_MULTIPLE:
        return f"its size, {len(names)}, is not a multiple of {SIZE_MULTIPLE}"
    if data.get("added_tokens"):
        return "it has added tokens, which would match text"
    if data["model"].get("dropout"):
        return "it has dropout, so it would split the same text differently each time"
    if model != "WordPiece" and data.get("normalizer") != {"type": "Prepend", "prepend": " "}:
        return "it does not put a space before the text"
    if model != "WordPiece" and not set(byte_alphabet()) <= set(names):
        return "it does not have an entry for every byte"
    return ""


class Tokenizer:
    """A vocabulary and how text is split into its entries. Ids: pad 0, start 1, end 2, mask 3, tags, text, filler."""

    def __init__(self, data: Json) -> None:
        """From the JSON of the `tokenizers` library. Usually made by `train` or Tokenizers.load."""
        if reason := find_format_error(data):
            raise HeadwayError(f"this is not a tokenizer of Headway: {reason}.")
        alphabet = byte_alphabet()
        try:
            self._library = tokenizers.Tokenizer.from_str(json.dumps(data))
            self.kind = detect_kind(data)
            self.size: int = self._library.get_vocab_size()
            self._spellings = [str(self._library.id_to_token(n)) for n in range(self.size)]
            self._bytes = [entry_bytes(spelling, self.kind, alphabet) for spelling in self._spellings]
        except Exception as error:  # the library raises nothing more precise
            raise HeadwayError(f"this tokenizer cannot be read: {error}") from None
        self._dropout_library: tuple[float, Any] = (0.0, self._library)
        self._cached_encoder: CachedEncoder | None = None
        self._texts_encoded = 0
        self.pad, self.start, self.end, self.mask = range(4)
        self.unknown = -1  # an id that stands for any text; -1: there is none, or, as in WordPiece, it is text
        self.tags = {tag: n for n, spelling in enumerate(self._spellings) if (tag := parse_tag(spelling))}
        self.control_ids = frozenset(n for n, content in enumerate(self._bytes) if not content)

    # Ids around texts by language, of imported tokenizers only; see headway.text.tokenizer.direction_tokens.
    source_prefix: Mapping[str, Sequence[int]] = {}
    source_suffix: Mapping[str, Sequence[int]] = {}
    target_prefix: Mapping[str, Sequence[int]] = {}

    @classmethod
    def train(
        cls, lines: Iterable[str], config: Part | str = "bpe", *, tags: Sequence[str] = (), sentinels: int = 0
    ) -> "Tokenizer":
        """Learn a vocabulary from lines of text, which may be an iterator. The same text gives the same tokenizer.
        `sentinels`: how many tokens it has for spans that are missing."""
        part = make_part("tokenizer", config)
        owner = import_target(catalogue.find_entry("tokenizer", part.kind).target)
        return cls(owner.train(lines, part, list_control_tokens(tags, sentinels)))

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without control tokens."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str], *, dropout: float = 0.0) -> list[list[int]]:
        """The ids of each text. `dropout` (BPE-dropout): the probability of skipping a merge, in this call only.

        The library draws from its own generator, which cannot be seeded: with dropout no two calls are alike.
        """
        cached_encoder = None if dropout else self._get_cached_encoder(len(texts))
        ids = [None if cached_encoder is None else cached_encoder.encode(text) for text in texts]
        remaining = [n for n, text_ids in enumerate(ids) if text_ids is None]
        for n in remaining:
            encode_utf8(texts[n], f"text {n}: " if len(texts) > 1 else "")
        library = self._with_dropout(dropout) if dropout else self._library
        encodings = (
            library.encode_batch_fast([texts[n] for n in remaining], add_special_tokens=False) if remaining else ()
        )
        for n, encoding in zip(remaining, encodings):
            ids[n] = encoding.ids
        return ids  # type: ignore[return-value]

    def _get_cached_encoder(self, texts: int) -> CachedEncoder | None:
        """The encoder with a word cache, built once enough texts were encoded to make it worth while."""
        self._texts_encoded += texts
        worthwhile = self._texts_encoded > MIN_CACHED_TEXTS and self.kind in ("bpe", "unigram")
        if self._cached_encoder is None and worthwhile:
            self._cached_encoder = CachedEncoder(self._library)
        return self._cached_encoder

    def _with_dropout(self, dropout: float) -> Any:
        """A second library tokenizer with dropout, so that the first never has it, not even while threads share it."""
        if self.kind != "bpe":
            raise HeadwayError(f'dropout skips merges, and a "{self.kind}" tokenizer has none. Use "bpe".')
        if not 0 < dropout <= 1:
            raise HeadwayError(f"dropout is {dropout}: it must be between 0 and 1.")
        rate, library = self._dropout_library
        if rate != dropout:
            library = tokenizers.Tokenizer.from_str(self._library.to_str())
            library.model.dropout = dropout
            self._dropout_library = (dropout, library)
        return library

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids. Control tokens are skipped; invalid UTF-8 becomes U+FFFD."""
        return self._join(b"".join(map(self._content, ids))).decode("utf-8", errors="replace")

    def _join(self, contents: bytes) -> bytes:
        """The text of these bytes: without the space that is put before every text."""
        return contents.removeprefix(b" ")

    def stream_decoder(self) -> "StreamDecoder":
        """A decoder for output that arrives id by id."""
        return StreamDecoder(self)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Each id in readable form: " dog", "⟨/s⟩", or "<E2>" for a byte that is only part of a character."""
        return [self._format_bytes(self._content(n)) or self._spellings[n] for n in ids]

    def spelling(self, n: int) -> str:
        """How the vocabulary spells an entry: "Ġdog", "⟨/s⟩"."""
        self._content(n)
        return self._spellings[n]

    def _format_bytes(self, content: bytes) -> str:
        # surrogateescape turns a stray byte XX into U+DCXX
        text = content.decode("utf-8", errors="surrogateescape")
        return re.sub("[\udc80-\udcff]", lambda stray: f"<{ord(stray[0]) - 0xDC00:02X}>", text)

    def _content(self, n: int) -> bytes:
        if not 0 <= n < self.size:
            raise HeadwayError(
                f"there is no token {n}: this vocabulary has {self.size}. Does the id come from another model?"
            )
        return self._bytes[n]

    @functools.cached_property
    def characters(self) -> frozenset[str]:
        """The characters that some entry contains completely, not only byte by byte."""
        return frozenset("".join(content.decode("utf-8", errors="ignore") for content in self._bytes))

    @property
    def suppressed_ids(self) -> frozenset[int]:
        """Ids that a search never produces: control tokens other than the end."""
        return self.control_ids - {self.end}

    @functools.cached_property
    def sentinels(self) -> tuple[int, ...]:
        """The ids that stand for missing spans, in their order; those of T5, if the tokenizer is imported from it."""
        known = {spelling: n for n, spelling in enumerate(self._spellings)}
        spelled = next((name for name in SENTINELS if name.format(0) in known), "")
        names = (spelled.format(index) for index in range(self.size)) if spelled else ()
        return tuple(itertools.takewhile(lambda n: n >= 0, (known.get(name, -1) for name in names)))

    @functools.cached_property
    def fragment_ids(self) -> frozenset[int]:
        """Ids that stand for part of a character, or for an unknown one: without these, an output has no U+FFFD."""
        texts = [content.decode("utf-8", errors="replace") for content in self._bytes]
        return frozenset(n for n, text in enumerate(texts) if "\ufffd" in text)

    @functools.cached_property
    def continuation_ids(self) -> frozenset[int]:
        """Ids that continue a word: their text begins with a letter, a digit or part of a character, but not of a
        script without spaces, in which a word may end anywhere."""
        first_characters = [content[:4].decode("utf-8", errors="replace")[:1] for content in self._bytes]
        return frozenset(
            n
            for n, first in enumerate(first_characters)
            if first == "\ufffd" or (first.isalnum() and not is_unspaced(first))
        )

    def is_byte(self, n: int) -> bool:
        """Whether an id stands for a single byte: with these, any text can be written."""
        return len(self._content(n)) == 1

    def to_json(self) -> Json:
        """The library's JSON, which is all there is to save."""
        data: Json = json.loads(self._library.to_str())
        return data

    def fingerprint(self) -> str:
        """A hash, equal for equal tokenizers on any machine."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    def __repr__(self) -> str:
        return f"Tokenizer({self.kind}, {self.size} entries, tags: {', '.join(self.tags) or 'none'})"


class StreamDecoder:
    """Decodes ids one by one. A character is held back until all its bytes have arrived."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._started = False

    def push(self, n: int) -> str:
        """The text that this id completes; "" for a control token or part of a character."""
        content = self._tokenizer._content(n)
        if content and not self._started:
            self._started = True
            content = self._tokenizer._join(content)
        return self._decoder.decode(content)

    def finish(self) -> str:
        """The rest: U+FFFD if the last character is incomplete. Resets the decoder."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        self._started = False
        return rest
