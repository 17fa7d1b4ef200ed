"""Hugging Face's Marian, GPT-2, BERT, RoFormer, Llama and Bloom, tiny and random in every parameter, give our numbers
when their weights are copied: in float64 to 1e-9 where the library computes in float64, else as near as its own
float32 steps allow."""

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from headway.nn.positions.positions import sinusoids
from headway.nn.transformer import Transformer, valid_mask
from parity import copying

LENGTHS = torch.tensor([9, 4, 6])
VALID = valid_mask(LENGTHS, 9)
EXACT = {"rtol": 1e-9, "atol": 1e-9}
NEAR = {"rtol": 1e-5, "atol": 1e-5}


def stirred(model: Any, dtype: torch.dtype = torch.float64) -> Any:
    for name, parameter in model.named_parameters():
        if "embed_positions" not in name:
            nn.init.normal_(parameter, 0.0 if parameter.dim() > 1 else 0.5, 0.25)
    return model.to(dtype).eval()


def ids() -> Tensor:
    return torch.randint(3, 40, (3, 9))


def steps(model: Transformer, ids: Tensor, state: Any) -> Tensor:
    return model.logits(torch.cat([model.decode(ids[:, t : t + 1], state=state) for t in range(ids.shape[1])], dim=1))


def marian(activation: str = "swish", scale: bool = True) -> Any:
    config = transformers.MarianConfig(
        vocab_size=40, d_model=12, encoder_layers=2, decoder_layers=3, encoder_attention_heads=3,
        decoder_attention_heads=2, encoder_ffn_dim=20, decoder_ffn_dim=24, max_position_embeddings=32,
        activation_function=activation, scale_embedding=scale, dropout=0.0, pad_token_id=0, eos_token_id=1,
        decoder_start_token_id=0, forced_eos_token_id=None,
    )  # fmt: skip
    model = stirred(transformers.MarianMTModel(config))
    for side in (model.model.encoder, model.model.decoder):
        ours = sinusoids(torch.arange(32), 12, layout="halves")
        torch.testing.assert_close(side.embed_positions.weight, ours, rtol=0, atol=1e-6)
        side.embed_positions.weight.data = ours  # they compute it in float32
    model.final_logits_bias.normal_()
    return model


@pytest.mark.parametrize(("activation", "scale"), [("swish", True), ("relu", False), ("gelu", True)])
@torch.no_grad()
def test_marian(activation: str, scale: bool) -> None:
    theirs = marian(activation, scale)
    ours = copying.from_marian(theirs)
    source, target = ids(), ids()
    logits = theirs(input_ids=source, attention_mask=VALID.long(), decoder_input_ids=target).logits
    memory = ours.encode(source, VALID)
    torch.testing.assert_close(ours.logits(ours.decode(target, memory=memory)), logits, **EXACT)
    torch.testing.assert_close(steps(ours, target, ours.new_state(3, memory)), logits, **EXACT)
    assert logits.std() > 0.1


