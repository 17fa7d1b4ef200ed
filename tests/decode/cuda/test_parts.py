"""The parts of the static search: what it leaves to the plain loop, what it keeps, and that a step can be recorded."""

from typing import Any

import pytest
import torch
from decode.cuda.test_search import MARKS, SHORT, both, model, small, sources
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from headway.decode import Search, decode
from headway.decode.cuda import decoder
from headway.decode.cuda import search as static
from headway.decode.cuda.beam_state import Frame, Plan, Size
from headway.decode.cuda.graphs import SHARE, share
from headway.decode.cuda.search import Engine, rounded
from headway.decode.reference.model import Ensemble, ModelStepper
from headway.decode.request import Task, make_jobs
from headway.errors import HeadwayError
from headway.nn.mixers.attention import split


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


class Listening(TorchDispatchMode):
    """Refuses what a graph cannot record: anything whose result the host has to know, or that comes from it."""

    def __torch_dispatch__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        name = function.overloadpacket.__name__
        asks = ("nonzero", "_local_scalar_dense", "masked_select", "item", "unique", "equal", "lift_fresh")
        assert name not in asks, name
        indices = given[1] if name in ("index", "index_put_") else []
        assert not any(part is not None and part.dtype == torch.bool for part in indices), name
        return function(*given, **(named or {}))


READERS = [
    {},
    {"position": "rope", "mask": "local(3)"},
    {"position": "t5(8, 20)", "mixer": "attention(4, groups=2)"},
    {"position": "learned(8)", "residual": "post", "feedforward": "swiglu(24)"},
]


@pytest.mark.parametrize("reader", READERS, ids=str)
@torch.no_grad()
def test_the_beginning_asks_the_host_nothing(reader: dict[str, Any]) -> None:
    frame = Frame(
        Engine(model(reader=reader)).folded, Plan(2, start=0, end=1, suppress=(), forced=False), Size(3, 8, 16)
    )
    assert frame.reads
    source, valid = sources(2, 7)
    task = Task(SHORT, MARKS, make_jobs([7, 7], [[], []], SHORT, None), source.device)
    frame.load(SHORT, task.jobs, source, valid)
    before = [part.data_ptr() for part in (*frame.past.source, frame.past.heard, frame.active, frame.left)]
    with Listening():
        frame.begin()
    assert before == [part.data_ptr() for part in (*frame.past.source, frame.past.heard, frame.active, frame.left)]
    assert frame.active.tolist() == [True, True, False]
    assert frame.left.tolist() == [2]


@pytest.mark.parametrize("reader", READERS, ids=str)
@torch.no_grad()
def test_sources_are_heard_alike_however_they_are_read(reader: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """In the frame's own size, as it is recorded, or in theirs. What a search before left in the frame does not count."""
    engine, (source, valid) = Engine(model(reader=reader)), sources(3, 7)
    pasts = []
    for most in (decoder.RECORDED, 0):
        monkeypatch.setattr(decoder, "RECORDED", most)
        frame = Frame(engine.folded, Plan(2, start=0, end=1, suppress=(), forced=False), Size(4, 8, 16))
        assert frame.reads == (most > 0)
        for part in ((source[:, :6] + 1, None), (source, valid)):
            frame.load(SHORT, make_jobs([7] * 3, [[]] * 3, SHORT, None), *part)
            frame.begin()
        pasts.append(frame.past)
    assert torch.equal(pasts[0].heard, pasts[1].heard)
    heard = valid[None, :, None, :, None]
    for mine, other, layer in zip(pasts[0].source, pasts[1].source, engine.folded.layers):
        assert mine.isfinite().all()
        torch.testing.assert_close(mine[:, :3, :, :7] * heard, other[:, :3, :, :7] * heard, atol=1e-5, rtol=1e-5)
        said = split(layer.cross.value(engine.model.encode(source, valid).values), mine.shape[2])
        torch.testing.assert_close(mine[1, :3, :, :7] * heard[0], said * heard[0], atol=1e-5, rtol=1e-5)


def test_what_cannot_be_recorded_is_read_as_it_is() -> None:
    readers: list[dict[str, Any]] = [
        {"position": "alibi"}, {"position": "learned(7)"}, {"mixer": "retention(2)", "position": "rope", "mask": "causal"},
        {"feedforward": "moe(2)"}, {"mask": "strided(3)"},
    ]  # fmt: skip
    assert not any(decoder.can_read(model(reader=reader), 2, 8) for reader in readers)
    assert not decoder.can_read(model(encoder=0), 2, 8)
    assert decoder.can_read(model(), 2048, 8)
    assert not decoder.can_read(model(), 2049, 8)


def test_a_step_asks_the_host_nothing() -> None:
    for changes in ({"position": "rope"}, {"position": "alibi", "mask": "causal & local(3)", "vocabulary": 700}):
        for beam in (1, 4):
            plan = Plan(beam, start=0, end=1, suppress=(3,), forced=True)
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

    monkeypatch.setattr(static._Walk, "parts", full)
    stepper = small(ModelStepper(model()))
    both(stepper, 3, SHORT)
    assert stepper.engine is None


def test_little_is_kept() -> None:
    stepper, search = small(ModelStepper(model())), Search(beam_size=4, max_length=20)
    stepper.engine.players.room = 0
    both(stepper, 7, search)
    assert not stepper.engine.players.kept


def test_processes_that_share_a_device_divide_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADWAY_SEARCH_MEMORY", raising=False)
    assert share() == SHARE
    monkeypatch.setenv("HEADWAY_SEARCH_MEMORY", "0.04")
    assert share() == 0.04
    for wrong in ("0", "2", "nan", "much"):
        monkeypatch.setenv("HEADWAY_SEARCH_MEMORY", wrong)
        with pytest.raises(HeadwayError, match=f'is "{wrong}". Give a share'):
            share()
