"""The panels Compare and Attribution: their numbers are those of Python, for texts, models, checkpoints and parts."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serve.conftest import Running, running

from browser.conftest import Look
from headway.inspect.ablation import ablate
from headway.inspect.attribution import Attribution, attribute
from headway.inspect.tracer import trace_forward
from headway.storage.model_dir import load_model
from headway.storage.training_history import find_checkpoints, read_losses
from headway.translate.translator import Translator, load

PART = "decoder.0.self.head 1"


@pytest.fixture(scope="module")
def trained(translator_dir: Path, run_dir: Path) -> Iterator[Running]:
    """A server with a model, and the run of another, whose checkpoints are there."""
    with running(translator_dir, run_dir) as started:
        yield started


@pytest.fixture(scope="module")
def names(trained: Running) -> list[str]:
    return [model["name"] for model in trained.get("/api/models").json()]


@pytest.fixture
def compare(look: Callable[..., Look], trained: Running, names: list[str], sentences: list[str]) -> Callable[..., Look]:
    def new(way: str, model: int = 0, **choices: str) -> Look:
        chosen = {"at-versus": way, **{f"at-{name.replace('_', '-')}": value for name, value in choices.items()}}
        seen = look(url=trained.url)
        return seen.open(panel="compare", model=names[model], text=sentences[0], **chosen).ended()

    return new


def number(text: str) -> float:
    return float(text.replace("−", "-").replace("+", "").split()[0])


def facts(seen: Look, side: str) -> float:
    """log p of a side."""
    seen.page.wait_for_selector(f"#{side}-facts:not(:empty)")
    return number(seen.page.inner_text(f"#{side}-facts").removeprefix("log p "))


def probabilities(seen: Look) -> list[list[str]]:
    seen.page.wait_for_selector("#token-probabilities")
    return seen.table("#token-probabilities")


def logp_of(model: Translator, source: str, target: str) -> float:
    return model.score([(source, target)])[0].logp


def test_two_texts(compare: Callable[..., Look], translator: Translator, sentences: list[str]) -> None:
    seen = compare("text")
    assert seen.page.locator("#this-output").count() == 0
    seen.page.fill("#other-text", sentences[1])
    seen.page.click("#compare-go")
    ours, theirs = translator.trace(sentences[0]), translator.trace(sentences[1])
    assert facts(seen, "this") == pytest.approx(logp_of(translator, sentences[0], ours.output), abs=1e-4)
    assert facts(seen, "that") == pytest.approx(logp_of(translator, sentences[1], theirs.output), abs=1e-4)
    assert seen.page.inner_text("#that-output") == theirs.output
    assert seen.page.locator("#that-output mark").count() > 0
    seen.page.check("input[name=same][value='1']")
    seen.page.wait_for_selector(
        "#logp-difference:has-text('this version’s'), #logp-difference:has-text(\"this version's\")"
    )
    rows = probabilities(seen)
    expected = translator.score([(sentences[1], ours.output)])[0].token_logps
    assert [row[1].split(" no.")[0] for row in rows] == [row[3].split(" no.")[0] for row in rows]
    shown = [number(row[4]) / 100 for row in rows]
    np.testing.assert_allclose(shown, np.exp(expected), atol=6e-4)
    seen.page.reload()  # the address has it all
    assert facts(seen.ended(), "that") == pytest.approx(logp_of(translator, sentences[1], theirs.output), abs=1e-4)
    assert seen.faults == []


def test_without_a_part_the_maps_differ_as_in_python(
    compare: Callable[..., Look], translator: Translator, sentences: list[str]
) -> None:
    seen = compare("part")
    seen.page.select_option("#part-side", "decoder")
    seen.page.select_option("#part-sub", "self")
    seen.page.select_option("#part-head", index=2)  # behind "all heads"
    assert f"at-part={PART.replace(' ', '+')}" in seen.page.evaluate("location.hash")
    trace = translator.trace(sentences[0])
    without = ablate(translator, [PART])
    rows = probabilities(seen)
    expected = without.score([(sentences[0], trace.output)])[0].token_logps
    np.testing.assert_allclose([number(row[4]) / 100 for row in rows], np.exp(expected), atol=6e-4)
    tensors = trace_forward(without.steppers[0].model, trace.source.ids, trace.target.ids)
    name = "decoder.0.cross.weights"
    change = (tensors[name] - trace.tensors[name])[0].numpy()
    seen.page.focus("#map-difference")
    for _ in range(2):
        seen.page.keyboard.press("ArrowRight")
    seen.page.keyboard.press("ArrowDown")
    told = seen.page.inner_text("#map-difference-reads")
    assert number(told.rpartition("difference ")[2]) == pytest.approx(change[1, 1], abs=2e-4)
    assert seen.page.locator("#map-one .cursor, #map-other .cursor").count() == 2
    largest = number(seen.page.inner_text("#largest").rpartition(", ")[2])
    assert abs(largest) == pytest.approx(np.abs(change).max(), abs=2e-4)


def test_two_models_and_two_checkpoints(
    compare: Callable[..., Look], translator: Translator, run_dir: Path, names: list[str], sentences: list[str]
) -> None:
    seen = compare("model")
    seen.page.select_option("#other-model", names[1])
    trace = translator.trace(sentences[0])
    run = load(run_dir, "cpu")
    assert isinstance(run, Translator)
    assert facts(seen, "that") == pytest.approx(logp_of(run, sentences[0], run.trace(sentences[0]).output), abs=1e-4)
    rows = probabilities(seen)  # of the same output, in tokens of its own
    expected = run.score([(sentences[0], trace.output)])[0].token_logps
    np.testing.assert_allclose([number(row[4]) / 100 for row in rows if row[4]], np.exp(expected), atol=6e-4)
    first, *_, last = find_checkpoints(run_dir)
    seen.page.select_option("#this-model", f"{names[1]}@{last.step}")
    seen.page.select_option("#other-model", f"{names[1]}@{first.step}")
    seen.page.wait_for_function(
        "step => document.querySelector('#that-name')?.textContent.includes(`step ${step}`)", arg=first.step
    )
    assert f"step {last.step}" in seen.page.inner_text("#this-name")
    early = Translator([load_model(run_dir, weights_file=first.weights_file)])
    late = Translator([load_model(run_dir, weights_file=last.weights_file)])
    written = late.trace(sentences[0]).output
    assert facts(seen, "this") == pytest.approx(logp_of(late, sentences[0], written), abs=1e-4)
    np.testing.assert_allclose(
        [number(row[4]) / 100 for row in probabilities(seen)],
        np.exp(early.score([(sentences[0], written)])[0].token_logps),
        atol=6e-4,
    )
    assert seen.faults == []


def test_before_a_forced_word(
    look: Callable[..., Look], trained: Running, names: list[str], translator: Translator, sentences: list[str]
) -> None:
    seen = look(url=trained.url).open(model=names[0], panel="probabilities", text=sentences[0]).ended()
    before = translator.trace(sentences[0]).output
    seen.page.locator("#bars button:enabled").first.click()
    seen.page.wait_for_selector("#forced li")
    seen.ended().tab("compare")
    assert seen.page.inner_text("#that-output") == before
    assert facts(seen, "that") == pytest.approx(logp_of(translator, sentences[0], before), abs=1e-4)
    assert facts(seen, "this") < facts(seen, "that")


def test_checkpoints_are_a_film(
    compare: Callable[..., Look], look: Callable[..., Look], run_dir: Path, sentences: list[str], tmp_path: Path
) -> None:
    kept, losses = find_checkpoints(run_dir), read_losses(run_dir)
    seen = compare("film", model=1)
    seen.page.wait_for_selector("#film-loading", state="detached")
    rows = seen.table("#frames")
    assert [row[0] for row in rows] == [*(str(one.step) for one in kept), "the model itself"]
    assert [row[1] for row in rows] == [*(f"{losses[one.step]:.3f}" for one in kept), "—"]
    run = load(run_dir, "cpu")
    assert isinstance(run, Translator)
    trace = run.trace(sentences[0])
    first = Translator([load_model(run_dir, weights_file=kept[0].weights_file)])
    assert number(rows[0][2]) == pytest.approx(logp_of(first, sentences[0], trace.output), abs=2e-3)
    seen.page.fill("#film-frame", "0")
    assert f"Step {kept[0].step}" in seen.page.inner_text("#film-at")
    seen.page.focus("#film")
    seen.page.keyboard.press("ArrowRight")
    weights = trace_forward(first.steppers[0].model, trace.source.ids, trace.target.ids)["decoder.0.cross.weights"]
    assert number(seen.page.inner_text("#film-reads").rpartition(": ")[2]) == pytest.approx(
        float(weights[0, 0, 0]), abs=1e-3
    )
    assert len(seen.table("#frames")[0]) == 4  # the weight at the pointer, over the training
    assert "train.keep_last" in seen.page.inner_text("#few-checkpoints")
    seen.page.click("#film-play")
    seen.page.wait_for_function("() => document.querySelector('#film-frame').value === '1'")
    with seen.page.expect_download() as download:
        seen.page.click("#save-html")
    download.value.save_as(tmp_path / "film.html")
    still = look(reduced_motion="reduce", offline=True)
    still.page.goto((tmp_path / "film.html").as_uri())
    assert still.ended().table("#frames") == [row[:3] for row in seen.table("#frames")]
    still.page.wait_for_selector("#film-still")
    assert still.page.locator("#film-play").count() == 0


def shown_numbers(seen: Look, measure: str) -> np.ndarray:
    return np.array([[number(cell) for cell in row[1:]] for row in seen.table(f"#numbers-{measure}")])


def test_attribution_has_the_numbers_of_python(
    look: Callable[..., Look], translator: Translator, sentences: list[str]
) -> None:
    seen = look().open(panel="attribution", table=1, text=sentences[0]).ended()
    seen.page.wait_for_selector("#strongest")
    expected = attribute(translator, sentences[0])
    for measure in ("gradient", "left_out", "attention", "aligned"):
        np.testing.assert_allclose(shown_numbers(seen, measure), getattr(expected, measure), atol=2e-4)
    check_disagreements(seen, expected)
    seen.page.focus("#map-left_out")
    seen.page.keyboard.press("ArrowRight")
    told = seen.page.inner_text("#map-left_out-reads")
    assert number(told.rpartition(": ")[2]) == pytest.approx(expected.left_out[0, 0], abs=1e-4)
    seen.page.check("input[name=units][value=tokens]")
    seen.page.wait_for_function(
        "count => document.querySelectorAll('#numbers-gradient thead th').length === count",
        arg=len(attribute(translator, sentences[0], units="tokens").columns),
    )
    seen.page.check("input[name=measure][value=gradient]")
    assert seen.page.locator(".matrix").count() == 1
    assert "at-measure=gradient" in seen.page.evaluate("location.hash")
    assert "not an explanation" in seen.page.inner_text("#caveat")


def check_disagreements(seen: Look, expected: Attribution) -> None:
    marked = [n for n, row in enumerate(seen.table("#strongest")) if row[-1].startswith("≠")]
    assert marked == expected.disagreements()
    strongest = expected.strongest("left_out")
    names = ["—" if column is None else expected.columns[column] for column in strongest]
    assert [row[2] for row in seen.table("#strongest")] == names


def test_language_models(look: Callable[..., Look], lm_dir: Path, masked_dir: Path) -> None:
    with running(lm_dir) as server:
        text = "The dog sees"
        seen = look(url=server.url).open(panel="attribution", table=1, text=text).ended()
        seen.page.wait_for_selector("#strongest")
        lm: Any = load(lm_dir, "cpu")
        trace = lm.trace(text, length=20, beam_size=1)
        expected = attribute(lm, trace.output)
        shown = seen.table("#numbers-left_out")
        assert [cell == "comes later" for cell in shown[0][1:]] == list(np.isnan(expected.left_out[0]))
        assert number(shown[-1][1]) == pytest.approx(expected.left_out[len(shown) - 1, 0], abs=2e-3)
        seen.tab("compare").page.check("input[name=versus][value=part]")
        seen.page.select_option("#part-side", "decoder")
        rows = probabilities(seen)
        assert len(rows) == len(trace.written.ids)
        assert seen.faults == []
    with running(masked_dir) as server:
        seen = look(url=server.url).open(panel="attribution", text=text).ended()
        assert "no tokens whose causes" in seen.page.inner_text("#panel")
        seen.tab("compare").page.fill("#other-text", "The cat sees")
        seen.page.click("#compare-go")
        seen.page.wait_for_selector("#map-difference")
        assert seen.page.locator("#token-probabilities").count() == 0


def test_what_the_server_refuses_is_told(compare: Callable[..., Look]) -> None:
    seen = compare("part", part="decoder.7")
    seen.page.wait_for_selector("[data-failed]")
    assert "there is no decoder.7" in seen.page.inner_text("[data-failed]")


def test_long_texts_have_no_attribution(look: Callable[..., Look], long_dir: Path, sentences: list[str]) -> None:
    with running(long_dir) as server:
        text = " ".join([sentences[0].rstrip(".")] * 14)
        seen = look(url=server.url).open(panel="attribution", text=text).ended()
        assert "100 at most" in seen.page.inner_text("#too-long")
        with seen.page.expect_download():  # which such a page is saved without
            seen.page.click("#save-html")


def test_a_saved_page_has_what_was_compared(
    compare: Callable[..., Look], look: Callable[..., Look], tmp_path: Path
) -> None:
    seen = compare("part", part=PART)
    rows = probabilities(seen)
    with seen.page.expect_download() as download:
        seen.page.click("#save-html")
    download.value.save_as(tmp_path / "page.html")
    alone = look(offline=True)
    alone.page.goto((tmp_path / "page.html").as_uri())
    alone.ended()
    assert probabilities(alone) == rows
    alone.page.check("input[name=versus][value=text]")
    alone.page.fill("#other-text", "Something else")
    alone.page.click("#compare-go")
    alone.page.wait_for_selector("[data-unrecorded]")
    assert "headway serve" in alone.page.inner_text("[data-unrecorded]")
    alone.tab("attribution").page.wait_for_selector("#strongest")
    assert alone.faults == []
