"""The parts of the static search: what it leaves to the plain loop, what it keeps, and that a step can be recorded."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from headway.decode import Search, choose, decode, static
from headway.decode.frame import Frame, Plan, Size
from headway.decode.joint import Joint
from headway.decode.model import Ensemble, ModelStepper
from headway.decode.static import Engine, rounded
from headway.errors import HeadwayError

from .test_static import MARKS, SHORT, both, model, small, sources


def test_what_it_cannot_do_is_said_and_left_to_the_loop() -> None:
    source, valid = sources(2)
    stepper = ModelStepper(model())

    def check(reason: str, stepper: Any = stepper, search: Search = SHORT, **more: Any) -> None:
        given = {"valid": valid, **more}
        with pytest.raises(HeadwayError, match=f"cannot be static: {reason}"):
            decode(stepper, source, marks=MARKS, search=search, engine="static", **given)
        decode(stepper, source, marks=MARKS, search=search, **given)

    check("the model is none of ours", Ensemble([stepper, stepper]))
    check("sample is set", search=Search(beam_size=1, sample=True, max_length=4))
    check("no_repeat_ngram is set", search=Search(no_repeat_ngram=2, max_length=4))
    check("it is being recorded", record=lambda choice: None)
    with torch.autocast("cpu", torch.float16):
        check("autocast changes the precision")
    check("a source is empty", valid=valid & torch.tensor([[True], [False]]))
    with pytest.raises(HeadwayError, match="cannot be static: the model reads a source and has none"):
        decode(stepper, None, marks=MARKS, search=SHORT, prefixes=[[4]], engine="static")
    check("a prefix has more than 64", prefixes=[[4] * 65, [5]])
    check("its position is shaw", ModelStepper(model(position="shaw")))
    check("it learned 64 positions", ModelStepper(model(position="learned(64)", end=50.0)), Search(max_length=65))
    check("its scores are bent over more", ModelStepper(model(position="alibi", end=50.0)), Search(max_length=2000))
    check("it has a Retention", ModelStepper(model(mixer="retention(2)", position="rope", encoder=1)))
    check("it has a MixtureOfExperts", ModelStepper(model(feedforward="moe(2)")))
    check("its attention has keys", ModelStepper(model(mixer="attention(4, d_v=2)")))
    check("its attention has keys", ModelStepper(model(linear="bitnet")))
    check("it is in training", ModelStepper(model().train()))


def test_sizes() -> None:
    assert [rounded(count) for count in (0, 1, 2, 3, 4, 5, 7, 9, 13, 100, 129, 1024)] == [
        0, 1, 2, 3, 4, 6, 8, 12, 16, 128, 192, 1024,
    ]  # fmt: skip
    assert [rounded(count, 8) for count in (0, 1, 8, 9, 28)] == [0, 8, 8, 12, 32]


@pytest.mark.parametrize("vocabulary", [256, 300, 1000])
@pytest.mark.parametrize("beam", [2, 4, 7])
def test_all_beams_at_once(beam: int, vocabulary: int) -> None:
    """Exactly what is found line by line, equal sums too: rounded numbers, of which many are equal."""
    joint = Joint(beam, vocabulary, torch.device("cpu"))
    assert joint.able
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        logps = -torch.randint(0, 40, (3 * beam, vocabulary), generator=generator).float() / 8
        logps[torch.rand(logps.shape, generator=generator) < 0.9] = -torch.inf if seed % 2 else -9.0
        sums = -torch.randint(0, 8, (3, beam), generator=generator).float() / 4
        sums[1, 1:], sums[2] = -torch.inf, 0.0
        mine, other = joint(logps, sums), choose.beam(logps, sums, beam)
        assert torch.equal(mine.sums, other.sums)
        real = mine.sums > -torch.inf
        for name in ("sums", "logps", "ids", "parents"):
            assert torch.equal(getattr(mine, name)[real], getattr(other, name)[real])
    logps[0, 5] = torch.nan
    assert joint(logps, sums).sums[0, 0].isnan()


def test_a_step_asks_the_host_nothing() -> None:
    """What a graph cannot record: anything whose result the host has to know."""

    class Listening(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
            name = function.overloadpacket.__name__
            assert name not in ("nonzero", "_local_scalar_dense", "masked_select", "item", "unique", "equal"), name
            indices = given[1] if name in ("index", "index_put_") else []
            assert not any(part is not None and part.dtype == torch.bool for part in indices), name
            return function(*given, **(named or {}))

    for changes in ({"position": "rope"}, {"position": "alibi", "mask": "causal & local(3)", "vocabulary": 700}):
        for beam in (1, 4):
            plan = Plan(beam, end=1, suppress=(3,), forced=True)
            frame = Frame(Engine(model(**changes)).folded, plan, Size(2, 8, 16))
            with torch.no_grad():
                frame.step(16)  # makes its tables
                places = [part.data_ptr() for part in vars(frame).values() if isinstance(part, Tensor)]
                with Listening():
                    frame.step(16)
            assert places == [part.data_ptr() for part in vars(frame).values() if isinstance(part, Tensor)]
            assert int(frame.past.now) == 2


def test_where_memory_is_short_the_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(static, "run", full)
    stepper = small(ModelStepper(model()))
    both(stepper, 3, SHORT)
    assert stepper.engine is None


def test_little_is_kept() -> None:
    stepper, search = small(ModelStepper(model())), Search(beam_size=4, max_length=20)
    stepper.engine.players.room = 0
    both(stepper, 7, search)
    assert not stepper.engine.players.kept
