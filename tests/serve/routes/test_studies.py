"""Studies of `headway compare` on a server: their models, their numbers, and nothing of where they lie."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serve.conftest import Running, running
from serve.study_folders import make_row, spread, unfinished, write_study, write_two_mixers

from headway.errors import HeadwayError
from headway.serve.model_pool import ModelPool
from headway.serve.settings import ServerSettings
from headway.serve.studies import VariantResults, read_studies


@pytest.fixture(scope="module")
def study(translator_dir: Path, other_translator_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_two_mixers(tmp_path_factory.mktemp("studies") / "mixers", translator_dir, other_translator_dir)


@pytest.fixture(scope="module")
def compared(study: Path) -> Iterator[Running]:
    with running(studies=(str(study),)) as server:
        yield server


def make_pool(*studies: Path, models: tuple[str, ...] = (), **settings: Any) -> tuple[ModelPool, list[str]]:
    messages: list[str] = []

    def log(message: str, level: Any = "info", **fields: Any) -> None:
        messages.append(message)

    made = ServerSettings(models=models, studies=tuple(map(str, studies)), device="cpu", threads=1, **settings)
    return ModelPool(made, log), messages


def test_the_numbers_are_those_of_the_file(compared: Running, study: Path) -> None:
    stored = json.loads((study / "results.json").read_text())
    assert compared.get("/api/studies").json() == [{"name": "mixers", "title": "Two mixers", "variants": 4}]
    found = compared.get("/api/studies/mixers").json()
    assert (found["title"], found["budget"]) == (stored["name"], stored["budget"])
    for shown, row in zip(found["rows"], stored["rows"], strict=True):
        for name in ("name", "status", "parameters", "how", "p_value", "curves"):
            assert shown[name] == row[name], name
        for name, measure in row["measures"].items():
            assert shown["measures"][name] == {"mean": measure["mean"], "spread": measure["spread"]}
        assert [(p["length"], p["seconds"], p["bytes"]) for p in shown["lengths"]] == [
            (p["length"], p["seconds"], p["bytes"]) for p in row["lengths"]
        ]
        assert [p["loss"] for p in shown["loss_by_length"]] == [p["loss"] for p in row["loss_by_length"]]


def test_what_is_read_is_what_compare_writes() -> None:
    from headway.compare.results import Row, to_json

    written = {field.name for field in dataclasses.fields(Row)}
    assert set(VariantResults.model_fields) | {"models"} <= written
    row = json.loads(to_json([Row("a", {}, "finished")]))["rows"][0]
    assert set(make_row("a", 1, 1)) <= set(row)


def test_models_of_finished_trials_are_served(compared: Running, study: Path, sentences: list[str]) -> None:
    rows = compared.get("/api/studies/mixers").json()["rows"]
    assert [row["models"] for row in rows] == [
        [{"seed": 1, "name": "mixers-attention-4-1"}],
        [{"seed": 1, "name": "mixers-retention-4-1"}],
        [],
        [],
    ]
    assert [model["name"] for model in compared.get("/api/models").json()] == [
        "mixers-attention-4-1",
        "mixers-retention-4-1",
    ]
    assert [row["seeds"] for row in rows] == [[1, 2], [1], [], []]
    warnings = [message for level, message, _ in compared.log if level == "warning"]
    assert warnings == [
        "the study mixers has no directories of 1 of its 3 models (mixers-attention-4-2): the page shows their "
        "numbers, but cannot open them"
    ]
    body = {"q": sentences[0], "source": "en", "target": "qtx"}
    made = [
        json.loads(compared.post("/api/translate", {**body, "model": name}).text.splitlines()[-1])["text"]
        for name in ("mixers-attention-4-1", "mixers-retention-4-1")
    ]
    assert made[0] != made[1]
    assert compared.post("/translate", body).json()["translatedText"] == made[0], "the first translates for all"


def test_no_path_gets_out(compared: Running, study: Path) -> None:
    told = compared.get("/api/studies").text + compared.get("/api/studies/mixers").text
    assert str(study.parent) not in told
    assert "elsewhere" not in told and "headway compare" not in told
    reasons = [row["reason"] for row in json.loads(compared.get("/api/studies/mixers").text)["rows"]]
    assert reasons == ["", "", "train.en: line 3 is no text", "a head needs a width."]


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("{folder}/runs/a-1/model is gone", "odd name/runs/a-1/model is gone"),
        ("cannot read '/a/b/c.txt' or ~/x/y, ../z/w.", "cannot read 'c.txt' or y, w."),
        ("12 tokens/s, and/or </b> 1 / 2", "12 tokens/s, and/or </b> 1 / 2"),
    ],
)
def test_folders_in_messages_are_hidden(tmp_path: Path, reason: str, shown: str) -> None:
    folder = tmp_path / "odd name"
    write_study(folder, [unfinished("a", "failed", reason.format(folder=folder))])
    (found,) = read_studies([str(folder)])
    assert found.results.rows[0].reason == shown


def test_what_is_not_there(compared: Running, served: Running) -> None:
    response = compared.get("/api/studies/nobody")
    assert (response.status_code, response.json()["error"]) == (404, "there is no study nobody")
    assert served.get("/api/studies").json() == []


def test_keys_are_asked_for(study: Path, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("anna annas-key\n")
    with running(studies=(str(study),), api_keys=str(tmp_path / "keys")) as server:
        for path in ("/api/studies", "/api/studies/mixers"):
            assert server.get(path).status_code == 400
            assert server.get(path, headers={"Authorization": "Bearer another"}).status_code == 403
            assert server.get(path, headers={"Authorization": "Bearer annas-key"}).status_code == 200


def test_numbers_that_are_not_finite_are_null(tmp_path: Path) -> None:
    curve = [{"step": 1, "seconds": 1.0, "loss": float("nan")}]
    diverged = make_row("a", 0, 1, measures={"loss": spread(float("inf"), float("nan"))}, curves=[curve])
    with running(studies=(str(write_study(tmp_path / "x", [diverged])),)) as server:
        row = server.get("/api/studies/x").json()["rows"][0]
    assert row["measures"] == {"loss": {"mean": None, "spread": None}}
    assert row["curves"] == [[{"step": 1.0, "seconds": 1.0, "loss": None}]]


def test_names_are_unambiguous(study: Path, tmp_path: Path, translator_dir: Path) -> None:
    long = "a variant with a name that is longer than the names of folders may be"
    rows = [make_row(f"{long} {n}", 1, 1, translator_dir) for n in (1, 2)]
    other = write_study(tmp_path / "mixers", rows, {(f"{long} 1", 1): translator_dir})
    pool, _ = make_pool(study, other, study, models=(str(translator_dir),))
    assert [found.name for found in pool.studies] == ["mixers", "mixers-2"], "the same folder is shown once"
    names = [model.name for model in pool.models]
    assert len(set(names)) == len(names) == 5
    assert [row.models[0].name for row in pool.studies[1].results.rows] == names[3:]
    assert pool.route_for("en", "qtx").model is pool.models[0], "models that were given themselves come first"


@pytest.mark.parametrize("name", ["<b>x", "a b?#%", "研究"])
def test_odd_names_of_folders(tmp_path: Path, name: str) -> None:
    from urllib.parse import quote

    with running(studies=(str(write_study(tmp_path / name, [unfinished("a", "open", "")])),)) as server:
        assert server.get("/api/studies").json()[0]["name"] == name
        assert server.get(f"/api/studies/{quote(name, safe='')}").json()["name"] == name
        assert f"/api/studies/{quote(name, safe='')}" in server.get("/docs").text


def test_a_model_that_cannot_be_served_is_left_out(
    translator_dir: Path, other_translator_dir: Path, tmp_path: Path
) -> None:
    folder = write_two_mixers(tmp_path / "mixers", translator_dir, other_translator_dir)
    weights = [*folder.rglob("model.safetensors")]
    pool, messages = make_pool(folder, memory=1000)
    assert pool.models == []
    assert sum("and --memory is 0 MB" in message for message in messages) == 2
    weights[0].unlink()
    pool, messages = make_pool(folder)
    assert len(pool.models) == 1
    assert any(message.startswith("the study mixers is shown without its model mixers-") for message in messages)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "results.json cannot be read: No such file or directory. Give --study the folder that headway compare"),
        ("", "does not hold the results of a study: Invalid JSON"),
        ("[]", "does not hold the results of a study: Input should be an object"),
        ('{"rows": 1}', "at rows: Input should be a valid array"),
        ('{"rows": [{"name": "a", "status": "odd"}]}', "at rows.0.status: Input should be 'finished'"),
        ('{"rows": [{"name": "\\ud800", "status": "open"}]}', "results.json does not hold"),
    ],
)
def test_broken_results_are_said_at_once(tmp_path: Path, text: str | None, why: str) -> None:
    if text is not None:
        (tmp_path / "results.json").write_text(text)
    with pytest.raises(HeadwayError) as raised:
        make_pool(tmp_path)
    assert why in str(raised.value)
    assert "Give --study the folder that headway compare --out wrote." in str(raised.value)
