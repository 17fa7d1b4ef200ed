"""Sound as log-mel frames (Whisper): two convolutions, the second of which halves the number of frames."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import number
from headway.errors import ConfigError, HeadwayError
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.frontends.frontend import FrameBatch, FrontEnd, InputEnd
from headway.nn.frontends.log_mel import FRAMES_PER_SECOND
from headway.nn.positions.positions import sinusoids
from headway.nn.sequence import Memory, TokenPositions

if TYPE_CHECKING:
    from headway.nn.stack import Stack

KERNEL = 3  # frames that each convolution reads
STRIDE = 2  # of the second one


class Mel(FrontEnd):
    """gelu(conv(gelu(conv(frames)))) + positions: a vector for every two frames, 20 ms.

    Each convolution is a linear layer over three neighbouring frames; beyond the ends of a sound there are zeros."""

    @dataclass(frozen=True, kw_only=True)
    class Config(FrontEnd.Config):
        reads: ClassVar[Literal["text", "pictures", "sound"]] = "sound"
        kind: str = "mel"
        bins: int = number(80, low=1, high=512)  # Whisper has 80, its third large version 128
        seconds: float = number(30.0, low=0.02, high=3600)  # the longest sound that it reads at once
        position: Literal["sinusoidal", "learned", "none"] = "sinusoidal"

        @property
        def has_positions(self) -> bool:
            return self.position != "none"

        @property
        def max_frames(self) -> int:
            return round(self.seconds * FRAMES_PER_SECOND)

        @property
        def max_vectors(self) -> int:
            return -(-self.max_frames // STRIDE)

        def resolved(self, scope: Scope) -> "Mel.Config":
            if self.position == "sinusoidal" and (scope.d_model % 2 or scope.d_model < 4):
                raise ConfigError(
                    f"sinusoidal positions need pairs of channels, and d_model is {scope.d_model}. Choose an even "
                    "one, at least 4.",
                    "position",
                )
            return self

        def cost(self, scope: Scope) -> Cost:
            d = scope.d_model
            parameters = scope.linear_parameters(KERNEL * self.bins, d) + scope.linear_parameters(KERNEL * d, d)
            parameters += (self.position == "learned") * self.max_vectors * d
            first = 2 * KERNEL * d * self.bins  # for each of two frames of a vector, and for one beyond each end
            return Cost(
                parameters=parameters, flops_per_text=2 * first, flops_per_query=STRIDE * first + 2 * KERNEL * d * d
            )

        def example(self) -> FrameBatch:
            frames = min(self.max_frames, 16)
            return FrameBatch(torch.zeros(1, frames, self.bins), torch.tensor([frames]))

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config: Mel.Config = config
        self.width = scope.d_model
        self.first = make_linear(KERNEL * config.bins, scope.d_model, scope)
        self.second = make_linear(KERNEL * scope.d_model, scope.d_model, scope)
        learned = config.position == "learned"
        self.positions = nn.Parameter(0.02 * torch.randn(1, config.max_vectors, scope.d_model)) if learned else None
        self.end = InputEnd(scope, norm=False)

    def forward(self, given: FrameBatch, stack: "Stack") -> Memory:
        """FrameBatch -> Memory (B, ceil(F / 2), d)"""
        self.refuse_others(given, FrameBatch)
        if given.width > self.config.max_frames:
            raise HeadwayError(
                f"{given.width} frames are longer than the {self.config.seconds:g} s that this model reads at once. "
                "Read the sound in windows."
            )
        valid = given.valid
        x = self.convolve(F.pad(given.values, (0, 0, 2, 2)), F.pad(valid, (2, 2)))
        lengths = (given.lengths + STRIDE - 1) // STRIDE
        positions = torch.arange(x.shape[1], device=x.device)[None]
        tokens = TokenPositions(positions, positions < lengths[:, None], x.shape[1], in_order=True)
        return self.finish(x, tokens, stack)

    def convolve(self, frames: Tensor, valid: Tensor) -> Tensor:
        """Frames (B, 2 + F + 2, bins), of which two at each end serve only their neighbours -> (B, ceil(F / 2), d).
        valid (B, 2 + F + 2): false where there is no sound."""
        frames = frames.masked_fill(~valid[..., None], 0.0).to(next(self.parameters()).dtype)
        x = F.gelu(self.first(_neighbours(frames, 1)))  # (B, 1 + F + 1, d)
        x = x.masked_fill(~valid[:, 1:-1, None], 0.0)
        return F.gelu(self.second(_neighbours(x, STRIDE)))

    def finish(self, x: Tensor, tokens: TokenPositions, stack: "Stack") -> Memory:
        """With positions (B, S, d)."""
        if self.positions is not None:
            x = x + self.positions[0][tokens.positions].to(x.dtype)
        elif self.config.position == "sinusoidal":
            x = x + sinusoids(tokens.positions, self.width, layout="halves", spacing="closed").to(x.dtype)
        memory: Memory = self.end(Memory(x, tokens), stack)
        return memory

    def stream(self, stack: "Stack") -> "MelStream":
        return MelStream(self, stack)


def _neighbours(x: Tensor, stride: int) -> Tensor:
    """(B, F, c) -> (B, (F - 3) // stride + 1, 3 · c): each frame with both neighbours, channel by channel, as the
    weights of a convolution are."""
    return x.unfold(1, KERNEL, stride).flatten(2)


class MelStream:
    """One sound, frame by frame: the vectors of all chunks together are those of the whole.

    stream = front_end.stream(stack)
    stream.push(frames) … stream.push(frames), stream.end()      each gives a Memory, which may be empty"""

    def __init__(self, front_end: Mel, stack: "Stack") -> None:
        self.front_end = front_end
        self.stack = stack
        self.pending: Tensor | None = None  # (1, n, bins) frames from the second before the next vector on
        self.valid = torch.zeros(1, 2, dtype=torch.bool)  # of these: false before the sound
        self.vectors = 0  # that were made
        self.frames = 0  # that were read

    def push(self, frames: Tensor) -> Memory:
        """(1, F, bins) -> the vectors that no later frame changes"""
        self.frames += frames.shape[1]
        if self.frames > self.front_end.config.max_frames:
            raise HeadwayError(
                f"the sound is longer than the {self.front_end.config.seconds:g} s that this model reads at once. "
                "Begin a new stream for each window."
            )
        if self.pending is None:
            self.pending = F.pad(frames[:, :0], (0, 0, 2, 0))
            self.valid = self.valid.to(frames.device)
        self.pending = torch.cat([self.pending, frames], 1)
        self.valid = F.pad(self.valid, (0, frames.shape[1]), value=True)
        return self._take(max(self.pending.shape[1] - KERNEL, 0) // STRIDE)

    def end(self) -> Memory:
        """The vectors of what is left."""
        left = -(-self.frames // STRIDE) - self.vectors
        if self.pending is None or not left:
            return self._take(0)
        missing = STRIDE * left + KERNEL - self.pending.shape[1]
        self.pending = F.pad(self.pending, (0, 0, 0, missing))
        self.valid = F.pad(self.valid, (0, missing))
        return self._take(left)

    def _take(self, count: int) -> Memory:
        device = next(self.front_end.parameters()).device
        positions = torch.arange(self.vectors, self.vectors + count, device=device)[None]
        tokens = TokenPositions(positions, None, self.vectors + count)
        if not count or self.pending is None:
            return Memory(torch.zeros(1, 0, self.front_end.width, device=device), tokens)
        used = slice(0, STRIDE * count + KERNEL)
        x = self.front_end.convolve(self.pending[:, used], self.valid[:, used])
        self.pending, self.valid = self.pending[:, STRIDE * count :], self.valid[:, STRIDE * count :]
        self.vectors += count
        return self.front_end.finish(x, tokens, self.stack)
