"""A model of pictures: trained, saved, loaded, resumed exactly, fine-tuned, looked into; and what it refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from data.pictures.drawn import SIDES, draw, make_rows, write_folder
from PIL import Image
from quick_training import PAIRS
from quick_training import QUICK as TRANSLATOR

import headway
from headway.config.config import read_config
from headway.config.presets import choose_picture_preset, find_preset
from headway.errors import ConfigError, HeadwayError
from headway.nn.frontends.frontend import PatchBatch
from headway.serve.served_model import read_served_model
from headway.storage.model_dir import load_model, read_tensors
from headway.train.config import TrainConfig
from headway.train.options import TrainOptions
from headway.train.picture_dataset import PictureDataset
from headway.train.python_data import read_task_texts
from headway.train.sources import TrainingFiles
from headway.translate.picture_model import PictureModel

SMALL: dict[str, Any] = {
    "model.d_model": 16, "model.encoder.layers": 1, "model.encoder.mixer": "attention(2)",
    "model.encoder.feedforward": "gelu(24)", "model.dropout": 0.0, "model.encoder.frontend.patch": 4,
    "model.encoder.frontend.size": 12, "train.batch_tokens": 200, "train.schedule": "constant(0.01)",
    "train.validate_every": 20, "train.log_every": 20, "train.augmentation": "none", "train.average": 1,
}  # fmt: skip


def train(rows: Any, out: Path, **keywords: Any) -> Any:
    options = {"task": "classify", "preset": "vit_tiny", "device": "cpu", "progress": False, **keywords}
    return headway.train(rows, out=out, **{**options, "set": {**SMALL, **keywords.get("set", {})}})


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("pictures") / "model"
    train(make_rows(80), out, steps=40)
    return out


@pytest.fixture
def model(model_dir: Path) -> PictureModel:
    loaded = headway.load(model_dir, device="cpu")
    assert isinstance(loaded, PictureModel)
    return loaded


def test_it_learns_and_predicts(model: PictureModel, model_dir: Path, tmp_path: Path) -> None:
    assert model.labels == SIDES and model.config.labels == SIDES and "PictureModel" in repr(model)
    rows = make_rows(24, first=1000)
    found = model.predict([pixels for pixels, _ in rows])
    assert np.mean([p.label == label for p, (_, label) in zip(found, rows)]) > 0.9
    assert sum(one.probability for one in found[0].labels) == pytest.approx(1)
    Image.fromarray(rows[1][0]).save(tmp_path / "a.png")
    path = tmp_path / "a.png"
    given = [path, str(path), path.read_bytes(), Image.open(path)]
    assert {p.labels for p in model.predict(given)} == {found[1].labels}
    assert len(model.predict(given, top_k=2)[0].labels) == 2
    assert "72 pictures" in (model_dir / "README.md").read_text()


def test_predictions_do_not_depend_on_others(model: PictureModel) -> None:
    pictures = [draw("left", 1), draw("top", 2, 40), Image.fromarray(draw("right", 3, 5)).convert("L")]
    together, vectors = model.predict(pictures), model.embed(pictures)
    for number, picture in enumerate(pictures):
        assert model.predict([picture])[0].probability == pytest.approx(together[number].probability, abs=1e-6)
        np.testing.assert_allclose(model.embed([picture])[0], vectors[number], rtol=0, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_pictures_of_any_shape_in_one_batch(tmp_path: Path) -> None:
    """fit = "keep": grids of different sizes, padded; with sinusoidal positions and without a class token."""
    frontend = {"kind": "patches", "patch": 4, "size": 12, "fit": "keep"}
    frontend |= {"position": "sinusoidal", "class_token": False}
    rows = [(pixels[: 6 + n % 7], label) for n, (pixels, label) in enumerate(make_rows(40)) if n % 4 in (1, 2)]
    train(rows, tmp_path / "m", steps=30, set={"model.encoder.frontend": frontend, "model.head.pooling": "mean"})
    model = headway.load(tmp_path / "m", device="cpu")
    assert isinstance(model, PictureModel)
    tall, wide = draw("left", 7, 24)[:, :8], draw("left", 8, 24)[:8]
    both, alone = model.predict([tall, wide]), [model.predict([one])[0] for one in (tall, wide)]
    assert [p.probability for p in both] == pytest.approx([p.probability for p in alone], abs=1e-6)
    assert model.attention(wide).weights.shape == (2, 2, 6 - 2)


def test_a_run_resumes_exactly(tmp_path: Path) -> None:
    rows = make_rows(40)
    varied = {"train.augmentation": "pictures(0.5, turn=10)", "model.dropout": 0.1}
    train(rows, tmp_path / "whole", steps=20, set={**varied, "train.validate_every": 10})
    for steps in (10, 20):
        train(rows, tmp_path / "parts", steps=steps, set={**varied, "train.validate_every": 10}, allow_changes=True)
    whole, parts = (read_tensors(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    for name, tensor in whole.items():
        assert torch.equal(tensor, parts[name]), name


def test_augmentation_is_for_training_alone(model_dir: Path) -> None:
    table = load_model(model_dir).config.to_dict()
    table["train"]["augmentation"] = "pictures(0.3)"
    config = read_config(table)
    texts = read_task_texts(make_rows(20), TrainOptions(task="classify"))
    assert texts.task is not None
    collate = config.train.objective.collate
    special: Any = None
    for augmented in (True, False):
        dataset = PictureDataset(texts.task, config, augmented)
        batches = [collate(dataset.examples[:3], special, np.random.default_rng(seed)) for seed in (1, 1, 2)]
        assert isinstance(batches[0].source, PatchBatch) and batches[0].token_count == 27 and batches[0].width == 9
        assert torch.equal(batches[0].source.values, batches[1].source.values)
        assert torch.equal(batches[0].source.values, batches[2].source.values) != augmented
        half = batches[0].slice_rows(1, 3)
        assert isinstance(half.source, PatchBatch) and half.source.grid.shape == (2, 2) and half.label_count == 2
        padded = batches[0].pad_to(8, 4)
        assert isinstance(padded.source, PatchBatch) and padded.source.values.shape[:2] == (8, 12)


def test_fine_tuning_keeps_the_encoder(model_dir: Path, tmp_path: Path) -> None:
    rows = [(pixels, "across" if label in ("left", "right") else "along") for pixels, label in make_rows(40)]
    options: dict[str, Any] = {"task": "classify", "device": "cpu", "progress": False, "steps": 2}
    headway.train(rows, out=tmp_path / "m", from_model=model_dir, **options)
    config = load_model(tmp_path / "m").config
    assert config.labels == ("across", "along") and config.model.head.classes == 2
    assert config.model.encoder == load_model(model_dir).config.model.encoder
    with pytest.raises(ConfigError, match="the data holds text, and this model reads pictures"):
        headway.train([(f"a {n}", "xy"[n % 2]) for n in range(40)], out=tmp_path / "n", from_model=model_dir, **options)
    with pytest.raises(ConfigError, match="the data holds pictures, and this model reads text. Choose --preset"):
        headway.train(rows, out=tmp_path / "n", preset="tiny_encoder", **options)


def test_attention_over_patches(model: PictureModel) -> None:
    found = model.attention(draw("left", 1, 20))
    assert found.pixels.shape == (12, 12, 3) and found.weights.shape == (2, 3, 3) and found.layer == 1
    assert (found.weights >= 0).all() and (found.weights.sum((1, 2)) < 1).all()  # the class token hears itself, too
    with pytest.raises(HeadwayError, match="there is no layer 2: this model has 1 to 1"):
        model.attention(draw("left", 1), 2)
    linear = {**load_model_table(model), "mixer": "convolution(3)"}
    other = PictureModel(model.loaded._replace(model=swap_encoder(model, linear)))
    with pytest.raises(HeadwayError, match="layer 1 has no attention weights, because its mixer is not attention"):
        other.attention(draw("left", 1))


def load_model_table(model: PictureModel) -> dict[str, Any]:
    return dict(model.config.model.to_dict()["encoder"])


def swap_encoder(model: PictureModel, encoder: dict[str, Any]) -> Any:
    table = model.config.model.to_dict()
    config = read_config({"model": {**table, "encoder": encoder}, "train": {"objective": "classify"}})
    from headway.nn.transformer import Transformer

    return Transformer(config.model).eval()


def test_what_reads_text_is_refused(model: PictureModel, model_dir: Path) -> None:
    uses: list[Any] = [model, model.trace, model.perplexity, model.encode, model.stream]
    for use in uses:
        with pytest.raises(HeadwayError, match="this model reads pictures, not text. Try: headway predict picture.png"):
            use("x")
    with pytest.raises(HeadwayError, match="takes a list of pictures, not one"):
        model.predict("a.png")
    with pytest.raises(HeadwayError, match="top_k = 0: give 1 or more"):
        model.predict([draw("left", 1)], 0)
    with pytest.raises(HeadwayError, match="reads pictures, and this server takes text alone"):
        read_served_model(model_dir, [])


def test_bad_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match='all 7 examples have the label "x"'):
        train([(draw("left", n), "x") for n in range(8)], tmp_path / "m")
    with pytest.raises(ConfigError, match="this changes pictures, and the model reads none"):
        headway.train(PAIRS, out=tmp_path / "m", **{**TRANSLATOR, "set": {"train.augmentation": "pictures"}})
    with pytest.raises(ConfigError, match='is a folder of pictures, which are labelled: give task="classify"'):
        headway.train(str(write_folder(tmp_path / "p", 4)), out=tmp_path / "m", task="tag", progress=False)
    with pytest.raises(ConfigError, match="pooling"):
        train(make_rows(8), tmp_path / "m", set={"model.encoder.frontend.class_token": False})
    for given, message in (
        ({"valid_images": ["a"]}, "--valid-images are pictures to validate on"),
        ({"images": ["a"], "data": ["b"]}, "--images holds pictures and --data text"),
        ({"images": ["a"], "task": "tag"}, "pictures are labelled .--task classify., and tag reads text"),
        ({"images": ["a"], "text": ["b"]}, "leave out --source"),
    ):
        with pytest.raises(ConfigError, match=message):
            TrainingFiles(**given).check()  # type: ignore[arg-type]


def test_a_preset_is_chosen_by_the_size_of_the_pictures() -> None:
    for side, is_grey, patch, size in ((8, True, 2, 8), (28, True, 3, 27), (32, False, 4, 32), (500, False, 8, 64)):
        name, table, reason = choose_picture_preset(1000, side, is_grey)
        frontend = table["model"]["encoder"]["frontend"]
        assert (name, frontend["patch"], frontend["size"]) == ("vit_tiny", patch, size)
        assert frontend["channels"] == (1 if is_grey else 3) and f"{size} x {size} in patches of {patch}" in reason
        assert read_config({**table, "model": {**table["model"], "vocabulary": 300}})
    assert "frontend" in find_preset("vit")["model"]["encoder"]
    assert TrainConfig(augmentation="pictures(0.3, flip=0)").augmentation.flip == 0  # type: ignore[arg-type]
