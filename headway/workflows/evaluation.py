"""Evaluate on held-out text: BLEU and chrF of a translator, alone or against another; perplexity."""

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from headway.errors import HeadwayError
from headway.text.bleu_tokenization import choose_tokenization
from headway.text.metrics import Comparison, Scores, compute_scores, paired_bootstrap
from headway.translate.options import TranslateOptions
from headway.translate.results import to_one_line
from headway.translate.retry_budget import count_skipped_retries
from headway.translate.translator import Translator

if TYPE_CHECKING:
    from headway.train.retrieval_dataset import WholeRetrievalDataset
    from headway.translate.language_model import LanguageModel
    from headway.translate.retriever import Retriever

MIN_PERPLEXITY_TOKENS = 3


@dataclass(frozen=True)
class Evaluation:
    """Scores, outputs and speed of a translator on a test set."""

    scores: Scores
    hypotheses: list[str]
    warnings: int  # lines with any
    seconds: float
    sentences_per_second: float
    tokens_per_second: float
    skipped_retries: int = 0  # faulty outputs that were not searched for again: see translate.retry_budget


def evaluate(
    translator: Translator,
    source: Sequence[str],
    target: Sequence[str],
    options: TranslateOptions | None = None,
    *,
    lowercase: bool = False,
    tokenize: str = "auto",
) -> Evaluation:
    """Translate all sources, and score the outputs against their targets. tokenize, for BLEU: "auto" is what the target
    language needs; for others see headway.text.metrics.compute_scores."""
    if tokenize == "auto":
        tokenize = choose_tokenization(target_language(translator, options), target)
    started = time.perf_counter()
    results = translator.translate(list(source), options)
    seconds = time.perf_counter() - started
    hypotheses = [to_one_line(result.text) for result in results]
    tokens = sum(len(result.guesses[0].tokens) + 1 for result in results)
    return Evaluation(
        compute_scores(hypotheses, list(target), lowercase=lowercase, tokenize=tokenize),
        hypotheses,
        sum(bool(result.warnings) for result in results),
        seconds,
        len(results) / seconds,
        tokens / seconds,
        count_skipped_retries(result.warnings for result in results),
    )


def target_language(translator: Translator, options: TranslateOptions | None) -> str:
    """ "" if nobody says it."""
    known = translator.summary.target_languages
    return (options.target if options else "") or (known[0] if len(known) == 1 else "")


def compare_evaluations(
    first: Evaluation, other: Evaluation, target: Sequence[str], *, lowercase: bool, tokenize: str
) -> Comparison:
    """Paired bootstrap: whether the other's BLEU really differs from the first's."""
    return paired_bootstrap(first.hypotheses, other.hypotheses, list(target), lowercase=lowercase, tokenize=tokenize)


class Perplexity(NamedTuple):
    """How well a language model predicts a text."""

    loss: float  # nats a token
    tokens: int  # predicted: all but the first, or those that were masked
    characters: float  # that these tokens stand for
    accuracy: float | None = None  # share of masked tokens that were guessed
    next_sentence_loss: float | None = None  # nats per pair, of a model with such a head, on a text with documents
    next_sentence_accuracy: float | None = None
    pairs: int = 0

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700.0))

    @property
    def bits_per_character(self) -> float:
        return self.loss * self.tokens / math.log(2) / self.characters


def measure_denoising(translator: Translator, lines: Sequence[str]) -> Perplexity:
    """How well a denoising model predicts its targets for these lines, with the same noise each time."""
    from headway.data.encoding import encode_lines
    from headway.text.tokenizer.special_tokens import special_tokens
    from headway.train.line_dataset import LineDataset
    from headway.train.validation import mean_loss

    config, tokenizer = translator.config, translator.tokenizers.target
    rows = encode_lines(tokenizer, [line.strip() for line in lines])
    dataset = LineDataset(rows, config.train.max_tokens, config.train.objective.lines)
    if not dataset.size:
        raise HeadwayError("there is no line of two tokens or more in this text.")
    measured = mean_loss(translator.steppers[0].reference_model, dataset, config, special_tokens(tokenizer))
    characters = sum(map(len, lines)) * measured.tokens / len(rows.flat)
    return Perplexity(measured.loss, measured.tokens, characters)


def read_with_neighbours(retriever: "Retriever", text: str, folder: Path, length: int) -> "WholeRetrievalDataset":
    """A text with the neighbours of its chunks, which are never from documents that begin like its own."""
    from headway.retrieval.indexed_text import open_indexed_text, write_indexed_text
    from headway.retrieval.neighbour_search import find_neighbours
    from headway.train.retrieval_dataset import WholeRetrievalDataset

    index = retriever.index
    write_indexed_text(folder, text.removesuffix("\n").split("\n"), index.document_rule, index.tokenizer)
    indexed = open_indexed_text(folder)
    count = len(indexed.ids) // index.chunk_tokens
    rows = find_neighbours(index, indexed, retriever.count, 0, count).rows
    return WholeRetrievalDataset(indexed, rows, index, length)


def measure_perplexity(model: "LanguageModel", text: str) -> Perplexity:
    """Of a text, read in pieces as long as those of the training. One that was trained in random orders reads it from
    left to right, as every other language model. A model that tells next sentences reads pairs, if the text has
    documents: empty lines between them."""
    from headway.text.lm_text import encode_text
    from headway.train.dataset import training_special_tokens
    from headway.train.document_pairs import DocumentPairs, encode_documents, has_documents
    from headway.train.lm_dataset import make_validation_dataset
    from headway.train.objectives import CausalObjective
    from headway.train.validation import mean_loss

    ids = encode_text(text, model.tokenizer)
    if not text.strip() or len(ids) < MIN_PERPLEXITY_TOKENS:
        raise HeadwayError("this text is too short to measure: give at least a few words.")
    config = model.config
    if config.train.objective.kind == "permutation":
        causal = CausalObjective.Config(carry=config.train.objective.carry)
        config = replace(config, train=replace(config.train, objective=causal))
    dataset: Any = make_validation_dataset(ids, config.train.max_tokens, config.train.objective)
    if model.reads_pairs and has_documents(sentences := encode_documents(text.split("\n"), model.tokenizer)):
        dataset = DocumentPairs(sentences, config.train.max_tokens, 0)
    with ExitStack() as files:
        if model.retriever is not None:
            folder = Path(files.enter_context(TemporaryDirectory(prefix="headway-")))
            dataset = read_with_neighbours(model.retriever, text, folder, config.train.max_tokens)
        special = training_special_tokens(config, model.loaded.tokenizers)
        measured = mean_loss(model.network, dataset, config, special)
    characters = len(text) * measured.tokens / (len(ids) - 1)  # the first id is not part of the text
    return Perplexity(measured.loss, measured.tokens, characters, *measured[2:])
