"""Random changes of what is trained on, as a value: train.augmentation. Validation sees everything as it is."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway.config.schema import Part, number
from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.nn.transformer import Transformer


class NoAugmentation:
    """Everything as it is."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "none"

        def check(self, model: "Transformer.Config") -> None:
            """Anything may be left as it is."""


class PictureAugmentation:
    """Pictures cut, mirrored, turned and coloured by chance: headway.data.pictures.augment."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "pictures"
        crop: float = number(0.5, low=0.01, high=1)  # the smallest share of the area that is kept; 1: nothing is cut
        aspect: float = number(4 / 3, low=1, high=10)  # the sides of what is kept, by at most this ratio
        flip: float = number(0.5, low=0, high=1)  # share that is mirrored; 0 for digits, letters, signs
        turn: float = number(0.0, low=0, high=180)  # degrees, either way
        colour: float = number(0.2, low=0, high=1)  # brightness, contrast, saturation: times 1 - colour … 1 + colour

        def check(self, model: "Transformer.Config") -> None:
            front_end = model.encoder.frontend
            if front_end is None or front_end.reads != "pictures":
                raise ConfigError(
                    'this changes pictures, and the model reads none. Set "none", or model.encoder.frontend = '
                    '"patches(16)".',
                    "train.augmentation",
                )
