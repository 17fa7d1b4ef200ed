"""Dequantised blocks: bit for bit what the gguf package gives, for random bytes and for quantised numbers."""

import gguf
import numpy as np
import pytest
import torch

import headway.convert.gguf.dequantisation as dequantisation
from headway.convert.gguf.dequantisation import KINDS, dequantise


def fill_blocks(number: int, blocks: int) -> np.ndarray:
    """Random blocks, whose scales are finite."""
    kind = KINDS[number]
    draw = np.random.default_rng(1)
    raw = draw.integers(0, 256, (blocks, kind.bytes), dtype=np.uint8)
    halves = {"Q6_K": (208,), "Q4_0": (0,), "Q5_0": (0,), "Q8_0": (0,)}.get(kind.name, (0, 2))
    for at in halves:
        raw[:, at : at + 2] = draw.normal(size=(blocks, 1)).astype(np.float16).view(np.uint8)
    return raw


@pytest.mark.parametrize("number", [n for n, kind in KINDS.items() if kind.read])
def test_blocks_are_those_of_the_gguf_package(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dequantisation, "CHUNK_VALUES", 2048)  # several chunks
    raw = fill_blocks(number, 37)
    kind = gguf.GGMLQuantizationType(number)
    assert kind.name == KINDS[number].name
    assert gguf.GGML_QUANT_SIZES[kind] == (KINDS[number].values, KINDS[number].bytes)
    expected = gguf.quants.dequantize(raw, kind)
    found = dequantise(torch.from_numpy(raw).flatten(), KINDS[number])
    assert np.array_equal(found.numpy(), expected.flatten())
    assert expected.std() > 0.1


@pytest.mark.parametrize("number", [0, 1, 30])
def test_floats_are_taken_as_they_are(number: int) -> None:
    values = torch.randn(64).to(KINDS[number].dtype)
    assert torch.equal(dequantise(values.view(torch.uint8), KINDS[number]), values)
