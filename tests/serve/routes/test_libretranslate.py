"""LibreTranslate's API: with its own client, and with everything that clients send."""

import json
import urllib.error
from pathlib import Path
from typing import Any

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI
from serve.conftest import Running, running, until

from headway.serve.routes.libretranslate import distinct_alternatives
from headway.translate.results import Guess, Translation
from headway.translate.translator import load_translator


@pytest.fixture(scope="module")
def expected(translator_dir: Path, sentences: list[str]) -> list[str]:
    """What the translator says in Python."""
    return load_translator(translator_dir, device="cpu")(sentences[:5])


def test_the_real_client(served: Running, sentences: list[str], expected: list[str]) -> None:
    client = LibreTranslateAPI(served.url)
    assert client.translate(sentences[0], "en", "qtx") == expected[0]
    found = client.detect("The dog sees a red house and a green tree in the garden.")
    assert found[0]["language"] == "en"
    assert type(found[0]["confidence"]) is int
    assert found[0]["confidence"] > 50
    assert client.languages() == [
        {"code": "en", "name": "English", "targets": ["en", "qtx"]},
        {"code": "qtx", "name": "qtx", "targets": ["qtx"]},
    ]
    with pytest.raises(urllib.error.HTTPError, match="400"):
        client.translate("x", "en", "xx")


def test_json_forms_and_query_strings_are_the_same(served: Running, sentences: list[str], expected: list[str]) -> None:
    body = {"q": sentences[0], "source": "en", "target": "qtx"}
    answer = {"translatedText": expected[0]}
    assert served.post("/translate", body).json() == answer
    assert served.post("/translate", data=body).json() == answer
    assert served.post("/translate", params=body).json() == answer
    assert served.post("/translate", data=body, files={"x": b""}).json() == answer  # multipart
    assert served.post("/translate", {**body, "format": None, "unknown": 1}).json() == answer


def test_several_texts(served: Running, sentences: list[str], expected: list[str]) -> None:
    body = {"q": sentences[:5], "source": "en", "target": "qtx"}
    assert served.post("/translate", body).json() == {"translatedText": expected}
    assert served.post("/translate", data=body).json() == {"translatedText": expected}


def test_the_language_of_each_text_is_detected(served: Running, sentences: list[str], expected: list[str]) -> None:
    body = {"q": [sentences[0], "123"], "source": "auto", "target": "qtx"}
    made = served.post("/translate", body).json()
    assert made["translatedText"][0] == expected[0]
    assert [found["language"] for found in made["detectedLanguage"]] == ["en", "en"]
    assert made["detectedLanguage"][1]["confidence"] == 0  # there is nothing to detect it by
    one = served.post("/translate", {**body, "q": sentences[0]}).json()
    assert one["detectedLanguage"] == made["detectedLanguage"][0]


FRENCH = "Bonjour tout le monde, comment allez-vous aujourd'hui?"


def test_a_text_in_a_language_that_nobody_translates_stays(
    served: Running, sentences: list[str], expected: list[str]
) -> None:
    given = ["これは本です", FRENCH, sentences[0]]
    body = {"source": "auto", "target": "qtx", "warnings": True}
    made = served.post("/translate", {**body, "q": given}).json()
    assert made["translatedText"] == [*given[:2], expected[0]]
    assert [found["language"] for found in made["detectedLanguage"]] == ["ja", "fr", "en"]
    assert made["detectedLanguage"][1]["confidence"] > 50
    assert made["warnings"] == [
        ["it seems to be in Japanese (ja), which is not translated here, and stays as it is"],
        ["it seems to be in French (fr), which is not translated here, and stays as it is"],
        [],
    ]
    page = f'<p class="the dog and the house of the garden">{FRENCH}</p>'
    made = served.post("/translate", {**body, "q": page, "format": "html"}).json()
    assert (made["translatedText"], made["detectedLanguage"]["language"]) == (page, "fr")
    assert made["warnings"][0].startswith("it seems to be in French")


def test_what_cannot_stay_is_refused(served: Running) -> None:
    """A file, and a stream, in a language that nobody translates."""
    told = "seems to be in French (fr), which is not translated here. If that is wrong, send its language as source"
    body = {"source": "auto", "target": "qtx"}
    upload = {"file": ("a.txt", FRENCH.encode())}
    assert served.error("/translate_file", data=body, files=upload) == (400, f"Invalid request: the file {told}")
    assert served.error("/api/translate", {**body, "q": FRENCH}) == (400, f"Invalid request: the text {told}")


def test_a_text_in_the_target_language_stays(served: Running) -> None:
    body = {"q": "  As it is.\n", "source": "qtx", "target": "qtx", "alignments": True, "scores": True}
    made = served.post("/translate", body).json()
    assert made == {"translatedText": "  As it is.\n", "alignments": [], "scores": None}


