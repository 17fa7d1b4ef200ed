"""docs/claims.md and docs/choosing.md: their numbers are those of studies/results, and every study has its place."""

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
STUDIES = sorted(path.stem for path in (ROOT / "studies").glob("*.toml"))
PAGES = sorted(path.name for path in (ROOT / "studies/pages").glob("*.md"))
FULL_EDITIONS = sorted((ROOT / "studies/results").glob("*-h200.json"))
VERDICTS = ("holds", "holds in part", "does not hold at this scale", "cannot be shown here")


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"studies/{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    return load_script("write_pages")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_the_numbers_of_the_results(pages: ModuleType, name: str) -> None:
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == pages.fill_page(name), (
        "run: python studies/write_pages.py"
    )


@pytest.mark.parametrize("study", STUDIES)
def test_the_claims_tell_of_every_study(study: str) -> None:
    sections = re.split(r"(?m)^## ", (ROOT / "docs/claims.md").read_text(encoding="utf-8"))
    [section] = [section for section in sections[1:] if f"studies/{study}.toml" in section]
    path = ROOT / f"studies/results/{study}.json"
    if not path.exists():
        assert "has not been run" in section
        return
    results = json.loads(path.read_text(encoding="utf-8"))
    assert results["command"].startswith(f"headway compare studies/{study}.toml")
    assert all(row["status"] in ("finished", "refused", "failed") for row in results["rows"])
    assert results["rows"][0]["name"].replace("|", "\\|") in section


@pytest.mark.parametrize("path", FULL_EDITIONS, ids=lambda path: path.stem)
def test_the_claims_tell_of_a_full_edition(path: Path) -> None:
    study = path.stem.removesuffix("-h200")
    sections = re.split(r"(?m)^## ", (ROOT / "studies/pages/claims.md").read_text(encoding="utf-8"))
    [section] = [section for section in sections[1:] if f"studies/{study}.toml" in section]
    assert f"{{{{table {path.stem}: " in section
    results = json.loads(path.read_text(encoding="utf-8"))
    assert results["machine"] == "NVIDIA H200" and "--quick" not in results["command"]
    for row in results["rows"]:
        assert row["status"] == "finished" and ("loss" in row["measures"] or row["lengths"]), row["name"]
        assert not any("per_second" in name for name in row["measures"])  # of a GPU that trials shared


def test_every_claim_has_a_verdict() -> None:
    lines = (ROOT / "docs/claims.md").read_text(encoding="utf-8").splitlines()
    start = lines.index("| system | claimed | how measured | result | verdict |") + 2
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    assert len(rows) >= 30
    for row in rows:
        assert len(row) == 5 and all(row), row
        assert re.match(rf"\*\*({'|'.join(VERDICTS)})\*\*", row[4]), row


def test_choosing_links_every_number_to_its_study() -> None:
    for section in re.split(r"(?m)^## ", (ROOT / "docs/choosing.md").read_text(encoding="utf-8"))[1:]:
        assert "claims.md#" in section or not re.search(r"\d\.\d", section), section.splitlines()[0]


def row(name: str, **values: Any) -> dict[str, Any]:
    empty = {"probes": {}, "answers": [], "lengths": [], "loss_by_length": [], "measures": {}, "status": "finished"}
    return {**empty, "name": name, "parameters": 1000, "p_value": 0.5, **values}


def test_placeholders(pages: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        row("a & b", measures={"loss": {"mean": 2.0, "spread": 0.25}, "bleu": {"mean": 30.04, "spread": None}},
            lengths=[{"length": 64, "seconds": 0.5}], loss_by_length=[{"length": 8, "loss": 3.0, "spread": 0.1}]),
        row("c | d", measures={"loss": {"mean": 4.0, "spread": None}}, answers=[{"test": "test-8", "exact": 0.5}],
            probes={"load": [{"share": 0.125}]}),
        row("e", status="refused", reason="none"),
    ]  # fmt: skip
    (tmp_path / "s.json").write_text(json.dumps({"rows": rows}))
    monkeypatch.setattr(pages, "RESULTS", tmp_path)
    pages.read_results.cache_clear()
    found = {
        "a & b::loss": "2.000 ± 0.250", "a & b::bleu": "30.0", "a & b::loss@8": "3.000 ± 0.100",
        "c | d::loss / a & b::loss": "2.0", "a & b::loss / c | d::loss": "0.5", "c | d::exact@test-8": "50%",
        "c | d::load[0].share as .1%": "12.5%", "a & b::seconds@64 as .2f": "0.50", "c | d::parameters": "1,000",
    }  # fmt: skip
    assert {text: pages.fill_placeholder("s", text) for text in found} == found
    table = pages.make_table("s", ["loss", "bleu", "p_value"]).splitlines()
    assert (
        table[2] == "| a & b | 1,000 | 2.000 ± 0.250 | 30.0 | 0.5 |" and "c \\| d" in table[3] and "refused" in table[4]
    )
    assert pages.make_probe_table("s", "load").splitlines()[2] == "| c \\| d | 0.125 |"
    with pytest.raises(SystemExit, match='nothing was found by a probe "other"'):
        pages.make_probe_table("s", "other")
    for wrong in ("f::loss", "a & b::chrf", "a & b::seconds@65", "c | d::load[1].share"):
        with pytest.raises(SystemExit, match=r"^s: "):
            pages.fill_placeholder("s", wrong)
    with pytest.raises(SystemExit, match="^t: no results"):
        pages.fill_placeholder("t", "a::loss")
    pages.read_results.cache_clear()