def gpt2() -> Any:
    config = transformers.GPT2Config(
        vocab_size=40, n_embd=12, n_layer=3, n_head=3, n_positions=32, n_inner=20, layer_norm_epsilon=1e-3,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return stirred(transformers.GPT2LMHeadModel(config))


@torch.no_grad()
def test_gpt2() -> None:
    theirs = gpt2()
    ours, text = copying.from_gpt2(theirs), ids()
    logits = theirs(input_ids=text, attention_mask=VALID.long()).logits
    torch.testing.assert_close(ours.logits(ours.decode(text, VALID))[VALID], logits[VALID], **EXACT)
    torch.testing.assert_close(steps(ours, text, ours.new_state(3)), theirs(input_ids=text).logits, **EXACT)


BERT = {
    "vocab_size": 40, "hidden_size": 12, "num_hidden_layers": 3, "num_attention_heads": 3, "intermediate_size": 20,
    "max_position_embeddings": 32, "type_vocab_size": 2, "layer_norm_eps": 1e-3,
}  # fmt: skip


@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
@torch.no_grad()
def test_bert_guesses_hidden_words(padded: bool) -> None:
    theirs = stirred(transformers.BertForMaskedLM(transformers.BertConfig(**BERT)))
    ours, text, segments = copying.from_bert(theirs), ids(), torch.randint(2, (3, 9))
    valid = VALID if padded else torch.ones_like(VALID)
    logits = theirs(input_ids=text, attention_mask=valid.long(), token_type_ids=segments).logits
    mine = ours.logits(ours.encode(text, valid if padded else None, segments=segments).values)
    torch.testing.assert_close(mine[valid], logits[valid], **EXACT)


@torch.no_grad()
def test_bert_judges_a_text() -> None:
    theirs = stirred(transformers.BertForSequenceClassification(transformers.BertConfig(**BERT, num_labels=5)))
    ours, text, segments = copying.from_bert(theirs), ids(), torch.randint(2, (3, 9))
    logits = theirs(input_ids=text, attention_mask=VALID.long(), token_type_ids=segments).logits
    hidden = ours.encode(text, VALID, segments=segments).values
    assert logits.shape == (3, 5)
    torch.testing.assert_close(ours.logits(hidden), logits, **EXACT)
    pooled = theirs.bert(input_ids=text, attention_mask=VALID.long(), token_type_ids=segments).pooler_output
    torch.testing.assert_close(ours.head.vector(hidden), pooled, **EXACT)


@torch.no_grad()
def test_roformer_turns_neighbouring_channels() -> None:
    theirs = stirred(transformers.RoFormerForMaskedLM(transformers.RoFormerConfig(**BERT, rotary_value=False)))
    table = theirs.roformer.encoder.embed_positions.weight
    torch.testing.assert_close(table, sinusoids(torch.arange(32), 4, layout="halves"), rtol=0, atol=1e-6)
    table.data = sinusoids(torch.arange(32), 4, layout="halves")  # they compute it in float32
    ours, text = copying.from_roformer(theirs), ids()
    logits = theirs(input_ids=text, attention_mask=VALID.long()).logits
    torch.testing.assert_close(ours.logits(ours.encode(text, VALID).values)[VALID], logits[VALID], **EXACT)


@pytest.mark.parametrize("groups", [4, 2, 1], ids=["own keys", "grouped keys", "one key head"])
@torch.no_grad()
def test_llama(groups: int) -> None:
    config = transformers.LlamaConfig(
        vocab_size=40, hidden_size=16, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=groups,
        intermediate_size=20, max_position_embeddings=32, rms_norm_eps=1e-3, rope_theta=500.0,
    )  # fmt: skip
    theirs = stirred(transformers.LlamaForCausalLM(config), torch.float32)  # its norms and angles are float32 always
    ours, text = copying.from_llama(theirs), ids()
    assert ours.config.decoder.position[0].base == 500.0
    logits = theirs(input_ids=text, attention_mask=VALID.long()).logits
    torch.testing.assert_close(ours.logits(ours.decode(text, VALID))[VALID], logits[VALID], **NEAR)
    torch.testing.assert_close(steps(ours, text, ours.new_state(3)), theirs(input_ids=text).logits, **NEAR)


@pytest.mark.parametrize("heads", [4, 3], ids=["a power of two", "between powers"])
@torch.no_grad()
def test_bloom(heads: int) -> None:
    """Bloom's slopes and the constant in its GELU have nine digits."""
    config = transformers.BloomConfig(vocab_size=40, hidden_size=12, n_layer=3, n_head=heads, layer_norm_epsilon=1e-3)
    theirs = stirred(transformers.BloomForCausalLM(config))
    ours, text = copying.from_bloom(theirs), ids()
    logits = theirs(input_ids=text, attention_mask=VALID.long()).logits
    torch.testing.assert_close(ours.logits(ours.decode(text, VALID))[VALID], logits[VALID], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(
        steps(ours, text, ours.new_state(3)), theirs(input_ids=text).logits, rtol=1e-6, atol=1e-6
    )
