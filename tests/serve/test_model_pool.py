"""The model pool: models found by languages and names, loaded on use, unloaded when memory is short."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headway.errors import HeadwayError
from headway.serve.errors import ApiError
from headway.serve.languages import resolve_code
from headway.serve.model_pool import ModelPool
from headway.serve.settings import ServerSettings
from headway.text.language_names import language_name
from serve.conftest import Running, running, until


@pytest.fixture
def named(translator_dir: Path, tmp_path: Path) -> Callable[..., Path]:
    """The translator under another name and for other languages."""

    def make(name: str, source: list[str], target: list[str]) -> Path:
        folder = tmp_path / name
        shutil.copytree(translator_dir, folder, ignore=shutil.ignore_patterns("checkpoints"))
        config = json.loads((folder / "config.json").read_text())
        config.update(source_languages=source, target_languages=target)
        (folder / "config.json").write_text(json.dumps(config))
        return folder

    return make


def make_pool(*models: Path, messages: list[str] | None = None, **settings: Any) -> ModelPool:
    def log(message: str, level: Any = "info", **fields: Any) -> None:
        if messages is not None:
            messages.append(message)

    return ModelPool(ServerSettings(models=tuple(map(str, models)), device="cpu", threads=1, **settings), log)


def test_languages_as_clients_name_them() -> None:
    assert resolve_code("EN", ["en", "de"]) == "en"
    assert resolve_code("pt_BR", ["pt", "pt-BR"]) == "pt-BR"
    assert resolve_code("pb", ["pt", "pt-BR"]) == "pt-BR"
    assert resolve_code("pt-PT", ["pt"]) == "pt"
    assert resolve_code("zh", ["zh-Hans", "zh-Hant"]) == "zh-Hans"
    assert resolve_code("zh-Hans", ["zh"]) == "zh"
    assert resolve_code("zt", ["zh-Hant"]) == "zh-Hant"
    assert resolve_code("zh-Hant", ["zh"]) is None
    assert resolve_code("fr", ["en", "de"]) is None
    assert [language_name(code) for code in ("de", "zh_Hant", "de-AT", "qtx")] == [
        "German", "Chinese (traditional)", "German", "qtx",
    ]  # fmt: skip


def test_pairs_names_and_the_first_of_two(named: Callable[..., Path], tmp_path: Path) -> None:
    messages: list[str] = []
    one, other = named("a", ["en"], ["de"]), named("b/a", ["en", "de"], ["de"])
    both = make_pool(one, other, messages=messages)
    assert [model.name for model in both.models] == ["a", "a-2"]
    route = both.route_for("en", "de")
    assert route is not None and route.model is both.models[0]
    assert messages == [
        "en → de is translated by a, which was given first; a-2 is used only by requests that name it, as on the page"
    ]
    assert both.languages == ["en", "de"]
    assert both.targets_from("en") == ["de", "en"]
    assert both.sources_for("de") == ["en", "de"]
    with pytest.raises(ApiError, match="English \\(en\\) is not available as a target language from German \\(de\\)"):
        both.route_for("de", "en")


def test_the_least_recently_used_is_put_away(named: Callable[..., Path]) -> None:
    messages: list[str] = []
    folders = [named("a", ["en"], ["de"]), named("b", ["en"], ["fr"]), named("c", ["en"], ["es"])]
    size = (folders[0] / "model.safetensors").stat().st_size
    made = make_pool(*folders, messages=messages, memory=2 * size + 10)
    a, b, c = made.models
    for model in (a, b):
        made.acquire(model)
        made.release(model)
    assert made.try_acquire(a)
    made.release(a)
    made.acquire(c)
    made.release(c)
    assert [model.loaded is not None for model in (a, b, c)] == [True, False, True]
    assert messages == ["loaded a", "loaded b", "unloaded b", "loaded c"]
    made.acquire(a)
    made.acquire(c)
    with pytest.raises(ApiError, match="are in use") as refused:
        made.acquire(b)
    assert refused.value.status == 503
    made.close()


def test_what_cannot_be_served_is_said_at_once(named: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="there is no model directory"):
        make_pool(tmp_path / "nothing")
    with pytest.raises(HeadwayError, match="does not say between which languages"):
        make_pool(named("mute", [], []))
    folder = named("a", ["en"], ["de"])
    with pytest.raises(HeadwayError, match="and --memory is 0 MB"):
        make_pool(folder, memory=1000)
    (folder / "model.safetensors").unlink()
    with pytest.raises(HeadwayError, match="has no model.safetensors yet"):
        make_pool(folder)


def test_a_model_that_broke_meanwhile(named: Callable[..., Path]) -> None:
    folder = named("a", ["en"], ["de"])
    with running(folder) as server:
        (folder / "tokenizer.json").write_text("{")
        body = {"q": "The dog sleeps.", "source": "en", "target": "de"}
        assert server.error("/translate", body) == (500, "the model a cannot be loaded")  # and not where it lies
        assert any(level == "error" and "tokenizer.json" in message for level, message, _ in server.log)
        assert server.error("/api/translate", body) == (500, "the model a cannot be loaded")
        assert server.state.open_streams == 0


def test_each_text_goes_to_the_model_for_its_language(named: Callable[..., Path], served: Running) -> None:
    folders = [named("a", ["en"], ["qtx"]), named("b", ["de"], ["qtx"])]
    with running(*folders) as server:
        english, german = "The dog sees a red house in the garden.", "Der Hund sieht ein rotes Haus im Garten."
        made = server.post("/translate", {"q": [english, german], "source": "auto", "target": "qtx"}).json()
        assert [found["language"] for found in made["detectedLanguage"]] == ["en", "de"]
        assert sorted(message for _, message, _ in server.log if message.startswith("loaded")) == [
            "loaded a",
            "loaded b",
        ]
        alone = served.post("/translate", {"q": english, "source": "en", "target": "qtx"}).json()
        assert made["translatedText"][0] == alone["translatedText"]


def test_a_language_that_cannot_be_told_must_be_named(named: Callable[..., Path]) -> None:
    with running(named("a", ["qtx"], ["en"])) as server:
        told = 'Invalid request: the language "qtx" cannot be detected from its text. Send it as source'
        assert server.error("/translate", {"q": "Blorp.", "source": "auto", "target": "en"}) == (400, told)


def test_an_error_of_a_translator_names_no_paths(named: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = named("a", ["en"], ["de"])

    def refuse(*arguments: Any) -> None:
        raise HeadwayError(f"{folder} has not been calibrated.")

    with running(folder) as server:
        monkeypatch.setattr("headway.serve.queued_texts.TranslationStages", refuse)
        told = server.error("/translate", {"q": "The dog sleeps.", "source": "en", "target": "de"})
        assert told == (400, "Invalid request: a has not been calibrated.")


def test_memory_is_given_back_now_and_then(served: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.serve import model_pool

    given = list[int]()
    body = {"q": "The dog sleeps.", "source": "en", "target": "qtx"}
    served.post("/translate", body)  # loading gives memory back as well
    monkeypatch.setattr(model_pool, "trim_heap", lambda: given.append(1))
    monkeypatch.setattr(model_pool, "TRIM_SECONDS", 1000.0)
    served.post("/translate", body)
    assert not given
    monkeypatch.setattr(model_pool, "TRIM_SECONDS", 0.0)
    served.post("/translate", body)
    until(lambda: given)


def test_a_batch_does_not_fail_while_torch_is_being_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.serve import model_pool

    monkeypatch.setitem(sys.modules, "torch", ModuleType("half-imported"))
    model_pool._use_one_thread()
    counts: list[int] = []
    monkeypatch.setattr(sys.modules["torch"], "set_num_threads", counts.append, raising=False)
    model_pool._use_one_thread()
    assert counts == [1]
