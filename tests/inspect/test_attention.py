"""Where a translator looks: weights that add up to one, with the tokens they belong to; and pictures of them."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headway
from headway.errors import HeadwayError
from headway.inspect.attention import AttentionMap, compute_attention, format_token, read_attention
from headway.inspect.plots import draw_attention, draw_mask
from headway.nn.masks.masks import make_mask
from headway.translate.translator import Translator

TEXT = "The dog sees a red house."


@pytest.fixture(scope="module")
def translator(translator_dir: Path) -> Translator:
    found = headway.load(translator_dir)
    assert isinstance(found, Translator)
    return found


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_rows_add_up_to_one(translator: Translator, kind: Any) -> None:
    found = compute_attention(translator, TEXT, kind)
    assert found.weights.shape == (4, len(found.queries), len(found.keys))
    np.testing.assert_allclose(found.weights.sum(-1), 1, rtol=1e-5)
    assert (found.weights >= 0).all()
    assert (found.kind, found.layer) == (kind, 1)


def test_the_tokens_are_those_of_the_text(translator: Translator) -> None:
    found = compute_attention(translator, TEXT, "cross")
    assert "".join(found.keys) == f" {TEXT}⟨/s⟩"
    assert found.queries[-1] == "⟨/s⟩"  # a row is named by what it writes
    assert "".join(found.queries[:-1]).strip() == found.text == translator(TEXT)
    own = compute_attention(translator, TEXT, "decoder")
    assert (own.keys[0], own.queries) == ("⟨s⟩", found.queries)
    assert own.keys[1:] == own.queries[:-1]


def test_the_decoder_does_not_look_ahead(translator: Translator) -> None:
    found = compute_attention(translator, TEXT, "decoder")
    assert not np.triu(found.weights, 1).any()


def test_space_around_the_text_changes_nothing(translator: Translator) -> None:
    assert compute_attention(translator, f" {TEXT} ").keys == compute_attention(translator, TEXT).keys


def test_a_layer_that_is_not_there(translator: Translator) -> None:
    assert compute_attention(translator, TEXT, layer=1).layer == 1
    for layer in (-1, 2):
        with pytest.raises(HeadwayError, match=f"there is no layer {layer}: this model has 1 to 1"):
            compute_attention(translator, TEXT, layer=layer)


def test_language_models_and_models_that_guess(lm_dir: Path, masked_dir: Path) -> None:
    model = headway.load(lm_dir)
    found = compute_attention(model, "The dog sees")
    assert (found.kind, found.text, found.queries[-1]) == ("decoder", "The dog sees", "…")  # nobody knows what follows
    assert found.keys[0] == "\n"
    assert found.keys[1:] == found.queries[:-1]
    with pytest.raises(HeadwayError, match='this model has no attention of the kind "cross". It has: decoder'):
        compute_attention(model, "The dog sees", "cross")
    with pytest.raises(
        HeadwayError, match='a language model does not translate to "de": leave out the target language'
    ):
        compute_attention(model, "The dog sees", target="de")
    found = compute_attention(headway.load(masked_dir), "The dog sees")
    assert (found.kind, found.queries, found.text) == ("encoder", found.keys, "The dog sees")
    np.testing.assert_allclose(found.weights.sum(-1), 1, rtol=1e-5)


def test_a_layer_without_weights(translator: Translator) -> None:
    trace = translator.trace(TEXT)
    tensors = {name: tensor for name, tensor in trace.tensors.items() if not name.endswith(".weights")}
    with pytest.raises(HeadwayError, match="layer 1 of the encoder has no attention weights.*No other layer"):
        read_attention(replace(trace, tensors=tensors), "encoder")


def test_the_last_layer_that_has_weights_is_shown(translator: Translator) -> None:
    trace = translator.trace(TEXT)
    above = {"encoder.1.self.output": trace.tensors["encoder.0.self.output"]}  # by a mixer that has none
    mixed = replace(trace, tensors={**trace.tensors, **above})
    assert np.array_equal(read_attention(mixed, "encoder").weights, read_attention(trace, "encoder", 1).weights)
    with pytest.raises(HeadwayError, match="layer 2 of the encoder has no attention weights.*that have some: 1"):
        read_attention(mixed, "encoder", 2)


def test_a_trace_that_does_not_fit_together(translator: Translator) -> None:
    trace = translator.trace(TEXT)
    other = {**trace.tensors, "decoder.0.cross.weights": trace.tensors["encoder.embedded"]}
    with pytest.raises(
        HeadwayError, match=r"\d+ queries and \d+ keys have weights of the shape \(\d+, 48\). Make it again"
    ):
        read_attention(replace(trace, tensors=other), "cross")


def test_nothing_to_look_at(translator: Translator) -> None:
    with pytest.raises(HeadwayError, match=r"there is nothing to trace: give a sentence"):
        compute_attention(translator, "  ")


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.PDF", b"%PDF")])
def test_a_picture_is_drawn(translator: Translator, tmp_path: Path, name: str, start: bytes) -> None:
    draw_attention(compute_attention(translator, "A dog."), tmp_path / name, head=2)
    content = (tmp_path / name).read_bytes()
    assert content.startswith(start)
    assert len(content) > 2000


def test_all_heads_and_their_mean(translator: Translator, tmp_path: Path) -> None:
    found = compute_attention(translator, "A dog.")
    draw_attention(found, tmp_path / "all.svg")
    text = (tmp_path / "all.svg").read_text()
    for title in ("mean of all heads", "head 1", "head 4"):
        assert title in text


def test_a_head_that_is_not_there(translator: Translator, tmp_path: Path) -> None:
    found = compute_attention(translator, "A dog.")
    for head in (-1, 5):
        with pytest.raises(HeadwayError, match=f"there is no head {head}: this layer has 1 to 4"):
            draw_attention(found, tmp_path / "a.png", head)


def test_a_picture_of_an_unknown_kind(translator: Translator, tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match=r"a.jpeg2: the file's name must end in .png, .svg or .pdf"):
        draw_attention(compute_attention(translator, "A dog."), tmp_path / "a.jpeg2")
    import matplotlib.pyplot

    assert not matplotlib.pyplot.get_fignums()  # no figure is left over


def test_without_matplotlib_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(HeadwayError, match=r"plots need matplotlib. Run: pip install 'headway\[plot\]'"):
        draw_mask(make_mask("causal"), 4, tmp_path / "mask.png")


def test_what_cannot_be_seen_is_spelled_out() -> None:
    assert [format_token(piece) for piece in (" dog", " ", "\n", "a\x0eb", "⟨/s⟩")] == [
        "dog",
        "␣",
        "<0A>",
        "a<0E>b",
        "⟨/s⟩",
    ]


def test_any_token_can_be_drawn(tmp_path: Path) -> None:
    """Control characters, formulas and scripts that the font lacks: no warning, which here would be an error."""
    tokens = ["\x0e", "$x_{$", "掌声", "\n", "<E2>"]
    found = AttentionMap(np.eye(5)[None], tokens, tokens, "cross", 1, "costs $5 or $6_{\n")
    draw_attention(found, tmp_path / "any.png")
    assert (tmp_path / "any.png").stat().st_size > 1000