def test_results_are_reduced_without_paths_or_curves() -> None:
    summarise = load_script("summarise")
    spread = {"mean": 1.23456789, "spread": None, "values": [1.23456789]}
    full = {"name": "a", "status": "finished", "reason": "", "parameters": 9, "how": "as it is", "seeds": 1,
            "p_value": None, "loss_by_length": [], "lengths": [], "answers": [], "probes": {},
            "measures": {"loss": spread}, "curves": [[1]], "models": ["runs/a/model"], "choices": {"x": 1}}  # fmt: skip
    facts = {"name": "S", "budget": "2 steps each", "machine": "CPU", "headway": "1", "torch": "2", "parameters": 9}
    given = {**facts, "command": "headway compare somewhere/s.toml --quick --out elsewhere", "rows": [full]}
    found = summarise.shorten_numbers(summarise.summarise(given, "s"))
    assert found["command"] == "headway compare studies/s.toml --quick"
    assert found["rows"][0]["measures"] == {"loss": {"mean": 1.2346, "spread": None}}
    assert "curves" not in found["rows"][0] and "models" not in found["rows"][0] and "choices" not in found["rows"][0]


def test_an_interrupted_study_is_reduced_to_what_it_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summarise = load_script("summarise")
    measures = {name: {"mean": 1.0, "spread": None} for name in ("loss", "train_tokens_per_second", "model_bytes")}
    probes = {"segments": [{"loss": 2.0, "speed_up": 9.0}]}
    more = {"reason": "", "how": "", "seeds": 1}
    rows = [
        row("a", measures=measures, probes=probes, **more),
        row("b", **{**more, "reason": "its process was killed"}, status="failed"),
        row("c", **more, status="open"),
        row("d", **{**more, "reason": "no"}, status="refused"),
        row("e", **more, measures={"model_bytes": measures["model_bytes"]}),  # untrained: only built
        row("f", **more, lengths=[{"length": 8, "seconds": 0.5}]),
    ]
    facts = {"name": "S", "budget": "", "machine": "GPU", "headway": "1", "torch": "2", "parameters": 9, "rows": rows}
    command = "headway compare studies/norms.toml --out /r --jobs 2 --no-lengths --seeds=1 --device cuda --steps 2"
    for name in ("norms", "unknown"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_text(json.dumps({**facts, "command": command}))
    (tmp_path / "results").mkdir()
    (tmp_path / "norms.toml").touch()
    monkeypatch.setattr(summarise, "HERE", tmp_path)
    summarise.main([str(tmp_path), "--suffix", "gpu", "--reached", "--without-speeds"])
    summarise.main([str(tmp_path), "norms"])
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == ["norms-gpu.json", "norms.json"]
    found, everything = (
        json.loads((tmp_path / "results" / name).read_text(encoding="utf-8"))
        for name in ("norms-gpu.json", "norms.json")
    )
    assert found["command"] == "headway compare studies/norms.toml --no-lengths --seeds=1 --steps 2"
    assert [one["name"] for one in found["rows"]] == ["a", "d", "f"]
    assert [one["name"] for one in everything["rows"]] == list("abcdef")
    assert list(found["rows"][0]["measures"]) == ["loss", "model_bytes"]
    assert found["rows"][0]["probes"] == {"segments": [{"loss": 2.0}]}
    assert found["rows"][2]["lengths"] == [{"length": 8, "seconds": 0.5}]  # costs by length are of a quiet machine
    assert everything["rows"][0]["measures"].keys() == measures.keys()
