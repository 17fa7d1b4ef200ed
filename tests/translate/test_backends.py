"""Which engine searches: two that say the same, one of them without torch."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.config.search import Search
from headway.decode.ctranslate2 import probe
from headway.device import is_cpu_only
from headway.errors import ConfigError, HeadwayError
from headway.storage.registry import ModelChoice
from headway.translate.backends import Engines
from headway.translate.options import TranslateOptions
from headway.translate.search import make_requests, translate_requests
from headway.translate.translator import Translator, load, load_choice, load_translator


@pytest.fixture(scope="module")
def lines(toy: Path) -> list[str]:
    return (toy / "test.en").read_text().splitlines()


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has not imported torch."""

    class Nothing:
        modules: dict[str, Any] = {}

    monkeypatch.setattr(probe, "sys", Nothing)


def test_both_engines_say_the_same(translator_dir: Path, lines: list[str]) -> None:
    one, other = (load(translator_dir, "cpu", engine=name) for name in ("torch", "ctranslate2"))  # type: ignore[arg-type]
    assert isinstance(one, Translator) and isinstance(other, Translator)
    for settings in ({}, {"beam_size": 1}, {"penalty": "power"}, {"max_length": 4}):
        first = [
            translator.translate(lines, TranslateOptions(search=translator.search(**settings), retry=False))
            for translator in (one, other)
        ]
        assert [result.text for result in first[0]] == [result.text for result in first[1]]
        found = [
            translator.translate(lines, TranslateOptions(search=translator.search(**settings)))
            for translator in (one, other)
        ]
        plain = [pair for pair in zip(*found) if not any("went round in a loop" in told for told in pair[0].warnings)]
        assert (
            len(plain) > len(lines) / 2
        )  # a loop is searched again, and each engine forbids repetition in its own way
        for own, theirs in plain:
            assert (own.text, own.warnings) == (theirs.text, theirs.warnings)
            assert own.score == pytest.approx(theirs.score, abs=1e-3)
            assert own.guesses[0].logp == pytest.approx(theirs.guesses[0].logp, abs=1e-3)
            assert own.guesses[0].token_logps == pytest.approx(theirs.guesses[0].token_logps, abs=1e-3)
            assert own.guesses[0].tokens == theirs.guesses[0].tokens
    assert other.engines.ct2 is not None
    assert other("") == ""


def test_what_is_chosen_and_why(translator_dir: Path, lines: list[str], no_torch: None) -> None:
    told: list[str] = []
    found = load_choice(ModelChoice((str(translator_dir),)), "cpu", log=told.append)
    found.translate(lines[:3], TranslateOptions(retry=False))
    assert told == ["engine ctranslate2, float32, cpu: torch need not be imported"]
    found.translate(lines[:3], TranslateOptions(retry=False))
    assert len(told) == 1, "it is said once"
    found.translate(lines[:2], TranslateOptions(search=found.search(sample=True, seed=1)))
    assert told[1:] == ["engine torch, float32, cpu: not ctranslate2: sampling would draw other tokens"]
    found.translate(lines[:3], TranslateOptions(retry=False))
    assert told[2:] == ["engine ctranslate2, float32, cpu: it is faster at this"]
    many = load_choice(ModelChoice((str(translator_dir),)), "cpu", compute="int8", log=told.append)
    many.translate(lines, TranslateOptions(search=many.search(beam_size=1), retry=False))
    many.translate(lines * 10, TranslateOptions(search=many.search(beam_size=1), retry=False))
    many.translate(lines[:1], TranslateOptions(retry=False))  # torch is there, and faster
    assert told[3:] == [
        "engine ctranslate2, int8, cpu: torch need not be imported",
        "engine torch, int8, cpu: more than 128 sentences in int8",
    ]
    often = load_choice(ModelChoice((str(translator_dir),)), "cpu", compute="int8", log=told.append)
    for _ in range(130):
        often.translate(["A dog."], TranslateOptions(search=often.search(beam_size=1), retry=False))
    assert told[5:] == told[3:5]


def test_a_forced_beginning_and_a_record_go_to_torch(translator_dir: Path, lines: list[str]) -> None:
    told: list[str] = []
    found = load_choice(ModelChoice((str(translator_dir),)), "cpu", "ctranslate2", log=told.append)
    forced = make_requests(lines[:1], prefixes=["Kiu"])
    by_torch = load_translator(translator_dir, device="cpu", engine="torch")
    expected = translate_requests(by_torch, forced, TranslateOptions())
    assert translate_requests(found, forced, TranslateOptions())[0].text == expected[0].text
    steps: list[Any] = []
    translate_requests(found, make_requests(lines[:1]), TranslateOptions(), steps.append)
    assert steps
    assert [line.partition("not ctranslate2: ")[2] for line in told] == [
        "forced prefixes are left to torch",
        "it does not record its steps",
    ]


