"""CTranslate2 loads what is exported, and computes what the model does."""

from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest
import torch
from random_models import LINES, language_model_table, translator_table, write_random_model
from tokenizers import Tokenizer as Library

from headway.convert.architecture import ConversionError
from headway.convert.export.ctranslate2.kinds import find_unsupported_kind
from headway.convert.export.differences import expand_table
from headway.convert.export.formats import ExportReport, export_model
from headway.convert.export.stored_model import open_model
from headway.data.toy import toy_corpus
from headway.decode import Search, decode
from headway.decode.reference.model import ModelStepper
from headway.storage.model_dir import load_model, save_model
from headway.storage.packing import int8_state_dict
from headway.text.tokenizer.imported import ImportedTokenizer
from headway.text.tokenizer.special_tokens import special_tokens
from headway.text.tokenizer.tokenizer import Tokenizer


def export(model: Path, out: Path, dtype: str = "") -> ExportReport:
    return export_model(open_model(model), "ctranslate2", out, dtype)


def open_tokenizer(path: Path) -> Any:
    tokenizer = Library.from_file(str(path / "tokenizer.json"))
    tokenizer.encode_special_tokens = True
    return tokenizer


TRANSLATORS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"residual": "post", "feedforward": "gelu(24)"}, {"head": "logits(true)", "embedding": {"tied": "none"}}),
    ({"position": "learned(64)", "feedforward": "swiglu(24)"}, {"norm": "rmsnorm", "embedding": {"tied": "target"}}),
    ({"mixer": "attention(4, groups=2, bias=false)", "feedforward": "silu(24, bias=false)"}, {}),
    ({"mixer": "attention(2, d_k=6, scale=0.3)", "feedforward": "gelu_tanh(24)"}, {"embedding": {"norm": True}}),
]


@torch.no_grad()
@pytest.mark.parametrize(("changes", "model"), TRANSLATORS)
def test_a_translator(changes: dict[str, Any], model: dict[str, Any], tmp_path: Path) -> None:
    table = {**translator_table(**changes), **model}
    table["encoder"] = {**table["encoder"], "layers": 1}
    write_random_model(tmp_path / "model", table)
    assert export(tmp_path / "model", tmp_path / "out").format == "CTranslate2"
    loaded, translator = load_model(tmp_path / "model"), ctranslate2.Translator(str(tmp_path / "out"))
    tokenizer, tokens = open_tokenizer(tmp_path / "out"), special_tokens(loaded.tokenizers.target)
    suppressed = [[tokenizer.id_to_token(n)] for n in tokens.suppress]
    for line in filter(None, LINES):  # of an empty one they give nothing
        source = torch.tensor([tokenizer.encode(line).ids])
        target = torch.randint(6, 300, (1, 7))
        logits = loaded.model.logits(
            loaded.model(source, torch.cat([torch.tensor([[tokens.start]]), target], 1)).hidden
        )
        wanted = logits.log_softmax(-1)[0, torch.arange(8), [*target[0].tolist(), tokens.end]]
        words = [[tokenizer.id_to_token(n) for n in row[0].tolist()] for row in (source, target)]
        found = translator.score_batch(words[:1], words[1:])[0].log_probs
        np.testing.assert_allclose(found, wanted.numpy(), rtol=0, atol=2e-5)
        search = Search(beam_size=1, max_length=12)
        ours = decode(ModelStepper(loaded.model), source, special_tokens=tokens, search=search)[0][0].ids
        settings = {"beam_size": 1, "max_decoding_length": 12, "suppress_sequences": suppressed}
        result = translator.translate_batch(words[:1], **settings)[0]
        assert [tokenizer.token_to_id(token) for token in result.hypotheses[0]] == ours


LLAMA = {"position": "rope", "feedforward": "swiglu(24)", "mixer": "attention(4, groups=2, bias=false)"}
QWEN3 = {"kind": "attention", "heads": 2, "d_k": 6, "bias": False, "qk_norm": "rmsnorm"}


