import subprocess
import sys

import pytest

from headway.config.schema import from_dict
from headway.decode import Search
from headway.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "where", "words"),
    [
        ({"n_best": 5}, "n_best", "a beam of 4 finds 4 hypotheses, not 5. Set beam_size = 5 or more."),
        ({"sample": True}, "beam_size", "one hypothesis at a time, not 4. Set beam_size = 1; n_best says how many"),
        ({"sample": True, "beam_size": 1, "temperature": 0}, "temperature", "Set sample = false for the most probable"),
        ({"sample": True, "beam_size": 1, "top_p": 0.0}, "top_p", "Set a share above 0, or top_k = 1."),
        ({"temperature": 0.5}, "temperature", "0.5 has no effect without sampling. Set sample = true"),
        ({"top_k": 3}, "top_k", "3 has no effect without sampling"),
        ({"top_p": 0.3}, "top_p", "0.3 has no effect without sampling"),
        ({"min_length": 9, "max_length": 8}, "min_length", "9 is more than max_length = 8. Lower one or raise"),
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
    assert Search().limit(10) == 60
    assert Search(max_extra=5).limit(10) == 15
    assert Search(max_ratio=1.5, max_extra=0).limit(3) == 5
    assert Search(max_length=7).limit(1000) == 7
    assert Search(min_length=80).limit(10) == 80


def test_penalties():
    assert Search(alpha=0.6).score(-4.0, 7) == -4.0 / 2.0**0.6
    assert Search(alpha=0.6, penalty="power").score(-4.0, 7) == -4.0 / 7**0.6
    assert Search(alpha=0.6, penalty="none").score(-4.0, 7) == -4.0
    assert Search(alpha=0.0).score(-4.0, 7) == -4.0
    assert Search(penalty="power").score(0.0, 0) == 0.0


def test_several_draws_need_no_beam():
    assert Search(sample=True, beam_size=1, n_best=7).n_best == 7


def test_settings_and_results_need_no_torch():
    code = "import sys, headway.decode as d; d.Search(); d.Marks; d.Hypothesis; d.Choice; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names():
    import headway.decode

    for name in headway.decode.__all__:
        assert getattr(headway.decode, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'beam_search'"):
        _ = headway.decode.beam_search
