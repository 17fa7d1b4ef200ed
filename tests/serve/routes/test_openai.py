"""OpenAI's API, with its own client."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from serve.conftest import Running, running

from headway.serve.routes.openai import StopFilter


@pytest.fixture(scope="module")
def client(served: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as made:
        yield made


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["my-lm"]
    assert client.models.retrieve("my-lm").owned_by == "headway"
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.models.retrieve("gpt-5")


def test_a_completion(client: openai.OpenAI, served: Running) -> None:
    made = client.completions.create(model="my-lm", prompt="The dog", temperature=0, max_tokens=12)
    (choice,) = made.choices
    model = served.state.pool.models[1].loaded
    assert "The dog" + choice.text == model("The dog", beam_size=1, length=12)
    assert choice.finish_reason in ("stop", "length")
    assert made.usage is not None
    assert 1 <= made.usage.completion_tokens <= 12
    assert made.usage.total_tokens == made.usage.prompt_tokens + made.usage.completion_tokens


def test_a_stream_is_the_completion_in_pieces(client: openai.OpenAI) -> None:
    wanted: dict[str, Any] = {"model": "my-lm", "prompt": "The", "max_tokens": 20, "seed": 3, "temperature": 0.8}
    whole = client.completions.create(**wanted).choices[0]
    events = list(client.completions.create(**wanted, stream=True))
    assert "".join(event.choices[0].text for event in events) == whole.text
    assert events[-1].choices[0].finish_reason == whole.finish_reason
    assert len(events) > 3
    assert len({event.id for event in events}) == 1


def test_several_prompts_and_several_of_each(client: openai.OpenAI) -> None:
    made = client.completions.create(model="my-lm", prompt=["The", "A"], n=2, max_tokens=5, seed=1, echo=True)
    assert [choice.index for choice in made.choices] == [0, 1, 2, 3]
    assert [choice.text[:1] for choice in made.choices] == ["T", "T", "A", "A"]
    assert made.choices[0].text != made.choices[1].text
    streamed = client.completions.create(
        model="my-lm", prompt=["The", "A"], n=2, max_tokens=5, seed=1, echo=True, stream=True
    )
    texts = ["", "", "", ""]
    for event in streamed:
        texts[event.choices[0].index] += event.choices[0].text
    assert texts == [choice.text for choice in made.choices]


def test_what_the_docs_say(served: Running, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[3] / "docs/serving.md").read_text(encoding="utf-8")
    snippet = page.split("<!-- not run: needs a server -->\n```python\n")[1].split("```")[0]
    exec(snippet.replace("http://127.0.0.1:5000", served.url), {})
    assert capsys.readouterr().out.strip()


def test_stop_texts(client: openai.OpenAI) -> None:
    plain = client.completions.create(model="my-lm", prompt="The dog", temperature=0, max_tokens=30).choices[0].text
    stop = plain[4:7]
    cut = client.completions.create(model="my-lm", prompt="The dog", temperature=0, max_tokens=30, stop=[stop, "§"])
    assert cut.choices[0].text == plain[: plain.index(stop)]
    assert cut.choices[0].finish_reason == "stop"


def test_what_may_begin_a_stop_text_is_held_back() -> None:
    stops = StopFilter(["abc"])
    assert [stops.push(text) for text in ("xa", "b", "d", "ab", "c", "e")] == ["", "x", "a", "bd", "", ""]
    assert stops.found
    whole = StopFilter(["abc"])
    assert whole.push("xab") + whole.finish() == "xab"
    assert not whole.found


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model": "gpt-5"}, "does not exist"),
        ({"max_tokens": -1}, "max_tokens parameter must be >= 0"),
        ({"max_tokens": 10**9}, "max_tokens parameter must be <= 4096"),
        ({"temperature": 9}, "temperature parameter must be <= 2"),
        ({"n": 17}, "n parameter must be <= 16"),
        ({"best_of": 3}, r"best_of \(3\) above n \(1\) is not supported"),
        ({"logprobs": 3}, "logprobs is not supported"),
        ({"suffix": "x"}, "suffix is not supported"),
        ({"logit_bias": {"5": 1}}, "logit_bias is not supported"),
        ({"presence_penalty": 1}, "presence_penalty parameter must be 0"),
        ({"n": 3, "best_of": 2}, r"best_of \(2\) must be at least n \(3\)"),
        ({"best_of": 0}, "best_of parameter must be >= 1"),
        ({"stream_options": {"include_usage": True}}, "stream_options is only allowed with stream: true"),
        ({"stream": True, "stream_options": {"other": 1}}, r"argument supplied: stream_options\.other"),
        ({"extra_body": {"top_k": 5}}, "Unrecognized request argument supplied: top_k"),
        ({"extra_body": {"model": None}}, "missing model parameter"),
        ({"stop": ["a"] * 5}, "at most 4 stop texts"),
        ({"prompt": [1, 2]}, "prompt parameter is not a string"),
        ({"prompt": ["x"] * 600, "n": 2}, "1200 completions requested"),
    ],
)
def test_mistakes(client: openai.OpenAI, change: dict[str, Any], told: str) -> None:
    wanted = {"model": "my-lm", "prompt": "The", **change}
    with pytest.raises(openai.APIStatusError, match=told) as error:
        client.completions.create(**wanted)
    assert error.value.status_code in (400, 404)
    assert error.value.type == "invalid_request_error"


def test_a_prompt_that_is_too_long_for_the_model(served: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.errors import HeadwayError
    from headway.translate.language_model import LanguageModel

    def too_long(self: Any, prefix: Any, **changes: Any) -> None:
        raise HeadwayError(f"the prompt is too long for {served.state.pool.models[1].path}")

    served.post("/v1/completions", {"model": "my-lm", "prompt": "x"})
    monkeypatch.setattr(LanguageModel, "search", too_long)
    made = served.post("/v1/completions", {"model": "my-lm", "prompt": "x"})
    assert made.status_code == 400
    assert made.json()["error"]["message"] == "the prompt is too long for my-lm"  # and not where it lies
    lines = served.post("/v1/completions", {"model": "my-lm", "prompt": "x", "stream": True}).text.split("\n\n")
    assert json.loads(lines[0].removeprefix("data: "))["error"]["message"] == "the prompt is too long for my-lm"


def test_who_goes_stops_the_writing(client: openai.OpenAI, served: Running) -> None:
    events = client.completions.create(model="my-lm", prompt="The", max_tokens=4096, stream=True)
    next(iter(events))
    began = time.monotonic()
    events.close()
    while served.state.open_streams:
        assert time.monotonic() - began < 5
        time.sleep(0.01)


def test_what_the_client_may_send_besides(client: openai.OpenAI) -> None:
    """Parameters with the values that clients send by default."""
    wanted: dict[str, Any] = {"model": "my-lm", "prompt": "The dog", "temperature": 0, "max_tokens": 5}
    plain = client.completions.create(**wanted)
    more = client.completions.create(
        **wanted, best_of=1, n=1, top_p=1, frequency_penalty=0, presence_penalty=0, logprobs=None, logit_bias={},
        suffix="", stop=None, user="me", seed=7, echo=False,
    )  # fmt: skip
    assert more.choices == plain.choices
    assert more.usage == plain.usage
    two = client.completions.create(**{**wanted, "temperature": 1}, n=2, best_of=2)
    assert len(two.choices) == 2
    assert client.completions.create(**{**wanted, "temperature": 1, "top_p": 0}).choices == plain.choices


@pytest.mark.parametrize("stream", [False, True])
def test_a_completion_of_no_tokens(client: openai.OpenAI, stream: bool) -> None:
    made = client.completions.create(model="my-lm", prompt="The dog", max_tokens=0, echo=True, stream=stream)
    choices = [one.choices[0] for one in made] if stream else made.choices  # type: ignore[union-attr]
    assert "".join(choice.text for choice in choices) == "The dog"
    assert choices[-1].finish_reason == "length"


def test_a_stream_ends_with_its_usage_where_that_is_asked_for(client: openai.OpenAI) -> None:
    wanted: dict[str, Any] = {"model": "my-lm", "prompt": ["The", "A dog"], "n": 2, "max_tokens": 4, "seed": 1}
    whole = client.completions.create(**wanted)
    events = list(client.completions.create(**wanted, stream=True, stream_options={"include_usage": True}))
    assert events[-1].choices == []
    assert events[-1].usage == whole.usage
    assert all(event.usage is None and event.choices for event in events[:-1])
    assert len({event.id for event in events}) == 1
    without = client.completions.create(**wanted, stream=True, stream_options={"include_usage": False})
    assert all(event.choices and event.usage is None for event in without)


def test_errors_have_the_form_of_openai(served: Running) -> None:
    made = served.post("/v1/completions", {"model": "gpt-5", "prompt": "x"})
    assert made.status_code == 404
    assert made.json()["error"] == {
        "message": "The model `gpt-5` does not exist", "type": "invalid_request_error", "param": None,
        "code": "model_not_found",
    }  # fmt: skip
    for change, param in (({"model": None}, "model"), ({"n": 0}, "n"), ({"logprobs": 3}, "logprobs")):
        error = served.post("/v1/completions", {"model": "my-lm", **change}).json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert (error["type"], error["param"]) == ("invalid_request_error", param)
    for content in (b"{", b"[]", b"\xff", b"null"):
        made = served.post("/v1/completions", content=content, headers={"Content-Type": "application/json"})
        assert made.status_code == 400
        assert made.json()["error"]["type"] == "invalid_request_error"
    assert served.get("/v1/nothing").json()["error"]["type"] == "invalid_request_error"
    assert served.get("/v1/completions").status_code == 405


def test_a_busy_server_is_told_as_a_rate_limit(served: Running) -> None:
    streams = served.state.settings.limits.streams
    served.state.open_streams += streams
    try:
        made = served.post("/v1/completions", {"model": "my-lm", "prompt": "x"})
    finally:
        served.state.open_streams -= streams
    assert made.status_code == 429
    assert (made.json()["error"]["type"], made.json()["error"]["code"]) == ("rate_limit_error", "rate_limit_exceeded")
    assert int(made.headers["retry-after"]) >= 1


def test_keys_as_openai_asks_for_them(lm_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_text("valid-key\n")
    with running(lm_dir, api_keys=str(tmp_path / "keys.txt")) as server:
        missing = server.get("/v1/models")
        assert (missing.status_code, missing.headers["www-authenticate"]) == (401, "Bearer")
        assert missing.json()["error"]["type"] == "invalid_request_error"
        assert missing.json()["error"]["code"] is None
        assert server.post("/v1/completions", {"model": "x"}).status_code == 401
        base = f"{server.url}/v1"
        with (
            openai.OpenAI(base_url=base, api_key="wrong", max_retries=0) as stranger,
            pytest.raises(openai.AuthenticationError) as error,
        ):
            stranger.models.list()
        assert (error.value.code, error.value.type, error.value.param) == (
            "invalid_api_key", "invalid_request_error", None,
        )  # fmt: skip
        assert "wrong" not in str(error.value)
        with openai.OpenAI(base_url=base, api_key="valid-key", max_retries=0) as known:
            assert list(known.models.list())
