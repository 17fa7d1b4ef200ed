"""Equal parameters: the widths that give every variant the same number of weights.

First the hidden width of the feed-forwards is scaled, since it changes nothing else. Where that cannot reach the
target (no feed-forward has one, or it would have to grow or shrink too far), d_model is changed as well.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from headway.compare.axes import nest_paths
from headway.config.config import Config
from headway.config.schema import from_dict
from headway.config.sources import Layer, compose, merge_layers
from headway.errors import ConfigError

TOLERANCE = 0.02  # share of the target by which a variant may miss it
MAX_HIDDEN_FACTOR = 4.0  # by which feed-forwards may grow or shrink before d_model is changed
HIDDEN_STEP = 8  # hidden widths are multiples of it, where that comes close enough
MAX_WIDTH_CHANGE = 4  # d_model stays between a quarter and four times of what was given


class Fit(NamedTuple):
    """How a variant reaches the parameter budget."""

    layers: list[Layer]  # config layers to add; none: it fits as it is
    parameters: int
    how: str  # a phrase for the table


def fit_parameters(layers: Sequence[Layer], target: int, vocabulary: dict[str, Any], fixed: Sequence[str] = ()) -> Fit:
    """`vocabulary`: the sizes of the tokenizers, as settings of the model. `fixed`: paths that the study varies, which
    are not touched. Raises ConfigError if the target cannot be reached."""

    def count(changes: dict[str, Any]) -> int:
        config, _ = compose([*layers, Layer("tokenizer", {"model": vocabulary}), *_as_layers(changes)])
        return config.model.parameter_count()

    config, _ = compose([*layers, Layer("tokenizer", {"model": vocabulary})])
    own = config.model.parameter_count()
    if _is_near(own, target):
        return Fit([], own, "as it is")
    scales = not _touches(fixed, "feedforward")
    scaled = _solve_hidden(layers, config, target, count) if scales else None
    if scaled is not None:
        changes, parameters, factor = scaled
        return Fit(_as_layers(changes), parameters, f"feed-forwards × {factor:.2f}")
    widened = None if _touches(fixed, "d_model") else _solve_width(layers, config, target, count, scales)
    if widened is not None:
        changes, parameters = widened
        return Fit(_as_layers(changes), parameters, f"d_model {config.model.d_model} → {changes['model.d_model']}")
    raise ConfigError(
        f"this variant has {own:,} parameters, and no width gives it {target:,} within {TOLERANCE:.0%}. Set "
        'parameters = "free" in [budget], or another size.'
    )


def scalable_sides(config: Config) -> list[str]:
    """The sides that have a feed-forward with a hidden width, of its own or of its experts."""
    return [
        side
        for side in config.model.sides
        if any(has_hidden(part.to_dict()) for part in getattr(config.model, side).feedforward)
    ]


def scale_hidden(given: dict[str, Any], resolved: dict[str, Any], factor: float, step: int) -> dict[str, Any]:
    """A part as it was given, with every hidden width of the resolved one multiplied, in steps."""
    scaled = dict(given)
    for key, value in resolved.items():
        if key == "hidden":
            scaled[key] = max(step, round(value * factor / step) * step)
        elif isinstance(value, dict) and has_hidden(value):
            scaled[key] = scale_hidden(given.get(key) or {"kind": value["kind"]}, value, factor, step)
    return scaled


def has_hidden(table: dict[str, Any]) -> bool:
    return any(key == "hidden" or (isinstance(value, dict) and has_hidden(value)) for key, value in table.items())


def _solve_hidden(
    layers: Sequence[Layer], config: Config, target: int, count: Callable[[dict[str, Any]], int]
) -> tuple[dict[str, Any], int, float] | None:
    """Settings, their parameters and the factor; by bisection, since parameters grow with the width."""
    given = from_dict(Config, merge_layers(layers).tree)
    sides = scalable_sides(config)

    def settings(factor: float, step: int) -> dict[str, Any]:
        return {
            f"model.{side}.feedforward": [
                scale_hidden(part.to_dict(), resolved.to_dict(), factor, step)
                for part, resolved in zip(*(getattr(one.model, side).feedforward for one in (given, config)))
            ]
            for side in sides
        }

    for step in (HIDDEN_STEP, 1) if sides else ():
        low, high = 1 / MAX_HIDDEN_FACTOR, MAX_HIDDEN_FACTOR
        for _ in range(24):
            middle = (low * high) ** 0.5
            low, high = (middle, high) if count(settings(middle, step)) < target else (low, middle)
        for factor in (low, high):
            changes = settings(factor, step)
            if _is_near(parameters := count(changes), target):
                return changes, parameters, factor
    return None


def _solve_width(
    layers: Sequence[Layer],
    config: Config,
    target: int,
    count: Callable[[dict[str, Any]], int],
    scales: bool,
) -> tuple[dict[str, Any], int] | None:
    """d_model in steps that its heads divide, the closest first; then the feed-forwards again."""
    width, step = config.model.d_model, _width_step(config)
    low = max(step, width // MAX_WIDTH_CHANGE // step * step)
    sizes = []
    for d_model in range(low, width * MAX_WIDTH_CHANGE + 1, step):
        try:
            sizes.append((abs(count({"model.d_model": d_model}) - target), d_model))
        except ConfigError:  # a part refuses this width
            continue
    for _, d_model in sorted(sizes)[:4]:
        changes: dict[str, Any] = {"model.d_model": d_model}
        if _is_near(parameters := count(changes), target):
            return changes, parameters
        if scales:
            above = [*layers, *_as_layers(changes)]
            wider, _ = compose([*above, Layer("tokenizer", {"model": vocabulary_of(config)})])
            refined = _solve_hidden(above, wider, target, lambda more, own=changes: count(own | more))  # type: ignore[misc]
            if refined is not None:
                return changes | refined[0], refined[1]
    return None


def vocabulary_of(config: Config) -> dict[str, Any]:
    return {"vocabulary": config.model.vocabulary, "source_vocabulary": config.model.source_vocabulary}


def _width_step(config: Config) -> int:
    """A width that every number of heads divides into an even share."""
    heads = {
        getattr(part, "heads", 1)
        for side in config.model.sides
        for name in ("mixer", "cross")
        for part in getattr(getattr(config.model, side), name) or ()
    }
    step = 8
    for count in heads:
        while step % (2 * count):
            step += 8
    return step


def _is_near(parameters: int, target: int) -> bool:
    return abs(parameters - target) <= TOLERANCE * target


def _touches(paths: Sequence[str], name: str) -> bool:
    return any(name in path.split(".") for path in paths)


def _as_layers(changes: dict[str, Any]) -> list[Layer]:
    return [Layer("parameter budget", nest_paths(changes))] if changes else []
