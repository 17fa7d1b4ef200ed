"""Export to Hugging Face: transformers loads the folder without Headway, and computes what the model does."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from random_models import LINES, SIZES, language_model_table, translator_table, write_random_model
from tokenizers import Tokenizer as Library
from tokenizers import decoders
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedTokenizerFast,
)

import headway
from headway.config.config import read_config
from headway.config.presets import PRESETS
from headway.convert.architecture import ConversionError, find_family
from headway.convert.export.formats import ExportReport, export_model
from headway.convert.export.huggingface.format import HuggingFaceFormat
from headway.convert.export.huggingface.match import match_families
from headway.convert.export.stored_model import StoredModel, open_model
from headway.convert.importer import ImportPlan, list_shapes
from headway.convert.weight_files import TensorsSource, open_weights
from headway.data.toy import toy_corpus
from headway.storage.model_dir import load_model, read_tensors
from headway.text.tokenizer.imported import ImportedTokenizer
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Tokenizer


def export(folder: Path, dtype: str = "") -> ExportReport:
    """From folder/model to folder/out."""
    return export_model(open_model(folder / "model"), "huggingface", folder / "out", dtype)


def assert_same_after_import(folder: Path) -> None:
    """What the family's reader makes of the exported weights is the model, bit for bit."""
    config = json.loads((folder / "out" / "config.json").read_text())
    tokenizers = load_model(folder / "model").tokenizers
    plan = ImportPlan(
        architecture=find_family(config["model_type"])(config),
        weights=open_weights(folder / "out"),
        tokenizers=tokenizers,
    )
    plan.write(folder / "again")
    before, after = (read_tensors(folder / name / "model.safetensors") for name in ("model", "again"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


LLAMA = {"position": "rope", "feedforward": "swiglu(32)", "mixer": "attention(4, groups=2, bias=false)"}
ROPE_SCALING = "rope(base=5e5, layout='halves', scaling='llama3(4, length=32)')"
QWEN3 = {"kind": "attention", "heads": 2, "d_k": 6, "bias": False, "qk_norm": "rmsnorm"}
CAUSAL_FAMILIES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("GPT-2", {}, {}),
    ("GPT-2", {"feedforward": "gelu_tanh(32)", "position": "learned(80)"}, {"tied": "none"}),
    ("GPT-2", {"feedforward": "gelu(32, bias=false)", "mixer": "attention(2, bias=false)"}, {}),
    ("GPT-NeoX", {"position": "rope"}, {}),
    (
        "GPT-NeoX",
        {"position": "rope(base=500, layout='halves')", "mixer": "attention(2, bias=false)"},
        {"tied": "none"},
    ),
    ("Llama", LLAMA, {}),
    ("Llama", {**LLAMA, "position": ROPE_SCALING, "feedforward": "swiglu(32, bias=true)"}, {"tied": "none"}),
    ("Mistral", {**LLAMA, "mask": "causal & local(3)"}, {}),
    ("Qwen2", {**LLAMA, "mixer": "attention(4, bias=true, output_bias=false)"}, {}),
    ("Qwen2", {**LLAMA, "mixer": "attention(4, output_bias=false)", "mask": ["causal", "causal & local(3)"]}, {}),
    ("Qwen3", {**LLAMA, "mixer": QWEN3}, {}),
]


@torch.no_grad()
@pytest.mark.parametrize(("family", "changes", "embedding"), CAUSAL_FAMILIES)
def test_a_language_model_becomes_that_of_a_family(
    family: str, changes: dict[str, Any], embedding: dict[str, Any], tmp_path: Path
) -> None:
    norm = "rmsnorm(1e-6)" if "swiglu" in str(changes) else "layernorm(1e-5)"
    table = {**language_model_table(**changes), "norm": norm, "embedding": {"scale": False, **embedding}}
    write_random_model(tmp_path / "model", table, "causal")
    report = export(tmp_path)
    assert report.format == f"Hugging Face ({family})"
    is_qwen2 = family == "Qwen2"
    assert any("AutoTokenizer" in line for line in report.lost) == is_qwen2
    assert (report.lost[-1:] == ("texts of more than 1024 tokens",)) == (family != "GPT-2")
    ours = headway.load(tmp_path / "model")
    assert isinstance(ours, headway.LanguageModel)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    ids = torch.randint(0, 320, (3, 20))
    torch.testing.assert_close(theirs(ids).logits, ours.model.logits(ours.model(None, ids).hidden), rtol=0, atol=1e-5)
    tokenizer = (PreTrainedTokenizerFast if is_qwen2 else AutoTokenizer).from_pretrained(tmp_path / "out")
    for prompt in ("The dog", ""):
        found = theirs.generate(**tokenizer(prompt, return_tensors="pt"), do_sample=False, max_new_tokens=12)[0]
        assert tokenizer.decode(found, skip_special_tokens=True) == ours(prompt, beam_size=1, length=12)
    is_rewritten = changes.get("position") == "rope" or (family == "GPT-2" and "bias=false" in str(changes))
    if not is_rewritten:
        assert_same_after_import(tmp_path)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "bytes", "characters", "wordpiece"])
