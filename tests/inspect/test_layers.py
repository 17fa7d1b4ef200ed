"""Through a layer: every number equals a naive computation from the model's weights."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from nn.building import small, with_kind
from torch import Tensor

from headway.config import catalogue
from headway.errors import HeadwayError
from headway.inspect.layers import (
    NormNumbers,
    measure_stream,
    read_embedding,
    read_end,
    read_layer,
    read_sublayer,
    stream_names,
    sublayer_paths,
)
from headway.inspect.neurons import compute_activations, read_neuron, read_neurons, read_router
from headway.inspect.operations import list_operations
from headway.inspect.output_scores import logit_lens, output_side, read_loss, read_output
from headway.inspect.tracer import trace_forward
from headway.nn.ops.cross_entropy import naive as naive_cross_entropy
from headway.nn.transformer import Transformer

SOURCE, TARGET = [5, 6, 7, 11, 2], [1, 8, 9, 10]
MODELS: dict[str, dict[str, Any]] = {
    "post": {},
    "pre, untied": {"sides": {"residual": "pre"}, "embedding": {"tied": "none"}, "head": "logits(bias=True)"},
    "swiglu, rmsnorm": {"sides": {"residual": "pre", "feedforward": "swiglu(24)"}, "norm": "rmsnorm"},
    "experts": {"sides": {"residual": "pre", "feedforward": "moe(4, 2, expert='relu(12)')"}},
    "switch": {"sides": {"feedforward": "moe(3, 1)"}},
    "decoder-only": {"encoder": 0, "sides": {"residual": "pre"}, "head": "logits(scale=0.25)"},
    "encoder-only": {"decoder": 0, "head": "masked", "embedding": {"norm": True, "segments": 2}},
    "deepnorm": {"sides": {"residual": "deepnorm"}},
    "two streams": {"sides": {"residual": "residual_dual"}},
    "crate": {"sides": {"residual": "crate", "feedforward": "ista"}},
    "shared weights": {"sides": {"distinct_layers": 1, "residual": "pre"}},
}
KINDS = [entry for entry in catalogue.CATALOGUE if entry.slot in ("residual", "norm", "feedforward", "memory_tokens")]


def traced(config: Transformer.Config) -> tuple[Transformer, dict[str, Tensor]]:
    """A model with random weights, and what it computes."""
    model = Transformer(config).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.add_(0.3 * torch.randn_like(parameter))
    sides = model.config.sides
    return model, trace_forward(model, SOURCE if "encoder" in sides else [], TARGET if "decoder" in sides else [])


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(found, expected.float(), rtol=1e-5, atol=tolerance)


def normalise(norm: NormNumbers) -> Tensor:
    """The formula that the page prints, from the numbers that it prints."""
    if norm.variance is None or norm.gain is None:
        return norm.x
    per_group = len(norm.x) // len(norm.variance)
    mean = 0.0 if norm.mean is None else norm.mean.repeat_interleave(per_group)
    y = (norm.x - mean) / (norm.variance.repeat_interleave(per_group) + norm.eps).sqrt() * norm.gain
    return y if norm.bias is None else y + norm.bias


@pytest.mark.parametrize("name", MODELS)
def test_sublayers_follow_from_the_weights(name: str) -> None:
    """Each sub-layer, with the model's modules called one by one on the stream."""
    model, tensors = traced(small(**MODELS[name]))
    for path in sublayer_paths(tensors):
        side, layer, sub = path.split(".")
        block = model.stacks[side].layer_blocks[int(layer)]  # type: ignore[union-attr, operator]
        residual = block.residuals[sub]
        for position in (0, 2):
            found = read_sublayer(model, tensors, path, position)
            x = found.stream_before
            if MODELS[name].get("sides", {}).get("residual") in ("pre", "crate"):
                close(found.input, residual.norm(x))
            else:
                close(found.input, x)
            close(found.stream, tensors[f"{path}.stream"][position])
            start = found.input if found.norm_place == "replaces" else found.weight * x
            close(found.sum, start + found.output)
            close(found.stream, residual.norm(found.sum) if found.norm_place == "after" else found.sum)
            assert found.norm is not None
            close(normalise(found.norm), found.norm.y)
            close(found.norm.y, found.stream if found.norm_place == "after" else found.input)


