"""Words explain each other as a loop over all of them says; lines that do not belong together stand out."""

import itertools
import re
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.data.check import ibm1 as module
from headway.data.check.char_features import extract_words, to_code_points
from headway.data.check.ibm1 import DISCOUNT, EM_ROUNDS, MIN_WORD_COUNT, UNEXPLAINED_SHARE, Ibm1Lexicon, fit_ibm1
from headway.data.check.misaligned_runs import (
    ENTER_NATS,
    LEAVE_NATS,
    MAX_LINE_NATS,
    MIN_RUN_LINES,
    LineRun,
    find_misaligned_runs,
)
from headway.data.check.pair_classifier import BLOCK_LINES, SentencePairs, fit_pair_classifier

Row = tuple[str, str]
Table = dict[tuple[str, str], float]


def sentences(rows: list[Row]) -> SentencePairs:
    source, target = [source for source, _ in rows], [target for _, target in rows]
    return SentencePairs(
        extract_words(to_code_points(source)),
        extract_words(to_code_points(target)),
        np.array([len(line) for line in source]),
        np.array([len(line) for line in target]),
    )


def types(line: str, known: set[str]) -> list[str]:
    return sorted(set(re.findall(r"\w+", line.lower())) & known)


def learned_by_hand(rows: list[Row]) -> tuple[Table, list[set[str]], list[dict[str, float]]]:
    """IBM's first model, agreed on from both sides, as its description says: the specification."""
    known, shares = [], []
    for side in (0, 1):
        counts: dict[str, int] = defaultdict(int)
        for row in rows:
            for word in re.findall(r"\w+", row[side].lower()):
                counts[word] += 1
        known.append({word for word, count in counts.items() if count >= MIN_WORD_COUNT})
        total = sum(counts[word] for word in known[side])
        shares.append({word: counts[word] / total for word in known[side]})
    pairs = [(types(source, known[0]), types(target, known[1])) for source, target in rows]
    table: Table = defaultdict(lambda: 1.0)
    of_source: dict[str, float] = defaultdict(lambda: 1.0)
    of_target: dict[str, float] = defaultdict(lambda: 1.0)
    for _ in range(EM_ROUNDS):
        new: Table = defaultdict(float)
        for left, right in pairs:
            for s, t in itertools.product(left, right):
                for_target = table[s, t] / of_source[s] / sum(table[x, t] / of_source[x] for x in left)
                for_source = table[s, t] / of_target[t] / sum(table[s, x] / of_target[x] for x in right)
                new[s, t] += (for_target * for_source) ** 0.5
        table = new
        of_source, of_target = defaultdict(float), defaultdict(float)
        for (s, t), count in table.items():
            of_source[s] += count
            of_target[t] += count
    return table, known, shares


