"""Two streams, beside transformers' XLNet and beside their definition."""

from typing import Any

import pytest
import torch
from parity.xlnet import sinusoids_in_float64
from torch import Tensor
from transformers import XLNetConfig, XLNetLMHeadModel, XLNetModel

from headway.config.schema import from_dict
from headway.errors import ConfigError, HeadwayError
from headway.nn.context import ForwardReport
from headway.nn.sequence import FactorisationOrder
from headway.nn.transformer import Transformer
from headway.train.objectives import CausalObjective

WIDTH, HEADS, LAYERS, HIDDEN, VOCABULARY = 32, 4, 3, 64, 50
BATCH, LENGTH = 2, 9


def model_table(**decoder: Any) -> dict[str, Any]:
    own = {
        "layers": LAYERS,
        "mixer": {"kind": "attention", "heads": HEADS, "bias": False},
        "position": "transformer_xl(tied=false)",
        "feedforward": f"gelu({HIDDEN})",
        "residual": "post",
        "streams": 2,
        **decoder,
    }
    return {
        "d_model": WIDTH,
        "vocabulary": VOCABULARY,
        "dropout": 0.0,
        "norm": "layernorm(1e-12)",
        "encoder": {"layers": 0},
        "decoder": own,
        "embedding": {"scale": False},
        "head": "logits(bias=true)",
    }


def make_model(**decoder: Any) -> Transformer:
    torch.manual_seed(0)
    model = Transformer(from_dict(Transformer.Config, model_table(**decoder))).double().eval()
    for parameter in model.parameters():
        parameter.data.normal_(0.0, 0.3)
    return model


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> XLNetLMHeadModel:
    monkeypatch.setattr(XLNetModel, "positional_embedding", staticmethod(sinusoids_in_float64))
    torch.manual_seed(1)
    sizes = {"d_model": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "d_inner": HIDDEN, "vocab_size": VOCABULARY}
    model = XLNetLMHeadModel(XLNetConfig(**sizes, ff_activation="gelu", dropout=0.0, untie_r=True)).double().eval()
    for parameter in model.parameters():
        parameter.data.normal_(0.0, 0.3)
    return model


def with_weights_of(reference: XLNetLMHeadModel, **decoder: Any) -> Transformer:
    model = make_model(**decoder)
    stack: Any = model.stacks["decoder"]
    own = reference.transformer
    with torch.no_grad():
        model.output_embedding.copy_(own.word_embedding.weight)
        model.head.bias.copy_(reference.lm_loss.bias)
        stack.query_stream.start.copy_(own.mask_emb[0, 0])
        for number, (block, layer) in enumerate(zip(stack.blocks, own.layer)):
            heads = layer.rel_attn
            parts = block.sublayers
            for ours, theirs in (("query", heads.q), ("key", heads.k), ("value", heads.v)):
                parts["self"].get_submodule(ours).weight.copy_(theirs.flatten(1).T)
            parts["self"].output.weight.copy_(heads.o.flatten(1))
            stack.positions[0].project[number].weight.copy_(heads.r.flatten(1).T)
            stack.positions[0].to_keys[number, :, 0].copy_(heads.r_w_bias)
            stack.positions[0].to_distances[number, :, 0].copy_(heads.r_r_bias)
            parts["feedforward"].inner.load_state_dict(layer.ff.layer_1.state_dict())
            parts["feedforward"].outer.load_state_dict(layer.ff.layer_2.state_dict())
            for name, norm in (("self", heads.layer_norm), ("feedforward", layer.ff.layer_norm)):
                block.residuals[name].norm.gain.copy_(norm.weight)
                block.residuals[name].norm.bias.copy_(norm.bias)
    return model


def draw_order(predicted: int, length: int = LENGTH) -> FactorisationOrder:
    """A permutation for each row, whose last tokens are predicted."""
    ranks = torch.stack([torch.randperm(length) for _ in range(BATCH)])
    order = ranks.argsort(1)
    return FactorisationOrder(torch.ones(BATCH, length, dtype=torch.bool), ranks, order[:, -predicted:])


def reference_inputs(order: FactorisationOrder) -> dict[str, Tensor]:
    """perm_mask[b, i, j]: 1 where token i must not see token j; target_mapping: one row for each predicted token."""
    hidden = order.ranks[:, :, None] <= order.ranks[:, None, :]
    mapping = torch.nn.functional.one_hot(order.predicted, order.ranks.shape[1])
    return {"perm_mask": hidden.double(), "target_mapping": mapping.double()}


