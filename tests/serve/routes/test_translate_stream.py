"""The stream: every step of a search, the numbers of the trace, and an end when nobody listens."""

import base64
import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from serve.conftest import Running, running, until

from headway.serve.event_stream import EventPipe, StreamStopped
from headway.translate.options import TranslateOptions
from headway.translate.search import Fault, SentenceSearch
from headway.translate.translator import Translator, load, load_translator

Event = dict[str, Any]


def events_of(server: Running, body: dict[str, Any]) -> list[Event]:
    response = server.post("/api/translate", {"source": "en", "target": "qtx", **body})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in response.text.splitlines()]


def unpacked(tensor: dict[str, Any]) -> np.ndarray:
    plain = np.frombuffer(base64.b64decode(tensor["data"]), "<u2" if tensor["dtype"] == "uint16" else "<f4")
    return plain.reshape(tensor["shape"]) / (65535 if tensor["dtype"] == "uint16" else 1)


def rows_of(events: list[Event], name: str) -> np.ndarray:
    """The rows of all events, later ones in place of earlier ones; the keys that a row has not seen are 0."""
    rows: list[np.ndarray] = []
    for event in events:
        if event["event"] in ("step", "found"):
            new = unpacked(event["tensors"][name])
            rows[event["first"] :] = [new[:, n] for n in range(new.shape[1])]
    width = max(row.shape[-1] for row in rows)
    return np.stack([np.pad(row, ((0, 0), (0, width - row.shape[-1]))) for row in rows], 1)


@pytest.mark.parametrize("beam", [1, 4])
def test_its_numbers_are_those_of_the_trace(
    served: Running, translator_dir: Path, sentences: list[str], beam: int
) -> None:
    events = events_of(served, {"q": sentences[0], "beam_size": beam, "top": 5})
    translator = load(translator_dir, "cpu")
    assert isinstance(translator, Translator)
    trace = translator.trace(sentences[0], beam_size=beam)
    assert [event["event"] for event in events[:2]] == ["start", "sentence"]
    assert events[1]["pieces"] == trace.source.pieces
    steps = [event for event in events if event["event"] == "step"]
    assert [step["step"] for step in steps] == [choice.step for choice in trace.beam]
    assert [step["beam"]["ids"] for step in steps] == [choice.ids for choice in trace.beam]
    assert events[-1] == {"event": "end", "text": trace.output, "warnings": []}
    found = events[-2]
    assert found["ids"] == trace.target.ids[1:]
    np.testing.assert_allclose(
        unpacked(events[1]["tensors"]["encoder.0.self.weights"]), trace.tensors["encoder.0.self.weights"], atol=2e-5
    )
    for name in ("decoder.0.cross.weights", "decoder.0.self.weights"):
        np.testing.assert_allclose(rows_of(events, name), trace.tensors[name], atol=2e-5)
    last = trace.tensors["output.logps"][-1].exp().topk(5)
    assert found["top"]["ids"] == last.indices.tolist()
    np.testing.assert_allclose(found["top"]["probabilities"], last.values, atol=1e-4)


def test_a_model_can_be_named(translator_dir: Path, other_translator_dir: Path, sentences: list[str]) -> None:
    with running(translator_dir, other_translator_dir) as server:
        told = {name: events_of(server, {"q": sentences[7], "model": name}) for name in ("", "model", "model-2")}
        assert [told[name][0]["model"] for name in told] == ["model", "model", "model-2"]
        assert told["model-2"][-1]["text"] == load_translator(other_translator_dir, device="cpu")(sentences[7])
        wanted = {"q": "a", "source": "en", "target": "qtx", "model": "three"}
        assert server.error("/api/translate", wanted) == (404, "there is no model three")


def test_queries_keys_and_values_on_demand(served: Running, translator_dir: Path, sentences: list[str]) -> None:
    events = events_of(served, {"q": sentences[0], "beam_size": 1, "qkv": True})
    translator = load(translator_dir, "cpu")
    assert isinstance(translator, Translator)
    trace = translator.trace(sentences[0], beam_size=1)
    np.testing.assert_allclose(rows_of(events, "decoder.0.self.q"), trace.tensors["decoder.0.self.q"], atol=1e-4)
    keys = unpacked(events[-2]["tensors"]["decoder.0.cross.k"])
    np.testing.assert_allclose(keys, trace.tensors["decoder.0.cross.k"], atol=1e-4)
    plain = events_of(served, {"q": sentences[0], "attention": False})
    assert all(not event.get("tensors") for event in plain)


