"""Any metric by its name: bleu, chrf, chrf++ and ter by sacreBLEU, comet and comet-kiwi by unbabel-comet.

compute_metric("ter", hypotheses, references) -> MetricScore(score, signature, …)
compare_metric("ter", a, b, references)       -> Comparison: paired bootstrap
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headway.errors import ConfigError, HeadwayError, did_you_mean
from headway.text.comet import COMET_MODELS, comet_version, load_comet
from headway.text.metrics import (
    SACREBLEU_METRICS,
    Comparison,
    Interval,
    add_moses_to_signature,
    check_line_counts,
    make_counter,
    paired_bootstrap,
)

METRICS = (*SACREBLEU_METRICS, *COMET_MODELS)
TITLES = {
    "bleu": "BLEU",
    "chrf": "chrF2",
    "chrf++": "chrF2++",
    "ter": "TER",
    "comet": "COMET",
    "comet-kiwi": "COMETKiwi",
}


@dataclass(frozen=True)
class MetricSettings:
    """How text is compared. comet_model: another than the metric's own, by name or path."""

    lowercase: bool = False
    tokenize: str = "13a"  # for BLEU: see compute_scores
    comet_model: str = ""
    device: str = "cpu"  # for COMET


@dataclass(frozen=True)
class MetricScore:
    """A corpus score; `line` is ready to print, with its signature."""

    metric: str
    score: float
    signature: str
    line: str
    segments: tuple[float, ...] = ()  # of each line, for neural metrics, whose score is their mean

    @property
    def higher_is_better(self) -> bool:
        return self.metric != "ter"


def parse_metrics(text: str) -> list[str]:
    """ "ter,chrf++" -> ["ter", "chrf++"]"""
    names = [name.strip().casefold() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in METRICS:
            hint = did_you_mean(name, list(METRICS))
            raise ConfigError(f'there is no metric "{name}".{hint} Known: {", ".join(METRICS)}.')
    if not names:
        raise ConfigError(f"name at least one metric of: {', '.join(METRICS)}.")
    return list(dict.fromkeys(names))


def compute_metric(
    metric: str,
    hypotheses: Sequence[str],
    references: Sequence[str] | None,
    sources: Sequence[str] | None = None,
    settings: MetricSettings | None = None,
) -> MetricScore:
    """A corpus score. `sources` are for comet and comet-kiwi; comet-kiwi needs no references."""
    settings = settings or MetricSettings()
    [metric] = parse_metrics(metric)
    if metric in COMET_MODELS:
        return _compute_comet(metric, hypotheses, references, sources, settings)
    if references is None:
        raise HeadwayError(f"{metric} compares with references, and there are none. Without them: comet-kiwi.")
    check_line_counts(hypotheses, references)
    counter, segment = make_counter(metric, settings.lowercase, settings.tokenize)
    found = counter.corpus_score(segment(hypotheses), [segment(references)])
    signature = add_moses_to_signature(str(counter.get_signature()), settings.tokenize if metric == "bleu" else "")
    return MetricScore(metric, found.score, signature, found.format(signature=signature))


def _compute_comet(
    metric: str,
    hypotheses: Sequence[str],
    references: Sequence[str] | None,
    sources: Sequence[str] | None,
    settings: MetricSettings,
) -> MetricScore:
    if sources is None:
        raise HeadwayError(f"{metric} needs the source text beside the translations.")
    check_line_counts(hypotheses, sources)
    if references is not None:
        check_line_counts(hypotheses, references)
    model = load_comet(settings.comet_model or metric, settings.device)
    segments = model.score(sources, hypotheses, references)
    score = float(np.mean(segments))
    signature = f"model:{model.name}|version:{comet_version()}"
    return MetricScore(metric, score, signature, f"{TITLES[metric]}|{signature} = {score:.4f}", tuple(segments))


def compare_metric(
    first: MetricScore,
    other: MetricScore,
    hypotheses: tuple[Sequence[str], Sequence[str]],
    references: Sequence[str],
    settings: MetricSettings | None = None,
) -> Comparison:
    """Paired bootstrap: whether two systems, whose scores and outputs these are, really differ in a metric."""
    settings = settings or MetricSettings()
    if first.segments:
        return bootstrap_means(first, other)
    return paired_bootstrap(
        *hypotheses, references, metric=first.metric, lowercase=settings.lowercase, tokenize=settings.tokenize
    )


def bootstrap_means(a: MetricScore, b: MetricScore, samples: int = 1000, seed: int = 12345) -> Comparison:
    """The same test over the means of segment scores, for metrics that sacreBLEU does not have."""
    scores = np.array([a.segments, b.segments])  # (2, lines)
    lines = scores.shape[1]
    drawn = np.random.default_rng(seed).choice(lines, size=(samples, lines), replace=True)
    means = scores[:, drawn].mean(2)  # (2, samples)
    differences = means[1] - means[0]
    real = abs(b.score - a.score)
    extreme = int((np.abs(differences - differences.mean()) > real).sum())
    p_value = 1.0 if a.segments == b.segments else (extreme + 1) / (samples + 1)
    intervals = [_interval(score.score, resampled) for score, resampled in zip((a, b), means)]
    return Comparison(intervals[0], intervals[1], p_value, a.signature)


def _interval(score: float, resampled: "np.ndarray") -> Interval:
    low, high = np.quantile(resampled, [0.025, 0.975])
    return Interval(score, float(resampled.mean()), float(high - low) / 2)
