"""How good a model is on text it has not seen: loss without smoothing, and what it really says."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headway.config.search import Search
from headway.data.corpora import parallel_from_memory
from headway.storage.model_dir import LoadedModel, load_model
from headway.text.metrics import compute_scores
from headway.text.tokenizer.special_tokens import special_tokens
from headway.train import validation
from headway.train.dataset import EpochShard, ParallelDataset
from headway.train.objectives import Example
from headway.train.validation import MeanLoss, ValidationResult, mean_loss, take_sample, validate
from headway.translate.options import TranslateOptions
from headway.translate.translator import Translator


def test_better_is_higher_whatever_it_means() -> None:
    assert ValidationResult(2.0, 30.0, 50.0).score("loss") == -2.0
    assert ValidationResult(2.0, 30.0, 50.0).score("bleu") == 30.0
    assert ValidationResult(2.0, 30.0, 50.0).score("chrf") == 50.0
    assert ValidationResult(2.0).score("bleu") == -2.0
    assert ValidationResult(2.0).perplexity == pytest.approx(math.exp(2))
    assert math.isfinite(ValidationResult(1e9).perplexity)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_the_loss_is_the_mean_over_tokens_without_smoothing(toy: Path, translator_dir: Path) -> None:
    config, model, tokenizers = load_model(translator_dir)
    pairs = parallel_from_memory(lines(toy / "test.en"), lines(toy / "test.qtx"), "en", "qtx")
    special = special_tokens(tokenizers.target)
    corpus = ParallelDataset([pairs], tokenizers, (), config.train.max_tokens)
    total, count = 0.0, 0
    [portion] = corpus.epoch(0)
    for example in (portion.examples[i] for i in range(len(portion.examples))):
        inputs = torch.tensor([[special.start, *example.target.tolist()]])
        with torch.no_grad():
            hidden = model(torch.tensor([example.source.tolist()]), inputs).hidden
            logps = model.logits(hidden)[0].double().log_softmax(-1)
        labels = [*example.target.tolist(), special.end]
        total -= float(sum(logps[place, label] for place, label in enumerate(labels)))
        count += len(labels)
    found = mean_loss(model, corpus, config, special)
    assert found.tokens == count
    assert found.loss == pytest.approx(total / count, rel=1e-5)


def test_validation_decodes_and_scores(toy: Path, translator_dir: Path) -> None:
    config, model, tokenizers = load_model(translator_dir)
    source, target = lines(toy / "train.en")[:30], lines(toy / "train.qtx")[:30]
    pairs = parallel_from_memory(source, target, "en", "qtx")
    corpus = ParallelDataset([pairs], tokenizers, (), config.train.max_tokens)
    result = validate(model, corpus, [take_sample(pairs, 30)], config, tokenizers, special_tokens(tokenizers.target))
    search = Search(beam_size=1, max_ratio=1.5, max_extra=10)
    translator = Translator([LoadedModel(config, model, tokenizers)])
    outputs = [
        found.text
        for found in translator.translate(source, TranslateOptions(search=search, split_sentences=False, retry=False))
    ]
    expected = compute_scores(outputs, target)
    assert (result.bleu, result.chrf) == (pytest.approx(expected.bleu), pytest.approx(expected.chrf))
    assert result.bleu is not None and result.bleu > 50


def test_decoding_is_not_part_of_autocast(translator_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss is counted as in training, translations are made as they will be."""
    config, model, tokenizers = load_model(translator_dir)
    pairs = parallel_from_memory(["A dog."], ["x"], "en", "qtx")
    corpus = ParallelDataset([pairs], tokenizers, (), 64)
    low: dict[str, bool] = {}
    translate = Translator.translate

    def counted(*rest: object) -> MeanLoss:
        low["loss"] = torch.is_autocast_enabled("cpu")
        return MeanLoss(1.0, 1)

    def translated(self: Translator, *rest: Any, **more: Any) -> Any:
        low["decoding"] = torch.is_autocast_enabled("cpu")
        return translate(self, *rest, **more)

    monkeypatch.setattr(validation, "mean_loss", counted)
    monkeypatch.setattr(Translator, "translate", translated)
    with torch.autocast("cpu", torch.bfloat16):
        validate(model, corpus, [take_sample(pairs, 1)], config, tokenizers, special_tokens(tokenizers.target))
    assert low == {"loss": True, "decoding": False}


def test_only_so_many_lines_are_decoded(toy: Path, translator_dir: Path) -> None:
    loaded = load_model(translator_dir)
    for count in (0, 1):
        pairs = parallel_from_memory(["A dog."] * 3, ["x"] * 3, "en", "qtx")
        corpus = ParallelDataset([pairs], loaded.tokenizers, (), 64)
        result = validate(
            loaded.model,
            corpus,
            [take_sample(pairs, count)],
            loaded.config,
            loaded.tokenizers,
            special_tokens(loaded.tokenizers.target),
        )
        assert (result.bleu is None) == (count == 0)


def test_hidden_words_are_the_same_each_time(masked_dir: Path) -> None:
    config, model, tokenizers = load_model(masked_dir)

    class Fixed:
        skipped_summary, size = "", 1

        def epoch(self, number: int) -> Iterator[EpochShard]:
            yield EpochShard([Example(np.array([], dtype=np.int64), np.arange(260, 290))], np.array([[0, 31]]))

        def close(self) -> None: ...

    special = special_tokens(tokenizers.target)
    assert mean_loss(model, Fixed(), config, special) == mean_loss(model, Fixed(), config, special)
