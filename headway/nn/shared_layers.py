"""What layers of a stack share, checked: weights (ALBERT), keys and values (YOCO)."""

from dataclasses import replace
from typing import Any

from headway.errors import ConfigError
from headway.nn.build import Scope
from headway.nn.masks.masks import make_mask


def check_shared_weights(stack: Any, scope: Scope, distinct: int) -> None:
    """Layers that have the same weights must have the same parts."""
    if stack.layers % distinct:
        raise ConfigError(
            f"{distinct} does not divide {stack.layers} layers, and each distinct layer is used equally often. "
            "Choose another number.",
            "distinct_layers",
        )
    for name in ("mixer", "cross", "nodes", "feedforward"):
        parts = stack.tiled(name)
        for index in range(distinct, stack.layers):
            if parts[index] != parts[index % distinct]:
                raise ConfigError(
                    f"layers {index % distinct + 1} and {index + 1} have the same weights, so they need the "
                    f"same {name}. Give {name} one entry, or a list whose length divides {distinct}.",
                    "distinct_layers",
                )
    mixers, masks = map(stack.tiled, ("mixer", "mask"))
    scopes = [replace(stack.layer_scope(scope, i), masks=(make_mask(part),)) for i, part in enumerate(masks)]
    counts = [mixer.cost(own).parameters for mixer, own in zip(mixers, scopes)]
    for index, mixer in enumerate(mixers):
        if counts[index] != counts[index % distinct]:
            raise ConfigError(
                f"{mixer.kind} has other weights in its first layer than in later ones, so that they cannot "
                "share them. Leave distinct_layers out.",
                "distinct_layers",
            )


def check_shared_kv(stack: Any) -> None:
    """Layers that share keys and values must have the same heads and rotation."""
    mixers, positions = ([stack.tiled(name)[i] for i in stack.shared_kv_layers] for name in ("mixer", "position"))
    for name in ("groups", "d_k", "d_v"):
        given = sorted({getattr(mixer, name) for mixer in mixers})
        if len(given) > 1:
            raise ConfigError(
                f"layers that share keys and values need the same {name}, but they have "
                f"{' and '.join(map(str, given))}. Give them the same.",
                "mixer",
            )
    if len({part if part.applies_to == "qk" else None for part in positions}) > 1:
        names = " and ".join(sorted({part.kind for part in positions}))
        raise ConfigError(
            f"layers that share keys need the same rotation, but their positions are {names}. Give them the same.",
            "position",
        )
