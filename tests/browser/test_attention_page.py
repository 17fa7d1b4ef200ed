"""The attention panel: the right numbers, in the right places, for eyes, keys and files."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from serve.conftest import running

from browser.conftest import Look
from headway.inspect.attention import ATTENTION_PATHS
from headway.inspect.trace import Trace


def shown(piece: str) -> str:
    return re.sub("^ ", "·", piece)


def numbers(rows: list[list[str]]) -> np.ndarray:
    return np.array([[0.0 if cell == "masked" else float(cell) for cell in row[1:]] for row in rows])


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_w08_and_w17_the_table_has_the_numbers_of_the_trace(
    look: Callable[..., Look], trace: Trace, sentences: list[str], kind: str
) -> None:
    seen = look().open(kind=kind, table=1).translate(sentences[0])
    expected = trace.tensors[f"{ATTENTION_PATHS[kind].format(0)}.weights"].numpy()
    for head in range(len(expected)):
        seen.page.select_option("#head", index=head + 1)
        rows = seen.table("#weights")
        found = numbers(rows)
        assert np.allclose(found.sum(1), 1, atol=1e-3)
        np.testing.assert_allclose(found, expected[head], atol=1e-3)
    queries = trace.source.pieces if kind == "encoder" else trace.written.pieces
    keys = trace.target.pieces if kind == "decoder" else trace.source.pieces
    labels = [shown(piece) for piece in queries], [shown(key) for key in keys]
    assert expected.shape[1:] == (len(labels[0]), len(labels[1]))
    assert [row[0] for row in rows] == labels[0]
    assert seen.page.locator("#weights thead th").all_inner_texts() == labels[1]
    for side, pieces in zip(("row", "column"), labels):
        assert seen.page.locator(f".{side}-labels span").all_text_contents() == pieces
    size = f"{len(labels[0])} by {len(labels[1])}"
    assert seen.page.get_attribute("#heatmap", "aria-label").endswith(f"Head {len(expected)}, {size}")
    box = seen.page.locator("#heatmap").bounding_box()
    assert box["width"] / box["height"] == pytest.approx(len(labels[1]) / len(labels[0]))


def test_w07_arrow_keys_read_cells_and_tab_leaves(look: Callable[..., Look], sentences: list[str]) -> None:
    seen = look().open().translate(sentences[0])
    seen.page.focus("#heatmap")
    told = []
    for key in ("ArrowRight", "ArrowDown", "Control+End", "Control+Home"):
        seen.page.keyboard.press(key)
        told.append(seen.page.inner_text("#reads"))
    assert len(set(told)) == 4 or told[0] == told[3]
    assert re.fullmatch(r".+ → .+: \d\.\d{4}", told[0])
    width = seen.page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert float(width.removesuffix("px")) >= 2
    seen.page.keyboard.press("Tab")
    assert seen.page.evaluate("document.activeElement.id") != "heatmap"


def test_w09_what_is_masked_is_transparent_and_says_so(look: Callable[..., Look], sentences: list[str]) -> None:
    seen = look().open(kind="decoder").translate(sentences[0])
    seen.page.focus("#heatmap")
    seen.page.keyboard.press("End")
    assert seen.page.inner_text("#reads").endswith("masked")
    corner = """c => { const x = c.getContext('2d');
      return [x.getImageData(c.width - 2, 1, 1, 1).data[3], x.getImageData(1, 1, 1, 1).data[3]] }"""
    assert seen.page.eval_on_selector("#heatmap canvas", corner) == [0, 255]


def test_w16_a_click_on_a_head_chooses_it(look: Callable[..., Look], sentences: list[str]) -> None:
    seen = look().open().translate(sentences[0])
    heads = seen.page.locator(".atlas button")
    assert heads.count() == 4  # one layer
    for head in range(4):
        heads.nth(head).click()
        assert seen.page.input_value("#head") == str(head)
        assert heads.nth(head).get_attribute("aria-pressed") == "true"
        assert seen.page.locator(".atlas [aria-pressed=true]").count() == 1


COUNT = """() => { window.painted = 0; window.changed = 0;
  const plain = CanvasRenderingContext2D.prototype.putImageData;
  CanvasRenderingContext2D.prototype.putImageData = function (...all) {
    window.painted++; return plain.apply(this, all); };
  new MutationObserver((all) => { window.changed += all.length; })
    .observe(document.getElementById('panel'),
             {subtree: true, childList: true, attributes: true, characterData: true}); }"""


def test_w14_long_sentences_stay_fluent(look: Callable[..., Look], long_dir: Path, sentences: list[str]) -> None:
    """Frames are not timed here: what would make them late is counted. 64 tokens and more, pointing at 120 cells and
    120 changes of the head."""
    with running(long_dir) as server:
        seen = look(url=server.url).open(kind="encoder")
        seen.translate(" ".join(word for line in sentences[:11] for word in line.rstrip(".?").split()))
    assert seen.page.locator(".row-labels span").count() >= 64
    box = seen.page.locator("#heatmap").bounding_box()
    assert box is not None
    assert seen.page.evaluate("document.querySelectorAll('#panel *').length") < 520  # and not one a cell
    seen.page.evaluate(COUNT)
    for n in range(120):
        seen.page.mouse.move(box["x"] + (n * 7) % box["width"], box["y"] + (n * 5) % min(box["height"], 300))
    assert seen.page.evaluate("window.painted") == 0  # only the mark moves
    assert 120 <= seen.page.evaluate("window.changed") < 120 * 10
    seen.page.focus("#heatmap")
    for n in range(120):
        seen.page.keyboard.press("." if n // 3 % 2 == 0 else ",")
    seen.page.wait_for_function("() => window.painted > 0")
    assert seen.page.evaluate("window.painted") <= 120  # the detail alone, once each


def test_w28_saved_files(
    look: Callable[..., Look], chromium: Any, trace: Trace, sentences: list[str], tmp_path: Path
) -> None:
    seen = look().open(head=2, root=1).translate(sentences[0])
    files = {}
    for ending in ("png", "svg", "json", "html"):
        if ending == "html":  # from another panel, in another language
            seen.tab("vectors")
            seen.page.fill("#stage", "0")
            seen.page.fill("#step", "2")
            seen.page.select_option("#tongue", "zh")
            seen.page.wait_for_selector("html[lang=zh-Hans]")
        with seen.page.expect_download() as waiting:
            seen.page.click(f"#save-{ending}")
        files[ending] = tmp_path / f"saved.{ending}"
        waiting.value.save_as(files[ending])
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    assert files["png"].stat().st_size > 2000
    picture = ElementTree.parse(files["svg"])
    rects = picture.findall(".//{http://www.w3.org/2000/svg}rect")
    assert len(rects) == 1 + len(trace.written.ids) * len(trace.source.ids)
    told = " ".join(text.text or "" for text in picture.findall(".//{http://www.w3.org/2000/svg}text"))
    for part in ("Cross, Layer 1, Head 2", "the model", "(query)", "(key)", "attention weight", "0.25", sentences[0]):
        assert part in told
    read = json.loads(files["json"].read_text())
    assert read["target"]["ids"] == trace.target.ids[1:]
    for name, weights in read["weights"].items():
        np.testing.assert_allclose(np.array(weights), trace.tensors[name].numpy(), atol=1e-4)
    alone = Look(chromium.new_context(offline=True).new_page(), "")
    alone.page.goto(files["html"].as_uri())
    alone.ended()
    assert alone.page.get_attribute("#panel", "data-panel") == "vectors"
    assert alone.page.get_attribute("html", "lang") == "zh-Hans"
    assert (alone.page.input_value("#stage"), alone.page.input_value("#step")) == ("0", "2")
    assert "head=2" in seen.page.url and alone.tab("attention").page.input_value("#head") == "1"
    alone.page.goto(files["html"].as_uri() + "#embed")
    alone.page.reload()
    assert alone.ended().page.locator(".embedded #stage").count() == 1
    assert alone.page.locator("header, #text").count() == 0
    alone.page.goto("about:blank")
    alone.page.goto(files["html"].as_uri())
    alone.ended()
    for panel in ("inside", "layer", "probabilities", "beam", "vectors", "architecture", "attention"):
        alone.tab(panel)
        assert alone.page.locator("#panel h3, #panel .strip").count()
    assert [url for url in alone.requests if not url.startswith(("file:", "data:"))] == []
    assert alone.faults == []
    alone.page.context.close()


def test_words_add_up(look: Callable[..., Look], sentences: list[str]) -> None:
    seen = look().open(table=1).translate(sentences[0])
    before = len(seen.table("#weights")[0])
    seen.page.check("#show-words")
    rows = seen.table("#weights")
    assert len(rows[0]) <= before
    assert np.allclose(numbers(rows).sum(1), 1, atol=1e-3)
    seen.page.check("#show-plain")
    assert not any("⟨" in row[0] for row in seen.table("#weights"))
