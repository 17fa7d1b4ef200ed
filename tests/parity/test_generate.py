"""Our Transformer with the weights of a Hugging Face Marian, searched by our search, writes what its `generate` writes:
200 inputs, the same ids in the same order for every beam."""

import functools
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from headway.decode import Hypothesis, Search, SpecialTokens, decode
from headway.decode.reference.model import ModelStepper
from headway.nn.positions.positions import sinusoids
from parity.copying import from_marian

PAD, END = 49, 0
SPECIAL = SpecialTokens(start=PAD, end=END, suppress=(PAD,))
LONGEST = 16


@functools.cache
def marian() -> Any:
    """Random, in float64 so that rounding decides nothing. Attention that whispers and an output layer of its own keep
    it from repeating itself; its end token is raised, so that lengths differ."""
    torch.manual_seed(2)
    config = transformers.MarianConfig(
        vocab_size=PAD + 1, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64,
        scale_embedding=True, pad_token_id=PAD, decoder_start_token_id=PAD, eos_token_id=END,
        forced_eos_token_id=None, tie_word_embeddings=False,
    )  # fmt: skip
    model = transformers.MarianMTModel(config).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" in name:
                parameter.copy_(sinusoids(torch.arange(64), 32, layout="halves"))
            elif parameter.dim() == 1:
                parameter.normal_(float("norm" in name and "weight" in name), 0.2)
            else:
                parameter.normal_(0.0, 0.1 if "out_proj" in name else 0.4)
        model.model.decoder.embed_tokens.weight.normal_(0.0, 0.7)
        model.lm_head.weight.normal_(0.0, 1.0)
        model.final_logits_bias.normal_(0.0, 0.3)
        model.final_logits_bias[:, END] = 2.5
    return model


def inputs(rows: int) -> tuple[Tensor, Tensor]:
    """Random sources of 1 to 12 tokens, each closed by the end token, padded."""
    generator = torch.Generator().manual_seed(1)
    lengths, places = torch.randint(1, 13, (rows, 1), generator=generator), torch.arange(13)
    source = torch.randint(1, PAD, (rows, 13), generator=generator)
    return source.masked_fill(places == lengths, END).masked_fill(places > lengths, PAD), places <= lengths


def theirs(source: Tensor, valid: Tensor, beams: int, alpha: float) -> list[list[list[int]]]:
    how = {"early_stopping": True, "length_penalty": alpha} if beams > 1 else {}
    lines = marian().generate(
        source, attention_mask=valid.long(), num_beams=beams, num_return_sequences=beams, do_sample=False,
        bad_words_ids=[[PAD]], max_length=LONGEST + 1, **how,
    ).tolist()  # fmt: skip
    found = [[token for token in line if token not in (PAD, END)] for line in lines]
    return [found[row : row + beams] for row in range(0, len(found), beams)]


def ours(source: Tensor, valid: Tensor, search: Search) -> list[list[Hypothesis]]:
    return decode(ModelStepper(from_marian(marian())), source, valid, special_tokens=SPECIAL, search=search)


@pytest.mark.parametrize(("beams", "alpha"), [(1, 1.0), (4, 0.6), (4, 1.5), (8, 1.0)])
def test_two_hundred_inputs(beams: int, alpha: float) -> None:
    source, valid = inputs(200)
    search = Search(beam_size=beams, n_best=beams, penalty="power", alpha=alpha, max_length=LONGEST)
    found = ours(source, valid, search)
    assert [[hypothesis.ids for hypothesis in row] for row in found] == theirs(source, valid, beams, alpha)
    every = [hypothesis for row in found for hypothesis in row]
    assert len({len(hypothesis.ids) for hypothesis in every}) > 8, "lengths differ"
    assert len({tuple(hypothesis.ids) for hypothesis in every}) > 50, "and texts"
    assert {hypothesis.finished for hypothesis in every} == {True, False}


def test_whatever_the_batch() -> None:
    """In float32 too, the text does not depend on the neighbours."""
    source, valid = inputs(60)
    stepper = ModelStepper(from_marian(marian()).float())
    search = Search(beam_size=4, penalty="power", max_length=LONGEST)
    together = decode(stepper, source, valid, special_tokens=SPECIAL, search=search)
    for rows in torch.arange(60).split(7):
        cut = int(valid[rows].sum(1).max())
        apart = decode(stepper, source[rows, :cut], valid[rows, :cut], special_tokens=SPECIAL, search=search)
        assert [row[0].ids for row in apart] == [together[row][0].ids for row in rows.tolist()]
