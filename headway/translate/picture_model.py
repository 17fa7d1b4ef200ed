"""PictureModel: an encoder of pictures with a head for one task: it labels pictures, and makes vectors of them.

Made by `headway.load` of a model that was trained with --images, or imported with such a head. A picture is a path, an
array (height, width[, 3]) of uint8, an image of Pillow, or the bytes of a file."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from headway.data.labelled_files import PictureFile
from headway.data.pictures.files import read_picture
from headway.data.pictures.loading import PictureLoader
from headway.data.pictures.transforms import PatchArray, cut_patches, fit_picture
from headway.errors import HeadwayError
from headway.nn.context import ForwardReport
from headway.nn.frontends.patches import stack_patches
from headway.nn.layers.heads import EmbeddingHead
from headway.nn.sequence import Memory
from headway.storage.model_dir import LoadedModel
from headway.translate.language_model import Prompt
from headway.translate.task_model import Prediction, TaskModel

if TYPE_CHECKING:
    from headway.translate.backends import Engines

BATCH_PATCHES = 8192  # padding included
Picture = Any  # a path, an array, an image, bytes; or a PictureFile


class PatchAttention(NamedTuple):
    """Attention weights of one layer over the patches of one picture."""

    pixels: np.ndarray  # (H, W, C) uint8, as the model reads it
    weights: np.ndarray  # (heads, rows, columns) of the class token; without one, the mean over all patches
    layer: int  # counted from 1


class PictureModel(TaskModel):
    """model.predict(["cat.png"]) gives labels with probabilities, model.embed(["cat.png"]) vectors."""

    def __init__(
        self, loaded: LoadedModel, engines: "Engines | None" = None, loader: PictureLoader | None = None
    ) -> None:
        """loader: that has read some of the pictures already"""
        super().__init__(loaded, engines)
        self.settings: Any = self.config.model.encoder.frontend
        self.loader = loader or PictureLoader(self.settings, max_bytes=0)

    def __repr__(self) -> str:
        return super().__repr__().replace("TaskModel", "PictureModel", 1)

    def encode(self, text: str) -> list[int]:
        raise self._refuse_text()

    def make_prompt(self, text: str) -> Prompt:
        raise self._refuse_text()

    def trace(self, text: str = "", **settings: Any) -> Any:
        raise self._refuse_text()

    def perplexity(self, text: str) -> Any:
        raise self._refuse_text()

    @staticmethod
    def _refuse_text() -> HeadwayError:
        return HeadwayError(
            "this model reads pictures, not text. Try: headway predict picture.png, headway attend --image picture.png"
        )

    @torch.no_grad()
    def predict(self, pictures: Sequence[Picture], top_k: int | None = None) -> list[Prediction]:
        """A prediction for each picture, whatever others there are. top_k: how many labels; by default all"""
        self._check(pictures)
        if top_k is not None and top_k < 1:
            raise HeadwayError(f"top_k = {top_k}: give 1 or more, or leave it out.")
        if self.task == "embed":
            raise HeadwayError("this model makes vectors and has no labels: use embed.")
        found: list[Prediction] = [Prediction()] * len(pictures)
        for batch, memory in self._encode_batches(pictures):
            scores = self.model.head(memory.values, None, memory.positions.valid).double().cpu()
            for number, row in zip(batch, scores):
                found[number] = self._describe(row, top_k)
        return found

    @torch.no_grad()
    def embed(self, pictures: Sequence[Picture]) -> np.ndarray:
        """A vector of length 1 for each picture, (pictures, d) float32: that of the class token, or the mean."""
        self._check(pictures)
        head = self.model.head
        if not isinstance(head, EmbeddingHead):
            pooled = EmbeddingHead.Config(pooling="first" if self.settings.class_token else "mean")
            head = EmbeddingHead(pooled, self.config.model.scope("encoder"))
        vectors = np.zeros((len(pictures), self.config.model.d_model), np.float32)
        for batch, memory in self._encode_batches(pictures):
            vectors[batch] = head.vector(memory.values, memory.positions.valid).float().cpu().numpy()
        return vectors

    @torch.no_grad()
    def attention(self, picture: Picture, layer: int = 0) -> PatchAttention:
        """Where a picture is looked at. layer: counted from 1; 0 is the last"""
        layers = self.config.model.encoder.layers
        if not 0 <= layer <= layers:
            raise HeadwayError(f"there is no layer {layer}: this model has 1 to {layers}.")
        pixels = fit_picture(read_picture(picture), self.settings)
        patches = cut_patches(pixels, self.settings)
        report = ForwardReport(trace={})
        self._run([patches], report)
        name = f"encoder.{(layer or layers) - 1}.self.weights"
        assert report.trace is not None
        if name not in report.trace:
            raise HeadwayError(
                f"layer {layer or layers} has no attention weights, because its mixer is not attention. Choose another "
                "layer."
            )
        weights: Tensor = report.trace[name][0]  # (heads, queries, keys)
        if self.settings.class_token:
            weights = weights[:, 0, 1:]
        else:
            weights = weights.mean(1)
        rows, columns = patches.grid
        found = weights.reshape(-1, rows, columns).float().cpu().numpy()
        return PatchAttention(pixels, found, layer or layers)

    def _check(self, pictures: Sequence[Picture]) -> None:
        if isinstance(pictures, str | bytes):
            raise HeadwayError("this takes a list of pictures, not one: write [picture].")
        self.stepper.check_process()

    def _encode_batches(self, pictures: Sequence[Picture]) -> Iterator[tuple[list[int], Memory]]:
        """In the order given; of one picture at a time no more than a batch is in memory."""
        batch: list[tuple[int, PatchArray]] = []
        for number, picture in enumerate(pictures):
            patches = self._load(picture)
            longest = max(len(one.values) for _, one in [*batch, (number, patches)])
            if batch and (len(batch) + 1) * longest > BATCH_PATCHES:
                yield [n for n, _ in batch], self._run([one for _, one in batch])
                batch = []
            batch.append((number, patches))
        if batch:
            yield [n for n, _ in batch], self._run([one for _, one in batch])

    def _load(self, picture: Picture) -> PatchArray:
        if isinstance(picture, PictureFile):
            return self.loader.load(picture, np.random.default_rng(0))
        return cut_patches(fit_picture(read_picture(picture), self.settings), self.settings)

    def _run(self, patches: Sequence[PatchArray], report: ForwardReport | None = None) -> Memory:
        given = stack_patches(patches)
        device = self.model.device
        return self.model.encode(type(given)(*(part.to(device) for part in given)), report=report)
