"""The native engine finds, to the token, what torch's int8 search and the reference search find."""

import itertools
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headway.config.search import Search
from headway.decode.cpu.decoder import CpuDecoder, cpu_decoder_of
from headway.decode.dispatch import decode
from headway.decode.native.engine import NativeEngine
from headway.decode.native.model import NativeModel, make_sinusoids
from headway.decode.native.search import StopFlag, run_search
from headway.decode.padding import pad_rows
from headway.decode.probe import probe_engines
from headway.decode.request import SearchTask, make_jobs
from headway.decode.stop import SearchStopped, stop_when
from headway.decode.torch_backend import TorchEngine
from headway.errors import HeadwayError
from headway.nn.ops import native
from headway.nn.positions.positions import sinusoids
from headway.text.tokenizer.special_tokens import special_tokens
from headway.translate.backends import Engines

if native.load_library() is None:
    pytest.skip("a C compiler is missing: apt-get install gcc", allow_module_level=True)

Both = tuple[NativeEngine, TorchEngine, list[list[int]]]
SEARCHES = [
    {"beam_size": 1}, {"beam_size": 4}, {"beam_size": 8, "n_best": 8}, {"beam_size": 4, "n_best": 3, "min_length": 20},
    {"beam_size": 4, "n_best": 4, "max_length": 5}, {"beam_size": 8, "n_best": 8, "no_repeat_ngram": 3},
    {"beam_size": 4, "no_repeat_ngram": 1}, {"beam_size": 1, "no_repeat_ngram": 2, "min_length": 40},
    {"beam_size": 2, "max_length": 0}, {"beam_size": 3, "penalty": "power", "alpha": 1.0},
    {"beam_size": 4, "n_best": 4, "stopping": "score", "penalty": "power", "alpha": 1.0, "no_repeat_ngram": 1},
    {"beam_size": 3, "stopping": "score", "force_end": True, "renormalise": True, "max_length": 9, "min_length": 4},
    {"beam_size": 1, "stopping": "score", "force_end": True, "renormalise": True, "max_length": 6},
    {"beam_size": 4, "n_best": 4, "force_end": True, "max_length": 1, "min_length": 1},
]  # fmt: skip


@pytest.fixture(scope="module")
def both(translator_dir: Path, toy: Path) -> Both:
    by_torch = Engines([translator_dir], "cpu", "torch", "int8")
    source = by_torch.tokenizers.source
    rows = [source.encode(line) for line in (toy / "test.en").read_text().splitlines()[:200]]
    rows[5] = rows[5] * 6  # longer outputs than the cache has room for at first
    model = probe_engines([translator_dir], "cpu", "native", "int8").model
    assert isinstance(model, NativeModel)
    return NativeEngine(model, special_tokens(by_torch.tokenizers.target)), by_torch.torch, rows


@pytest.mark.parametrize("settings", SEARCHES, ids=str)
def test_it_finds_what_torch_finds(both: Both, settings: dict[str, Any]) -> None:
    engine, by_torch, rows = both
    search = Search(**settings)
    found = engine.search(rows, search)
    assert found == by_torch.search(rows, search), "the same weights and kernels: not even a bit differs"
    assert [engine.search([row], search)[0] for row in rows[:10]] == found[:10], "whatever stands beside a row"


@pytest.mark.parametrize("settings", SEARCHES, ids=str)
def test_it_finds_what_the_reference_search_finds(both: Both, settings: dict[str, Any]) -> None:
    engine, by_torch, rows = both
    search = Search(**settings)
    decoder = cpu_decoder_of(by_torch.steppers[0])
    assert isinstance(decoder, CpuDecoder)
    ids, valid = pad_rows(rows[:24], by_torch.pad, torch.device("cpu"))
    special = by_torch.special_tokens
    expected = decode(decoder, ids, valid, special_tokens=special, search=search, search_kind="reference")  # type: ignore[arg-type]
    for own, theirs in zip(engine.search(rows[:24], search), expected):
        assert [one.ids for one in own] == [one.ids for one in theirs]
        assert [one.score for one in own] == pytest.approx([one.score for one in theirs], abs=1e-4)


