"""JSON: values that are text change, and not a byte besides."""

import json
from pathlib import Path

import pytest

from documents.speakers import backwards, copying, fixed, louder, same
from headway.documents import DocumentCounts, TranslateSegments, translate_file
from headway.documents.json_values import is_translatable, translate_bytes
from headway.errors import HeadwayError

FILE = """{
  "title": "Save the file",  "count": 12345678901234567890.50,
  "items": ["One", "two_three", {"Two": "Open\\n{name}", "on": true}],
  "$schema": "a word", "@note": ["kept too"],
  "path": "https://x.y/z", "id": "btn-save", "hex": "#ff00aa", "icu": "{n, plural, one {dog} other {dogs}}",
  "tag": "A <b>red</b> house", "esc": "\\"Quoted\\" text", "empty": "", "locale": "en-US", "size": "12px"
}
"""


def translated(text: str, translate: TranslateSegments = louder) -> tuple[str, DocumentCounts]:
    data, counts = translate_bytes(text.encode(), "a.json", translate)
    return data.decode(), counts


def test_only_values_that_are_text_change() -> None:
    new, counts = translated(FILE, copying("⟦0⟧"))
    wanted = (
        FILE.replace("Save the file", "FILE THE SAVE")
        .replace('"One"', '"ONE"')
        .replace("Open\\n", "OPEN\\n")
        .replace("A <b>red</b> house", "HOUSE <b>RED</b> A")
        .replace('\\"Quoted\\" text', 'TEXT \\"QUOTED\\"')
    )
    assert new == wanted
    assert (counts.segments, counts.warnings) == (5, [])
    assert translated(FILE, same)[0] == FILE
    assert json.loads(new)["items"][2] == {"Two": "OPEN\n{name}", "on": True}


def test_placeholders_stay_or_the_value_does() -> None:
    given = '{"a": "Hello {{user}}, %d new", "b": "%s of %s"}'
    assert translated(given, copying("⟦0⟧,", "⟦1⟧"))[0] == '{"a": "NEW %d {{user}}, HELLO", "b": "%s OF %s"}'
    new, counts = translated('{"a": "%s or %d."}', backwards)
    assert new == '{"a": "%s or %d."}'
    assert counts.warnings == [
        '"%s or %d.": the placeholders of its translation are in another order: left untranslated'
    ]


def test_escapes_stay_escapes() -> None:
    assert translated('["caf\\u00e9"]', fixed("Straße"))[0] == '["Stra\\u00dfe"]'
    assert translated('["café"]', fixed("Straße"))[0] == '["Straße"]'
    assert translated('["tab\\u0009 here"]', fixed("Ä"))[0] == '["Ä\\t Ä"]'
    assert translated('["half \\ud800"]')[0] == '["half \\ud800"]'


@pytest.mark.parametrize(
    "text", ["Save", "ok", "Save as…", "A/B test", "Don't", "e.g. this", "日本語", "Hello, {name}!"]
)
def test_words_are_text(text: str) -> None:
    assert is_translatable(text)


CODES = [
    "userName", "a@b.co", "image/png", "./a", "v1.2.3", "2024-01-01", "com.example.app", "deadbeefdeadbeef", "12", "…",
    "pt_BR", "a-b", "mailto:x",
]  # fmt: skip


@pytest.mark.parametrize("text", CODES)
def test_codes_are_not(text: str) -> None:
    assert not is_translatable(text)


def test_bytes_and_a_lone_string(tmp_path: Path) -> None:
    path, out = tmp_path / "a.json", tmp_path / "b.json"
    path.write_bytes('\ufeff"one"\r\n'.encode())
    translate_file(path, out, louder)
    assert out.read_bytes() == '\ufeff"ONE"\r\n'.encode()


def test_bad_json_is_refused() -> None:
    with pytest.raises(HeadwayError, match="a.json is not valid JSON: line 2, column 6"):
        translated('{"a": 1,\n "b" 2}')
    with pytest.raises(HeadwayError, match="nested more than 150 deep"):
        translated("[" * 200 + "]" * 200)
    with pytest.raises(HeadwayError, match="a.json is refused: its lists and objects are nested too deeply"):
        translated("[" * 200_000 + "]" * 200_000)
    assert translated("[" + "9" * 100_000 + "]")[0] == "[" + "9" * 100_000 + "]"
