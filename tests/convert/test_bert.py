"""BERT, RoBERTa and DistilBERT: masked words, pooled output and sentence embeddings are those of transformers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from random_models import write_random_model
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Library
from transformers import PreTrainedTokenizerFast

from convert.language_models import check_round_trip, stir
from headway.cli.app import main
from headway.config.presets import PRESETS
from headway.convert.architecture import ConversionError, find_family
from headway.convert.export.formats import export_model
from headway.convert.export.stored_model import open_model
from headway.convert.huggingface.bert import read_bert, read_roberta
from headway.convert.huggingface.sentence_transformers import read_sentence_modules
from headway.convert.importer import ImportPlan
from headway.convert.json_files import read_json_object
from headway.convert.weight_files import open_weights
from headway.errors import HeadwayError
from headway.nn.transformer import valid_mask
from headway.storage.model_dir import load_model
from headway.text.tokenizer.imported import ImportedTokenizer
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.translate.language_model import LanguageModel

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "a",
    "cat",
    "dog",
    "sat",
    "on",
    "mat",
    "##s",
    "red",
    ".",
    ",",
    "big",
]
SIZES: dict[str, Any] = {
    "vocab_size": len(WORDS), "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3,
    "intermediate_size": 20, "max_position_embeddings": 16, "layer_norm_eps": 1e-3, "pad_token_id": 0,
}  # fmt: skip
DISTIL: dict[str, Any] = {
    "vocab_size": len(WORDS), "dim": 12, "n_layers": 2, "n_heads": 3, "hidden_dim": 20, "max_position_embeddings": 16,
    "pad_token_id": 0,
}  # fmt: skip
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "BERT": ("Bert", SIZES),
    "BERT, relu": ("Bert", {**SIZES, "hidden_act": "relu", "tie_word_embeddings": False}),
    "RoBERTa": ("Roberta", {**SIZES, "type_vocab_size": 1, "max_position_embeddings": 17}),
    "DistilBERT": ("DistilBert", {**DISTIL, "activation": "gelu"}),
}
LINES = ["the cat sat on the mat .", "a dog", "", "red , big cats sat on the red mat", "zebra"]


def wordpiece() -> Library:
    library = Library(models.WordPiece(vocab={word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
    library.normalizer = normalizers.BertNormalizer(lowercase=True)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece()
    library.add_special_tokens([AddedToken(word, special=True) for word in WORDS[:5]])
    return library


def imported_tokenizer() -> ImportedTokenizer:
    special = {"pad": 0, "unknown": 1, "start": 2, "end": 3, "mask": 4}
    return ImportedTokenizer({"imported": "tokenizers", "model": json.loads(wordpiece().to_str()), "special": special})


def import_encoder(folder: Path, out: Path) -> LanguageModel:
    config = read_json_object(folder / "config.json")
    config["sentence_embedding"] = read_sentence_modules(folder)
    tokenizer = imported_tokenizer()
    ImportPlan(
        architecture=find_family(config["model_type"])(config),
        weights=open_weights(folder),
        tokenizers=Tokenizers(tokenizer, tokenizer),
    ).write(out)
    return LanguageModel(load_model(out))


def build(name: str, kind: str) -> Any:
    family, sizes = MODELS[name]
    return stir(getattr(transformers, f"{family}{kind}")(getattr(transformers, f"{family}Config")(**sizes)))


def batch(pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random ids, padded with an id that occurs nowhere else: RoBERTa counts positions without it."""
    valid = valid_mask(torch.tensor([9, 4, 6]), 9)
    return torch.randint(2, len(WORDS), (3, 9)).masked_fill(~valid, pad), valid


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_masked_words(name: str, tmp_path: Path) -> None:
    theirs = build(name, "ForMaskedLM")
    theirs.save_pretrained(tmp_path / "theirs")
    ours = import_encoder(tmp_path / "theirs", tmp_path / "ours")
    ids, valid = batch(theirs.config.pad_token_id)
    wanted = theirs(input_ids=ids, attention_mask=valid.long()).logits
    found = ours.model.logits(ours.model.encode(ids, valid).values)
    torch.testing.assert_close(found[valid], wanted[valid], rtol=1e-5, atol=1e-5)
    assert ours.config.train.max_tokens == 16 and wanted.std() > 0.1
    check_round_trip(tmp_path / "theirs")


