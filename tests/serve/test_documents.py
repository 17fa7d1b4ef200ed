"""HTML and files over HTTP. How they are translated headway.documents knows, and its own tests."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from headway.errors import HeadwayError
from headway.serve import documents
from headway.translator import load_translator
from serve.conftest import Running, running, until

BODY = {"source": "en", "target": "qtx"}


class Asked(NamedTuple):
    text: str
    align: bool = False


class Said(NamedTuple):
    text: str
    links: Any = None
    warnings: Any = ()


class Counts(NamedTuple):
    segments: int
    translated: int
    warnings: list[str]


@pytest.fixture
def simple(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The interface of headway.documents, over lines: one that ends with ! has markup inside."""

    def translated(text: str, translate: Callable[[Any], Any]) -> tuple[str, list[Any]]:
        said = list(translate([Asked(line.rstrip("!"), line.endswith("!")) for line in text.split("\n")]))
        return "\n".join(one.text for one in said), said

    def translate_file(path_in: Path, path_out: Path, translate: Any, name: str) -> Counts:
        text = path_in.read_text()
        if text == "broken":
            raise HeadwayError(f"{name} is damaged.")
        made, said = translated(text, translate)
        path_out.write_text(made)
        return Counts(len(said), len(said), [w for one in said for w in one.warnings])

    package, seam = ModuleType("headway.documents"), ModuleType("headway.documents.seam")
    vars(package).update(
        KNOWN={".txt": ""}, translate_html=lambda text, translate: translated(text, translate)[0],
        translate_file=translate_file, seam=seam,
    )  # fmt: skip
    vars(seam).update(Said=Said, NO_LINKS="no links", can_align=lambda translator: False)
    monkeypatch.setitem(sys.modules, "headway.documents", package)
    monkeypatch.setitem(sys.modules, "headway.documents.seam", seam)
    return seam


def test_html(served: Running, simple: ModuleType, sentences: list[str], translator_dir: Path) -> None:
    body = {**BODY, "format": "html", "q": ["\n".join(sentences[:3]), sentences[3] + "!"]}
    expected = load_translator([translator_dir], "cpu")(sentences[:4])
    made = served.post("/translate", body).json()["translatedText"]
    assert made == ["\n".join(expected[:3]), expected[3]]
    same = served.post("/translate", {**body, "q": "as\nit is!", "source": "qtx"}).json()
    assert same == {"translatedText": "as\nit is"}


def test_a_file(served: Running, simple: ModuleType, sentences: list[str], translator_dir: Path) -> None:
    text = "\n".join(f"{line}!" for line in sentences[:3]).encode()
    made = served.post("/translate_file", data=BODY, files={"file": ("../../a.TXT", text)}).json()
    assert (made["segments"], made["translated"], made["warnings"]) == (3, 3, ["no links"] * 3)
    address = made["translatedFileUrl"]
    assert address.startswith(f"{served.url}/download_file/")
    fetched = served.get(address.removeprefix(served.url))
    assert fetched.text == "\n".join(load_translator([translator_dir], "cpu")(sentences[:3]))
    assert fetched.headers["content-disposition"] == 'attachment; filename="translated.txt"'
    assert len(list(served.service.files.folder.iterdir())) == 1  # what was sent is not kept
    simple.can_align = lambda translator: True  # type: ignore[attr-defined]
    again = served.post("/translate_file", data=BODY, files={"file": ("a.txt", text)}).json()
    assert again["warnings"] == []


def test_files_that_are_refused(served: Running, simple: ModuleType) -> None:
    def told(data: dict[str, str], **files: Any) -> tuple[int, str]:
        return served.error("/translate_file", data=data, files=files)

    text = ("a.txt", b"x")
    assert told(BODY, other=text) == (400, "Invalid request: missing file parameter")
    assert told({"target": "qtx"}, file=text) == (400, "Invalid request: missing source parameter")
    assert told({"source": "en"}, file=text) == (400, "Invalid request: missing target parameter")
    assert told({**BODY, "target": "xx"}, file=text) == (400, "xx is not supported")
    for name in ("a.exe", "txt", "", "a.txt/b", "a.txt\\"):
        status, error = told(BODY, file=(name, b"x"))
        assert (status, error) in [
            (400, "Invalid request: file format not supported"),
            (400, "Invalid request: missing file parameter"),
        ]
    assert told(BODY, file=("a.txt", b"broken")) == (400, "Invalid request: file.txt is damaged.")
    assert told(BODY, file=("a.txt", b"x" * (12 * 2**20)))[0] == 413


def test_a_document_waits_until_there_is_room(
    translator_dir: Path, simple: ModuleType, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(translator_dir, limits={"waiting": 30}) as server:
        room = server.service.shelf.room
        room.take(29)
        threading.Timer(0.5, room.give, [29]).start()
        made = server.post("/translate", {**BODY, "format": "html", "q": "\n".join(sentences[:3])})
        assert made.status_code == 200


def test_nobody_waits_for_a_document_any_more(
    translator_dir: Path, simple: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "AGAIN", 0.01)
    with running(translator_dir, limits={"waiting": 30, "seconds": 1.0}) as server:
        server.service.shelf.take(server.service.shelf.models[0])
        server.service.shelf.give(server.service.shelf.models[0])
        server.service.shelf.room.take(29)
        assert server.post("/translate", {**BODY, "format": "html", "q": "A dog."}).status_code == 504
        until(lambda: not server.service.shelf.models[0].users)


def test_the_real_package(served: Running, sentences: list[str]) -> None:
    if documents.package() is None:
        pytest.skip("this version has none")
    made = served.post("/translate", {**BODY, "format": "html", "q": f"<p class=a>{sentences[0]}</p>"}).json()
    assert made["translatedText"].startswith("<p class=a>")
    upload = ("a.html", f"<b>{sentences[0]}</b>".encode())
    counted = served.post("/translate_file", data=BODY, files={"file": upload}).json()
    assert counted["segments"] == 1