@torch.no_grad()
@pytest.mark.parametrize(
    ("changes", "norm"),
    [
        ({}, "layernorm"),
        ({"position": "rope"}, "layernorm"),
        (LLAMA, "rmsnorm"),
        ({**LLAMA, "position": "rope(base=300, layout='halves')", "mixer": QWEN3}, "rmsnorm"),
        ({**LLAMA, "mixer": "attention(4, output_bias=false)"}, "rmsnorm"),
    ],
)
def test_a_language_model(changes: dict[str, Any], norm: str, tmp_path: Path) -> None:
    write_random_model(tmp_path / "model", {**language_model_table(**changes), "norm": norm}, "causal")
    export(tmp_path / "model", tmp_path / "out")
    model, generator = load_model(tmp_path / "model").model, ctranslate2.Generator(str(tmp_path / "out"))
    ids = torch.randint(6, 300, (2, 12))
    found = np.array(generator.forward_batch(ids.tolist()))
    np.testing.assert_allclose(found, model.logits(model(None, ids).hidden).numpy(), rtol=1e-5, atol=1e-5)


def test_the_card_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_random_model(tmp_path / "lm" / "model", language_model_table(), "causal")
    source = Tokenizer.train(LINES * 3, "bpe", tags=("de", "en"))
    two = {"source_tokenizer": source, "target_languages": ["de", "en"]}
    table = {**translator_table(), "embedding": {"tied": "target"}}
    write_random_model(tmp_path / "mt" / "model", table, **two)
    for name in ("lm", "mt"):
        export(tmp_path / name / "model", tmp_path / name / "out")
        card = (tmp_path / name / "out" / "README.md").read_text()
        code = card.split("```python\n")[1].split("```")[0]
        exec(code.replace('"model', f'"{tmp_path / name / "out"}'), {})
    assert capsys.readouterr().out
    assert ">>de<<" in card and "license: mit" in card


