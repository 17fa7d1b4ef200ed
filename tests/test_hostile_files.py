"""Files from elsewhere: damaged, foreign, from the future, or made to do harm. Each is refused in plain words, and
nothing in them is ever run. A pickle is a program; here one lies under every name that Headway reads."""

import json
import os
import pickle
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from headway.cli.app import main
from headway.config.config import Config
from headway.errors import HeadwayError
from headway.inspect.trace import load_trace
from headway.storage.model_dir import load_model
from headway.train.checkpoints import list_checkpoints, read_newest

Capture = pytest.CaptureFixture[str]
MODEL = ["config.json", "model.safetensors", "tokenizer.json"]
CHECKPOINT = ["model.safetensors", "training.safetensors", "state.json"]


class Harm:
    """Unpickled, it makes a folder."""

    def __init__(self, sign: Path) -> None:
        self.sign = sign

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.sign),)


@pytest.fixture
def sign(tmp_path: Path) -> Path:
    return tmp_path / "harm-was-done"


@pytest.fixture(params=["protocol 0", "protocol 5", "torch.save"])
def pickled(request: pytest.FixtureRequest, sign: Path, tmp_path: Path) -> bytes:
    """A program as a file, which would work if anybody unpickled it."""
    if request.param == "torch.save":
        torch.save({"weights": Harm(sign)}, tmp_path / "saved")
        content = (tmp_path / "saved").read_bytes()
        torch.load(tmp_path / "saved", weights_only=False)
    else:
        content = pickle.dumps(Harm(sign), int(request.param[-1]))
        pickle.loads(content)
    sign.rmdir()  # it was there
    return content


@pytest.fixture
def model(translator_dir: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(translator_dir, tmp_path / "model"))


@pytest.fixture(scope="module")
def begun(train_toy: Callable[..., Path]) -> Path:
    """A training of four steps, with two checkpoints."""
    return train_toy("--steps", "4", "--set", "train.validate_every=2")


@pytest.fixture
def training(begun: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(begun, tmp_path / "training"))


def every_verb(model: Path, toy: Path, tmp_path: Path) -> dict[str, list[str]]:
    """All that read a model directory."""
    files = ["--source", str(toy / "test.en"), "--target", str(toy / "test.qtx")]
    verbs = {
        "translate": ["A dog."],
        "evaluate": files,
        "score": files,
        "generate": ["Once"],
        "augment": ["--text", str(toy / "test.en")],
        "distil": ["--text", str(toy / "test.en")],
        "average": ["--model", str(model), "--out", str(tmp_path / "averaged")],
        "trace": ["A dog.", "--out", str(tmp_path / "traced")],
        "attend": ["A dog."],
    }
    return {verb: [verb, "--model", str(model), *words] for verb, words in verbs.items()} | {
        "train": ["train", *files, "--from-model", str(model), "--out", str(tmp_path / "tuned"), "--steps", "1"]
    }


def refused(capsys: Capture, words: list[str], name: str) -> str:
    """What a command says of a file with this name, once it is sure that it says it well."""
    capsys.readouterr()
    code = main(words)
    err = capsys.readouterr().err
    assert code in (1, 2), f"{words}: {code} {err}"
    assert name in err and "internal error" not in err and "Traceback" not in err, f"{words}: {err}"
    return err


# ---- pickles


@pytest.mark.parametrize("name", MODEL)
def test_no_verb_unpickles_a_file_of_a_model(
    capsys: Capture, model: Path, toy: Path, tmp_path: Path, pickled: bytes, sign: Path, name: str
) -> None:
    (model / name).write_bytes(pickled)
    for words in every_verb(model, toy, tmp_path).values():
        refused(capsys, words, name)
    assert not sign.exists()


def test_what_nobody_reads_does_no_harm(
    capsys: Capture, model: Path, toy: Path, tmp_path: Path, pickled: bytes, sign: Path
) -> None:
    for name in ("README.md", "history.jsonl", "more.pkl", "pytorch_model.bin", "model.pt"):
        (model / name).write_bytes(pickled)
    for verb, words in every_verb(model, toy, tmp_path).items():
        assert main(words) == (1 if verb == "generate" else 0), capsys.readouterr().err  # it is no language model
    assert not sign.exists()


def resume(training: Path, toy: Path, tiny: list[str]) -> list[str]:
    names = {"source": "train.en", "target": "train.qtx", "valid-source": "valid.en", "valid-target": "valid.qtx"}
    files = [word for name, file in names.items() for word in (f"--{name}", str(toy / file))]
    return ["train", *files, *tiny, "--steps", "6", "--set", "train.validate_every=2", "--out", str(training)]


@pytest.mark.parametrize("name", CHECKPOINT)
def test_no_verb_unpickles_a_checkpoint(
    capsys: Capture, training: Path, toy: Path, tiny: list[str], tmp_path: Path, pickled: bytes, sign: Path, name: str
) -> None:
    for checkpoint in list_checkpoints(training):
        (checkpoint.folder / name).write_bytes(pickled)
    err = refused(capsys, resume(training, toy, tiny), name)
    assert "damaged" in err
    if name == "model.safetensors":
        refused(capsys, ["average", "--model", str(training), "--out", str(tmp_path / "averaged")], name)
    assert not sign.exists()


