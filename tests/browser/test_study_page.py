"""A study on the page: points, curves and a table with the numbers of results.json, and two models side by side."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from serve.conftest import Running, running
from serve.study_folders import make_row, spread, unfinished, write_study, write_two_mixers

from browser.conftest import Look
from browser.test_reach import COLOUR_RULES, RULES, axe, violations

__all__ = ["axe"]  # a fixture
FIRST, SECOND = "mixers-attention-4-1", "mixers-retention-4-1"
NASTY = "<img src=x onerror=alert(1)> & </script>"


@pytest.fixture(scope="module")
def folder(translator_dir: Path, other_translator_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_two_mixers(tmp_path_factory.mktemp("studies") / "mixers", translator_dir, other_translator_dir)


@pytest.fixture(scope="module")
def odd_folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Many variants, one, none that finished, and numbers that are not finite under a name with HTML."""
    folder = tmp_path_factory.mktemp("odd")
    nan = float("nan")
    curve = [{"step": n, "seconds": n, "loss": loss} for n, loss in ((1, 5.0), (2, nan), (3, float("inf")))]
    measures = {"loss": spread(nan, nan), "bleu": spread(12.5), "decode_tokens_per_second": spread(700.0)}
    studies = {
        "many": [make_row(f"variant({n})", n * 37 % 101, 100 + n * 53 % 1009) for n in range(200)],
        "one": [make_row("alone", 30, 500, p_value=None)],
        "none": [unfinished("a", "failed", "memory is exhausted"), unfinished("b", "refused", "no.")],
        NASTY.replace("/", "∕"): [
            make_row(NASTY, 12.5, 700, p_value=nan, measures=measures, curves=[curve]),
            make_row("finite", 20, 800, curves=[]),
        ],
    }
    return [write_study(folder / name, rows, title=f"{name} {NASTY}") for name, rows in studies.items()]


@pytest.fixture(scope="module")
def compared(folder: Path, odd_folders: list[Path]) -> Iterator[Running]:
    with running(studies=tuple(map(str, [folder, *odd_folders]))) as server:
        yield server


@pytest.fixture
def shown(look: Callable[..., Look], compared: Running) -> Callable[..., Look]:
    """shown(study=…): the panel of a study, loaded."""

    def show(options: dict[str, Any] | None = None, **state: Any) -> Look:
        seen = look(url=compared.url, **(options or {})).open(panel="study", **state)
        seen.page.wait_for_selector("#variants")
        return seen

    return show


