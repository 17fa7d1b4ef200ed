"""Ways to fill the slots of a small model, and samples of them that leave nothing out.

Every kind of the catalogue takes part by being there: a mixer as cases.EXAMPLES writes it, a mask as
cases.CAUSAL_MASKS does, the others as FORMS does, or else by its kind alone, with a small `hidden` if it has one.

To draw a sample takes a minute, in every process that collects the tests, so the samples lie in combinations.txt. A new
kind draws them anew: python tests/contracts/combining.py
"""

import itertools
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from contracts.cases import CAUSAL_MASKS, EXAMPLES
from headway.config import catalogue
from headway.config.config import Config, read_config
from headway.config.schema import config_class, from_dict, make_part
from headway.errors import ConfigError
from headway.nn.transformer import Transformer
from headway.train.loss import batch_loss
from headway.train.objectives import Batch

FORMS = {("position", "learned"): "learned(32)", ("position", "t5"): "t5(8, max_distance=6)"}
FAMILIES = ("encoder", "decoder", "both", "listening")  # the last: the kinds in the decoder, behind a plain encoder
READING = "reading"  # a further family: the kinds in the encoder, before a plain decoder
OBJECTIVES = dict(zip((*FAMILIES, READING), ("masked", "causal", *["translation"] * 3)))
SLOTS = ("mixer", "position", "mask", "feedforward", "residual", "linear", "norm")
ALTERNATING = ("mixer", "position", "mask", "feedforward")  # slots that take a list
CAUSES = ("position", "family", "mixer")  # why another slot may be refused, the least first
MAX_REPAIRS = 100  # values exchanged before a combination is taken for impossible
VOCABULARY = 29
KEPT = Path(__file__).with_name("combinations.txt")

Value = tuple[str, ...]  # one part for all layers, or one for each
Values = dict[str, list[Value]]


class Combination(NamedTuple):
    family: Value
    mixer: Value
    position: Value
    mask: Value  # as an encoder takes it; a decoder's is made causal
    feedforward: Value
    residual: Value
    linear: Value
    norm: Value
    cross: Value = ()  # derived where it is empty

    def __str__(self) -> str:
        return ", ".join(" + ".join(value) for value in self if value)

    def table(self) -> dict[str, Any]:
        """The config as one would write it in a file."""
        (family,), (residual,), (linear,), (norm,) = self.family, self.residual, self.linear, self.norm
        side = {name: list(getattr(self, name)) for name in ALTERNATING} | {"layers": 2, "residual": residual}
        plain = {"layers": 1, "mixer": "attention(4)", "feedforward": "relu(24)"}
        listener = side | {"mask": [mask if mask == "causal" else f"causal & ({mask})" for mask in self.mask]}
        listener |= {"cross": list(self.cross)} if self.cross else {}
        encoder = {"decoder": {"layers": 0}, "listening": plain}.get(family, side)
        model = {
            "d_model": 16,
            "vocabulary": VOCABULARY,
            "linear": linear,
            "norm": norm,
            "encoder": encoder,
            "decoder": {"encoder": {"layers": 0}, READING: plain}.get(family, listener),
            "head": "masked" if family == "encoder" else "logits",
        }
        return {"model": model, "train": {"objective": OBJECTIVES[family], "max_tokens": 16}}

    def config(self) -> Config:
        return read_config(self.table())

    def refusal(self) -> ConfigError | None:
        """By the model and its objective alone, which is quicker than by the whole config."""
        table = self.table()
        objective: Any = make_part("objective", table["train"]["objective"])
        try:
            model = from_dict(Transformer.Config, table["model"])
            model.resolved()
        except ConfigError as error:
            return error.inside("model")
        try:
            objective.check(model)
        except ConfigError as error:
            return error
        return None


def loss_of(model: Transformer, batch: Batch, smoothing: float) -> Tensor:
    """A label's share of what training makes smaller."""
    return batch_loss(model, batch, smoothing).loss / batch.label_count


def forms_of(slot: str, kind: str) -> list[Value]:
    """How this kind is tried; a mixer that needs another beside it names both."""
    if slot == "mixer":
        return [tuple(form.split(" + ")) for form in EXAMPLES.get(kind, [kind])]
    if slot == "mask":
        return [(CAUSAL_MASKS.get(kind, kind).removeprefix("causal & "),)]
    small = "(hidden=24)" if "hidden" in config_class(slot, kind).__dataclass_fields__ else ""
    return [(FORMS.get((slot, kind), kind + small),)]


def forms(slot: str) -> list[Value]:
    return [form for kind in catalogue.kinds(slot) for form in forms_of(slot, kind)]


def every_value() -> Values:
    return {"family": [(family,) for family in FAMILIES], **{slot: forms(slot) for slot in SLOTS}}


def alternating_values() -> Values:
    """Two forms of a slot in turn: each after the first of them, and before the next."""
    values = every_value()
    for slot in ALTERNATING:
        alone = [form[0] for form in values[slot] if len(form) == 1]
        pairs = [(alone[0], form) for form in alone[1:]] + list(itertools.pairwise(alone))
        values[slot] = list(dict.fromkeys(pairs)) or values[slot]
    return values


