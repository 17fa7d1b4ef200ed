"""The parts of the CUDA search: what it does not support, what it keeps, and that a step can be recorded."""

from typing import Any

import pytest
import torch
from decode.cuda.test_search import SHORT, SPECIAL, both, model, small, sources
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from headway.decode import Search, decode
from headway.decode.cuda import decoder
from headway.decode.cuda import search as cuda_search
from headway.decode.cuda.beam_state import BeamState, BufferSize, StepSpec
from headway.decode.cuda.graphs import DEFAULT_MEMORY_SHARE, memory_share
from headway.decode.cuda.search import CudaSearch, round_up_size
from headway.decode.reference.model import Ensemble, ModelStepper
from headway.decode.request import SearchTask, make_jobs
from headway.errors import HeadwayError
from headway.nn.mixers.attention import split_heads


def test_what_it_cannot_do_is_said_and_left_to_the_loop() -> None:
    source, valid = sources(2)
    stepper = ModelStepper(model())

    def check(reason: str, stepper: Any = stepper, search: Search = SHORT, **more: Any) -> None:
        given = {"valid": valid, **more}
        with pytest.raises(HeadwayError, match=f'the "cuda" search does not support this: {reason}'):
            decode(stepper, source, special_tokens=SPECIAL, search=search, search_kind="cuda", **given)
        decode(stepper, source, special_tokens=SPECIAL, search=search, **given)

    check("the model is an ensemble", Ensemble([stepper, stepper]))
    check("sample is set", search=Search(beam_size=1, sample=True, max_length=4))
    check("no_repeat_ngram is set", search=Search(no_repeat_ngram=2, max_length=4))
    check("its steps are recorded", record=lambda choice: None)
    with torch.autocast("cpu", torch.float16):
        check("autocast is on")
    check("a source is empty", valid=valid & torch.tensor([[True], [False]]))
    with pytest.raises(HeadwayError, match="does not support this: the model needs a source and there is none"):
        decode(stepper, None, special_tokens=SPECIAL, search=SHORT, prefixes=[[4]], search_kind="cuda")
    check("a prefix has more than 64", prefixes=[[4] * 65, [5]])
    check("its position is shaw", ModelStepper(model(position="shaw")))
    check("it learned 64 positions", ModelStepper(model(position="learned(64)", end=50.0)), Search(max_length=65))
    check(
        "its positions or masks change scores", ModelStepper(model(position="alibi", end=50.0)), Search(max_length=2000)
    )
    check("it has a Retention", ModelStepper(model(mixer="retention(2)", position="rope", encoder=1)))
    check("it has a MixtureOfExperts", ModelStepper(model(feedforward="moe(2)")))
    check("its attention has keys", ModelStepper(model(mixer="attention(4, d_v=2)")))
    check("its attention has keys", ModelStepper(model(linear="bitnet")))
    check("it is in training", ModelStepper(model().train()))


def test_sizes() -> None:
    assert [round_up_size(count) for count in (0, 1, 2, 3, 4, 5, 7, 9, 13, 100, 129, 1024)] == [
        0, 1, 2, 3, 4, 6, 8, 12, 16, 128, 192, 1024,
    ]  # fmt: skip
    assert [round_up_size(count, 8) for count in (0, 1, 8, 9, 28)] == [0, 8, 8, 12, 32]


class RefuseHostSync(TorchDispatchMode):
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
    state = BeamState(
        CudaSearch(model(reader=reader)).decoder,
        StepSpec(2, start=0, end=1, suppress=(), has_prefixes=False),
        BufferSize(3, 8, 16),
    )
    assert state.encodes
    source, valid = sources(2, 7)
    task = SearchTask(SHORT, SPECIAL, make_jobs([7, 7], [[], []], SHORT, None), source.device)
    state.load(SHORT, task.jobs, source, valid)
    before = [
        part.data_ptr() for part in (*state.cache.cross_kv, state.cache.source_bias, state.active, state.active_count)
    ]
    with RefuseHostSync():
        state.begin()
    assert before == [
        part.data_ptr() for part in (*state.cache.cross_kv, state.cache.source_bias, state.active, state.active_count)
    ]
    assert state.active.tolist() == [True, True, False]
    assert state.active_count.tolist() == [2]


