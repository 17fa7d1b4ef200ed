"""Trace programs with torch.export: batch and lengths stay free, and every input, output and axis has a name.

The names are those of optimum, which transformers.js and other runtimes know graphs by."""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from headway.convert.export.traced.programs import (
    CacheShape,
    CrossProgram,
    DecoderProgram,
    EncoderProgram,
    LanguageProgram,
)
from headway.nn.transformer import Transformer

BATCH, SOURCE, NEW, PAST = "batch_size", "encoder_sequence_length", "sequence_length", "past_sequence_length"
TOTAL = "past_sequence_length + sequence_length"
SIZES = {BATCH: 3, SOURCE: 7, NEW: 2, PAST: 5, TOTAL: 7}  # of the example that is traced; no two that vary are equal

Axes = tuple[str | int, ...]


@dataclass(frozen=True)
class TracedGraph:
    """A program, and the names of what goes in and comes out, each with its axes: names where sizes vary."""

    program: ExportedProgram
    inputs: dict[str, Axes]
    outputs: dict[str, Axes]


def trace_encoder(model: Transformer, program: nn.Module | None = None) -> TracedGraph:
    """The encoder, or another program with its inputs."""
    inputs: dict[str, Axes] = {"input_ids": (BATCH, SOURCE), "attention_mask": (BATCH, SOURCE)}
    example = make_example(model, inputs)
    outputs: dict[str, Axes] = {"last_hidden_state": (BATCH, SOURCE, model.config.d_model)}
    if not model.config.decoder.layers:
        found = EncoderProgram(model)(*example)
        outputs = {"logits": (BATCH, SOURCE, found.shape[-1]) if found.dim() == 3 else (BATCH, found.shape[-1])}
    return trace(program or EncoderProgram(model), tuple(example), inputs, outputs)


def trace_cross(model: Transformer) -> TracedGraph:
    inputs: dict[str, Axes] = {"encoder_hidden_states": (BATCH, SOURCE, model.config.d_model)}
    program = CrossProgram(model)
    shapes = [shape for shape in DecoderProgram(model).cache_shapes if shape.is_cross]
    outputs = name_caches(shapes, "present", SOURCE, sides=True)
    return trace(program, tuple(make_example(model, inputs)), inputs, outputs)


def trace_decoder(model: Transformer, program: DecoderProgram | None = None) -> TracedGraph:
    """A step: any number of new tokens after those whose keys and values are given, which may be none."""
    inputs: dict[str, Axes] = {"input_ids": (BATCH, NEW), "encoder_attention_mask": (BATCH, SOURCE)}
    return _trace_with_past(program or DecoderProgram(model), model, inputs, sides=True)


def trace_language_model(model: Transformer) -> TracedGraph:
    program = LanguageProgram(model)
    inputs: dict[str, Axes] = {"input_ids": (BATCH, NEW), "attention_mask": (BATCH, TOTAL)}
    return _trace_with_past(program, model, inputs, sides=False)


def _trace_with_past(program: Any, model: Transformer, inputs: dict[str, Axes], *, sides: bool) -> TracedGraph:
    pasts = name_caches(program.cache_shapes, "past_key_values", PAST, sides)
    first, past = make_example(model, inputs), make_example(model, pasts)
    growing = [shape for shape in program.cache_shapes if not shape.is_cross]
    outputs: dict[str, Axes] = {"logits": (BATCH, NEW, model.config.vocabulary or 0)}
    outputs |= name_caches(growing, "present", TOTAL, sides)
    return trace(program, (*first, past), {**inputs, **pasts}, outputs)


def name_caches(shapes: Sequence[CacheShape], prefix: str, length: str, sides: bool) -> dict[str, Axes]:
    """Names and axes of keys and values: past_key_values.0.decoder.key …, or without the side in a language model."""
    named: dict[str, Axes] = {}
    for shape in shapes:
        side = ("encoder." if shape.is_cross else "decoder.") if sides else ""
        tokens = SOURCE if shape.is_cross else length
        named[f"{prefix}.{shape.layer}.{side}key"] = (BATCH, shape.groups, tokens, shape.key_width)
        named[f"{prefix}.{shape.layer}.{side}value"] = (BATCH, shape.groups, tokens, shape.value_width)
    return named


def make_example(model: Transformer, inputs: dict[str, Axes], seed: int = 1) -> list[Tensor]:
    """Random tensors of these names: ids, masks with padding in one row, or vectors."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for name, axes in inputs.items():
        size = [SIZES[axis] if isinstance(axis, str) else axis for axis in axes]
        if name.endswith("mask"):
            mask = torch.ones(size, dtype=torch.long)
            mask[1, -1:] = 0
            made.append(mask)
        elif name == "input_ids":
            made.append(torch.randint(4, model.config.vocabulary or 5, size, generator=generator))
        else:
            made.append(torch.randn(size, generator=generator))
    return made


def trace(
    program: nn.Module, example: tuple[Any, ...], inputs: dict[str, Axes], outputs: dict[str, Axes]
) -> TracedGraph:
    axes = iter(inputs.values())

    def free_axes() -> dict[int, Any]:
        return {n: Dim.DYNAMIC for n, axis in enumerate(next(axes)) if isinstance(axis, str)}

    dynamic = tuple([free_axes() for _ in part] if isinstance(part, list) else free_axes() for part in example)
    with torch.no_grad(), quiet():
        exported = torch.export.export(
            program,
            example,
            dynamic_shapes=dynamic,
            strict=False,
            prefer_deferred_runtime_asserts_over_guards=True,  # learned positions: past + new ≤ max_positions
        )
    return TracedGraph(exported, inputs, outputs)


@contextmanager
def quiet() -> Iterator[None]:
    """Without the notes of PyTorch's exporters about themselves."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