@pytest.mark.parametrize("name", ["BERT", "RoBERTa"])
@torch.no_grad()
def test_pooled_output(name: str, tmp_path: Path) -> None:
    theirs = build(name, "Model")
    theirs.save_pretrained(tmp_path / "theirs")
    ours = import_encoder(tmp_path / "theirs", tmp_path / "ours")
    ids, valid = batch(theirs.config.pad_token_id)
    wanted = theirs(input_ids=ids, attention_mask=valid.long()).pooler_output
    found = ours.model.head.vector(ours.model.encode(ids, valid).values, valid)  # type: ignore[operator]
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("said", ["BertForPreTraining", "BertForMaskedLM"])
def test_next_sentences(said: str, tmp_path: Path) -> None:
    """Both heads, with token types, in float64; and back. Some config.json name the class without the second head."""
    theirs = build("BERT", "ForPreTraining")
    theirs.save_pretrained(tmp_path / "theirs")
    config = read_json_object(tmp_path / "theirs" / "config.json")
    (tmp_path / "theirs" / "config.json").write_text(json.dumps({**config, "architectures": [said]}))
    ours = import_encoder(tmp_path / "theirs", tmp_path / "ours")
    ids, valid = batch(theirs.config.pad_token_id)
    segments = ((torch.arange(9) >= 3) & valid).long()
    theirs, network = theirs.double(), ours.model.double()
    wanted = theirs(input_ids=ids, attention_mask=valid.long(), token_type_ids=segments)
    hidden = network.encode(ids, valid, segments=segments).values
    torch.testing.assert_close(network.logits(hidden)[valid], wanted.prediction_logits[valid], rtol=0, atol=1e-9)
    found = network.head.next_sentence(hidden)  # type: ignore[operator]
    torch.testing.assert_close(found, wanted.seq_relationship_logits, rtol=0, atol=1e-9)
    assert not torch.allclose(found, network.head.next_sentence(network.encode(ids, valid).values))  # type: ignore[operator]
    row = torch.tensor([[2, 5, 7, 3, 6, 8, 9, 3]])
    types = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1]])
    logits = theirs(input_ids=row, token_type_ids=types).seq_relationship_logits
    assert ours.follows("the cat", "a dog sat") == pytest.approx(float(logits.softmax(-1)[0, 0]), rel=1e-6)
    if said == "BertForPreTraining":
        check_round_trip(tmp_path / "theirs")
    with pytest.raises(HeadwayError, match="these two texts have 27 tokens, and the model reads 16"):
        ours.follows("the cat " * 6, "a dog " * 6)


@torch.no_grad()
def test_a_model_of_ours_with_both_heads_is_exported(tmp_path: Path) -> None:
    """transformers computes what ours does, with the tokenizer that stands beside it."""
    lines = ["the cat sat on the mat .", "a dog saw the cat , and the red mats ."]
    tokenizer = Tokenizer.train(lines, "wordpiece")
    side = {"layers": 2, "mixer": "attention(3)", "position": "learned(64)", "feedforward": "gelu(20)"}
    table = {**PRESETS["bert"]["model"], "d_model": 12, "dropout": 0.0, "encoder": side}
    write_random_model(tmp_path / "model", table, "masked", tokenizer)
    ours = LanguageModel(load_model(tmp_path / "model"))
    assert main(["export", str(tmp_path / "model"), "--to", "huggingface", "--out", str(tmp_path / "out")]) == 0
    theirs = transformers.BertForPreTraining.from_pretrained(tmp_path / "out").eval()
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    given = reader("the cat sat", "a dog", return_tensors="pt")
    wanted = theirs(**given)
    left, right = ours.frame(ours.encode("the cat sat")), [*ours.encode("a dog"), tokenizer.end]
    assert given.input_ids[0].tolist() == left + right
    assert given.token_type_ids[0].tolist() == [0] * len(left) + [1] * len(right)
    assert ours.follows("the cat sat", "a dog") == pytest.approx(
        float(wanted.seq_relationship_logits.softmax(-1)[0, 0]), rel=1e-5
    )
    assert reader("the cat sat").input_ids == ours.frame(ours.encode("the cat sat"))
    [[best]] = ours.fill("the [MASK] sat", 1)
    spelled = reader.mask_token
    logits = theirs(**reader(f"the {spelled} sat", return_tensors="pt")).prediction_logits[0, 2]
    assert best.probability == pytest.approx(float(logits.softmax(-1).max()), rel=1e-5)


