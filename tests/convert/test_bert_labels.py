"""BERT, RoBERTa and DistilBERT with a head for labels: scores are those of transformers, there and back."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file

from convert.language_models import stir
from convert.test_bert import MODELS, batch, import_encoder
from headway.convert.architecture import ConversionError
from headway.convert.export.formats import export_model
from headway.convert.export.stored_model import open_model
from headway.convert.huggingface.bert import read_bert
from headway.storage.model_dir import load_model
from headway.translate.task_model import TaskModel

NAMES = ["BERT", "RoBERTa", "DistilBERT"]
LABELS = {0: "bad", 1: "fair", 2: "good"}


def build(name: str, kind: str, **settings: Any) -> Any:
    family, sizes = MODELS[name]
    config = getattr(transformers, f"{family}Config")(**sizes, **settings)
    return stir(getattr(transformers, f"{family}{kind}")(config)).eval()


def imported(theirs: Any, folder: Path) -> TaskModel:
    theirs.save_pretrained(folder / "theirs")
    import_encoder(folder / "theirs", folder / "ours")
    return TaskModel(load_model(folder / "ours"))


@pytest.mark.parametrize("kind", ["ForSequenceClassification", "ForTokenClassification"])
@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_labels(name: str, kind: str, tmp_path: Path) -> None:
    theirs = build(name, kind, id2label=LABELS, label2id={label: n for n, label in LABELS.items()})
    ours = imported(theirs, tmp_path)
    assert ours.labels == ("bad", "fair", "good")
    assert ours.task == ("classify" if kind == "ForSequenceClassification" else "tag")
    ids, valid = batch(theirs.config.pad_token_id)
    network, theirs = ours.model.double(), theirs.double()
    segments = {}
    if name == "BERT":
        segments["token_type_ids"] = torch.randint(2, ids.shape)
    expected = theirs(ids, attention_mask=valid.long(), **segments).logits
    hidden = network.encode(ids, valid, segments=segments.get("token_type_ids")).values
    found = network.head(hidden, None, valid)
    real = valid if kind == "ForTokenClassification" else slice(None)
    torch.testing.assert_close(found[real], expected[real], rtol=0, atol=1e-9)
    # and back, bit for bit
    export_model(open_model(tmp_path / "ours"), "huggingface", tmp_path / "out")
    before, after = (load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "out"))
    assert not before.keys() ^ after.keys()
    first = theirs.config.pad_token_id + 1 if name == "RoBERTa" else 0  # rows before it are of no position
    for key, tensor in before.items():
        skip = first if "position_embeddings" in key else 0
        assert torch.equal(tensor[skip:], after[key][skip:]), key
    again = getattr(transformers, f"AutoModel{kind}").from_pretrained(tmp_path / "out")
    assert type(again) is type(theirs) and again.config.id2label == LABELS


@torch.no_grad()
def test_one_label_is_the_score_of_a_pair(tmp_path: Path) -> None:
    theirs = build("BERT", "ForSequenceClassification", num_labels=1)
    ours = imported(theirs, tmp_path)
    assert ours.task == "match" and ours.labels == ()
    tokenizer = transformers.PreTrainedTokenizerFast  # the pair as BERT's own tokenizer writes it
    assert tokenizer is not None
    ids = torch.tensor([[2, 5, 7, 3, 6, 8, 3]])
    segments = torch.tensor([[0, 0, 0, 0, 1, 1, 1]])
    expected = theirs(ids, token_type_ids=segments).logits
    assert ours.predict([("the cat", "a dog")])[0].score == pytest.approx(float(expected[0, 0]), abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"problem_type": "multi_label_classification"}, "do not exclude each other"),
        ({"id2label": {"0": "same", "1": "same"}}, "does not name each label once"),
        ({"id2label": {"0": "a", "2": "b"}}, "does not name each label once"),
    ],
)
def test_labels_that_cannot_be_read_are_refused(changes: dict[str, Any], message: str) -> None:
    config = {"architectures": ["BertForSequenceClassification"], **MODELS["BERT"][1], **changes}
    with pytest.raises(ConversionError, match=message):
        read_bert(config)


def test_labels_of_pairs_make_a_matcher() -> None:
    config = {"architectures": ["BertForSequenceClassification"], **MODELS["BERT"][1]}
    labels = {"0": "ENTAILMENT", "1": "neutral", "2": "contradiction"}
    assert read_bert({**config, "id2label": labels}).objective == "match"
    assert read_bert(config).labels == ("LABEL_0", "LABEL_1")


def test_a_graph_cannot_pool_over_padding() -> None:
    from headway.config.config import read_config
    from headway.config.presets import find_preset
    from headway.convert.export.traced.support import unsupported

    assert "the head takes the mean" in unsupported(read_config(find_preset("tiny_encoder")))
