"""Clustered attention: no other implementation installs, so it is compared with its definition, worked out in plain
loops, k-means too; with full attention at its limits; and with a second form of itself."""

from typing import Any

import pytest
import torch
from nn.building import small
from tensor_sizes import max_numel
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from headway.errors import ConfigError
from headway.nn.ops.clustered_attention import cluster_queries, clustered, dense_clustered, draw_planes
from headway.nn.transformer import Transformer, valid_mask
from parity.mixing import make_mixer, refusal, run_mixer

NEAR = {"rtol": 0.0, "atol": 1e-12}
HEADS, WIDTH = 2, 4


def some_tokens(length: int, batch: int = 2) -> list[Tensor]:
    return [torch.randn(batch, HEADS, length, WIDTH, dtype=torch.float64, requires_grad=True) for _ in range(3)]


def grouped(signs: list[list[int]], clusters: int, iterations: int) -> list[int]:
    """k-means over lists of ±1, as the docstring of `cluster_queries` says it."""

    def nearest(one: list[int]) -> int:
        differ = [sum(a != b for a, b in zip(one, centre)) for centre in centres]
        return differ.index(min(differ))

    centres = [signs[0]]
    while len(centres) < min(clusters, len(signs)):
        apart = [min(sum(a != b for a, b in zip(one, centre)) for centre in centres) for one in signs]
        centres.append(signs[apart.index(max(apart))])
    for _ in range(iterations):
        groups = [nearest(one) for one in signs]
        for j, centre in enumerate(centres):
            votes = [sum(one[bit] for one, group in zip(signs, groups) if group == j) for bit in range(len(centre))]
            centres[j] = [old if vote == 0 else (1 if vote > 0 else -1) for old, vote in zip(centre, votes)]
    return [nearest(one) for one in signs]


@pytest.mark.parametrize("iterations", [0, 1, 7])
@pytest.mark.parametrize(("length", "clusters"), [(1, 3), (13, 4), (30, 5), (9, 20)])
def test_queries_are_grouped_by_k_means(length: int, clusters: int, iterations: int) -> None:
    """Over signs, of which padding has none; groups may be numbered otherwise where there is more padding."""
    q, planes = some_tokens(length + 4, batch=1)[0], draw_planes(WIDTH, 6, seed=2)
    valid = valid_mask(torch.tensor([length]), length + 4)
    found = cluster_queries(q, planes, clusters, iterations, valid)
    assert found.groups == min(clusters, length + 4)
    for h in range(HEADS):
        signs = [[1 if x >= 0 else -1 for x in row] for row in (q[0, h, :length].float() @ planes).tolist()]
        expected = grouped(signs, clusters, iterations)
        ours = found.group_of[0, h, :length].tolist()
        assert [[a == b for b in ours] for a in ours] == [[a == b for b in expected] for a in expected]


def by_definition(q: Tensor, k: Tensor, v: Tensor, groups: list[int], top_k: int) -> Tensor:
    """(T, D) each, without padding: the weights of each query, key by key."""
    output = []
    for i, group in enumerate(groups):
        mean = torch.stack([q[t] for t, other in enumerate(groups) if other == group]).mean(0)
        weights = list((k @ mean / q.shape[1] ** 0.5).softmax(0))
        top = sorted(range(len(k)), key=lambda s: -float(weights[s].detach()))[:top_k]
        mass = sum(weights[s] for s in top)
        exact = {s: (q[i] @ k[s] / q.shape[1] ** 0.5).exp() for s in top}
        for s in top:
            weights[s] = mass * exact[s] / sum(exact.values())  # type: ignore[assignment]
        output.append(sum(weight * v[s] for s, weight in enumerate(weights)))
    return torch.stack(output)  # type: ignore[arg-type]


