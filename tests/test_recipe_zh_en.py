"""recipes/zh-en from end to end, on a made-up corpus and with a model that learns nothing in a few steps."""

import importlib.util
import itertools
import json
import lzma
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.config.config import read_config, read_toml
from headway.storage.summary import read_summary
from headway.translate.translator import load_translator

RECIPE = Path(__file__).parents[1] / "recipes" / "zh-en"
SUBJECTS = [("The dog", "这只狗"), ("The woman", "那个女人"), ("My brother", "我弟弟"), ("The child", "这个孩子")]
VERBS = [("sees", "看见"), ("finds", "找到"), ("buys", "买了"), ("draws", "画了")]
OBJECTS = [("a red house", "一座红房子"), ("the old book", "那本旧书"), ("my car", "我的车")]
WHEN = [("today", "今天"), ("in the evening", "晚上"), ("on Sunday", "星期天")]
PAIRS = [
    (f"{s[0]} {v[0]} {o[0]} {w[0]}.", f"{w[1]}{s[1]}{v[1]}{o[1]}。")
    for s, v, o, w in itertools.product(SUBJECTS, VERBS, OBJECTS, WHEN)
]
TRADITIONAL = str.maketrans("这只见买画红旧书车", "這隻見買畫紅舊書車")
CORPORA = """
[mine]
files = ["mine"]
keep = ["language", "misaligned", "duplicate"]
held_out = 6
weight = 4
[other]
files = ["other"]
keep = ["language", "misaligned", "duplicate"]
weight = 0.5
"""
TINY = [
    "tokenizer.size=400",
    "model.d_model=16",
    *(f"model.{side}.{part}" for side in ("encoder", "decoder") for part in ("layers=1", "mixer=attention(2)")),
    *(f"model.{side}.feedforward=relu(16)" for side in ("encoder", "decoder")),
    "train.batch_tokens=512", "train.validate_every=4", "train.decode_lines=2", "train.log_every=4",
    "search.max_length=4", "train.alignment=none",
]  # fmt: skip
Step = Callable[..., None]


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> Step:
    spec = importlib.util.spec_from_file_location("zh_en", RECIPE / "zh_en.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "zh_en", module)
    spec.loader.exec_module(module)

    def run(*words: object) -> None:
        monkeypatch.setattr(sys, "argv", ["zh_en.py", *map(str, words)])
        try:
            module.main()
        except SystemExit as end:
            if end.code:
                pytest.fail(f"{words}: {end.code}")

    return run


def test_every_step_from_end_to_end(
    step: Step, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    data, work, out = tmp_path / "data", tmp_path / "work", tmp_path / "zh-en"
    data.mkdir()
    parts = {"newstest2017": PAIRS[:3], "newstest2018": PAIRS[3:6], "ntrex128": PAIRS[6:9]}
    mine = [(en, zh.translate(TRADITIONAL) if "dog" in en else zh) for en, zh in PAIRS[9:100]]
    for name, pairs in {**parts, "mine": mine, "other": PAIRS[80:]}.items():
        (data / f"{name}.tsv.xz").write_bytes(lzma.compress("".join(f"{en}\t{zh}\n" for en, zh in pairs).encode()))
    (tmp_path / "corpora.toml").write_text(CORPORA)
    here = ["--work", work, "--corpora", tmp_path / "corpora.toml"]
    step("prepare", "--data", data, *here)
    learned = (work / "clean" / "mine.en-zh.tsv").read_text(encoding="utf-8")
    assert "这只狗" in learned and "這" not in learned, "in simplified characters"
    held = (work / "held" / "mine.en-zh.tsv").read_text(encoding="utf-8").splitlines()
    assert len(held) == 6 and not set(held) & set(learned.splitlines())
    step("prepare", "--data", data, *here)
    assert "mine is there" in capsys.readouterr().err
    step("train", *here, "--for", "1h", "--", "--steps", 4, *(word for one in TINY for word in ("--set", one)))
    step("measure", "--data", data, *here, "--lines", 2)
    scores = json.loads((work / "scores.json").read_text())
    assert set(scores) == {f"{name} {way}" for name in (*parts, "mine") for way in ("en-zh", "zh-en")}
    step("ship", *here, "--out", out)
    read = read_summary(out)
    assert read is not None and set(read[0].source_languages) == set(read[0].target_languages) == {"en", "zh"}
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "{" not in card and "newstest2017 en-zh" in card and "- mine: weight 4" in card
    assert load_translator(out, source="zh", target="en", device="cpu")("这只狗") is not None


def test_what_a_step_needs_is_asked_for(step: Step, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(pytest.fail.Exception):
        step("prepare", "--work", tmp_path)
    assert "prepare needs --data" in capsys.readouterr().err


def test_its_config_is_one() -> None:
    config = read_config(read_toml(RECIPE / "model.toml"))
    assert (config.model.encoder.layers, config.model.decoder.layers) == (9, 2)
    assert config.tokenizer.size == 16_000
