"""The file of a sentencepiece model, a protocol buffer: what its own package does not say of it."""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

CONTROL, USER_DEFINED = 3, 4  # types of pieces
NORMAL = 1


class SentencepieceEntry(NamedTuple):
    spelling: str
    score: float
    kind: int


class SentencepieceSettings(NamedTuple):
    """What a sentencepiece model does to text besides its pieces."""

    algorithm: int = 1  # unigram
    unknown: int = 0  # the id of the unknown piece
    charsmap: bytes = b""  # of its normalisation
    prefixes: bool = True  # a space stands before every text
    squeezes: bool = True  # runs of spaces are one


def read_settings(model: bytes) -> SentencepieceSettings:
    """From the file, a protocol buffer: its fields 2 (trainer) and 3 (normaliser)."""
    parts = dict(_read_fields(model))
    trainer, normaliser = (dict(_read_fields(parts.get(number, b""))) for number in (2, 3))
    default = SentencepieceSettings()
    return SentencepieceSettings(
        trainer.get(3, default.algorithm),
        trainer.get(40, default.unknown),
        normaliser.get(2, default.charsmap),
        bool(normaliser.get(3, default.prefixes)),
        bool(normaliser.get(4, default.squeezes)),
    )


def read_pieces(model: bytes) -> list[SentencepieceEntry]:
    """From its fields 1. Raises ValueError, IndexError or struct.error where the file is damaged."""
    pieces = []
    for number, value in _read_fields(model):
        if number == 1:
            fields = dict(_read_fields(value))
            score = struct.unpack("<f", fields[2])[0] if 2 in fields else 0.0
            pieces.append(SentencepieceEntry(fields.get(1, b"").decode(), score, fields.get(3, NORMAL)))
    return pieces


def _read_fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of each: an integer, or bytes. Raises IndexError where the message is cut off."""
    place = 0

    def read_varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while place < len(message):
        number, kind = divmod(read_varint(), 8)
        if kind == 0:
            yield number, read_varint()
            continue
        size = {1: 8, 5: 4}.get(kind) or read_varint()
        if place + size > len(message):
            raise IndexError(f"{len(message)} bytes")
        yield number, message[place : place + size]
        place += size
