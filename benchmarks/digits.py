"""How well a small ViT, trained on a CPU, reads the digits of scikit-learn: 1,797 pictures of 8 x 8 pixels.

    pip install scikit-learn && python benchmarks/digits.py --seeds 3

For each seed a fifth of the pictures is held out to test on, others than for other seeds; of the rest, training holds
out a tenth for itself. The preset is that which `headway train --images` chooses; only the augmentation is set: digits
have no mirror images. Prints accuracy and macro-F1 on the held-out pictures, and what one core took; and, for
comparison, those of the nearest neighbour and of a support vector machine on the same pictures."""

import argparse
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

import headway
from headway.data.pictures.labelled import collect_pictures
from headway.translate.picture_model import PictureModel
from headway.translate.task_evaluation import evaluate_task

AUGMENTATION = "pictures(0.8, flip=0.0, turn=10, colour=0.0)"
HELD_OUT = 0.2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2000)
    given = parser.parse_args()
    torch.set_num_threads(1)
    digits = import_module("sklearn.datasets").load_digits()
    pictures = np.rint(digits.images * (255 / 16)).astype(np.uint8)
    print("| seed | accuracy | macro-F1 | nearest neighbour | SVM | seconds of one core | seconds |")
    print("|---|---|---|---|---|---|---|")
    found = [run(pictures, digits.target, seed, given.steps) for seed in range(1, given.seeds + 1)]
    mean, spread = np.mean(found, 0), np.std(found, 0, ddof=1) if len(found) > 1 else np.zeros(2)
    print(f"\naccuracy {mean[0]:.4f} ± {spread[0]:.4f}, macro-F1 {mean[1]:.4f} ± {spread[1]:.4f}")


def run(pictures: np.ndarray, labels: np.ndarray, seed: int, steps: int) -> tuple[float, float]:
    order = np.random.default_rng(seed).permutation(len(pictures))
    count = round(HELD_OUT * len(pictures))
    test, training = ([(pictures[n], str(labels[n])) for n in part] for part in (order[:count], order[count:]))
    began, used = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        headway.train(
            training, out=Path(folder) / "model", task="classify", steps=steps, seed=seed, device="cpu", progress=False,
            set={"train.augmentation": AUGMENTATION},
        )  # fmt: skip
        seconds, core = time.perf_counter() - began, time.process_time() - used
        model = headway.load(Path(folder) / "model", device="cpu")
        assert isinstance(model, PictureModel)
        scores = {score.name: score.value for score in evaluate_task(model, collect_pictures(test).examples).scores}
    others = [compare(name, pictures, labels, order[count:], order[:count]) for name in ("neighbors", "svm")]
    row = [str(seed), *(f"{x:.4f}" for x in (scores["accuracy"], scores["macro_f1"], *others))]
    print(f"| {' | '.join(row)} | {core:.0f} | {seconds:.0f} |", flush=True)
    return scores["accuracy"], scores["macro_f1"]


def compare(name: str, pictures: np.ndarray, labels: np.ndarray, training: np.ndarray, test: np.ndarray) -> float:
    """The accuracy of another method, on the pixels."""
    module: Any = import_module(f"sklearn.{name}")
    model = module.KNeighborsClassifier(1) if name == "neighbors" else module.SVC(gamma="scale")
    flat = pictures.reshape(len(pictures), -1) / 255.0
    accuracy: float = model.fit(flat[training], labels[training]).score(flat[test], labels[test])
    return accuracy


if __name__ == "__main__":
    main()