def test_the_tokenizer_of_a_language_model_gives_our_ids(kind: str, tmp_path: Path) -> None:
    texts = [*LINES, " leading", "\n\nlines\n", "⟨pad⟩ ⟨/s⟩ ⟨to:de⟩ >>de<<", "\t", "12,345.6"]
    write_random_model(tmp_path / "model", language_model_table(), "causal", Tokenizer.train(LINES * 3, kind))
    export(tmp_path)
    ours = headway.load(tmp_path / "model")
    assert isinstance(ours, headway.LanguageModel)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in texts:
        ids = tokenizer(text).input_ids
        assert ids == [ours.special_tokens.start, *ours.encode(text)]
        if kind != "wordpiece":
            assert tokenizer.decode(ids) == text
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id) == (0, 2)


def test_the_card_says_how_to_use_it_and_weights_can_be_halved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_random_model(tmp_path / "model", language_model_table(), "causal")
    report = export(tmp_path, "bfloat16")
    assert "28 tensors in bfloat16" in report.checked[1]
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "out").dtype == torch.bfloat16
    card = (tmp_path / "out" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers\nlicense: mit\n---\n")
    code = card.split("```python\n")[1].split("```")[0].replace('"model"', f'"{tmp_path / "out"}"')
    exec(code, {})
    assert capsys.readouterr().out.startswith("Once")


def test_an_imported_model_is_exported_with_its_own_tokenizer(tmp_path: Path) -> None:
    library = Library.from_str(json.dumps(Tokenizer.train([], "bytes").to_json()))
    library.normalizer = None
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens(["<|endoftext|>"])
    special = {"pad": 320, "start": 320, "end": 320}
    tokenizer = ImportedTokenizer({"imported": "tokenizers", "model": json.loads(library.to_str()), "special": special})
    write_random_model(tmp_path / "model", language_model_table(), "causal", tokenizer)
    export(tmp_path)
    assert_same_after_import(tmp_path)
    exported = Library.from_file(str(tmp_path / "out" / "tokenizer.json"))
    assert json.loads(exported.to_str()) == tokenizer.to_json()["model"]
    assert AutoTokenizer.from_pretrained(tmp_path / "out").eos_token_id == 320


@torch.no_grad()
def test_a_masked_language_model_becomes_bert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    side = {**SIZES, "feedforward": "gelu(32)", "residual": "post", "position": "learned(64)"}
    table = {
        "d_model": 16, "encoder": side, "decoder": {"layers": 0}, "head": "masked", "norm": "layernorm(1e-12)",
        "embedding": {"scale": False, "norm": True, "segments": 2},
    }  # fmt: skip
    write_random_model(tmp_path / "model", table, "masked", Tokenizer.train(LINES * 3, "wordpiece"))
    assert export(tmp_path).format == "Hugging Face (BERT)"
    ours, theirs = load_model(tmp_path / "model").model, AutoModelForMaskedLM.from_pretrained(tmp_path / "out").eval()
    ids = torch.randint(0, 128, (3, 20))
    torch.testing.assert_close(theirs(ids).logits, ours.logits(ours.encode(ids).values), rtol=0, atol=1e-5)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    loaded = headway.load(tmp_path / "model")
    assert isinstance(loaded, headway.LanguageModel)
    assert tokenizer(LINES[0]).input_ids == [loaded.special_tokens.start, *loaded.encode(LINES[0])]
    assert tokenizer.mask_token_id in tokenizer(f"The {tokenizer.mask_token} is").input_ids
    code = (tmp_path / "out" / "README.md").read_text().split("```python\n")[1].split("```")[0]
    exec(code.replace('"model"', f'"{tmp_path / "out"}"'), {})
    assert capsys.readouterr().out


PRESET_FAMILIES = {
    "tiny": "Pegasus", "small": "Pegasus", "medium": "Pegasus", "base": "Marian", "big": "Marian",
    "tiny_lm": "GPT-NeoX", "small_lm": "GPT-NeoX", "gpt2": "GPT-2", "gpt2-medium": "GPT-2", "gpt2-large": "GPT-2",
    "gpt2-xl": "GPT-2", "bert": "BERT", "bert-large": "BERT", "bert-tiny": "BERT", "t5": "T5", "xlnet": "XLNet",
    "retnet": 'decoder.mixer is "retention"',
    "tiny_encoder": 'encoder.position is "rope"', "small_encoder": 'encoder.position is "rope"',
}  # fmt: skip


# Of pictures, graphs and neighbours: tests of their own say that they are refused.
ELSEWHERE = {"vit", "vit_tiny", "transnar", "retro"}


@pytest.mark.parametrize("name", [name for name in PRESETS if name not in ELSEWHERE])
def test_every_preset_has_a_family_but_retnet(name: str, tmp_path: Path) -> None:
    """In its full size, but without weights: only their shapes are looked at."""
    preset = PRESETS[name]
    kind = "wordpiece" if name.startswith("bert") else "bytes"
    tokenizer = Tokenizer.train(LINES, kind)
    sizes = {"vocabulary": tokenizer.size}
    train = {"objective": "translation", **preset.get("train", {})}
    if name == "t5":  # fine-tuned
        train["objective"] = "translation"
    config = read_config({"model": {**preset["model"], **sizes}, "train": train})
    shapes = TensorsSource({name: torch.empty(shape, device="meta") for name, shape in list_shapes(config).items()})
    model = StoredModel(tmp_path, config, Tokenizers(tokenizer, tokenizer), shapes, False)
    match = match_families(model)[0]
    if " is " in PRESET_FAMILIES[name]:
        assert PRESET_FAMILIES[name] in HuggingFaceFormat().unsupported(model)
    else:
        assert not match.differences
        assert match.family.name == PRESET_FAMILIES[name]
        assert match.architecture is not None
        assert {rule.ours for rule in match.architecture.rules} == set(match.weights.shapes())


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize(
    "name", [name for name in PRESETS if name not in ("big", "retnet", "gpt2-large", "gpt2-xl", "bert-large")]
)
def test_presets_in_full_size(name: str, tmp_path: Path) -> None:
    preset = PRESETS[name]
    train = preset.get("train", {})
    objective = train.get("objective", "translation")
    tokenizer = Tokenizer.train(LINES, "wordpiece" if name.startswith("bert") else "bytes")
    # With larger weights, wide models multiply the rounding of float32 tables of positions by thousands.
    write_random_model(tmp_path / "model", preset["model"], objective, tokenizer, noise=0.02)
    export(tmp_path)
    ours = load_model(tmp_path / "model").model.double()
    ids = torch.randint(4, tokenizer.size, (2, 16))
    maker: Any = {
        "translation": AutoModelForSeq2SeqLM, "causal": AutoModelForCausalLM, "masked": AutoModelForMaskedLM,
    }[objective]  # fmt: skip
    theirs = maker.from_pretrained(tmp_path / "out").eval().double()
    if objective == "translation":
        found, own = theirs(input_ids=ids, decoder_input_ids=ids).logits, ours(ids, ids).hidden
    else:
        found, own = theirs(ids).logits, ours.encode(ids).values if objective == "masked" else ours(None, ids).hidden
    torch.testing.assert_close(found, ours.logits(own), rtol=1e-6, atol=1e-5)


def write_sentencepiece_pair(folder: Path) -> Tokenizers:
    """Two models over one vocabulary, as OPUS-MT has them, with a language tag."""
    lines, models = [*LINES, *(pair.source for pair in toy_corpus(200))], []
    for seed, side in enumerate((lines, [line.upper() for line in lines])):
        data = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(side), model_writer=data, vocab_size=90 + seed, model_type="unigram",
            character_coverage=1.0, minloglevel=2, hard_vocab_limit=False,
        )  # fmt: skip
        models.append(data.getvalue())
    pieces: dict[str, int] = {"</s>": 0, "<unk>": 1, ">>fra<<": 2}
    for model in models:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        for n in range(3, processor.GetPieceSize()):
            pieces.setdefault(processor.IdToPiece(n), len(pieces))
    pieces["<pad>"] = len(pieces)
    special = {"pad": pieces["<pad>"], "start": pieces["<pad>"], "end": 0, "unknown": 1}
    sides = [
        ImportedTokenizer({
            "imported": "sentencepiece", "model": base64.b64encode(model).decode(), "vocabulary": list(pieces),
            "special": special, "tags": {"fra": 2} if n == 0 else {},
        })
        for n, model in enumerate(models)
    ]  # fmt: skip
    return Tokenizers(sides[0], sides[1])


