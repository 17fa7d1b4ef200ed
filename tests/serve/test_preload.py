"""The first model is loaded while the server starts."""

import shutil
from pathlib import Path

import pytest

from headway.serve.memory import MemoryBudget
from headway.serve.model_pool import ModelPool
from headway.serve.preload import SPARE_BYTES, preload_model
from headway.serve.served_model import ServedModel
from headway.serve.settings import ServerSettings
from serve.conftest import running, until


def test_the_first_model_is_there_before_anybody_asks(translator_dir: Path, lm_dir: Path) -> None:
    with running(translator_dir, lm_dir, preload=True) as server:
        first, second = server.state.pool.models
        until(lambda: first.loaded is not None and not first.users)
        assert second.loaded is None
    assert [message for _, message, _ in server.log if message.startswith("loaded")] == [f"loaded {first.name}"]


def test_torch_waits_where_memory_is_short(translator_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[str] = []

    def describe(pool: ModelPool, model: ServedModel, *lengths: int) -> None:
        described.append(model.name)

    monkeypatch.setattr("headway.serve.routes.inspect.describe_served_model", describe)
    settings = ServerSettings(models=(str(translator_dir),), device="cpu", threads=1, processes=2)
    pool = ModelPool(settings, lambda message, level="info", **fields: None)
    for limit, expected in ((2 * SPARE_BYTES, 0), (3 * SPARE_BYTES, 1)):  # for both processes
        preload_model(pool, MemoryBudget(limit))
        (model,) = pool.models
        assert model.loaded is not None
        assert model.users == 0
        assert len(described) == expected
    pool.close()


def test_a_model_that_cannot_be_loaded_does_not_keep_the_server_from_starting(
    translator_dir: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(translator_dir, broken)
    (broken / "tokenizer.json").write_text("{")
    with running(broken, preload=True) as server:
        until(lambda: any(level == "error" for level, _, _ in server.log))
        assert server.get("/health").status_code == 200
        assert server.state.pool.models[0].users == 0
