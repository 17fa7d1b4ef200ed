import pytest
import torch

from headway.decode import Search, decode, stream
from headway.errors import ConfigError, HeadwayError

from .tables import SPECIAL, Table

GREEDY = Search(beam_size=1, max_length=9)
SAMPLED = Search(beam_size=1, max_length=9, sample=True, seed=2, top_k=6)


def drained(generator):
    ids = []
    while True:
        try:
            ids.append(next(generator))
        except StopIteration as stop:
            return ids, stop.value


@pytest.mark.parametrize("search", [GREEDY, SAMPLED], ids=["greedy", "sample"])
@pytest.mark.parametrize("prefix", [[], [2, 3], [2] * 9], ids=len)
def test_it_is_what_decode_finds(search, prefix):
    ends = set()
    for line in range(12):
        source = torch.tensor([[line]])
        found = decode(Table(8), source, special_tokens=SPECIAL, search=search, prefixes=[prefix], line_numbers=[line])[
            0
        ][0]
        ids, hypothesis = drained(
            stream(Table(8), source, special_tokens=SPECIAL, search=search, prefix=prefix, line_number=line)
        )
        assert (prefix + ids, hypothesis) == (found.ids, found)
        ends.add(found.finished)
    assert len(prefix) == 9 or ends == {True, False}


def test_one_step_an_id():
    table = Table(8)
    generator = stream(table, None, special_tokens=SPECIAL, search=Search(beam_size=1, min_length=9), prefix=[2])
    for count in range(1, 5):
        next(generator)
        assert len(table.widths) == count
        assert torch.is_grad_enabled()
    generator.close()
    assert len(table.widths) == 4


def test_refused():
    for search in (Search(beam_size=2), Search(beam_size=1, sample=True, n_best=2)):
        with pytest.raises(
            ConfigError, match=r"only one hypothesis can be streamed\. Set beam_size = 1 and n_best = 1"
        ):
            next(stream(Table(8), None, special_tokens=SPECIAL, search=search))
    with pytest.raises(
        HeadwayError, match=r"only one row can be streamed, and the source has 2\. Give them one by one"
    ):
        next(stream(Table(8), torch.zeros(2, 1, dtype=torch.long), special_tokens=SPECIAL, search=GREEDY))
