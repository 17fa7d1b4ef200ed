"""Location-based attention: by definition, a row of scores for each query and nothing of the keys; its limit."""

from pathlib import Path

import pytest
import torch
from nn.building import small

from headway.config.config import read_config
from headway.errors import ConfigError, HeadwayError
from headway.nn.transformer import Transformer, valid_mask
from headway.storage.summary import read_summary, summarise
from parity.mixing import identity, make_mixer, refusal, run_mixer

EXACT = {"rtol": 0.0, "atol": 1e-12}


def test_it_is_a_softmax_over_positions() -> None:
    """a_t = softmax(W_a h_t) over the real positions of the source, with torch's own linear layer and softmax."""
    module = make_mixer("location(1, max_positions=7, bias=false)", 6)
    module.load_state_dict(module.state_dict() | {"value.weight": identity(6), "output.weight": identity(6)})
    x, y = (torch.randn(2, length, 6, dtype=torch.float64) for length in (3, 5))
    found = run_mixer(module, x, source=y, valid=valid_mask(torch.tensor([5, 2]), 5))
    for row, length in enumerate((5, 2)):
        scores = torch.nn.functional.linear(x[row], module.score.weight)[:, :length]
        weights = torch.nn.functional.softmax(scores, dim=-1)
        torch.testing.assert_close(found.trace["weights"][row, 0, :, :length], weights, **EXACT)
        torch.testing.assert_close(found.output[row], weights @ y[row, :length], **EXACT)
        assert (found.trace["weights"][row, :, :, length:] == 0).all()


def test_what_a_key_says_does_not_change_its_weight() -> None:
    module, x = make_mixer("location(2, max_positions=9)", 8), torch.randn(1, 4, 8, dtype=torch.float64)
    one, other = (run_mixer(module, x, source=torch.randn(1, 9, 8, dtype=torch.float64)) for _ in range(2))
    assert torch.equal(one.trace["weights"], other.trace["weights"])
    assert not torch.allclose(one.output, other.output)
    hidden = run_mixer(module, x, mask="causal").trace["weights"]
    assert (hidden.triu(1) == 0).all() and torch.allclose(hidden.sum(-1), torch.ones(()).double())


def test_no_text_is_longer_than_its_scores() -> None:
    model = Transformer(small(encoder=0, decoder={"mixer": "location(4, max_positions=6)"})).eval()
    ids, valid = torch.randint(29, (2, 8)), valid_mask(torch.tensor([6, 2]), 8)
    assert model.decode(ids, valid)[valid].isfinite().all()  # padding may stand beyond it
    for given in (ids, ids[:, :7]):
        with pytest.raises(HeadwayError, match=rf"for 6 positions and was given {given.shape[1]} tokens"):
            model.decode(given)
    state = model.new_state(2)
    model.decode(ids[:, :6], state=state)
    with pytest.raises(HeadwayError, match="was given 7 tokens"):
        model.decode(ids[:, 6:7], state=state)


@pytest.mark.parametrize("slot", ["mixer", "cross"])
def test_the_limit_is_known_before_training_and_after(slot: str, tmp_path: Path) -> None:
    table = {"model": {"decoder": {slot: "location(8, max_positions=40)"}}, "train": {"max_tokens": 40}}
    config = read_config(table)
    assert summarise(config).max_positions == 40
    config.save(tmp_path / "config.json")
    summary, _ = read_summary(tmp_path) or (None, None)
    assert summary is not None and summary.max_positions == 40
    with pytest.raises(
        ConfigError, match="40 learned positions are too few for texts of train.max_tokens = 41"
    ) as caught:
        read_config(table | {"train": {"max_tokens": 41}})
    assert caught.value.where == f"model.decoder.{slot}"


@pytest.mark.parametrize("position", ["rope", "alibi"])
def test_it_refuses_what_relates_queries_to_keys(position: str) -> None:
    error = refusal("location(4)", position=position)
    assert error.where == "decoder.position"
    assert "has no keys" in error.message
