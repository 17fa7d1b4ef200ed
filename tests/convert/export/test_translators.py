"""Translators for Hugging Face: Marian where norms come after, Pegasus where they come before, T5."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from random_models import LINES, translator_table, write_random_model
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import headway
from headway.convert.architecture import ConversionError, find_family
from headway.convert.export.formats import ExportReport, export_model
from headway.convert.export.stored_model import open_model
from headway.convert.huggingface.directory import plan_import
from headway.convert.importer import ImportPlan
from headway.convert.options import ImportOptions
from headway.convert.weight_files import open_weights
from headway.data.toy import toy_corpus
from headway.decode import Search, decode
from headway.decode.reference.model import ModelStepper
from headway.storage.model_dir import load_model, read_tensors
from headway.text.tokenizer.special_tokens import special_tokens
from headway.text.tokenizer.tokenizer import Tokenizer

BUNDLED = Path(__file__).parents[3] / "headway" / "models" / "en-de"


def export(model: Path, out: Path, dtype: str = "") -> ExportReport:
    return export_model(open_model(model), "huggingface", out, dtype)


@torch.no_grad()
def assert_same_logits(model: Path, out: Path) -> None:
    """Of two sentences, one padded. In float64, where the order of sums does not matter, and what remains is that their
    table of positions is in float32."""
    ours = load_model(model).model.double()
    theirs = AutoModelForSeq2SeqLM.from_pretrained(out).eval().double()
    source = torch.randint(6, 300, (2, 9))
    valid = torch.tensor([[True] * 9, [True] * 6 + [False] * 3])
    target = torch.randint(6, 300, (2, 7))
    found = theirs(input_ids=source, attention_mask=valid.long(), decoder_input_ids=target).logits
    torch.testing.assert_close(ours.logits(ours(source, target, valid).hidden), found, rtol=0, atol=2e-6)


@torch.no_grad()
def assert_same_ids(model: Path, out: Path, texts: list[str], tag: str = "", limit: int = 24) -> None:
    """Of greedy and beam search, with a length penalty that both have."""
    loaded, theirs = load_model(model), AutoModelForSeq2SeqLM.from_pretrained(out).eval()
    tokenizer = AutoTokenizer.from_pretrained(out)
    end = loaded.tokenizers.target.end
    for beam, alpha in ((1, 1.0), (4, 0.6)):
        search = Search(beam_size=beam, penalty="power", alpha=alpha, max_length=limit)
        more = {"num_beams": beam, "length_penalty": alpha} if beam > 1 else {"num_beams": 1}
        theirs.generation_config.length_penalty = alpha
        for first in range(0, len(texts), 25):
            batch = tokenizer([tag + text for text in texts[first : first + 25]], return_tensors="pt", padding=True)
            valid = batch.attention_mask.bool()
            stepper, tokens = ModelStepper(loaded.model), special_tokens(loaded.tokenizers.target)
            found = decode(stepper, batch.input_ids, valid, special_tokens=tokens, search=search)
            wanted = theirs.generate(**batch, **more, max_new_tokens=limit)[:, 1:].tolist()
            for hypotheses, ids in zip(found, wanted):
                assert hypotheses[0].ids == (ids[: ids.index(end)] if end in ids else ids[: len(hypotheses[0].ids)])


def assert_same_after_import(model: Path, out: Path, folder: Path) -> None:
    """What the family's reader makes of the exported weights is the model, bit for bit."""
    config = json.loads((out / "config.json").read_text())
    tokenizers = load_model(model).tokenizers
    architecture = find_family(config["model_type"])(config)
    ImportPlan(architecture=architecture, weights=open_weights(out), tokenizers=tokenizers).write(folder)
    before, after = (read_tensors(path / "model.safetensors") for path in (model, folder))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


HALVES = "sinusoidal(layout='halves')"
T5 = {
    "mixer": "attention(2, d_k=6, bias=false, scale=1.0)", "position": "t5(16, 40)",
    "feedforward": "relu(24, bias=false)",
}  # fmt: skip
TRANSLATORS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("Pegasus", {}, {}),
    ("Pegasus", {"position": HALVES, "feedforward": "gelu(24)"}, {}),
    ("Pegasus", {"position": HALVES}, {"head": "logits(true)", "embedding": {"scale": False}}),
    ("Pegasus", {"feedforward": "silu(24, bias=false)", "mixer": "attention(2, bias=false)"}, {}),
    ("Marian", {"residual": "post"}, {}),
    ("Marian", {"residual": "post", "position": HALVES, "feedforward": "silu(24)"}, {"head": "logits(true)"}),
    ("Marian", {"residual": "post", "position": HALVES}, {"embedding": {"tied": "target"}}),
    ("Marian", {"residual": "post", "position": HALVES}, {"embedding": {"tied": "none"}}),
    ("Marian", {"residual": "post", "position": HALVES}, {"embedding": {"tied": "inputs"}}),
    ("Pegasus", {"position": HALVES}, {"embedding": {"tied": "none"}}),
    ("Pegasus", {"position": HALVES}, {"embedding": {"tied": "target"}}),
    ("Pegasus", {"position": HALVES}, {"embedding": {"tied": "inputs"}}),
    ("T5", T5, {"norm": "rmsnorm(1e-6)"}),  # words that are scaled, where T5 divides its scores
    ("T5", T5, {"norm": "rmsnorm(1e-6)", "embedding": {"tied": "inputs"}}),
]


