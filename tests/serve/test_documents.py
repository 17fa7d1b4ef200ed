"""HTML and files over HTTP. How they are translated headway.documents knows, and its own tests."""

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from documents.libreoffice import needs_libreoffice, opened
from documents.office_files import docx, odt, run

from headway.documents.segments import NO_ALIGNMENT_WARNING
from headway.serve import documents
from headway.serve.errors import ApiError
from headway.translate.translator import load_translator
from serve.conftest import Running, running, until

BODY = {"source": "en", "target": "qtx"}


class SegmentRequest(NamedTuple):
    text: str
    align: bool = False


class SegmentResult(NamedTuple):
    text: str
    links: Any = None
    warnings: Any = ()


@pytest.fixture
def simple(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The interface of headway.documents, over lines: one that ends with ! has markup inside."""

    def translated(text: str, translate: Callable[[Any], Any]) -> tuple[str, list[Any]]:
        said = list(translate([SegmentRequest(line.rstrip("!"), line.endswith("!")) for line in text.split("\n")]))
        return "\n".join(one.text for one in said), said

    segments = SimpleNamespace(
        SegmentResult=SegmentResult, NO_ALIGNMENT_WARNING="no links", can_align=lambda translator: False
    )
    package = SimpleNamespace(
        FORMAT_MODULES={".txt": ""}, translate_html=lambda text, translate: translated(text, translate)[0]
    )
    monkeypatch.setattr(documents, "documents", package)
    monkeypatch.setattr(documents, "segments", segments)
    return segments


def test_html(served: Running, simple: SimpleNamespace, sentences: list[str], translator_dir: Path) -> None:
    body = {**BODY, "format": "html", "q": ["\n".join(sentences[:3]), sentences[3] + "!"]}
    expected = load_translator(translator_dir, device="cpu")(sentences[:4])
    made = served.post("/translate", body).json()["translatedText"]
    assert made == ["\n".join(expected[:3]), expected[3]]
    same = served.post("/translate", {**body, "q": "as\nit is!", "source": "qtx"}).json()
    assert same == {"translatedText": "as\nit is"}


def test_a_file(served: Running, sentences: list[str], translator_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(served.state.downloads.folder.iterdir())
    text = "\n".join(sentences[:3]).encode()
    made = served.post("/translate_file", data=BODY, files={"file": ("../../a.TXT", text)}).json()
    assert (made["segments"], made["translated"], made["warnings"]) == (3, 3, [])
    address = made["translatedFileUrl"]
    assert address.startswith(f"{served.url}/download_file/")
    fetched = served.get(address.removeprefix(served.url))
    assert fetched.text == "\n".join(load_translator(translator_dir, device="cpu")(sentences[:3]))
    assert fetched.headers["content-disposition"] == 'attachment; filename="a_qtx.txt"'
    assert len(set(served.state.downloads.folder.iterdir()) - before) == 1  # what was sent is not kept
    monkeypatch.setattr(documents.segments, "can_align", lambda translator: False)
    marked = ("a.html", f"<p>{sentences[0].replace(' ', ' <b>', 1)}</b></p>".encode())
    (warning,) = served.post("/translate_file", data=BODY, files={"file": marked}).json()["warnings"]
    assert warning.endswith(NO_ALIGNMENT_WARNING)


def test_files_that_are_refused(served: Running) -> None:
    def told(data: dict[str, str], **files: Any) -> tuple[int, str]:
        return served.error("/translate_file", data=data, files=files)

    text = ("a.txt", b"x")
    assert told(BODY, other=text) == (400, "Invalid request: missing file parameter")
    assert told({"target": "qtx"}, file=text) == (400, "Invalid request: missing source parameter")
    assert told({"source": "en"}, file=text) == (400, "Invalid request: missing target parameter")
    assert told({**BODY, "target": "xx"}, file=text) == (400, "xx is not supported")
    unknown = "Invalid request: file format not supported"
    for name in ("a.exe", "txt", "a.txt/b", "a.txt\\", "a." + "x" * 1000):
        assert told(BODY, file=(name, b"x")) == (400, unknown)
    assert told(BODY, file=("", b"x")) == (400, "Invalid request: missing file parameter")
    broken = "Invalid request: file.docx cannot be opened: File is not a zip file. Is it a valid .docx document?"
    assert told(BODY, file=("a.docx", b"broken")) == (400, broken)
    assert told(BODY, file=("a.txt", b"x" * (12 * 2**20)))[0] == 413


def test_a_document_waits_until_there_is_room(
    translator_dir: Path, simple: SimpleNamespace, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(translator_dir, limits={"queue_tokens": 30}) as server:
        reservation = server.state.pool.budget.reserve(29)
        threading.Timer(0.5, reservation.release).start()
        made = server.post("/translate", {**BODY, "format": "html", "q": "\n".join(sentences[:3])})
        assert made.status_code == 200


def test_nobody_waits_for_a_document_any_more(
    translator_dir: Path, simple: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "RETRY_SECONDS", 0.01)
    with running(translator_dir, limits={"queue_tokens": 30, "request_seconds": 1.0}) as server:
        server.state.pool.acquire(server.state.pool.models[0])
        server.state.pool.release(server.state.pool.models[0])
        server.state.pool.budget.reserve(29)
        assert server.post("/translate", {**BODY, "format": "html", "q": "A dog."}).status_code == 504
        until(lambda: not server.state.pool.models[0].users)


def test_a_server_that_ends_refuses_what_would_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr(documents.time, "monotonic", lambda: clock)
    requests: Any = [documents.SegmentRequest("x" * 4000) for _ in range(10)]  # two in a group
    pool: Any = SimpleNamespace(ends_at=None)
    groups = documents._groups_before_end(pool, requests)
    next(groups)
    clock = 10.0
    pool.ends_at = 55.0  # four groups of ten seconds each are left
    next(groups)
    pool.ends_at = 45.0
    clock = 20.0
    with pytest.raises(ApiError, match="about to end") as refused:
        next(groups)
    assert refused.value.status == 503 and refused.value.headers["Retry-After"]


def test_the_language_of_a_file_is_detected(served: Running, sentences: list[str], translator_dir: Path) -> None:
    def made(text: str) -> tuple[str, dict[str, Any]]:
        upload = {"file": ("a.txt", text.encode())}
        answer = served.post("/translate_file", data={"source": "auto", "target": "qtx"}, files=upload).json()
        return served.get(answer["translatedFileUrl"].removeprefix(served.url)).text, answer

    expected = load_translator(translator_dir, device="cpu")(sentences[:2])
    text, answer = made("\n".join(sentences[:2]))
    assert text == "\n".join(expected)
    assert answer["detectedLanguage"]["language"] == "en"
    assert answer["detectedLanguage"]["confidence"] > 0
    empty, answer = made("1\n")
    assert empty == "1\n"
    assert (answer["segments"], answer["detectedLanguage"]["confidence"]) == (0, 0)
    broken = {"file": ("a.docx", b"x")}
    status, error = served.error("/translate_file", data={"source": "auto", "target": "qtx"}, files=broken)
    assert status == 400
    assert error.startswith("Invalid request: file.docx cannot be opened")


def test_html_has_warnings_but_no_score(served: Running, simple: SimpleNamespace, sentences: list[str]) -> None:
    own = {"scores": True, "alternatives": 2, "alignments": True, "warnings": True}
    made = served.post("/translate", {**BODY, **own, "format": "html", "q": f"{sentences[0]}!"}).json()
    del made["translatedText"]
    assert made == {"alternatives": [], "scores": None, "alignments": [], "warnings": ["no links"]}


@pytest.mark.slow
@needs_libreoffice
@pytest.mark.parametrize("ending", ["docx", "odt"])
def test_libreoffice_opens_what_is_fetched(
    served: Running, sentences: list[str], translator_dir: Path, ending: str, tmp_path: Path
) -> None:
    first, rest = sentences[0].split(" ", 1)
    expected = load_translator(translator_dir, device="cpu")(sentences[0])
    if ending == "docx":
        given = docx(f"<w:p>{run(first, '<w:b/>')}{run(f' {rest}')}</w:p>")
    else:
        given = odt(f"<text:p><text:span>{first}</text:span> {rest}</text:p>")
    made = served.post("/translate_file", data=BODY, files={"file": (f"a.{ending}", given)}).json()
    assert (made["segments"], made["translated"]) == (1, 1)
    fetched = tmp_path / f"fetched.{ending}"
    fetched.write_bytes(served.get(made["translatedFileUrl"].removeprefix(served.url)).content)
    assert opened(fetched).strip() == expected


def test_the_real_package(served: Running, sentences: list[str]) -> None:
    made = served.post("/translate", {**BODY, "format": "html", "q": f"<p class=a>{sentences[0]}</p>"}).json()
    assert made["translatedText"].startswith("<p class=a>")
    upload = ("a.html", f"<b>{sentences[0]}</b>".encode())
    counted = served.post("/translate_file", data=BODY, files={"file": upload}).json()
    assert counted["segments"] == 1