def test_weights_can_be_quantised_and_int8_stays_int8(tmp_path: Path) -> None:
    write_random_model(tmp_path / "model", translator_table())
    sizes = {}
    for dtype in ("", "float16", "int8", "int8_float16"):
        export(tmp_path / "model", tmp_path / f"out-{dtype}", dtype)
        sizes[dtype] = (tmp_path / f"out-{dtype}" / "model.bin").stat().st_size
        ctranslate2.Translator(str(tmp_path / f"out-{dtype}"))
    assert sizes[""] > sizes["float16"] > sizes["int8_float16"]
    loaded = load_model(tmp_path / "model")
    save_model(tmp_path / "int8", loaded.config, int8_state_dict(loaded), loaded.tokenizers, "")
    assert "weights are in int8" in export(tmp_path / "int8", tmp_path / "out").checked[0]
    assert (tmp_path / "out" / "model.bin").stat().st_size == sizes["int8"]


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"mixer": "retention(4)", "position": "none"}, 'decoder.mixer is "retention"'),
        ({"position": "alibi"}, 'decoder.position is "alibi"'),
        ({"position": "rope(scaling='yarn(4)')"}, "decoder.position is \"rope\" with scaling = 'yarn'"),
        ({"mask": "causal & local(4)"}, "decoder.mask is "),
        ({"mixer": "attention(4, d_v=8)"}, "decoder.mixer has d_v = 8 beside d_k = 4"),
        ({"mixer": ["attention(4)", "attention(2)"]}, "decoder.mixer differs from layer to layer"),
        ({"feedforward": ["relu(8)", "gelu(8)"]}, "decoder.feedforward differs from layer to layer"),
        ({"mixer": {"kind": "attention", "heads": 4, "qk_norm": "layernorm"}}, 'qk_norm = "layernorm"'),
        ({"layers": 4, "distinct_layers": 2}, "decoder has distinct_layers"),
        ({"residual": "deepnorm"}, 'decoder.residual is "deepnorm"'),
    ],
)
def test_a_kind_that_it_does_not_compute_is_refused_by_its_name(
    changes: dict[str, Any], kind: str, tmp_path: Path
) -> None:
    write_random_model(tmp_path / "model", language_model_table(**changes), "causal")
    with pytest.raises(ConversionError, match=kind):
        export(tmp_path / "model", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_other_models_are_refused_too(tmp_path: Path) -> None:
    encoder = {**language_model_table()["decoder"], "layers": 1}
    masked = {"d_model": 16, "encoder": encoder, "decoder": {"layers": 0}, "head": "masked"}
    write_random_model(tmp_path / "masked", masked, "masked")
    with pytest.raises(ConversionError, match='no head "masked"'):
        export(tmp_path / "masked", tmp_path / "out")
    config = write_random_model(tmp_path / "model", translator_table(position="rope"))
    table = expand_table(config.model.to_dict())
    assert find_unsupported_kind(table) == 'encoder.position is "rope", which it has for language models alone'
    assert find_unsupported_kind({**table, "mixture": 1}) == "it has mixture"
    assert (
        find_unsupported_kind({**table, "head": {"kind": "logits", "bias": False, "scale": 2}}) == "head has scale = 2"
    )
    assert find_unsupported_kind({**table, "linear": {"kind": "bitnet"}}) == 'linear is "bitnet"'
    assert "segments = 2" in find_unsupported_kind({**table, "embedding": {**table["embedding"], "segments": 2}})
    assert find_unsupported_kind({**table, "decoder": {"layers": 0}}) == "it has no decoder"


def test_the_bundled_model_finds_what_our_search_finds(tmp_path: Path) -> None:
    bundled = Path(__file__).parents[3] / "headway" / "models" / "en-de"
    export(bundled, tmp_path / "out")
    lines = [pair.source for pair in toy_corpus(8)]
    loaded, tokenizer = load_model(bundled), open_tokenizer(tmp_path / "out")
    translator = ctranslate2.Translator(str(tmp_path / "out"), compute_type="float32")
    search = Search(beam_size=4, penalty="power", alpha=0.6)
    tokens = special_tokens(loaded.tokenizers.target)
    for line in lines:
        source = tokenizer.encode(f">>de<< {line}").ids
        ids = torch.tensor([source])
        ours = decode(ModelStepper(loaded.model), ids, special_tokens=tokens, search=search)[0][0].ids
        settings = {"beam_size": 4, "num_hypotheses": 4, "length_penalty": 0.6}
        found = translator.translate_batch([[*map(tokenizer.id_to_token, source)]], **settings)[0].hypotheses[0]
        assert [*map(tokenizer.token_to_id, found)] == ours


def test_imported_tokenizers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from convert.export.test_huggingface import write_sentencepiece_pair

    tokenizers = write_sentencepiece_pair(tmp_path)
    pair = {"tokenizer": tokenizers.target, "source_tokenizer": tokenizers.source}
    write_random_model(tmp_path / "model", translator_table(residual="post"), **pair)
    report = export(tmp_path / "model", tmp_path / "out")
    assert {"source.spm", "target.spm", "vocab.json"} < set(report.files)
    code = (tmp_path / "out" / "README.md").read_text().split("```python\n")[1].split("```")[0]
    exec(code.replace('"model"', f'"{tmp_path / "out"}"'), {})
    assert capsys.readouterr().out
    data = {name: value for name, value in tokenizers.source.to_json().items() if name != "vocabulary"}
    alone = ImportedTokenizer({**data, "special": {"pad": 0, "start": 1, "end": 2, "unknown": 0}, "tags": {}})
    write_random_model(tmp_path / "alone", translator_table(), tokenizer=alone)
    assert "tokenizer.model" in export(tmp_path / "alone", tmp_path / "a").files
    code = (tmp_path / "a" / "README.md").read_text().split("```python\n")[1].split("```")[0]
    exec(code.replace('"alone', f'"{tmp_path / "a"}'), {})
    assert capsys.readouterr().out