@pytest.mark.parametrize("predicted", [1, 3, LENGTH - 1])  # the first of all sees nothing: theirs then sees everything
def test_it_is_xlnet(reference: XLNetLMHeadModel, predicted: int) -> None:
    model = with_weights_of(reference)
    ids, order = torch.randint(VOCABULARY, (BATCH, LENGTH)), draw_order(predicted)
    with torch.no_grad():
        expected = reference(ids, **reference_inputs(order)).logits
        found = model.logits(model.decode(ids, order))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


def test_it_is_xlnet_with_a_memory(reference: XLNetLMHeadModel) -> None:
    model = with_weights_of(reference, mask=f"causal & segments({LENGTH}, {LENGTH})")
    segments = [torch.randint(VOCABULARY, (BATCH, LENGTH)) for _ in range(3)]
    orders = [draw_order(4) for _ in segments]
    state = model.new_state(BATCH, trainable=True)
    memory = None
    reference.transformer.mem_len = LENGTH
    with torch.no_grad():
        for ids, order in zip(segments, orders):
            output = reference(ids, mems=memory, use_mems=True, **reference_inputs(order))
            memory = output.mems
            found = model.logits(model.decode(ids, order, state=state))
            torch.testing.assert_close(found, output.logits, rtol=0, atol=1e-9)


