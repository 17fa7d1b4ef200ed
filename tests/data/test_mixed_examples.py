"""Mixed examples: read, written, laid out as ids; what is wrong is refused with its place."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from nn.frontends.inputs import random_media, small_model

from headway.config.schema import from_dict
from headway.data import mixed_examples
from headway.data.mixed_examples import (
    MediaSpan,
    MixedExample,
    MixedPart,
    format_mixed,
    lay_out,
    parse_mixed,
    read_mixed,
)
from headway.errors import HeadwayError
from headway.nn.frontends.frontend import place_vectors
from headway.nn.sequence import positions_from_start
from headway.nn.transformer import Transformer

LINE: dict[str, Any] = {
    "parts": [{"text": "Was ist "}, {"picture": "a/b.png"}, {"sound": "c.wav", "from": 1.5, "to": 4}],
    "target": "ein Hund",
    "language": "de",
}
MARKERS = {"picture": (1, 2), "sound": (3, 4)}


def test_examples_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mixed.jsonl"
    path.write_text(f"{json.dumps(LINE)}\n\n{json.dumps({'parts': [{'text': ''}], 'label': 'x', 'task': 't'})}\n")
    first, second = read_mixed(path)
    assert first.parts[0] == MixedPart("text", "Was ist ")
    assert first.parts[1] == MixedPart("picture", str(tmp_path / "a" / "b.png"))
    assert first.parts[2] == MixedPart("sound", str(tmp_path / "c.wav"), 1.5, 4.0)
    assert (first.target, first.language, first.label, first.task) == ("ein Hund", "de", None, None)
    assert (second.label, second.task, second.where) == ("x", "t", f"{path}, line 3")


def test_there_and_back(tmp_path: Path) -> None:
    example = parse_mixed(json.dumps(LINE), "here", tmp_path)
    assert json.loads(format_mixed(example, tmp_path)) == LINE
    data = MixedExample((MixedPart("picture", b"\x89PNG"), MixedPart("sound", b"RIFF", 2.0)))
    line = format_mixed(data)
    assert parse_mixed(line, "").parts == data.parts
    inline = {"parts": [{"picture": f"data:image/png;base64,{base64.b64encode(b'x').decode()}"}]}
    assert parse_mixed(json.dumps(inline), "").parts[0].value == b"x"
    away = MixedExample((MixedPart("sound", "/elsewhere/a.wav"),))
    assert parse_mixed(format_mixed(away, tmp_path), "", tmp_path).parts == away.parts


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1]", "here is not a JSON object"),
        ("{" * 100_000, "here is not a JSON object"),
        ('{"parts": [], "target": "x"}', "parts must be a list of 1 to 1,000"),
        ('{"target": "x"}', "parts must be a list"),
        ('{"part": []}', 'there is no "part". Did you mean "parts"'),
        ('{"parts": [{"text": "x"}], "target": 3}', "target must be a text"),
        ('{"parts": ["x"]}', "here, part 1 must be one of"),
        ('{"parts": [{"text": "x", "picture": "y"}]}', "part 1 must be one of"),
        ('{"parts": [{"picture": "x", "from": 1}]}', "part 1 must be one of"),
        ('{"parts": [{"text": "x"}, {"video": "y"}]}', "part 2 must be one of"),
        ('{"parts": [{"picture": ""}]}', "the picture must be a path or a data URL"),
        ('{"parts": [{"text": 3}]}', "the text must be a text"),
        ('{"parts": [{"sound": "x", "from": "1"}]}', "from and to are numbers"),
        ('{"parts": [{"sound": "x", "to": true}]}', "from and to are numbers"),
        ('{"parts": [{"sound": "x", "from": -1}]}', "from 0 s or later to a later time"),
        ('{"parts": [{"sound": "x", "from": 2, "to": 2}]}', "from 0 s or later to a later time"),
        ('{"parts": [{"sound": "data:image/png;base64,AAAA"}]}', 'of a sound begins "data:audio/'),
        ('{"parts": [{"picture": "data:text/html,x"}]}', 'of a picture begins "data:image/'),
        ('{"parts": [{"picture": "data:image/png;base64,?"}]}', "is not valid base64"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(line: str, message: str) -> None:
    with pytest.raises(HeadwayError, match=message):
        parse_mixed(line, "here")


def test_long_lines_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.jsonl").write_text(json.dumps(LINE) + "\n")
    monkeypatch.setattr(mixed_examples, "MAX_LINE_CHARACTERS", 20)
    with pytest.raises(HeadwayError, match="line 1 has .* characters: at most 20 are read"):
        list(read_mixed(tmp_path / "x.jsonl"))


def test_parts_stand_between_markers() -> None:
    example = parse_mixed(json.dumps(LINE), "here")
    counts = {"picture": 3, "sound": 2}
    laid = lay_out(example, lambda text: [ord(c) for c in text[:2]], MARKERS, 9, lambda part: counts[part.kind])
    assert laid.ids == [87, 97, 1, 9, 9, 9, 2, 3, 9, 9, 4]
    assert laid.spans == (MediaSpan(1, 3, 3), MediaSpan(2, 8, 2))
    with pytest.raises(HeadwayError, match="here holds a sound, and the model reads none"):
        lay_out(example, lambda text: [], {"picture": (1, 2)}, 9, lambda part: 1)


@torch.no_grad()
def test_one_batch_holds_text_pictures_and_sound() -> None:
    """Two rows of ids, vectors of three pictures and a sound among them; fillers themselves are never seen."""
    torch.manual_seed(0)
    eye, ear = small_model("patches(2, 8)"), small_model("mel(5, 0.4)")
    pictures, sounds = eye.encode(random_media("patches")), ear.encode(random_media("mel", [7]))
    assert pictures.positions.valid is not None
    counts = [int(valid.sum()) for valid in pictures.positions.valid] + [4]
    first = MixedExample((MixedPart("picture", "0"), MixedPart("text", "ab"), MixedPart("picture", "1")))
    second = MixedExample((MixedPart("text", "c"), MixedPart("sound", "3"), MixedPart("picture", "2")))
    rows = [
        lay_out(one, lambda text: [5 + ord(c) - 97 for c in text], MARKERS, 0, lambda part: counts[int(part.value)])
        for one in (first, second)
    ]
    length = max(len(row.ids) for row in rows)
    ids = torch.tensor([row.ids + [0] * (length - len(row.ids)) for row in rows])
    valid = torch.arange(length) < torch.tensor([[len(row.ids)] for row in rows])
    seen = place_vectors(pictures, [0, 0, 1], [rows[0].spans[0].first, rows[0].spans[1].first, rows[1].spans[1].first])
    heard = place_vectors(sounds, [1], [rows[1].spans[0].first])
    assert len(seen.values) == sum(counts[:3]) and len(heard.values) == 4
    inserted = type(seen)(*(torch.cat(pair) for pair in zip(seen, heard)))
    table = {"d_model": 16, "vocabulary": 29, "encoder": {"layers": 0}, "decoder": {"mixer": "attention(4)"}}
    reader = Transformer(from_dict(Transformer.Config, table)).double().eval()
    together = reader.decode(ids, valid, inserted=inserted)
    fillers = torch.where(ids == 0, 20, ids)
    torch.testing.assert_close(reader.decode(fillers, valid, inserted=inserted)[valid], together[valid])
    for row in range(2):
        own = inserted.rows == row
        zeros = torch.zeros(int(own.sum()), dtype=torch.long)
        alone = type(inserted)(inserted.values[own], zeros, inserted.columns[own])
        expected = reader.decode(ids[row : row + 1, : len(rows[row].ids)], inserted=alone)[0]
        torch.testing.assert_close(together[row][valid[row]], expected, rtol=0, atol=1e-12)
    unpadded = pictures._replace(positions=positions_from_start(17, None, ids.device))
    whole = place_vectors(unpadded, [0, 0, 1], [0, 17, 0])
    assert len(whole.values) == 3 * 17 and np.array_equal(whole.columns[:17], np.arange(17))
