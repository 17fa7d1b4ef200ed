"""The int8 search on the CPU, greedy or a beam: that of headway.decode.native, over the tables of a CpuDecoder. It
finds what the reference search finds over the same CpuDecoder."""

from collections.abc import Iterator

import torch
from torch import Tensor

from headway.decode.cpu.decoder import CpuDecoder
from headway.decode.cpu.native_tables import linear_table
from headway.decode.native import search as native_search
from headway.decode.request import SearchJob, SearchTask
from headway.decode.types import Hypothesis

NEVER = native_search.StopFlag()


def unsupported(decoder: CpuDecoder, task: SearchTask) -> str:
    """Why this search has to run in Python; "" if it need not."""
    if decoder.stack_tables is None or decoder.output is None:
        return "there are no kernels for this model"
    return native_search.unsupported(decoder.max_positions, task)


def run_search(
    decoder: CpuDecoder, task: SearchTask, source: Tensor, valid: Tensor | None
) -> Iterator[tuple[SearchJob, Hypothesis]]:
    """The n_best of every job that may produce a token."""
    assert decoder.stack_tables is not None and decoder.output is not None
    model = native_search.SearchModel(*decoder.stack_tables, linear_table(decoder.output), decoder.max_positions)
    real = torch.ones_like(source, dtype=torch.bool) if valid is None else valid
    rows = [ids[own].tolist() for ids, own in zip(source, real)]
    return native_search.run_search(model, task, rows, NEVER)