def test_from_left_to_right_it_is_xlnet_under_a_triangle(reference: XLNetLMHeadModel) -> None:
    """The scores of each next token: a target behind each token, which sees what stands before it."""
    model = with_weights_of(reference)
    ids = torch.randint(VOCABULARY, (BATCH, LENGTH + 1))
    ranks = torch.arange(LENGTH + 1).expand(BATCH, -1)
    order = FactorisationOrder(torch.ones_like(ranks, dtype=torch.bool), ranks, ranks[:, 1:])
    with torch.no_grad():
        expected = reference(ids, **reference_inputs(order)).logits
        torch.testing.assert_close(model.logits(model.decode(ids, order)), expected, rtol=0, atol=1e-9)
        torch.testing.assert_close(model.logits(model.decode(ids[:, :-1])), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("position", ["transformer_xl", "rope", "sinusoidal", "learned(64)", "t5", "shaw", "none"])
@pytest.mark.parametrize("mask", ["causal", "causal & segments(4, 4)"])
def test_whole_is_stepwise(position: str, mask: str) -> None:
    model = make_model(position=position, mask=mask, residual="pre")
    ids = torch.randint(VOCABULARY, (BATCH, LENGTH))
    with torch.no_grad():
        whole = model.decode(ids)
        state = model.new_state(BATCH)
        chunks = [model.decode(part, state=state) for part in ids.split([1, 3, 1, 1, 3], 1)]
        last = model.decode(ids, last=True)
    torch.testing.assert_close(torch.cat(chunks, 1), whole, rtol=0, atol=1e-9)
    torch.testing.assert_close(last, whole[:, -1:], rtol=0, atol=1e-9)


@pytest.mark.parametrize("position", ["transformer_xl(tied=false)", "sinusoidal"])
def test_mutual_content_is_that_of_an_order_in_which_all_come_first(position: str) -> None:
    model = make_model(position=position, content="mutual")
    ids = torch.randint(VOCABULARY, (BATCH, LENGTH))
    with torch.no_grad():
        whole = model.decode(ids)
        for length in (1, 4, LENGTH):
            ranks = (torch.arange(length + 1) == length).long().expand(BATCH, -1)
            order = FactorisationOrder(torch.ones_like(ranks, dtype=torch.bool), ranks, torch.full((BATCH, 1), length))
            row = torch.nn.functional.pad(ids[:, :length], (0, 1), value=7)
            torch.testing.assert_close(whole[:, length - 1 : length], model.decode(row, order), rtol=0, atol=1e-12)
        ordered = make_model(position=position).decode(ids)
        assert (whole - ordered).abs().amax() > 1e-3
        torch.testing.assert_close(whole[:, :1], ordered[:, :1], rtol=0, atol=1e-12)


def test_with_mutual_content_whole_is_stepwise() -> None:
    model = make_model(content="mutual")
    ids = torch.randint(VOCABULARY, (BATCH, LENGTH))
    rows = torch.tensor([1, 0, 1])
    with torch.no_grad():
        whole = model.decode(ids)
        state = model.new_state(BATCH)
        found = [model.decode(ids[:, :4], state=state)]
        saved = state.snapshot()
        model.decode(ids[:, 6:8], state=state)
        state.truncate(torch.full((BATCH,), 4))
        found.append(model.decode(ids[:, 4:5], state=state))
        torch.testing.assert_close(torch.cat(found, 1), whole[:, :5], rtol=0, atol=1e-12)
        state.restore(saved)
        other = model.new_state(BATCH)
        other.load(state.tensors())
        other.detach()
        other.select(rows)
        assert other.bytes == 3 * 4 * 8
        found.append(model.decode(ids[rows, 4:], state=other, last=True))
        torch.testing.assert_close(found[-1], whole[rows, -1:], rtol=0, atol=1e-12)


def test_with_mutual_content_there_is_no_single_pass_to_trace() -> None:
    with pytest.raises(HeadwayError, match="no single pass to look into"):
        make_model(content="mutual").decode(torch.zeros(1, 3, dtype=torch.long), report=ForwardReport(trace={}))


def test_with_mutual_content_padding_changes_nothing() -> None:
    model = make_model(content="mutual")
    ids = torch.randint(VOCABULARY, (2, 6))
    valid = torch.tensor([[True] * 6, [True, True, False, True, False, False]])
    with torch.no_grad():
        state = model.new_state(2)
        padded = model.decode(ids, valid, state=state)
        alone = model.decode(ids[1:, [0, 1, 3]])
        torch.testing.assert_close(padded[1:, [0, 1, 3]], alone, rtol=0, atol=1e-12)
        more = model.decode(ids[:, :1], state=state)
        expected = model.decode(torch.cat([ids[1:, [0, 1, 3]], ids[1:, :1]], 1))
        torch.testing.assert_close(more[1], expected[0, -1:], rtol=0, atol=1e-12)


def test_a_token_is_not_seen_by_its_own_prediction() -> None:
    model = make_model()
    ids, order = torch.randint(VOCABULARY, (1, LENGTH)), draw_order(LENGTH)
    order = FactorisationOrder(*(part[:1] for part in order))
    by_rank = order.predicted[0].tolist()
    with torch.no_grad():
        before = model.decode(ids, order)
        for rank, place in enumerate(by_rank):
            changed = ids.clone()
            changed[0, place] = (ids[0, place] + 1) % VOCABULARY
            differs = (model.decode(changed, order) - before).abs().amax(-1)[0] > 1e-12
            assert differs.tolist() == [later > rank for later in range(LENGTH)]


def test_padding_changes_nothing() -> None:
    model = make_model()
    ids, order = torch.randint(VOCABULARY, (BATCH, LENGTH)), draw_order(3)
    more = torch.nn.functional.pad(ids, (0, 4), value=7)
    padded = FactorisationOrder(
        torch.nn.functional.pad(order.valid, (0, 4)), torch.nn.functional.pad(order.ranks, (0, 4)), order.predicted
    )
    with torch.no_grad():
        expected, found = model.decode(ids, order), model.decode(more, padded)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_counts_its_parameters() -> None:
    config = from_dict(Transformer.Config, model_table())
    assert config.parameter_count() == sum(p.numel() for p in Transformer(config).parameters())
    assert config.kv_bytes_per_token() > 0
    assert from_dict(Transformer.Config, model_table(content="mutual")).kv_bytes_per_token() == 0


def test_language_modelling_would_read_a_text_for_each_of_its_tokens() -> None:
    with pytest.raises(ConfigError, match="Train it by"):
        CausalObjective.Config().check(from_dict(Transformer.Config, model_table(content="mutual")))


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ({"mixer": "retention(4)", "position": "rope"}, "retention has no query stream"),
        ({"mask": "causal & local(3)"}, "distances mean nothing"),
        ({"feedforward": "rwkv_channel_mix"}, "reads the token before"),
        ({"memory_tokens": "prefix(2)"}, "without memory tokens"),
        ({"content": "mutual", "mask": "causal & segments(4, 4)"}, "there are no segments"),
        ({"content": "mutual", "streams": 1}, "this stack has one"),
        ({"content": "both"}, "content"),
    ],
)
def test_refuses(setting: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        from_dict(Transformer.Config, model_table(**setting)).resolved()


def test_an_encoder_has_one_stream() -> None:
    table = model_table()
    table["encoder"], table["decoder"] = {**table["decoder"], "mask": "full"}, {"layers": 0}
    with pytest.raises(ConfigError, match="two streams are those of a decoder"):
        from_dict(Transformer.Config, table).resolved()
