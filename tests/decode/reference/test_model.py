"""Our Transformers as the search sees them: each step's answer is that of a whole pass, whatever prefixes were forced
and rows selected; an ensemble averages probabilities; a search over a model finds what a plain loop finds."""

import pytest
import torch
from torch import Tensor

from headway.config.schema import from_dict
from headway.decode import Search, SpecialTokens, decode
from headway.decode.reference.model import Ensemble, ModelStepper
from headway.errors import HeadwayError
from headway.nn.transformer import Transformer, valid_mask

SPECIAL = SpecialTokens(start=0, end=1)


def model(encoder: int = 1, seed: int = 0, vocabulary: int = 23) -> Transformer:
    torch.manual_seed(seed)
    side = {"mixer": "attention(2)", "feedforward": "relu(16)", "residual": "pre"}
    table = {"d_model": 12, "vocabulary": vocabulary, "encoder": side | {"layers": encoder}}
    config = from_dict(Transformer.Config, table | {"decoder": side | {"layers": 2}})
    built = Transformer(config).eval()
    with torch.no_grad():
        built.embeddings["decoder"].words.weight.mul_(4)  # sharper, so that tokens differ
    return built


def whole(built: Transformer, source: Tensor | None, ids: Tensor) -> Tensor:
    """Log-probabilities of what follows ids (T,), from one pass over this row alone."""
    memory = None if source is None else built.encode(source[None])
    return built.logits(built.decode(ids[None], memory=memory)[0, -1]).log_softmax(-1)


@pytest.mark.parametrize("encoder", [1, 0], ids=["translates", "goes on"])
@torch.no_grad()
def test_steps_are_whole_passes(encoder: int) -> None:
    built = model(encoder)
    stepper = ModelStepper(built)
    assert (stepper.vocabulary, stepper.device.type) == (23, "cpu")
    source, heard = torch.randint(23, (3, 6)), torch.tensor([6, 2, 4])
    ids, lengths = torch.randint(23, (3, 5)), torch.tensor([5, 1, 3])
    rows = [row[:n] for row, n in zip(ids, lengths)]
    sources = [row[:n] if encoder else None for row, n in zip(source, heard)]

    def check(logps: Tensor) -> None:
        assert logps.shape == (len(rows), 23) and logps.dtype == torch.float32
        for one, text, row in zip(logps, sources, rows):
            torch.testing.assert_close(one, whole(built, text, row), rtol=1e-5, atol=1e-5)

    how = (source, valid_mask(heard, 6)) if encoder else (None, None)
    state = stepper.start(*how, 3)
    check(stepper.step(state, ids, valid_mask(lengths, 5)))  # prefixes of different lengths
    for chosen in ([2, 0, 0, 1], [1, 3], [0]):
        state.select(torch.tensor(chosen))
        more = torch.randint(23, (len(chosen), 1))
        rows = [torch.cat([rows[row], token]) for row, token in zip(chosen, more)]
        sources = [sources[row] for row in chosen]
        check(stepper.step(state, more))


@torch.no_grad()
def test_answers_are_float32_whatever_the_model() -> None:
    for dtype in (torch.float64, torch.bfloat16):
        stepper = ModelStepper(model().to(dtype))
        logps = stepper.step(stepper.start(torch.tensor([[3, 4]]), None, 1), torch.tensor([[0]]))
        assert logps.dtype == torch.float32
        assert abs(logps.exp().sum() - 1) < 1e-5


@torch.no_grad()
def test_an_ensemble_is_the_mean_of_probabilities() -> None:
    models = [model(seed=seed) for seed in (1, 2, 3)]
    steppers = [ModelStepper(one) for one in models]
    ensemble = Ensemble(steppers)
    source = torch.randint(23, (2, 5))
    together, apart = ensemble.start(source, None, 2), [stepper.start(source, None, 2) for stepper in steppers]
    for rows in ([1, 0, 0], [2, 1]):
        together.select(torch.tensor(rows))
        for state in apart:
            state.select(torch.tensor(rows))
        ids = torch.randint(23, (len(rows), 1))
        each = [stepper.step(state, ids).double().exp() for stepper, state in zip(steppers, apart)]
        mean = torch.stack(each).mean(0)
        torch.testing.assert_close(ensemble.step(together, ids).double().exp(), mean, rtol=1e-5, atol=1e-7)
        assert not torch.allclose(mean, each[0], atol=1e-2)


def test_an_ensemble_needs_one_vocabulary() -> None:
    with pytest.raises(HeadwayError, match="vocabularies of 23 and 29"):
        Ensemble([ModelStepper(model()), ModelStepper(model(vocabulary=29))])
    with pytest.raises(HeadwayError, match="no model"):
        Ensemble([])


@pytest.mark.parametrize("encoder", [1, 0], ids=["translates", "goes on"])
@torch.no_grad()
def test_greedy_search_is_the_plain_loop(encoder: int) -> None:
    built = model(encoder)
    source = torch.randint(2, 23, (6, 5)) if encoder else None
    prefixes = [[5, 6, 7][: row % 4] for row in range(6)]
    found = decode(
        ModelStepper(built), source, special_tokens=SPECIAL, search=Search(beam_size=1, max_length=9), prefixes=prefixes
    )
    for row, (hypothesis, *_) in enumerate(found):
        ids, logps = [0, *prefixes[row]], []
        while len(ids) < 10 and ids[-1] != 1:
            answer = whole(built, None if source is None else source[row], torch.tensor(ids))
            logps.append(answer.max().item())
            ids.append(int(answer.argmax()))
        assert hypothesis.ids == [token for token in ids[1:] if token != 1]
        assert hypothesis.token_logps == pytest.approx(logps, abs=1e-4)
    assert found[0][0].ids != found[1][0].ids


@torch.no_grad()
def test_an_ensemble_of_twins_is_one_of_them() -> None:
    built = model()
    source, search = torch.randint(2, 23, (8, 5)), Search(beam_size=4, n_best=4, max_length=8)
    one = decode(ModelStepper(built), source, special_tokens=SPECIAL, search=search)
    two = decode(Ensemble([ModelStepper(built), ModelStepper(built)]), source, special_tokens=SPECIAL, search=search)
    assert [[h.ids for h in row] for row in one] == [[h.ids for h in row] for row in two]