def test_alternatives_and_own_keys(served: Running, sentences: list[str], expected: list[str]) -> None:
    body = {"q": sentences[0], "source": "en", "target": "qtx", "alternatives": 3}
    own = {"beam_size": 2, "scores": True, "alignments": True, "warnings": True}
    made = served.post("/translate", {**body, **own}).json()
    assert made["translatedText"] == expected[0]
    assert 1 <= len(made["alternatives"]) <= 3
    assert len({made["translatedText"], *made["alternatives"]}) == 1 + len(made["alternatives"])
    assert made["scores"] <= 0
    assert all(len(link) == 2 for link in made["alignments"])
    assert made["alignments"]
    assert made["warnings"] == []
    several = served.post("/translate", {**body, **own, "q": sentences[:2]}).json()
    assert {name: values[0] for name, values in several.items()} == made


def test_alternatives_are_others() -> None:
    """A search may find one text in several spellings by tokens."""
    guesses = [Guess(text, 0.0, 0.0, [], []) for text in ("a", "b", "a", "b", "c", "d")]
    assert distinct_alternatives(Translation("x", guesses), 2) == ["b", "c"]


def test_spacing_and_lines_stay(served: Running, sentences: list[str], expected: list[str]) -> None:
    text = f"  {sentences[0]}\n\n{sentences[1]} \n"
    body = {"q": text, "source": "en", "target": "qtx"}
    assert served.post("/translate", body).json()["translatedText"] == f"  {expected[0]}\n\n{expected[1]} \n"


def test_a_long_text_is_the_same_in_pieces(served: Running, sentences: list[str], translator_dir: Path) -> None:
    text = "\n".join(sentences)
    assert len(text) > 2000
    body = {"q": text, "source": "en", "target": "qtx"}
    whole = load_translator(translator_dir, device="cpu")(text)
    assert served.post("/translate", body).json()["translatedText"] == whole


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"q": None}, "Invalid request: missing q parameter"),
    ({"q": ""}, "Invalid request: missing q parameter"),
    ({"q": []}, "Invalid request: missing q parameter"),
    ({"source": None}, "Invalid request: missing source parameter"),
    ({"target": ""}, "Invalid request: missing target parameter"),
    ({"source": "xx"}, "xx is not supported"),
    ({"target": "xx"}, "xx is not supported"),
    ({"format": "pdf"}, "pdf format is not supported"),
    ({"source": "qtx", "target": "en"}, "English (en) is not available as a target language from qtx (qtx)"),
    ({"alternatives": 10_000}, "Invalid request: alternatives parameter must be <= 10"),
    ({"alternatives": "many"}, "Invalid request: alternatives parameter is not a number"),
    ({"beam_size": 1e9}, "Invalid request: beam_size parameter must be <= 16"),
    ({"beam_size": 10**400}, "Invalid request: beam_size parameter"),
    ({"scores": "perhaps"}, "Invalid request: scores parameter is not true or false"),
    ({"min_score": 2}, "Invalid request: min_score parameter must be <= 1"),
    ({"glossary": ["dog"]}, "Invalid request: glossary parameter is not an object"),
    ({"glossary": "dog"}, "Invalid request: glossary parameter is not an object"),
    ({"protect": ["x"] * 101}, "Invalid request: protect parameter is too long: 100 at most"),
    ({"q": {"text": "x"}}, "Invalid request: q parameter is not a string"),
    ({"q": ["x", 7]}, "Invalid request: q parameter is not a string"),
    ({"q": "\ud800"}, "Invalid request: the text is not valid Unicode"),
    ({"q": ["x"] * 1001}, "Invalid request: request (1001) exceeds text limit (1000)"),
    ({"q": "x" * 50_001}, "Invalid request: request (50001) exceeds text limit (50000)"),
]


@pytest.mark.parametrize(("change", "told"), MISTAKES, ids=[told[-40:] for _, told in MISTAKES])
def test_mistakes_are_told_as_libretranslate_tells_them(served: Running, change: dict[str, Any], told: str) -> None:
    body = {"q": "The dog sleeps.", "source": "en", "target": "qtx", **change}
    raw = json.dumps(body).encode("utf-8")
    status, error = served.error("/translate", content=raw, headers={"Content-Type": "application/json"})
    assert status == 400
    assert error.startswith(told), error


HALF = b'--y\r\nContent-Disposition: form-data; name="q"\r\n\r\n\xff\r\n--y--\r\n'


@pytest.mark.parametrize(
    ("content", "kind", "told"),
    [
        (b"{", "application/json", "Invalid JSON format"),
        (b"[]", "application/json", "Invalid JSON format"),
        (b"[" * 100_000, "application/json", "Invalid JSON format"),
        (b"\xff", "application/json", "Invalid JSON format"),
        (b"q=%ff", "application/x-www-form-urlencoded", "Invalid request: the form cannot be read"),
        (b"a&" * 1000, "application/x-www-form-urlencoded", "Invalid request: missing q parameter"),
        (b"a=1&" * 5000, "application/x-www-form-urlencoded", "Invalid request: the form cannot be read"),
        (b"q=" + b"%" * 40_000, "application/x-www-form-urlencoded", "Invalid request: missing source parameter"),
        (b"q=%ff" * 10_000, "application/x-www-form-urlencoded", "Invalid request: the form cannot be read"),
        (b"x", "multipart/form-data", "Invalid request: the form cannot be read"),
        (b"x", "multipart/form-data; boundary=y", "Invalid request: "),
        (HALF, "multipart/form-data; boundary=y; charset=?", "Invalid request: missing source parameter"),
        (b"", "", "Invalid request: missing q parameter"),
        (
            b' {"q": "x"}',
            "application/x-www-form-urlencoded",
            "Invalid request: the body looks like JSON: send Content-",
        ),
        (
            b'{"q": "x=&"}',
            "text/plain",
            "Invalid request: the body looks like JSON: send Content-Type: application/json",
        ),
    ],
)
def test_bodies_that_cannot_be_read(served: Running, content: bytes, kind: str, told: str) -> None:
    status, error = served.error("/translate", content=content, headers={"Content-Type": kind})
    assert status == 400
    assert error.startswith(told), error


