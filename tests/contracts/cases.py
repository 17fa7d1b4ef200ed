"""Which models the contract tests run over.

Every mixer of the catalogue takes part by being there. With no line in EXAMPLES it is tried as its kind alone, with
the defaults; a line there lists the ways in which it shall be tried instead. It meets positions that act in different
ways and masks (made causal) that caches treat differently, those of THOROUGH every position and every mask, except
what its Config refuses; residuals, linear layers and feed-forwards meet the first mixer.
"""

import itertools
from collections.abc import Iterator
from typing import Any

from contracts.toys import in_catalogue
from headway.config import catalogue
from headway.config.schema import config_class
from headway.contracts.cases import Case, cases_of
from headway.nn.masks.masks import make_mask

EXAMPLES = {
    "attention": [
        "attention(4)",
        "attention(4, 2)",
        "attention(4, 1, d_k=6, d_v=10)",
        "attention(4, 2, output_bias=false, qk_norm='rmsnorm', output_norm='rmsnorm')",
    ],
    "shared_kv": ["shared_kv(4)", "shared_kv(4, 2)", "attention(4) + shared_kv(4, 1)"],
    "retention": ["retention(4, chunk=4)", "retention(2, gated=true, chunk=3)"],
    "longnet": ["longnet(4, [3, 8], [1, 2])", "longnet(2, [5, 9], [1, 3], 'cyclic')"],
    "crate": ["crate(4)"],
    "gau": ["gau(8)", "gau(6, 20, divisor=9)"],
    "additive": ["additive(4)", "additive(2, d_k=3, d_v=10)"],
    "general": ["general(4)"],
    "location": ["location(4, max_positions=256)"],
    "dcmha": ["dcmha(4)", "dcmha(2, 1, hidden=5, d_k=6, d_v=3, bias=true)"],
    "ttt": ["ttt(2, mini_batch=4)", "ttt(2, inner='mlp', mini_batch=3, d_inner=6)"],
    "infini": ["infini(4, segment=2, update='learned_delta')", "infini(2, segment=3, update='linear')"],
    "lsra": ["lsra(2, 3)", "lsra(4, 5, 'light', glu=false)"],
    "linformer": ["linformer(4, 5, 64)", "linformer(2, 3, 40, 'none', d_v=3)"],
    "luong_local": ["luong_local(4, max_distance=4)", "luong_local(2, centre='monotonic', max_distance=3)"],
    "unlimiformer": ["unlimiformer(4, top_k=3)"],
    "hard_attention": ["hard_attention(4)"],
    "rwkv7": ["rwkv7(4, 3, 4, 5, 6, chunk=4)"],
    "rnn": ["rnn(hidden=12)", "rnn('lstm', kernel='math')"],
    "linear_attention": ["linear_attention(4, chunk=4)", "linear_attention(2, d_v=5, feature_map='softmax', chunk=3)"],
    "performer": ["performer(4, chunk=4)"],
    "mamba": ["mamba(d_state=3, chunk=4)", "mamba(1, 2, 1, bias=true)"],
    "reformer": ["reformer(4, 3, 4)", "reformer(2, 4, 2, rounds=1, d_v=3, bias=true)"],
    "clustered": ["clustered(4, 3, 2)", "clustered(2, 4, 0, bits=5, d_v=3)"],
    "longformer": ["longformer(4)"],
    "ring": ["ring(4)", "ring(2, 1, slack=0)"],
}
THOROUGH = ("attention", "shared_kv", "retention")  # a KV cache, a shared one, a recurrent state
CAUSAL_MASKS = {
    "full": "causal & full",
    "local": "causal & local(3)",
    "strided": "causal & strided(3)",
    "fixed": "causal & fixed(4, 1)",
    "atrous": "causal & atrous(2, 4)",
    "longformer": "causal & longformer(2, (0, 4))",
    "prefix": "causal & prefix(3)",
    "segments": "causal & segments(4, 3)",
    "bigbird": "causal & bigbird(2, random=1, max_positions=32)",
    "all": "causal & local(4) & local(2)",
    "any": "causal & (local(2) | local(4))",
}


def every_case(mixer: str) -> Iterator[Case]:
    """This mixer with everything that it accepts: many, for tests on demand."""
    pairs = itertools.product(catalogue.kinds("position"), causal_masks())
    return (case for case in (Case(mixer, *pair) for pair in pairs) if case.allowed)


def causal_masks() -> list[str]:
    kinds = catalogue.kinds("mask")
    return [CAUSAL_MASKS.get(kind, kind if kind == "causal" else f"causal & {kind}") for kind in kinds]


def one_of_each_way() -> tuple[list[str], list[str]]:
    """Positions that act in different ways, and masks that caches and kernels treat differently."""
    positions: dict[Any, str] = {}
    for kind in sorted(catalogue.kinds("position"), key=lambda kind: kind != Case("").position):
        config: Any = config_class("position", kind)
        positions.setdefault((config.applies_to, config.needs_weights), kind)
    masks: dict[Any, str] = {}
    for text in sorted(causal_masks(), key=lambda text: text != Case("").mask):
        mask = make_mask(text)
        masks.setdefault((mask.lookback is None, mask.interval is None, mask.broadcasts), text)
    return list(positions.values()), list(masks.values())


def mixer_forms() -> list[str]:
    return [how for kind in catalogue.kinds("mixer") for how in EXAMPLES.get(kind, [kind])]


def _chosen() -> list[Case]:
    """The kinds of THOROUGH with every position and every mask, the others with one of each way."""
    few = one_of_each_way()
    every = (catalogue.kinds("position"), causal_masks())
    found: list[Case] = []
    for kind in catalogue.kinds("mixer"):
        for number, form in enumerate(EXAMPLES.get(kind, [kind])):
            found += cases_of(form, *(every if kind in THOROUGH and not number else few))
    first = mixer_forms()[0]
    return [
        *found,
        *(Case(first, residual=kind) for kind in catalogue.kinds("residual")),
        *(Case(first, feedforward=kind) for kind in catalogue.kinds("feedforward")),
        Case("attention(4, kernel='math')", "alibi"),
        Case("attention(4) + ring(4)", "rope", "causal & local(3)", "pre"),
        Case("decay + attention(4, 2)", "learned", "causal", "residual_dual"),
        *(Case(first, linear=kind) for kind in catalogue.kinds("linear") if kind != "dense"),
        Case("decay + attention(4, 2)", "learned", "causal", "pre", "bitnet(norm='rmsnorm')"),
    ]


with in_catalogue():
    CASES = list(dict.fromkeys(_chosen()))


def named(case: Case) -> str:
    return (
        ", ".join(case)
        .removesuffix(", layernorm")
        .removesuffix(", relu(24)")
        .removesuffix(", dense")
        .replace("attention(4, 1, d_k=6, d_v=10)", "attention(wide values)")
    )
