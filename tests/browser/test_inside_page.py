"""Inside a head: every equation that the page prints, computed again from the numbers that it prints.

Which terms an equation has is read from the formula on the page, and numbers from its tables; nothing is taken from the
model but, at the end, its trace, which must have the same numbers."""

import csv
import io
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_models import SIZES, translator_table, write_random_model
from serve.conftest import Running, running

from browser.conftest import Look
from headway.translate.translator import Translator, load

TEXT = "A dog."
NEAR = {"rtol": 2e-4, "atol": 2e-4}  # of six or seven digits, added up
VARIANTS: dict[str, dict[str, Any]] = {
    "pre-norm": {},
    "post-norm": {"residual": "post"},
    "rope": {"position": "rope(layout='halves')"},
    "alibi": {"position": "alibi"},
    "gqa": {"mixer": "attention(4, 2, scale=0.3)", "position": "rope"},
    "shaw": {"position": "shaw"},
    "norms inside": {
        "mixer": "attention(4, 2, bias=false, qk_norm='rmsnorm', output_norm='rmsnorm')",
        "position": "rope",
    },
}
SLOW = ("shaw", "norms inside")
LANGUAGES = {"source_languages": ["en"], "target_languages": ["de"]}
OWN_WAYS = {  # the formulas that hold in the steps of mixers that are not the paper's
    "additive": {"scores": 0, "mask": 1, "softmax": 1, "sum": 1, "output": 2},
    "hard_attention": {"scores": 1, "softmax": 0, "sum": 1, "output": 2},
    "linear_attention": {"softmax": 0, "output": 0},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Random weights everywhere, so that no gain is 1 and no bias 0."""
    folder = tmp_path_factory.mktemp("heads")
    tables = {name: translator_table(**changes) for name, changes in VARIANTS.items()}
    plain = {**SIZES, "residual": "pre"}
    for name, mixer in {"retention": "retention(4)", **{kind: f"{kind}(4)" for kind in OWN_WAYS}}.items():
        tables[name] = {"d_model": 16, "encoder": plain, "decoder": {**plain, "mixer": mixer, "position": "none"}}
    for name, table in tables.items():
        for side in ("encoder", "decoder"):
            table[side] = {**table[side], "layers": 1, "feedforward": "relu(8)"}
        write_random_model(
            folder / name.replace(" ", "-"), table, search={"max_length": 4, "beam_size": 1}, **LANGUAGES
        )
    return {name: folder / name.replace(" ", "-") for name in tables}


@pytest.fixture(scope="module")
def heads(folders: dict[str, Path]) -> Iterator[Running]:
    with running(*folders.values()) as server:
        yield server


@pytest.fixture(scope="module")
def page(chromium: Any, heads: Running) -> Iterator[Look]:
    """One page for all models."""
    context = chromium.new_context(viewport={"width": 1280, "height": 1000}, locale="en")
    yield Look(context.new_page(), heads.url)
    context.close()


READ = """async () => {
  const settled = () => new Promise((done) => setTimeout(done, 4));
  const box = document.getElementById('numbers-of');
  const found = {};
  for (const { value } of [...box.options]) {
    box.value = value;
    box.dispatchEvent(new Event('change', { bubbles: true }));
    while (document.getElementById('inside-numbers').dataset.name !== value) await settled();
    found[value] = [...document.querySelectorAll('#inside-numbers tbody tr')]
      .map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent));
  }
  return found;
}"""


FORMULAS = """() => [...document.querySelectorAll('.step-block math')]
  .map((one) => one.innerHTML.replaceAll('<msqrt>', '√').replace(/<[^>]*>/g, ''))"""

# Clicks numbers of a grid, and reads how the page says each is made.
MADE = """async ({ grid, line, name, columns, channels }) => {
  const settled = () => new Promise((done) => setTimeout(done, 4));
  const cells = (part) => [...document.querySelectorAll(part)];
  const found = [];
  for (const channel of channels) {
    const here = document.getElementById(grid);
    const box = here?.getBoundingClientRect();
    const at = here && { clientX: box.left + (channel + 0.5) * box.width / columns, clientY: box.top + 24 * line + 12 };
    here?.dispatchEvent(new MouseEvent('click', { bubbles: true, ...at }));
    const asked = `#made[data-name="${name}"][data-channel="${channel}"]`;
    for (const start = Date.now(); !document.querySelector(asked); await settled())
      if (Date.now() - start > 20000) throw new Error(`nothing says how ${asked} is made`);
    found.push({
      row: document.querySelector(asked).dataset.row,
      facts: cells('.made [data-fact]').map((one) => [one.dataset.fact, one.textContent.split('= ')[1]]),
      terms: cells('#made tbody tr').map((row) => [...row.querySelectorAll('td')].map((one) => one.textContent)),
      end: cells('#made tfoot tr').map((row) => [row.dataset.made, row.querySelector('td').textContent]),
    });
  }
  return found;
}"""


def number(text: str) -> float:
    return float(text.replace("−", "-").replace("∞", "inf"))


class Made:
    """One number, computed again from the products that the page adds up, and from what it does with the sum."""

    def __init__(self, name: str, told: dict[str, Any]) -> None:
        facts = {fact: number(text) for fact, text in told["facts"]}
        terms = np.array([[number(cell) for cell in line] for line in told["terms"]])
        if name == "weights":
            np.testing.assert_allclose(np.exp(terms[:, 0] - facts["m"]), terms[:, 1], **NEAR)
        elif terms.shape[1] > 1:
            np.testing.assert_allclose(terms[:, :-1].prod(1), terms[:, -1], **NEAR)
        self.row, self.factors, self.signs = told["row"], terms[:, 0], [sign for sign, _ in told["end"]]
        self.value = float(terms[:, -1].sum())
        for sign, text in told["end"]:
            shown = number(text)
            if sign in ("sum", "result", "value", "silu"):
                self.value = self.value / (1 + np.exp(-self.value)) if sign == "silu" else self.value
                assert shown == pytest.approx(self.value, rel=1e-3, abs=2e-4), sign
            else:
                self.value = {"+": self.value + shown, "×": self.value * shown, "share": shown / self.value}[sign]


class Head:
    """One head as the page prints it."""

    def __init__(self, seen: Look, row: int) -> None:
        self.seen, self.row = seen, row
        if not seen.page.locator("#numbers-of").count():
            seen.page.click("#all-numbers")
            seen.page.wait_for_selector("#numbers-of")
        found = seen.page.evaluate(READ)
        self.of = {name: np.array([[number(cell) for cell in line] for line in table]) for name, table in found.items()}

    def step(self, name: str) -> str:
        """Goes there; all formulas of the step."""
        self.seen.page.click(f".step-tabs [data-step={name}]")
        return " ; ".join(self.seen.page.evaluate(FORMULAS))

    def made(self, name: str, channels: list[int], grid: tuple[str, ...] = (), line: int = 0) -> list[Made]:
        """Numbers whose making the page prints, each from the numbers of its table. grid: what is in the lines of the
        grid where they are clicked; without one, what is shown already."""
        columns = max((self.of[one].shape[1] for one in grid if one in self.of), default=0)
        asked = {"grid": f"grid-{grid[0]}" if grid else "", "line": line, "name": name, "channels": channels}
        return [Made(name, told) for told in self.seen.page.evaluate(MADE, {**asked, "columns": columns})]

    def bars(self, name: str) -> np.ndarray:
        return np.array([number(text) for text in self.seen.page.locator(f"[data-value={name}]").all_inner_texts()])


def is_near(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def normed(x: np.ndarray, formula: str, eps: float, gain: np.ndarray | None, bias: np.ndarray | None) -> np.ndarray:
    """By the formula that is printed."""
    centred = x - x.mean(-1, keepdims=True) if "μ" in formula else x
    result = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    assert ("⊙g" in formula) == (gain is not None) and ("+b" in formula.split("⊙g")[-1]) == (bias is not None)
    return result * (1 if gain is None else gain[0]) + (0 if bias is None else bias[0])


def turned(x: np.ndarray, rates: np.ndarray, in_halves: bool) -> np.ndarray:
    angles = np.arange(len(x))[:, None] * rates
    half = x.shape[-1] // 2
    a, b = (x[:, :half], x[:, half:]) if in_halves else (x[:, 0::2], x[:, 1::2])
    pair = a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)
    return np.concatenate(pair, -1) if in_halves else np.stack(pair, -1).reshape(x.shape)


def check_vectors(head: Head, kind: str) -> None:
    """x, the norm, and how q, k and v are made of what comes in."""
    of, formula, row = head.of, head.step("vectors"), head.row
    told = head.seen.page.inner_text(".strips")
    if "input" in of:
        norm = formula.split(" ; ")[0]
        assert norm.startswith("x^=") and "Pre-norm" in told
        np.testing.assert_allclose(normed(of["x"], norm, 1e-5, of["norm_gain"], of["norm_bias"]), of["input"], **NEAR)
        is_near([one.value for one in head.made("input", [0, 5], ("x",), line=3)], of["input"][row, [0, 5]])
    else:
        assert "enters as it is" in told
    assert ("output of the encoder" in told) == (kind == "cross") == ("source" in of)
    entering = {"q": of.get("input", of["x"])}
    entering["k"] = entering["v"] = of.get("source", entering["q"])
    for letter, line in (("q", row), ("k", len(of["k"]) - 1), ("v", 0)):
        stages = [name for name in (f"unnormed_{letter}", f"unrotated_{letter}", letter) if name in of]
        first = of[stages[0]]
        every = list(range(first.shape[1]))
        made = head.made(stages[0], every, (stages[0],), 0 if letter == "q" else line)
        is_near([one.value for one in made], first[line])
        for one in made:
            np.testing.assert_allclose(one.factors, entering[letter][line], **NEAR)
            assert ("+" in one.signs) == (f"W{letter.upper()}+b{letter.upper()}" in formula)
            assert one.row == (None if letter == "q" else str(line))
        for before, after in itertools.pairwise(stages):
            if before.startswith("unnormed"):
                norm = next(one for one in formula.split(" ; ") if one.startswith(letter) and "√" in one)
                expected = normed(of[before], norm, 1e-6, of[f"{letter}_norm_gain"], None)
            else:
                assert f"=R{'p' if letter == 'q' else 'j'}{letter}" in formula
                expected = turned(of[before], of["rotation_rates"], "first half" in told)
            np.testing.assert_allclose(expected, of[after], **NEAR)
        for n, name in list(enumerate(stages))[1:]:
            made = head.made(name, [0, 3], (stages[0] if letter == "q" else name,), n if letter == "q" else line)
            is_near([one.value for one in made], of[name][line, [0, 3]])


def check_attention(head: Head, masks: bool) -> None:
    """From scores to the output, by way of weights."""
    of, row = head.of, head.row
    formula = head.step("scores")
    products = of["q"] @ of["k"].T
    assert ("+βj" in formula) == ("score_bias" in of)
    printed = formula.split(";")[0].split("+")[0]
    scale = number(printed.split("√")[1]) ** -0.5 if "√" in printed else number(printed.split("·")[-1])
    np.testing.assert_allclose(products * scale + of.get("score_bias", 0), of["scores"], **NEAR)
    np.testing.assert_allclose(head.bars("scores"), of["scores"][row], rtol=1e-3, atol=1e-3)
    last = of["scores"].shape[1] - 1
    head.seen.page.locator(".bars-list button").nth(last).click()
    is_near([one.value for one in head.made("scores", [last])], of["scores"][row, [last]])

    head.step("mask")
    shown = np.array([number(one) for one in head.seen.page.locator("[data-value=masked]").all_inner_texts()])
    hidden = np.isneginf(shown)
    np.testing.assert_array_equal(hidden, (np.arange(len(shown)) > row) if masks else np.zeros(len(shown), bool))

    assert "aj=" in head.step("softmax")
    powers = np.where(hidden, 0, np.exp(of["scores"][row] - of["scores"][row].max()))
    np.testing.assert_allclose(powers / powers.sum(), of["weights"][row], **NEAR)
    np.testing.assert_allclose(head.bars("weights"), of["weights"][row], rtol=1e-3, atol=1e-3)
    is_near([one.value for one in head.made("weights", [0])], of["weights"][row, [0]])

    assert ("+r" in head.step("sum")) == ("value_bias" in of)
    sums = of["weights"] @ of["v"] + of.get("value_bias", 0)
    np.testing.assert_allclose(sums, of["context"], **NEAR)
    is_near([one.value for one in head.made("context", [0])], of["context"][row, [0]])


def check_output(head: Head, number_of_head: int) -> None:
    of, row, formula = head.of, head.row, head.step("output")
    own = slice(number_of_head * of["context"].shape[1], (number_of_head + 1) * of["context"].shape[1])
    if "z=[c1…c4]" in formula:
        np.testing.assert_allclose(of["joined"][:, own], of["context"], **NEAR)
    elif "u⊙" in formula:
        c = of["context"]
        expected = of["gate"][:, own] * c / np.sqrt((c**2).mean(-1, keepdims=True) + 1e-6)
        np.testing.assert_allclose(of["joined"][:, own], expected, **NEAR)
    else:
        assert formula.startswith("z=")
        norm = formula.split(" ; ")[0]
        expected = normed(of["contexts"], norm, 1e-6, of["output_norm_gain"], None)
        np.testing.assert_allclose(of["joined"], expected, **NEAR)
    lines = (*["gate"] * ("gate" in of), "joined", "output")
    for one, value in zip(head.made("output", [0, 9], lines, len(lines) - 1), of["output"][row, [0, 9]]):
        is_near([one.value], [value])
        np.testing.assert_allclose(one.factors, of["joined"][row], **NEAR)


def open_head(page: Look, folder: Path, head: int) -> Look:
    page.page.goto("about:blank")
    page.open(panel="inside", kind="encoder", head=head + 1, model=folder.name, text=TEXT)
    return page.ended()


def look_at(page: Look, kind: str, row: int) -> None:
    page.page.focus("#panel")
    page.page.keyboard.press({"encoder": "1", "decoder": "2", "cross": "3"}[kind])
    page.page.wait_for_selector(
        f"h3:has-text('{ {'encoder': 'Encoder', 'decoder': 'Decoder', 'cross': 'Cross'}[kind] }')"
    )
    page.page.wait_for_selector("#query")
    page.page.select_option("#query", index=row)


@pytest.mark.parametrize("variant", [pytest.param(one, marks=[pytest.mark.slow] * (one in SLOW)) for one in VARIANTS])
def test_w18_every_printed_equation_can_be_computed_again(page: Look, folders: dict[str, Path], variant: str) -> None:
    number_of_head = 3
    open_head(page, folders[variant], number_of_head)
    model = load(folders[variant], "cpu")
    assert isinstance(model, Translator)
    trace = model.trace(TEXT)
    for kind, path in (("encoder", "encoder.0.self"), ("decoder", "decoder.0.self"), ("cross", "decoder.0.cross")):
        look_at(page, kind, row=2)
        head = Head(page, row=2)
        check_vectors(head, kind)
        check_attention(head, masks=kind == "decoder")
        check_output(head, number_of_head)
        for name in ("q", "k", "v", "scores", "weights"):
            known = trace.tensors[f"{path}.{name}"]
            group = number_of_head * len(known) // 4
            np.testing.assert_allclose(head.of[name], known[group].numpy(), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(head.of["output"], trace.tensors[f"{path}.output"].numpy(), rtol=1e-4, atol=1e-4)
        assert (page.page.locator("#shared-keys").count() == 0) or variant in ("gqa", "norms inside")
    assert page.faults == []


def test_retention_is_computed_again_without_a_softmax(page: Look, folders: dict[str, Path]) -> None:
    open_head(page, folders["retention"], 1)
    look_at(page, "decoder", row=3)
    head = Head(page, row=3)
    check_vectors(head, "decoder")
    formula = head.step("scores")
    assert "√" not in formula and "γn" in formula
    decay = head.of["decay"][:, 0]
    faded = [[decay[j + 1 : i + 1].prod() if j <= i else 0.0 for j in range(len(decay))] for i in range(len(decay))]
    np.testing.assert_allclose(head.of["q"] @ head.of["k"].T * np.array(faded), head.of["scores"], **NEAR)
    np.testing.assert_allclose(head.bars("scores"), head.of["scores"][3], rtol=1e-3, atol=1e-3)
    is_near([one.value for one in head.made("scores", [0])], head.of["scores"][3, [0]])
    assert "∑jsjvj" in head.step("sum")
    np.testing.assert_allclose(head.of["scores"] @ head.of["v"], head.of["context"], **NEAR)
    assert page.page.locator(".step-tabs [data-step=softmax], .step-tabs [data-step=mask]").count() == 0
    check_output(head, 1)
    lines = ("gate", "joined", "output")
    for line, name in enumerate(lines[:2]):
        is_near([one.value for one in head.made(name, [8, 9], lines, line)], head.of[name][3, [8, 9]])
    assert page.faults == []


@pytest.mark.parametrize("kind", OWN_WAYS)
def test_what_a_mixer_does_in_its_own_way_has_no_formula(page: Look, folders: dict[str, Path], kind: str) -> None:
    open_head(page, folders[kind], 0)
    look_at(page, "decoder", row=2)
    steps = [one.get_attribute("data-step") for one in page.page.locator(".step-tabs button").all()]
    assert steps == ["vectors", *OWN_WAYS[kind]]
    for step, formulas in OWN_WAYS[kind].items():
        page.page.click(f".step-tabs [data-step={step}]")
        page.page.wait_for_selector(f"[data-step={step}][aria-current]")
        assert len(page.page.evaluate(FORMULAS)) == formulas, step
        assert (f"{kind} makes" in page.page.inner_text(".strips")) == (formulas == 0)
        assert page.page.locator("#made").count() == (formulas > 0 and step != "mask")
    assert page.faults == []


def test_all_numbers_of_a_head_are_in_one_file(page: Look, folders: dict[str, Path], tmp_path: Path) -> None:
    open_head(page, folders["rope"], 0)
    look_at(page, "decoder", row=1)
    head = Head(page, row=1)
    with page.page.expect_download() as waiting:
        page.page.click("#save-csv")
    waiting.value.save_as(tmp_path / "head.csv")
    assert waiting.value.suggested_filename == "head-decoder.0.self-1.csv"
    rows = list(csv.DictReader(io.StringIO((tmp_path / "head.csv").read_text())))
    assert {"x", "q", "k", "v", "output"} <= {row["matrix"] for row in rows}
    for name, matrix in head.of.items():
        own = [[float(row[str(n + 1)]) for n in range(matrix.shape[1])] for row in rows if row["matrix"] == name]
        np.testing.assert_allclose(own, matrix, rtol=1e-6, atol=1e-6)


def test_every_number_is_told_where_it_is_pointed_at_or_focused(page: Look, folders: dict[str, Path]) -> None:
    open_head(page, folders["pre-norm"], 0)
    look_at(page, "encoder", row=0)
    head = Head(page, row=0)
    grid = page.page.locator("#grid-k")
    box = grid.bounding_box()
    assert box is not None
    grid.hover(position={"x": box["width"] * 2.5 / 4, "y": 24 + 12})
    told = page.page.locator("#grid-k + .notes output")
    assert told.inner_text().startswith("k₃ = ")
    assert number(told.inner_text().split("= ")[1]) == pytest.approx(head.of["k"][1, 2], rel=1e-4)
    page.page.focus("#grid-v")
    for key in ("ArrowRight", "ArrowDown", "End"):
        page.page.keyboard.press(key)
    told = page.page.locator("#grid-v + .notes output")
    assert number(told.inner_text().split("= ")[1]) == pytest.approx(head.of["v"][1, 3], rel=1e-4)
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("#made[data-name=v][data-channel='3'][data-row='1']")
    assert number(page.page.inner_text("[data-made=result] td")) == pytest.approx(head.of["v"][1, 3], rel=1e-3)
    assert "at-made=v.1.3" in page.page.url
