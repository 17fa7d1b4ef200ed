"""A server with qaa → en and en → qab translates qaa → qab: texts, HTML, files, streams."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from event_loops import run_async
from installing_models import rename_languages

from headway.documents import SegmentRequest
from headway.serve.documents import translate_segments
from headway.serve.errors import ApiError
from headway.serve.model_pool import ModelPool
from headway.serve.settings import ServerSettings
from headway.serve.translate import RequestOptions, translate_texts
from headway.storage.calibration import FEATURES, Calibration
from headway.storage.pivots import PivotChoice
from headway.storage.registry import ModelChoice
from headway.translate.options import TranslateOptions
from headway.translate.pivot import PivotTranslator
from headway.translate.translator import load_translator
from serve.conftest import Running, running

TEXTS = ["A dog sees a house.", "Two cats run. The old man sleeps."]
BODY = {"source": "qaa", "target": "qab"}
Legs = tuple[Path, Path]


@pytest.fixture(scope="module")
def legs(translator_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Legs:
    folder = tmp_path_factory.mktemp("legs")
    made = (
        rename_languages(translator_dir, folder / "first", ["qaa"], ["en"]),
        rename_languages(translator_dir, folder / "second", ["en"], ["qab"]),
    )
    for leg, bias in zip(made, (3.0, 2.0)):
        zeros, ones = [0.0] * len(FEATURES), [1.0] * len(FEATURES)
        Calibration(zeros, ones, [1.0, *zeros[1:]], bias, 0.0, {}).save(leg)
    return made


@pytest.fixture(scope="module")
def server(legs: Legs) -> Iterator[Running]:
    with running(*legs) as started:
        yield started


@pytest.fixture(scope="module")
def pivot(legs: Legs) -> PivotTranslator:
    first, second = (load_translator(leg, device="cpu", threads=1) for leg in legs)
    choice = PivotChoice(ModelChoice((), "qaa", "en"), ModelChoice((), "en", "qab"))
    return PivotTranslator(first, second, choice)


def test_languages(server: Running) -> None:
    targets = {one["code"]: one["targets"] for one in server.get("/languages").json()}
    assert targets == {"qaa": ["en", "qaa", "qab"], "en": ["en", "qab"], "qab": ["qab"]}
    first, second = server.get("/api/models").json()
    assert first["pivots"] == [] and second["pivots"] == [["qaa", "en", "qab"]]


def test_texts(server: Running, pivot: PivotTranslator) -> None:
    expected = pivot.translate(TEXTS, TranslateOptions(align=True, search=pivot.search(n_best=3)))
    more = {"alternatives": 2, "alignments": True, "warnings": True, "scores": True}
    made = server.post("/translate", {**BODY, **more, "q": TEXTS}).json()
    assert made["translatedText"] == [one.text for one in expected]
    assert made["pivot"] == ["en", "en"]
    assert made["alternatives"][0] == [one.text for one in expected[0].guesses[1:]]
    assert made["alignments"] == [[list(link) for link in one.guesses[0].alignment or []] for one in expected]
    assert made["scores"] == pytest.approx([one.confidence for one in expected], abs=1e-3)
    assert server.post("/translate", {**BODY, "q": TEXTS[0]}).json()["pivot"] == "en"
    assert "pivot" not in server.post("/translate", {"source": "en", "target": "qab", "q": TEXTS[0]}).json()
    kept = server.post("/translate", {**BODY, "q": TEXTS[0], "min_score": 1.0, "warnings": True}).json()
    assert kept["translatedText"] == TEXTS[0] and kept["warnings"][-1].startswith("left untranslated: its score")
    named = {"q": "A dog sees Bob.", "glossary": {"dog": "数据"}, "protect": ["Bob"]}
    text = server.post("/translate", {**BODY, **named}).json()["translatedText"]
    assert text.count("数据") == text.count("Bob") == 1


def test_a_model_by_name_is_the_second_or_none(server: Running) -> None:
    assert server.post("/translate", {**BODY, "q": TEXTS[0], "model": "second"}).json()["pivot"] == "en"
    status, message = server.error("/translate", {**BODY, "q": TEXTS[0], "model": "first"})
    assert status == 400 and message == "qab (qab) is not available as a target language from qaa (qaa) by first"


def test_html_and_files(server: Running, pivot: PivotTranslator) -> None:
    made = server.post("/translate", {**BODY, "q": "<p>A <b>dog</b> sees.</p>", "format": "html"}).json()
    assert made["pivot"] == "en" and made["translatedText"].count("<b>") == made["translatedText"].count("</b>") == 1
    answer = server.post("/translate_file", data=BODY, files={"file": ("a.txt", "\n".join(TEXTS).encode())}).json()
    assert answer["pivot"] == "en" and answer["translated"] == 2
    text = server.get(answer["translatedFileUrl"].removeprefix(server.url)).text
    assert text == "\n".join(pivot(TEXTS))


def test_a_stream(server: Running, pivot: PivotTranslator) -> None:
    """It shows the steps of the second model, which reads what the first has written."""
    lines = server.post("/api/translate", {**BODY, "q": TEXTS[0], "beam_size": 2}).text.splitlines()
    events: list[dict[str, Any]] = [json.loads(line) for line in lines]
    expected = pivot.translate(TEXTS[:1], TranslateOptions(search=pivot.search(beam_size=2)))[0]
    assert expected.pivot is not None
    start, first, sentence = events[:3]
    assert (start["model"], start["source"], start["pivot"], start["target"]) == ("second", "qaa", "en", "qab")
    direction = {"model": "first", "source": "qaa", "target": "en"}
    assert first == {"event": "pivot", **direction, "text": expected.pivot.text, "warnings": []}
    assert sentence["text"] == expected.pivot.text
    assert events[-1]["event"] == "end" and events[-1]["text"] == expected.text
    status, message = server.error("/api/translate", {**BODY, "q": TEXTS[0], "model": "first"})
    assert status == 400 and message == "qab is not available as a target language from qaa by first"


def make_pool(*models: Path, **settings: Any) -> ModelPool:
    made = ServerSettings(models=tuple(map(str, models)), device="cpu", threads=1, **settings)
    return ModelPool(made, lambda *told, **more: None)


def test_one_model_at_a_time_is_enough(legs: Legs, pivot: PivotTranslator) -> None:
    pool = make_pool(*legs, memory=(legs[0] / "model.safetensors").stat().st_size + 10)
    route = pool.route_for("qaa", "qab")
    assert route is not None
    request = RequestOptions(TranslateOptions(target="qab"))
    (text,) = run_async(translate_texts(pool, route, TEXTS[:1], request))
    assert text.text == pivot(TEXTS[0])
    (segment,) = run_async(translate_segments(pool, route, [SegmentRequest(TEXTS[1], True)], request))
    assert segment.text == pivot(TEXTS[1]) and segment.links
    assert [model.loaded is not None for model in pool.models] == [False, True]


def test_direct_models_come_first_and_english_before_others(translator_dir: Path, tmp_path: Path) -> None:
    def model(name: str, source: str, target: str) -> Path:
        return rename_languages(translator_dir, tmp_path / name, source.split(), target.split())

    folders = [model("a", "de", "fr"), model("b", "fr", "zh"), model("c", "de", "en"), model("d", "en-US", "zh")]
    pool = make_pool(*folders)
    route = pool.route_for("de", "zh")
    assert route is not None
    assert [(leg.model.name, leg.source, leg.target) for leg in route.legs] == [("c", "de", "en"), ("d", "en-US", "zh")]
    assert pool.targets_from("de") == ["de", "en", "fr", "zh"]
    assert pool.sources_for("zh") == ["fr", "en-US", "de", "zh"]
    direct = make_pool(*folders, model("e", "de", "zh"))
    found = direct.route_for("de", "zh")
    assert found is not None and found.model.name == "e" and not found.pivot
    with pytest.raises(ApiError, match="not available as a target language from German"):
        direct.route_for("de", "zh", "d")
    assert direct.list_pivots(direct.models[3]) == []


def test_traditional_chinese_is_a_source_but_no_target(translator_dir: Path, tmp_path: Path) -> None:
    """Of a model of simplified text, which reads it in simplified characters."""
    pool = make_pool(rename_languages(translator_dir, tmp_path / "zh", ["zh", "en"], ["zh", "en"]))
    assert {pool.resolve_source(code) for code in ("zh-TW", "zt", "zh_Hant", "zh")} == {"zh"}
    assert pool.resolve_source("EN") == "en"
    for code in ("zt", "fr"):
        with pytest.raises(ApiError, match=f"{code} is not supported"):
            pool.resolve_language(code)
    with pytest.raises(ApiError, match="fr is not supported"):
        pool.resolve_source("fr")
