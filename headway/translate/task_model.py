"""TaskModel: an encoder with a head for one task. It labels texts, tags words, compares two texts, or makes vectors.

Made by `headway.load` of a model that was trained with --task, or imported with such a head."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from headway.config.objective_kinds import ENCODER_TASKS
from headway.decode.padding import pad_rows
from headway.errors import HeadwayError
from headway.storage.model_dir import LoadedModel
from headway.text.task_text import choose_windows, encode_pair, encode_texts, encode_words, make_windows
from headway.translate.language_model import LanguageModel, Prompt
from headway.translate.text_vectors import batch_by_length

if TYPE_CHECKING:
    from headway.translate.backends import Engines

Given = Any  # a text; of match two; of tag also its words; of a model of pictures a picture


class LabelScore(NamedTuple):
    label: str
    probability: float


class WordTag(NamedTuple):
    word: str
    tag: str
    probability: float


@dataclass(frozen=True)
class Prediction:
    """What a model says of one text: labels, best first; or words with their tags; or a score."""

    labels: tuple[LabelScore, ...] = ()
    words: tuple[WordTag, ...] = ()
    score: float | None = None

    @property
    def label(self) -> str:
        """The likeliest label; "" of an empty text."""
        return self.labels[0].label if self.labels else ""

    @property
    def probability(self) -> float:
        return self.labels[0].probability if self.labels else 0.0

    @property
    def tags(self) -> list[str]:
        return [word.tag for word in self.words]


def make_language_model(engines: "Engines") -> LanguageModel:
    """A model that does not translate, as what it is."""
    if engines.threads:
        torch.set_num_threads(engines.threads)
    return language_model_of(engines.loaded[0], engines)


def language_model_of(loaded: LoadedModel, engines: "Engines | None" = None) -> LanguageModel:
    """The same of a model in memory."""
    objective = loaded.config.train.objective.kind
    if objective == "solve":
        from headway.translate.solver import Solver

        return Solver(loaded, engines)
    return make_task_model(loaded, engines) if objective in ENCODER_TASKS else LanguageModel(loaded, engines)


def make_task_model(loaded: LoadedModel, engines: "Engines | None" = None, loader: Any = None) -> "TaskModel":
    """Of text or of pictures, by the front end. loader: of pictures, which has read some already"""
    front_end = loaded.config.model.encoder.frontend
    if front_end is not None and front_end.reads == "pictures":
        from headway.translate.picture_model import PictureModel

        return PictureModel(loaded, engines, loader)
    return TaskModel(loaded, engines)


class TaskModel(LanguageModel):
    """model.predict(["…"]) gives labels with probabilities, model.embed(["…"]) vectors."""

    def __init__(self, loaded: LoadedModel, engines: "Engines | None" = None) -> None:
        super().__init__(loaded, engines)
        self.task: str = self.config.train.objective.kind
        self.labels: tuple[str, ...] = self.config.labels or ()
        self.max_tokens = self.config.train.max_tokens

    def __repr__(self) -> str:
        labels = f", {len(self.labels)} labels" if self.labels else ""
        return super().__repr__().replace("LanguageModel", "TaskModel").replace(self.task, f"{self.task}{labels}", 1)

    def make_prompt(self, text: str) -> Prompt:
        raise HeadwayError(
            f"this model was trained for the task {self.task}: it continues no text. Try: headway predict"
        )

    @torch.no_grad()
    def predict(self, texts: Sequence[Given], top_k: int | None = None) -> list[Prediction]:
        """A prediction for each text, whatever others there are.

        texts: of match pairs; of tag texts whose words are separated by spaces, or lists of words
        top_k: how many labels; by default all"""
        if isinstance(texts, str):
            raise HeadwayError("predict takes a list of texts, not one text: write predict([text]).")
        if top_k is not None and top_k < 1:
            raise HeadwayError(f"top_k = {top_k}: give 1 or more, or leave it out.")
        self.stepper.check_process()
        if self.task == "embed":
            raise HeadwayError("this model makes vectors and has no labels: use embed, or headway embed.")
        if self.task == "tag":
            return self._predict_tags([text.split() if isinstance(text, str) else [*text] for text in texts])
        found: list[Prediction] = [Prediction()] * len(texts)
        rows, segments, places = self._encode(texts)
        for batch, scores in self._score(rows, segments):
            for number, row in zip(batch, scores):
                found[places[number]] = self._describe(row, top_k)
        return found

    def _encode(self, texts: Sequence[Given]) -> tuple[list[list[int]], list[int] | None, list[int]]:
        """The rows of texts that are not empty, where in each the second text begins, and which texts these are."""
        if self.task == "match":
            pairs, places = [], []
            for number, pair in enumerate(texts):
                if isinstance(pair, str) or len(pair) != 2:
                    raise HeadwayError(f"text {number} is {pair!r:.60}: the task match compares two texts, give pairs.")
                if pair[0].strip() or pair[1].strip():
                    places.append(number)
                    pairs.append(encode_pair(pair[0].strip(), pair[1].strip(), self.tokenizer, self.max_tokens))
            return [pair.ids for pair in pairs], [pair.second for pair in pairs], places
        for number, text in enumerate(texts):
            if not isinstance(text, str):
                raise HeadwayError(f"text {number} is {text!r:.60}: the task {self.task} reads single texts.")
        places = [number for number, text in enumerate(texts) if str(text).strip()]
        return encode_texts([str(texts[n]).strip() for n in places], self.tokenizer, self.max_tokens), None, places

    def _score(self, rows: list[list[int]], second: list[int] | None) -> Iterator[tuple[list[int], Tensor]]:
        """The scores of the head, in batches of like length."""
        network = self.network
        for batch in batch_by_length(rows):
            ids, valid = pad_rows([rows[n] for n in batch], self.tokenizer.pad, network.device)
            segments = None
            if second is not None and network.config.embedding.segments > 1:
                begins = torch.tensor([[second[n]] for n in batch], device=ids.device)
                segments = (torch.arange(ids.shape[1], device=ids.device) >= begins).long()
                segments = segments if valid is None else segments * valid
            hidden = network.encode(ids, valid, segments=segments).values
            yield batch, network.head(hidden, None, valid).double().cpu()

    def _describe(self, scores: Tensor, top_k: int | None) -> Prediction:
        if not self.labels:
            objective = self.config.train.objective
            return Prediction(score=objective.low + float(scores[0]) * (objective.high - objective.low))
        probabilities, order = scores.softmax(-1).topk(min(top_k or len(self.labels), len(self.labels)))
        pairs = zip(order.tolist(), probabilities.tolist())
        return Prediction(tuple(LabelScore(self.labels[index], probability) for index, probability in pairs))

    def _predict_tags(self, texts: Sequence[list[str]]) -> list[Prediction]:
        """Long texts are read in windows that overlap; each word has its tag from where most is read around it."""
        windows = [
            make_windows(encode_words(words, self.tokenizer), self.tokenizer, self.max_tokens) for words in texts
        ]
        flat = [(number, window) for number, own in enumerate(windows) for window in own]
        scores: list[Any] = [None] * len(flat)
        for batch, found in self._score([window.ids for _, window in flat], None):
            for number, row in zip(batch, found):
                scores[number] = row[flat[number][1].first_tokens].softmax(-1).max(-1)
        predictions = []
        first = 0
        for words, own in zip(texts, windows):
            tags = []
            for word, (window, index) in zip(words, choose_windows(own, len(words))):
                best = scores[first + window]
                tags.append(WordTag(word, self.labels[int(best.indices[index])], float(best.values[index])))
            predictions.append(Prediction(words=tuple(tags)))
            first += len(own)
        return predictions