@pytest.mark.parametrize(("family", "changes", "model"), TRANSLATORS)
def test_a_translator_becomes_one_of_theirs(
    family: str, changes: dict[str, Any], model: dict[str, Any], tmp_path: Path
) -> None:
    table = {**translator_table(**changes), **model}
    table["decoder"] = {**table["decoder"], "layers": 1}
    write_random_model(tmp_path / "model", table)
    report = export(tmp_path / "model", tmp_path / "out")
    assert report.format == f"Hugging Face ({family})"
    assert_same_logits(tmp_path / "model", tmp_path / "out")
    assert_same_ids(tmp_path / "model", tmp_path / "out", LINES[:4], limit=16)
    if changes.get("position") == HALVES:
        assert_same_after_import(tmp_path / "model", tmp_path / "out", tmp_path / "again")


def test_the_tokenizer_gives_our_ids_and_tags_stand_before_the_source(tmp_path: Path) -> None:
    for kind in ("bpe", "unigram", "bytes", "characters", "wordpiece"):
        folder = tmp_path / kind
        tokenizer = Tokenizer.train(LINES * 3, kind, tags=("de", "en"))
        write_random_model(folder / "model", translator_table(), tokenizer=tokenizer, target_languages=["de", "en"])
        export(folder / "model", folder / "out")
        theirs = AutoTokenizer.from_pretrained(folder / "out")
        for text in [*LINES, " leading", "\n\nlines\n", "⟨pad⟩ ⟨/s⟩ ⟨to:de⟩", "\t", "12,345.6"]:
            ids = [*tokenizer.encode(text), tokenizer.end]
            assert theirs(text).input_ids == ids
            assert theirs(text_target=text).input_ids == ids
            for tag in ("de", "en"):
                stripped = [tokenizer.tags[tag], *tokenizer.encode(text.lstrip()), tokenizer.end]
                assert theirs(f">>{tag}<< {text}").input_ids == stripped
            if kind != "wordpiece":
                assert theirs.decode(ids, skip_special_tokens=True) == text
        assert (theirs.pad_token_id, theirs.eos_token_id) == (0, 2)
        assert "`>>de<<`, `>>en<<`" in (folder / "out" / "README.md").read_text()


def test_two_vocabularies_are_two_tokenizers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = Tokenizer.train(LINES * 3, "bpe")
    table = {**translator_table(residual="post"), "embedding": {"tied": "target"}}
    write_random_model(tmp_path / "model", table, source_tokenizer=source, search={"max_length": 20})
    assert export(tmp_path / "model", tmp_path / "out").format == "Hugging Face (Marian)"
    text = "The dog sees 12 Häuser."
    assert AutoTokenizer.from_pretrained(tmp_path / "out")(text).input_ids == [*source.encode(text), 2]
    target = AutoTokenizer.from_pretrained(tmp_path / "out", subfolder="target")
    assert target(text).input_ids == [*Tokenizer.train([], "bytes").encode(text), 2]
    assert_same_logits(tmp_path / "model", tmp_path / "out")
    code = (tmp_path / "out" / "README.md").read_text().split("```python\n")[1].split("```")[0]
    exec(code.replace('"model"', f'"{tmp_path / "out"}"'), {})
    assert capsys.readouterr().out.startswith("['")


def test_pegasus_has_one_vocabulary(tmp_path: Path) -> None:
    table = {**translator_table(), "embedding": {"tied": "target"}}
    write_random_model(tmp_path / "model", table, source_tokenizer=Tokenizer.train(LINES * 3, "bpe"))
    with pytest.raises(ConversionError, match="nearest family is Pegasus, but it has one vocabulary for both sides"):
        export(tmp_path / "model", tmp_path / "out")


def test_the_search_is_the_nearest_that_there_is(tmp_path: Path) -> None:
    for search, penalty, lost in (
        ({"beam_size": 5, "alpha": 1.4}, 1.04, ["length penalty", "maximum length"]),
        ({"penalty": "power", "alpha": 0.8, "max_length": 33}, 0.8, []),
        ({"penalty": "none"}, 0.0, ["maximum length"]),
    ):
        folder = tmp_path / str(penalty)
        write_random_model(folder / "model", translator_table(), search=search)
        report = export(folder / "model", folder / "out")
        config = json.loads((folder / "out" / "generation_config.json").read_text())
        assert config["num_beams"] == search.get("beam_size", 4)
        assert config["length_penalty"] == pytest.approx(penalty, abs=0.01)
        assert config["max_new_tokens"] == search.get("max_length", 1023)
        assert config["suppress_tokens"][:3] == [0, 1, 3] and 2 not in config["suppress_tokens"]
        assert [word for word in ("length penalty", "maximum length") if word in str(report.lost)] == lost


def test_the_bundled_model(tmp_path: Path) -> None:
    report = export(BUNDLED, tmp_path / "out")
    assert report.format == "Hugging Face (Pegasus)"
    assert "the calibration of its confidence" in report.lost
    assert_same_logits(BUNDLED, tmp_path / "out")
    assert_same_ids(BUNDLED, tmp_path / "out", [pair.source for pair in toy_corpus(3)], ">>de<< ")


def test_the_bundled_model_comes_back_with_its_languages(tmp_path: Path) -> None:
    export(BUNDLED, tmp_path / "out")
    plan_import(tmp_path / "out", ImportOptions()).write(tmp_path / "back")
    again, ours = (headway.load_translator(str(path), engine="torch") for path in (tmp_path / "back", BUNDLED))
    assert again.config.target_languages == ours.config.target_languages == ("de", "en")
    for language in ("de", "en"):
        assert again("Tom is here.", target=language) == ours("Tom is here.", target=language)


@pytest.mark.slow
def test_the_bundled_model_on_many_sentences(tmp_path: Path) -> None:
    export(BUNDLED, tmp_path / "out")
    assert_same_ids(BUNDLED, tmp_path / "out", [pair.source for pair in toy_corpus(200)], ">>de<< ", limit=48)
