"""Running text as token ids for a language model.

Every text is encoded as if it followed a line end, in training, in prompts and in scoring alike, so that a first word
has the same ids as any other word at the start of a line.
"""

from collections.abc import Iterator

import numpy as np

from headway.text.tokenizer.tokenizer import Tokenizer
from headway.text.tokenizer.vocabulary import encode_utf8

CHARS_PER_CHUNK = 100_000


def line_end_id(tokenizer: Tokenizer) -> int:
    """The id that precedes every text: that of a line end, or the start token if the tokenizer does not tell line ends
    from spaces (WordPiece), or is that of another toolkit."""
    if tokenizer.kind == "imported":
        return tokenizer.start
    ids = tokenizer.encode("x\n")[len(tokenizer.encode("x")) :]
    return ids[0] if ids else tokenizer.start


def encode_after_line_end(text: str, tokenizer: Tokenizer) -> list[int]:
    """The ids of a text that follows a line end. Encoded alone, its first word would be one that follows a space."""
    if tokenizer.kind == "imported":  # its model was trained on texts that begin after the start token
        return tokenizer.encode(text)
    encode_utf8(text)  # an error names the index in this text, not in the prefixed one
    before = "x" if text[:1].isspace() else "x\n"  # leading spaces would merge with the line end
    return tokenizer.encode(before + text)[len(tokenizer.encode(before)) :]


def frame_text(ids: list[int], tokenizer: Tokenizer, framed: bool = False) -> list[int]:
    """The ids of a text as an encoder reads it: after the line end, or between start and end ([CLS] and [SEP]): if the
    tokenizer is that of another toolkit, or with `framed`, for models that were trained so, on pairs of texts."""
    if framed or tokenizer.kind == "imported":
        return [tokenizer.start, *ids, tokenizer.end]
    return [line_end_id(tokenizer), *ids]


def encode_text(text: str, tokenizer: Tokenizer) -> np.ndarray:
    """A text as one row of ids (int64), the line end first."""
    *chunks, last = chunk_lines(iter(text.split("\n")))
    first, *others = [*chunks, last[:-1]]  # the last line has no end
    ids = [line_end_id(tokenizer), *encode_after_line_end(first, tokenizer)]
    for chunk_ids in tokenizer.encode_batch(others):
        ids += chunk_ids
    return np.array(ids, dtype=np.int64)


def chunk_lines(lines: Iterator[str], size: int = CHARS_PER_CHUNK) -> Iterator[str]:
    """Join lines into chunks to encode one by one: long inputs cost the tokenizer more per character. Chunks are cut
    before a line end, so that no token is torn; a line longer than a chunk is cut anywhere."""
    chunk = ""
    for line in lines:
        if chunk and len(chunk) + len(line) > size:
            yield chunk.removesuffix("\n")
            chunk = "\n" if chunk.endswith("\n") else ""
        chunk += f"{line}\n"
        while len(chunk) > 2 * size:
            yield chunk[:size]
            chunk = chunk[size:]
    if chunk:
        yield chunk