@pytest.mark.parametrize("name", ["history.jsonl", "config.json", "tokenizer.json"])
def test_a_training_unpickles_nothing_beside_its_checkpoints(
    capsys: Capture, training: Path, toy: Path, tiny: list[str], pickled: bytes, sign: Path, name: str
) -> None:
    (training / name).write_bytes(pickled + b"\n")
    refused(capsys, resume(training, toy, tiny), name)
    assert not sign.exists()


def test_texts_and_settings_are_not_unpickled(
    capsys: Capture, model: Path, toy: Path, tmp_path: Path, pickled: bytes, sign: Path
) -> None:
    for name in ("a.en", "a.en.gz", "a.en.xz", "a.en.zst", "a.tsv", "a.jsonl", "a.toml"):
        (tmp_path / name).write_bytes(pickled)
    for name in ("a.en", "a.en.gz", "a.en.xz", "a.en.zst"):
        words = [
            "train",
            "--source",
            str(tmp_path / name),
            "--target",
            str(toy / "train.qtx"),
            "--out",
            str(tmp_path / "o"),
        ]
        refused(capsys, words, name)
    for name in ("a.tsv", "a.jsonl"):
        refused(capsys, ["train", "--pairs", str(tmp_path / name), "--out", str(tmp_path / "o")], name)
    files = ["--source", str(toy / "train.en"), "--target", str(toy / "train.qtx"), "--out", str(tmp_path / "o")]
    refused(capsys, ["train", *files, "--config", str(tmp_path / "a.toml")], "a.toml")
    (tmp_path / "b.tsv.partial").write_bytes(b"")
    (tmp_path / "b.tsv.progress").write_bytes(pickled)
    words = [
        "augment",
        "--model",
        str(model),
        "--text",
        str(toy / "test.en"),
        "--out",
        str(tmp_path / "b.tsv"),
        "--resume",
    ]
    refused(capsys, words, "b.tsv.progress")
    assert not sign.exists()


def test_what_is_cached_is_made_anew_where_it_is_no_use(
    capsys: Capture, toy: Path, tiny: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sign: Path
) -> None:
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    results = []
    for out in ("one", "two"):
        assert main([*resume(tmp_path / out, toy, tiny), "--set", "train.log_every=1"]) == 0, capsys.readouterr().err
        history = (tmp_path / out / "history.jsonl").read_text().splitlines()
        results.append([json.loads(line).get("loss") for line in history])
        files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.name != "ready"]
        assert files
        for path in files:
            path.write_bytes(pickle.dumps(Harm(sign)))
    assert results[0] == results[1]
    assert not sign.exists()


# ---- damage


def half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def noise(content: bytes) -> bytes:
    return random.Random(0).randbytes(2000)


def as_json(value: Any) -> Callable[[bytes], bytes]:
    return lambda content: json.dumps(value).encode()


def long_header(content: bytes) -> bytes:
    return (2**62).to_bytes(8, "little") + content[8:]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "one byte": lambda content: content[:1],
    "eight bytes": lambda content: content[:8],
    "half": half,
    "all but one byte": lambda content: content.rstrip()[:-1],
    "noise": noise,
    "zeros": lambda content: bytes(len(content)),
    "a long header": long_header,
    "a list": as_json([1, 2]),
    "a word": as_json("x"),
    "a number": as_json(1e300),
    "nothing": as_json(None),
    "an empty object": as_json({}),
    "deep": lambda content: b"[" * 100_000,
    "another program's": as_json({"architectures": ["BertModel"], "version": "1.0", "model_type": "bert"}),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", MODEL)
def test_a_damaged_model_is_refused(capsys: Capture, model: Path, name: str, damage: str) -> None:
    (model / name).write_bytes(DAMAGES[damage]((model / name).read_bytes()))
    refused(capsys, ["translate", "--model", str(model), "A dog."], name)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", CHECKPOINT)
def test_a_damaged_checkpoint_is_passed_over_or_refused(training: Path, name: str, damage: str) -> None:
    last, before = (list_checkpoints(training)[-1], list_checkpoints(training)[-2])
    (last.folder / name).write_bytes(DAMAGES[damage]((last.folder / name).read_bytes()))
    notes: list[str] = []
    saved = read_newest(training, notes)
    assert saved is not None and saved.folder == before.folder
    assert name in notes[0] and "Resuming from step 2 instead." in notes[0]
    (before.folder / name).write_bytes(DAMAGES[damage]((before.folder / name).read_bytes()))
    with pytest.raises(HeadwayError, match=name):
        read_newest(training, notes)


