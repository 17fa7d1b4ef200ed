"""Labelled text: formats, what is wrong with a line, and a split without copies on both sides."""

import gzip
from pathlib import Path

import pytest

from headway.data.labelled_files import (
    LabelledData,
    LabelledExample,
    collect_rows,
    count_shared,
    hold_out,
    read_labelled,
)
from headway.errors import HeadwayError


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


@pytest.mark.parametrize(
    ("task", "name", "text", "expected"),
    [
        ("classify", "a.tsv", "Hi there\ten\nHallo\tde\n", [(("Hi there",), ("en",)), (("Hallo",), ("de",))]),
        ("classify", "a.tsv", "Text\tLabel\nHi\ten\n", [(("Hi",), ("en",))]),
        ("classify", "a.csv", 'text,label\n"Hi, you",en\n', [(("Hi, you",), ("en",))]),
        ("classify", "a.csv", 'Label,id,Text\nen,7,"Hi, ""you""\nthere"\n\nde,8,Hallo\n',
         [(('Hi, "you" there',), ("en",)), (("Hallo",), ("de",))]),
        ("classify", "a.csv", "text;class\nHi, you;en\n", [(("Hi, you",), ("en",))]),
        ("classify", "a.tsv", 'text\tlabel\n"He said ""no"""\ten\n', [(('He said "no"',), ("en",))]),
        ("classify", "a.tsv", '"No\ten\n"Yes" he\ten\n', [(('"No',), ("en",)), (('"Yes" he',), ("en",))]),
        ("classify", "a.jsonl", '{"text": "Hi", "label": 3}\n\n', [(("Hi",), ("3",))]),
        ("tag", "a.tsv", "Ada runs\tNOUN VERB\n", [(("Ada", "runs"), ("NOUN", "VERB"))]),
        ("tag", "a.jsonl", '{"tokens": ["a b", "c"], "tags": ["X", "Y"]}\n', [(("a b", "c"), ("X", "Y"))]),
        ("tag", "a.conll", "-DOCSTART- O\n\nAda NNP B-PER\nruns VBZ O\n\nHi UH O\n",
         [(("Ada", "runs"), ("B-PER", "O")), (("Hi",), ("O",))]),
        ("tag", "a.conllu", "# text = x\n1-2\tim\t_\t_\n1\tin\tin\tADP\t_\n2\tdem\tder\tDET\t_\n\n",
         [(("in", "dem"), ("ADP", "DET"))]),
        ("match", "a.tsv", "A\tB\t0.5\n", [(("A", "B"), ("0.5",))]),
        ("match", "a.jsonl", '{"premise": "A", "hypothesis": "B", "label": "yes"}\n', [(("A", "B"), ("yes",))]),
        ("embed", "a.tsv", "A\tB\nC\tD\tE\tF\n", [(("A", "B"), ()), (("C", "D", "E", "F"), ())]),
        ("embed", "a.tsv", "negative_2\tanchor\tpositive\tnegative_1\n\tA\tB\tE\nD\tA\tB\t\n",
         [(("A", "B", "E"), ()), (("A", "B", "D"), ())]),
        ("embed", "a.jsonl", '{"anchor": "A", "positive": "B", "negative": ["C"]}\n', [(("A", "B", "C"), ())]),
    ],
)  # fmt: skip
def test_formats(task: str, name: str, text: str, expected: list[object], tmp_path: Path) -> None:
    assert [e[:2] for e in read_labelled([write(tmp_path, name, text)], task).examples] == expected


