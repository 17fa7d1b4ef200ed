"""Sound files: WAV of every width by the standard library, other rates, and what is no sound."""

import builtins
import io
import struct
import sys
import types
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.data import sounds
from headway.data.sounds import SoundError, read_sound, resample


def tone(rate: int, seconds: float, hertz: float = 440.0) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * hertz * np.arange(round(rate * seconds)) / rate)


def encode(samples: np.ndarray, rate: int = 16_000, width: int = 2) -> bytes:
    """(n,) or (n, channels) between -1 and 1"""
    whole = np.rint(samples * (2 ** (8 * width - 1) - 1)).astype(np.int64)
    if width == 1:
        data = (whole + 128).astype(np.uint8).tobytes()
    else:
        data = whole.astype("<i8").reshape(-1, 1).view(np.uint8)[:, :width].tobytes()
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1 if samples.ndim == 1 else samples.shape[1])
        out.setsampwidth(width)
        out.setframerate(rate)
        out.writeframes(data)
    return file.getvalue()


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_samples_of_every_width(width: int, tmp_path: Path) -> None:
    samples = tone(16_000, 0.05)
    (tmp_path / "a.wav").write_bytes(encode(samples, width=width))
    found = read_sound(tmp_path / "a.wav")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, samples, rtol=0, atol=2.0 ** (2 - 8 * width) + 1e-6)


def test_channels_are_averaged_and_parts_are_cut() -> None:
    samples = tone(16_000, 1.0)
    both = encode(np.stack([samples, np.zeros_like(samples)], 1))
    np.testing.assert_allclose(read_sound(both), samples / 2, rtol=0, atol=1e-4)
    np.testing.assert_allclose(read_sound(both, 0.25, 0.5), samples[4000:8000] / 2, rtol=0, atol=1e-4)
    assert len(read_sound(both, 0.9, 5)) == 1600


@pytest.mark.parametrize("rate", [8000, 11_025, 22_050, 44_100, 48_000, 15_999])
def test_other_rates(rate: int) -> None:
    found = read_sound(encode(tone(rate, 0.5), rate))
    assert 8000 <= len(found) <= 8001
    np.testing.assert_allclose(found[400:7600], tone(16_000, 0.5)[400:7600], rtol=0, atol=2e-3)


def test_what_is_too_high_is_removed() -> None:
    """12 kHz would come back as 4 kHz."""
    found = resample(tone(48_000, 0.5, 12_000).astype(np.float32), 48_000)
    assert np.abs(found[400:-400]).max() < 0.005
    assert len(resample(np.zeros(0, np.float32), 8000)) == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty: it has no bytes"),
        (b"RIFF\x10\x00\x00\x00WAVE", "is damaged|is no WAV"),
        (encode(np.zeros(0)), "holds no samples"),
        (encode(np.zeros(100))[:30], "is damaged|is no WAV"),
        (encode(np.zeros(10), rate=10), "says that it has 10 samples a second"),
        (encode(np.zeros(10))[:-1], None),
    ],
)
def test_damaged_files(content: bytes, message: str | None) -> None:
    if message is None:
        assert len(read_sound(content)) == 9
        return
    with pytest.raises(SoundError, match=message):
        read_sound(content)


def test_long_sounds_and_wrong_parts_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    second = encode(np.zeros(16_000))
    for start, end in ((-1, None), (2, 1), (0, 0), (1e9, None)):
        with pytest.raises(SoundError, match="is no part of a sound"):
            read_sound(second, start, end)
    with pytest.raises(SoundError, match="has 1.00 s, and from 1 s on there is nothing"):
        read_sound(second, 1)
    with pytest.raises(SoundError, match="there is no file"):
        read_sound(tmp_path / "no.wav")
    with pytest.raises(SoundError, match="cannot be read"):
        read_sound(tmp_path)
    monkeypatch.setattr(sounds, "MAX_SECONDS", 0.5)
    with pytest.raises(SoundError, match="is 0.0 hours long, and at most 0.000138889 are read. Cut it"):
        read_sound(second)
    monkeypatch.setattr(sounds, "MAX_FILE_BYTES", 10)
    (tmp_path / "a.wav").write_bytes(second)
    with pytest.raises(SoundError, match="has more than 10 bytes"):
        read_sound(tmp_path / "a.wav")


def test_other_formats_need_soundfile(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def refuse(name: str, *given: Any, **more: Any) -> Any:
        if name == "soundfile":
            raise ImportError(name)
        return original(name, *given, **more)

    fractions = b"RIFF" + struct.pack("<I", 50) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 3, 1, 16_000, 64_000, 4, 32)
    fractions += b"data" + struct.pack("<I", 8) + struct.pack("<2f", 0.25, -0.5)
    with monkeypatch.context() as patched:
        patched.setattr(builtins, "__import__", refuse)
        for data in (fractions, b"OggS and so on"):
            with pytest.raises(SoundError, match="is no WAV file of whole numbers .* pip install headway"):
                read_sound(data)

    class FakeFile:
        """What soundfile gives."""

        samplerate, frames = 16_000, 3

        def __init__(self, file: io.BytesIO) -> None:
            self.content = file.read()
            if self.content == b"bad":
                raise RuntimeError("Format not recognised.")

        def __enter__(self) -> "FakeFile":
            return self

        def __exit__(self, *error: object) -> None: ...

        def read(self, dtype: str, always_2d: bool) -> np.ndarray:
            return np.zeros((0, 1), dtype) if self.content == b"none" else np.full((3, 2), 0.5, dtype)

    monkeypatch.setitem(sys.modules, "soundfile", types.SimpleNamespace(SoundFile=FakeFile))
    np.testing.assert_array_equal(read_sound(fractions), [0.5, 0.5, 0.5])
    with pytest.raises(SoundError, match="is no sound that can be read .Format not recognised."):
        read_sound(b"bad")
    with pytest.raises(SoundError, match="holds no samples"):
        read_sound(b"none")
    monkeypatch.setattr(FakeFile, "samplerate", 3)
    with pytest.raises(SoundError, match="says that it has 3 samples a second"):
        read_sound(b"other")