def write_modules(folder: Path, pooling: str, normalise: bool) -> None:
    kinds = ["Transformer", "Pooling", *["Normalize"] * normalise]
    modules = [
        {"idx": n, "path": f"{n}_{kind}" if n else "", "type": f"sentence_transformers.models.{kind}"}
        for n, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    modes = {f"pooling_mode_{mode}": mode == pooling for mode in ("cls_token", "mean_tokens", "max_tokens")}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 12, **modes}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 6, "do_lower_case": False}))


@pytest.mark.parametrize(
    ("name", "pooling", "normalise"),
    [
        ("BERT", "mean_tokens", True),
        ("RoBERTa", "max_tokens", False),
        ("DistilBERT", "cls_token", True),
    ],
)
@torch.no_grad()
def test_sentence_embeddings(name: str, pooling: str, normalise: bool, tmp_path: Path) -> None:
    """By the formulas of sentence-transformers over the outputs of transformers, in one batch with padding."""
    theirs = build(name, "Model")
    theirs.save_pretrained(tmp_path / "theirs")
    write_modules(tmp_path / "theirs", pooling, normalise)
    ours = import_encoder(tmp_path / "theirs", tmp_path / "ours")
    frame = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=wordpiece(), **frame)
    rows = [[2, *tokenizer(line, add_special_tokens=False)["input_ids"][:4], 3] for line in LINES]
    for line, row in zip(LINES, rows):
        hidden = theirs(input_ids=torch.tensor([row])).last_hidden_state[0]
        wanted = {"mean_tokens": hidden.mean(0), "max_tokens": hidden.amax(0), "cls_token": hidden[0]}[pooling]
        wanted = torch.nn.functional.normalize(wanted, dim=0) if normalise else wanted
        np.testing.assert_allclose(ours.embed([line])[0], wanted.numpy(), rtol=1e-5, atol=1e-5)
    together = ours.embed(LINES)
    np.testing.assert_allclose(together, [ours.embed([line])[0] for line in LINES], rtol=1e-5, atol=1e-5)
    assert together.shape == (5, 12) and together.dtype == np.float32
    assert ours.embed([]).shape == (0, 12)
    report = export_model(open_model(tmp_path / "ours"), "huggingface", tmp_path / "out")
    assert {"modules.json", "1_Pooling/config.json", "sentence_bert_config.json"} <= set(report.files)
    assert read_sentence_modules(tmp_path / "out") == read_sentence_modules(tmp_path / "theirs")
    assert "SentenceTransformer(" in (tmp_path / "out" / "README.md").read_text()
    again = transformers.AutoModel.from_pretrained(tmp_path / "out").eval()
    for row in rows:
        ids = torch.tensor([row])
        assert torch.equal(again(ids).last_hidden_state, theirs(ids).last_hidden_state)
    import_encoder(tmp_path / "out", tmp_path / "again")
    for file in ("config.json", "model.safetensors"):
        assert (tmp_path / "again" / file).read_bytes() == (tmp_path / "ours" / file).read_bytes()
    with pytest.raises(HeadwayError, match='the head "embedding", which predicts no tokens'):
        ours.perplexity("the cat sat on the mat and the dog sat on the cat")
    with pytest.raises(HeadwayError, match="guesses no masked words"):
        ours.fill("the [MASK]")
    with pytest.raises(HeadwayError, match="a list of texts"):
        ours.embed("the cat")


