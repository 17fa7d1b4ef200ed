"""Log-mel frames against transformers' WhisperFeatureExtractor, and their convolutions against its encoder."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from nn.frontends.inputs import front_end_config, random_media, small_model
from torch import Tensor
from transformers import WhisperConfig, WhisperFeatureExtractor
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from headway.errors import HeadwayError
from headway.nn.frontends.frontend import FrameBatch
from headway.nn.frontends.log_mel import LogMelStream, batch_frames, log_mel, mel_filters, normalise, window_frames
from headway.nn.positions.positions import sinusoids
from headway.nn.transformer import Transformer

SOUNDS: dict[str, Callable[[], np.ndarray]] = {
    "noise": lambda: np.random.default_rng(1).normal(0, 0.1, 48_000),
    "a tone": lambda: 0.5 * np.sin(2 * np.pi * 440 / 16_000 * np.arange(20_001)),
    "loud and then quiet": lambda: np.concatenate([np.ones(5000), 1e-5 * np.sin(np.arange(30_000.0))]),
    "silence": lambda: np.zeros(16_000),
    "very short": lambda: np.array([0.1, -0.2, 0.3]),
    "longer than a window": lambda: np.random.default_rng(2).uniform(-1, 1, 490_000),
}


@pytest.mark.parametrize("bins", [80, 128])
@pytest.mark.parametrize("sound", SOUNDS)
def test_a_window_is_that_of_whisper(sound: str, bins: int) -> None:
    samples = SOUNDS[sound]().astype(np.float32)
    extractor = WhisperFeatureExtractor(feature_size=bins)
    expected = extractor(samples, sampling_rate=16_000, return_tensors="np").input_features[0].T
    found = window_frames(torch.from_numpy(samples), bins)
    assert found.shape == (3000, bins) and found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("bins", [80, 128])
def test_filters_are_those_of_whisper(bins: int) -> None:
    expected = WhisperFeatureExtractor(feature_size=bins).mel_filters
    np.testing.assert_allclose(mel_filters(bins).numpy(), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("length", "chunk"),
    [(201, 1), (201, 37), (359, 1), (359, 160), (1600, 37), (1600, 160), (16_001, 160), (16_001, 5000)],
)
def test_chunks_of_samples_are_the_whole(length: int, chunk: int) -> None:
    samples = torch.randn(length, generator=torch.Generator().manual_seed(0))
    stream = LogMelStream()
    logs = [*(stream.push(samples[at : at + chunk]) for at in range(0, length, chunk)), stream.end()]
    torch.testing.assert_close(normalise(torch.cat(logs)), log_mel(samples), rtol=0, atol=1e-5)


def test_short_sounds_are_refused() -> None:
    with pytest.raises(HeadwayError, match="at least 201 samples, not \\(200,\\). Pad the sound"):
        log_mel(torch.zeros(200))
    stream = LogMelStream()
    assert stream.push(torch.zeros(150)).shape == (0, 80)
    with pytest.raises(HeadwayError, match="the sound has 150 samples"):
        stream.end()


def test_sounds_of_a_batch_are_padded() -> None:
    batch = batch_frames([torch.ones(3, 2), torch.ones(5, 2)])
    assert batch.lengths.tolist() == [3, 5] and batch.values[0, 3:].abs().sum() == 0 and batch.width == 5


@torch.no_grad()
def test_the_convolutions_are_those_of_whisper() -> None:
    """With its positions; the layers behind are left out here."""
    torch.manual_seed(0)
    config = WhisperConfig(
        num_mel_bins=5, d_model=16, encoder_layers=0, encoder_attention_heads=4, max_source_positions=20
    )
    theirs = WhisperEncoder(config).double().eval()
    model = Transformer(front_end_config("mel(5, 0.4)")).double().eval()
    ours: Any = model.embeddings["encoder"]
    for own, their in ((ours.first, theirs.conv1), (ours.second, theirs.conv2)):
        own.weight.copy_(their.weight.flatten(1))
        own.bias.copy_(torch.nn.init.normal_(their.bias))
    positions = sinusoids(torch.arange(20), 16, layout="halves", spacing="closed")
    torch.testing.assert_close(theirs.embed_positions.weight, positions, rtol=0, atol=1e-6)  # theirs are of float32
    theirs.embed_positions.weight.copy_(positions)
    given: list[Tensor] = []
    theirs.layer_norm.register_forward_pre_hook(lambda module, inputs: given.append(inputs[0]))
    frames = torch.randn(2, 40, 5, dtype=torch.float64)
    theirs(frames.transpose(1, 2))
    found = ours(FrameBatch(frames, torch.tensor([40, 40])), model.stacks["encoder"]).values
    torch.testing.assert_close(found, given[0], rtol=0, atol=1e-9)


@torch.no_grad()
@pytest.mark.parametrize("length", [1, 2, 7, 12])
@pytest.mark.parametrize("position", ["sinusoidal", "learned", "none"])
def test_chunks_of_frames_are_the_whole(length: int, position: str) -> None:
    model = small_model(f"mel(5, 0.4, '{position}')")
    ours: Any = model.embeddings["encoder"]
    whole = random_media("mel", [length])
    expected = ours(whole, model.stacks["encoder"])
    for cuts in ((), (1,), (3,), (1, 2, 3, 4, 5), (6, 7)):
        stream = ours.stream(model.stacks["encoder"])
        edges = [0, *(cut for cut in cuts if cut < length), length]
        parts = [stream.push(whole.values[:, start:stop]) for start, stop in itertools.pairwise(edges)]
        parts.append(stream.end())
        torch.testing.assert_close(torch.cat([p.values for p in parts], 1), expected.values, rtol=0, atol=1e-12)
        positions = torch.cat([part.positions.positions for part in parts], 1)
        assert torch.equal(positions, expected.positions.positions)


def test_sounds_that_are_too_long_are_refused() -> None:
    model = small_model("mel(5, 0.4)")
    ours: Any = model.embeddings["encoder"]
    with pytest.raises(HeadwayError, match="41 frames are longer than the 0.4 s that this model reads at once"):
        model.encode(random_media("mel", [41]))
    stream = ours.stream(model.stacks["encoder"])
    with pytest.raises(HeadwayError, match="longer than the 0.4 s .* Begin a new stream for each window"):
        stream.push(random_media("mel", [41]).values)
    empty = ours.stream(model.stacks["encoder"]).end()
    assert empty.values.shape == (1, 0, 16)