@pytest.mark.parametrize("name", MODELS)
def test_embedding_and_end(name: str) -> None:
    model, tensors = traced(small(**MODELS[name]))
    for side in model.config.sides:
        ids = SOURCE if side == "encoder" else TARGET
        found = read_embedding(model, tensors, side, ids, 2)
        total = found.row * found.scale
        total = sum((part for part in (found.segment, found.position) if part is not None), total)
        if found.norm is not None:
            close(found.norm.x, total)
            close(normalise(found.norm), found.norm.y)
            total = found.norm.y
        close(total, found.embedded)
        end = read_end(model, tensors, side, 1)
        if side == output_side(model):
            close(end.hidden, tensors["output.hidden"][1])
        last = tensors[stream_names(tensors, side)[-1]][1]
        if end.norm is None:
            close(end.hidden, last)
        else:
            close(normalise(end.norm), end.norm.y)
            close(end.hidden, end.norm.y + last if name == "two streams" else end.norm.y)
        stages = measure_stream(tensors, side)
        assert stages.names == [
            f"{side}.embedded",
            *(path for path in sublayer_paths(tensors) if path.startswith(side)),
        ]
        close(stages.lengths[0], tensors[f"{side}.embedded"].norm(dim=-1))
        close(stages.lengths[-1], tensors[stream_names(tensors, side)[-1]].norm(dim=-1))


@pytest.mark.parametrize("name", MODELS)
def test_operations_lead_from_one_to_the_next(name: str) -> None:
    """Each equals the same operation in the other functions, for every token."""
    model, tensors = traced(small(**MODELS[name]))
    for side in model.config.sides:
        ids = SOURCE if side == "encoder" else TARGET
        found = list_operations(model, tensors, side, ids)
        by_name = {operation.name: operation for operation in found}
        assert len(by_name) == len(found)
        for position in range(len(ids)):
            start = read_embedding(model, tensors, side, ids, position)
            total = start.row * start.scale
            if start.segment is not None:
                total = total + start.segment
            close(by_name[f"{side}.embedding"].result[position], total)
            if start.position is not None:
                close(by_name[f"{side}.position"].result[position], total + start.position)
            behind = next(n for n, operation in enumerate(found) if operation.kind in ("self", "feedforward"))
            if found[behind - 1].name.endswith(".0.self.norm"):
                behind -= 1
            close(found[behind - 1].result[position], start.embedded)
            for path in (path for path in sublayer_paths(tensors) if path.startswith(side)):
                sub = read_sublayer(model, tensors, path, position)
                close(by_name[path].result[position], sub.output)
                close(by_name[f"{path}.add"].result[position], sub.sum)
                close(by_name[f"{path}.norm"].result[position], sub.stream if sub.norm_place == "after" else sub.input)
                order = [operation.kind for operation in found if operation.name.startswith(path)]
                work = path.rpartition(".")[2]
                after = [work, "add", "norm"]
                assert order == (after if sub.norm_place == "after" else ["norm", work, "add"])
            end = read_end(model, tensors, side, position)
            close(found[-1].result[position], end.hidden)
            assert (found[-1].name == f"{side}.end.norm") == (end.norm is not None)


def naive_neurons(feedforward: Any, kind: str, x: Tensor) -> Tensor:
    if kind == "swiglu":
        return F.silu(x @ feedforward.gate.weight.T) * (x @ feedforward.inner.weight.T)
    return F.relu(x @ feedforward.inner.weight.T + feedforward.inner.bias)