@pytest.mark.parametrize("reader", READERS, ids=str)
@torch.no_grad()
def test_cross_kv_is_the_same_however_sources_are_encoded(
    reader: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the size of the buffers, as in a graph, or in their own. What a search before left in the buffers does not
    count."""
    engine, (source, valid) = CudaSearch(model(reader=reader)), sources(3, 7)
    caches = []
    for max_tokens in (decoder.MAX_GRAPH_TOKENS, 0):
        monkeypatch.setattr(decoder, "MAX_GRAPH_TOKENS", max_tokens)
        state = BeamState(
            engine.decoder, StepSpec(2, start=0, end=1, suppress=(), has_prefixes=False), BufferSize(4, 8, 16)
        )
        assert state.encodes == (max_tokens > 0)
        for part in ((source[:, :6] + 1, None), (source, valid)):
            state.load(SHORT, make_jobs([7] * 3, [[]] * 3, SHORT, None), *part)
            state.begin()
        caches.append(state.cache)
    assert torch.equal(caches[0].source_bias, caches[1].source_bias)
    real = valid[None, :, None, :, None]
    for mine, other, layer in zip(caches[0].cross_kv, caches[1].cross_kv, engine.decoder.layers):
        assert mine.isfinite().all()
        torch.testing.assert_close(mine[:, :3, :, :7] * real, other[:, :3, :, :7] * real, atol=1e-5, rtol=1e-5)
        values = split_heads(layer.cross.value(engine.model.encode(source, valid).values), mine.shape[2])
        torch.testing.assert_close(mine[1, :3, :, :7] * real[0], values * real[0], atol=1e-5, rtol=1e-5)


def test_what_cannot_be_recorded_is_read_as_it_is() -> None:
    readers: list[dict[str, Any]] = [
        {"position": "alibi"},
        {"position": "learned(7)"},
        {"mixer": "retention(2)", "position": "rope", "mask": "causal"},
        {"feedforward": "moe(2)"},
        {"mask": "strided(3)"},
    ]
    assert all(decoder.encoder_unsupported(model(reader=reader), 2, 8) for reader in readers)
    assert decoder.encoder_unsupported(model(encoder=0), 2, 8)
    assert not decoder.encoder_unsupported(model(), 2048, 8)
    assert decoder.encoder_unsupported(model(), 2049, 8)


def test_a_step_asks_the_host_nothing() -> None:
    for changes in ({"position": "rope"}, {"position": "alibi", "mask": "causal & local(3)", "vocabulary": 700}):
        for beam in (1, 4):
            spec = StepSpec(beam, start=0, end=1, suppress=(3,), has_prefixes=True)
            state = BeamState(CudaSearch(model(**changes)).decoder, spec, BufferSize(2, 8, 16))
            with torch.no_grad():
                state.step(16)  # makes its tables
                addresses = [part.data_ptr() for part in vars(state).values() if isinstance(part, Tensor)]
                with RefuseHostSync():
                    state.step(16)
            assert addresses == [part.data_ptr() for part in vars(state).values() if isinstance(part, Tensor)]
            assert int(state.cache.now) == 2


def test_where_memory_is_short_the_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(cuda_search.SearchRun, "run", full)
    stepper = small(ModelStepper(model()))
    both(stepper, 3, SHORT)
    assert stepper.cuda_search is None


def test_little_is_kept() -> None:
    stepper, search = small(ModelStepper(model())), Search(beam_size=4, max_length=20)
    stepper.cuda_search.runners.max_bytes = 0
    both(stepper, 7, search)
    assert not stepper.cuda_search.runners.by_size


def test_processes_that_share_a_device_divide_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADWAY_SEARCH_MEMORY", raising=False)
    assert memory_share() == DEFAULT_MEMORY_SHARE
    monkeypatch.setenv("HEADWAY_SEARCH_MEMORY", "0.04")
    assert memory_share() == 0.04
    for wrong in ("0", "2", "nan", "much"):
        monkeypatch.setenv("HEADWAY_SEARCH_MEMORY", wrong)
        with pytest.raises(HeadwayError, match=f'is "{wrong}". Give a share'):
            memory_share()
