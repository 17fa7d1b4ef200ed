"""A small picture of a kind, as a table of numbers: whom a mask shows, what a position does, whom a mixer hears.

The page of `headway serve` draws them in its gallery; docs/generate.py writes them, with everything else about the
kinds, to headway/serve/static/variants.json."""

from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import torch

from headway.config import catalogue
from headway.config.kind_settings import kind_settings
from headway.config.schema import config_class, from_dict
from headway.errors import ConfigError, HeadwayError
from headway.inspect.positions import position_table
from headway.nn.masks.masks import dense_mask, make_mask
from headway.nn.masks.texts import documents
from headway.nn.transformer import Transformer

LENGTH = 32  # tokens, and so rows and columns
SMALL = 6  # what a size is in a mask of so few tokens
DOCUMENT_TOKENS = 12  # of the documents in one row that show what the mask of documents does
LEVELS = 9  # the largest number of a picture, whose smallest is 0
WIDTH, MODELS = 32, 3  # of the untrained models whose mixers are heard
DRAWN_AS = {  # where neither the defaults nor small sizes show what a kind is
    ("mask", "all"): "causal & local(6)",
    ("mask", "any"): "strided(6) | local(3)",
    ("mask", "fixed"): "fixed(8, 2)",
    ("mask", "bigbird"): "bigbird(4, random=1)",
    ("mixer", "longnet"): "longnet(4, segments=[4, 8, 16], rates=[1, 2, 4])",
    ("mixer", "infini"): "infini(4, segment=8)",
    ("mixer", "reformer"): "reformer(4, chunk=4, buckets=8)",
    ("mixer", "clustered"): "clustered(4, clusters=6, top_k=4)",
}


class KindPicture(NamedTuple):
    written: str  # the part as in a config
    about: str  # "mask": which keys each query sees; "added", "scores": what a position does; "heard": by a mixer
    levels: np.ndarray  # (rows, columns) of 0 to LEVELS


def kind_picture(slot: str, kind: str) -> KindPicture | None:
    """None where there is nothing to see: no positions, a table that is not learned yet, or another slot."""
    draw = {"mask": _draw_mask, "position": _draw_position, "mixer": _draw_mixer}.get(slot)
    return draw(kind) if draw else None


def describe_kinds() -> list[dict[str, Any]]:
    """All of the catalogue, for the page."""
    described = []
    for entry in catalogue.CATALOGUE:
        settings = [list(setting) for setting in kind_settings(entry.slot, entry.kind)]
        told: dict[str, Any] = {**entry._asdict(), "names": catalogue.all_names(entry)[1:], "settings": settings}
        del told["target"]
        picture = kind_picture(entry.slot, entry.kind)
        if picture is not None:
            rows = ["".join(map(str, row)) for row in picture.levels]
            told |= {"picture": {"written": picture.written, "about": picture.about, "rows": rows}}
        described.append({name: value for name, value in told.items() if value})
    return described


def _draw_mask(kind: str) -> KindPicture:
    written = DRAWN_AS.get(("mask", kind)) or _write_small(kind)
    mask = documents(torch.arange(LENGTH)[None] // DOCUMENT_TOKENS) if kind == "document" else make_mask(written)
    return KindPicture(written, "mask", LEVELS * dense_mask(mask, LENGTH).int().numpy())


def _write_small(kind: str) -> str:
    """The mask with sizes for a short text, where its own are longer than that."""
    defaults = {spec.name: spec.default for spec in fields(config_class("mask", kind))}
    sizes = {name: size for name, size in defaults.items() if type(size) is int and not name.startswith("max_")}
    small = [f"{name}={SMALL}" for name, size in sizes.items() if size > SMALL]
    return f"{kind}({', '.join(small)})" if small else kind


def _draw_position(kind: str) -> KindPicture | None:
    try:
        table = position_table(kind, LENGTH, d_model=LENGTH, heads=2, head=2)
    except HeadwayError:
        return None
    return KindPicture(kind, "added" if table.columns == "channel" else "scores", _to_levels(table.values))


@torch.no_grad()
def _draw_mixer(kind: str) -> KindPicture | None:
    """How much another token in place of a key changes what the mixer says at a query, in untrained models."""
    written = DRAWN_AS.get(("mixer", kind), kind)
    total = np.zeros((LENGTH, LENGTH))
    with torch.random.fork_rng(devices=[]):
        for seed in range(MODELS):
            torch.manual_seed(seed)
            model = _build_around(written)
            if model is None:
                return None
            total += _listen(model)
    return KindPicture(written, "heard", _to_levels(np.log10(total / total.max() + 1e-3)))


def _build_around(mixer: str) -> Transformer | None:
    """An untrained model of one layer with this mixer: a decoder, or else an encoder, with global tokens if need be."""
    for side, mask in (("decoder", "causal"), ("encoder", "full"), ("encoder", f"longformer({SMALL})")):
        table = {
            "d_model": WIDTH,
            "vocabulary": 2 * LENGTH,
            "encoder": {"layers": 0},
            "decoder": {"layers": 0},
            side: {"layers": 1, "mixer": mixer, "mask": mask, "position": "none", "residual": "pre"},
        }
        try:
            return Transformer(from_dict(Transformer.Config, table)).eval()
        except ConfigError:
            continue
    return None


def _listen(model: Transformer) -> np.ndarray:
    side = model.config.sides[0]
    stack: Any = model.stacks[side]
    said: list[torch.Tensor] = []
    hook = stack.blocks[0].sublayers["self"].register_forward_hook(lambda module, given, output: said.append(output))
    ids = torch.randperm(LENGTH)[None]
    others = torch.where(torch.eye(LENGTH, dtype=torch.bool), LENGTH + ids, ids)  # each row with one other token
    for given in (ids, others):
        model.encode(given) if side == "encoder" else model.decode(given)
    hook.remove()
    heard: np.ndarray = (said[1] - said[0]).norm(dim=-1).T.double().numpy()  # (queries, keys)
    return heard


def _to_levels(values: np.ndarray) -> np.ndarray:
    low, high = float(values.min()), float(values.max())
    return np.rint(LEVELS * (values - low) / ((high - low) or 1.0)).astype(int)
