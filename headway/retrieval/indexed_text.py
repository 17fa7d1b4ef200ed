"""The text of an index as token ids: one row for each document, or for each piece of a long one.

A document ends at an empty line; where a text has none, each of its lines is a document. Neighbours are never taken
from the document that asks for them, so documents are known by their text: two with the same beginning count as one.
"""

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from headway.data.encoding import RowListener, ignore_rows
from headway.data.ragged import RaggedWriter, open_ragged, ragged_from_lists
from headway.retrieval.array_file import map_array, write_array
from headway.text.lm_text import line_end_id
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.text.tokenizer.vocabulary import encode_utf8

DocumentRule = Literal["blank", "lines"]  # documents end at empty lines, or each line is one

MAX_PIECE_CHARACTERS = 50_000
PIECES_PER_GROUP = 2048
KEY_TOKENS = 32  # at the beginning of a document, by which it is known


class IndexedText(NamedTuple):
    """A text as one row of ids, which begins with a line end, and its documents."""

    ids: np.ndarray  # (tokens,)
    document_ends: np.ndarray  # (documents,) offset after the last token of each
    document_keys: np.ndarray  # (documents,) hash of the first tokens of each

    def documents_of(self, offsets: np.ndarray) -> np.ndarray:
        """The number of the document in which each offset lies."""
        found: np.ndarray = np.searchsorted(self.document_ends, offsets, side="right")
        last: np.ndarray = np.minimum(found, len(self.document_ends) - 1)
        return last


def find_document_rule(lines: Iterable[str]) -> DocumentRule:
    """ "blank", if there is an empty line between others."""
    seen_text = seen_gap = False
    for line in lines:
        if not line.strip():
            seen_gap = seen_text
        elif seen_gap:
            return "blank"
        else:
            seen_text = True
    return "lines"


class DocumentPiece(NamedTuple):
    text: str
    continues: bool  # the document of the piece before


def split_documents(lines: Iterable[str], rule: DocumentRule) -> Iterator[DocumentPiece]:
    """Documents as texts of whole lines; one that is too long in pieces."""
    text, continues = "", False
    has_begun = has_ended = False
    for line in lines:
        is_blank = not line.strip()
        begins = has_ended and not is_blank
        has_begun = has_begun or not is_blank
        if text and (begins or len(text) + len(line) > MAX_PIECE_CHARACTERS):
            yield DocumentPiece(text, continues)
            text, continues = "", not begins
        has_ended = (has_ended or rule == "blank") and has_begun if is_blank else rule == "lines"
        text += f"{line}\n"
    if text:
        yield DocumentPiece(text, continues)


def write_indexed_text(
    folder: Path,
    lines: Iterable[str],
    rule: DocumentRule,
    tokenizer: Tokenizer,
    on_documents: RowListener = ignore_rows,
) -> int:
    """Encode a text to files of a folder. Returns how many tokens it has."""
    ends: list[int] = []
    pieces = split_documents(lines, rule)
    with RaggedWriter(folder, "text", tokenizer.size) as writer:
        writer.append(ragged_from_lists([[line_end_id(tokenizer)]]))
        while group := list(islice(pieces, PIECES_PER_GROUP)):
            rows = ragged_from_lists(encode_pieces([piece.text for piece in group], tokenizer))
            start = writer.total
            writer.append(rows)
            for end, piece in zip(rows.ends.tolist(), group):
                ends[len(ends) - piece.continues :] = [start + end]
            on_documents(len(ends))
    ids = open_ragged(folder, "text").flat
    write_array(folder / "document_ends", np.array(ends or [len(ids)]), "<i8")
    write_array(folder / "document_keys", hash_documents(ids, ends or [len(ids)]), "<u8")
    return len(ids)


def open_indexed_text(folder: Path) -> IndexedText:
    ends = map_array(folder / "document_ends", 1, "<i8")[:, 0]
    keys = map_array(folder / "document_keys", 1, "<u8", len(ends))[:, 0]
    return IndexedText(open_ragged(folder, "text").flat, ends, keys)


def encode_pieces(pieces: list[str], tokenizer: Tokenizer) -> list[list[int]]:
    """The ids of texts that follow a line end, as they all do in running text."""
    if tokenizer.kind == "imported":
        return tokenizer.encode_batch(pieces)
    for piece in pieces:
        encode_utf8(piece)
    before = ["x" if piece[:1].isspace() else "x\n" for piece in pieces]  # leading spaces would merge with the line end
    lengths = {text: len(tokenizer.encode(text)) for text in sorted(set(before))}
    encoded = tokenizer.encode_batch([lead + piece for lead, piece in zip(before, pieces)])
    return [ids[lengths[lead] :] for lead, ids in zip(before, encoded)]


def hash_documents(ids: np.ndarray, ends: list[int]) -> np.ndarray:
    """(documents,) hashes of the first KEY_TOKENS tokens of each document."""
    starts = [1, *ends[:-1]]  # behind the line end before all documents
    return np.array([hash_ids(ids[a : min(a + KEY_TOKENS, b)]) for a, b in zip(starts, ends)], np.uint64)


def hash_ids(ids: np.ndarray) -> int:
    data = np.ascontiguousarray(ids, "<u4").tobytes()
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
