"""Several caches of one layer as one, for a mixer with several branches."""

import torch
from torch import Tensor

from headway.nn.cache.kv import LayerCache, check_truncation


class CompositeCache:
    """Caches by name, all of which process the same tokens."""

    def __init__(self, parts: dict[str, LayerCache]) -> None:
        self.parts = parts

    @property
    def lengths(self) -> Tensor:
        return next(iter(self.parts.values())).lengths

    def select(self, rows: Tensor) -> None:
        for part in self.parts.values():
            part.select(rows)

    @property
    def min_length(self) -> Tensor:
        return torch.stack([part.min_length for part in self.parts.values()]).amax(0)

    def truncate(self, lengths: Tensor) -> None:
        check_truncation(self, lengths)  # first, so that either all parts go back or none
        for part in self.parts.values():
            part.truncate(lengths)

    def snapshot(self) -> "CompositeCache":
        return CompositeCache({name: part.snapshot() for name, part in self.parts.items()})

    def restore(self, saved: "CompositeCache") -> None:
        for name, part in self.parts.items():
            part.restore(saved.parts[name])

    def detach(self) -> None:
        for part in self.parts.values():
            part.detach()

    def tensors(self) -> dict[str, Tensor]:
        return {f"{name}.{key}": x for name, part in self.parts.items() for key, x in part.tensors().items()}

    def load(self, tensors: dict[str, Tensor]) -> None:
        for name, part in self.parts.items():
            prefix = f"{name}."
            part.load({key.removeprefix(prefix): x for key, x in tensors.items() if key.startswith(prefix)})

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.parts.values())
