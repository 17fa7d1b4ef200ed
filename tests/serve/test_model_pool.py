"""Several models: found by languages and names, loaded when they are used, put away when there is no room."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.errors import HeadwayError
from headway.serve.errors import ApiError
from headway.serve.languages import name_of, resolve
from headway.serve.model_pool import Shelf
from headway.serve.settings import Settings
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


def shelf(*models: Path, told: list[str] | None = None, **settings: Any) -> Shelf:
    def tell(message: str, level: Any = "info", **fields: Any) -> None:
        if told is not None:
            told.append(message)

    return Shelf(Settings(models=tuple(map(str, model_pool)), device="cpu", threads=1, **settings), tell)


def test_languages_as_clients_name_them() -> None:
    assert resolve("EN", ["en", "de"]) == "en"
    assert resolve("pt_BR", ["pt", "pt-BR"]) == "pt-BR"
    assert resolve("pb", ["pt", "pt-BR"]) == "pt-BR"
    assert resolve("pt-PT", ["pt"]) == "pt"
    assert resolve("zh", ["zh-Hans", "zh-Hant"]) == "zh-Hans"
    assert resolve("zh-Hans", ["zh"]) == "zh"
    assert resolve("zt", ["zh-Hant"]) == "zh-Hant"
    assert resolve("zh-Hant", ["zh"]) is None
    assert resolve("fr", ["en", "de"]) is None
    assert [name_of(code) for code in ("de", "zh_Hant", "de-AT", "qtx")] == [
        "German", "Chinese (traditional)", "German", "qtx",
    ]  # fmt: skip


def test_pairs_names_and_the_first_of_two(named: Callable[..., Path], tmp_path: Path) -> None:
    told: list[str] = []
    one, other = named("a", ["en"], ["de"]), named("b/a", ["en", "de"], ["de"])
    both = shelf(one, other, told=told)
    assert [model.name for model in both.models] == ["a", "a-2"]
    assert both.between("en", "de") is both.models[0]
    assert told == ["a-2 is used for en → de only where it is named, as on the page: a came first"]
    assert both.languages == ["en", "de"]
    assert both.targets("en") == ["de", "en"]
    assert both.sources_of("de") == ["en", "de"]
    with pytest.raises(ApiError, match="English \\(en\\) is not available as a target language from German \\(de\\)"):
        both.between("de", "en")


def test_the_least_recently_used_is_put_away(named: Callable[..., Path]) -> None:
    told: list[str] = []
    folders = [named("a", ["en"], ["de"]), named("b", ["en"], ["fr"]), named("c", ["en"], ["es"])]
    size = (folders[0] / "model.safetensors").stat().st_size
    made = shelf(*folders, told=told, memory=2 * size + 10)
    a, b, c = made.models
    for model in (a, b):
        made.take(model)
        made.give(model)
    assert made.try_take(a)
    made.give(a)
    made.take(c)
    made.give(c)
    assert [model.loaded is not None for model in (a, b, c)] == [True, False, True]
    assert told == ["loaded a", "loaded b", "put away b", "loaded c"]
    made.take(a)
    made.take(c)
    with pytest.raises(ApiError, match="being used") as refused:
        made.take(b)
    assert refused.value.status == 503
    made.close()


def test_what_cannot_be_served_is_said_at_once(named: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="there is no model directory"):
        shelf(tmp_path / "nothing")
    with pytest.raises(HeadwayError, match="does not say between which languages"):
        shelf(named("mute", [], []))
    folder = named("a", ["en"], ["de"])
    with pytest.raises(HeadwayError, match="and --memory is 0 MB"):
        shelf(folder, memory=1000)
    (folder / "model.safetensors").unlink()
    with pytest.raises(HeadwayError, match="has no model.safetensors yet"):
        shelf(folder)


def test_a_model_that_broke_meanwhile(named: Callable[..., Path]) -> None:
    folder = named("a", ["en"], ["de"])
    with running(folder) as server:
        (folder / "tokenizer.json").write_text("{")
        body = {"q": "The dog sleeps.", "source": "en", "target": "de"}
        assert server.error("/translate", body) == (500, "the model a cannot be loaded")  # and not where it lies
        assert any(level == "error" and "tokenizer.json" in message for level, message, _ in server.log)
        assert server.error("/api/translate", body) == (500, "the model a cannot be loaded")
        assert server.service.streams == 0


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
        told = 'Invalid request: the language "qtx" cannot be told from others by its text. Send it as source'
        assert server.error("/translate", {"q": "Blorp.", "source": "auto", "target": "en"}) == (400, told)


def test_an_error_of_a_translator_names_no_paths(named: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.translate.translator import Translator

    folder = named("a", ["en"], ["de"])

    def refuse(self: Any, *arguments: Any, **more: Any) -> None:
        raise HeadwayError(f"{folder} has not been calibrated.")

    with running(folder) as server:
        monkeypatch.setattr(Translator, "translate", refuse)
        told = server.error("/translate", {"q": "The dog sleeps.", "source": "en", "target": "de"})
        assert told == (400, "Invalid request: a has not been calibrated.")


def test_memory_is_given_back_now_and_then(served: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.serve import model_pool

    given = list[int]()
    monkeypatch.setattr(model_pool, "_return_memory", lambda: given.append(1))
    body = {"q": "The dog sleeps.", "source": "en", "target": "qtx"}
    monkeypatch.setattr(model_pool, "TIDY", 1000.0)
    served.post("/translate", body)
    assert not given
    monkeypatch.setattr(model_pool, "TIDY", 0.0)
    served.post("/translate", body)
    until(lambda: given)
