"""The pictures of the gallery show what the kinds do: computed by the kinds themselves."""

import numpy as np
import pytest
import torch

from headway.config import catalogue
from headway.inspect.kind_pictures import LENGTH, LEVELS, describe_kinds, kind_picture
from headway.nn.masks.masks import dense_mask, make_mask

ROW, COLUMN = np.indices((LENGTH, LENGTH))


@pytest.mark.parametrize("kind", catalogue.kinds("mask"))
def test_a_mask_shows_its_own_rule(kind: str) -> None:
    picture = kind_picture("mask", kind)
    assert picture is not None and picture.about == "mask"
    rule = ROW // 12 == COLUMN // 12 if kind == "document" else dense_mask(make_mask(picture.written), LENGTH).numpy()
    assert (picture.levels == LEVELS * rule).all()
    assert kind == "full" or 0 < (picture.levels == 0).mean() < 1, "it shows what it hides"


def test_positions() -> None:
    added, scores = kind_picture("position", "sinusoidal"), kind_picture("position", "alibi")
    assert added is not None and (added.about, added.levels.max(), added.levels.min()) == ("added", LEVELS, 0)
    assert scores is not None and scores.about == "scores"
    assert (scores.levels.diagonal() == LEVELS).all() and scores.levels[-1, 0] == 0, "near is high, far is low"
    assert kind_picture("position", "none") is kind_picture("position", "learned") is None


@pytest.mark.parametrize("kind", ["attention", "retention"])
def test_a_mixer_hears_the_past_alone(kind: str) -> None:
    state = torch.get_rng_state()
    picture = kind_picture("mixer", kind)
    assert picture is not None and picture.about == "heard"
    assert (picture.levels[COLUMN > ROW] == 0).all() and (picture.levels[COLUMN <= ROW] > 0).all()
    assert torch.equal(torch.get_rng_state(), state), "a picture draws no random numbers from others"


def test_other_slots_have_none() -> None:
    assert kind_picture("norm", "rmsnorm") is None


def test_every_kind_is_described_once() -> None:
    described = describe_kinds()
    assert [(one["slot"], one["kind"]) for one in described] == [(e.slot, e.kind) for e in catalogue.CATALOGUE]
    assert all("target" not in one and "" not in one.values() for one in described)
    attention = next(one for one in described if one["kind"] == "attention")
    assert ["heads", "8", "integer, at least 1"] in attention["settings"]
    assert all(len(row) == LENGTH and row.isdecimal() for row in attention["picture"]["rows"])
    assert [one["kind"] for one in described if one["slot"] == "mixer" and "picture" not in one] == []