@pytest.mark.parametrize("file", ["trace.json", "trace.safetensors"])
def test_a_damaged_trace_is_refused(translator_dir: Path, tmp_path: Path, file: str) -> None:
    assert main(["trace", "--model", str(translator_dir), "A dog.", "--out", str(tmp_path / "t")]) == 0
    content = (tmp_path / "t" / file).read_bytes()
    for damage in DAMAGES.values():
        (tmp_path / "t" / file).write_bytes(damage(content))
        with pytest.raises(HeadwayError, match=file):
            load_trace(tmp_path / "t")


# ---- what is well formed, and wrong


def changed(path: Path, at: str, value: Any) -> None:
    """Put a value at a dotted place of a JSON file."""
    data = inner = json.loads(path.read_text())
    *outer, last = at.split(".")
    for key in outer:
        inner = inner[int(key)] if isinstance(inner, list) else inner[key]
    inner[last] = value
    path.write_text(json.dumps(data))


WRONG: list[Any] = [
    "x",
    -1,
    0,
    1.5,
    10**30,
    float("nan"),
    float("inf"),
    None,
    True,
    [],
    {},
    [[]],
    {"kind": "none"},
    "1",
]


@pytest.mark.parametrize(
    "at",
    [
        "format_version", "source_languages", "target_languages", "tokenizer", "tokenizer.kind", "vocabularies",
        "model", "model.d_model", "model.vocabulary", "model.encoder", "model.encoder.layers", "model.encoder.mixer",
        "model.decoder.position", "model.decoder.mask", "model.decoder.feedforward", "model.norm", "train",
        "train.objective", "train.max_tokens", "search", "search.beam_size", "search.alpha", "search.max_ratio",
    ],
)  # fmt: skip
def test_wrong_values_in_a_config_never_end_in_an_internal_error(capsys: Capture, model: Path, at: str) -> None:
    original = (model / "config.json").read_text()
    for value in WRONG:
        (model / "config.json").write_text(original)
        changed(model / "config.json", at, value)
        code = main(["translate", "--model", str(model), "--max-length", "3", "A dog."])
        err = capsys.readouterr().err
        assert code in (0, 1, 2), f"{at} = {value!r}: {err}"
        assert "internal error" not in err, f"{at} = {value!r}: {err}"
        assert code == 0 or str(model) in err, f"{at} = {value!r}: {err}"


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        ("model.d_model", 10**7, "config.json describes a model of"),
        ("model.decoder.layers", 10**7, "10000000 is out of range: it must be at least 0 and at most 10000."),
        ("model.d_model", 10**30, "is out of range: an integer must fit 64 bits."),
        ("search.beam_size", 10**9, "1000000000 is out of range: it must be at least 1 and at most 10000."),
        ("train.seed", -1, "-1 is out of range: it must be at least 0 and at most 4294967295."),
    ],
)
def test_monstrous_numbers_are_refused_before_memory_is_asked_for(
    capsys: Capture, model: Path, at: str, value: int, message: str
) -> None:
    changed(model / "config.json", at, value)
    assert message in refused(capsys, ["translate", "--model", str(model), "A dog."], str(model))


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json"])
def test_the_future_is_told_from_damage(capsys: Capture, model: Path, file: str) -> None:
    content = json.loads((model / file).read_text())
    (model / file).write_text(json.dumps({**content, "format_version": 99}))
    err = refused(capsys, ["translate", "--model", str(model), "A dog."], file)
    assert ("99" in err and "ewer Headway" in err) or "Update Headway" in err


def test_weights_that_are_not_numbers_of_the_right_kind(capsys: Capture, model: Path) -> None:
    weights = load_model(model).model.state_dict()
    for spoiled in (
        {"a": torch.zeros(1)},
        {**weights, next(iter(weights)): torch.zeros(3, 3)},
        dict(list(weights.items())[1:]),
        {},
    ):
        save_file({name: tensor.contiguous() for name, tensor in spoiled.items()}, model / "model.safetensors")
        assert "does not fit" in refused(capsys, ["translate", "--model", str(model), "A dog."], "model.safetensors")


@pytest.mark.parametrize("at", ["step", "epoch", "batch", "seconds", "stale", "best", "text"])
def test_wrong_values_in_the_state_of_a_training(
    capsys: Capture, begun: Path, toy: Path, tiny: list[str], tmp_path: Path, at: str
) -> None:
    for number, value in enumerate(["x", [], None, {"a": "b"}]):
        training = Path(shutil.copytree(begun, tmp_path / str(number)))
        for checkpoint in list_checkpoints(training):
            changed(checkpoint.folder / "state.json", at, value)
        code = main(resume(training, toy, tiny))
        err = capsys.readouterr().err
        assert code in (0, 1) and "internal error" not in err, f"{at} = {value!r}: {err}"
        assert code == 0 or str(training) in err, f"{at} = {value!r}: {err}"


def test_a_config_is_read_back_as_it_was(model: Path) -> None:
    """So that the tests above start from something sound."""
    assert Config.load(model / "config.json") == load_model(model).config