@pytest.mark.parametrize("name", ["post", "swiglu, rmsnorm", "experts", "switch", "encoder-only", "shared weights"])
def test_neurons_and_experts(name: str) -> None:
    model, tensors = traced(small(**MODELS[name]))
    path = f"{output_side(model)}.1.feedforward"
    feedforward: Any = model.stacks[output_side(model)].layer_blocks[1].sublayers["feedforward"]  # type: ignore
    x, position = tensors[f"{path}.input"], 3
    router = read_router(tensors, path)
    kind = "swiglu" if name.startswith("sw") else "relu"
    if router is None:
        expert, tokens, alone = None, list(range(len(x))), feedforward
        close(
            naive_neurons(feedforward, kind, x) @ feedforward.outer.weight.T,
            tensors[f"{path}.output"] - (0 if feedforward.outer.bias is None else feedforward.outer.bias),
        )
    else:
        scores = x @ feedforward.router.weight.T
        close(router.probabilities, scores.softmax(-1))
        assert router.chosen.tolist() == scores.topk(router.chosen.shape[1]).indices.tolist()
        expert = int(router.chosen[position, -1])
        tokens = [n for n, chosen in enumerate(router.chosen.tolist()) if expert in chosen]
        alone = feedforward.experts[expert]
        outputs = torch.stack([one(x[None], None)[0] for one in feedforward.experts], 1)  # (T, E, d)
        mixed = (router.shares[..., None] * outputs.gather(1, router.chosen[..., None].expand(-1, -1, 16))).sum(1)
        close(mixed, tensors[f"{path}.output"])
    expected = naive_neurons(alone, kind, x)
    found = read_neurons(model, tensors, path, position, top=5, expert=expert)
    assert found is not None
    assert (found.expert, found.width) == (expert, expected.shape[1])
    assert found.active == int((expected[position] != 0).sum())
    assert found.ids == expected[position].abs().topk(5).indices.tolist()
    close(torch.tensor(found.values), expected[position, found.ids])
    assert found.before is not None
    close(torch.tensor(found.before), (alone.inner(x))[position, found.ids])
    assert (found.gates is None) == (kind == "relu")
    told = read_neuron(model, tensors, path, found.ids[0], expert)
    assert [n for n, value in enumerate(told) if value is not None] == tokens
    close(torch.tensor([value for value in told if value is not None]), expected[tokens, found.ids[0]])
    if router is not None and expert is not None:  # without an expert it is that with the largest share
        best = read_neurons(model, tensors, path, position)
        assert best is not None
        assert best.expert == int(router.chosen[position, 0])
        others = [n for n in range(len(x)) if n not in tokens]
        assert not others or read_neurons(model, tensors, path, others[0], expert=expert) is None


@pytest.mark.parametrize("name", MODELS)
def test_output_scores_and_the_logit_lens(name: str) -> None:
    """By the weights: x · row + bias, its softmax at each temperature; after the last layer the lens is the model."""
    model, tensors = traced(small(**MODELS[name]))
    side, position = output_side(model), 2
    logps = tensors["output.logps"]
    found = read_output(model, tensors, position, top=4, asked=int(logps[position].argmin()))
    assert found.ids == [*logps[position].topk(4).indices.tolist(), int(logps[position].argmin())]
    weight = model.embeddings[side].table.weight if MODELS[name].get("embedding", {}).get("tied") != "none" else None  # type: ignore
    weight = model.head.weight if weight is None else weight
    hidden: Any = tensors["output.hidden"][position]
    if name == "encoder-only":
        head: Any = model.head
        hidden = head.norm(F.gelu(head.transform(hidden)))
    hidden = hidden * (0.25 if name == "decoder-only" else 1)
    bias = getattr(model.head, "bias", None) if name != "encoder-only" else model.head.logits.bias  # type: ignore
    logits = hidden @ weight.T + (0 if bias is None else bias)
    close(found.x, hidden)
    close(found.logits, logits[found.ids], 1e-4)
    close((found.rows @ found.x) + (0 if found.bias is None else found.bias), found.logits, 1e-4)
    close(found.logps, logps[position, found.ids], 1e-5)
    for temperature in (0.1, 1.0, 2.5):
        expected = (logits / temperature).softmax(-1)
        close((found.logits / temperature - found.normalisers[temperature]).exp(), expected[found.ids], 1e-4)
        entropy = -(expected * expected.clamp(min=1e-30).log()).sum()
        assert found.entropies[temperature] == pytest.approx(float(entropy), abs=1e-3)
    loss = read_loss(model, tensors, position, right=3, smoothing=0.1)
    whole = naive_cross_entropy(hidden[None], weight, bias, torch.tensor([3]), 0.1)
    assert loss.loss == pytest.approx(float(whole), rel=1e-5)
    assert loss.right + 28 * loss.others == pytest.approx(1)
    stages = logit_lens(model, tensors, range(len(logps)), [3, None, 5], top=3)
    assert [stage.name for stage in stages] == [f"{side}.embedded", f"{side}.0", f"{side}.1"]
    best = logps.topk(3)
    close(stages[-1].logps, best.values)
    assert stages[-1].ids == best.indices.tolist()
    assert stages[-1].expected[0] == pytest.approx(float(logps[0, 3]), abs=1e-5)
    assert stages[-1].ranks[:2] == [int((logps[0] > logps[0, 3]).sum()) + 1, 0]
    first = tensors[f"{side}.0.feedforward.stream"]
    if name in ("pre, untied", "decoder-only", "shared weights"):  # in the middle: the last norm, applied early
        normed: Any = model.stacks[side].ends.norm(first)  # type: ignore
        close(stages[1].logps, model.logits(normed).log_softmax(-1).topk(3).values)
    elif name == "post":
        close(stages[1].logps, model.logits(first).log_softmax(-1).topk(3).values)


