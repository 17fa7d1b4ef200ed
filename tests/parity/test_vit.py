"""ViT against transformers: imported with random weights, layers, labels, vectors, and what becomes of pictures."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import CLIPImageProcessorPil, ViTConfig, ViTForImageClassification, ViTImageProcessorPil, ViTModel

from headway.config.presets import vit
from headway.convert.importer import ImportReport
from headway.convert.options import ImportOptions
from headway.convert.source import plan_import
from headway.data.pictures.transforms import cut_patches, fit_picture
from headway.errors import HeadwayError
from headway.nn.frontends.frontend import PatchBatch
from headway.nn.frontends.patches import Patches
from headway.storage.model_dir import load_model
from headway.translate.picture_model import PictureModel
from headway.translate.translator import load

SMALL: dict[str, Any] = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, "image_size": 12,
    "patch_size": 3, "hidden_dropout_prob": 0.0, "attn_implementation": "sdpa",
}  # fmt: skip
LABELS = {0: "cat", 1: "dog", 2: "tree"}


def save_random(kind: type, folder: Path, **changes: Any) -> Any:
    torch.manual_seed(0)
    model = kind(ViTConfig(**{**SMALL, "id2label": LABELS, "label2id": {n: i for i, n in LABELS.items()}, **changes}))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    ViTImageProcessorPil(size={"height": 12, "width": 12}).save_pretrained(folder)
    return model.double().eval()


def import_model(theirs: Path, ours: Path) -> ImportReport:
    return plan_import(str(theirs), ImportOptions()).write(ours)


def picture(width: int = 12, height: int = 12, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)


def cut(pixels: torch.Tensor) -> PatchBatch:
    values = torch.nn.functional.unfold(pixels, 3, stride=3).transpose(1, 2)
    return PatchBatch(values, torch.tensor([[side // 3 for side in pixels.shape[2:]]] * len(pixels)))


@torch.no_grad()
@pytest.mark.parametrize("shape", [(12, 12), (15, 6)])
def test_a_classifier_gives_the_same_scores(tmp_path: Path, shape: tuple[int, int]) -> None:
    theirs = save_random(ViTForImageClassification, tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    config, ours, _ = load_model(tmp_path / "ours")
    pixels = torch.randn(2, 3, *shape, dtype=torch.float64)
    memory = ours.double().encode(cut(pixels))
    expected = theirs(pixels, interpolate_pos_encoding=True, output_hidden_states=True)
    torch.testing.assert_close(ours.head(memory.values, None, None), expected.logits, rtol=0, atol=1e-9)
    assert config.labels == ("cat", "dog", "tree") and config.train.objective.kind == "classify"


@torch.no_grad()
def test_a_model_without_labels_gives_the_same_vectors(tmp_path: Path) -> None:
    theirs = save_random(ViTModel, tmp_path / "theirs")
    report = import_model(tmp_path / "theirs", tmp_path / "ours")
    assert "pooler" in report.lost[0]
    loaded = load(tmp_path / "ours", device="cpu")
    assert isinstance(loaded, PictureModel)
    pixels = torch.randn(2, 3, 12, 12, dtype=torch.float64)
    hidden = loaded.model.double().encode(cut(pixels)).values
    torch.testing.assert_close(hidden, theirs(pixels).last_hidden_state, rtol=0, atol=1e-9)
    loaded.model.float()
    one = Image.fromarray(picture())
    given = ViTImageProcessorPil(size={"height": 12, "width": 12})(one, return_tensors="pt")["pixel_values"]
    expected = theirs(given.double()).last_hidden_state[0, 0]
    np.testing.assert_allclose(loaded.embed([one])[0], expected.numpy(), rtol=1e-5, atol=1e-5)
    with pytest.raises(HeadwayError, match="makes vectors and has no labels: use embed"):
        loaded.predict([one])


@torch.no_grad()
@pytest.mark.parametrize(("width", "height"), [(12, 12), (31, 17), (5, 40)])
def test_a_picture_gives_the_same_labels(tmp_path: Path, width: int, height: int) -> None:
    """From the file on: resized, normalised, cut."""
    theirs = save_random(ViTForImageClassification, tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    Image.fromarray(picture(width, height)).save(tmp_path / "one.png")
    processor = ViTImageProcessorPil.from_pretrained(tmp_path / "theirs")
    given = processor(Image.open(tmp_path / "one.png"), return_tensors="pt")["pixel_values"].double()
    expected = theirs(given).logits[0].softmax(-1)
    model = load(tmp_path / "ours", device="cpu")
    assert isinstance(model, PictureModel)
    found = dict(model.predict([str(tmp_path / "one.png")])[0].labels)
    np.testing.assert_allclose([found[name] for name in LABELS.values()], expected.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("width", "height"), [(40, 23), (9, 31), (16, 16)])
def test_cutting_the_middle_is_that_of_clip(width: int, height: int) -> None:
    settings = Patches.Config(patch=4, size=16, fit="crop", resample="bicubic", mean=[0.4, 0.5, 0.6], deviation=[0.3])
    image = Image.fromarray(picture(width, height))
    processor = CLIPImageProcessorPil(
        size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16}, image_mean=[0.4, 0.5, 0.6],
        image_std=[0.3, 0.3, 0.3],
    )  # fmt: skip
    expected = processor(image, return_tensors="pt")["pixel_values"]
    found = cut_patches(fit_picture(image, settings), settings)
    patches = torch.nn.functional.unfold(expected, 4, stride=4)[0].T
    np.testing.assert_allclose(found.values, patches.numpy(), rtol=0, atol=1e-5)


def test_the_preset_has_the_paper_s_parameters() -> None:
    """86 million without its classifier."""
    with torch.device("meta"):
        theirs = ViTForImageClassification(ViTConfig(num_labels=1000))
    assert vit().model.parameter_count() == sum(p.numel() for p in theirs.parameters()) == 86_567_656


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architectures": ["ViTForMaskedImageModeling"]}, "a ViT can be imported if it labels pictures"),
        ({"image_size": [12, 24]}, "image_size = \\[12, 24\\] .* is not a size"),
        ({"qkv_bias": False}, "qkv_bias = False"),
        ({"preprocessor": {"resample": 1}}, "resample = 1 in its preprocessor_config.json"),
    ],
)
def test_what_it_cannot_read_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    save_random(ViTForImageClassification, tmp_path / "theirs")
    file = tmp_path / "theirs/config.json"
    if "preprocessor" in changes:
        file, changes = tmp_path / "theirs/preprocessor_config.json", changes["preprocessor"]
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    with pytest.raises(HeadwayError, match=message):
        import_model(tmp_path / "theirs", tmp_path / "ours")


def test_other_preprocessing_is_read(tmp_path: Path) -> None:
    save_random(ViTForImageClassification, tmp_path / "theirs")
    file = tmp_path / "theirs/preprocessor_config.json"
    file.write_text(json.dumps({"resample": 3, "do_center_crop": True, "do_normalize": False}))
    import_model(tmp_path / "theirs", tmp_path / "ours")
    frontend = load_model(tmp_path / "ours").config.model.encoder.frontend
    assert (frontend.resample, frontend.fit, frontend.mean, frontend.deviation) == ("bicubic", "crop", (0.0,), (1.0,))
    file.unlink()
    import_model(tmp_path / "theirs", tmp_path / "bare")
    assert load_model(tmp_path / "bare").config.model.encoder.frontend.fit == "stretch"
