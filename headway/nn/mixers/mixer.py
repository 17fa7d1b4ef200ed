"""The contract of a mixer: a sub-layer in which tokens exchange information. One file each in headway/nn/mixers/.

forward(x, ctx, *, source=None, cache=None) -> (B, T, d)
    The same in training and in decoding. source: encoder output to attend to instead of x; cache: what it keeps of
    earlier calls, updated in place. ctx.queries says which positions x has and what of it is padding. With a cache,
    padding anywhere in x has no effect and takes no position; without one, padding is at the end of a row and does not
    affect what precedes it. source is None for a mixer without cross-attention: one that refuses the mask "full", or
    whose Config says `cross_attends = False`, is never given one.
new_cache(batch, device, *, lookback=None, trainable=False) -> LayerCache or None
    lookback: how far back its mask looks; trainable: the weights change before the cache is read again. None: it needs
    no cache (then `needs_cache = False`). A mixer that can be cross-attention also takes `cross`.
residual_outputs
    The linear layers whose output is added to the residual stream, by name: residuals for deep models scale their
    initial weights down. None, where no linear layer scales the output.
keep_float
    Linear layers and matrices that are neither of the config's linear kind nor quantised, by name, where rounding would
    break the layer. None, unless it is set.

Nothing is ignored silently: `Config.check` refuses a mask or a position that the mixer cannot apply. Tests hold it to
that (tests/contracts/test_promises.py).
"""

from dataclasses import dataclass
from typing import ClassVar, Self

from headway.config.schema import Part
from headway.errors import ConfigError, HeadwayError
from headway.nn.build import Cost, Scope
from headway.nn.masks.masks import Mask
from headway.nn.positions.positions import Position
from headway.nn.sequence import TokenPositions


@dataclass(frozen=True, kw_only=True)
class MixerConfig(Part):
    """The base class of a mixer's settings, with the defaults of what a kind does not override."""

    reads: ClassVar[str] = ""  # name of the published keys and values that it reads instead of making its own
    cross_attends: ClassVar[bool] = True  # to encoder output too, if it takes the mask "full"
    has_query_stream: ClassVar[bool] = False  # a query stream can attend to what the content stream publishes (XLNet)
    needs_norm: ClassVar[bool] = False  # without norms its outputs would grow beyond all bounds from layer to layer

    def resolved(self, scope: Scope) -> Self:
        """Derived values filled in, impossible ones refused."""
        return self

    def check(self, mask: Mask, position: Position.Config) -> None:
        """Raise a ConfigError for a mask or a position that it cannot apply: nothing is ignored silently."""

    def bounded(self, mask: Mask) -> bool:
        """Whether the size of its cache is bounded, however long the text is."""
        return False

    def scored(self, mask: Mask) -> Mask:
        """The pairs whose scores it computes under this mask, for the cost of positions that change scores."""
        return mask

    def cost(self, scope: Scope) -> Cost:
        """What it will cost, known before it is built; a test compares. Where the mask has a lookback, the stack counts
        fewer pairs and, if the cache is bounded, only as many tokens as a sliding window holds."""
        raise NotImplementedError


def head_width(heads: int, d_k: int | None, scope: Scope) -> int:
    """d_k, or an equal share of the model's width."""
    if d_k is None and scope.d_model % heads:
        raise ConfigError(
            f"d_model = {scope.d_model} is not a multiple of {heads} heads. Choose another number of heads, or give "
            "d_k.",
            "heads",
        )
    return d_k or scope.d_model // heads


def check_even_heads(d_k: int | None, position: Position.Config) -> None:
    if position.applies_to == "qk" and d_k and d_k % 2:
        raise ConfigError(f"{position.kind} rotates pairs of channels, so d_k must be even, not {d_k}.", "position")


def check_running_state(kind: str, mask: Mask, position: Position.Config) -> None:
    """For a mixer that carries one state from token to token: it cannot leave any out, and has neither queries to
    rotate nor scores to change."""
    if mask.name != "causal":
        raise ConfigError(
            f'{kind} supports only the mask "causal", not "{mask.name}". Set mask = "causal", or choose the mixer '
            '"attention".',
            "mask",
        )
    if position.applies_to not in ("nothing", "input"):
        raise ConfigError(
            f"{position.kind} changes queries, keys or scores, and {kind} has none. Choose a position that is added, "
            'such as "sinusoidal", or "none": its state marks order too.',
            "position",
        )


def check_unpacked(kind: str, tokens: TokenPositions) -> None:
    if tokens.texts is not None:
        raise HeadwayError(
            f'{kind} would mix packed texts with each other. Pass padded rows (in training: train.batches = "padded").'
        )
