"""recipes/en-de from end to end, on a made-up corpus and with models that learn nothing in a few steps: it cannot
rot."""

import importlib
import itertools
import json
import lzma
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from headway.config.config import read_config, read_toml
from headway.nn.transformer import Transformer
from headway.storage.packing import INT8_MATRICES

RECIPE = Path(__file__).parents[1] / "recipes" / "en-de"
STEPS = ("recipe", "prepare", "train", "distil", "ready", "measure", "pieces", "real_input")
SUBJECTS = [
    ("The dog", "Der Hund"),
    ("The woman", "Die Frau"),
    ("My brother", "Mein Bruder"),
    ("The child", "Das Kind"),
]
VERBS = [("sees", "sieht"), ("finds", "findet"), ("buys", "kauft"), ("draws", "malt")]
OBJECTS = [("a red house", "ein rotes Haus"), ("the old book", "das alte Buch"), ("my car", "mein Auto")]
WHEN = [("today", "heute"), ("in the evening", "am Abend"), ("at 10:30", "um 10:30 Uhr"), ("on Sunday", "am Sonntag")]
TINY = [
    "model.d_model=32",
    *(f"model.{side}.{part}" for side in ("encoder", "decoder") for part in ("layers=1", "mixer=attention(2)")),
    *(f"model.{side}.feedforward=relu(32)" for side in ("encoder", "decoder")),
    "train.batch_tokens=1024",
    "train.schedule=constant(0.003)",
    "train.precision=auto",
    "train.compile=off",
    "train.validate_every=6",
    "train.decode_lines=4",
    "train.log_every=6",
]
CORPORA = """
[europarl]
files = ["europarl.part1"]
keep = ["language", "misaligned", "duplicate"]
pieces = 2
taught = 1
weight = 1
[manpages]
files = ["manpages"]
keep = ["language", "misaligned", "duplicate"]
held_out = 10
tested = 4
pieces = 1
taught = 1
weight = 2
[tatoeba]
files = ["tatoeba"]
keep = ["language", "misaligned", "duplicate"]
held_out = 10
pieces = 1
taught = 0
weight = 0.5
"""
Step = Callable[..., None]


@pytest.fixture(scope="module")
def steps() -> Iterator[dict[str, ModuleType]]:
    """The scripts, which start processes that import them. Folders of tests have the same names, such as train."""
    others = {name: sys.modules.pop(name) for name in STEPS if name in sys.modules}
    sys.path.insert(0, str(RECIPE))
    try:
        yield {name: importlib.import_module(name) for name in STEPS}
    finally:
        sys.path.remove(str(RECIPE))
        for name in STEPS:
            sys.modules.pop(name, None)
        sys.modules.update(others)


@pytest.fixture
def step(steps: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch) -> Step:
    def run(name: str, *words: object) -> None:
        monkeypatch.setattr(sys, "argv", [name, *map(str, words)])
        try:
            steps[name].main()
        except SystemExit as end:
            if end.code:
                pytest.fail(f"{name} {words}: {end.code}")

    return run


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "en-de"
    folder.mkdir(parents=True)
    (tmp_path / "data" / "multi30k").mkdir()
    pairs = [
        (f"{s[0]} {v[0]} {o[0]} {w[0]}.", f"{s[1]} {v[1]} {w[1]} {o[1]}.")
        for s, v, o, w in itertools.product(SUBJECTS, VERBS, OBJECTS, WHEN)
    ]
    tests = [
        *(f"newstest{year}" for year in (*range(2008, 2014), 2015)),
        "europarl.valid",
        "europarl.test",
        "tatoeba.valid",
    ]
    for n, name in enumerate(tests):
        write(folder, name, pairs[n :: len(tests)][:4])
    write(folder, "europarl.part1", pairs[40:160])
    write(folder, "tatoeba", pairs[100:150])
    write(folder, "manpages", pairs[140:])
    for side, language in enumerate(("en", "de")):
        text = "".join(f"{pair[side]}\n" for pair in pairs[:3])
        (tmp_path / "data" / "multi30k" / f"test_2016_flickr.{language}").write_text(text, encoding="utf-8")
    return folder


def write(folder: Path, name: str, pairs: list[tuple[str, str]]) -> None:
    table = "".join(f"{source}\t{target}\n" for source, target in pairs)
    (folder / f"{name}.tsv.xz").write_bytes(lzma.compress(table.encode()))