def test_forced_prefixes_of_any_length(both: Both) -> None:
    engine, by_torch, rows = both
    words = engine.search(rows[:40], Search(beam_size=1))
    prefixes = [own[0].ids[: index % 5] for index, own in enumerate(words)]
    prefixes[7] = (words[7][0].ids * 20)[:40]
    search = Search(beam_size=4, n_best=2, no_repeat_ngram=4)
    found = engine.search(rows[:40], search, prefixes=prefixes)
    assert found == by_torch.search(rows[:40], search, prefixes=prefixes)
    decoder: Any = cpu_decoder_of(by_torch.steppers[0])
    for row, prefix, own in itertools.islice(zip(rows, prefixes, found), 10):
        assert own[0].ids[: len(prefix)] == prefix and own[0].prefix == len(prefix)
        (expected,) = decode(
            decoder, torch.tensor([row]), special_tokens=by_torch.special_tokens, search=search, prefixes=[prefix],
            search_kind="reference",
        )  # fmt: skip
        assert [one.ids for one in own] == [one.ids for one in expected]
        assert own[0].token_logps == pytest.approx(expected[0].token_logps, abs=1e-4)


def test_what_is_left_to_torch(both: Both) -> None:
    engine = both[0]
    assert engine.unsupported(Search()) == engine.unsupported(Search(no_repeat_ngram=3, min_length=4), True) == ""
    for given, reason in (
        ((Search(sample=True, beam_size=1), False, None, False), "sampling is left to torch"),
        ((Search(shortlist=True), False, None, False), "shortlists are left to torch"),
        ((Search(method="mask_predict"), False, None, False), "mask_predict is left to torch"),
        ((Search(), False, print, False), "it does not record its steps"),
        ((Search(), False, None, True), "glossary terms are left to torch"),
    ):
        assert engine.unsupported(*given) == reason  # type: ignore[arg-type]


def test_batches_on_threads(both: Both) -> None:
    engine = both[0]
    engine.use_threads(3)
    seen: set[str] = set()
    meeting = threading.Barrier(3, timeout=30)

    def work(batch: int) -> None:
        meeting.wait()
        seen.add(threading.current_thread().name)

    engine.run_batches(work, range(6))
    assert len(seen) == 3
    seen.clear()
    engine.use_threads(1)
    engine.run_batches(lambda batch: seen.add(threading.current_thread().name), range(6))
    assert seen == {threading.current_thread().name}


def test_a_search_can_be_stopped(both: Both, translator_dir: Path) -> None:
    """By its context after a few steps, or by the engine within one."""
    engine, _, rows = both
    asked: list[int] = []

    def is_third_time() -> bool:
        asked.append(1)
        return len(asked) > 2

    engine.use_threads(2)
    for run in (
        lambda: engine.search(rows[:2], Search(min_length=100)),
        lambda: engine.run_batches(lambda batch: engine.search(batch, Search(min_length=100)), [rows[:1], rows[:2]]),
    ):
        asked.clear()
        with stop_when(is_third_time), pytest.raises(SearchStopped):
            run()  # type: ignore[no-untyped-call]
        assert len(asked) <= 4
    stop = StopFlag()
    stop.set()
    task = SearchTask(Search(), engine.special_tokens, make_jobs([3], [[]], Search(), None))
    with pytest.raises(KeyboardInterrupt):
        list(run_search(engine.model.search_model(), task, rows[:1], stop))
    other = Engines([translator_dir], "cpu", "native", "int8").torch_free
    assert isinstance(other, NativeEngine)
    other.stop()
    with pytest.raises(KeyboardInterrupt):
        other.search(rows[:1], Search())


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
@pytest.mark.parametrize(("width", "more"), [(48, {}), (33, {}), (48, {"spacing": "closed", "first": 2})])
def test_sinusoids(layout: Any, width: int, more: dict[str, Any]) -> None:
    numbers = torch.arange(600) + more.get("first", 0)
    expected = sinusoids(numbers, width, 10_000.0, layout, more.get("spacing", "open")).float().numpy()
    table = make_sinusoids(600, width, {"base": 10_000.0, "layout": layout, **more})
    assert np.abs(table - expected).max() <= 6e-8


def test_learned_positions_end(both: Both, train_toy: Any) -> None:
    flags = [word for side in ("encoder", "decoder") for word in ("--set", f"model.{side}.position=learned(70)")]
    folder = train_toy(*flags, "--set", "train.steps=10", "--set", "train.validate_every=10")
    by_torch, by_native = (Engines([folder], "cpu", name, "int8") for name in ("torch", "native"))  # type: ignore[arg-type]
    rows = both[2][6:20]
    own, theirs = by_native.choose(Search()), by_torch.choose(Search())
    assert (own.name, theirs.name) == ("native", "torch")
    search = Search(max_length=30)
    assert own.search(rows, search) == theirs.search(rows, search)
    with pytest.raises(HeadwayError, match="this model learned 70 positions and was given 90 tokens"):
        own.search([(rows[0] * 90)[:90]], search)
