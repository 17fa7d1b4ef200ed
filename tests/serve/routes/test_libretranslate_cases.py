"""The cases of LibreTranslate's own API tests, against this server, and what its code does beside them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from documents.office_files import packed, unpacked
from serve.conftest import Running, running

BODY = {"q": "The dog sleeps.", "source": "en", "target": "qtx"}
SUGGESTION = {"q": "Hello", "s": "Hola", "source": "en", "target": "es"}


@pytest.fixture(scope="module")
def strict(translator_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """With small limits, API keys and suggestions."""
    folder = tmp_path_factory.mktemp("strict")
    (folder / "keys.txt").write_text("valid-key\n")
    with running(
        translator_dir,
        limits={"characters": 40, "texts": 3},
        api_keys=str(folder / "keys.txt"),
        suggestions=str(folder / "suggestions.jsonl"),
    ) as server:
        yield server


@pytest.mark.parametrize("how", ["json", "data", "params"])
@pytest.mark.parametrize("given", ["", None, "text"])
def test_an_empty_format_is_text(served: Running, how: str, given: str | None) -> None:
    wanted = served.post("/translate", BODY).json()
    body = {**BODY, "format": given} if given is not None or how == "json" else BODY
    assert httpx.post(f"{served.url}/translate", **{how: body}, timeout=60).json() == wanted  # type: ignore[arg-type]


@pytest.mark.parametrize(("given", "count"), [(-1, 0), (0, 0), ("0", 0), ("-3", 0), (2.9, 2), ("2", 2), (True, 1)])
def test_alternatives_are_counted_as_theirs(served: Running, given: Any, count: int) -> None:
    made = served.post("/translate", {**BODY, "alternatives": given}).json()
    assert ("alternatives" in made) == (count > 0)
    assert len(made.get("alternatives", [])) <= count


@pytest.mark.parametrize("given", ["abc", "", "1.5", [], {}, [2], "9" * 5000, "NaN"])
def test_alternatives_that_are_no_number(served: Running, given: Any) -> None:
    told = "Invalid request: alternatives parameter is not a number"
    assert served.error("/translate", {**BODY, "alternatives": given}) == (400, told)


@pytest.mark.parametrize("raw", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_alternatives_beyond_numbers(served: Running, raw: str) -> None:
    content = json.dumps(BODY)[:-1] + f', "alternatives": {raw}}}'
    made = served.post("/translate", content=content.encode(), headers={"Content-Type": "application/json"})
    assert (made.status_code, made.json()["error"]) == (400, "Invalid request: alternatives parameter is not a number")


def test_alternatives_beyond_the_limit(served: Running) -> None:
    told = "Invalid request: alternatives parameter must be <= 10"
    assert served.error("/translate", {**BODY, "alternatives": 11}) == (400, told)
    assert served.error("/translate", data={**BODY, "alternatives": "11"}) == (400, told)
    assert served.error("/translate", {**BODY, "alternatives": 10**400}) == (400, told)


def test_alternatives_of_several_texts(served: Running) -> None:
    made = served.post("/translate", {**BODY, "q": ["The dog sleeps.", "A cat runs."], "alternatives": 2}).json()
    assert [type(one) for one in made["alternatives"]] == [list, list]


@pytest.mark.parametrize("name", ["q", "source", "target"])
def test_what_is_missing_is_named_in_their_order(served: Running, name: str) -> None:
    told = (400, f"Invalid request: missing {name} parameter")
    order = ["q", "source", "target"]
    rest = {key: value for key, value in BODY.items() if order.index(key) < order.index(name)}
    values: list[Any] = [None, "", 0, [], False]
    for empty in ({}, *({name: value} for value in values)):
        assert served.error("/translate", {**rest, **empty, "beam_size": 99}) == told
    assert served.error("/translate", data={**rest, name: ""}) == told


def test_languages_and_formats_that_are_not_there(served: Running) -> None:
    assert served.error("/translate", data={**BODY, "target": "zz"}) == (400, "zz is not supported")
    assert served.error("/translate", {**BODY, "source": "zz", "target": "yy"}) == (400, "zz is not supported")
    assert served.error("/translate", {**BODY, "target": "yy", "format": "xml"}) == (400, "yy is not supported")
    assert served.error("/translate", data={**BODY, "format": "xml"}) == (400, "xml format is not supported")


def test_the_first_of_several_values_counts(served: Running) -> None:
    wanted = served.post("/translate", BODY).json()
    form = "q=The+dog+sleeps.&source=en&source=zz&target=qtx&target=yy&format=&format=xml"
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    assert served.post("/translate", content=form, headers=kind).json() == wanted
    assert served.post("/translate", data={"q": "x", "target": "qtx"}, params=BODY).json() == wanted


def test_html_of_one_and_of_several_texts(served: Running) -> None:
    made = served.post("/translate", data={**BODY, "q": "<p>The dog sleeps.</p>", "format": "html"}).json()
    assert made["translatedText"].startswith("<p>")
    assert made["translatedText"].endswith("</p>")
    several = served.post("/translate", {**BODY, "q": ["<p>The dog sleeps.</p>", "<b></b>"], "format": "html"}).json()
    assert several["translatedText"] == [made["translatedText"], "<b></b>"]


def test_what_has_no_words_comes_back(served: Running) -> None:
    assert served.post("/translate", data={**BODY, "q": "😀"}).json()["translatedText"] == "😀"
    made = served.post("/translate", {**BODY, "q": ["😀", "😁", ""]}).json()
    assert made["translatedText"] == ["😀", "😁", ""]


def test_an_error_inside_is_told_as_json(served: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.serve.routes import libretranslate

    def broken(*given: Any) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(libretranslate, "format_answer", broken)
    assert served.error("/translate", BODY) == (500, "Cannot translate text: something went wrong on the server")


def test_detection(served: Running) -> None:
    for body in ({"data": {"q": "Hello"}}, {"json": {"q": "Hello"}}, {"params": {"q": "Hello"}}):
        found = httpx.post(f"{served.url}/detect", **body, timeout=60)  # type: ignore[arg-type]
        assert found.status_code == 200
        assert set(found.json()[0]) == {"confidence", "language"}
    assert served.error("/detect") == (400, "Invalid request: missing q parameter")
    assert served.get("/detect").status_code == 405


def test_detection_of_several_texts_is_one_answer(served: Running) -> None:
    sentences = ["This is an English sentence about the garden.", "And here is another one, of the same kind."]
    together = served.post("/detect", {"q": sentences}).json()
    assert together[0]["language"] == "en"
    assert together[0]["confidence"] > 90
    apart = [served.post("/detect", {"q": one}).json()[0]["confidence"] for one in sentences]
    assert min(apart) <= together[0]["confidence"] <= max(apart)
    assert served.post("/detect", {"q": ["", "12"]}).json() == [{"confidence": 0, "language": "en"}]
    assert served.error("/detect", {"q": []}) == (400, "Invalid request: missing q parameter")
    told = (400, "Invalid request: request (1001) exceeds text limit (1000)")
    assert served.error("/detect", {"q": ["x"] * 1001}) == told


def test_the_character_limit_is_for_each_text(strict: Running) -> None:
    key = {"api_key": "valid-key"}
    texts = ["The dog sees a red house." for _ in range(3)]
    assert strict.post("/translate", {**BODY, **key, "q": texts}).status_code == 200
    told = (400, "Invalid request: request (41) exceeds text limit (40)")
    assert strict.error("/translate", {**BODY, **key, "q": ["x", "x" * 41]}) == told
    assert strict.error("/translate", data={**BODY, **key, "q": "x" * 41}) == told
    told = (400, "Invalid request: request (4) exceeds text limit (3)")
    assert strict.error("/translate", {**BODY, **key, "q": ["x"] * 4}) == told
    assert strict.get("/frontend/settings").json()["charLimit"] == 40


def test_keys(strict: Running) -> None:
    told = (400, "Please contact the server operator to get an API key")
    assert strict.error("/translate", data=BODY) == told
    assert strict.error("/detect", data={"q": "Hello"}) == told
    assert strict.error("/translate", data={**BODY, "api_key": "bogus"}) == (403, "Invalid API key")
    assert strict.post("/translate", data={**BODY, "api_key": "valid-key"}).status_code == 200
    settings = strict.get("/frontend/settings").json()
    assert (settings["apiKeys"], settings["keyRequired"]) == (True, True)


def test_suggestions_are_off_unless_asked_for(served: Running) -> None:
    told = (403, "Suggestions are disabled on this server.")
    assert served.error("/suggest", data=SUGGESTION) == told
    assert served.error("/suggest", {}) == told
    assert served.get("/frontend/settings").json()["suggestions"] is False


def test_suggestions_are_stored(strict: Running) -> None:
    key = {"api_key": "valid-key"}
    assert strict.get("/frontend/settings").json()["suggestions"] is True
    assert strict.post("/suggest", data={**SUGGESTION, **key}).json() == {"success": True}
    unusual = {**SUGGESTION, "q": 'Grüße,\n"x"\u2028'}
    assert strict.post("/suggest", {**unusual, **key}).json() == {"success": True}
    path = strict.state.suggestions.path
    assert [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] == [SUGGESTION, unusual]
    for name in ("q", "s", "source", "target"):
        rest = {key: value for key, value in SUGGESTION.items() if key != name}
        told = (400, f"Invalid request: missing {name} parameter")
        assert strict.error("/suggest", data={**rest, **key}) == told
    assert strict.error("/suggest", data=SUGGESTION)[0] == 400  # a key is required here
    told = (400, "Invalid request: request (41) exceeds text limit (40)")
    assert strict.error("/suggest", {**SUGGESTION, **key, "s": "x" * 41}) == told
    assert strict.error("/suggest", {**SUGGESTION, **key, "source": "x" * 101})[0] == 400


def test_settings_and_health(served: Running) -> None:
    settings = served.get("/frontend/settings").json()
    assert (settings["apiKeys"], settings["keyRequired"], settings["filesTranslation"]) == (False, False, True)
    assert {".txt", ".docx", ".odt", ".html", ".srt"} <= set(settings["supportedFilesFormat"])
    assert settings["language"]["source"]["code"] == "auto"
    assert served.get("/health").json() == {"status": "ok"}
    assert served.post("/health").status_code == 405


def upload(server: Running, name: str, **fields: str) -> httpx.Response:
    body = {"source": "en", "target": "qtx", **fields}
    return server.post("/translate_file", data=body, files={"file": (name, b"The dog sleeps.")})


def test_files(served: Running) -> None:
    url = upload(served, "test.txt").json()["translatedFileUrl"]
    fetched = httpx.get(url, timeout=60)
    assert fetched.status_code == 200
    assert fetched.content not in (b"", b"The dog sleeps.")
    assert upload(served, "test.txt", source="auto").status_code == 200
    assert served.error("/translate_file", data={"source": "en", "target": "qtx"}) == (
        400, "Invalid request: missing file parameter",
    )  # fmt: skip
    for fields, told in (
        ({"source": ""}, "Invalid request: missing source parameter"),
        ({"target": ""}, "Invalid request: missing target parameter"),
        ({"source": "zz"}, "zz is not supported"),
        ({"target": "zz"}, "zz is not supported"),
    ):
        assert upload(served, "test.txt", **fields).json() == {"error": told}
    assert upload(served, "program.exe").json() == {"error": "Invalid request: file format not supported"}
    assert served.get("/download_file/..%2f").json()["error"]


def test_a_book_is_told_its_language(served: Running) -> None:
    package = (
        "<package><metadata><dc:title>The dog</dc:title><dc:language>en</dc:language></metadata>"
        '<manifest><item href="a.xhtml" media-type="application/xhtml+xml"/></manifest></package>'
    )
    book = packed({
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container><rootfile full-path="x.opf"/></container>',
        "x.opf": package,
        "a.xhtml": '<html xml:lang="en"><p>The dog sleeps.</p></html>',
    })  # fmt: skip
    made = served.post("/translate_file", data=BODY, files={"file": ("book.EPUB", book)}).json()
    assert made["segments"] == 2
    fetched = httpx.get(made["translatedFileUrl"], timeout=60)
    assert fetched.headers["content-disposition"] == 'attachment; filename="book_qtx.epub"'
    parts = unpacked(fetched.content)
    assert b"<dc:language>qtx</dc:language>" in parts["x.opf"]
    assert parts["a.xhtml"].startswith(b'<html xml:lang="qtx"><p>')
    assert b"The dog sleeps." not in parts["a.xhtml"]


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("report.txt", 'attachment; filename="report_qtx.txt"'),
        ("my report (2).TXT", 'attachment; filename="my report (2)_qtx.txt"'),
        ("Übersicht.txt", "attachment; filename=\"Ubersicht_qtx.txt\"; filename*=UTF-8''%C3%9Cbersicht_qtx.txt"),
        ("報告.txt", "attachment; filename=\"_qtx.txt\"; filename*=UTF-8''%E5%A0%B1%E5%91%8A_qtx.txt"),
        ("../../etc/passwd.txt", 'attachment; filename="passwd_qtx.txt"'),
        ("C:\\temp\\a.txt", 'attachment; filename="a_qtx.txt"'),
        ('a"; filename="evil.exe.txt', 'attachment; filename="a_22_ filename=_22evil.exe_qtx.txt"'),
        ("..txt", 'attachment; filename="translated_qtx.txt"'),
    ],
)
def test_a_download_is_named_as_the_upload(served: Running, name: str, header: str) -> None:
    url = upload(served, name).json()["translatedFileUrl"]
    assert httpx.get(url, timeout=60).headers["content-disposition"] == header
