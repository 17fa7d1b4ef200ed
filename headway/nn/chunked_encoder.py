"""Encoding of texts that are too long for an encoder, in overlapping chunks (Unlimiformer, Bertsch 2023).

chunk 1   |■■■■■■■■■■■■□□□□|                      ■ kept: of each chunk the half in the middle, whose tokens have
chunk 2           |□□□□■■■■■■■■□□□□|                neighbours on both sides; at the ends of the text also a quarter
chunk 3                   |□□□□■■■■■■■■■■■■|
"""

from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from headway.nn.sequence import Memory, positions_from_start
from headway.nn.transformer import Transformer, valid_mask


class Chunk(NamedTuple):
    row: int
    start: int  # of its first token in the row
    keep_from: int  # where in the row the tokens begin and end whose output is kept
    keep_to: int


def encode_in_chunks(model: Transformer, ids: Tensor, valid: Tensor | None = None, *, max_tokens: int) -> Memory:
    """The encoder output of ids (B, S), of which the encoder reads at most `max_tokens` at a time, half of them twice.
    Each row is split by its own length, and positions begin anew in each chunk. A text of up to `max_tokens` is encoded
    as by `model.encode`."""
    if max_tokens < 2:
        raise ValueError(f"max_tokens={max_tokens}: chunks that overlap have at least 2 tokens")
    if ids.shape[1] <= max_tokens:
        return model.encode(ids, valid)
    lengths = [ids.shape[1]] * len(ids) if valid is None else valid.sum(1).tolist()
    chunks = [chunk for row, length in enumerate(lengths) for chunk in plan_chunks(row, length, max_tokens)]
    sizes = torch.tensor([min(max_tokens, lengths[chunk.row] - chunk.start) for chunk in chunks], device=ids.device)
    pieces = ids.new_zeros(len(chunks), max_tokens)
    for piece, chunk in zip(pieces, chunks):
        tokens = ids[chunk.row, chunk.start : chunk.start + max_tokens]
        piece[: len(tokens)] = tokens
    encoded = model.encode(pieces, valid_mask(sizes, max_tokens)).values  # (chunks, max_tokens, d)
    rows: list[list[Tensor]] = [[] for _ in lengths]
    for output, chunk in zip(encoded, chunks):
        rows[chunk.row].append(output[chunk.keep_from - chunk.start : chunk.keep_to - chunk.start])
    values = pad_sequence([torch.cat(parts) for parts in rows], batch_first=True)
    values = F.pad(values, (0, 0, 0, ids.shape[1] - values.shape[1]))
    return Memory(values, positions_from_start(ids.shape[1], valid, ids.device))


def plan_chunks(row: int, length: int, max_tokens: int) -> list[Chunk]:
    """Chunks that begin half a chunk apart, the last of them at the end of the text. Where two overlap, each keeps the
    half of the overlap that is nearer to its middle."""
    starts = [*range(0, max(length - max_tokens, 0), max_tokens // 2), max(length - max_tokens, 0)]
    cuts = [0, *((later + start + max_tokens) // 2 for start, later in pairwise(starts)), length]
    return [Chunk(row, start, *kept) for start, kept in zip(starts, pairwise(cuts))]