def product(**fixed: Value) -> Iterator[Combination]:
    """Everything with everything where these stand, but for the norms, which take turns."""
    values = every_value() | {slot: [form] for slot, form in fixed.items()}
    norms = itertools.cycle(values.pop("norm"))
    for index, chosen in enumerate(itertools.product(*values.values())):
        if index % 7 == 0:  # or the turns would fall in step with some other slot
            next(norms)
        yield Combination(*chosen, norm=next(norms))


def slot_of(refusal: ConfigError) -> str:
    """The slot that a refusal is about: the last one that its path names."""
    named = [name for name in refusal.where.split(".") if name in Combination._fields]
    return named[-1] if named else ""


def parts_of(combination: Combination, count: int) -> set[tuple[tuple[str, Value], ...]]:
    """So many of its values at a time, each with its slot."""
    return set(itertools.combinations(combination._asdict().items(), count))


class Sample(NamedTuple):
    allowed: list[Combination]
    refused: list[Combination]


def covering(values: Values, count: int, rng: random.Random) -> Sample:
    """Every `count` values that can stand together do so in some combination; for those that cannot, one that is
    refused."""
    named = [[(slot, value) for value in found] for slot, found in values.items()]
    # A set with an order, so that the same seed gives the same sample.
    wanted = {part: None for slots in itertools.combinations(named, count) for part in itertools.product(*slots)}
    found = Sample([], [])
    while wanted:
        part = next(iter(wanted))
        drawn = [drawn_with(dict(part), values, rng) for _ in range(12)]
        best = max(drawn, key=lambda one: len(parts_of(one, count) & wanted.keys()))
        one, works = repaired(best, dict(part), values, rng)
        (found.allowed if works else found.refused).append(one)
        for done in parts_of(one, count) if works else {part}:
            wanted.pop(done, None)
    return found


def drawn_with(fixed: dict[str, Value], values: Values, rng: random.Random) -> Combination:
    return Combination(**{slot: fixed.get(slot) or rng.choice(found) for slot, found in values.items()})


def repaired(
    combination: Combination, fixed: dict[str, Value], values: Values, rng: random.Random
) -> tuple[Combination, bool]:
    """What is refused exchanged until nothing is: whether it works now. Where it had to stand there, or every other
    value was refused too, another position is tried, then another family, then another mixer."""
    tried: dict[str, set[Value]] = {}
    for _ in range(MAX_REPAIRS):
        refusal = combination.refusal()
        if refusal is None:
            return combination, True
        for slot in filter(None, (slot_of(refusal), *CAUSES)):
            tried.setdefault(slot, set()).add(getattr(combination, slot))
            left = [value for value in values[slot] if value not in tried[slot]]
            if left and slot not in fixed:
                break
        else:
            break
        if slot in CAUSES:  # everything else may be taken there
            tried = {name: tried[name] for name in CAUSES[CAUSES.index(slot) :] if name in tried}
        combination = combination._replace(**{slot: rng.choice(left)})
    return combination, combination.refusal() is None


def sample(values: Values, count: int, least: int, seed: int) -> Sample:
    """A covering, every value at least twice in it, and chance combinations until there are `least`."""
    rng = random.Random(seed)
    found = covering(values, count, rng)
    rare = [
        {slot: value}
        for slot, choices in values.items()
        for value in choices
        if sum(getattr(one, slot) == value for one in found.allowed) == 1
    ]
    missing = max(0, least - len(found.allowed) - len(rare))
    for fixed in [*rare, *({} for _ in range(missing))]:
        one, works = repaired(drawn_with(fixed, values, rng), fixed, values, rng)
        (found.allowed if works else found.refused).append(one)
    return found


def draw_samples() -> dict[str, Sample]:
    return {
        "two of all": sample(every_value(), 2, 300, seed=1),
        "alternating": sample(alternating_values(), 1, 100, seed=2),
    }


def write_samples(samples: dict[str, Sample]) -> str:
    """A line each: the sample, whether it is allowed, and the value of each slot."""
    lines = [
        "; ".join([name, verdict, *(" + ".join(value) for value in one if value)])
        for name, found in samples.items()
        for verdict, ones in found._asdict().items()
        for one in ones
    ]
    return "\n".join(lines) + "\n"


def read_samples(text: str) -> dict[str, Sample]:
    found: dict[str, Sample] = {}
    for line in text.splitlines():
        name, verdict, *values = line.split("; ")
        one = Combination(*(tuple(value.split(" + ")) for value in values))
        getattr(found.setdefault(name, Sample([], [])), verdict).append(one)
    return found


def main() -> None:
    from contracts.toys import in_catalogue

    with in_catalogue():
        KEPT.write_text(write_samples(draw_samples()), encoding="utf-8")


if __name__ == "__main__":
    main()
