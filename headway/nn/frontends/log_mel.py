"""Log-mel frames, as Whisper's: 16,000 samples a second, 100 frames a second, each of 25 ms.

    samples ─► power spectrum (201) ─► mel filters ─► log10, at most 8 below the largest ─► (x + 4) / 4

The largest value is that of the whole window, so a window is normalised only when all of it is known; what comes before
is computed chunk by chunk by `LogMelStream`.
"""

import functools
import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.errors import HeadwayError
from headway.nn.frontends.frontend import FrameBatch

SAMPLE_RATE = 16_000
WINDOW_SAMPLES = 400  # of a frame
HOP_SAMPLES = 160  # from frame to frame
FRAMES_PER_SECOND = SAMPLE_RATE // HOP_SAMPLES
MARGIN = WINDOW_SAMPLES // 2  # the middle of the first frame is the first sample
LOWEST_POWER = 1e-10
DYNAMIC_RANGE = 8.0  # of log10, below the loudest
MIN_SAMPLES = MARGIN + 1  # that the mirrored margin needs


@functools.cache
def mel_filters(bins: int) -> Tensor:
    """(201, bins): triangles over the frequencies of a frame's spectrum, of equal area, their tops equally far apart on
    the mel scale (Slaney's: linear up to 1 kHz, logarithmic above). float32."""
    frequencies = torch.linspace(0, SAMPLE_RATE / 2, WINDOW_SAMPLES // 2 + 1, dtype=torch.float64)
    ends = torch.linspace(0, _hertz_to_mel(SAMPLE_RATE / 2), bins + 2, dtype=torch.float64)
    corners = _mel_to_hertz(ends)  # (bins + 2,)
    distance = corners[:, None] - frequencies  # (bins + 2, 201)
    widths = corners.diff()[:, None]
    falling, rising = distance[2:] / widths[1:], -distance[:-2] / widths[:-1]
    triangles = torch.minimum(falling, rising).clamp(min=0)  # (bins, 201)
    return (triangles * (2 / (corners[2:] - corners[:-2]))[:, None]).T.float().contiguous()


LINEAR_MELS_PER_HERTZ = 3 / 200
BREAK_HERTZ = 1000.0
LOG_STEP = math.log(6.4) / 27  # above the break


def _hertz_to_mel(hertz: float) -> float:
    if hertz < BREAK_HERTZ:
        return hertz * LINEAR_MELS_PER_HERTZ
    return BREAK_HERTZ * LINEAR_MELS_PER_HERTZ + math.log(hertz / BREAK_HERTZ) / LOG_STEP


def _mel_to_hertz(mels: Tensor) -> Tensor:
    above = mels - BREAK_HERTZ * LINEAR_MELS_PER_HERTZ
    return torch.where(above < 0, mels / LINEAR_MELS_PER_HERTZ, BREAK_HERTZ * (LOG_STEP * above).exp())


def log_mel(samples: Tensor, bins: int = 80) -> Tensor:
    """Samples (n,) between -1 and 1, 16,000 a second -> normalised frames (n // 160, bins)."""
    if samples.dim() != 1 or len(samples) < MIN_SAMPLES:
        raise HeadwayError(
            f"log-mel frames need one channel of at least {MIN_SAMPLES} samples, not {tuple(samples.shape)}. Pad the "
            "sound with zeros."
        )
    padded = F.pad(samples.float()[None], (MARGIN, MARGIN), mode="reflect")[0]
    return normalise(log_power(padded, len(samples) // HOP_SAMPLES, bins))


def log_power(samples: Tensor, count: int, bins: int) -> Tensor:
    """log10 of the power in each bin, (count, bins): frames that begin at the samples 0, 160, 320 …"""
    window = torch.hann_window(WINDOW_SAMPLES, device=samples.device)
    frames = samples.unfold(0, WINDOW_SAMPLES, HOP_SAMPLES)[:count] * window
    power = torch.fft.rfft(frames).abs() ** 2  # (count, 201)
    mel: Tensor = power @ mel_filters(bins).to(power.device)
    return mel.clamp(min=LOWEST_POWER).log10()


def normalise(logs: Tensor) -> Tensor:
    """Of one window (F, bins): values far below the loudest are raised, and all scaled to about -1 … 1."""
    return (torch.maximum(logs, logs.amax() - DYNAMIC_RANGE) + 4.0) / 4.0 if logs.numel() else logs


def window_frames(samples: Tensor, bins: int = 80, seconds: float = 30.0) -> Tensor:
    """A window exactly as Whisper reads it: samples cut at `seconds`, or followed by silence up to there."""
    length = round(seconds * SAMPLE_RATE)
    kept = samples[:length]
    return log_mel(F.pad(kept, (0, length - len(kept))), bins)


def batch_frames(sounds: Sequence[Tensor]) -> FrameBatch:
    """Frames of several sounds (F, bins), padded with zeros."""
    lengths = torch.tensor([len(frames) for frames in sounds])
    return FrameBatch(torch.nn.utils.rnn.pad_sequence(list(sounds), batch_first=True), lengths)


class LogMelStream:
    """Samples chunk by chunk -> log10 of power, not normalised: all chunks together are those of the whole.

    stream = LogMelStream(80)
    logs = [stream.push(samples), …, stream.end()]
    frames = normalise(torch.cat(logs))"""

    def __init__(self, bins: int = 80) -> None:
        self.bins = bins
        self.pending = torch.zeros(0)  # samples from the beginning of the next frame on
        self.begun = False  # the margin before the first sample is there, which mirrors what follows
        self.samples = 0  # read
        self.frames = 0  # made

    def push(self, samples: Tensor) -> Tensor:
        """(n,) -> frames (F, bins) that no later sample changes"""
        self.pending = torch.cat([self.pending, samples.float()])
        self.samples += len(samples)
        if not self.begun:
            if self.samples < MIN_SAMPLES:
                return torch.zeros(0, self.bins)
            self.pending = torch.cat([self.pending[1:MIN_SAMPLES].flip(0), self.pending])
            self.begun = True
        return self._take(max(len(self.pending) - WINDOW_SAMPLES + HOP_SAMPLES, 0) // HOP_SAMPLES)

    def end(self) -> Tensor:
        """The last frames, whose margin mirrors what is before it."""
        if not self.begun:
            raise HeadwayError(
                f"the sound has {self.samples} samples, and log-mel frames need at least {MIN_SAMPLES}. Pad it with "
                "zeros."
            )
        left = self.samples // HOP_SAMPLES - self.frames
        if left > 0:
            self.pending = torch.cat([self.pending, self.pending[-MARGIN - 1 : -1].flip(0)])
        return self._take(max(left, 0))

    def _take(self, count: int) -> Tensor:
        count = min(count, self.samples // HOP_SAMPLES - self.frames)
        if count <= 0:
            return torch.zeros(0, self.bins)
        logs = log_power(self.pending, count, self.bins)
        self.pending = self.pending[count * HOP_SAMPLES :]
        self.frames += count
        return logs
