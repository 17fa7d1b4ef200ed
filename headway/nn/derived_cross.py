"""Cross-attention that a config leaves out: like the mixers of its own side, or of the encoder."""

from collections.abc import Iterable
from dataclasses import fields
from typing import NamedTuple

from headway.config.schema import Part
from headway.nn.mixers.attention import Attention, AttentionConfig

COPIED_SETTINGS = ("heads", "d_k")  # that cross-attention takes from a mixer that is not attention


class DerivedCross(NamedTuple):
    """Cross-attention that the config leaves out."""

    parts: tuple[Part, ...]
    origin: str  # the slot of the mixers whose heads it has: "decoder.mixer" …; "" where no mixer has any

    @property
    def description(self) -> str:
        return f"derived from {self.origin or 'the defaults of attention, as no mixer has heads'}"


def attention_like(mixers: Iterable[Part]) -> Part | None:
    """Attention with all settings of the first of these that is attention, or else with the heads of the first that has
    heads; None if none has."""
    with_heads = [mixer for mixer in mixers if "heads" in (spec.name for spec in fields(mixer))]
    for mixer in with_heads:
        if isinstance(mixer, AttentionConfig):
            known = {spec.name for spec in fields(Attention.Config)}
            names = [spec.name for spec in fields(mixer) if spec.name in known - {"kind"}]
            return Attention.Config(**{name: getattr(mixer, name) for name in names})
    for mixer in with_heads:
        return Attention.Config(**{name: getattr(mixer, name) for name in COPIED_SETTINGS if hasattr(mixer, name)})
    return None
