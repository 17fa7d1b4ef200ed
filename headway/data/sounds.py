"""Read sound files of strangers: WAV by the standard library, everything else by soundfile if it is installed; one
channel, 16,000 samples a second, between -1 and 1."""

import io
import math
import os
import wave
from typing import Any

import numpy as np

from headway.errors import HeadwayError
from headway.files.text_files import format_path

SAMPLE_RATE = 16_000
MAX_SECONDS = 4 * 3600.0  # of a file, whatever part of it is wanted
MAX_FILE_BYTES = 1 << 31
RATES = (1000, 384_000)
ZERO_CROSSINGS = 24  # of the filter on each side: more is sharper
FULL_SCALE = {1: 128.0, 2: 32_768.0, 3: 8_388_608.0, 4: 2_147_483_648.0}  # by bytes of a sample


class SoundError(HeadwayError):
    """A file that cannot be read as sound, and why."""


def read_sound(source: str | os.PathLike[str] | bytes, start: float = 0.0, end: float | None = None) -> np.ndarray:
    """Samples (n,) float32 of a file or its bytes, from `start` to `end` seconds. Channels are averaged."""
    name = "the sound" if isinstance(source, bytes) else format_path(source)
    if not (0 <= start < MAX_SECONDS and (end is None or start < end)):
        until = "its end" if end is None else f"{end:g} s"
        raise SoundError(f"{name}: from {start:g} s to {until} is no part of a sound.")
    data = source if isinstance(source, bytes) else _read_bytes(source, name)
    if not data:
        raise SoundError(f"{name} is empty: it has no bytes. Copy it again.")
    samples, rate = _read_wave(data, name)
    first, last = round(start * rate), None if end is None else round(end * rate)
    if first >= len(samples):
        raise SoundError(f"{name} has {len(samples) / rate:.2f} s, and from {start:g} s on there is nothing.")
    return resample(samples[first:last], rate)


def _read_bytes(path: str | os.PathLike[str], name: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise SoundError(f"there is no file {name}.") from None
    except (OSError, ValueError) as error:
        raise SoundError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if len(data) > MAX_FILE_BYTES:
        raise SoundError(f"{name} has more than {MAX_FILE_BYTES:,} bytes. Cut it into parts.")
    return data


def _read_wave(data: bytes, name: str) -> tuple[np.ndarray, int]:
    """Samples (n,) float32, and how many there are a second."""
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        return _read_other(data, name)
    try:
        with wave.open(io.BytesIO(data)) as file:
            rate, channels, width = file.getframerate(), file.getnchannels(), file.getsampwidth()
            _check(rate, file.getnframes(), name)
            frames = file.readframes(file.getnframes())
    except wave.Error:  # compressed, or fractions: what it does not read
        return _read_other(data, name)
    except EOFError:
        raise SoundError(f"{name} is damaged: it ends in its header. Copy it again.") from None
    whole = len(frames) // (channels * width) * channels * width
    if not whole:
        raise SoundError(f"{name} holds no samples.")
    return _decode(frames[:whole], width).reshape(-1, channels).mean(1, dtype=np.float32), rate


def _decode(frames: bytes, width: int) -> np.ndarray:
    """Little-endian integers as fractions; those of one byte have no sign."""
    if width == 1:
        return (np.frombuffer(frames, np.uint8).astype(np.float32) - 128) / np.float32(FULL_SCALE[1])
    if width == 3:
        wide = np.zeros((len(frames) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(frames, np.uint8).reshape(-1, 3)
        return wide.view("<i4")[:, 0].astype(np.float32) / np.float32(FULL_SCALE[4])
    return np.frombuffer(frames, f"<i{width}").astype(np.float32) / np.float32(FULL_SCALE[width])


def _read_other(data: bytes, name: str) -> tuple[np.ndarray, int]:
    try:
        import soundfile  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise SoundError(
            f"{name} is no WAV file of whole numbers (PCM). Convert it, or install soundfile, which reads FLAC, Ogg, "
            "MP3 and others: pip install headway[sound]"
        ) from None
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            _check(file.samplerate, file.frames, name)
            samples: Any = file.read(dtype="float32", always_2d=True)
            rate = int(file.samplerate)
    except SoundError:
        raise
    except Exception as error:  # whatever a decoder says of damaged bytes
        raise SoundError(f"{name} is no sound that can be read ({str(error)[:100].rstrip('.')}).") from None
    if not len(samples):
        raise SoundError(f"{name} holds no samples.")
    return np.nan_to_num(samples.mean(1, dtype=np.float32), posinf=0.0, neginf=0.0), rate


def _check(rate: int, frames: int, name: str) -> None:
    if not RATES[0] <= rate <= RATES[1]:
        raise SoundError(f"{name} says that it has {rate:,} samples a second: it must be {RATES[0]:,} to {RATES[1]:,}.")
    if frames / rate > MAX_SECONDS:
        raise SoundError(
            f"{name} is {frames / rate / 3600:.1f} hours long, and at most {MAX_SECONDS / 3600:g} are read. Cut it "
            "into parts."
        )


def resample(samples: np.ndarray, rate: int, wanted: int = SAMPLE_RATE) -> np.ndarray:
    """By a windowed sinc, whose cut-off is half of the lower rate."""
    if rate == wanted or not len(samples):
        return np.ascontiguousarray(samples, np.float32)
    divisor = math.gcd(rate, wanted)
    up, down = wanted // divisor, rate // divisor
    cutoff = min(1.0, up / down)
    half = math.ceil(ZERO_CROSSINGS / cutoff)
    count = -(-len(samples) * up // down)
    padded = np.pad(samples.astype(np.float32), (half, half + down + 1))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    result = np.zeros(count, np.float32)
    offsets = np.arange(-half, half + 1)
    for phase in range(min(up, count)):
        first, rest = divmod(phase * down, up)
        distance = offsets - rest / up  # of each input sample from the output sample
        weights = cutoff * np.sinc(cutoff * distance) * np.cos(np.pi * distance / (2 * half + 2)) ** 2
        own = np.arange(phase, count, up)
        result[own] = windows[first + down * np.arange(len(own))] @ weights.astype(np.float32)
    return result