def test_every_step_from_end_to_end(
    step: Step, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    work, more = tmp_path / "work", ["--", "--steps", "6", *(word for one in TINY for word in ("--set", one))]
    (tmp_path / "corpora.toml").write_text(CORPORA)
    here = ["--work", work, "--corpora", tmp_path / "corpora.toml"]
    step("prepare", "--data", data, *here, "--sizes", "8k")
    assert sorted(path.name for path in (work / "clean").iterdir())[0] == "europarl.1.en-de.tsv.xz"
    marked = lzma.decompress((work / "clean" / "placed.1.de-en.tsv.xz").read_bytes()).decode().splitlines()
    assert marked and all(("⟦" in source) == ("⟦" in target) for source, target in (row.split("\t") for row in marked))
    assert len(list((work / "held").iterdir())) == 5
    step("train", "teacher", *here, "--tokenizer", "8k", "--for", "1h", *more)
    step("distil", *here, "--for", "1h", "--at-once", 0, "--compute", "auto", "--min-chrf", 0, "--closest")
    said = {path.name: lzma.decompress(path.read_bytes()) for path in (work / "distilled").glob("*.xz")}
    assert sorted(said) == [f"{name}.1.{to}.xz" for name in ("europarl", "manpages") for to in ("de", "en")]
    lines = lzma.decompress((work / "clean" / "europarl.1.en-de.tsv.xz").read_bytes()).count(b"\n")
    assert said["europarl.1.de.xz"].count(b"\n") == lines
    for name, text in said.items():  # six steps teach nothing: as if more had been learned
        rest = b"Nein.\n" * (text.count(b"\n") - 2)
        (work / "distilled" / name).write_bytes(lzma.compress(b"Ja.\n\n" + rest))
    step("ready", "student", *here)
    encoded = set((tmp_path / "cache").glob("rows-*"))
    step("train", "student", *here, "--for", "1h", *more)
    assert set((tmp_path / "cache").glob("rows-*")) == encoded, "everything was ready"
    taught = (work / "text" / "taught" / "europarl.1.en-de.tsv").read_text().splitlines()
    assert len(taught) == lines - 1  # without the blank one
    assert taught[0].endswith("\tJa.")
    step("ready", "control", *here, "--to", "de")
    encoded = set((tmp_path / "cache").glob("rows-*"))
    step("train", "control", *here, "--for", "1h", "--to", "de", *more)
    others = set((tmp_path / "cache").glob("rows-*")) - encoded
    assert len(others) == 3, "without a tag only the three texts to validate on were not encoded yet"
    step("train", "student", *here, "--for", "1h", "--name", "again", "--start", work / "student", *more)
    assert f"the settings of {work / 'student'}, as a starting point" in capsys.readouterr().err
    step("train", "manual-mixed", *here, "--for", "1h", "--", "--steps", "2", "--set", "train.validate_every=2")
    assert (work / "manual-mixed" / "model.safetensors").exists()

    from headway.cli import main

    assert main(["pack", str(work / "student"), "--out", str(work / "student-int8"), "--int8"]) == 0
    models = [f"{name}={work / name}" for name in ("student", "control-de")] + [f"int8={work / 'student-int8'}@cpu"]
    capsys.readouterr()
    step("measure", "--data", data, "--work", work, "--faults", 20, "--first", 2, *models, "--out", tmp_path / "t.md")
    page = (tmp_path / "t.md").read_text()
    assert page.count("| student | ") == 3
    assert page.count("| control-de | ") == 2  # it knows one direction
    assert "| the true translations | 0.00% | 0.00% | 0.00% | 0.00% |" in page
    before = capsys.readouterr()
    step("measure", "--data", data, "--work", work, "--tests", "manpages.test", "--faults", 0, models[0])
    assert "| student | " in capsys.readouterr().out
    step("measure", "--data", data, "--work", work, "--faults", 20, "--first", 2, *models)
    assert capsys.readouterr().out == before.out, "what was measured is kept"
    step("real_input", work / "student", "--device", "cpu")
    assert "already there" in capsys.readouterr().out


def test_configs_are_of_the_size_that_they_say() -> None:
    sizes = {"teacher": 59.3, "teacher-wide": 112.5, "student": 27.8, "student-small": 18.7, "student-pair": 13.5}
    for name, megabytes in sizes.items():
        path = RECIPE / f"{name}.toml"
        table = read_toml(path)
        table["model"]["vocabulary"] = 16_000 if "teacher" in name else 8000
        with torch.device("meta"):
            weights = Transformer(read_config(table).model).state_dict()
        size = sum(
            x.numel() + 4 * len(x) if x.dim() == 2 and INT8_MATRICES.fullmatch(key) else 4 * x.numel()
            for key, x in weights.items()
        )
        assert size / 1e6 == pytest.approx(megabytes, abs=0.05)
        assert "teacher" in name or f"{megabytes} MB" in path.read_text()


def test_pieces_come_together_again(
    steps: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = steps["pieces"]
    monkeypatch.setattr(pieces, "SIZE", 5000)
    (tmp_path / "model" / "checkpoints").mkdir(parents=True)
    (tmp_path / "model" / "checkpoints" / "1").write_bytes(b"large")
    (tmp_path / "model" / "weights").write_bytes(bytes(range(256)) * 40)
    pieces.split(tmp_path / "sent", [tmp_path / "model"])
    assert len(list(tmp_path.glob("sent.0?"))) > 2
    pieces.join(tmp_path / "sent", tmp_path / "there")
    assert [path.name for path in (tmp_path / "there" / "model").iterdir()] == ["weights"]
    assert (tmp_path / "there" / "model" / "weights").read_bytes() == bytes(range(256)) * 40
    (tmp_path / "sent.01").write_bytes(b"damaged")
    with pytest.raises(SystemExit, match=r"sent.01 is not what was sent. Copy it anew."):
        pieces.join(tmp_path / "sent", tmp_path / "there")


@pytest.mark.parametrize(
    ("text", "output", "found"),
    [
        (("de", "emoji", "Fine 👍", ["👍"]), "Gut 👍", []),
        (("de", "emoji", "Fine 👍", []), "Gut", ["👍 is missing"]),
        (("de", "address", "See www.a.com/b, please.", []), "Siehe www.a.com/b, bitte.", []),
        (("de", "address", "Mail a.b@c.de 5 times", []), "Mail a.b@c.com 5 mal", ["a.b@c.de is missing"]),
        (("de", "number", "It costs 120 euros", []), "Es kostet 12 Euro", ["the number 120 is missing"]),
        (("de", "capitals", "STOP!", []), "Halt!", ["not in capitals"]),
        (("de", "already there", "Wo ist er?", []), "Wo ist sie?", ["it was changed"]),
        (("de", "lower case", "no", []), "nein nein nein nein", ["it stutters"]),
        (("de", "lower case", "no", []), " ", ["nothing was said"]),
    ],
)
def test_faults_of_real_input(
    steps: dict[str, ModuleType], text: tuple[str, str, str, list[str]], output: str, found: list[str]
) -> None:
    assert steps["real_input"].find_faults(steps["real_input"].Text(*text), output) == found


def test_the_list_of_real_input(steps: dict[str, ModuleType]) -> None:
    texts = steps["real_input"].read_texts(RECIPE / "real_input.tsv")
    assert {text.to for text in texts} == {"en", "de"}
    assert len({text.kind for text in texts}) >= 14
    for text in texts:
        assert (
            steps["real_input"].find_faults(text._replace(kind=""), text.text) == []
        )  # what must be copied is in the text


def test_rates(steps: dict[str, ModuleType]) -> None:
    source = ["It costs 5 euros.", "In 1999 he was here.", "No number.", "A dog."]
    output = ["Es kostet fünf Euro.", "Er war hier.", "Keine Zahl.", "Hund Hund Hund."]
    assert steps["measure"].fault_rates(source, output) == {"lines": 4, "loops": 1, "with_numbers": 2, "missing": 1}


def test_measuring_anew_keeps_what_is_not_asked_for(steps: dict[str, ModuleType], tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    path.write_text('{"a": {"bleu": 1}, "b": {"bleu": 2}, "c": {"bleu": 3}}')
    assert steps["measure"].ScoreStore(path, anew=False).knows("a")
    kept = steps["measure"].ScoreStore(path, anew=True)
    kept.take({"b": {"bleu": 4}})
    assert [kept.knows(key) for key in "abc"] == [False, True, False]
    kept.add("a", {"bleu": 5})
    assert kept.knows("a")
    assert json.loads(path.read_text()) == {"a": {"bleu": 5}, "b": {"bleu": 4}, "c": {"bleu": 3}}


def test_what_was_begun_is_closed(steps: dict[str, ModuleType], tmp_path: Path) -> None:
    said = [lzma.compress(text) for text in (b"Eins.\n\n", b"Drei.\n")]
    pairs = tmp_path / "x.en-de.tsv.xz"
    pairs.write_bytes(lzma.compress("".join(f"{n}\t{n}\n" for n in range(5)).encode()))
    job = steps["distil"].Job(pairs, "de", tmp_path / "x.de.xz")
    steps["distil"].close(job)
    assert not job.out.exists()  # nothing was begun
    (tmp_path / "x.de.xz.partial").write_bytes(b"".join(said) + b"half a group")
    (tmp_path / "x.de.xz.progress").write_text(json.dumps({"bytes": sum(map(len, said))}))
    steps["distil"].close(job)
    assert lzma.decompress(job.out.read_bytes()) == b"Eins.\n\nDrei.\n\n\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.de.xz", "x.en-de.tsv.xz"]


def test_a_killed_process_is_a_failure(steps: dict[str, ModuleType]) -> None:
    status = steps["distil"].status
    assert [status([]), status([0, 0]), status([0, 2, 1]), status([0, -9])] == [0, 0, 2, 137]


def test_two_steps_may_unpack_the_same_at_a_time(
    steps: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, out = steps["train"], tmp_path / "text" / "a.tsv"
    write(tmp_path, "a", [("one", "eins"), ("two", "zwei")])
    clean, real, number = tmp_path / "a.tsv.xz", train.rows, iter(range(1000, 1010))

    def rows(path: Path) -> Iterator[list[str]]:
        monkeypatch.setattr(train, "rows", real)  # the other is done while this one has only begun
        monkeypatch.setattr("os.getpid", lambda: next(number))
        train.unpack_one(clean, None, "en", out) if path == clean else None
        yield from real(path)

    said = tmp_path / "said.xz"
    said.write_bytes(lzma.compress(b"ein\nzwo\n"))
    monkeypatch.setattr(train, "rows", rows)
    train.unpack_one(clean, said, "de", out)
    assert out.read_text(encoding="utf-8") == "one\tein\ntwo\tzwo\n"
    assert [path.name for path in out.parent.iterdir()] == ["a.tsv"]
