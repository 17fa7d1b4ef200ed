"""T5's relative positions: a whole T5, encoder and decoder, with Hugging Face's weights."""

from typing import Any

import pytest
import torch
from transformers import T5Config, T5Model
from transformers.models.t5 import modeling_t5

from headway.config.schema import from_dict
from headway.errors import ConfigError
from headway.nn.positions.t5 import distance_bucket
from headway.nn.transformer import Transformer
from parity.copying import Pouring, around, block

EXACT = {"rtol": 0.0, "atol": 1e-9}
LAYERS, HEADS, WIDTH = 3, 4, 32


@pytest.fixture(scope="module")
def theirs() -> T5Model:
    torch.manual_seed(3)
    config = T5Config(
        vocab_size=60, d_model=WIDTH, d_kv=6, d_ff=48, num_layers=LAYERS, num_decoder_layers=LAYERS, num_heads=HEADS,
        relative_attention_num_buckets=16, relative_attention_max_distance=24, dropout_rate=0.0,
        layer_norm_epsilon=1e-6,
    )  # fmt: skip
    model = T5Model(config).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, parameter.mean().item(), 0.3)
    return model


def ours_of(theirs: T5Model) -> Transformer:
    pouring = Pouring(theirs, ignored=["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"])
    pouring.ours["embeddings.decoder.words.weight"] = pouring.take("shared.weight")
    attention = {"query": "q", "key": "k", "value": "v", "output": "o"}
    for side in ("encoder", "decoder"):
        kinds = {"self": "SelfAttention"} | ({"cross": "EncDecAttention"} if side == "decoder" else {})
        table = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        pouring.ours[f"stacks.{side}.positions.0.table"] = pouring.take(table)
        for index in range(LAYERS):
            for number, (name, kind) in enumerate(kinds.items()):
                place = f"{side}.block.{index}.layer.{number}"
                pouring.linears(block(side, index, name), f"{place}.{kind}", attention)
                pouring.norm(around(side, index, name), f"{place}.layer_norm")
            place = f"{side}.block.{index}.layer.{len(kinds)}"
            pouring.linears(
                block(side, index, "feedforward"), f"{place}.DenseReluDense", {"inner": "wi", "outer": "wo"}
            )
            pouring.norm(around(side, index, "feedforward"), f"{place}.layer_norm")
        pouring.norm(f"stacks.{side}.ends.norm", f"{side}.final_layer_norm")
    stack: dict[str, Any] = {
        "layers": LAYERS, "position": "t5(16, 24)", "residual": "pre",
        "mixer": {"kind": "attention", "heads": HEADS, "d_k": 6, "bias": False, "scale": 1.0},
        "feedforward": "relu(48, bias=false)",
    }  # fmt: skip
    return pouring.into(
        {"d_model": WIDTH, "vocabulary": 60, "dropout": 0.0, "norm": "rmsnorm(1e-6)", "embedding": {"scale": False},
         "encoder": stack, "decoder": stack}
    )  # fmt: skip


def in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """Theirs takes norms and softmax in float32, whatever the weights are. That one cast is lifted."""
    to, softmax = torch.Tensor.to, torch.nn.functional.softmax

    def norm(self: Any, x: torch.Tensor) -> torch.Tensor:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)

    monkeypatch.setattr(modeling_t5.T5LayerNorm, "forward", norm)
    monkeypatch.setattr(torch.Tensor, "float", lambda x: x if x.is_floating_point() else to(x, torch.float32))
    monkeypatch.setattr(
        torch.nn.functional, "softmax", lambda x, dim=-1, dtype=None, **_: softmax(x, dim=dim, dtype=torch.float64)
    )


def test_a_whole_t5(theirs: T5Model, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = ours_of(theirs)
    source, target = torch.randint(0, 60, (3, 40)), torch.randint(0, 60, (3, 37))
    valid = torch.arange(40) < torch.tensor([40, 25, 11])[:, None]
    with torch.no_grad():
        with monkeypatch.context() as lifted:
            in_float64(lifted)
            wanted = theirs(input_ids=source, attention_mask=valid, decoder_input_ids=target)
        memory = ours.encode(source, valid)
        real = valid[..., None]
        torch.testing.assert_close(memory.values * real, wanted.encoder_last_hidden_state * real, **EXACT)
        torch.testing.assert_close(ours.decode(target, memory=memory), wanted.last_hidden_state, **EXACT)
        state = ours.new_state(3, memory)
        steps = torch.cat([ours.decode(target[:, i : i + 1], state=state) for i in range(37)], dim=1)
    torch.testing.assert_close(steps, wanted.last_hidden_state, **EXACT)


@pytest.mark.parametrize("both_ways", [False, True])
def test_buckets_are_theirs(theirs: T5Model, both_ways: bool) -> None:
    offsets = torch.arange(-3000, 3000)
    layer = theirs.encoder.block[0].layer[0].SelfAttention
    for buckets, distance in ((32, 128), (16, 24), (8, 1000)):
        wanted = layer._relative_position_bucket(offsets, both_ways, buckets, distance)
        assert torch.equal(distance_bucket(offsets, buckets, distance, both_ways), wanted)


@pytest.mark.parametrize(
    ("side", "message"),
    [
        ({"position": "t5(30)"}, "decoder.position.buckets: buckets must be a multiple of 4, not 30."),
        (
            {"position": "t5(32, 16)"},
            "decoder.position.max_distance: max_distance must be above buckets / 2 = 16, not 16.",
        ),
        (
            {"position": "t5", "mixer": ["attention(2)", "attention(4)"]},
            "decoder.position.heads: t5 is shared by all layers, but they have heads = 2 and 4. Give them the same.",
        ),
    ],
)
def test_what_cannot_be_is_refused(side: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_dict(Transformer.Config, {"d_model": 16, "decoder": {"layers": 2, **side}}).resolved()
    assert message in str(caught.value)


def test_mixers_without_heads_have_no_scores_to_bend() -> None:
    from headway.nn.positions.t5 import T5Bias

    with pytest.raises(ConfigError, match="t5 changes attention scores, and no mixer here has any"):
        T5Bias.Config().resolved(None, set())  # type: ignore[arg-type]
