"""Which engine searches: three that say the same, two of them without torch."""

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headway.config.search import Search
from headway.device import is_cpu_only
from headway.errors import ConfigError, HeadwayError
from headway.nn.ops import native
from headway.storage.registry import ModelChoice
from headway.translate.backends import Engines
from headway.translate.options import TranslateOptions
from headway.translate.search import make_requests, translate_requests
from headway.translate.translator import Translator, load, load_choice, load_translator


@pytest.fixture(scope="module")
def lines(toy: Path) -> list[str]:
    return (toy / "test.en").read_text().splitlines()


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
    assert other.engines.torch_free is not None
    assert other("") == ""


NOT_NATIVE = "not native: it computes in int8, and the weights are in float32: use --compute int8"


def test_what_is_chosen_and_why(translator_dir: Path, lines: list[str]) -> None:
    told: list[str] = []
    found = load_choice(ModelChoice((str(translator_dir),)), "cpu", log=told.append)
    found.translate(lines[:3], TranslateOptions(retry=False))
    assert told == [NOT_NATIVE, "engine ctranslate2, float32, cpu"]
    found.translate(lines * 10, TranslateOptions(search=found.search(beam_size=1), retry=False))
    assert len(told) == 2, "it is said once, and the number of lines changes nothing"
    found.translate(lines[:2], TranslateOptions(search=found.search(sample=True, seed=1)))
    assert told[2:] == ["engine torch, float32, cpu: not ctranslate2: sampling would draw other tokens"]
    found.translate(lines[:3], TranslateOptions(retry=False))
    assert told[3:] == ["engine ctranslate2, float32, cpu"]


def test_int8_is_searched_by_our_own_kernels(translator_dir: Path, lines: list[str]) -> None:
    told: list[str] = []
    found = load_choice(ModelChoice((str(translator_dir),)), "cpu", compute="int8", log=told.append)
    found.translate(lines[:1], TranslateOptions(retry=False))
    found.translate(lines * 10, TranslateOptions(search=found.search(beam_size=1), retry=False))
    found.translate(lines[:1], TranslateOptions(search=found.search(beam_size=2, no_repeat_ngram=2, min_length=3)))
    translate_requests(found, make_requests(lines[:1], prefixes=["Kiu"]), TranslateOptions())
    assert told == ["engine native, int8, cpu"]
    found.translate(lines[:2], TranslateOptions(search=found.search(sample=True, seed=1)))
    assert told[1:] == ["engine torch, int8, cpu: not native: sampling is left to torch"]


def test_without_a_compiler_one_engine_serves_all(
    translator_dir: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "load_library", lambda: None)
    told: list[str] = []
    found = load_choice(ModelChoice((str(translator_dir),)), "cpu", compute="int8", log=told.append)
    found.translate(lines * 10, TranslateOptions(search=found.search(beam_size=1)))
    assert told == [
        "not native: its kernels are not compiled: install a C compiler, such as gcc",
        "engine ctranslate2, int8, cpu",
    ]
    with pytest.raises(HeadwayError, match="engine native cannot be used: its kernels are not compiled"):
        load(translator_dir, "cpu", "native", "int8")


def test_a_line_is_translated_alike_wherever_it_stands(translator_dir: Path, lines: list[str]) -> None:
    """However many lines there are, and however they are grouped."""
    for compute in ("int8", "float32"):
        found = load(translator_dir, "cpu", compute=compute)  # type: ignore[arg-type]
        assert isinstance(found, Translator)
        single = [found(line) for line in lines[:100]]
        assert found(lines[:100] * 4) == single * 4
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(found, lines[:100])) == single


def test_pipes_and_files_give_the_same(translator_dir: Path, lines: list[str], tmp_path: Path) -> None:
    """The same lines four times: in a file, line by line through a pipe, and as a list."""
    many = lines * 4
    (tmp_path / "text").write_text("\n".join(many) + "\n")
    command = [sys.executable, "-m", "headway", "translate", "--model", str(translator_dir), "--compute", "int8"]
    command += ["--device", "cpu"]
    by_file = subprocess.run([*command, "--input", str(tmp_path / "text")], capture_output=True, text=True, check=True)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as pipe:
        assert pipe.stdin is not None and pipe.stdout is not None
        one_by_one = []
        for line in many[:20]:  # each is answered before the next is asked
            pipe.stdin.write(line + "\n")
            one_by_one.append(pipe.stdout.readline())
        rest, _ = pipe.communicate("".join(line + "\n" for line in many[20:]), timeout=300)
    found = by_file.stdout.splitlines()
    assert found[: len(many) // 4] * 4 == found == ("".join(one_by_one) + rest).splitlines()
    assert found == load_translator(translator_dir, device="cpu", compute="int8")(many)


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
    translator_dir: Path, other_translator_dir: Path, lm_dir: Path, tmp_path: Path
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
    assert both.engines.torch_free is None
    assert told == [f"not {name}: it does not support ensembles" for name in ("native", "ctranslate2")]


def test_a_part_that_is_not_known_is_named(train_toy: Callable[..., Path], lines: list[str]) -> None:
    flags = [word for side in ("encoder", "decoder") for word in ("--set", f"model.{side}.position=rope")]
    folder = train_toy(*flags, "--set", "train.steps=10", "--set", "train.validate_every=10")
    with pytest.raises(HeadwayError, match="cannot be used: position rope is not supported. Leave it out"):
        load(folder, "cpu", engine="ctranslate2")
    told: list[str] = []
    by_torch = load_choice(ModelChoice((str(folder),)), "cpu", log=told.append)
    by_torch.translate(lines[:1], TranslateOptions(retry=False))
    assert told == [NOT_NATIVE, "not ctranslate2: position rope is not supported", "engine torch, float32, cpu"]


def test_damaged_directories_have_torchs_errors(translator_dir: Path, tmp_path: Path) -> None:
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

    for name, compute in (("torch", "auto"), ("ctranslate2", "auto"), ("native", "int8")):
        load(translator_dir, "cpu", name, compute, threads=1)(lines[0])  # type: ignore[arg-type,operator]
    assert torch.get_num_threads() == 1


def test_a_search_of_nothing_needs_no_engine(translator_dir: Path) -> None:
    told: list[str] = []
    found = load_choice(ModelChoice((str(translator_dir),)), "cpu", log=told.append)
    assert [result.text for result in found.translate(["", " "])] == ["", " "]
    assert told == [NOT_NATIVE]
    assert isinstance(found.engines, Engines) and found.search() == Search(**{**vars(found.summary.search)})


QUIET = """
import sys
from headway.cli.app import main
code = main(sys.argv[1:])
names = {"torch", "safetensors", "headway.nn.transformer", "headway.config.config", "ctranslate2.specs", "rich"}
heavy = names & set(sys.modules)
sys.exit(f"imported: {heavy}" if heavy else code)
"""


@pytest.mark.parametrize(("compute", "engine"), [("float32", "ctranslate2"), ("int8", "native")])
def test_a_sentence_is_translated_without_torch(translator_dir: Path, toy: Path, compute: str, engine: str) -> None:
    import os

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
        "--compute",
        compute,
        source,
    ]
    ran = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, timeout=120
    )
    assert (ran.returncode, ran.stdout) == (0, f"{target}\n"), ran.stderr
    assert f"engine {engine}, {compute}, cpu" in ran.stderr
