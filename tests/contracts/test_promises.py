"""Nothing is ignored silently: what a mixer accepts, it does. What the mask hides changes nothing, every position
counts, the config's linear layers are everywhere, residual outputs scale the output, and a cache is as large as the
config says. Each check notices a mixer that breaks it."""

from collections.abc import Callable

import pytest

from contracts.combining import Value, forms, forms_of
from contracts.toys import BROKEN, in_catalogue
from headway.config import catalogue
from headway.contracts.promises import (
    Placement,
    check_cache,
    check_linear_layers,
    check_mask,
    check_packed,
    check_position,
    check_residual_outputs,
    placements,
)
from headway.errors import ConfigError

with in_catalogue():
    MIXERS = forms("mixer")
    KINDS = {kind: forms_of("mixer", kind)[0] for kind in catalogue.kinds("mixer")}
PLAIN = Placement(("attention(4)",), "decoder", "causal", "none")

each_kind = pytest.mark.parametrize("mixer", KINDS.values(), ids=KINDS)
each_mixer = pytest.mark.parametrize("mixer", MIXERS, ids=" + ".join)
each_feedforward = pytest.mark.parametrize("feedforward", forms("feedforward"), ids=" + ".join)


def every_mask() -> list[str]:
    return [form for (form,) in forms("mask")]


def each(check: Callable[[Placement], None], tried: list[Placement]) -> None:
    assert tried, "nothing is accepted: nothing was checked"
    for place in tried:
        try:
            check(place)
        except AssertionError as error:
            raise AssertionError(f"{' + '.join(place.mixer)}, {place.side}, {place.position}: {error}") from None


@each_kind
def test_what_a_mask_hides_changes_nothing(mixer: Value) -> None:
    each(check_mask, placements(mixer, masks=every_mask()))


@each_kind
def test_packed_texts_stay_apart_or_are_refused(mixer: Value) -> None:
    each(check_packed, placements(mixer))


@each_kind
def test_every_position_counts(mixer: Value) -> None:
    positions = [kind for kind in catalogue.kinds("position") if kind != "none"]
    each(check_position, placements(mixer, positions=positions))


@each_mixer
def test_linear_layers_of_a_mixer_are_of_the_configs_kind(mixer: Value) -> None:
    each(check_linear_layers, placements(mixer)[-1:])


@each_feedforward
def test_linear_layers_of_a_feedforward_are_of_the_configs_kind(feedforward: Value) -> None:
    check_linear_layers(PLAIN, feedforward=feedforward[0])


@each_mixer
def test_residual_outputs_scale_the_output_of_a_mixer(mixer: Value) -> None:
    each(lambda place: check_residual_outputs(place, "self"), placements(mixer)[-1:])


@pytest.mark.parametrize("feedforward", [form for form in forms("feedforward") if form != ("none",)], ids=" + ".join)
def test_residual_outputs_scale_the_output_of_a_feedforward(feedforward: Value) -> None:
    check_residual_outputs(PLAIN, "feedforward", feedforward=feedforward[0])


@each_mixer
def test_a_cache_is_as_large_as_the_config_says(mixer: Value) -> None:
    """Under a window and without; a mixer that refuses both, under the first mask that it takes."""
    tried = placements(mixer, masks=["causal", "local(3)"]) or placements(mixer)
    decoders = [place for place in tried if place.side == "decoder"]
    if decoders:
        each(check_cache, decoders)
    else:
        with pytest.raises(ConfigError):
            PLAIN._replace(mixer=mixer).config().resolved()


def outputs_of_mixer(place: Placement) -> None:
    check_residual_outputs(place, "self")


BROKEN_PROMISES = [
    ("deaf_to_masks(4)", PLAIN._replace(mask="causal & local(3)"), check_mask, "an effect of .query, key"),
    ("never_ahead(4)", PLAIN._replace(side="encoder", mask="full"), check_mask, "no effect of it"),
    ("deaf_to_positions(4)", PLAIN._replace(position="rope"), check_position, "with rope than without"),
    (
        "deaf_to_positions(4)",
        PLAIN._replace(position="alibi"),
        check_position,
        "with alibi than without",
    ),
    ("torch_linear", PLAIN, check_linear_layers, "not made by make_linear: read$"),
    ("own_matrix", PLAIN, check_linear_layers, "not made by make_linear: turn$"),
    ("no_outputs", PLAIN, outputs_of_mixer, "residual_outputs of NoOutputs"),
    ("wrong_outputs", PLAIN, outputs_of_mixer, "found 1 of it"),
    ("hoarder(4)", PLAIN, check_cache, "bounded.. = True"),
    ("miser", PLAIN, check_cache, "bounded.. = False"),
]


@pytest.mark.parametrize(
    ("mixer", "place", "check", "says"), BROKEN_PROMISES, ids=lambda v: v if type(v) is str else ""
)
def test_a_broken_promise_is_noticed(
    mixer: str, place: Placement, check: Callable[[Placement], None], says: str
) -> None:
    with in_catalogue(BROKEN):
        broken = place._replace(mixer=(mixer,))
        broken.config().resolved()  # the config says nothing: only what it computes shows it
        with pytest.raises(AssertionError, match=says):
            check(broken)


def test_every_broken_kind_is_tried() -> None:
    assert {mixer.partition("(")[0] for mixer, *_ in BROKEN_PROMISES} == {entry.kind for entry in BROKEN}