@pytest.mark.parametrize("entry", KINDS, ids=lambda entry: f"{entry.slot}-{entry.kind}")
def test_every_kind_of_the_catalogue_is_read(entry: catalogue.Entry) -> None:
    """Norms, residual connections, feed-forwards and memory tokens in all layers: the sums and the lens hold."""
    model, tensors = traced(with_kind(entry))
    for path in sublayer_paths(tensors):
        found = read_sublayer(model, tensors, path, 1)
        assert found.norm_place != "none"
        assert found.norm is not None
        if (entry.slot, entry.kind) != ("norm", "none"):
            close(normalise(found.norm), found.norm.y, 1e-4)
        close(found.stream, found.norm.y if found.norm_place == "after" else found.sum, 1e-4)
        if path.endswith("feedforward"):
            assert_neurons_make_the_output(model, tensors, path)
    lens = logit_lens(model, tensors, [1], top=29)
    expected = tensors["output.logps"][1].sort(descending=True).values
    close(lens[-1].logps[0], expected, 1e-5)


def assert_neurons_make_the_output(model: Transformer, tensors: Mapping[str, Tensor], path: str) -> None:
    """W₂ of the neurons is what the feed-forward said: gated behind it in RWKV, less its input in ISTA."""
    router = read_router(tensors, path)
    expert = None if router is None else int(router.chosen[0, 0])
    found = compute_activations(model, tensors, path, expert)
    assert found is not None
    side, layer, _ = path.split(".")
    module: Any = model.stacks[side].layer_blocks[int(layer)].sublayers["feedforward"]  # type: ignore
    said = tensors[f"{path}.output"]
    if router is not None:
        assert found.tokens
        return
    if f"{path}.code" in tensors:
        close(found.values - tensors[f"{path}.input"], said)
    elif hasattr(module, "gate_share"):
        assert torch.equal(found.values, found.values.clamp(min=0))
    else:
        close(module.outer(found.values), said, 1e-4)


def test_what_does_not_exist_is_said() -> None:
    model, tensors = traced(small(encoder=0))
    for call, told in (
        (lambda: read_layer(model, tensors, "decoder", 7, 0), "there is no layer 7 in the decoder: it has 2"),
        (lambda: read_sublayer(model, tensors, "decoder.0.cross", 0), "this model has no sub-layer decoder.0.cross"),
        (lambda: read_sublayer(model, tensors, "decoder.0.self", 4), "there is no token 4: this side has 4 tokens"),
        (lambda: read_neuron(model, tensors, "decoder.0.feedforward", 24), "there is no neuron 24"),
    ):
        with pytest.raises(HeadwayError, match=told):
            call()
    assert list(read_layer(model, tensors, "decoder", 1, 0)) == ["self", "feedforward"]
    assert read_neurons(model, tensors, "decoder.0.cross", 0) is None
    pooled, of_pooled = traced(small(decoder=0, head="pooled"))
    with pytest.raises(HeadwayError, match="scores no tokens"):
        logit_lens(pooled, of_pooled, [0])