def test_several_sentences_and_a_prefix(served: Running, translator_dir: Path, sentences: list[str]) -> None:
    text = f" {sentences[0]} {sentences[1]}\n"
    events = events_of(served, {"q": text})
    translator = load_translator(translator_dir, device="cpu")
    assert events[-1]["text"] == translator(text)
    assert [event["sentence"] for event in events if event["event"] == "sentence"] == [0, 1]
    whole = translator(sentences[0])
    forced = whole.split()[0]
    made = events_of(served, {"q": sentences[0], "prefix": forced, "source": "auto"})
    assert made[-1]["text"].startswith(forced)


def test_a_second_search_is_announced(served: Running, monkeypatch: pytest.MonkeyPatch, sentences: list[str]) -> None:
    monkeypatch.setattr(SentenceSearch, "_find_fault", lambda self, sentence, found: Fault("the output was strange"))
    events = events_of(served, {"q": sentences[0]})
    assert {"event": "again", "search": 2} in events
    assert events[-1]["warnings"] == ["the output was strange; nothing better was found"]


@pytest.mark.parametrize("mask", ["causal & local(3)", "causal"])
def test_a_model_that_forgets_is_read_anew(
    train_toy: Callable[..., Path], toy: Path, mask: str, sentences: list[str]
) -> None:
    """What lies in a ring is not in the order of positions."""
    few = ["train.steps=20", "train.validate_every=20", f"model.decoder.mask={mask}", "model.decoder.layers=2"]
    folder = train_toy(*(word for setting in few for word in ("--set", setting)))
    translator = load(folder, "cpu")
    assert isinstance(translator, Translator)
    trace = translator.trace(sentences[0], beam_size=2)
    with running(folder) as server:
        events = events_of(server, {"q": sentences[0], "beam_size": 2})
    for name in ("decoder.0.self.weights", "decoder.1.cross.weights"):
        np.testing.assert_allclose(rows_of(events, name), trace.tensors[name], atol=2e-5)


def test_mistakes(served: Running) -> None:
    body = {"q": "x", "source": "en", "target": "qtx"}
    assert served.error("/api/translate", {**body, "q": ""}) == (400, "Invalid request: missing q parameter")
    assert served.error("/api/translate", {**body, "top": 101})[0] == 400
    same = "qtx is not available as a target language from qtx"
    assert served.error("/api/translate", {**body, "source": "qtx"}) == (400, same)


def test_what_goes_wrong_on_the_way_is_an_event(served: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **more: Any) -> None:
        raise RuntimeError("secret text")

    monkeypatch.setattr("headway.serve.routes.translate_stream.translate_requests", broken)
    events = events_of(served, {"q": "The dog sleeps."})
    told = {"error": "something went wrong on the server", "reason": "internal", "values": {}}
    assert events[-1] == {"event": "error", **told}
    assert not any("secret" in message for _, message, _ in served.log)
    until(lambda: not served.state.open_streams)


def slowed(monkeypatch: pytest.MonkeyPatch, seconds: float) -> list[float]:
    """Every step of a stream takes so long; when they happened."""
    from headway.serve.step_events import StepRecorder

    times: list[float] = []
    whole = StepRecorder.__call__

    def slow(self: Any, choice: Any) -> None:
        time.sleep(seconds)
        times.append(time.monotonic())
        whole(self, choice)

    monkeypatch.setattr(StepRecorder, "__call__", slow)
    return times


LONG = {"q": "The dog sees a red house. " * 20, "source": "en", "target": "qtx"}


