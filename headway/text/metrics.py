"""BLEU, chrF, chrF++ and TER by sacreBLEU, with the signatures that say how they were computed."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest, Result

from headway.errors import HeadwayError
from headway.text.bleu_tokenization import check_tokenization, choose_tokenization

SACREBLEU_METRICS = ("bleu", "chrf", "chrf++", "ter")
Segmenter = Callable[[Sequence[str]], Sequence[str]]


def compute_scores(
    hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False, tokenize: str = "13a"
) -> "Scores":
    """Corpus BLEU and chrF.

    tokenize, for BLEU: one of sacreBLEU's, "moses" (Moses rules on both sides, as in older papers; "moses:de" for a
    language other than English), or "auto", by the script of the references. See headway.text.bleu_tokenization."""
    check_line_counts(hypotheses, references)
    tokenize = choose_tokenization("", references) if tokenize == "auto" else tokenize
    bleu, segment = make_bleu(lowercase, tokenize)
    chrf = CHRF(lowercase=lowercase)
    bleu_score = bleu.corpus_score(segment(hypotheses), [segment(references)])
    chrf_score = chrf.corpus_score(hypotheses, [references])
    bleu_signature = add_moses_to_signature(str(bleu.get_signature()), tokenize)
    chrf_signature = str(chrf.get_signature())
    return Scores(
        bleu=bleu_score.score,
        precisions=tuple(bleu_score.precisions),
        brevity_penalty=bleu_score.bp,
        length_ratio=bleu_score.ratio,
        bleu_signature=bleu_signature,
        bleu_line=bleu_score.format(signature=bleu_signature),
        chrf=chrf_score.score,
        chrf_signature=chrf_signature,
        chrf_line=chrf_score.format(signature=chrf_signature),
    )


def paired_bootstrap(
    hypotheses_a: Sequence[str],
    hypotheses_b: Sequence[str],
    references: Sequence[str],
    *,
    metric: str = "bleu",
    samples: int = 1000,
    seed: int = 12345,
    lowercase: bool = False,
    tokenize: str = "13a",
) -> "Comparison":
    """Paired bootstrap resampling: whether B differs significantly from A, both scored on the same resamples of lines.

    This is sacreBLEU's test; samples and seed have its defaults, so that its command line agrees."""
    check_line_counts(hypotheses_a, references, "hypotheses of A")
    check_line_counts(hypotheses_b, references, "hypotheses of B")
    if samples < 1 or seed < 1:
        raise HeadwayError(f"samples is {samples} and seed is {seed}: both must be 1 or more.")
    counter, segment = make_counter(metric, lowercase, tokenize)
    systems = [("A", segment(hypotheses_a)), ("B", segment(hypotheses_b))]
    with sacrebleu_seed(seed):
        test = PairedTest(systems, {metric: counter}, [segment(references)], test_type="bs", n_samples=samples)
        signatures, columns = test()
    [(name, signature)] = signatures.items()
    a, b = columns[name]
    assert isinstance(a, Result)
    assert isinstance(b, Result)
    assert b.p_value is not None
    # Where outputs or scores are equal no resample shows a difference, which sacreBLEU calls significant.
    is_equal = systems[0][1] == systems[1][1] or a.score == b.score
    p_value = 1.0 if is_equal else b.p_value
    tokenized = tokenize if metric == "bleu" else ""
    return Comparison(make_interval(a), make_interval(b), p_value, add_moses_to_signature(str(signature), tokenized))


def find_best_and_worst(
    hypotheses: Sequence[str], references: Sequence[str], n: int
) -> tuple[list["ScoredLine"], list["ScoredLine"]]:
    """The n lines with the highest chrF, best first, and the n with the lowest, worst first."""
    check_line_counts(hypotheses, references)
    chrf = CHRF()
    lines = [
        ScoredLine(number, chrf.sentence_score(hypothesis, [reference]).score, hypothesis, reference)
        for number, (hypothesis, reference) in enumerate(zip(hypotheses, references), start=1)
    ]
    best = sorted(lines, key=lambda line: (-line.chrf, line.number))
    worst = sorted(lines, key=lambda line: (line.chrf, line.number))
    return best[:n], worst[:n]


