"""POST /api/score: a given output has the log-probability of Python, in checkpoints and without parts, too."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from serve.conftest import Running, running

from headway.errors import HeadwayError
from headway.inspect.ablation import ablate
from headway.storage.model_dir import load_model
from headway.storage.training_history import find_checkpoints, read_losses
from headway.translate.translator import Translator, load


@pytest.fixture(scope="module")
def translator(translator_dir: Path) -> Translator:
    found = load(translator_dir, "cpu")
    assert isinstance(found, Translator)
    return found


@pytest.fixture(scope="module")
def pair(toy: Path) -> dict[str, str]:
    return {
        side: (toy / f"train.{code}").read_text().splitlines()[1] for side, code in (("q", "en"), ("output", "qtx"))
    }


def test_texts_and_tokens_have_the_score_of_python(
    served: Running, translator: Translator, pair: dict[str, str]
) -> None:
    name = served.get("/api/models").json()[0]["name"]
    found = served.post("/api/score", {"model": name, **pair, "weights": "decoder.0.cross"}).json()
    (expected,) = translator.score([(pair["q"], pair["output"])])
    assert found["logp"] == pytest.approx(expected.logp, abs=2e-5)
    assert found["score"] == pytest.approx(expected.score, abs=2e-5)
    np.testing.assert_allclose([one["logp"] for one in found["tokens"]], expected.token_logps, atol=2e-5)
    assert list(found["tensors"]) == ["decoder.0.cross.weights"]
    ids = {"read": found["read"]["ids"], "written": found["written"]["ids"]}
    assert [*ids["written"], translator.special_tokens.end] == expected.tokens
    again = served.post("/api/score", {"model": name, **ids, "weights": "decoder.0.cross"}).json()
    assert again == found
    part = "decoder.0.cross.head 2"
    without = served.post("/api/score", {"model": name, **ids, "ablate": [part]}).json()
    (expected,) = ablate(translator, [part]).score([(pair["q"], pair["output"])])
    assert without["logp"] == pytest.approx(expected.logp, abs=2e-5)
    assert without["logp"] != found["logp"]
    assert without["tensors"] == {}


def test_language_models_and_masked_ones(served: Running, masked_dir: Path) -> None:
    found = served.post("/api/score", {"model": "my-lm", "q": "The dog ", "output": "sees", "finished": False}).json()
    assert len(found["tokens"]) == len(found["written"]["ids"]) > 1
    assert found["logp"] == pytest.approx(sum(one["logp"] for one in found["tokens"]), abs=1e-4)
    assert found["score"] is None
    with running(masked_dir) as server:
        name = server.get("/api/models").json()[0]["name"]
        found = server.post("/api/score", {"model": name, "q": "The dog sees", "weights": "encoder.0.self"}).json()
    assert (found["tokens"], found["logp"], list(found["tensors"])) == ([], None, ["encoder.0.self.weights"])


def test_what_cannot_be_scored_is_refused(served: Running, pair: dict[str, str]) -> None:
    name = served.get("/api/models").json()[0]["name"]
    assert served.error("/api/score", {"model": name, **pair, "weights": "decoder.0"})[0] == 400
    assert "no decoder.7" in served.error("/api/score", {"model": name, **pair, "ablate": ["decoder.7"]})[1]
    assert served.error("/api/score", {"model": name}) == (
        400,
        "Invalid request: read is empty: send the token ids of the source",
    )


def test_checkpoints_are_models_of_the_page_alone(run_dir: Path, pair: dict[str, str]) -> None:
    kept = find_checkpoints(run_dir)
    losses = read_losses(run_dir)
    assert len(kept) == 4
    with running(run_dir) as server:
        (entry,) = server.get("/api/models").json()
        assert [one["step"] for one in entry["checkpoints"]] == [step for step, _ in kept]
        assert [one["loss"] for one in entry["checkpoints"]] == [losses[step] for step, _ in kept]
        for one, (step, folder) in zip(entry["checkpoints"], kept):
            assert one["name"] == f"{entry['name']}@{step}"
            found = server.post("/api/score", {"model": one["name"], **pair}).json()
            python = Translator([load_model(run_dir, weights_file=folder / "model.safetensors")])
            assert found["logp"] == pytest.approx(python.score([(pair["q"], pair["output"])])[0].logp, abs=2e-5)
        loaded = [model.name for model in server.state.pool._loaded if model.checkpoint]
        assert loaded == [one["name"] for one in entry["checkpoints"][-2:]]  # a film keeps but the last
        body = {"q": pair["q"], "source": "en", "target": "qtx", "model": entry["checkpoints"][0]["name"]}
        events = [json.loads(line) for line in server.post("/api/translate", body).text.splitlines()]
        assert events[0]["model"] == body["model"]
        assert events[-1]["event"] == "end"
        assert [model["id"] for model in server.get("/v1/models").json()["data"]] == []
        moved = kept[1].folder.with_name("moved")
        kept[1].folder.rename(moved)  # as a training that goes on deletes old ones
        try:
            status, error = server.error("/api/score", {"model": entry["checkpoints"][1]["name"], **pair})
        finally:
            moved.rename(kept[1].folder)
        assert (status, "cannot be loaded" in error) == (500, True)


def test_a_damaged_log_costs_only_the_losses(run_dir: Path, tmp_path: Path) -> None:
    copied = tmp_path / "model"
    shutil.copytree(run_dir, copied)
    (copied / "history.jsonl").write_text("nonsense\n")
    with pytest.raises(HeadwayError, match="is damaged"):
        read_losses(copied)
    with running(copied, preload=False) as server:
        assert any("without their loss" in message for _, message, _ in server.log)
        assert {one["loss"] for one in server.get("/api/models").json()[0]["checkpoints"]} == {None}