def test_a_lexicon_is_what_the_loops_say(rows: list[Row], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_TABLE_BITS", 24)  # no two words meet by chance
    some = rows[:60]
    table, known, shares = learned_by_hand(some)
    parts = [sentences(some[first : first + 25]) for first in range(0, 60, 25)]
    lexicon = fit_ibm1([(part.source, part.target) for part in parts])
    assert len(lexicon.source.hashes) == len(known[0])
    in_source, in_target, source_types, target_types = lexicon.explain(parts[0].source, parts[0].target)
    of_source: dict[str, float] = defaultdict(float)
    for (s, _), count in table.items():
        of_source[s] += count
    for number, (source, target) in enumerate(some[:25]):
        left, right = types(source, known[0]), types(target, known[1])
        assert (source_types[number], target_types[number]) == (len(left), len(right))
        nats = []
        for t in right:
            given_source = sum(max(table[s, t] - DISCOUNT, 0) / of_source[s] for s in left) / len(left)
            nats.append(np.log(UNEXPLAINED_SHARE + (1 - UNEXPLAINED_SHARE) * given_source / shares[1][t]))
        assert in_target[number] == pytest.approx(np.mean(nats), abs=0.01)  # counts are kept in 16 bits
    assert np.isfinite(in_source).all()


def test_translations_explain_each_other_and_neighbours_do_not(rows: list[Row]) -> None:
    part = sentences(rows[:1000])
    lexicon = fit_ibm1([(part.source, part.target)])
    rest = sentences(rows[1000:])
    for good, bad in zip(lexicon.explain(*rest[:2])[:2], lexicon.explain(*rest.shift_targets()[:2])[:2]):
        assert good.mean() > bad.mean() + 1


def test_unknown_words_say_nothing(rows: list[Row]) -> None:
    part = sentences(rows[:100])
    lexicon = fit_ibm1([(part.source, part.target)])
    nothing = sentences([("qwxy", "jklm"), ("", "")])
    assert [values.tolist() for values in lexicon.explain(nothing.source, nothing.target)] == [[0, 0]] * 4
    empty = sentences([("a b", "c d")] * 2)  # every word is too rare
    unlearned = fit_ibm1([(empty.source, empty.target)])
    assert isinstance(unlearned, Ibm1Lexicon)
    assert unlearned.explain(part.source, part.target)[2].sum() == 0


def test_choosing_and_moving_lines(rows: list[Row]) -> None:
    some = rows[:5]
    moved = sentences(some).shift_targets()
    expected = sentences([(source, some[(number + 1) % 5][1]) for number, (source, _) in enumerate(some)])
    assert moved.target_lengths.tolist() == expected.target_lengths.tolist()
    order = np.argsort(moved.target.line, kind="stable")
    assert moved.target.hash[order].tolist() == expected.target.hash.tolist()
    chosen = sentences(some).select(np.array([False, True, False, True, False]))
    assert chosen.source.hash.tolist() == sentences([some[1], some[3]]).source.hash.tolist()
    assert chosen.target.line.tolist() == sentences([some[1], some[3]]).target.line.tolist()


def test_a_classifier_learns_from_a_corpus_with_wrong_pairs_in_it(rows: list[Row]) -> None:
    spoilt = list(range(40, 1400, 50))
    damaged = [(s, rows[n + 1][1] if n in spoilt else t) for n, (s, t) in enumerate(rows)]
    half = np.arange(len(rows)) // BLOCK_LINES % 2
    whole = sentences(damaged)
    classifier = fit_pair_classifier([[whole.select(half == 0)], [whole.select(half == 1)]], 0.1, 3.0)
    assert classifier is not None
    assert 0.01 < classifier.bad_share < 0.04  # it is 28 of 1,500
    doubt = classifier.doubt(classifier.log_odds(whole, half))
    assert (doubt[spoilt] > 0.5).mean() > 0.9
    assert (np.delete(doubt, spoilt) > 0.5).mean() < 0.005


def test_too_few_pairs_make_no_classifier(rows: list[Row]) -> None:
    few = sentences(rows[:150])
    assert fit_pair_classifier([[few], [few]], 0.0, 3.0) is None
    same = sentences([("The same line again.", "Immer die gleiche Zeile.")] * 300)  # no line is ever a wrong one
    assert fit_pair_classifier([[same], [same]], 0.0, 3.0) is None


def runs_by_hand(evidence: list[float]) -> float:
    """The best score of all divisions into good and moved lines."""
    best = 0.0
    for moved in itertools.product((False, True), repeat=len(evidence)):
        score = sum(max(-MAX_LINE_NATS, min(MAX_LINE_NATS, e)) for e, m in zip(evidence, moved) if m)
        states = [False, *moved]
        score -= ENTER_NATS * sum(not a and b for a, b in itertools.pairwise(states))
        score -= LEAVE_NATS * sum(a and not b for a, b in itertools.pairwise(states))
        best = max(best, score)
    return best


@given(st.lists(st.floats(-9, 9), max_size=9))
def test_runs_are_the_best_division(evidence: list[float]) -> None:
    score = 0.0
    for run in find_misaligned_runs(evidence, min_lines=1):
        score += sum(max(-MAX_LINE_NATS, min(MAX_LINE_NATS, e)) for e in evidence[run.start : run.stop]) - ENTER_NATS
        score -= LEAVE_NATS if run.stop < len(evidence) else 0
    assert score == pytest.approx(runs_by_hand(evidence))
    assert find_misaligned_runs(evidence) == [
        r for r in find_misaligned_runs(evidence, min_lines=1) if r.stop - r.start >= MIN_RUN_LINES
    ]


@pytest.mark.parametrize(
    ("evidence", "runs"),
    [
        ([], []),
        ([-5.0] * 10, []),
        ([-5.0] * 5 + [3.0] * 5 + [-5.0] * 5, [LineRun(5, 10)]),
        ([-5.0] * 5 + [3, 3, -1, 3, 3, 3] + [-5.0] * 5, [LineRun(5, 11)]),
        ([-5.0] * 5 + [50.0, 50.0] + [-5.0] * 5, []),  # two lines are no run
        ([-5.0] * 5 + [2.0, 2.0, 2.0] + [-5.0] * 5, []),
        ([4.0] * 4 + [-5.0] * 9 + [4.0] * 6, [LineRun(0, 4), LineRun(13, 19)]),
    ],
)
def test_some_runs(evidence: list[float], runs: list[LineRun]) -> None:
    assert find_misaligned_runs(evidence) == runs
