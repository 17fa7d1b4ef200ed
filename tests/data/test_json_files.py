"""Pairs in JSON: lists, objects in a row, language keys, in bounded memory."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from headway.data.json_files import iterate_objects
from headway.data.parallel_files import ParallelFiles, read_parallel, resolve_layout
from headway.errors import HeadwayError
from headway.files.text_files import MAX_LINE_BYTES

ROWS = [{"en": "One.", "de": "Eins."}, {"en": "Two\nlines.", "de": "Zwei ✓."}]
PAIRS = [("One.", "Eins."), ("Two lines.", "Zwei ✓.")]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(ROWS),
        json.dumps(ROWS, indent=2),
        "\ufeff" + json.dumps(ROWS),
        "".join(json.dumps(row) + "\n" for row in ROWS),
        json.dumps([{"id": "0", "translation": row} for row in ROWS]),
    ],
)
@pytest.mark.parametrize("languages", [("", ""), ("en", "de"), ("en", ""), ("", "de")])
def test_what_datasets_and_pandas_write(tmp_path: Path, text: str, languages: tuple[str, str]) -> None:
    path = tmp_path / "a.json"
    path.write_text(text, encoding="utf-8")
    files = ParallelFiles(str(path), "", *languages)
    assert list(read_parallel(files)) == PAIRS
    resolved = resolve_layout(files)
    assert (resolved.source_language, resolved.target_language) == ("en", "de")


def test_languages_as_keys_of_lines_need_no_options(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 3, "German": "Eins.", "English": "One."}\n')
    assert list(read_parallel(ParallelFiles(str(path)))) == [("Eins.", "One.")]
    assert list(read_parallel(ParallelFiles(str(path), "", "en", "de"))) == [("One.", "Eins.")]
    assert resolve_layout(ParallelFiles(str(path)))[2:4] == ("de", "en")
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    for text in (path.read_text(), ""):
        writer = threading.Thread(target=pipe.write_text, args=(text,))
        writer.start()
        assert list(read_parallel(ParallelFiles(str(pipe)))) == [("Eins.", "One.")] * bool(text)
        writer.join()


def test_three_languages_need_a_choice(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"en": "One.", "de": "Eins.", "fr": "Un."}\n')
    assert list(read_parallel(ParallelFiles(str(path), "", "fr", "de"))) == [("Un.", "Eins.")]
    for languages in (("", ""), ("fr", ""), ("es", "de")):
        with pytest.raises(HeadwayError, match="line 1 has the keys en, de, fr: expected texts under"):
            list(read_parallel(ParallelFiles(str(path), "", *languages)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "a.json, object 1 is no object: a .json file holds a list of objects"),
        ('[{"en": "a", "de": "b"}', "object 1 is followed by the end of the file, before the end of the list"),
        ('[{"en": "a", "de": "b"} {"en"', "object 1 is followed by neither a comma nor the end of the list"),
        ('[{"en": "a", "de": "b"}, {"en"', "object 2 is not JSON"),
        ('{"a":' * 100_000, "object 1 is nested too deeply"),
        ('{"en": {"0": "a"}, "de": {"0": "b"}}', "object 1: what it has under en and de is not text."),
        ('{"data": []}', "object 1 has the keys data: expected texts under en and de or source and target"),
        (b'[{"en": "sch\xf6n"}]', "a.json: byte 0xf6 is not UTF-8. Convert it first"),
        ('[{"en": "' + "x" * (MAX_LINE_BYTES + 2), "object 1 is not JSON"),
        ('[{"en": "' + "x" * (3 * MAX_LINE_BYTES), "object 1 is not JSON, or longer than 16 MiB"),
    ],
    ids=range(10),
)
def test_what_cannot_be_read_is_said_with_its_number(tmp_path: Path, text: Any, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(HeadwayError) as caught:
        list(read_parallel(ParallelFiles(str(path), "", "en", "de")))
    assert message in str(caught.value)


def test_a_long_list_is_never_in_memory(tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "a.json"
    rows = [{"en": f"{number} " * 20, "de": "x"} for number in range(100_000)]
    path.write_text(json.dumps(rows))
    tracemalloc.start()
    count = sum(1 for _ in iterate_objects(str(path)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 100_000 and path.stat().st_size > 12_000_000 and peak < 4_000_000
