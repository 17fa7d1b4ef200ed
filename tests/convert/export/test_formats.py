"""Exporting: what is refused, before anything is written, and what the report says."""

from pathlib import Path

import pytest
import torch
from random_models import language_model_table, translator_table, write_random_model

from headway.convert.architecture import ConversionError
from headway.convert.export.formats import FORMATS, export_model, find_format
from headway.convert.export.stored_model import open_model
from headway.errors import HeadwayError
from headway.storage.model_dir import load_model, save_model
from headway.storage.packing import int8_state_dict


def test_formats_and_types_that_do_not_exist_are_refused() -> None:
    with pytest.raises(HeadwayError, match='there is no format "hugging". Did you mean "huggingface"'):
        find_format("hugging")
    with pytest.raises(HeadwayError, match='cannot be "int3". Choose one of: float32, float16, bfloat16'):
        find_format("huggingface", "int3")
    for name in FORMATS:
        assert find_format(name).dtypes is not None


def test_a_folder_in_use_and_a_folder_without_a_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="is not a model directory: it has no config.json"):
        open_model(tmp_path)
    write_random_model(tmp_path / "model", language_model_table(), "causal")
    with pytest.raises(HeadwayError, match="model is not empty. Choose another --out"):
        export_model(open_model(tmp_path / "model"), "huggingface", tmp_path / "model")


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"mixer": "retention(4)", "position": "none"}, 'decoder.mixer is "retention"'),
        ({"position": "alibi"}, 'decoder.position is "alibi"'),
        ({"residual": "deepnorm"}, 'decoder.residual is "deepnorm"'),
        ({"mask": "causal & local(4)"}, "decoder.mask is "),
        ({"feedforward": "kan(8)"}, 'decoder.feedforward is "kan"'),
        ({"mixer": "attention(4, groups=2)"}, 'decoder.mixer is "attention" with groups = 2'),
        ({"mixer": ["attention(4)", "attention(2)"]}, 'decoder.mixer is several: "attention"'),
    ],
)
def test_a_kind_that_no_family_has_is_refused_by_its_name(changes: dict[str, str], kind: str, tmp_path: Path) -> None:
    write_random_model(tmp_path / "model", language_model_table(**changes), "causal")
    with pytest.raises(ConversionError, match=f"cannot be exported to huggingface: the nearest family is .*{kind}"):
        export_model(open_model(tmp_path / "model"), "huggingface", tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"model"}


def test_int8_weights_are_read_as_floats(tmp_path: Path) -> None:
    write_random_model(tmp_path / "model", translator_table())
    loaded = load_model(tmp_path / "model")
    save_model(tmp_path / "int8", loaded.config, int8_state_dict(loaded), loaded.tokenizers, "")
    opened = open_model(tmp_path / "int8")
    assert opened.is_int8 and "stored in int8" in opened.describe()[0]
    expected = load_model(tmp_path / "int8").model.state_dict()
    assert opened.weights.shapes() == {name: tuple(tensor.shape) for name, tensor in expected.items()}
    for name, tensor in expected.items():
        assert opened.weights.dtype(name) == torch.float32
        assert torch.equal(opened.weights.read(name), tensor)


def test_objectives_that_other_toolkits_do_not_have_are_refused(tmp_path: Path) -> None:
    write_random_model(tmp_path / "model", translator_table(), "denoising")
    with pytest.raises(HeadwayError, match="was trained by the objective denoising.* Fine-tune it"):
        open_model(tmp_path / "model")