@pytest.mark.parametrize("top_k", [0, 3, 20])
@pytest.mark.parametrize("length", [1, 2, 9, 14])
def test_forms_equal_the_definition_with_gradients(length: int, top_k: int) -> None:
    q, k, v = some_tokens(length)
    lengths = [length, (length + 1) // 2]
    valid = valid_mask(torch.tensor(lengths), length)
    clustering = cluster_queries(q, draw_planes(WIDTH, 8, seed=0), 3, 5, valid)
    towards = torch.randn_like(v) * valid[:, None, :, None]
    results = []
    for output in (
        dense_clustered(q, k, v, clustering, top_k, valid)[0],
        clustered(q, k, v, clustering, top_k, valid),
    ):
        loss = (output * towards).sum()
        results.append((output * valid[:, None, :, None], *torch.autograd.grad(loss, (q, k, v))))
    expected = torch.zeros_like(v)
    for b, real in enumerate(lengths):
        for h in range(HEADS):
            groups = clustering.group_of[b, h, :real].tolist()
            expected[b, h, :real] = by_definition(*(x[b, h, :real] for x in (q, k, v)), groups, top_k)
    theirs = (expected, *torch.autograd.grad((expected * towards).sum(), (q, k, v)))
    for ours in results:
        torch.testing.assert_close(ours, theirs, **NEAR)


def full(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


@torch.no_grad()
def test_its_limits_are_full_attention() -> None:
    """As many clusters as queries, or as different ones among them; as many exact keys as keys."""
    q, k, v = some_tokens(12)
    planes = draw_planes(WIDTH, 64, seed=0)
    each = cluster_queries(q, planes, 12, 10, None)
    assert all(len(groups.unique()) == 12 for groups in each.group_of.flatten(0, 1)), "all signs differ"
    torch.testing.assert_close(clustered(q, k, v, each, 0), full(q, k, v), **NEAR)
    torch.testing.assert_close(clustered(q, k, v, each, 5), full(q, k, v), **NEAR)
    few = cluster_queries(q, planes, 2, 10, None)
    torch.testing.assert_close(clustered(q, k, v, few, 12), full(q, k, v), **NEAR)
    assert not torch.allclose(clustered(q, k, v, few, 0), full(q, k, v), atol=1e-2)
    alike = q[:, :, :3].repeat(1, 1, 4, 1)
    three = cluster_queries(alike, planes, 3, 10, None)
    torch.testing.assert_close(clustered(alike, k, v, three, 0), full(alike, k, v), **NEAR)


@torch.no_grad()
def test_exact_keys_bring_it_nearer() -> None:
    """What the paper proves: the improved form is never further from full attention, in the sum of all weights."""
    q, k, v = (2 * x for x in some_tokens(60))
    clustering = cluster_queries(q, draw_planes(WIDTH, 32, seed=0), 6, 10, None)
    exact = (q @ k.mT / 2).softmax(-1)
    distances = [(dense_clustered(q, k, v, clustering, top_k)[1] - exact).abs().sum(-1) for top_k in (0, 5, 20)]
    assert (distances[1] <= distances[0] + 1e-12).all() and (distances[2] <= distances[0] + 1e-12).all()
    assert distances[0].mean() > 1.3 * distances[1].mean() > 1.3 * distances[2].mean()


@pytest.mark.parametrize("length", [1, 5, 10])
@torch.no_grad()
def test_padding_and_neighbours_change_nothing(length: int) -> None:
    q, k, v = some_tokens(23, batch=3)
    planes = draw_planes(WIDTH, 16, seed=0)
    alone = [x[:1, :, :length] for x in (q, k, v)]
    expected = clustered(*alone, cluster_queries(alone[0], planes, 6, 4, None), 3)
    for longer in (length, 12, 23):
        valid = valid_mask(torch.tensor([length, longer, 1]), longer)
        ours = [x[:, :, :longer] for x in (q, k, v)]
        found = clustered(*ours, cluster_queries(ours[0], planes, 6, 4, valid), 3, valid)
        torch.testing.assert_close(found[:1, :, :length], expected, **NEAR)


def test_the_seed_decides() -> None:
    assert torch.equal(draw_planes(8, 5, seed=1), draw_planes(8, 5, seed=1))
    assert not torch.equal(draw_planes(8, 5, seed=1), draw_planes(8, 5, seed=2))
    torch.manual_seed(1)  # the seed of the model's weights is another one
    one, other = (make_mixer("clustered(2, 4, seed=3)", 8, "encoder") for _ in range(2))
    assert torch.equal(one.planes, other.planes) and "planes" not in one.state_dict()  # type: ignore[arg-type]


@pytest.mark.parametrize("top_k", [0, 3])
@torch.no_grad()
def test_a_trace_shows_weights_and_groups(top_k: int) -> None:
    module: Any = make_mixer(f"clustered(2, 3, {top_k})", 8, "encoder")
    x, valid = torch.randn(2, 11, 8, dtype=torch.float64), valid_mask(torch.tensor([11, 6]), 11)
    output, trace = run_mixer(module, x, valid=valid)
    weights, groups = trace["weights"], trace["group"]
    assert weights.shape == (2, 2, 11, 11) and (weights >= 0).all() and (weights[1, :, :, 6:] == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 11, dtype=torch.float64), **NEAR)
    torch.testing.assert_close(module.output((weights @ trace["v"]).transpose(1, 2).flatten(2)), output, **NEAR)
    assert groups.shape == (2, 2, 11) and groups.unique().tolist() == [0, 1, 2]


@pytest.mark.parametrize("mixer", ["clustered(4, 3, 0)", "clustered(4, 30, 9, 16, 3, d_k=6, d_v=3)"])
@pytest.mark.parametrize("length", [1, 7, 40])
def test_costs_are_those_of_the_built_model(length: int, mixer: str) -> None:
    built = Transformer(small(encoder={"mixer": mixer}, decoder=0)).eval()
    assert built.config.parameter_count() == sum(p.numel() for p in built.parameters())
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        built.logits(built.encode(torch.zeros(1, length, dtype=torch.long)).values)
    assert built.config.forward_flops(length, 0) == counter.get_total_flops()


def test_memory_grows_with_the_text() -> None:
    def largest(length: int) -> int:
        q, k, v = (torch.randn(1, 2, length, 4, requires_grad=True) for _ in range(3))
        planes = draw_planes(4, 16, seed=0)
        return max_numel(lambda: clustered(q, k, v, cluster_queries(q, planes, 10, 2, None), 8))

    assert largest(2048) == 2 * largest(1024) == 2 * 2048 * 8 * 4  # heads, queries, keys of each, width


@torch.no_grad()
def test_bfloat16_is_finite_and_near() -> None:
    q, k, v = (x.detach().float() for x in some_tokens(50))
    clustering = cluster_queries(q, draw_planes(WIDTH, 32, seed=0), 6, 4, None)
    for top_k in (0, 50):  # with some of the keys, rounding may choose others
        exact = clustered(q, k, v, clustering, top_k)
        rounded = clustered(q.bfloat16(), k.bfloat16(), v.bfloat16(), clustering, top_k).float()
        assert (rounded - exact).norm() < 0.02 * exact.norm()
    model = Transformer(small(encoder={"mixer": "clustered(4, 5, 3)", "position": "rope"}, decoder=0)).eval()
    assert model.bfloat16().encode(torch.randint(29, (2, 30))).values.isfinite().all()


@pytest.mark.parametrize(
    ("mixer", "slots", "where", "says"),
    [
        ("clustered(4)", {"side": "decoder"}, "decoder.mask", "in which later queries are too"),
        ("clustered(4)", {"mask": "local(3)"}, "encoder.mask", r'only the mask "full", not "local\(3\)"'),
        ("clustered(4)", {"position": "alibi"}, "encoder.position", "queries attend in groups here"),
        ("clustered(4, d_k=3)", {"position": "rope"}, "encoder.position", "d_k must be even"),
        ("clustered(3)", {}, "encoder.mixer.heads", "not a multiple of 3 heads"),
    ],
)
def test_what_it_cannot_do_is_refused(mixer: str, slots: dict[str, Any], where: str, says: str) -> None:
    error = refusal(mixer, **{"side": "encoder", **slots})
    assert error.where == where
    with pytest.raises(ConfigError, match=says):
        raise error


def test_it_has_no_cross_attention() -> None:
    with pytest.raises(ConfigError, match="clustered has no cross-attention"):
        small(decoder={"cross": "clustered(4)"}).resolved()
