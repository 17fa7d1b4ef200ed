"""How the page searches: what is set there is what happens, and it stays in the address."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from serve.conftest import running

from browser.conftest import Look
from headway.translate.language_model import LanguageModel
from headway.translate.options import TranslateOptions
from headway.translate.translator import Translator, load, load_translator


def test_length_counts_as_much_as_is_said(
    look: Callable[..., Look], translator: Translator, sentences: list[str]
) -> None:
    seen = look().open(panel="beam")
    seen.page.click(".settings summary")
    seen.page.fill("#alpha", "2")
    seen.translate(sentences[0])
    for _ in range(2):  # also when it comes from the address
        made = translator.translate([sentences[0]], TranslateOptions(search=translator.search(alpha=2.0)))[0]
        text, _, score, _ = seen.page.locator("#hypotheses tr[data-wins] > *").all_inner_texts()
        assert text == made.text == seen.result
        assert math.isclose(float(score.replace("−", "-")), made.score, abs_tol=1e-3)
        assert not math.isclose(made.score, translator.translate([sentences[0]])[0].score, abs_tol=1e-3)
        seen.page.reload()
        seen.ended()


def test_draws_are_those_of_python(look: Callable[..., Look], translator: Translator, sentences: list[str]) -> None:
    seen = look().open()
    seen.page.click(".settings summary")
    seen.page.check("input[name=way][value=sample]")
    found = set()
    for seed in (1, 2, 3):
        for name, value in (("heat", "1.5"), ("top-p", "0.9"), ("top-k", "20"), ("seed", str(seed))):
            seen.page.fill(f"#{name}", value)
        search = translator.search(sample=True, temperature=1.5, top_p=0.9, top_k=20, seed=seed)
        assert (
            seen.translate(sentences[0]).result
            == translator.translate([sentences[0]], TranslateOptions(search=search))[0].text
        )
        found.add(seen.result)
    assert len(found) > 1
    seen.page.reload()
    assert seen.ended().result == translator.translate([sentences[0]], TranslateOptions(search=search))[0].text


def test_what_is_not_used_cannot_be_set_and_says_why(look: Callable[..., Look]) -> None:
    seen = look().open()
    seen.page.click(".settings summary")
    drawn, searched = ("heat", "top-p", "top-k", "seed"), ("beam", "alpha")
    for used, unused, way in ((searched, drawn, "search"), (drawn, searched, "sample")):
        seen.page.check(f"input[name=way][value={way}]")
        assert all(seen.page.is_enabled(f"#{name}") for name in used)
        assert all(seen.page.is_disabled(f"#{name}") for name in unused)
        assert "Only used with" in seen.page.get_attribute("fieldset:disabled", "title")


@pytest.mark.parametrize("sample", [False, True])
def test_a_language_model_draws_too(look: Callable[..., Look], lm_dir: Path, sample: bool) -> None:
    model = load(lm_dir, "cpu")
    assert isinstance(model, LanguageModel)
    settings = {"sample": True, "temperature": 1.0, "top_k": 0, "top_p": 0.9, "seed": 5} if sample else {"beam_size": 3}
    state = {"sample": 5} if sample else {"beam": 3}
    with running(lm_dir) as server:
        seen = look(url=server.url).open(**state).translate("The dog")
        assert seen.result.split() == model.trace("The dog", length=20, **settings).output.split()


def test_another_model_begins_anew(
    look: Callable[..., Look], translator_dir: Path, lm_dir: Path, sentences: list[str]
) -> None:
    with running(translator_dir, lm_dir) as server:
        seen = look(url=server.url).open(model=translator_dir.name).translate(sentences[0])
        assert seen.tokens()
        seen.page.select_option("header select >> nth=0", lm_dir.name)
        seen.page.wait_for_selector("html[data-state=empty]")
        assert not seen.tokens()
        assert seen.translate(sentences[0]).state == "done"
        assert seen.faults == []


def test_of_two_models_for_the_same_languages_the_chosen_one_translates(
    look: Callable[..., Look], translator_dir: Path, other_translator_dir: Path, sentences: list[str]
) -> None:
    models = [translator_dir, other_translator_dir]
    said = [load_translator(model, device="cpu")(sentences[7]) for model in models]
    assert said[0] != said[1]
    with running(*models) as server:
        for name, wanted in zip(("model", "model-2"), said):
            seen = look(url=server.url).open(model=name).translate(sentences[7])
            assert seen.result == wanted
            assert seen.faults == []


def test_starting_shows_an_example(look: Callable[..., Look], sentences: list[str]) -> None:
    seen, held = look(), []
    seen.page.route("**/api/models/*", lambda route: held.append(route))  # a model that takes long
    seen.page.goto(f"{seen.url}/#layer=1&head=3&text={sentences[0]}")
    seen.page.wait_for_selector("#example")
    assert seen.state == "starting"
    assert seen.tokens()
    assert seen.page.is_disabled("#go")
    for panel in ("inside", "layer", "probabilities", "beam", "vectors", "architecture", "attention"):
        seen.tab(panel)
        assert seen.page.inner_text("#panel").strip()
    assert seen.page.locator("#bars button:enabled, #save-html").count() == 0
    held[0].continue_()
    seen.ended()
    assert seen.page.locator("#example").count() == 0
    assert seen.page.inner_text("#result .output").strip() == seen.result
    assert seen.page.input_value("#head") == "2"
    assert seen.faults == []


def test_an_example_goes_when_the_model_does_not_come(look: Callable[..., Look]) -> None:
    seen, held = look(), []
    seen.page.route("**/api/models/*", lambda route: held.append(route))
    seen.page.goto(seen.url)
    seen.page.wait_for_selector("#example")
    held[0].abort()
    seen.page.wait_for_selector("html[data-state=error]")
    assert not seen.tokens()
    seen.page.unroute("**/api/models/*")
    seen.page.click("#again")
    seen.page.wait_for_selector("html[data-state=empty]")
