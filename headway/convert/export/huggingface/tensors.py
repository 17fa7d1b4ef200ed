"""Our weights under the names of a family: its rules, the other way."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import torch
from torch import Tensor

from headway.convert.architecture import Architecture, Json
from headway.convert.layer_stacks import Stacks
from headway.convert.streaming import TensorHeader, write_tensor_stream
from headway.convert.tensor_rules import TensorRule, write_tensor
from headway.convert.weight_files import WeightSource

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def group_rules(architecture: Architecture, tied: bool) -> list[list[TensorRule]]:
    """The rules of each of their tensors, in the order of their rows. What is shared here and not tied there is written
    under each of its names."""
    groups: dict[str, list[TensorRule]] = {}
    for rule in architecture.rules:
        groups.setdefault(rule.theirs, []).append(rule)
    for name, copies in ({} if tied else architecture.copies).items():
        groups |= {copy: [replace(rule, theirs=copy) for rule in groups[name]] for copy in copies}
    return list(groups.values())


def write_weights(
    path: Path,
    architecture: Architecture,
    config: Json,
    weights: WeightSource,
    dtype: str,
    tables: Mapping[str, Tensor],
) -> list[TensorHeader]:
    """Write a safetensors file, one tensor in memory at a time; returns what it holds. `tables`: tensors of theirs that
    hold nothing of the model's own, as position tables."""
    groups = group_rules(architecture, config.get("tie_word_embeddings", True))
    headers = [make_header(rules, weights, dtype) for rules in groups]
    tensors = convert_tensors(groups, headers, weights)
    headers, tensors = unstack(headers, tensors, architecture.stacks)
    if architecture.objective == "masked" and "For" not in str(config["architectures"][0]):
        headers = [header._replace(name=header.name.removeprefix(architecture.prefix)) for header in headers]
    fixed = {name: table.to(headers[0].dtype) for name, table in tables.items()}
    more = [TensorHeader(name, table.dtype, tuple(table.shape)) for name, table in fixed.items()]
    write_tensor_stream(path, [*headers, *more], chain(tensors, fixed.values()))
    return headers


def unstack(
    headers: Sequence[TensorHeader], tensors: Iterator[Tensor], stacks: Stacks
) -> tuple[list[TensorHeader], Iterator[Tensor]]:
    """The tensors of the layers, where they are one tensor here."""
    layers = [
        [TensorHeader(name, header.dtype, header.shape[1:]) for name in stacks[header.name]]
        if header.name in stacks
        else [header]
        for header in headers
    ]

    def split() -> Iterator[Tensor]:
        for header, tensor in zip(headers, tensors):
            yield from tensor if header.name in stacks else (tensor,)

    return list(chain(*layers)), split()


def make_header(rules: Sequence[TensorRule], weights: WeightSource, dtype: str) -> TensorHeader:
    shapes = weights.shapes()
    plain = write_tensor(rules, [torch.empty(shapes[rule.ours], device="meta") for rule in rules])
    return TensorHeader(rules[0].theirs, DTYPES.get(dtype) or weights.dtype(rules[0].ours), tuple(plain.shape))


def convert_tensors(
    groups: Sequence[Sequence[TensorRule]], headers: Sequence[TensorHeader], weights: WeightSource
) -> Iterator[Tensor]:
    for rules, header in zip(groups, headers):
        yield write_tensor(rules, [weights.read(rule.ours).to(header.dtype) for rule in rules])