def test_a_form_that_cannot_be_read_writes_nothing_of_its_own(
    served: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has one line a request."""
    kind = {"Content-Type": "multipart/form-data; boundary=y"}
    assert served.error("/translate", content=b"x" * 100, headers=kind)[0] == 400
    assert [record.name for record in caplog.records if "multipart" in record.name] == []


def test_glossary_protected_texts_and_a_least_score(served: Running, sentences: list[str], expected: list[str]) -> None:
    body = {"q": sentences[0], "source": "en", "target": "qtx"}
    word = sentences[0].split()[1]
    kept = served.post("/translate", {**body, "protect": [word], "warnings": True}).json()
    assert word in kept["translatedText"] or kept["warnings"]
    given = served.post("/translate", {**body, "glossary": {word: "blorp"}, "warnings": True}).json()
    assert "blorp" in given["translatedText"] or given["warnings"]
    form = {**body, "glossary": json.dumps({word: "blorp"}), "warnings": "true"}
    assert served.post("/translate", data=form).json() == given
    catastrophe = {**body, "q": "a" * 50 + "!", "protect": ["(a+)+$"]}
    assert served.post("/translate", catastrophe).status_code == 200  # it is a text, not a pattern
    status, error = served.error("/translate", {**body, "min_score": 0.5})
    assert status == 400
    assert error.startswith("Invalid request: model is not calibrated")  # by its name, not by its path


def test_detect(served: Running) -> None:
    assert served.post("/detect", data={"q": "12"}).json() == [{"confidence": 0, "language": "en"}]
    assert served.error("/detect", {}) == (400, "Invalid request: missing q parameter")
    assert served.error("/detect", {"q": ["a", 7]}) == (400, "Invalid request: q parameter is not a string")


def test_nothing_is_detected_without_a_translator(lm_dir: Path) -> None:
    told = "Invalid request: this server has no translation model, so it knows no languages to detect"
    with running(lm_dir) as server:
        assert server.error("/detect", {"q": "The dog sleeps."}) == (400, told)


def test_the_rest(served: Running) -> None:
    assert served.get("/health").json() == {"status": "ok"}
    settings = served.get("/frontend/settings").json()
    assert settings["charLimit"] == 50_000
    assert settings["language"]["source"] == {"code": "auto", "name": "Auto Detect"}
    assert settings["language"]["target"] == {"code": "qtx", "name": "qtx"}
    missing = served.get("/nothing")
    assert missing.status_code == 404
    assert missing.json() == {"error": "there is nothing at this address: see /docs"}
    wrong = served.get("/translate")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    assert "error" in wrong.json()


def test_cors_is_off_unless_asked(served: Running, translator_dir: Path) -> None:
    origin = {"Origin": "https://example.org"}
    assert "access-control-allow-origin" not in served.get("/languages", headers=origin).headers
    with running(translator_dir, cors=("https://example.org",)) as open_one:
        allowed = open_one.get("/languages", headers=origin).headers
        assert allowed["access-control-allow-origin"] == "https://example.org"
        other = open_one.get("/languages", headers={"Origin": "https://example.com"}).headers
        assert "access-control-allow-origin" not in other
        for refused in (
            open_one.post("/translate", {}, headers=origin),
            open_one.post("/translate", content=b" " * 2**21, headers=origin),
            open_one.get("/nothing", headers=origin),
        ):  # a page that may not read why cannot tell its user
            assert refused.status_code in (400, 404, 413)
            assert refused.headers["access-control-allow-origin"] == "https://example.org"


@pytest.mark.parametrize("path", ["/", "/health", "/languages", "/frontend/settings", "/docs", "/spec", "/metrics"])
def test_what_can_be_fetched_can_be_asked_for(served: Running, path: str) -> None:
    """HEAD, by which monitors and link checkers look."""
    asked, fetched = httpx.head(served.url + path, timeout=60), served.get(path)
    assert (asked.status_code, fetched.status_code) == (200, 200)
    assert asked.content == b""
    assert asked.headers["content-type"] == fetched.headers["content-type"]


def test_asking_for_what_cannot_be_fetched(served: Running) -> None:
    served.log.clear()
    assert httpx.head(served.url + "/translate", timeout=60).status_code == 405
    until(lambda: served.log)
    assert served.log[-1][1] == "HEAD /translate"