def test_the_sentencepiece_models_of_marian_come_back(tmp_path: Path) -> None:
    tokenizers = write_sentencepiece_pair(tmp_path)
    table = translator_table(residual="post", position="sinusoidal(layout='halves')")
    more = {"source_languages": ["en"], "target_languages": ["fra"]}
    write_random_model(
        tmp_path / "model", table, tokenizer=tokenizers.target, source_tokenizer=tokenizers.source, **more
    )
    export(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert type(theirs).__name__ == "MarianTokenizer"
    for line in filter(None, LINES):
        assert theirs(line).input_ids == [*tokenizers.source.encode(line), 0]
        assert theirs(f">>fra<< {line}").input_ids == [2, *tokenizers.source.encode(line), 0]
        assert theirs(text_target=line.upper()).input_ids == [*tokenizers.target.encode(line.upper()), 0]
    out = tmp_path / "out"
    assert (out / "source.spm").read_bytes() == base64.b64decode(tokenizers.source.to_json()["model"])
    assert not (out / "target_vocab.json").exists()
    write_random_model(tmp_path / "pre", {**table, **translator_table()}, tokenizer=tokenizers.source)
    with pytest.raises(
        ConversionError, match="without tokenizer.json, and .* what the pegasus family does to text before is not known"
    ):
        export_model(open_model(tmp_path / "pre"), "huggingface", tmp_path / "refused")
