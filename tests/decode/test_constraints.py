"""A beam that must say something: it does, wherever that costs least, and nothing else changes."""

import pytest
import torch

from headway.config.presets import tiny
from headway.decode import Search, SpecialTokens, decode
from headway.decode.constraints import ConstraintState, PhraseConstraints
from headway.decode.reference.model import ModelStepper
from headway.errors import ConfigError, HeadwayError
from headway.nn.transformer import Transformer

SPECIAL = SpecialTokens(start=1, end=2, suppress=(0, 1, 3))
INNER = frozenset(range(50, 64))


@pytest.fixture(scope="module", params=["float32", "int8"])
def stepper(request: pytest.FixtureRequest) -> ModelStepper:
    """In eight bits there is a search of its own, which asks for nothing."""
    torch.manual_seed(0)
    return ModelStepper(Transformer(tiny(vocabulary=64).model).eval(), request.param)


def contains(ids: list[int], phrase: tuple[int, ...]) -> bool:
    return any(tuple(ids[start : start + len(phrase)]) == phrase for start in range(len(ids)))


def test_what_has_been_said() -> None:
    constraints = PhraseConstraints(((5, 6), (7,), (5, 8)), INNER)
    assert constraints.state([]) == ConstraintState()
    assert constraints.state([9, 5]) == ConstraintState(0, 0, 1, -1)
    assert constraints.state([5, 6]) == ConstraintState(0b001, -1, 0, 0)
    assert constraints.state([5, 8]) == ConstraintState(0b100, -1, 0, 2)  # another phrase that began so
    assert constraints.state([5, 7]) == ConstraintState(0b010, -1, 0, 1)  # broken off, and another said
    assert constraints.state([5, 5, 6]).met == 0b001
    assert constraints.state([7, 51]).met == 0  # its word goes on
    assert constraints.state([7, 9, 51]).met == 0b010
    assert constraints.next_ids(ConstraintState()) == {5, 7}
    assert constraints.next_ids(ConstraintState(0b010, 0, 1, -1)) == {6}
    assert (constraints.count_missing([5, 6, 9]), constraints.count_missing([5, 6, 7, 5, 8])) == (3, 0)
    assert constraints.is_unmet(ConstraintState(0b011))
    assert not constraints.is_unmet(ConstraintState(0b111))


def test_phrases_are_said(stepper: ModelStepper) -> None:
    source = torch.randint(4, 64, (3, 7))
    asked = [((20, 21), (30,)), ((40, 41, 42),), ()]
    constraints = [PhraseConstraints(phrases, INNER) for phrases in asked]
    search = Search(beam_size=12, n_best=3, max_length=30)
    found = decode(stepper, source, special_tokens=SPECIAL, search=search, constraints=constraints)
    plain = decode(stepper, source, special_tokens=SPECIAL, search=search)
    for row, phrases in zip(found, asked):
        assert len(row) == 3
        assert all(contains(hypothesis.ids, phrase) for hypothesis in row for phrase in phrases)
    for ours, theirs in zip(found[2], plain[2], strict=True):  # nothing was asked of it
        assert ours.ids == theirs.ids
        assert ours.token_logps == pytest.approx(theirs.token_logps, abs=1e-5)
    best = found[0][0]
    assert best.logp == pytest.approx(sum(best.token_logps), rel=1e-5)
    alone = decode(stepper, source[:1], special_tokens=SPECIAL, search=search, constraints=constraints[:1])
    assert [h.ids for h in alone[0]] == [h.ids for h in found[0]]


def test_without_room_what_says_most_comes_first(stepper: ModelStepper) -> None:
    constraints = [PhraseConstraints(((20, 21, 22, 23),), INNER)]
    search = Search(beam_size=8, n_best=2, max_length=3)
    [row] = decode(
        stepper, torch.randint(4, 64, (1, 7)), special_tokens=SPECIAL, search=search, constraints=constraints
    )
    assert row[0].ids == [20, 21, 22]
    assert not row[0].finished


def test_a_recorded_step_cannot(stepper: ModelStepper) -> None:
    constraints = [PhraseConstraints(((20,),), INNER)]
    with pytest.raises(HeadwayError, match='the "cuda" search does not support this: outputs have constraints'):
        decode(
            stepper,
            torch.randint(4, 64, (1, 7)),
            special_tokens=SPECIAL,
            search=Search(),
            constraints=constraints,
            search_kind="cuda",
        )


def test_a_draw_cannot(stepper: ModelStepper) -> None:
    constraints, search = [PhraseConstraints(((20,),), INNER)], Search(beam_size=1, sample=True)
    with pytest.raises(ConfigError, match="sample: constraints need a beam search, not sampling"):
        decode(stepper, torch.randint(4, 64, (1, 7)), special_tokens=SPECIAL, search=search, constraints=constraints)
