"""Several adapters over one base, in a server: each is a model of its own, and the base is in memory once."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from quick_training import PAIRS

import headway
from headway.errors import HeadwayError
from headway.nn.layers.lora import LoraConfig
from headway.serve.model_pool import ModelPool
from headway.serve.settings import ServerSettings
from headway.storage.adapter import load_adapter, save_adapter
from serve.conftest import running

LINES = [PAIRS[0][0]]
FINE: dict[str, Any] = {"steps": 1, "device": "cpu", "progress": False, "set": {"train.validate_every": 1}}


@pytest.fixture(scope="module")
def adapters(translator_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two, whose weights are loud enough to be heard."""
    folder = tmp_path_factory.mktemp("adapters")
    for n, name in enumerate(("law", "medicine")):
        headway.train(PAIRS, out=folder / name, from_model=translator_dir, lora=2, **FINE)
        weights = load_adapter(folder / name).weights
        generator = torch.Generator().manual_seed(n)
        loud = {key: torch.randn(tensor.shape, generator=generator) * 0.3 for key, tensor in weights.items()}
        save_adapter(folder / name, LoraConfig(2), translator_dir, loud, "card")
    return [folder / "law", folder / "medicine"]


def make_pool(*models: Path, **settings: Any) -> ModelPool:
    return ModelPool(ServerSettings(models=tuple(map(str, models)), device="cpu", threads=1, **settings), print)


def test_they_share_the_weights_of_a_base_that_is_served(translator_dir: Path, adapters: list[Path]) -> None:
    pool = make_pool(adapters[0], translator_dir, adapters[1])
    law, base, medicine = pool.models
    assert law.base is medicine.base is base and base.base is None and base.bytes > 10 * law.bytes
    pool.acquire(law)
    pool.acquire(medicine)
    models = [one.loaded.engines.loaded[0].model for one in (law, base, medicine)]  # type: ignore[union-attr]
    assert models[0].output_embedding is models[1].output_embedding is models[2].output_embedding
    pool.release(law)
    pool.release(medicine)
    pool.unload_idle()  # all but the last that was used, whose base stays
    assert [one.loaded is not None for one in (law, base, medicine)] == [False, True, True]
    pool.acquire(law)
    pool.acquire(law)
    assert (law.users, base.users) == (2, 2)  # of the base: the two adapters that are loaded


def test_a_base_that_is_not_served_is_loaded_once(translator_dir: Path, adapters: list[Path]) -> None:
    pool = make_pool(*adapters)
    law, medicine = pool.models
    assert law.base is not None and law.base is medicine.base and law.base not in pool.models
    pool.acquire(law)
    pool.acquire(medicine)
    expected = headway.load_translator(translator_dir, engine="torch", device="cpu")
    assert law.loaded is not None
    assert law.loaded(LINES) == expected.with_adapter(adapters[0])(LINES)  # type: ignore[operator]


def test_clients_choose_by_name(translator_dir: Path, adapters: list[Path]) -> None:
    base = headway.load_translator(translator_dir, engine="torch", device="cpu")
    with running(translator_dir, *adapters) as server:
        found = []
        for name in (translator_dir.name, "law", "medicine"):
            body = {"q": LINES, "source": "en", "target": "qtx", "model": name}
            found.append(server.post("/translate", body).json()["translatedText"])
        body = {"q": LINES, "source": "en", "target": "qtx"}
        assert server.error("/translate", {**body, "model": "nobody"}) == (404, "there is no model nobody")
        refused = server.error("/translate", {**body, "source": "qtx", "target": "en", "model": "law"})
        assert refused[0] == 400 and refused[1].endswith("by law")
    texts = [base(LINES), *(base.with_adapter(adapter)(LINES) for adapter in adapters)]
    assert found == texts and texts[0] != texts[1] != texts[2]


def test_without_its_base_an_adapter_is_refused(translator_dir: Path, adapters: list[Path], tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(translator_dir, moved, ignore=shutil.ignore_patterns("checkpoints"))
    text = (adapters[0] / "adapter.json").read_text().replace(str(translator_dir.resolve()), str(tmp_path / "gone"))
    lost = tmp_path / "lost"
    shutil.copytree(adapters[0], lost)
    (lost / "adapter.json").write_text(text)
    with pytest.raises(HeadwayError, match="lost is an adapter of .*gone, which is not there with the same weights"):
        make_pool(lost)
    assert make_pool(lost, moved).models[0].base is not None  # wherever it lies: the weights decide
    (lost / "adapter.json").write_text("{")
    with pytest.raises(HeadwayError, match="is damaged. Copy the adapter again"):
        make_pool(lost, moved)