@torch.no_grad()
def test_masked_words_of_a_text_are_guessed(tmp_path: Path) -> None:
    theirs = build("BERT", "ForMaskedLM")
    theirs.save_pretrained(tmp_path / "theirs")
    ours = import_encoder(tmp_path / "theirs", tmp_path / "ours")
    found = ours.fill("The <mask> sat on [MASK].", candidates=3)
    ids = torch.tensor([[2, 5, 4, 9, 10, 4, 14, 3]])
    best = theirs(input_ids=ids).logits[0, [2, 5]].softmax(-1).topk(3)
    words = [[WORDS[n].removeprefix("##") for n in row] for row in best.indices.tolist()]
    controls = set(WORDS[:1] + WORDS[2:5])
    assert [[word.text for word in row] for row in found] == [
        ["" if word in controls else "\N{REPLACEMENT CHARACTER}" if word == "[UNK]" else word for word in row]
        for row in words
    ]
    np.testing.assert_allclose([[w.probability for w in row] for row in found], best.values, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(ours.embed(LINES), axis=1), 1.0, rtol=1e-5)
    for text, candidates, message in (
        ("the cat", 5, "nothing to guess"),
        ("[MASK]", 0, "candidates = 0"),
        ("[MASK] " * 20, 5, "this text has 22 tokens, and the model reads 16"),
    ):
        with pytest.raises(HeadwayError, match=message):
            ours.fill(text, candidates)
    with pytest.raises(HeadwayError, match="it cannot continue a text"):
        ours("the cat")


def test_old_names_and_names_without_the_prefix_are_known(tmp_path: Path) -> None:
    """As the first checkpoints of BERT: gamma and beta; as those of GPT-2: no prefix."""
    theirs = build("BERT", "ForMaskedLM")
    theirs.save_pretrained(tmp_path / "theirs")
    weights = tmp_path / "theirs" / "model.safetensors"
    norms = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    old = {}
    for name, tensor in load_file(weights).items():
        end = ".".join(name.rsplit(".", 2)[1:])
        old[name.removeprefix("bert.").replace(end, norms.get(end, end))] = tensor
    old |= {"pooler.dense.weight": torch.zeros(12, 12), "cls.seq_relationship.bias": torch.zeros(2)}
    save_file(old, weights)
    ours = import_encoder(tmp_path / "theirs", tmp_path / "ours")
    assert torch.equal(ours.model.head.norm.gain, theirs.cls.predictions.transform.LayerNorm.weight)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architectures": ["BertForQuestionAnswering"]}, "architectures = .*not with another head"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"is_decoder": True}, "is_decoder"),
        ({"hidden_act": "tanh"}, "hidden_act = 'tanh'"),
    ],
)
def test_other_heads_and_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        read_bert({**SIZES, **changes})
    with pytest.raises(ConversionError, match="pad_token_id = None"):
        read_roberta({**SIZES, "pad_token_id": None})


def test_modules_that_do_more_are_refused(tmp_path: Path) -> None:
    assert read_sentence_modules(tmp_path) is None
    write_modules(tmp_path, "mean_tokens", normalise=True)
    assert read_sentence_modules(tmp_path) == {"pooling": "mean", "normalise": True, "max_tokens": 6}
    pooling, settings = tmp_path / "1_Pooling" / "config.json", tmp_path / "sentence_bert_config.json"
    for mode in ({"pooling_mode_lasttoken": True}, {}, {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": 1}):
        pooling.write_text(json.dumps(mode))
        with pytest.raises(ConversionError, match="of its Pooling module is not supported"):
            read_sentence_modules(tmp_path)
    pooling.write_text(json.dumps({"pooling_mode": "cls"}))
    settings.write_text(json.dumps({"do_lower_case": True}))
    with pytest.raises(ConversionError, match="do_lower_case is not supported"):
        read_sentence_modules(tmp_path)
    modules = tmp_path / "modules.json"
    modules.write_text(json.dumps([{"type": "a.Transformer", "path": ""}, {"type": "a.Dense", "path": "x"}]))
    with pytest.raises(ConversionError, match="Transformer, Dense cannot be imported"):
        read_sentence_modules(tmp_path)
    modules.write_text(json.dumps([{"type": "a.Transformer", "path": "../../etc"}]))
    with pytest.raises(HeadwayError, match="outside of its own"):
        read_sentence_modules(tmp_path)
    for damaged in ("{", "3", "[1]", "[" * 100_000):
        modules.write_text(damaged)
        with pytest.raises(HeadwayError, match="modules.json is damaged"):
            read_sentence_modules(tmp_path)