def test_why_a_model_cannot_be_served(
    translator_dir: Path, other_translator_dir: Path, lm_dir: Path, tmp_path: Path, no_torch: None
) -> None:
    for paths, device, reason in (
        ([translator_dir, other_translator_dir], "cpu", "it does not support ensembles"),
        ([translator_dir], "cuda", "it runs on the CPU only, and the device is cuda"),
        ([lm_dir], "cpu", "its config.json is not that of a translator"),
        ([tmp_path], "cpu", "its config.json is not that of a translator"),
    ):
        with pytest.raises(HeadwayError, match=f"engine ctranslate2 cannot be used: {reason}. Leave it out"):
            load_translator(*paths, device=device, engine="ctranslate2")
    told: list[str] = []
    both = load_choice(ModelChoice((str(translator_dir), str(other_translator_dir))), "cpu", log=told.append)
    assert both.engines.ct2 is None
    assert told == ["not ctranslate2: it does not support ensembles"]


def test_a_part_that_is_not_known_is_named(train_toy: Callable[..., Path], no_torch: None, lines: list[str]) -> None:
    flags = [word for side in ("encoder", "decoder") for word in ("--set", f"model.{side}.position=rope")]
    folder = train_toy(*flags, "--set", "train.steps=10", "--set", "train.validate_every=10")
    with pytest.raises(
        HeadwayError, match="cannot be used: position rope is not supported by CTranslate2. Leave it out"
    ):
        load(folder, "cpu", engine="ctranslate2")
    told: list[str] = []
    by_torch = load_choice(ModelChoice((str(folder),)), "cpu", log=told.append)
    by_torch.translate(lines[:1], TranslateOptions(retry=False))
    assert told == ["not ctranslate2: position rope is not supported by CTranslate2", "engine torch, float32, cpu"]


def test_damaged_directories_have_torchs_errors(translator_dir: Path, tmp_path: Path, no_torch: None) -> None:
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / name).write_bytes((translator_dir / name).read_bytes())
    load_translator(tmp_path, device="cpu")
    (tmp_path / "config.json").write_text(
        (tmp_path / "config.json").read_text().replace('"max_tokens": 64', '"max_tokens": "many"')
    )
    with pytest.raises(ConfigError, match="max_tokens: must be an integer, not 'many'"):
        load_translator(tmp_path, device="cpu")
    (tmp_path / "config.json").write_bytes((translator_dir / "config.json").read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(HeadwayError, match="model.safetensors is damaged"):
        load_translator(tmp_path, device="cpu")
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(HeadwayError, match="tokenizer.json does not exist"):
        load_translator(tmp_path, device="cpu")


def test_requests_that_make_no_sense(translator_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ConfigError, match=r'there is no engine "ctranslate". Did you mean "ctranslate2"\? Choose one of'
    ):
        load(translator_dir, engine="ctranslate")  # type: ignore[arg-type]
    with pytest.raises(
        ConfigError, match=r'there is no compute "int4". .*Choose one of: auto, float32, bfloat16, int8'
    ):
        load(translator_dir, compute="int4")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="threads: must be at least 1, not 0"):
        load(translator_dir, threads=0)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    with pytest.raises(HeadwayError, match="compute int8 needs the CPU, and the device is cuda: leave it out, or use"):
        load(translator_dir, "cuda", compute="int8")


def test_bfloat16_is_for_a_gpu(translator_dir: Path) -> None:
    with pytest.raises(HeadwayError, match="compute bfloat16 needs a GPU, and the device is cpu: leave it out, or"):
        load(translator_dir, "cpu", compute="bfloat16")
    with pytest.raises(HeadwayError, match="engine ctranslate2 cannot be used: it computes in float32 or int8"):
        load(translator_dir, "cpu", engine="ctranslate2", compute="bfloat16")


def test_what_can_only_be_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_cpu_only("cpu") and not is_cpu_only("cuda")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert is_cpu_only("auto") and not is_cpu_only("cuda:0")


def test_threads(translator_dir: Path, lines: list[str]) -> None:
    import torch

    for name in ("torch", "ctranslate2"):
        load(translator_dir, "cpu", engine=name, threads=1)(lines[0])  # type: ignore[arg-type,operator]
    assert torch.get_num_threads() == 1


def test_a_search_of_nothing_needs_no_engine(translator_dir: Path, no_torch: None) -> None:
    told: list[str] = []
    found = load_choice(ModelChoice((str(translator_dir),)), "cpu", log=told.append)
    assert [result.text for result in found.translate(["", " "])] == ["", " "]
    assert told == []
    assert isinstance(found.engines, Engines) and found.search() == Search(**{**vars(found.summary.search)})


QUIET = """
import sys
from headway.cli.app import main
code = main(sys.argv[1:])
names = {"torch", "numpy", "safetensors", "headway.nn", "headway.config.config", "ctranslate2.specs", "rich"}
heavy = names & set(sys.modules)
sys.exit(f"imported: {heavy}" if heavy else code)
"""


def test_a_sentence_is_translated_without_torch(translator_dir: Path, toy: Path, run_headway: Any) -> None:
    import os
    import sys

    root = Path(__file__).parents[2]
    source, target = ((toy / f"train.{side}").read_text().splitlines()[0] for side in ("en", "qtx"))
    command = [
        sys.executable,
        "-c",
        QUIET,
        "-v",
        "translate",
        "--model",
        str(translator_dir),
        "--device",
        "cpu",
        source,
    ]
    ran = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, timeout=120
    )
    assert (ran.returncode, ran.stdout) == (0, f"{target}\n"), ran.stderr
    assert "engine ctranslate2, float32, cpu" in ran.stderr