def rows_of(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((folder / "results.json").read_text())["rows"]
    return rows


def facts(seen: Look) -> dict[str, str]:
    """What stands beside the chart."""
    names = seen.page.locator("#variant dt").all_inner_texts()
    return dict(zip(names, seen.page.locator("#variant dd").all_inner_texts(), strict=True))


def test_it_is_there_only_where_there_are_studies(look: Callable[..., Look], sentences: list[str]) -> None:
    seen = look().open(panel="study").translate(sentences[0])
    assert seen.page.locator("#tab-study").count() == 0
    assert seen.page.get_attribute("#panel", "data-panel") == "attention"
    assert not [url for url in seen.requests if "/api/studies/" in url]


def test_a_point_shows_the_numbers_of_the_file(shown: Callable[..., Look], folder: Path) -> None:
    seen = shown()
    for number, row in enumerate(rows_of(folder)[:2]):
        seen.page.hover(f'#scatter [data-row="{number}"]')
        told, measures = facts(seen), row["measures"]
        assert seen.page.inner_text("#variant h4") == row["name"]
        assert told["Parameters"] == f"{row['parameters']:,}"
        assert told["BLEU"] == f"{measures['bleu']['mean']:.2f} ± {measures['bleu']['spread']:.2f}"
        assert told["Loss"] == f"{measures['loss']['mean']:.4f} ± {measures['loss']['spread']:.4f}"
        assert told["Decoding, tokens/s"] == f"{measures['decode_tokens_per_second']['mean']:,.0f} ± 40"
        assert told["p"] == ("the others are compared with this one" if number == 0 else "0.013")
        label = seen.page.get_attribute(f'#scatter [data-row="{number}"]', "aria-label")
        assert label.startswith(f"{row['name']}; Parameters: ") and told["BLEU"] in label
    assert seen.faults == []


def test_points_stand_where_their_numbers_say(shown: Callable[..., Look], odd_folders: list[Path]) -> None:
    from headway.compare.results import pareto_front

    rows = rows_of(odd_folders[0])
    seen = shown(study="many")
    for cost, sign in (("decode_tokens_per_second", -1), ("peak_memory", 1), ("parameters", 1)):
        seen.page.select_option("#cost", cost)
        costs = [row["parameters"] if cost == "parameters" else row["measures"][cost]["mean"] for row in rows]
        quality = [row["measures"]["bleu"]["mean"] for row in rows]
        front = [str(n) for n in pareto_front([(sign * x, y) for x, y in zip(costs, quality)])]
        assert seen.page.get_attribute("figure[data-front]", "data-front").split() == front
        read = """all => all.map(one => [one, one.transform.baseVal[0].matrix])
          .map(([one, { e, f }]) => [+one.dataset.row, e, f])"""
        places = {int(n): (x, y) for n, x, y in seen.page.eval_on_selector_all("#scatter .point", read)}
        assert len(places) == len(rows)
        for one, other in zip(range(0, 198), range(1, 199)):
            (x1, y1), (x2, y2) = places[one], places[other]
            assert (x1 < x2) == (costs[one] < costs[other]) and (y1 > y2) == (quality[one] < quality[other])
    assert f"cost={cost}" in seen.page.url
    assert "200 of 200 variants finished" in seen.page.inner_text("#panel")


def test_the_table_has_all_variants(shown: Callable[..., Look], folder: Path) -> None:
    seen = shown()
    table = seen.table("#variants")
    assert [line[0] for line in table] == [row["name"] for row in rows_of(folder)]
    assert [line[2] for line in table] == [
        "finished",
        "finished",
        "failed: train.en: line 3 is no text",
        "refused: a head needs a width.",
    ]
    assert table[1][3:6] == ["123,456", "31.50 ± 1.25", "2.8500 ± 0.0625"]
    assert table[2][3:] == ["—"] * (len(table[2]) - 3)


def test_curves_are_read_with_pointer_and_keys(shown: Callable[..., Look], folder: Path) -> None:
    first, second = rows_of(folder)[:2]
    seen = shown()
    assert seen.page.locator("#curves .line").count() == 3, "one for each seed"
    seen.page.focus("#curves")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        seen.page.keyboard.press(key)
    point = first["curves"][1][1]
    assert seen.page.inner_text("#curves-reads") == f"attention(4), seed 2: step 2, loss {point['loss']:.4f}"
    assert seen.page.inner_text("#variant h4") == first["name"]
    seen.page.select_option("#curves-kind", "seconds")
    box = seen.page.locator("#curves").bounding_box()
    seen.page.mouse.move(box["x"] + box["width"] - 20, box["y"] + 20)  # the highest at the end
    seconds, loss = second["curves"][0][-1]["seconds"], second["curves"][0][-1]["loss"]
    assert seen.page.inner_text("#curves-reads") == f"retention(4): seconds {seconds}, loss {loss:.4f}"
    for kind, told in (("loss", "loss 2.8628"), ("seconds", "seconds 0.0128"), ("bytes", "bytes 128 kB")):
        seen.page.select_option("#by-length-kind", kind)
        seen.page.focus("#by-length")
        for key in ("ArrowDown", "ArrowDown"):
            seen.page.keyboard.press(key)
        assert seen.page.inner_text("#by-length-reads") == f"retention(4): tokens 128, {told}"


def test_a_click_opens_the_model_and_translates(shown: Callable[..., Look], sentences: list[str]) -> None:
    seen = shown().translate(sentences[0])
    before = seen.page.inner_text("#result .output")
    seen.page.click('#scatter [data-row="1"]')
    seen.page.wait_for_function("name => document.querySelector('header select').value === name", arg=SECOND)
    seen.ended()
    assert seen.page.inner_text("#result .output") != before
    assert f"model={SECOND}" in seen.page.url
    assert seen.page.get_attribute("#panel", "data-panel") == "study", "it stays open"
    seen.page.focus('#scatter [data-row="1"]')
    seen.page.keyboard.press("Home")
    assert seen.page.evaluate("document.activeElement.dataset.row") == "0"
    seen.page.keyboard.press("Enter")
    seen.page.wait_for_function("name => document.querySelector('header select').value === name", arg=FIRST)
    seen.ended()
    assert seen.page.inner_text("#result .output") == before


def translations(seen: Look) -> tuple[str, str]:
    seen.page.wait_for_selector("#right-output:not([aria-busy=true]):not(:empty)")
    return seen.page.inner_text("#left-output"), seen.page.inner_text("#right-output")


def test_two_models_side_by_side(shown: Callable[..., Look], compared: Running, sentences: list[str]) -> None:
    seen = shown()
    seen.page.select_option("#right-model", SECOND)
    seen.page.fill("#both-text", sentences[1])
    assert seen.page.inner_text("#both-go") == "Translate with both"
    seen.page.click("#both-go")
    made = translations(seen)
    body = {"q": sentences[1], "source": "en", "target": "qtx"}
    for name, text, side in zip((FIRST, SECOND), made, ("left", "right")):
        lines = compared.post("/api/translate", {**body, "model": name}).text.splitlines()
        events = [json.loads(line) for line in lines]
        assert text == events[-1]["text"]
        score = next(event["score"] for event in events if event["event"] == "found")
        told = seen.page.inner_text(f"#{side}-facts").replace("−", "-")
        assert re.fullmatch(rf"\d+\.\d\d s · score {score:.3f}", told)
        marked = seen.page.locator(f"#{side}-output mark").all_inner_texts()
        assert marked and set(marked) <= set(re.findall(r"\w+|[^\w\s]", text))
    assert f"beside={SECOND}" in seen.page.url
    seen.page.reload()
    assert translations(seen) == made, "the address keeps both models and the text"
    seen.page.fill("#both-text", sentences[2])
    seen.page.press("#both-text", "Control+Enter")
    seen.page.wait_for_function("old => document.querySelector('#right-output').innerText !== old", arg=made[1])
    assert translations(seen) != made
    seen.page.select_option("#right-model", FIRST)
    seen.page.wait_for_function("() => !document.querySelector('#right-output mark')")
    left, right = translations(seen)
    assert left == right
    assert seen.faults == []


def test_a_second_model_that_fails_is_said(
    shown: Callable[..., Look], compared: Running, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from headway.serve.errors import ApiError

    seen = shown(text=sentences[0]).ended()

    def refuse(model: Any) -> None:
        raise ApiError(503, "no memory for it")

    monkeypatch.setattr(compared.state.pool, "try_acquire", lambda model: False)
    monkeypatch.setattr(compared.state.pool, "acquire", refuse)
    seen.page.click('#variants [data-row="1"] [aria-label="Beside: retention(4)"]')
    seen.page.wait_for_selector(".pair-of-models [role=alert]")
    assert seen.page.inner_text(".pair-of-models [role=alert]") == "The server answered: “no memory for it”"


@pytest.mark.parametrize("number", range(4))
def test_odd_studies(shown: Callable[..., Look], odd_folders: list[Path], number: int) -> None:
    seen = shown(study=odd_folders[number].name)
    assert seen.page.inner_text("#study-title") == f"{odd_folders[number].name} {NASTY}"
    text = seen.page.inner_text("#panel")
    assert not any(word in text for word in ("NaN", "undefined", "Infinity", "null"))
    assert seen.page.locator("#panel img").count() == 0
    assert seen.page.evaluate("document.querySelector('#scatter')?.innerHTML.includes('NaN') ?? false") is False
    if number == 2:
        assert "No variant has both a quality and a cost" in seen.page.inner_text("#no-points")
    if number == 3:
        assert seen.page.locator("#curves .line circle").count() == 1, "what is left of the line is a point"
        assert seen.table("#variants")[0][5] == "—"
    assert seen.faults == []


def test_language_models_are_read(look: Callable[..., Look], lm_dir: Path, tmp_path: Path) -> None:
    measures = {"loss": spread(2.5), "state_bytes": spread(4096.0)}
    rows = [make_row(name, 1, 1, lm_dir, measures=measures) for name in ("rope", "alibi")]
    study = write_study(tmp_path / "positions", rows, {("rope", 1): lm_dir, ("alibi", 1): lm_dir})
    with running(studies=(str(study),)) as server:
        seen = look(url=server.url).open(panel="study", text="The dog").ended()
        seen.page.click('#scatter [data-row="1"]')
        seen.page.wait_for_function("() => document.querySelector('header select').value === 'positions-alibi-1'")
        seen.ended()
        seen.page.select_option("#right-model", "positions-rope-1")
        left, right = translations(seen)
        assert left == right and left.startswith("The dog")
        assert seen.page.inner_text("#both-go") == "Read with both"
        assert seen.faults == []


@pytest.mark.parametrize(("scheme", "rules"), [("light", RULES), ("dark", COLOUR_RULES)], ids=["light", "dark"])
def test_axe_finds_nothing(
    shown: Callable[..., Look], axe: str, sentences: list[str], scheme: str, rules: dict[str, Any]
) -> None:
    seen = shown({"color_scheme": scheme, "bypass_csp": True}, beside=SECOND, text=sentences[0])
    translations(seen)
    seen.page.hover('#scatter [data-row="1"]')
    assert violations(seen, axe, rules) == []
    seen.page.select_option("#study", "none")
    seen.page.wait_for_selector("#no-points")
    assert violations(seen, axe, rules) == []


@pytest.mark.parametrize("width", [320, 375, 768])
def test_in_chinese_on_small_screens(shown: Callable[..., Look], sentences: list[str], width: int) -> None:
    seen = shown({"width": width, "locale": "zh-CN"}, beside=SECOND, text=sentences[0])
    translations(seen)
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    assert seen.page.inner_text("#tab-study") == "对比研究"
    assert seen.page.inner_text("#both-go") == "用两个模型翻译"
    box = seen.page.locator("#tab-study").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= width, "the tab can be seen"
    small = seen.page.evaluate("""() => [...document.querySelectorAll('#panel :is(button, select)')]
      .map(one => [one.outerHTML.slice(0, 80), one.getBoundingClientRect()])
      .filter(([_, box]) => box.width > 0 && (box.width < 24 || box.height < 24)).map(([html]) => html)""")
    assert small == []
