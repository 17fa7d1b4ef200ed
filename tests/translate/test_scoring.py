"""Log-probabilities of given pairs: those that a search reports for its own output, whoever the neighbours are."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from translate.test_translator import random_translator

import headway
from headway.config.search import Search
from headway.errors import HeadwayError
from headway.nn.transformer import Transformer
from headway.translate.options import TranslateOptions
from headway.translate.scoring import score_ids
from headway.translate.translator import Translator, load_translator

Pairs = list[tuple[str, str]]


@pytest.fixture(scope="module")
def translator(translator_dir: Path) -> Translator:
    found = headway.load(translator_dir)
    assert isinstance(found, Translator)
    return found


@pytest.fixture(scope="module")
def pairs(toy: Path) -> Pairs:
    """Half of them learned by heart, half never seen."""
    return [
        pair
        for name in ("train", "test")
        for pair in zip(
            (toy / f"{name}.en").read_text().splitlines()[:20], (toy / f"{name}.qtx").read_text().splitlines()[:20]
        )
    ]


def naive(translator: Translator, source: list[int], target: list[int]) -> list[float]:
    """One token after the other, by the definition: log softmax of the logits after what came before."""
    model = translator.steppers[0].model
    with torch.no_grad():
        memory = model.encode(torch.tensor([source]))
        found = []
        for place, token in enumerate(target):
            read = torch.tensor([[translator.special_tokens.start, *target[:place]]])
            logits = model.logits(model.decode(read, memory=memory))[0, -1].double()
            found.append((logits[token] - logits.logsumexp(0)).item())
    return found


def test_it_is_the_sum_over_the_tokens_and_the_end(translator: Translator, pairs: Pairs) -> None:
    reader, writer = translator.tokenizers.source, translator.tokenizers.target
    for (source, target), found in zip(pairs[15:25], translator.score(pairs[15:25])):
        assert found.tokens == [*writer.encode(target), writer.end]
        expected = naive(translator, [*reader.encode(source), reader.end], found.tokens)
        assert found.token_logps == pytest.approx(expected, rel=1e-4, abs=1e-6)
        assert found.logp == pytest.approx(sum(expected), rel=1e-5)
        assert (found.source, found.target, found.warnings) == (source, target, [])


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("alpha", [0.6, 0.0, 1.0])
def test_it_is_what_beam_search_reports_for_its_own_output(
    translator: Translator, pairs: Pairs, beam: int, alpha: float
) -> None:
    search = translator.search(beam_size=beam, n_best=beam, alpha=alpha)
    results = translator.translate(
        [source for source, _ in pairs], TranslateOptions(search=search, split_sentences=False, retry=False)
    )
    guesses = [(result.source, guess) for result in results for guess in result.guesses]
    ended = [(source, guess) for source, guess in guesses if len(guess.token_logps) == len(guess.tokens) + 1]
    assert len(ended) > 0.8 * len(guesses)
    reader, writer = translator.tokenizers.source, translator.tokenizers.target
    sources = [[*reader.encode(source), reader.end] for source, _ in ended]
    targets = [[*guess.tokens, writer.end] for _, guess in ended]
    by_ids = score_ids(translator.steppers, sources, targets, start=writer.start, pad=writer.pad)
    for (_, guess), logps in zip(ended, by_ids):
        assert logps == pytest.approx(guess.token_logps, rel=1e-3, abs=2e-5)
        assert sum(logps) == pytest.approx(guess.logp, rel=1e-5)
    # Text may be cut into tokens otherwise than the search wrote it; where it is not, text gives the same.
    same = [(source, guess) for source, guess in ended if writer.encode(guess.text) == guess.tokens]
    assert len(same) > 0.5 * len(ended)
    translator_of_alpha = replace(translator.config, search=search)
    for (_, guess), found in zip(same, translator.score([(source, guess.text) for source, guess in same])):
        assert found.logp == pytest.approx(guess.logp, rel=1e-5)
        assert translator_of_alpha.search.score(found.logp, len(found.tokens)) == pytest.approx(guess.score, rel=1e-5)


def test_the_score_is_over_the_models_length_penalty(translator: Translator, pairs: Pairs) -> None:
    (found,) = translator.score(pairs[:1])
    assert translator.config.search == Search()
    assert found.score == pytest.approx(found.logp / ((5 + len(found.tokens)) / 6) ** 0.6)


def test_what_was_learned_is_likelier_than_what_is_wrong(translator: Translator, pairs: Pairs) -> None:
    learned = pairs[:20]
    shifted = [(source, learned[row - 1][1]) for row, (source, _) in enumerate(learned)]
    right, wrong = translator.score(learned), translator.score(shifted)
    assert all(a.logp / len(a.tokens) > -0.5 > b.logp / len(b.tokens) for a, b in zip(right, wrong))


def test_neighbours_and_batches_do_not_matter(translator_dir: Path, pairs: Pairs) -> None:
    translator = load_translator(translator_dir)
    together = translator.score(pairs)
    alone = [translator.score([pair])[0] for pair in pairs]
    translator.batch_tokens = 40
    small = translator.score(pairs)
    for first, second, third in zip(together, alone, small):
        assert first.logp == pytest.approx(second.logp, rel=1e-5)
        assert first.logp == pytest.approx(third.logp, rel=1e-5)
        assert (first.source, first.tokens) == (second.source, second.tokens) == (third.source, third.tokens)


def test_blank_sides(translator: Translator, pairs: Pairs) -> None:
    end = translator.tokenizers.target.end
    nothing, no_target, no_source, spaced, plain = translator.score(
        [("  ", "\t"), (pairs[0][0], " "), ("", pairs[0][1]), (f" {pairs[0][0]} ", f"  {pairs[0][1]}\t"), pairs[0]]
    )
    assert (nothing.logp, nothing.score, nothing.tokens, nothing.token_logps) == (0.0, 0.0, [], [])
    assert translator.translate([""])[0].guesses[0].logp == nothing.logp
    assert no_target.tokens == [end]
    assert no_target.logp == no_target.token_logps[0] < -1
    assert no_source.logp < plain.logp
    assert spaced.logp == pytest.approx(plain.logp, rel=1e-5)
    assert spaced.target == f"  {pairs[0][1]}\t"
    assert translator.score([]) == []


def test_several_models_vote_as_in_a_search(translator_dir: Path, other_translator_dir: Path, pairs: Pairs) -> None:
    both = load_translator(translator_dir, other_translator_dir)
    guesses = [
        both.translate([source], TranslateOptions(split_sentences=False, retry=False))[0].guesses[0]
        for source, _ in pairs[:6]
    ]
    same = [n for n, guess in enumerate(guesses) if both.tokenizers.target.encode(guess.text) == guess.tokens]
    assert len(same) > 2
    for n in same:
        (found,) = both.score([(pairs[n][0], guesses[n].text)])
        assert found.logp == pytest.approx(guesses[n].logp, rel=1e-5)
    alone = load_translator(translator_dir).score(pairs[:6])
    assert any(abs(a.logp - b.logp) > 0.01 for a, b in zip(alone, both.score(pairs[:6])))


def test_a_large_vocabulary_is_taken_in_parts(translator: Translator, pairs: Pairs, monkeypatch: Any) -> None:
    whole = [found.logp for found in translator.score(pairs)]
    seen: list[int] = []
    logits = Transformer.logits
    monkeypatch.setattr("headway.translate.scoring.POSITIONS_PER_CHUNK", 7)
    monkeypatch.setattr(Transformer, "logits", lambda self, x: (seen.append(len(x)), logits(self, x))[1])
    assert [found.logp for found in translator.score(pairs)] == pytest.approx(whole, rel=1e-5)
    assert max(seen) == 7


def test_what_is_too_long_says_so_and_costs_the_others_nothing() -> None:
    translator = random_translator(position="learned(20)", max_tokens=12)
    short, long, longer, last = translator.score([("ab", "cd"), ("a" * 15, "b"), ("a", "b" * 30), ("ef", "gh")])
    assert not short.warnings + last.warnings
    assert all(math.isfinite(found.logp) for found in (short, long, last))
    (told,) = long.warnings
    assert told == "it has 17 tokens, and the model was trained on at most 12: the score may mean little"
    assert math.isnan(longer.logp) and math.isnan(longer.score)
    assert longer.warnings == ["not scored: it has 32 tokens, and this model reads at most 20"]
    (found,) = random_translator().score([("a" * 5000, "b")])
    assert found.warnings == ["not scored: it has 5002 tokens, and this model reads at most 4096"]


def test_the_target_language_is_read(pairs: Pairs) -> None:
    translator = random_translator(tags=("de", "fr"))
    (german,), (french,) = translator.score([("ab", "cd")], target="de"), translator.score([("ab", "cd")], target="fr")
    assert german.logp != french.logp
    with pytest.raises(HeadwayError, match="say which with --to"):
        translator.score([("ab", "cd")])


@pytest.mark.parametrize("wrong", ["ab", ("a",), ("a", 3), ("a", "b", "c")])
def test_what_is_no_pair(translator: Translator, wrong: Any) -> None:
    with pytest.raises(HeadwayError, match=r"give pairs of two strings, \(source, target\), not "):
        translator.score([("a", "b"), wrong])
