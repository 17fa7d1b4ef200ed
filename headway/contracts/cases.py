"""A small decoder with one kind in it, which the contracts of states and padding are checked on."""

from typing import Any, NamedTuple

import torch

from headway.config.schema import from_dict
from headway.errors import ConfigError
from headway.nn.transformer import Transformer


class Case(NamedTuple):
    mixer: str
    position: str = "sinusoidal"
    mask: str = "causal"
    residual: str = "post"
    linear: str = "dense"
    feedforward: str = "relu(24)"
    norm: str = "layernorm"

    def config(self, **changes: Any) -> Transformer.Config:
        side = self._asdict() | {"layers": 2}
        whole = {name: side.pop(name) for name in ("linear", "norm")}
        decoder = side | {"mixer": self.mixer.split(" + ")}
        table = {"d_model": 16, "vocabulary": 29, "dropout": 0.0, "encoder": {"layers": 0}, "decoder": decoder}
        return from_dict(Transformer.Config, table | whole | changes)

    def model(self, dtype: torch.dtype = torch.float64, **changes: Any) -> Transformer:
        torch.manual_seed(1)
        model = Transformer(self.config(**changes))
        for parameter in model.parameters():
            if parameter.dim() == 1:  # gains and biases too, so that none of them is without effect
                torch.nn.init.normal_(parameter, parameter.mean().item(), 0.3)
        return model.to(dtype).eval()

    @property
    def rounds(self) -> bool:
        """Whether numbers are rounded on the way: where one lies between two, the last bit of what came before decides,
        so that float32 can jump by a whole step. In float64 nothing lies so near the middle."""
        return self.linear.startswith("bitnet")

    @property
    def allowed(self) -> bool:
        try:
            self.config().resolved()
        except ConfigError as error:
            if error.where not in ("decoder.mask", "decoder.position"):
                raise
            return False
        return True


def cases_of(mixer: str, positions: list[str], masks: list[str]) -> list[Case]:
    """This mixer with each of these positions and each of these masks that it accepts, but not with all pairs of
    them. None for a mixer of encoders alone."""
    taken = [(mask, [position for position in positions if Case(mixer, position, mask).allowed]) for mask in masks]
    taken = [(mask, own) for mask, own in taken if own]
    if not taken:
        return []
    masks = [mask for mask, _ in taken]
    positions = max((own for _, own in taken), key=len)
    found = []
    for index in range(max(len(positions), len(masks))):
        case = Case(mixer, positions[index % len(positions)], masks[index % len(masks)])
        found += [case, case._replace(mask=masks[0]), case._replace(position=positions[0])][: 1 if case.allowed else 3]
    return [case for case in dict.fromkeys(found) if case.allowed]
