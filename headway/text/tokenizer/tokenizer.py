"""Text to ids and back. Every kind but WordPiece gives back exactly the text it was given, whatever that was."""

import codecs
import functools
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import tokenizers

from headway.config import catalogue
from headway.config.schema import Part, make_part, target_of
from headway.errors import HeadwayError
from headway.text.tokenizer.training import Bpe, Bytes, Characters, Json, Unigram, WordPiece, kind_of
from headway.text.tokenizer.vocabulary import (
    FIRST_CONTROLS,
    MULTIPLE,
    UNKNOWN,
    byte_letters,
    control_spellings,
    is_control,
    tag_of,
    utf8,
)
from headway.text.tokenizer.word_cache import QuickEncoder

__all__ = ["Bpe", "Bytes", "Characters", "Stream", "Tokenizer", "Unigram", "WordPiece"]

FEW = 64  # texts that the library encodes sooner
NO_SPACE_BEFORE = tuple(".,;:!?)]}…")  # WordPiece forgets spacing; this much can be guessed


def bytes_of(spelling: str, kind: str, letters: dict[str, int]) -> bytes:
    """What an entry of the vocabulary stands for in a text that starts with a space. Control tokens: nothing."""
    if is_control(spelling):
        return b""
    if kind != "wordpiece":
        return bytes(letters[letter] for letter in spelling)
    if spelling == UNKNOWN:
        return " \ufffd".encode()
    if spelling.startswith("##"):
        return spelling[2:].encode()
    return spelling.encode() if spelling.startswith(NO_SPACE_BEFORE) else f" {spelling}".encode()


def why_foreign(data: Any) -> str:
    """What keeps this JSON from being a tokenizer that Headway wrote; nothing if it is one."""
    if not isinstance(data, dict) or not isinstance(data.get("model"), dict):
        return "it has no model"
    model, vocabulary = data["model"].get("type"), data["model"].get("vocab")
    if model not in ("BPE", "Unigram", "WordPiece") or not isinstance(vocabulary, dict | list):
        return f'its model "{model}" is none of BPE, Unigram, WordPiece'
    pairs = vocabulary.items() if isinstance(vocabulary, dict) else vocabulary
    names = [pair[0] for pair in pairs if isinstance(pair, list | tuple) and pair]
    if names[: len(FIRST_CONTROLS)] != FIRST_CONTROLS:
        return f"its vocabulary does not start with {' '.join(FIRST_CONTROLS)}"
    if isinstance(vocabulary, dict) and list(vocabulary.values()) != list(range(len(vocabulary))):
        return "its ids are not 0, 1, 2, … in order"
    if len(names) % MULTIPLE:
        return f"its size, {len(names)}, is no multiple of {MULTIPLE}"
    if data.get("added_tokens"):
        return "it has added tokens, which would match text"
    if data["model"].get("dropout"):
        return "it has dropout, so it would cut the same text differently each time"
    if model != "WordPiece" and data.get("normalizer") != {"type": "Prepend", "prepend": " "}:
        return "it does not put a space before the text"
    if model != "WordPiece" and not set(byte_letters()) <= set(names):
        return "it does not know every byte"
    return ""


