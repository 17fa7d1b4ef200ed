"""Which models the contract tests run over.

Every mixer of the catalogue takes part by being there. With no line in EXAMPLES it is tried as its kind alone, with
the defaults; a line there lists the ways in which it shall be tried instead. It meets every position and every mask
(made causal) of the catalogue, except those that its Config refuses; residuals, linear layers and feed-forwards meet
the first mixer.
"""

from typing import Any, NamedTuple

import torch

from contracts.toys import in_catalogue
from headway.config import catalogue
from headway.config.schema import from_dict
from headway.errors import ConfigError
from headway.nn.transformer import Transformer

EXAMPLES = {
    "attention": ["attention(4)", "attention(4, 2)", "attention(4, 1, d_k=6, d_v=10)"],
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
    "hard_attention": ["hard_attention(4)"],
    "rwkv7": ["rwkv7(4, 3, 4, 5, 6, chunk=4)"],
    "rnn": ["rnn(hidden=12)", "rnn('lstm', kernel='math')"],
    "linear_attention": ["linear_attention(4, chunk=4)", "linear_attention(2, d_v=5, feature_map='softmax', chunk=3)"],
    "performer": ["performer(4, chunk=4)"],
    "mamba": ["mamba(d_state=3, chunk=4)", "mamba(1, 2, 1, bias=true)"],
    "ring": ["ring(4)", "ring(2, 1, slack=0)"],
}
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


class Case(NamedTuple):
    mixer: str
    position: str = "sinusoidal"
    mask: str = "causal"
    residual: str = "post"
    linear: str = "dense"
    feedforward: str = "relu(24)"

    def config(self, **changes: Any) -> Transformer.Config:
        side = self._asdict() | {"layers": 2}
        linear = side.pop("linear")
        decoder = side | {"mixer": self.mixer.split(" + ")}
        table = {"d_model": 16, "vocabulary": 29, "dropout": 0.0, "encoder": {"layers": 0}, "decoder": decoder}
        return from_dict(Transformer.Config, table | {"linear": linear} | changes)

    def model(self, dtype: torch.dtype = torch.float64, **changes: Any) -> Transformer:
        torch.manual_seed(1)
        model = Transformer(self.config(**changes))
        for parameter in model.parameters():
            if parameter.dim() == 1:  # gains and biases too, so that none of them can be forgotten
                torch.nn.init.normal_(parameter, parameter.mean().item(), 0.3)
        return model.to(dtype).eval()

    @property
    def rounds(self) -> bool:
        """Whether numbers are rounded on the way: where one lies between two, the last bit of what came before decides,
        so that float32 can jump by a whole step. In float64 nothing lies so near the middle."""
        return self.linear.startswith("bitnet")

    @property
    def allowed(self) -> bool:
        try:
            self.config().resolved()
        except ConfigError as error:
            if error.where not in ("decoder.mask", "decoder.position"):
                raise
            return False
        return True


def _all() -> list[Case]:
    masks = [
        CAUSAL_MASKS.get(kind, kind if kind == "causal" else f"causal & {kind}") for kind in catalogue.kinds("mask")
    ]
    mixers = [how for kind in catalogue.kinds("mixer") for how in EXAMPLES.get(kind, [kind])]
    cases = [
        Case(mixer, position, mask) for mixer in mixers for position in catalogue.kinds("position") for mask in masks
    ]
    return [
        *(case for case in cases if case.allowed),
        *(Case(mixers[0], residual=kind) for kind in catalogue.kinds("residual")),
        *(Case(mixers[0], feedforward=kind) for kind in catalogue.kinds("feedforward")),
        Case("attention(4, kernel='math')", "alibi"),
        Case("attention(4) + ring(4)", "rope", "causal & local(3)", "pre"),
        Case("decay + attention(4, 2)", "learned", "causal", "residual_dual"),
        *(Case(mixers[0], linear=kind) for kind in catalogue.kinds("linear") if kind != "dense"),
        Case("decay + attention(4, 2)", "learned", "causal", "pre", "bitnet(norm='rmsnorm')"),
    ]


def _few(cases: list[Case]) -> list[Case]:
    """Every position and every mask of each kind of mixer, and each form of it at least once, but not all of their
    pairs: those meet in test_combinations.py."""
    few: list[Case] = []
    seen: set[tuple[str, ...]] = set()
    places = {case: index for index, case in enumerate(cases)}
    for case in sorted(cases, key=lambda case: (case.mixer, places[case] % 6)):  # steps through both at once
        kind = case.mixer.rpartition(" + ")[2].partition("(")[0]
        new = {(case.mixer,), *((kind, value) for value in case[1:])} - seen
        if new:
            few.append(case)
        seen |= new
    return few


with in_catalogue():
    ALL = _all()
    FEW = _few(ALL)


def named(case: Case) -> str:
    return (
        ", ".join(case)
        .removesuffix(", relu(24)")
        .removesuffix(", dense")
        .replace("attention(4, 1, d_k=6, d_v=10)", "attention(wide values)")
    )
