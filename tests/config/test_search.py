import subprocess
import sys

import pytest

from headway.config.schema import from_dict
from headway.decode import Search
from headway.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "where", "words"),
    [
        (
            {"n_best": 5},
            "n_best",
            "5 is more than beam_size = 4: a beam finds at most that many hypotheses. Set beam_size = 5 or more.",
        ),
        (
            {"sample": True},
            "beam_size",
            "sampling has no beam, and this is 4. Set beam_size = 1; n_best is the number of samples",
        ),
        ({"sample": True, "beam_size": 1, "temperature": 0}, "temperature", "Set sample = false for the most probable"),
        ({"sample": True, "beam_size": 1, "top_p": 0.0}, "top_p", "Set a value above 0, or top_k = 1."),
        ({"temperature": 0.5}, "temperature", "0.5 has no effect without sampling. Set sample = true"),
        ({"top_k": 3}, "top_k", "3 has no effect without sampling"),
        ({"top_p": 0.3}, "top_p", "0.3 has no effect without sampling"),
        (
            {"min_length": 9, "max_length": 8},
            "min_length",
            "9 is more than max_length = 8. Lower it, or raise max_length",
        ),
        ({"beam_size": 0}, "beam_size", "at least 1"),
        ({"penalty": "papre"}, "penalty", 'Did you mean "paper"?'),
        ({"max_length": -1}, "max_length", "at least 0"),
    ],
)
def test_refused(given, where, words):
    with pytest.raises(ConfigError) as error:
        from_dict(Search, given)
    assert error.value.where == where
    assert words in str(error.value)


def test_longest_output():
    assert Search().max_output_length(10) == 60
    assert Search(max_extra=5).max_output_length(10) == 15
    assert Search(max_ratio=1.5, max_extra=0).max_output_length(3) == 5
    assert Search(max_length=7).max_output_length(1000) == 7
    assert Search(min_length=80).max_output_length(10) == 80


def test_penalties():
    assert Search(alpha=0.6).score(-4.0, 7) == -4.0 / 2.0**0.6
    assert Search(alpha=0.6, penalty="power").score(-4.0, 7) == -4.0 / 7**0.6
    assert Search(alpha=0.6, penalty="none").score(-4.0, 7) == -4.0
    assert Search(alpha=0.0).score(-4.0, 7) == -4.0
    assert Search(penalty="power").score(0.0, 0) == 0.0


def test_several_draws_need_no_beam():
    assert Search(sample=True, beam_size=1, n_best=7).n_best == 7


def test_settings_and_results_need_no_torch():
    names = "d.Search(); d.SpecialTokens; d.Hypothesis; d.BeamStep"
    code = f"import sys, headway.decode as d; {names}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names():
    import headway.decode

    for name in headway.decode.__all__:
        assert getattr(headway.decode, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'beam_search'"):
        _ = headway.decode.beam_search