class Tokenizer:
    """A vocabulary and how text is cut into it. Ids: pad 0, start 1, end 2, mask 3, tags, text, filler."""

    def __init__(self, data: Json) -> None:
        """From the library's JSON; see `train` and Tokenizers.load for the usual ways."""
        if why := why_foreign(data):
            raise HeadwayError(f"this is not a tokenizer of Headway: {why}.")
        letters = byte_letters()
        try:
            self._library = tokenizers.Tokenizer.from_str(json.dumps(data))
            self.kind = kind_of(data)
            self.size: int = self._library.get_vocab_size()
            self._spellings = [str(self._library.id_to_token(n)) for n in range(self.size)]
            self._bytes = [bytes_of(spelling, self.kind, letters) for spelling in self._spellings]
        except Exception as error:  # the library raises nothing more precise
            raise HeadwayError(f"this tokenizer cannot be read: {error}") from None
        self._noisy: tuple[float, Any] = (0.0, self._library)
        self._quick: QuickEncoder | None = None
        self._asked = 0  # texts
        self.pad, self.start, self.end, self.mask = range(4)
        self.tags = {tag: n for n, spelling in enumerate(self._spellings) if (tag := tag_of(spelling))}
        self.controls = frozenset(n for n, content in enumerate(self._bytes) if not content)

    @classmethod
    def train(cls, lines: Iterable[str], config: Part | str = "bpe", *, tags: Sequence[str] = ()) -> "Tokenizer":
        """Learn a vocabulary from lines of text. Lines may be a stream; the same text gives the same tokenizer."""
        part = make_part("tokenizer", config)
        owner = target_of(catalogue.find("tokenizer", part.kind).target)
        return cls(owner.train(lines, part, control_spellings(tags)))

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without control tokens."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str], *, dropout: float = 0.0) -> list[list[int]]:
        """The ids of each text. `dropout` leaves out each merge of a BPE so often, in this call only.

        The library draws from its own generator, which cannot be seeded: with dropout no two calls are alike.
        """
        quick = None if dropout else self._quick_encoder(len(texts))
        found = [None if quick is None else quick.encode(text) for text in texts]
        left = [n for n, ids in enumerate(found) if ids is None]
        for n in left:
            utf8(texts[n], f"text {n}: " if len(texts) > 1 else "")
        library = self._with_dropout(dropout) if dropout else self._library
        slow = library.encode_batch_fast([texts[n] for n in left], add_special_tokens=False) if left else ()
        for n, encoding in zip(left, slow):
            found[n] = encoding.ids
        return found  # type: ignore[return-value]

    def _quick_encoder(self, texts: int) -> QuickEncoder | None:
        """What looks words up; it takes longer to make than a few texts take the library."""
        self._asked += texts
        if self._quick is None and self._asked > FEW and self.kind in ("bpe", "unigram"):
            self._quick = QuickEncoder(self._library)
        return self._quick

    def _with_dropout(self, dropout: float) -> Any:
        """A second tokenizer, so that the first never knows of dropout, not even while threads share it."""
        if self.kind != "bpe":
            raise HeadwayError(f'dropout leaves out merges, and a "{self.kind}" tokenizer has none. Use "bpe".')
        if not 0 < dropout <= 1:
            raise HeadwayError(f"dropout is the share of merges left out: {dropout} is not between 0 and 1.")
        rate, library = self._noisy
        if rate != dropout:
            library = tokenizers.Tokenizer.from_str(self._library.to_str())
            library.model.dropout = dropout
            self._noisy = (dropout, library)
        return library

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids. Control tokens are left out; bytes that are no UTF-8 become U+FFFD."""
        return b"".join(map(self._content, ids)).removeprefix(b" ").decode("utf-8", errors="replace")

    def stream(self) -> "Stream":
        """For output that arrives id by id."""
        return Stream(self)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Each id as one can read it: " dog", "⟨/s⟩", or "<E2>" for a byte that is only part of a character."""
        return [self._readable(self._content(n)) or self._spellings[n] for n in ids]

    def _readable(self, content: bytes) -> str:
        # surrogateescape turns a stray byte XX into U+DCXX
        text = content.decode("utf-8", errors="surrogateescape")
        return re.sub("[\udc80-\udcff]", lambda stray: f"<{ord(stray[0]) - 0xDC00:02X}>", text)

    def _content(self, n: int) -> bytes:
        if not 0 <= n < self.size:
            raise HeadwayError(f"there is no token {n}: this vocabulary has {self.size}. Is it another model's?")
        return self._bytes[n]

    @functools.cached_property
    def characters(self) -> frozenset[str]:
        """Those that some entry has as a whole, and not only by bytes."""
        return frozenset("".join(content.decode("utf-8", errors="ignore") for content in self._bytes))

    @functools.cached_property
    def inner(self) -> frozenset[int]:
        """Entries that go on with a word: they begin with a letter, a digit or a part of a character."""
        begun = [content[:4].decode("utf-8", errors="replace")[:1] for content in self._bytes]
        return frozenset(n for n, first in enumerate(begun) if first.isalnum() or first == "\ufffd")

    def is_byte(self, n: int) -> bool:
        """Whether it spells one byte: with these, anything can be said."""
        return len(self._content(n)) == 1

    def to_json(self) -> Json:
        """What the library saves, and all there is to save."""
        data: Json = json.loads(self._library.to_str())
        return data

    def fingerprint(self) -> str:
        """The same for the same tokenizer, on any machine."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    def __repr__(self) -> str:
        return f"Tokenizer({self.kind}, {self.size} entries, tags: {', '.join(self.tags) or 'none'})"


class Stream:
    """Text from ids, as they come. A character is held back until all its bytes are there."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._started = False

    def push(self, n: int) -> str:
        """What this id completes; often "", when it is a control token or a part of a character."""
        content = self._tokenizer._content(n)
        if content and not self._started:
            self._started = True
            content = content.removeprefix(b" ")
        return self._decoder.decode(content)

    def finish(self) -> str:
        """What is left: U+FFFD if the last character never came to its end. Then the stream is new again."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        self._started = False
        return rest
