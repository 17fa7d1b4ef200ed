"""The expected utility of candidate translations, for minimum Bayes risk decoding: how well each agrees with all of
them, by any metric of headway.text.metric_scores.

    expected_utilities("chrf", [CandidateGroup(["a b c", "a b d", "x"])]) -> [array([…, …, …])]    the mean over all

The score of a pair is that of sacreBLEU's sentence_score. n-grams are counted once a candidate, and the matches of all
pairs are found at once; equal candidates are scored once.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.helpers import extract_all_char_ngrams, extract_word_ngrams
from sacrebleu.metrics.ter import TER

from headway.errors import ConfigError
from headway.text.comet import COMET_MODELS, load_comet, require_comet
from headway.text.metric_scores import parse_metrics

MAX_CANDIDATES = 1024  # pairs grow with the square of it
MAX_SLOW_CANDIDATES = 64  # of metrics that score pair by pair
SLOW_METRICS = ("ter", *COMET_MODELS)
PAIRS_AT_ONCE = 1 << 22  # numbers of one comparison in memory
BLEU_ORDER = 4


def check_candidates(metric: str, count: int) -> None:
    """Refuse numbers of candidates that would take forever, before anything is searched for."""
    [metric] = parse_metrics(metric)
    limit = MAX_SLOW_CANDIDATES if metric in SLOW_METRICS else MAX_CANDIDATES
    if count > limit:
        raise ConfigError(
            f"{count:,} candidates are {count**2:,} pairs to compare: at most {limit:,} candidates are allowed with "
            f"{metric}.",
            "mbr",
        )
    if metric in COMET_MODELS:
        require_comet()
    if count < 2:
        raise ConfigError(
            "minimum Bayes risk decoding chooses among several candidates: give --samples 32, or --beam-size 8 (in "
            "Python sample=True, n_best=32, or beam_size=8, n_best=8).",
            "mbr",
        )


class CandidateGroup(NamedTuple):
    """The candidate translations of one sentence."""

    texts: Sequence[str]
    source: str = ""  # for comet


def expected_utilities(metric: str, groups: Sequence[CandidateGroup], device: str = "cpu") -> "list[np.ndarray]":
    """For each group (candidates,): the mean score of each candidate with every candidate as reference, itself
    included; higher is better, so it is negative for TER. comet-kiwi has no references: its own score."""
    [metric] = parse_metrics(metric)
    distinct = [CandidateGroup(list(dict.fromkeys(group.texts)), group.source) for group in groups]
    if metric in COMET_MODELS:
        scores = _comet_scores(metric, distinct, device)
    else:
        scores = [pairwise_scores(metric, group.texts) for group in distinct]
    found = []
    for group, own, pairs in zip(groups, distinct, scores):
        counts = Counter(group.texts)
        weights = np.array([counts[text] for text in own.texts], dtype=float) / max(len(group.texts), 1)
        expected = dict(zip(own.texts, pairs @ weights if pairs.ndim == 2 else pairs))
        found.append(np.array([expected[text] for text in group.texts]))
    return found


def pairwise_scores(metric: str, texts: Sequence[str]) -> "np.ndarray":
    """(hypotheses, references) of all pairs of these texts, by a metric of sacreBLEU."""
    if metric in ("chrf", "chrf++"):
        return _pairwise_chrf(texts, 2 if metric == "chrf++" else 0)
    if metric == "bleu":
        return _pairwise_bleu(texts)
    ter = TER()
    return np.array([[-ter.sentence_score(output, [reference]).score for reference in texts] for output in texts])


def _comet_scores(metric: str, groups: Sequence[CandidateGroup], device: str) -> "list[np.ndarray]":
    """All pairs of all groups in one call: a neural metric wants large batches."""
    model = load_comet(metric, device)
    alone = not model.needs_references
    triples = [
        (group.source, output, reference)
        for group in groups
        for output in group.texts
        for reference in (group.texts[:1] if alone else group.texts)
    ]
    if not triples:
        return [np.zeros(0) for _ in groups]
    sources, outputs, references = zip(*triples)
    scores = iter(model.score(sources, outputs, None if alone else references))
    sizes = [len(group.texts) for group in groups]
    flat = [np.array([next(scores) for _ in range(size if alone else size * size)]) for size in sizes]
    return flat if alone else [own.reshape(size, size) for own, size in zip(flat, sizes)]


def _pairwise_chrf(texts: Sequence[str], word_order: int) -> "np.ndarray":
    chrf = CHRF(word_order=word_order)
    grams = [extract_all_char_ngrams(text, chrf.char_order) for text in texts]
    if word_order:
        words = [chrf._remove_punctuation(text) for text in texts]
        for own, found in zip(grams, words):
            own += [extract_word_ngrams(found, order + 1) for order in range(word_order)]
    precision = np.zeros((len(texts), len(texts)))
    recall, orders = np.zeros_like(precision), np.zeros_like(precision)
    for order in range(chrf.order):
        matches, totals = _count_matches([own[order] for own in grams])
        both = (totals[:, None] > 0) & (totals[None] > 0)  # sacreBLEU leaves out orders that one side lacks
        precision += np.where(both, matches / np.maximum(totals[:, None], 1), 0)
        recall += np.where(both, matches / np.maximum(totals[None], 1), 0)
        orders += both
    precision /= np.maximum(orders, 1)
    recall /= np.maximum(orders, 1)
    factor = chrf.beta**2
    weighted = factor * precision + recall
    return 100 * (1 + factor) * precision * recall / np.where(weighted > 0, weighted, 1)


def _pairwise_bleu(texts: Sequence[str]) -> "np.ndarray":
    """Sentence BLEU as sacreBLEU computes it, with effective_order."""
    bleu = BLEU(effective_order=True)
    words = [bleu._preprocess_segment(text).split() for text in texts]
    lengths = [len(own) for own in words]
    found = [_count_matches([extract_word_ngrams(own, order + 1) for own in words]) for order in range(BLEU_ORDER)]
    scores = np.zeros((len(texts), len(texts)))
    for i, own_length in enumerate(lengths):
        totals = [int(total[i]) for _, total in found]
        for j, other_length in enumerate(lengths):
            correct = [int(matches[i, j]) for matches, _ in found]
            scores[i, j] = BLEU.compute_bleu(
                correct, list(totals), own_length, other_length, bleu.smooth_method, bleu.smooth_value, True
            ).score
    return scores


def _count_matches(grams: Sequence["Counter[str]"]) -> tuple["np.ndarray", "np.ndarray"]:
    """Clipped matches (texts, texts), and n-grams (texts,), of all pairs of texts."""
    vocabulary: dict[str, int] = {}
    for own in grams:
        for gram in own:
            vocabulary.setdefault(gram, len(vocabulary))
    counts = np.zeros((len(grams), max(len(vocabulary), 1)), dtype=np.int32)
    for row, own in enumerate(grams):
        if own:
            counts[row, [vocabulary[gram] for gram in own]] = list(own.values())
    rows_at_once = max(1, PAIRS_AT_ONCE // counts.size)
    matches = np.concatenate(
        [
            np.minimum(counts[start : start + rows_at_once, None], counts[None]).sum(2)
            for start in range(0, len(grams), rows_at_once)
        ]
    )
    return matches, counts.sum(1)