def test_a_closed_connection_stops_the_decoding(served: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    times = slowed(monkeypatch, 0.1)
    with httpx.stream("POST", f"{served.url}/api/translate", json=LONG, timeout=30) as response:
        lines = response.iter_lines()
        next(lines)
        until(lambda: len(times) > 2)
    closed = time.monotonic()
    time.sleep(1.2)
    assert times[-1] < closed + 1
    until(lambda: not served.state.open_streams, 2)
    assert served.state.pool.models[0].users == 0


def test_who_does_not_read_is_not_waited_for(translator_dir: Path) -> None:
    with running(translator_dir, limits={"transfer_seconds": 1.0, "characters": 10**6}) as server:
        body = json.dumps({**LONG, "q": LONG["q"] * 200, "qkv": True}).encode()
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            head = (
                "POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n"
            )
            client.sendall(head.encode() + body)
            until(lambda: server.state.open_streams == 1)
            until(lambda: server.state.open_streams == 0, 60)
        assert server.get("/health").status_code == 200


def test_who_reads_on_too_late_sees_that_it_is_not_the_whole(
    translator_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.serve.event_stream.MAX_PENDING_BYTES", 1)
    with running(translator_dir, limits={"transfer_seconds": 20.0}) as server:
        plain = EventPipe.emit

        def impatient(self: EventPipe, event: Any) -> None:
            self.timeout = 0.0
            if event and event["event"] == "step":
                raise StreamStopped
            plain(self, event)

        monkeypatch.setattr(EventPipe, "emit", impatient)
        with pytest.raises(httpx.HTTPError, match="incomplete"):
            server.post("/api/translate", LONG)


def test_only_so_many_at_a_time(translator_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slowed(monkeypatch, 0.05)
    with (
        running(translator_dir, limits={"streams": 1}) as server,
        httpx.stream("POST", f"{server.url}/api/translate", json=LONG, timeout=30) as response,
    ):
        lines = response.iter_lines()
        next(lines)
        refused = server.post("/api/translate", LONG)
        assert refused.status_code == 429
        assert refused.headers["retry-after"]
        plain = server.post("/translate", {**LONG, "q": "The dog sleeps."})
        assert plain.status_code == 200


def test_a_stream_ends_when_its_time_is_up(translator_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slowed(monkeypatch, 0.1)
    with running(translator_dir, limits={"request_seconds": 1.0}) as server:
        began = time.monotonic()
        last = json.loads(server.post("/api/translate", LONG).text.splitlines()[-1])
        assert last["error"] == "the request took longer than 1 s. Send less at a time."
        assert (last["event"], last["reason"], last["values"]) == ("error", "took_too_long", {"limit": 1.0})
        assert time.monotonic() - began < 10
        until(lambda: not server.state.open_streams, 5)


def test_how_to_search_can_be_said(served: Running, translator_dir: Path, sentences: list[str]) -> None:
    translator = load_translator(translator_dir, device="cpu")
    drawn = {"sample": True, "temperature": 1.5, "top_k": 20, "top_p": 0.9, "seed": 3}
    for settings in ({"alpha": 2.0}, {"beam_size": 2, "alpha": 0.0}, drawn):
        events = events_of(served, {"q": sentences[0], **settings})
        search = translator.search(**settings)
        made = translator.translate([sentences[0]], TranslateOptions(search=search))[0]
        assert events[0]["penalty"] == [search.penalty, search.alpha]
        assert events[-1]["text"] == made.text
        assert events[-2]["score"] == pytest.approx(made.score, abs=1e-4)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"temperature": 0.5}, "0.5 has no effect without sampling. Set sample = true, or remove it."),
        ({"sample": True, "beam_size": 3}, "sampling has no beam, and this is 3."),
    ],
)
def test_settings_that_do_not_fit_are_told(
    served: Running, sentences: list[str], settings: dict[str, Any], told: str
) -> None:
    (event,) = events_of(served, {"q": sentences[0], **settings})
    assert event["event"] == "error"
    assert told in event["error"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"temperature": 0}, "temperature parameter must be > 0"),
        ({"top_p": 2}, "top_p parameter must be <= 1"),
        ({"seed": -1}, "seed parameter must be >= 0"),
        ({"alpha": "much"}, "alpha parameter is not a number"),
    ],
)
def test_settings_have_bounds(served: Running, sentences: list[str], settings: dict[str, Any], told: str) -> None:
    body = {"q": sentences[0], "source": "en", "target": "qtx", **settings}
    code, text = served.error("/api/translate", body)
    assert (code, told in text) == (400, True), text