def compute_sentence_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> "np.ndarray":
    """(lines,) The chrF of each line."""
    chrf = CHRF()
    return np.array(
        [chrf.sentence_score(output, [reference]).score for output, reference in zip(hypotheses, references)]
    )


def check_line_counts(hypotheses: Sequence[str], references: Sequence[str], name: str = "hypotheses") -> None:
    if len(hypotheses) != len(references):
        raise HeadwayError(
            f"there are {len(hypotheses):,} {name} and {len(references):,} references: every line needs one of each."
        )
    if not references:
        raise HeadwayError(f"there are no {name} to score.")


def make_counter(metric: str, lowercase: bool, tokenize: str) -> tuple[Metric, Segmenter]:
    """A metric of sacreBLEU, and how to tokenize the text before it."""
    if metric == "bleu":
        return make_bleu(lowercase, tokenize)
    if metric in ("chrf", "chrf++"):
        return CHRF(lowercase=lowercase, word_order=2 if metric == "chrf++" else 0), list
    if metric == "ter":
        return TER(), list  # which ignores case, as its signature says
    raise HeadwayError(f'metric is "{metric}": it can be {", ".join(SACREBLEU_METRICS)}.')


def make_bleu(lowercase: bool, tokenize: str) -> tuple[BLEU, Segmenter]:
    """BLEU, and how to tokenize the text before it."""
    # force: do not warn that text looks tokenized, which here is intended.
    check_tokenization(tokenize)
    kind, _, language = tokenize.partition(":")
    if kind == "moses":
        segment = partial(tokenize_moses, language=language or "en", lowercase=lowercase)
        return BLEU(lowercase=lowercase, tokenize="none", force=True), segment
    return BLEU(lowercase=lowercase, tokenize=tokenize, force=True), list


def add_moses_to_signature(signature: str, tokenize: str) -> str:
    """Name Moses in the signature: its tokens are made before sacreBLEU sees the text."""
    kind, _, language = tokenize.partition(":")
    if kind != "moses":
        return signature
    import sacremoses

    return signature.replace("tok:none", f"tok:moses-{language or 'en'}-sacremoses-{sacremoses.__version__}")


def tokenize_moses(lines: Sequence[str], language: str, lowercase: bool) -> list[str]:
    """Each line as tokens joined by spaces. Lowercased first, as in sacreBLEU."""
    try:
        from sacremoses import MosesTokenizer
    except ImportError:
        raise HeadwayError('tokenize "moses" needs sacremoses: pip install sacremoses') from None
    moses = MosesTokenizer(language)
    lines = [line.lower() for line in lines] if lowercase else lines
    return [moses.tokenize(line, escape=False, aggressive_dash_splits=False, return_str=True) for line in lines]


@contextmanager
def sacrebleu_seed(seed: int) -> Iterator[None]:
    """Set the seed by the environment variable that sacreBLEU reads."""
    before = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = str(seed)
    try:
        yield
    finally:
        del os.environ["SACREBLEU_SEED"]
        if before is not None:
            os.environ["SACREBLEU_SEED"] = before


def make_interval(result: Result) -> "Interval":
    assert result.mean is not None
    assert result.ci is not None
    return Interval(float(result.score), float(result.mean), float(result.ci))


@dataclass(frozen=True)
class Scores:
    """Corpus scores; `bleu_line` and `chrf_line` are ready to print, with their signatures."""

    bleu: float
    precisions: tuple[float, ...]
    brevity_penalty: float
    length_ratio: float
    bleu_signature: str
    bleu_line: str
    chrf: float
    chrf_signature: str
    chrf_line: str


@dataclass(frozen=True)
class Interval:
    """A score on all lines, its mean over the resamples, and half the width of their 95 % confidence interval."""

    score: float
    mean: float
    half_width: float


@dataclass(frozen=True)
class Comparison:
    """The result of `paired_bootstrap`; a small p_value means that the difference is not due to chance."""

    a: Interval
    b: Interval
    p_value: float
    signature: str


@dataclass(frozen=True)
class ScoredLine:
    """One line of a translated text, numbered from 1, with its chrF."""

    number: int
    chrf: float
    hypothesis: str
    reference: str
