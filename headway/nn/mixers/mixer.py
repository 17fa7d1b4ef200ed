"""What a mixer is: a sub-layer in which places listen to each other. Its file lies in headway/nn/mixers/.

forward(x, ctx, *, source=None, state=None) -> (B, T, d)
    The same in training and in decoding. source: another text to hear instead of x; state: what it remembers of
    earlier calls, which it writes on. ctx.queries tells where x stands and what of it is padding. With a state,
    padding anywhere in x changes nothing and takes up no position; without one it stands at the end of a row, and
    changes nothing of what is before it. source is None for one that cannot hear another text: a mixer that
    refuses the mask "full" is never given one.
new_state(batch, device, *, reach=None, learns=False) -> State or None
    reach: how far back its mask looks; learns: the weights will change before the state is read again. None: it
    remembers nothing (then `remembers = False`). One that can hear another text takes `listens` too.
adds
    The names of the linear layers whose output joins the stream: residuals for deep models start them smaller.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

from headway.config.schema import Part
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope
from headway.nn.masks.masks import Mask
from headway.nn.positions.positions import Position


@dataclass(frozen=True, kw_only=True)
class MixerConfig(Part):
    """The settings of a mixer; what is not written here by a kind is as follows."""

    reads: ClassVar[str] = ""  # what it hears instead of x, by the name under which that is published below it

    def resolved(self, scope: Scope) -> Self:
        """Derived values filled in, impossible ones refused."""
        return self

    def refuse(self, mask: Mask, position: Position.Config) -> None:
        """Raise a ConfigError for a mask or a position that it could not honour: nothing is ignored silently."""

    def bounded(self, mask: Mask) -> bool:
        """Whether its state stays small however long the text is."""
        return False

    def cost(self, scope: Scope) -> Cost:
        """What it will cost, before it is built; a test counts. Where the mask looks back only so far, the stack counts
        fewer pairs, and of what is kept for each token, if it is bounded, as much as a ring holds."""
        raise NotImplementedError


def head_width(heads: int, d_k: int | None, scope: Scope) -> int:
    """d_k, or else an equal share of the model's width."""
    if d_k is None and scope.d_model % heads:
        raise ConfigError(
            f"{heads} heads do not divide d_model = {scope.d_model}. Choose a number that does, or give d_k.", "heads"
        )
    return d_k or scope.d_model // heads


def refuse_odd(d_k: int | None, position: Position.Config) -> None:
    if position.acts == "turns" and d_k and d_k % 2:
        raise ConfigError(f"{position.kind} turns pairs of channels, and a head has {d_k}: make d_k even.", "position")