def test_compressed_files_and_several(tmp_path: Path) -> None:
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(b"one\ta\n"))
    data = read_labelled([str(tmp_path / "a.tsv.gz"), write(tmp_path, "b.tsv", "two\tb\n \ta\n\n")], "classify")
    assert [example.texts[0] for example in data.examples] == ["one", "two"]
    assert data.empty_count == 1  # an empty line is none, a label without text is
    assert data.label_counts() == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("task", "name", "text", "message"),
    [
        ("classify", "a.tsv", "x\ta\ny\n", r"a\.tsv, line 2: 1 column, and the task classify needs 2: text, label"),
        ("classify", "a.tsv", "x\ty\ta\n", "3 columns, and the task classify needs 2"),
        ("embed", "a.tsv", "x\n", "needs 2: anchor, positive.*more negatives"),
        ("classify", "a.tsv", "x\t \n", "the label is empty"),
        ("classify", "a.tsv", "\n", "there is no example with text"),
        ("classify", "a.jsonl", '{"text": "x"}\n', "has no label or class; it has text"),
        ("classify", "a.jsonl", "[1]\n", "is not a JSON object"),
        ("classify", "a.jsonl", '{"text": ', "is not a JSON object"),
        ("tag", "a.tsv", "one two\tA\n", "2 words and 1 tags"),
        ("tag", "a.jsonl", '{"words": {"a": 1}, "tags": "X"}\n', "is no text and no label"),
        (
            "classify",
            "a.jsonl",
            '{"text": ["a", "b"], "label": "x"}\n',
            r"line 1: \['a', 'b'\] is no text and no label",
        ),
        ("classify", "a.csv", 'text,label\n"a,x\n', "this row is not that of a table"),
        ("classify", "a.csv", "id,text,label\n1,a,x\n2,b\n", "line 3: 2 columns, and the first line names 3"),
        ("tag", "a.conll", "Ada B-PER\nruns\n", r"a\.conll, line 2: 1 column"),
    ],
)
def test_errors_say_where(task: str, name: str, text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match=message):
        read_labelled([write(tmp_path, name, text)], task)


def test_rows_in_memory() -> None:
    assert collect_rows([("x", "a"), {"text": "y", "label": "b"}], "classify").lines == 2
    assert collect_rows([(["x", "y"], ["A", "B"])], "tag").examples[0].labels == ("A", "B")
    with pytest.raises(HeadwayError, match=r"data\[0\] is 'x'"):
        collect_rows(["x"], "classify")
    with pytest.raises(HeadwayError, match="holds no example with text"):
        collect_rows([("", "a")], "classify")


def examples(*rows: tuple[str, str]) -> LabelledData:
    return LabelledData("classify", [LabelledExample((text,), (label,)) for text, label in rows])


def test_held_out_texts_are_not_trained_on() -> None:
    data = examples(*[(f"text {n % 50}", "ab"[n % 2]) for n in range(200)], ("once", "rare"))
    training, valid, copies = hold_out(data)
    assert 15 <= valid.lines <= 25 and copies > 0
    assert training.lines + valid.lines + copies == 201
    assert count_shared(training, valid) == 0
    assert training.label_counts()["rare"] == 1 and "rare" not in valid.label_counts()
    assert hold_out(data)[1].examples == valid.examples


def test_what_belongs_together_is_held_out_together() -> None:
    rows = [LabelledExample((f"a {n}", f"b {n // 3}")) for n in range(60)]
    training, valid, _ = hold_out(LabelledData("embed", rows))
    known = {text for example in valid.examples for text in example.texts}
    assert not any(known.intersection(example.texts) for example in training.examples)
    pairs = [LabelledExample(("x", "y"), ("1",)), LabelledExample(("y", "x"), ("1",))]
    assert count_shared(LabelledData("match", pairs[:1]), LabelledData("match", pairs[1:])) == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [(f"{n}", f"{n}") for n in range(9)],
            "9 examples cannot be split, since none can be spared: each has a label",
        ),
        ([("x", "a"), ("y", "b")], "2 examples cannot be split. Give valid"),
        ([("x", "a")] * 20, "all others are copies"),
    ],
)
def test_what_cannot_be_split(rows: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(HeadwayError, match=message):
        hold_out(examples(*rows))


def test_identity_is_of_the_content() -> None:
    assert examples(("x", "a")).identity == examples(("x", "a")).identity
    assert examples(("x", "a")).identity != examples(("x", "b")).identity
